"""The strategies of the bench: those of the product, knowing what they may know."""

from __future__ import annotations

from bench.packing.trace import Trace, shape
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies import named
from federation.core.devices.fleet.strategies.base import Strategy

LIST, ONLINE = "list", "online"


def mix_of(trace: Trace, mix: str) -> Mix:
    """The mix of the list, as FGD was published with it, or one that learns from arrivals."""
    return Mix.of(shape(pod) for pod in trace.pods) if mix == LIST else Mix()


def strategy(policy: str, mix: Mix) -> Strategy:
    """The strategy of that name. ValueError if there is none."""
    return named.strategy(policy, mix)
