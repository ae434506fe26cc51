"""Which of the clusters that a queue may use a workload may be offered to now.

What the dispatcher decides (`federation.core.dispatchers`), put to the clusters as they are seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from federation.core.affinity import excluded
from federation.core.dispatch import ClusterView, Refusal
from federation.core.dispatchers import Dispatcher, Dispatching, Nomination, Round, next_round
from federation.core.quantity import format_quantity
from federation.core.reasons import Reason
from federation.core.types import Admission, FlavorResource, Pending

FOR_GOOD = frozenset(
    {
        "NameTaken",
        "NamespaceMissing",
        "Invalid",
        "Forbidden",
        Reason.EXCEEDS_MAX_QUOTA.value,
        Reason.NO_MATCHING_FLAVOR.value,
        Reason.MISCONFIGURED.value,
    }
)
"""Refusals that time alone does not change."""


def candidates(item: Pending, allowed: Sequence[str], settings: Dispatching) -> list[str]:
    """The clusters to choose among. Where its copy runs, and where it is to run by order, needs no
    nomination.
    """
    if settings.kind in (Dispatcher.SCORED, Dispatcher.ALL_AT_ONCE):
        return list(allowed)
    known = {*item.nominees, item.only, item.stays}
    return [name for name in allowed if name in known]


def next_nominees(
    item: Pending,
    admission: Admission,
    known: Nomination,
    views: Mapping[str, ClusterView],
    refusals: Mapping[str, Refusal],
    settings: Dispatching,
    now: float,
) -> Round:
    """The next round for a workload that no nominee takes now; `views` are of all clusters of its
    queue, in order.
    """
    order = [
        name
        for name, view in views.items()
        if not excluded(item.rules, name, view.traits.labels)
        and not (view.plain and item.agent_only)
    ]
    usable = {name for name in order if views[name].coming or not views[name].problem}
    hopeless = {
        name
        for name in usable & set(known.clusters)
        if not views[name].coming and why_never(item, admission, views[name], refusals.get(name))
    }
    return next_round(known, order, usable, hopeless, settings, now)


def why_never(
    item: Pending, admission: Admission, cluster: ClusterView, refusal: Refusal | None
) -> str:
    """Why the cluster cannot take the workload even if nothing ran there; '' if it can."""
    if refusal is not None and (refusal.final or refusal.reason in FOR_GOOD):
        return f"it has refused: {refusal.message}"
    if cluster.plain and item.agent_only:
        return item.agent_only
    if said := cluster.lacks(item):
        return said
    queue_name = cluster.local_queues.get((item.namespace, item.local_queue))
    if queue_name is None:
        return f"no LocalQueue {item.namespace}/{item.local_queue} there"
    queue = cluster.queues.get(queue_name)
    if queue is None or not queue.active:
        return f"ClusterQueue {queue_name} is not active there"
    for pods, assigned in zip(item.pod_sets, admission.pod_sets, strict=True):
        for resource, each in pods.requests.items():
            needed = each * assigned.count
            found = [
                _most(cluster, queue.name, flavor, resource) for flavor in queue.flavors(resource)
            ]
            if needed and needed > (most := max(found, default=0)):
                return (
                    f"{resource}: {format_quantity(resource, needed)} needed, ClusterQueue"
                    f" {queue.name} there has {format_quantity(resource, most)} at most"
                )
    return ""


def _most(cluster: ClusterView, queue: str, flavor: str, resource: str) -> int:
    """What a queue there could have of a flavor if nothing ran: what it uses of its own quota, and
    what is available, borrowed included.
    """
    amount = cluster.queues[queue].amounts[FlavorResource(flavor, resource)]
    return max(amount.nominal, amount.available + max(0, amount.nominal - amount.own))
