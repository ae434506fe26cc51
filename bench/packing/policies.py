"""The strategies by name."""

from __future__ import annotations

from bench.packing.trace import Trace, shape
from federation.core.devices.mix import Mix
from federation.core.devices.strategies.base import Strategy
from federation.core.devices.strategies.fgd import Fgd
from federation.core.devices.strategies.strand import Strand


def strategy(policy: str, trace: Trace, mix: str) -> Strategy:
    """A strategy that knows the list's mix (`list`), or learns it from what arrives (`online`)."""
    known = Mix.of(shape(pod) for pod in trace.pods) if mix == "list" else Mix()
    return {"fgd": Fgd, "strand": Strand}[policy](known)
