"""What the gateway saw of an agent's calls, against what the agent's own program tells of them.

The program's account is written inside, where the agent's commands run too. What the model asked for
and what it was given back passed through the gateway: that is what counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refcompare.agents.model.gateway import GatewayHandle
from refcompare.agents.programs.trajectory import Call, Ending


def witnessed(calls: Sequence[Call], gateway: GatewayHandle | None) -> tuple[Call, ...]:
    """Give the calls that the model really asked for, each with the output that it was really given.

    A call that no response of the model holds is left out. One whose result was never sent to the
    model, since the run ended before, keeps the output that the program tells of. Without a gateway
    there is nothing to compare with, and all calls are given as they are.
    """
    if gateway is None:
        return tuple(calls)
    asked = {use.id: use for use in gateway.uses()}
    kept = []
    for call in calls:
        use = asked.get(call.id)
        if use is None:
            continue
        result = gateway.result(call.id)
        if result is None:
            kept.append(replace(call, name=use.name, input=use.input))
        else:
            error = call.is_error or result.is_error
            kept.append(replace(call, name=use.name, input=use.input, output=result.text, is_error=error))
    return tuple(kept)


def ending_of(gateway: GatewayHandle | None, *, timed_out: bool) -> Ending | None:
    """Give the limit that ended a run, or None where none did."""
    if gateway is not None and gateway.ending is not None:
        return gateway.ending
    return Ending.TIME if timed_out else None
