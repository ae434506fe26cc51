"""What the strategies of the bench may know of the arrivals."""

from __future__ import annotations

from bench.packing.trace import Trace, shape
from federation.core.devices.fleet.mix import Mix

LIST, ONLINE = "list", "online"


def mix_of(trace: Trace, mix: str) -> Mix:
    """The mix of the list, as FGD was published with it, or one that learns from arrivals."""
    return Mix.of(shape(pod) for pod in trace.pods) if mix == LIST else Mix()
