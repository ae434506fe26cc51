"""§6.2 and §6.3: dominant resource shares, and preemption by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from federation.core.policies import FairStrategy
from federation.core.types import Holder
from tests.reference.candidates import (
    Attempt,
    Target,
    candidate_order,
    candidates_in,
    fill_back,
    fits,
)
from tests.reference.quota import Books, Node
from tests.reference.state import State


@total_ordering
@dataclass(frozen=True, eq=False)
class Share:
    """How much a node borrows, in thousandths of what could be lent to it, before its weight."""

    ratio: float
    weight: float
    borrowing: bool

    @property
    def infinite(self) -> bool:
        """Whether it borrows something although it weighs nothing."""
        return self.weight == 0 and self.ratio > 0

    @property
    def _order(self) -> tuple[bool, float]:
        if self.infinite:
            return True, self.ratio
        return False, self.ratio / self.weight if self.weight else 0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and self._order == other._order

    def __lt__(self, other: Share) -> bool:
        return self._order < other._order


def share(tree: Books, node: Node) -> Share:
    """§6.2, the dominant resource share of a node."""
    parent, weight = tree.parent(node), tree.weight(node)
    if parent is None:
        return Share(0.0, weight, borrowing=False)
    borrowed: dict[str, int] = {}
    for fr in tree.used_frs(node):
        above = max(0, tree.usage(node, fr) - tree.subtree(node, fr))
        borrowed[fr.resource] = borrowed.get(fr.resource, 0) + above
    ratio = 0.0
    for resource, amount in borrowed.items():
        lendable = sum(
            tree.potential(parent, fr)
            for fr in tree.frs(tree.root(node))
            if fr.resource == resource
        )
        if lendable > 0:
            ratio = max(ratio, 1000 * amount / lendable)
    return Share(ratio, weight, borrowing=any(borrowed.values()))


def passes(
    strategy: FairStrategy, new_preemptor: Share, old_target: Share, new_target: Share
) -> bool:
    """The rule under which a victim may be taken from a queue that is not over its share."""
    if strategy is FairStrategy.FINAL_SHARE:
        return new_preemptor <= new_target
    return new_preemptor < old_target


def find_targets(state: State, attempt: Attempt) -> list[Target]:
    """§6.3."""
    return _Search(state, attempt).run()


class _Search:
    def __init__(self, state: State, attempt: Attempt) -> None:
        self.state, self.attempt, self.own = state, attempt, attempt.queue
        self.targets: list[Target] = []
        self.retry: list[Holder] = []
        self.order = candidate_order(state, attempt)
        # "Within nominal" is judged once, with the request and before anything is taken.
        self.nominal_ok = self.with_request.tree.within_nominal(self.own, attempt.needed)

    @property
    def left(self) -> State:
        """The state without the victims taken so far."""
        return self.state.without({target.holder.uid for target in self.targets})

    @property
    def with_request(self) -> State:
        """The same, with the requests added to our own queue."""
        return self.left.adding(self.own.name, self.attempt.requests)

    def run(self) -> list[Target]:
        strategies = self.state.rules.fair_strategies
        if self.first(strategies[0]) or (len(strategies) > 1 and self.second()):
            return fill_back(self.state, self.attempt, self.targets, may_borrow=True)
        return []

    def candidates(self) -> list[Holder]:
        """Our own queue's, and those of queues in the tree that borrow something needed."""
        policies, tree = self.state.queues[self.own.name].preemption, self.state.tree
        found = candidates_in(self.state, self.attempt, self.own, policies.within_queue)
        if tree.parent(self.own) is not None:
            for queue in tree.members(tree.root(self.own)):
                if queue != self.own and not tree.within_nominal(queue, self.attempt.needed):
                    found += candidates_in(self.state, self.attempt, queue, policies.reclaim)
        return sorted(found, key=self.order)

    def take(self, holder: Holder, reason: str) -> bool:
        """Take a victim; whether the requests fit now."""
        self.targets.append(Target(holder, reason))
        return fits(self.left, self.attempt, may_borrow=True)

    def first(self, strategy: FairStrategy) -> bool:
        """Strategy 1: whether it ended with enough room."""
        picks = _Picks(self.own, self.candidates(), self.order)
        while queue := picks.next(self.with_request.tree):
            if queue == self.own:
                if self.take(picks.pop(queue), "InClusterQueue"):
                    return True
            elif self.nominal_ok:
                if self.take(picks.pop(queue), "InCohortReclamation"):
                    return True
            elif self._take_by_share(strategy, picks, queue):
                return True
        return False

    def _take_by_share(self, strategy: FairStrategy, picks: _Picks, queue: Node) -> bool:
        """Take the first workload of a queue that passes the test, set aside those before it."""
        new_preemptor, old_target = self.shares(queue)
        if new_preemptor.infinite and not old_target.infinite:
            self.retry += picks.drop(queue)
            return False
        while picks.has(queue):
            holder = picks.pop(queue)
            if passes(strategy, new_preemptor, old_target, self.share_without(holder)):
                return self.take(holder, "InCohortFairSharing")
            self.retry.append(holder)
        return False

    def second(self) -> bool:
        """Strategy 2, over what failed before: one workload of each queue, always S2-b."""
        picks = _Picks(self.own, self.retry, self.order)
        while queue := picks.next(self.with_request.tree):
            holder = picks.pop(queue)
            picks.drop(queue)
            new_preemptor, old_target = self.shares(queue)
            passed = passes(
                FairStrategy.INITIAL_SHARE, new_preemptor, old_target, self.share_without(holder)
            )
            if passed and self.take(holder, "InCohortFairSharing"):
                return True
        return False

    def shares(self, queue: Node) -> tuple[Share, Share]:
        """Shares of the children of the common cohort: on our side, on the other queue's side."""
        tree = self.with_request.tree
        lca = tree.lca(self.own, queue)
        return share(tree, _below(tree, lca, self.own)), share(tree, _below(tree, lca, queue))

    def share_without(self, holder: Holder) -> Share:
        """The share on the other side once a workload has left it."""
        queue = Node("queue", holder.cluster_queue)
        tree = self.with_request.without({holder.uid}).tree
        return share(tree, _below(tree, tree.lca(self.own, queue), queue))


