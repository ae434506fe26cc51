"""Classical preemption: whom to evict so that a workload fits.

Rules: Kueue's classical algorithm. Victims in the own queue follow withinClusterQueue; in the rest
of the cohort reclaimWithinCohort, and there quota that the workload's own subtree could claim back
(hierarchical advantage) comes before what has to be borrowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from heapq import merge
from itertools import chain

from federation.core.policies import Preemption, PreemptionPolicy
from federation.core.quota import QuotaNode
from federation.core.reasons import Reason
from federation.core.snapshot import Snapshot
from federation.core.types import FlavorResource, Holder
from federation.core.victims import (
    Need,
    Victim,
    candidate_order,
    candidates,
    fill_back,
    holders_of,
    may_evict,
    restore_all,
)


class _Variant(IntEnum):
    """On what ground a candidate may be evicted."""

    OWN_QUEUE = 0
    HIERARCHICAL = 1
    WITHOUT_BORROWING = 2
    WHILE_BORROWING = 3


_REASON = {
    _Variant.OWN_QUEUE: Reason.IN_CLUSTER_QUEUE,
    _Variant.HIERARCHICAL: Reason.IN_COHORT_RECLAMATION,
    _Variant.WITHOUT_BORROWING: Reason.IN_COHORT_RECLAMATION,
    _Variant.WHILE_BORROWING: Reason.IN_COHORT_RECLAIM_WHILE_BORROWING,
}


@dataclass(frozen=True, slots=True)
class _Pool:
    """Candidates of one level, in order. `top` is the cohort above both queues, None in the own
    queue; `advantage` is whether the own subtree has quota to claim back there.
    """

    holders: list[Holder]
    policy: PreemptionPolicy
    top: QuotaNode | None = None
    advantage: bool = False


def find_victims(snapshot: Snapshot, need: Need) -> list[Victim]:
    """The workloads to evict; [] when no choice of them makes room. The snapshot is unchanged."""
    return _Search(snapshot, need, snapshot.queues[need.node.name].preemption).run()


@dataclass(frozen=True, slots=True)
class _Search:
    snapshot: Snapshot
    need: Need
    preemption: Preemption

    def run(self) -> list[Victim]:
        """Attempt by attempt."""
        snapshot, need = self.snapshot, self.need
        name, within = need.node.name, self.preemption.within_queue
        mine = candidates(snapshot, name, need, within)
        own = [_Pool(sorted(mine, key=candidate_order(snapshot, name)), within)] if mine else []
        pools = self._in_cohort()
        claimed = [pool for pool in pools if pool.advantage and self._first(pool)]
        others = [pool for pool in pools if not pool.advantage and self._first(pool)]
        if not (own or claimed or others):
            return []
        barred = not self.preemption.while_borrowing
        for borrowing in self._attempts(bool(claimed), bool(others)):
            usable = [] if borrowing and barred else others
            if victims := self._try((claimed, usable, own), borrowing):
                return victims
        return []

    def _in_cohort(self) -> list[_Pool]:
        """Candidates of other queues, by the cohort that they have in common with the own one."""
        node, policy = self.need.node, self.preemption.reclaim
        pools: list[_Pool] = []
        if node.parent is None or policy is PreemptionPolicy.NEVER:
            return pools
        advantage, rest = node.fits_in_quota(self.need.requests)
        below: QuotaNode = node
        for cohort in node.ancestors():
            pools.append(_Pool(self._borrowing(cohort, below), policy, cohort, advantage))
            fits, rest = cohort.fits_in_quota(rest)
            advantage = advantage or fits
            below = cohort
        return [pool for pool in pools if pool.holders]

    def _borrowing(self, cohort: QuotaNode, below: QuotaNode) -> list[Holder]:
        """What borrowers below `cohort` hold, in order; from `below` too if that is a queue."""
        scarce, pools = self.need.scarce, self.snapshot.pools
        without = None if below is self.need.node else below  # queues of a cohort share a pool
        key = (id(cohort), id(without), scarce)
        if pools is not None and key in pools:
            return pools[key]
        names = [queue.name for queue in _borrowers(cohort, without, scarce)]
        found = sorted(holders_of(self.snapshot, names, scarce), key=lambda h: h.rank)
        if pools is not None:
            pools[key] = found
        return found

    def _first(self, pool: _Pool) -> Holder | None:
        return next(self._eligible(pool), None)

    def _eligible(self, pool: _Pool) -> Iterator[Holder]:
        """Those of a pool that the policy lets go, lowest priority first among the evicted and
        among the others.
        """
        item, gone, own = self.need.item, self.snapshot.gone, self.need.node.name
        by_priority = pool.top is not None and pool.policy is not PreemptionPolicy.ANY
        for holder in pool.holders:
            if may_evict(pool.policy, item, holder):
                if holder.uid in gone or (pool.top and holder.cluster_queue == own):
                    continue
                yield holder
            elif by_priority and not holder.evicted and holder.priority > item.priority:
                return  # and so are all behind it

    def _pairs(self, pool: _Pool) -> Iterator[tuple[Holder, _Pool]]:
        return ((holder, pool) for holder in self._eligible(pool))

    def _ordered(self, groups: Iterable[list[_Pool]]) -> Iterator[tuple[Holder, _Pool]]:
        """All candidates: the evicted ones of each group first, then the others."""
        later: list[Iterable[tuple[Holder, _Pool]]] = []
        for pools in groups:
            part = merge(*map(self._pairs, pools), key=lambda pair: pair[0].rank)
            for pair in part:
                if not pair[0].evicted:
                    later.append(chain((pair,), part))
                    break
                yield pair
        yield from chain.from_iterable(later)

    def _attempts(self, claims: bool, others: bool) -> Iterable[bool]:
        """Whether the workload may borrow, attempt by attempt."""
        if not claims and not others:
            return (True,)
        if self.preemption.while_borrowing:
            return (True, False)
        node = self.need.node
        scarce = self.need.scarce
        if not all(node.usage.get(fr, 0) < node.subtree.get(fr, 0) for fr in scarce):
            return (True,)
        return (True, False) if claims else (False, True)

    def _try(self, groups: Iterable[list[_Pool]], borrowing: bool) -> list[Victim]:
        snapshot, need = self.snapshot, self.need
        victims: list[Victim] = []
        kept: list[Victim] = victims
        try:
            for holder, pool in self._ordered(groups):
                variant = self._variant(holder, pool)
                if borrowing and variant is _Variant.WITHOUT_BORROWING:
                    continue
                if pool.top is not None and not self._still_borrows(holder, pool.top):
                    continue
                snapshot.remove(holder)
                victims.append(Victim(holder, _REASON[variant]))
                if need.fits(borrowing=borrowing):
                    kept = fill_back(snapshot, victims, lambda: need.fits(borrowing=borrowing))
                    return kept
            return []
        finally:
            restore_all(snapshot, kept)

    def _variant(self, holder: Holder, pool: _Pool) -> _Variant:
        if pool.top is None:
            return _Variant.OWN_QUEUE
        if pool.advantage:
            return _Variant.HIERARCHICAL
        if not self.preemption.while_borrowing:
            return _Variant.WITHOUT_BORROWING
        threshold = self.preemption.threshold
        too_high = threshold is not None and holder.priority > threshold
        if holder.priority >= self.need.item.priority or too_high:
            return _Variant.WITHOUT_BORROWING
        return _Variant.WHILE_BORROWING

    def _still_borrows(self, holder: Holder, top: QuotaNode) -> bool:
        """Whether a candidate's queue, and all cohorts below `top`, use more than their own."""
        node: QuotaNode | None = self.snapshot.tree.queues[holder.cluster_queue]
        while node is not None and node is not top:
            if node.within_nominal(self.need.scarce):
                return False
            node = node.parent
        return True


def _borrowers(
    cohort: QuotaNode, without: QuotaNode | None, scarce: frozenset[FlavorResource]
) -> Iterator[QuotaNode]:
    """The queues below `cohort`, but not below `without`, that use more than their own quota and
    whose cohorts do too.
    """
    for child in cohort.cohorts:
        if child is not without and not child.within_nominal(scarce):
            yield from _borrowers(child, without, scarce)
    yield from cohort.borrowing(scarce).values()
