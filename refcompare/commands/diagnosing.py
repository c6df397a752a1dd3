"""``refcompare doctor``: what is installed, and whether the boundary around agents holds."""

from __future__ import annotations

import json
from typing import TextIO


def run_doctor(as_json: bool, out: TextIO) -> int:
    """Say what is installed; the status is 3 where grading can't work."""
    from refcompare import doctor

    results = doctor.diagnose()
    if as_json:
        out.write(json.dumps(doctor.render_json(results), indent=2) + "\n")
    else:
        out.write(doctor.render_text(results) + "\n")
    return 0 if doctor.ready(results) else 3


def probe_sandbox(as_json: bool, out: TextIO) -> int:
    """Try the boundary around agents; the status is 3 where a layer of it does not hold."""
    from refcompare.agents.sandbox.boundary import find_boundary
    from refcompare.agents.sandbox.probes import holds, probes, probes_value, render_probes

    results = probes(find_boundary())
    out.write(json.dumps(probes_value(results), indent=2) if as_json else render_probes(results))
    out.write("\n")
    return 0 if holds(results) else 3
