"""The strategies by name, and the one that a pod asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.strategies.drain import Drain
from federation.core.devices.fleet.strategies.fgd import Fgd
from federation.core.devices.fleet.strategies.hami import Hami
from federation.core.devices.fleet.strategies.linked import Linked
from federation.core.devices.fleet.strategies.thrift import Thrift

DEFAULT = "default"

STRATEGIES: Mapping[str, Callable[[Mix], Strategy]] = {
    DEFAULT: Thrift,
    "fgd": Fgd,
    "binpack": lambda _: Hami(),
    "binpack-spread": lambda _: Hami(spread_cards=True),
    "spread": lambda _: Hami(spread_nodes=True, spread_cards=True),
    "drain-aware": lambda _: Drain(),
    "topology-aware": lambda mix: Linked(Thrift(mix)),
}
"""By name. `binpack-spread` is what HAMi's chart sets: nodes by binpack, cards by spread."""

_NODE_POLICIES: Mapping[str, Strategy] = {
    "binpack": Hami(),
    "spread": Hami(spread_nodes=True, spread_cards=True),
}


def strategy(name: str, mix: Mix) -> Strategy:
    """The strategy of that name. ValueError with the names there are."""
    if name not in STRATEGIES:
        raise ValueError(f"{name!r} is no strategy; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name](mix)


def wished(node_policy: str, otherwise: Strategy) -> Strategy:
    """What a pod's annotation asks for (HAMi's words), else the other."""
    return _NODE_POLICIES.get(node_policy, otherwise)
