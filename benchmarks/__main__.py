"""``python -m benchmarks [PART…] [--repository PATH]``: prints measurements, side by side in one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.parts import PARTS
from benchmarks.place import place


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure (all): {', '.join(PARTS)}")
    parser.add_argument("--repository", type=Path, help="a repository with tags base and head (the demo's)")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}; parts are {', '.join(PARTS)}")
    with place(options.repository) as here:
        for name in options.parts or PARTS:
            for line in PARTS[name](here):
                print(line, flush=True)


main()
