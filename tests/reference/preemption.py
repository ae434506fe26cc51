"""§6 and §6.1: the choice of algorithm, and classical preemption."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from federation.core.policies import PreemptionPolicy
from federation.core.types import Holder
from tests.reference import fair
from tests.reference.candidates import (
    Attempt,
    Target,
    candidate_order,
    candidates_in,
    fill_back,
    fits,
)
from tests.reference.quota import Node
from tests.reference.state import State

OWN = "InClusterQueue"
HIERARCHICAL = "HierarchicalReclaim"
WITHOUT_BORROWING = "ReclaimWithoutBorrowing"
WHILE_BORROWING = "ReclaimWhileBorrowing"

REASONS = {
    OWN: "InClusterQueue",
    HIERARCHICAL: "InCohortReclamation",
    WITHOUT_BORROWING: "InCohortReclamation",
    WHILE_BORROWING: "InCohortReclaimWhileBorrowing",
}


def find_targets(state: State, attempt: Attempt) -> list[Target]:
    """Whom to evict so that the requests fit; empty if nothing helps."""
    if state.rules.fair_sharing:
        return fair.find_targets(state, attempt)
    return classical(state, attempt)


@dataclass(frozen=True)
class Candidate:
    """A workload that may be evicted, how, and below which common cohort it is."""

    holder: Holder
    variant: str
    lca: Node | None = None


def classical(state: State, attempt: Attempt) -> list[Target]:
    """§6.1."""
    policies = state.queues[attempt.queue.name].preemption
    same = [
        Candidate(holder, OWN)
        for holder in candidates_in(state, attempt, attempt.queue, policies.within_queue)
    ]
    hier, prio = cohort_candidates(state, attempt)
    order = in_order(state, attempt, hier, prio, same)
    for may_borrow in attempts(state, attempt, hier, prio):
        targets = one_attempt(state, attempt, order, may_borrow=may_borrow)
        if targets:
            return targets
    return []


def cohort_candidates(state: State, attempt: Attempt) -> tuple[list[Candidate], list[Candidate]]:
    """Candidates in other queues: where our subtree has the quota itself (hier), elsewhere (prio).

    The subtree below an ancestor has the advantage once the requests fit into its own quota.
    """
    tree = state.tree
    hier: list[Candidate] = []
    prio: list[Candidate] = []
    if state.queues[attempt.queue.name].preemption.reclaim is PreemptionPolicy.NEVER:
        return hier, prio
    advantage, rest = tree.fits_in_quota(attempt.queue, attempt.requests)
    previous: Node | None = None
    for ancestor in tree.ancestors(attempt.queue):
        for holder in collect(state, attempt, ancestor, previous):
            found = Candidate(holder, variant(state, attempt, holder, advantage), ancestor)
            (hier if advantage else prio).append(found)
        fit, rest = tree.fits_in_quota(ancestor, rest)
        advantage = advantage or fit
        previous = ancestor
    return hier, prio


def collect(state: State, attempt: Attempt, cohort: Node, skip: Node | None) -> Iterator[Holder]:
    """Candidates at and below a cohort, but not in a part of it that keeps to its own quota."""
    reclaim = state.queues[attempt.queue.name].preemption.reclaim
    for child in state.tree.children(cohort):
        if child in (skip, attempt.queue) or state.tree.within_nominal(child, attempt.needed):
            continue
        if child.kind == "cohort":
            yield from collect(state, attempt, child, skip)
        else:
            yield from candidates_in(state, attempt, child, reclaim)


def variant(state: State, attempt: Attempt, holder: Holder, advantage: bool) -> str:
    """How a workload of another queue would be evicted."""
    policies = state.queues[attempt.queue.name].preemption
    if advantage:
        return HIERARCHICAL
    if not policies.while_borrowing:
        return WITHOUT_BORROWING
    if holder.priority >= attempt.item.priority:
        return WITHOUT_BORROWING
    if policies.threshold is not None and holder.priority > policies.threshold:
        return WITHOUT_BORROWING
    return WHILE_BORROWING


def in_order(
    state: State,
    attempt: Attempt,
    hier: list[Candidate],
    prio: list[Candidate],
    same: list[Candidate],
) -> list[Candidate]:
    """Evicted ones first, else hierarchical, then by priority, then our own queue."""
    key = candidate_order(state, attempt)
    lists = [sorted(found, key=lambda c: key(c.holder)) for found in (hier, prio, same)]
    evicted = [c for found in lists for c in found if c.holder.evicted]
    others = [c for found in lists for c in found if not c.holder.evicted]
    return evicted + others


def attempts(
    state: State, attempt: Attempt, hier: list[Candidate], prio: list[Candidate]
) -> list[bool]:
    """With borrowing allowed or not, in which order."""
    tree, queue = state.tree, attempt.queue
    forbidden = not state.queues[queue.name].preemption.while_borrowing
    below = all(tree.usage(queue, fr) < tree.nominal(queue, fr) for fr in attempt.needed)
    if (not hier and not prio) or (forbidden and not below):
        return [True]
    if forbidden and not hier:
        return [False, True]
    return [True, False]


def one_attempt(
    state: State, attempt: Attempt, order: list[Candidate], *, may_borrow: bool
) -> list[Target]:
    """Take candidates one after the other until the requests fit; none if they never do."""
    targets: list[Target] = []
    for candidate in order:
        left = state.without({target.holder.uid for target in targets})
        if passed_over(left, attempt, candidate, may_borrow=may_borrow):
            continue
        targets.append(Target(candidate.holder, REASONS[candidate.variant]))
        left = left.without({candidate.holder.uid})
        if fits(left, attempt, may_borrow=may_borrow):
            return fill_back(state, attempt, targets, may_borrow=may_borrow)
    return []


def passed_over(state: State, attempt: Attempt, candidate: Candidate, *, may_borrow: bool) -> bool:
    """Whether a candidate may no longer be taken, `state` being without those taken so far."""
    if candidate.lca is None:
        return False
    if may_borrow and candidate.variant == WITHOUT_BORROWING:
        return True
    path = state.tree.path(Node("queue", candidate.holder.cluster_queue))
    below_lca = path[: path.index(candidate.lca)]
    return any(state.tree.within_nominal(node, attempt.needed) for node in below_lca)
