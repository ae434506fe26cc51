"""What a cluster that plain Kueue runs has to give, from its ClusterQueues and LocalQueues: in the
form of the report that an agent would publish, so that places are sought there as anywhere else.

It is what Kueue's statuses say, up to a second late. In a cohort a queue can borrow what the other
ClusterQueues in it have left; quota of Cohort objects and lending limits are not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from federation.api.names import FEDQ_API, ConditionType
from federation.api.record import is_true
from federation.core.quantity import QuantityError, parse_quantity

Json = dict[str, Any]
_Key = tuple[str, str]
"""Flavor and resource."""


def plain_report(
    cluster: str, cluster_queues: Iterable[Json], local_queues: Iterable[Json]
) -> Json:
    """A WorkerReport."""
    queues = sorted(cluster_queues, key=lambda queue: str(queue["metadata"]["name"]))
    spare: defaultdict[tuple[str, _Key], int] = defaultdict(int)
    for queue in queues:
        used = dict(_used(queue))
        for key, nominal, _ in _quotas(queue):
            spare[_cohort(queue), key] += nominal - used.get(key, 0)
    versions = [int(queue["metadata"]["resourceVersion"]) for queue in queues]
    return {
        "apiVersion": FEDQ_API,
        "kind": "WorkerReport",
        "metadata": {"name": cluster},
        "status": {
            "countedResourceVersion": str(max(versions, default=0)),
            "localQueues": [
                {
                    "namespace": queue["metadata"]["namespace"],
                    "name": queue["metadata"]["name"],
                    "clusterQueue": (queue.get("spec") or {}).get("clusterQueue", ""),
                }
                for queue in local_queues
            ],
            "clusterQueues": [_queue(queue, spare) for queue in queues],
        },
    }


def _queue(queue: Json, spare: Mapping[tuple[str, _Key], int]) -> Json:
    used, cohort = dict(_used(queue)), _cohort(queue)
    resources = []
    for (flavor, resource), nominal, borrowing in _quotas(queue):
        taken = used.get((flavor, resource), 0)
        available = nominal - taken
        if cohort:
            available = spare[cohort, (flavor, resource)]
            if borrowing is not None:
                available = min(available, nominal + borrowing - taken)
        amounts = {"nominal": nominal, "used": taken, "available": max(0, available)}
        texts = {name: str(amount) for name, amount in amounts.items()}
        resources.append({"flavor": flavor, "resource": resource, **texts})
    return {
        "name": queue["metadata"]["name"],
        "active": is_true(queue.get("status") or {}, ConditionType.ACTIVE),
        "cohort": cohort,
        "resources": resources,
    }


def _cohort(queue: Json) -> str:
    spec = queue.get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _quotas(queue: Json) -> Iterator[tuple[_Key, int, int | None]]:
    """Flavor and resource, nominal quota, borrowing limit."""
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for entry in flavor.get("resources") or ():
                name, limit = str(entry["name"]), entry.get("borrowingLimit")
                borrowing = None if limit is None else _amount(name, limit)
                key = (str(flavor["name"]), name)
                yield key, _amount(name, entry.get("nominalQuota", "0")), borrowing


def _used(queue: Json) -> Iterator[tuple[_Key, int]]:
    for flavor in (queue.get("status") or {}).get("flavorsReservation") or ():
        for entry in flavor.get("resources") or ():
            name = str(entry["name"])
            yield (str(flavor["name"]), name), _amount(name, entry.get("total", "0"))


def _amount(resource: str, quantity: Any) -> int:
    """What cannot be read counts as nothing: another cluster wrote it."""
    try:
        return parse_quantity(resource, str(quantity))
    except QuantityError:
        return 0
