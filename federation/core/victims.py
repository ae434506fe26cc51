"""Who may be evicted for a workload, in which order, and the least that has to be.

Rules: Kueue's preemption, common to the classical and the fair algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from federation.core.policies import PreemptionPolicy
from federation.core.quota import QuotaNode
from federation.core.reasons import Reason
from federation.core.snapshot import Snapshot
from federation.core.types import FlavorResource, Holder, Pending


class Victim(NamedTuple):
    """A workload to evict, and why it may be."""

    holder: Holder
    reason: Reason


Placed = Callable[[], bool]
"""Whether the pods find places in their topologies, as things stand."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a workload wants to make room for.

    `scarce` are the quotas that lack room: only who holds some of them is of use. `requests` is
    all that must fit in the end.
    """

    item: Pending
    node: QuotaNode
    scarce: frozenset[FlavorResource]
    requests: Mapping[FlavorResource, int]
    placed: Placed = field(default=lambda: True)

    def fits(self, *, borrowing: bool = True) -> bool:
        """Whether all requests fit now; without `borrowing`, in the queue's own quota."""
        node = self.node
        for fr, amount in self.requests.items():
            if amount > max(0, node.available(fr)):
                return False
            if not borrowing and node.borrows(fr, amount):
                return False
        return self.placed()


def may_evict(policy: PreemptionPolicy, item: Pending, holder: Holder) -> bool:
    """Whether a policy lets `item` evict `holder`."""
    if not holder.preemptible:
        return False
    if policy is PreemptionPolicy.ANY:
        return True
    if policy is PreemptionPolicy.NEVER:
        return False
    if holder.priority != item.priority:
        return holder.priority < item.priority
    return policy is PreemptionPolicy.LOWER_OR_NEWER and item.created < holder.created


def candidates(
    snapshot: Snapshot, queue: str, need: Need, policy: PreemptionPolicy
) -> list[Holder]:
    """Workloads of one queue that hold some of what is scarce and may be evicted."""
    if policy is PreemptionPolicy.NEVER:
        return []
    found = holders_of(snapshot, (queue,), need.scarce)
    return [h for h in found if may_evict(policy, need.item, h) and h.uid not in snapshot.gone]


def holders_of(
    snapshot: Snapshot, queues: Iterable[str], scarce: frozenset[FlavorResource]
) -> list[Holder]:
    """All in these queues, as far as they are active, that hold some of what is scarce."""
    return [
        holder
        for queue in queues
        if queue not in snapshot.inactive
        for holder in snapshot.holders.get(queue, {}).values()
        if not scarce.isdisjoint(holder.usage)
    ]


def candidate_order(snapshot: Snapshot, queue: str) -> Callable[[Holder], tuple[object, ...]]:
    """Sort key: evicted first, other queues before `queue`, the LocalQueue that used most, lowest
    priority, latest reservation, UID.
    """
    usage_based = snapshot.queues[queue].usage_based

    def key(holder: Holder) -> tuple[object, ...]:
        own = holder.cluster_queue == queue
        used = 0.0
        if own and usage_based:
            used = -snapshot.usages.get((holder.namespace, holder.local_queue), 0.0)
        evicted, *rest = holder.rank
        return (evicted, own, used, *rest)

    return key


def fill_back(
    snapshot: Snapshot, victims: Sequence[Victim], fits: Callable[[], bool]
) -> list[Victim]:
    """Spare those whose leaving turns out not to be needed, latest first, never the last one.

    All `victims` are removed from the snapshot, and those returned still are.
    """
    kept = list(victims)
    for index in range(len(kept) - 2, -1, -1):
        snapshot.restore(kept[index].holder)
        if fits():
            kept[index] = kept[-1]
            kept.pop()
        else:
            snapshot.remove(kept[index].holder)
    return kept


def restore_all(snapshot: Snapshot, victims: Iterable[Victim]) -> None:
    """Put back what was removed to try something out."""
    for victim in victims:
        snapshot.restore(victim.holder)
