"""Preemption under fair sharing: take from the queues and cohorts with the largest shares.

Rules: Kueue's fair preemption. A victim of another queue has to pass a test that compares shares
at the children of the lowest common cohort, unless the workload stays within its own quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from federation.core.policies import FairStrategy, PreemptionPolicy
from federation.core.quota import QuotaNode
from federation.core.reasons import Reason
from federation.core.shares import Share, share_of
from federation.core.snapshot import Snapshot
from federation.core.types import FlavorResource, Holder
from federation.core.victims import (
    Need,
    Victim,
    candidate_order,
    candidates,
    fill_back,
    restore_all,
)


def find_victims(snapshot: Snapshot, need: Need) -> list[Victim]:
    """The workloads to evict; [] when no choice of them makes room. The snapshot is unchanged."""
    found = _candidates(snapshot, need)
    if not found:
        return []
    search = _Search(snapshot, need, found)
    search.run(snapshot.rules.fair_strategies)
    if not search.fitted:
        restore_all(snapshot, search.victims)
        return []
    kept = fill_back(snapshot, search.victims, need.fits)
    restore_all(snapshot, kept)
    return kept


def _candidates(snapshot: Snapshot, need: Need) -> list[Holder]:
    """All that may be evicted in the own queue, and in queues of the tree that borrow."""
    node, preemption = need.node, snapshot.queues[need.node.name].preemption
    found = candidates(snapshot, node.name, need, preemption.within_queue)
    if node.parent is not None and preemption.reclaim is not PreemptionPolicy.NEVER:
        for queue in _borrowers(node.root, need.scarce):
            if queue is not node:
                found += candidates(snapshot, queue.name, need, preemption.reclaim)
    return sorted(found, key=candidate_order(snapshot, node.name))


def _borrowers(cohort: QuotaNode, scarce: frozenset[FlavorResource]) -> Iterator[QuotaNode]:
    for child in cohort.cohorts:
        yield from _borrowers(child, scarce)
    yield from cohort.borrowing(scarce).values()


@dataclass(slots=True)
class _Search:
    """The own queue is charged with the requests while shares are compared."""

    snapshot: Snapshot
    need: Need
    found: Sequence[Holder]
    victims: list[Victim] = field(default_factory=list)
    retry: list[Holder] = field(default_factory=list)
    fitted: bool = False
    path: frozenset[str] = frozenset()
    """Names of the cohorts above the own queue."""

    def run(self, strategies: Sequence[FairStrategy]) -> None:
        """Choose victims, more than needed; `fitted` tells whether that makes room."""
        node = self.need.node
        self.path = frozenset(cohort.name for cohort in node.ancestors())
        node.add_all(self.need.requests)
        try:
            self._first(strategies[0])
            if not self.fitted and len(strategies) > 1:
                self._second()
        finally:
            node.remove_all(self.need.requests)

    def _first(self, strategy: FairStrategy) -> None:
        node = self.need.node
        within = node.within_nominal(self.need.scarce)
        order = _Ordering(self, self.found)
        while (queue := order.next()) is not None and not self.fitted:
            if queue is node:
                self._take(order.pop(queue), Reason.IN_CLUSTER_QUEUE)
            elif within:
                self._take(order.pop(queue), Reason.IN_COHORT_RECLAMATION)
            else:
                self._compare(order, queue, strategy)

    def _compare(self, order: _Ordering, queue: QuotaNode, strategy: FairStrategy) -> None:
        """Take the first workload of a queue that passes the test; the others may be retried."""
        mine, theirs = self._sides(queue)
        new_share, old_share = self._share(mine), self._share(theirs)
        hopeless = new_share.unbounded and not old_share.unbounded
        while order.waiting(queue):
            holder = order.pop(queue)
            if not hopeless and self._passes(strategy, new_share, old_share, theirs, holder):
                self._take(holder, Reason.IN_COHORT_FAIR_SHARING)
                return
            self.retry.append(holder)

    def _passes(
        self,
        strategy: FairStrategy,
        new_share: Share,
        old_share: Share,
        theirs: QuotaNode,
        holder: Holder,
    ) -> bool:
        if strategy is FairStrategy.INITIAL_SHARE:
            return new_share < old_share
        self.snapshot.remove(holder)
        final = self._share(theirs)
        self.snapshot.restore(holder)
        return new_share <= final

    def _second(self) -> None:
        """At most one more from each queue whose share is larger than ours would be."""
        order = _Ordering(self, self.retry)
        while (queue := order.next()) is not None and not self.fitted:
            mine, theirs = self._sides(queue)
            if self._share(mine) < self._share(theirs):
                self._take(order.pop(queue), Reason.IN_COHORT_FAIR_SHARING)
            order.drop(queue)

    def _take(self, holder: Holder, reason: Reason) -> None:
        self.snapshot.remove(holder)
        self.victims.append(Victim(holder, reason))
        node = self.need.node
        node.remove_all(self.need.requests)
        self.fitted = self.need.fits()
        node.add_all(self.need.requests)

    def _share(self, node: QuotaNode) -> Share:
        return share_of(node, self.snapshot.tree.lendable)

    def _sides(self, queue: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """The children of the lowest common cohort above the own queue and `queue`."""
        theirs = queue
        while theirs.parent is not None and theirs.parent.name not in self.path:
            theirs = theirs.parent
        mine = self.need.node
        while mine.parent is not theirs.parent:
            assert mine.parent is not None
            mine = mine.parent
        return mine, theirs


class _Ordering:
    """Which queue gives the next victim: from the root down, always the largest share."""

    def __init__(self, search: _Search, found: Sequence[Holder]) -> None:
        self._search = search
        self._node = search.need.node
        self._key = candidate_order(search.snapshot, self._node.name)
        self._found: dict[str, list[Holder]] = {}
        for holder in reversed(found):
            self._found.setdefault(holder.cluster_queue, []).append(holder)
        self._pruned: set[int] = set()

    def waiting(self, queue: QuotaNode) -> bool:
        """Whether a queue has candidates left."""
        return bool(self._found.get(queue.name))

    def pop(self, queue: QuotaNode) -> Holder:
        """Its next candidate."""
        return self._found[queue.name].pop()

    def drop(self, queue: QuotaNode) -> None:
        """Take no more of this queue."""
        self._pruned.add(id(queue))

    def next(self) -> QuotaNode | None:
        """The queue to take from; None when all are exhausted."""
        if self._node.parent is None:
            return self._node if self.waiting(self._node) else None
        root = self._node.root
        while id(root) not in self._pruned:
            queue = self._descend(root)
            if queue is not None:
                return queue
        return None

    def _descend(self, cohort: QuotaNode) -> QuotaNode | None:
        queue, queue_share = self._largest_queue(cohort)
        child, child_share = self._largest_cohort(cohort)
        if child is not None and (queue is None or child_share >= queue_share):
            return self._descend(child)
        if queue is None:
            self._pruned.add(id(cohort))
        return queue

    def _largest_queue(self, cohort: QuotaNode) -> tuple[QuotaNode | None, Share]:
        best, best_share = None, Share()
        for queue in cohort.queues:
            if id(queue) in self._pruned:
                continue
            share = self._share(queue)
            if not self.waiting(queue) or (not share.borrowing and queue is not self._node):
                self._pruned.add(id(queue))
            elif (
                best is None
                or share > best_share
                or (share == best_share and self._head(queue) < self._head(best))
            ):
                best, best_share = queue, share
        return best, best_share

    def _largest_cohort(self, cohort: QuotaNode) -> tuple[QuotaNode | None, Share]:
        best, best_share = None, Share()
        for child in cohort.cohorts:
            if id(child) in self._pruned:
                continue
            share = self._share(child)
            if not share.borrowing and child.name not in self._search.path:
                self._pruned.add(id(child))
            elif best is None or share >= best_share:
                best, best_share = child, share
        return best, best_share

    def _head(self, queue: QuotaNode) -> tuple[object, ...]:
        return self._key(self._found[queue.name][-1])

    def _share(self, node: QuotaNode) -> Share:
        return share_of(node, self._search.snapshot.tree.lendable)
