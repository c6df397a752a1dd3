"""``python -m benchmarks [--repository PATH]``: prints every measurement, side by side in one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.measure import audit_rate, comparison_seconds, per_reference, ten_thousand, tests_of
from benchmarks.suites_to_measure import repository


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--repository", type=Path, help="a repository with tags base and head (the demo's)")
    parser.add_argument("--sample", type=int, default=12, help="tests that are also run on a site made anew")
    options = parser.parse_args()
    for line in ten_thousand():
        print(line, flush=True)
    with repository(options.repository) as (place, base, head):
        for line in per_reference(tests_of(place, head), options.sample):
            print(line, flush=True)
        for line in comparison_seconds(place, base, head):
            print(line, flush=True)
        for line in audit_rate(place, head):
            print(line, flush=True)


main()
