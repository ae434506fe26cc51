"""Who holds quota, and of which ClusterQueue."""

from __future__ import annotations

from dataclasses import replace

from federation.core.cycle import Fit
from federation.core.snapshot import Snapshot
from federation.core.types import Holder


class Charges:
    """What is charged here is charged in the snapshot that is given, too.

    Attributes:
        by_queue: the holders of each ClusterQueue, by UID.
        queue_of: the ClusterQueue of each holder, by UID.
    """

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[str, Holder]] = {}
        self.queue_of: dict[str, str] = {}

    def get(self, uid: str) -> Holder | None:
        """What a workload holds."""
        queue = self.queue_of.get(uid)
        return self.by_queue[queue][uid] if queue is not None else None

    def charge(self, holder: Holder, snapshot: Snapshot) -> None:
        """Charge a workload, in place of what it held."""
        known = self.get(holder.uid)
        if known is not None:
            self.uncharge(known, snapshot)
        queue = holder.cluster_queue
        self.by_queue.setdefault(queue, {})[holder.uid] = holder
        self.queue_of[holder.uid] = queue
        _count(holder, snapshot)

    def uncharge(self, holder: Holder, snapshot: Snapshot) -> None:
        """A workload holds nothing any more."""
        del self.by_queue[holder.cluster_queue][holder.uid]
        del self.queue_of[holder.uid]
        snapshot.tree.remove(holder.cluster_queue, holder.usage)
        snapshot.leave_places(holder.admission)

    def count_all(self, snapshot: Snapshot) -> None:
        """Charge everybody in a snapshot that counts nobody yet."""
        for queue in self.by_queue.values():
            for holder in queue.values():
                _count(holder, snapshot)


def _count(holder: Holder, snapshot: Snapshot) -> None:
    snapshot.tree.add(holder.cluster_queue, holder.usage)
    snapshot.take_places(holder.admission)


def not_negative(holder: Holder) -> Holder:
    """A negative amount counts nothing: it cannot make room for others."""
    if all(amount >= 0 for amount in holder.usage.values()):
        return holder
    return replace(holder, usage={fr: max(0, amount) for fr, amount in holder.usage.items()})


def holder_of(fit: Fit, *, pods_ready: bool) -> Holder:
    """What a workload holds that a cycle has just admitted."""
    item = fit.item
    return Holder(
        uid=item.uid,
        namespace=item.namespace,
        name=item.name,
        local_queue=item.local_queue,
        priority=item.priority,
        created=item.created,
        admission=fit.admission,
        usage=fit.admission.usage(),
        preemptible=item.preemptible,
        pods_ready=pods_ready,
        admitted=False,
    )
