"""§6, what both preemption algorithms share: who may be evicted, in which order, and fill-back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from federation.core.policies import PreemptionPolicy
from federation.core.types import FlavorResource, Holder, Pending
from tests.reference.quota import Amounts, Node
from tests.reference.state import State


@dataclass(frozen=True)
class Attempt:
    """A workload that looks for victims.

    `needed` are what the victims must hold some of; `requests` is all that has to fit in the end.
    """

    item: Pending
    needed: Collection[FlavorResource]
    requests: Amounts

    @property
    def queue(self) -> Node:
        """The ClusterQueue of the workload."""
        return Node("queue", self.item.cluster_queue)


@dataclass(frozen=True)
class Target:
    """A victim and the reason of its preemption."""

    holder: Holder
    reason: str


def satisfies(policy: PreemptionPolicy, item: Pending, candidate: Holder) -> bool:
    """Whether a preemption policy lets `item` evict `candidate`."""
    match policy:
        case PreemptionPolicy.NEVER:
            return False
        case PreemptionPolicy.LOWER_PRIORITY:
            return candidate.priority < item.priority
        case PreemptionPolicy.LOWER_OR_NEWER:
            if candidate.priority == item.priority:
                return item.created < candidate.created
            return candidate.priority < item.priority
        case PreemptionPolicy.ANY:
            return True


def candidates_in(
    state: State, attempt: Attempt, queue: Node, policy: PreemptionPolicy
) -> list[Holder]:
    """The workloads of one ClusterQueue that may be evicted; ours: never a non-preemptible one.

    To hold quota is to have the flavor assigned for the resource, be it with an amount of 0.
    """
    if queue.name not in state.active:
        return []
    return [
        holder
        for holder in state.holders.values()
        if holder.cluster_queue == queue.name
        and holder.preemptible
        and any(fr in holder.usage for fr in attempt.needed)
        and satisfies(policy, attempt.item, holder)
    ]


def candidate_order(state: State, attempt: Attempt) -> Callable[[Holder], Any]:
    """Sort key: evicted, other queues, lower priority, latest reserved (unset: now), UID."""

    def key(holder: Holder) -> Any:
        own = holder.cluster_queue == attempt.queue.name
        reserved = state.now if holder.reserved is None else holder.reserved
        return (not holder.evicted, own, holder.priority, -reserved, holder.uid)

    return key


def fits(state: State, attempt: Attempt, *, may_borrow: bool) -> bool:
    """Whether the requests fit into this state, without borrowing if that is forbidden."""
    if not may_borrow and any(
        state.tree.borrowing_with(attempt.queue, fr, amount)
        for fr, amount in attempt.requests.items()
    ):
        return False
    return state.tree.fits(attempt.queue, attempt.requests)


def fill_back(
    state: State, attempt: Attempt, targets: list[Target], *, may_borrow: bool
) -> list[Target]:
    """Let go of targets that turn out not to be needed, the latest taken first.

    The very last one made it fit, so it stays.
    """
    chosen = list(targets)
    for target in reversed(targets[:-1]):
        fewer = [other for other in chosen if other is not target]
        left = state.without({other.holder.uid for other in fewer})
        if fits(left, attempt, may_borrow=may_borrow):
            chosen = fewer
    return chosen
