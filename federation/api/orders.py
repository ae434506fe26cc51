"""What operators order of clusters and jobs, by annotations that `fedq` writes for them.

Annotations keep an order through restarts and show who gave it in the audit log; anybody who may
change the object may give it with kubectl too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.api.epochs import read_epoch
from federation.api.names import Order, Trait

NO_AGENT = "none"
GRACEFUL = "graceful"
NOW = "now"


@dataclass(frozen=True, slots=True)
class ClusterOrders:
    """Orders about one cluster. `cordon` says why it gets no new work ('' if it does); `drain` is
    '', `graceful` or `now`; `confirms` is whether a fence is confirmed: all that was bound in
    epochs below `confirmed_below` is dead (0: it names none).
    """

    cordon: str = ""
    drain: str = ""
    confirms: bool = False
    confirmed_below: int = 0


NO_ORDERS = ClusterOrders()


def cluster_orders(obj: Mapping[str, Any]) -> ClusterOrders:
    """Read them from a MultiKueueCluster. A value that makes no sense orders nothing, except that
    a `drain` that is not known counts as a cordon.
    """
    notes = obj["metadata"].get("annotations")
    if not notes:
        return NO_ORDERS
    drain = notes.get(Order.DRAIN.value, "")
    cordon = notes.get(Order.CORDON.value, "")
    if Order.CORDON.value in notes or drain:
        cordon = cordon or "cordoned"
    drain = drain if drain in (GRACEFUL, NOW) else ""
    key = Order.FENCE_CONFIRMED.value
    return ClusterOrders(cordon, drain, key in notes, read_epoch(notes.get(key, "")))


def without_agent(obj: Mapping[str, Any]) -> bool:
    """Whether a MultiKueueCluster is run by plain Kueue. That is said, and never guessed: an agent
    that has yet to start looks the same.
    """
    notes = obj["metadata"].get("annotations") or {}
    return bool(notes.get(Trait.AGENT.value) == NO_AGENT)


def move_target(obj: Mapping[str, Any]) -> str:
    """The cluster that a Workload is to run on by order; '' if none was given."""
    return str((obj["metadata"].get("annotations") or {}).get(Order.MOVE_TO.value, ""))
