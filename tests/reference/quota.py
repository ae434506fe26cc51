"""§4, the quota tree: every value from its definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from federation.core.types import ClusterQueue, Cohort, FlavorResource, Quota, ResourceGroup

T = TypeVar("T")
Amounts = Mapping[FlavorResource, int]
UNLIMITED = 10**30


class Node(NamedTuple):
    """A ClusterQueue ("queue") or a cohort ("cohort")."""

    kind: str
    name: str


class Charge(NamedTuple):
    """An amount that counts as used in a ClusterQueue.

    `kept` is for negative amounts (§7.6) alone: `add` passes nothing negative on to the parent, so
    this much of what the queue gave back is still counted above it.
    """

    queue: str
    fr: FlavorResource
    amount: int
    kept: int = 0


def quotas(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    """What an object lists, by flavor and resource."""
    return {
        FlavorResource(flavor.flavor, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
    }


def in_cycle(cohort: str, parents: Mapping[str, str]) -> bool:
    """Whether the way up from a cohort never ends."""
    seen = set()
    while cohort:
        if cohort in seen:
            return True
        seen.add(cohort)
        cohort = parents.get(cohort, "")
    return False


def remembered(memo: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Nothing in a tree changes once it is made: the same question is answered once.

    It only saves time. `memo` names the attribute that keeps the answers.
    """

    def decorate(method: Callable[..., T]) -> Callable[..., T]:
        @wraps(method)
        def ask(self: Any, *args: Any) -> T:
            known: dict[Any, T] = getattr(self, memo)
            key = (method.__name__, *args)
            if key not in known:
                known[key] = method(self, *args)
            return known[key]

        return ask

    return decorate


