"""ClusterQueues as people see them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from federation.api.convert import to_cluster_queue
from federation.api.names import ConditionType
from federation.api.record import find
from federation.core.quantity import format_quantity, parse_quantity
from federation.core.quota import quotas_of
from federation.core.types import ClusterQueue

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class QuotaView:
    """One resource in one flavor, as texts (`500m`, `16Gi`). `free` counts nominal quota only."""

    flavor: str
    resource: str
    used: str
    nominal: str
    free: str


@dataclass(frozen=True, slots=True)
class QueueView:
    """A ClusterQueue. `problem` is empty while it admits."""

    name: str
    cohort: str
    strategy: str
    pending: int
    reserving: int
    admitted: int
    usage: list[QuotaView]
    problem: str


def queue_view(obj: Json) -> QueueView:
    """The view of a ClusterQueue. Raises ValueError when its quotas cannot be read."""
    queue = to_cluster_queue(obj)
    status = obj.get("status") or {}
    active = find(status, ConditionType.ACTIVE)
    return QueueView(
        name=queue.name,
        cohort=queue.cohort,
        strategy=queue.strategy.value,
        pending=status.get("pendingWorkloads", 0),
        reserving=status.get("reservingWorkloads", 0),
        admitted=status.get("admittedWorkloads", 0),
        usage=_usage(queue, status.get("flavorsReservation") or ()),
        problem=active["message"] if active and active["status"] != "True" else "",
    )


def _usage(queue: ClusterQueue, reserved: Sequence[Json]) -> list[QuotaView]:
    used = {
        (flavor["name"], resource["name"]): parse_quantity(resource["name"], resource["total"])
        for flavor in reserved
        for resource in flavor.get("resources") or ()
    }
    rows = []
    for key, quota in quotas_of(queue.groups).items():
        amount = used.get((key.flavor, key.resource), 0)
        texts = (amount, quota.nominal, max(0, quota.nominal - amount))
        rows.append(
            QuotaView(key.flavor, key.resource, *(format_quantity(key.resource, n) for n in texts))
        )
    return rows
