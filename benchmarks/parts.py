"""The parts of the benchmark: each takes a place and gives a line or two of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks import action, agents, comparing, docker, grading, shipped
from benchmarks.place import Place

PARTS: Mapping[str, Callable[[Place], Iterator[str]]] = {
    "ten-thousand": comparing.ten_thousand,
    "references": grading.per_reference,
    "docker": docker.docker_overhead,
    "comparison": comparing.comparison_seconds,
    "audit": comparing.audit_rate,
    "action": action.five_edits,
    "shipped": shipped.shipped_suite,
    "agent-trial": agents.trial_overhead,
    "gateway": agents.gateway_overhead,
    "side-by-side": agents.side_by_side,
}