class Tree:
    """All ClusterQueues and cohorts, and their quota."""

    def __init__(self, queues: Mapping[str, ClusterQueue], cohorts: Mapping[str, Cohort]) -> None:
        parents = {name: cohort.parent for name, cohort in cohorts.items()}
        self.cyclic = {q.name for q in queues.values() if in_cycle(q.cohort, parents)}
        self._parent: dict[Node, Node | None] = {}
        self._quotas: dict[Node, dict[FlavorResource, Quota]] = {}
        self._weight: dict[Node, float] = {}
        self._of_quota: dict[Any, Any] = {}
        for cohort in cohorts.values():
            if not in_cycle(cohort.name, parents):
                node = Node("cohort", cohort.name)
                self._place(node, cohort.parent, quotas(cohort.groups), cohort.fair_weight)
        for queue in queues.values():
            if queue.name not in self.cyclic:
                node = Node("queue", queue.name)
                self._place(node, queue.cohort, quotas(queue.groups), queue.fair_weight)
        for name in [node.name for node in self._parent.values() if node is not None]:
            self._parent.setdefault(Node("cohort", name), None)  # exists by being mentioned

    def _place(
        self, node: Node, parent: str, listed: dict[FlavorResource, Quota], weight: float
    ) -> None:
        self._parent[node] = Node("cohort", parent) if parent else None
        self._quotas[node] = listed
        self._weight[node] = weight

    # --- the shape ---

    def has(self, node: Node) -> bool:
        """Whether it exists, and is not in or below a cycle."""
        return node in self._parent

    def parent(self, node: Node) -> Node | None:
        """The cohort above, or None."""
        return self._parent[node]

    @remembered("_of_quota")
    def children(self, node: Node) -> list[Node]:
        """Child cohorts, then ClusterQueues, each by name."""
        return sorted(child for child, parent in self._parent.items() if parent == node)

    def ancestors(self, node: Node) -> Iterator[Node]:
        """The cohorts above, from the parent to the root."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def path(self, node: Node) -> list[Node]:
        """The node and its ancestors."""
        return [node, *self.ancestors(node)]

    def root(self, node: Node) -> Node:
        """The top of the tree that a node is in."""
        return self.path(node)[-1]

    def members(self, node: Node) -> list[Node]:
        """The ClusterQueues at or below a node."""
        if node.kind == "queue":
            return [node]
        return [queue for child in self.children(node) for queue in self.members(child)]

    def lca(self, one: Node, other: Node) -> Node:
        """The lowest cohort that two nodes of one tree have in common."""
        above = list(self.ancestors(other))
        return next(node for node in self.ancestors(one) if node in above)

    def height(self, node: Node) -> int:
        """1 for a cohort with only ClusterQueues below, else one more than its highest child."""
        return max((self.height(child) + 1 for child in self.children(node)), default=0)

    def weight(self, node: Node) -> float:
        """Fair sharing weight."""
        return self._weight.get(node, 1.0)

    # --- quota ---

    def quota(self, node: Node, fr: FlavorResource) -> Quota:
        """What the node itself lists; nothing for what it does not list."""
        return self._quotas.get(node, {}).get(fr, Quota(0))

    def lists(self, node: Node, fr: FlavorResource) -> bool:
        """Whether the node itself lists quota."""
        return fr in self._quotas.get(node, {})

    @remembered("_of_quota")
    def frs(self, node: Node) -> list[FlavorResource]:
        """All that is listed at or below a node."""
        found = set(self._quotas.get(node, {}))
        for child in self.children(node):
            found.update(self.frs(child))
        return sorted(found)

    def nominal(self, node: Node, fr: FlavorResource) -> int:
        """Nominal quota."""
        return self.quota(node, fr).nominal

    def borrowing_limit(self, node: Node, fr: FlavorResource) -> int | None:
        """BL; one without a cohort is ignored."""
        return self.quota(node, fr).borrowing_limit if self.parent(node) else None

    @remembered("_of_quota")
    def subtree(self, node: Node, fr: FlavorResource) -> int:
        """S."""
        total = self.nominal(node, fr)
        for child in self.children(node):
            total += self.subtree(child, fr) - self.local(child, fr)
        return total

    def local(self, node: Node, fr: FlavorResource) -> int:
        """What the lending limit keeps from the parent."""
        limit = self.quota(node, fr).lending_limit
        if limit is None or self.parent(node) is None:
            return 0
        return max(0, self.subtree(node, fr) - limit)

    @remembered("_of_quota")
    def potential(self, node: Node, fr: FlavorResource) -> int:
        """What could be available if nothing were used."""
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, fr)
        limit = self.borrowing_limit(node, fr)
        most = UNLIMITED if limit is None else self.subtree(node, fr) + limit
        return min(self.local(node, fr) + self.potential(parent, fr), most)


class Books(Tree):
    """The same tree under a fixed list of charges."""

    def __init__(self, tree: Tree, charges: Sequence[Charge]) -> None:
        self.__dict__.update(tree.__dict__)
        self._of_usage: dict[Any, Any] = {}
        self._charges = [c for c in charges if self.has(Node("queue", c.queue))]

    # --- usage ---

    @remembered("_of_usage")
    def usage(self, node: Node, fr: FlavorResource) -> int:
        """U."""
        if node.kind == "queue":
            return sum(c.amount for c in self._charges if c.queue == node.name and c.fr == fr)
        return sum(self.passed_on(child, fr) for child in self.children(node))

    def passed_on(self, node: Node, fr: FlavorResource) -> int:
        """How much of a node's usage its parent counts."""
        kept = sum(
            c.kept
            for c in self._charges
            if node.kind == "queue" and c.queue == node.name and c.fr == fr
        )
        return max(0, self.usage(node, fr) - self.local(node, fr)) + kept

    def used_frs(self, node: Node) -> set[FlavorResource]:
        """What anything at or below a node uses, listed or not."""
        names = {queue.name for queue in self.members(node)}
        return {charge.fr for charge in self._charges if charge.queue in names}

    def local_available(self, node: Node, fr: FlavorResource) -> int:
        """Free local quota."""
        return max(0, self.local(node, fr) - self.usage(node, fr))

    def available(self, node: Node, fr: FlavorResource) -> int:
        """What is free at a node, by borrowing too; may be negative."""
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, fr) - self.usage(node, fr)
        limit = self.borrowing_limit(node, fr)
        borrowable = UNLIMITED
        if limit is not None:
            local = self.local(node, fr)
            borrowable = self.subtree(node, fr) - local
            borrowable -= max(0, self.usage(node, fr) - local)
            borrowable += limit
        return self.local_available(node, fr) + min(self.available(parent, fr), borrowable)

    def free(self, queue: Node, fr: FlavorResource) -> int:
        """`available` as a ClusterQueue sees it: only what it lists, never negative."""
        return max(0, self.available(queue, fr)) if self.lists(queue, fr) else 0

    # --- questions about an amount that is to be added ---

    def borrowing_with(self, node: Node, fr: FlavorResource, amount: int) -> bool:
        """Whether the node would exceed its own quota (at a queue S is its nominal quota)."""
        return self.subtree(node, fr) < self.usage(node, fr) + amount

    def within_nominal(self, node: Node, frs: Iterable[FlavorResource]) -> bool:
        """Whether the node uses no more than its own quota of all these."""
        return all(self.subtree(node, fr) >= self.usage(node, fr) for fr in frs)

    def fits_in_quota(self, node: Node, requests: Amounts) -> tuple[bool, Amounts]:
        """Whether the node's own quota suffices; what of the requests remains for its parent."""
        fits = all(not self.borrowing_with(node, fr, v) for fr, v in requests.items())
        rest = {fr: max(0, v - self.local_available(node, fr)) for fr, v in requests.items()}
        return fits, rest

    def borrow_level(self, queue: Node, fr: FlavorResource, amount: int) -> tuple[int, bool]:
        """How high one has to climb to borrow, and whether reclaiming might help (mayReclaim)."""
        if self.parent(queue) is None or not self.borrowing_with(queue, fr, amount):
            return 0, self.parent(queue) is not None
        rest = amount - self.local_available(queue, fr)
        for ancestor in self.ancestors(queue):
            if not self.borrowing_with(ancestor, fr, rest):
                return self.height(ancestor), self.parent(ancestor) is not None
            rest -= self.local_available(ancestor, fr)
        return self.height(self.root(queue)), False

    def fits(self, queue: Node, requests: Amounts) -> bool:
        """Whether all of it is available."""
        return all(amount <= self.free(queue, fr) for fr, amount in requests.items())
