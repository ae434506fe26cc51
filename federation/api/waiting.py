"""status.fedq.waiting of a Workload: why it has no quota, in numbers."""

from __future__ import annotations

from typing import Any

from federation.core.quantity import format_quantity
from federation.core.why import Explanation, Shortage

Json = dict[str, Any]


def write_waiting(why: Explanation) -> Json:
    """The field; each list is complete, so that it replaces the one before."""
    return {
        "reason": why.reason,
        "requeue": why.requeue,
        "shortages": [_shortage(shortage) for shortage in why.shortages],
        "hint": why.hint,
    }


def _shortage(shortage: Shortage) -> Json:
    def amount(number: int) -> str:
        return format_quantity(shortage.resource, number)

    return {
        "podSet": shortage.pod_set,
        "flavor": shortage.flavor,
        "resource": shortage.resource,
        "needed": amount(shortage.needed),
        "free": amount(shortage.free),
        "borrowable": amount(shortage.borrowable),
        "nominal": amount(shortage.nominal),
        "most": amount(shortage.most),
        "heldBy": [
            {
                "namespace": held.namespace,
                "name": held.name,
                "clusterQueue": held.cluster_queue,
                "amount": amount(held.amount),
            }
            for held in shortage.held_by
        ],
    }