def _below(tree: Books, ancestor: Node, queue: Node) -> Node:
    """The child of an ancestor through which a queue hangs."""
    path = tree.path(queue)
    return path[path.index(ancestor) - 1]


@dataclass
class _Picks:
    """The queue iterator: from which queue the next victim is taken.

    The candidates of a queue are in the order of the list; `order` compares those of different
    queues. What was pruned once stays pruned.
    """

    own: Node
    candidates: list[Holder]
    order: Callable[[Holder], Any]
    pruned: set[Node] = field(default_factory=set)

    def of(self, queue: Node) -> list[Holder]:
        return [h for h in self.candidates if h.cluster_queue == queue.name]

    def has(self, queue: Node) -> bool:
        return bool(self.of(queue))

    def pop(self, queue: Node) -> Holder:
        """The first candidate of a queue, which is then no candidate any more."""
        holder = self.of(queue)[0]
        self.candidates = [h for h in self.candidates if h is not holder]
        return holder

    def drop(self, queue: Node) -> list[Holder]:
        """All candidates of a queue, which are then no candidates any more."""
        dropped = self.of(queue)
        self.candidates = [h for h in self.candidates if h.cluster_queue != queue.name]
        return dropped

    def next(self, tree: Books) -> Node | None:
        """The queue to take from, `tree` being as it is now; None when there is none left."""
        root = tree.root(self.own)
        if root == self.own:
            return self.own if self.has(self.own) else None
        while root not in self.pruned:
            queue = self._pick(tree, root)
            if queue is not None:
                return queue
        return None

    def _pick(self, tree: Books, cohort: Node) -> Node | None:
        queues = list(self._open(tree, cohort, "queue", self._is_useful_queue))
        cohorts = list(self._open(tree, cohort, "cohort", self._is_useful_cohort))
        if not queues and not cohorts:
            self.pruned.add(cohort)
            return None
        # Ties: the queue whose first candidate is better; the cohort that is last by name.
        queues.sort(key=lambda queue: self.order(self.of(queue)[0]))
        queue = max(queues, key=lambda node: share(tree, node), default=None)
        highest = max(reversed(cohorts), key=lambda node: share(tree, node), default=None)
        if highest is not None and (queue is None or share(tree, highest) >= share(tree, queue)):
            return self._pick(tree, highest)
        return queue

    def _open(
        self, tree: Books, cohort: Node, kind: str, useful: Callable[[Books, Node], bool]
    ) -> Iterator[Node]:
        """Children of a kind that are not pruned, after pruning those of no use."""
        for child in tree.children(cohort):
            if child.kind == kind and child not in self.pruned:
                if useful(tree, child):
                    yield child
                else:
                    self.pruned.add(child)

    def _is_useful_queue(self, tree: Books, queue: Node) -> bool:
        return self.has(queue) and (queue == self.own or share(tree, queue).borrowing)

    def _is_useful_cohort(self, tree: Books, cohort: Node) -> bool:
        return cohort in tree.ancestors(self.own) or share(tree, cohort).borrowing
