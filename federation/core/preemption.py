"""Classical preemption: whom to evict so that a workload fits.

Rules: Kueue's classical algorithm. Victims in the own queue follow withinClusterQueue; in the rest
of the cohort reclaimWithinCohort, and there quota that the workload's own subtree could claim back
(hierarchical advantage) comes before what has to be borrowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

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


_Candidate = tuple[tuple[object, ...], Holder, QuotaNode | None, bool]
"""Sort key, workload, the lowest cohort above both queues (None in the own queue), and whether
the own subtree has the advantage there."""


def find_victims(snapshot: Snapshot, need: Need) -> list[Victim]:
    """The workloads to evict; [] when no choice of them makes room. The snapshot is unchanged."""
    name = need.node.name
    preemption = snapshot.queues[name].preemption
    order = candidate_order(snapshot, name)
    own: list[_Candidate] = [
        (order(holder), holder, None, False)
        for holder in candidates(snapshot, name, need, preemption.within_queue)
    ]
    claimed, others = _in_cohort(snapshot, need, preemption)
    if not (own or claimed or others):
        return []
    parts = [sorted(claimed), sorted(others), sorted(own)]
    queue = [
        candidate
        for evicted in (True, False)
        for part in parts
        for candidate in part
        if candidate[1].evicted is evicted
    ]
    for borrowing in _attempts(need, preemption, bool(claimed), bool(others)):
        victims = _try(snapshot, need, queue, borrowing)
        if victims:
            return victims
    return []


def _in_cohort(
    snapshot: Snapshot, need: Need, preemption: Preemption
) -> tuple[list[_Candidate], list[_Candidate]]:
    """Candidates of other queues: those the own subtree has quota to claim back from, the rest."""
    claimed: list[_Candidate] = []
    others: list[_Candidate] = []
    node, policy = need.node, preemption.reclaim
    if node.parent is None or policy is PreemptionPolicy.NEVER:
        return claimed, others
    advantage, rest = node.fits_in_quota(need.requests)
    below: QuotaNode = node
    for cohort in node.ancestors():
        found = claimed if advantage else others
        for queue in _borrowers(cohort, below, need.scarce):
            holders = candidates(snapshot, queue.name, need, policy)
            found += [(holder.rank, holder, cohort, advantage) for holder in holders]
        fits, rest = cohort.fits_in_quota(rest)
        advantage = advantage or fits
        below = cohort
    return claimed, others


def _borrowers(
    cohort: QuotaNode, without: QuotaNode, scarce: frozenset[FlavorResource]
) -> Iterator[QuotaNode]:
    """The queues below `cohort`, but not below `without`, that use more than their own quota and
    whose cohorts do too.
    """
    for child in cohort.cohorts:
        if child is not without and not child.within_nominal(scarce):
            yield from _borrowers(child, without, scarce)
    found = {name: q for fr in scarce for name, q in cohort.borrowers.get(fr, {}).items()}
    yield from (queue for queue in found.values() if queue is not without)


def _variant(need: Need, candidate: _Candidate, preemption: Preemption) -> _Variant:
    _, holder, top, advantage = candidate
    if top is None:
        return _Variant.OWN_QUEUE
    if advantage:
        return _Variant.HIERARCHICAL
    if not preemption.while_borrowing:
        return _Variant.WITHOUT_BORROWING
    threshold = preemption.threshold
    too_high = threshold is not None and holder.priority > threshold
    if holder.priority >= need.item.priority or too_high:
        return _Variant.WITHOUT_BORROWING
    return _Variant.WHILE_BORROWING


def _attempts(need: Need, preemption: Preemption, claims: bool, others: bool) -> Iterable[bool]:
    """Whether the workload may borrow, attempt by attempt."""
    if not claims and not others:
        return (True,)
    if preemption.while_borrowing:
        return (True, False)
    node = need.node
    within = all(node.usage.get(fr, 0) < node.subtree.get(fr, 0) for fr in need.scarce)
    if not within:
        return (True,)
    return (True, False) if claims else (False, True)


def _try(
    snapshot: Snapshot, need: Need, queue: Iterable[_Candidate], borrowing: bool
) -> list[Victim]:
    preemption = snapshot.queues[need.node.name].preemption
    victims: list[Victim] = []
    kept: list[Victim] = victims
    try:
        for candidate in queue:
            _, holder, top, _ = candidate
            variant = _variant(need, candidate, preemption)
            if borrowing and variant is _Variant.WITHOUT_BORROWING:
                continue
            if top is not None and not _still_borrows(snapshot, need, holder, top):
                continue
            snapshot.remove(holder)
            victims.append(Victim(holder, _REASON[variant]))
            if need.fits(borrowing=borrowing):
                kept = fill_back(snapshot, victims, lambda: need.fits(borrowing=borrowing))
                return kept
        return []
    finally:
        restore_all(snapshot, kept)


def _still_borrows(snapshot: Snapshot, need: Need, holder: Holder, top: QuotaNode) -> bool:
    """Whether the queue of a candidate, and all cohorts below `top`, use more than their own."""
    node: QuotaNode | None = snapshot.tree.queues[holder.cluster_queue]
    while node is not None and node is not top:
        if node.within_nominal(need.scarce):
            return False
        node = node.parent
    return True
