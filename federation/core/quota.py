"""The quota tree: ClusterQueues as leaves, cohorts above them.

The algebra (subtree quota, local quota, available, potential, add and remove) is Kueue's
`resource_node`: quota within the lending limit stays local, what exceeds it is shared upwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from federation.core.types import ClusterQueue, Cohort, FlavorResource, Quota, ResourceGroup, Usage

_NO_QUOTA = Quota(0)
_DEEPEST = 200
"""Levels of cohorts. Decisions walk all of them, some by recursion; nobody means that many."""


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort in the tree, with what is charged to it.

    `subtree` is the quota of everything below that is not kept local; for a ClusterQueue it is its
    nominal quota. `local` is what its lending limit keeps from the parent. `height` is 0 for a
    ClusterQueue, else one more than the highest child.
    """

    name: str
    quotas: Mapping[FlavorResource, Quota]
    weight: float = 1.0
    parent: QuotaNode | None = None
    cohorts: list[QuotaNode] = field(default_factory=list)
    queues: list[QuotaNode] = field(default_factory=list)
    subtree: Usage = field(default_factory=dict)
    local: Usage = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)
    height: int = 0
    borrowers: dict[FlavorResource, dict[str, QuotaNode]] = field(default_factory=dict)
    """Queues right below, by name, that use more than their own quota: preemption asks for them
    all the time."""

    @property
    def root(self) -> QuotaNode:
        """The top of its tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def ancestors(self) -> Iterator[QuotaNode]:
        """The cohorts above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def local_available(self, fr: FlavorResource) -> int:
        """Local quota that is not used yet."""
        local = self.local.get(fr)
        return max(0, local - self.usage.get(fr, 0)) if local else 0

    def available(self, fr: FlavorResource) -> int:
        """What is free here and by borrowing; negative when over-used."""
        subtree, usage = self.subtree.get(fr, 0), self.usage.get(fr, 0)
        if self.parent is None:
            return subtree - usage
        local = self.local.get(fr, 0)
        shared = self.parent.available(fr)
        limit = self.quotas.get(fr, _NO_QUOTA).borrowing_limit
        if limit is not None:
            shared = min(shared, subtree - local - max(0, usage - local) + limit)
        return max(0, local - usage) + shared

    def potential(self, fr: FlavorResource) -> int:
        """What could be free if nothing ran."""
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree
        most = self.local.get(fr, 0) + self.parent.potential(fr)
        limit = self.quotas.get(fr, _NO_QUOTA).borrowing_limit
        return most if limit is None else min(most, subtree + limit)

    def borrows(self, fr: FlavorResource, amount: int) -> bool:
        """Whether `amount` more would exceed the node's own quota."""
        return self.subtree.get(fr, 0) < self.usage.get(fr, 0) + amount

    def within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether it borrows none of these."""
        return all(self.subtree.get(fr, 0) >= self.usage.get(fr, 0) for fr in frs)

    def borrowing(self, frs: Iterable[FlavorResource]) -> dict[str, QuotaNode]:
        """The queues right below that borrow any of these, by name."""
        return {name: queue for fr in frs for name, queue in self.borrowers.get(fr, {}).items()}

    def fits_in_quota(self, requests: Mapping[FlavorResource, int]) -> tuple[bool, Usage]:
        """Whether `requests` need no borrowing here, and what of them is left for the parent."""
        fits, left = True, {}
        for fr, amount in requests.items():
            fits = fits and not self.borrows(fr, amount)
            left[fr] = max(0, amount - self.local_available(fr))
        return fits, left

    def borrow_level(self, fr: FlavorResource, amount: int) -> tuple[int, bool]:
        """How far up the tree `amount` has to be borrowed (0: not at all), and whether a cohort
        above that could still have its own quota back.
        """
        if self.parent is None or not self.borrows(fr, amount):
            return 0, self.parent is not None
        node, rest = self.parent, amount - self.local_available(fr)
        while node.borrows(fr, rest):
            if node.parent is None:
                return node.height, False
            rest -= node.local_available(fr)
            node = node.parent
        return node.height, node.parent is not None

    def add(self, fr: FlavorResource, amount: int) -> None:
        """Charge `amount`: what local quota does not cover is charged to the parent too."""
        usage, rest = self.usage.get(fr, 0) + amount, amount - self.local_available(fr)
        self.usage[fr] = usage
        if self.parent is None:
            return
        if not self.height and usage > self.subtree.get(fr, 0):
            self.parent.borrowers.setdefault(fr, {})[self.name] = self
        if rest > 0:
            self.parent.add(fr, rest)

    def remove(self, fr: FlavorResource, amount: int) -> None:
        """Undo `add`, of which a negative amount stays here."""
        usage = self.usage.get(fr, 0)
        above = usage - self.local.get(fr, 0)
        self.usage[fr] = usage - amount
        if self.parent is None:
            return
        if not self.height and usage - amount <= self.subtree.get(fr, 0):
            self.parent.borrowers.get(fr, {}).pop(self.name, None)
        if above > 0 < amount:
            self.parent.remove(fr, min(amount, above))

    def add_all(self, amounts: Mapping[FlavorResource, int]) -> None:
        """Charge several amounts."""
        for fr, amount in amounts.items():
            self.add(fr, amount)

    def remove_all(self, amounts: Mapping[FlavorResource, int]) -> None:
        """Undo `add_all`."""
        for fr, amount in amounts.items():
            self.remove(fr, amount)

    def settle(self) -> None:
        """Compute subtree quota, local quota and height, bottom-up."""
        self.subtree = {fr: quota.nominal for fr, quota in self.quotas.items()}
        for child in (*self.cohorts, *self.queues):
            child.settle()
            self.height = max(self.height, child.height + 1)
            for fr, amount in child.subtree.items():
                self.subtree[fr] = self.subtree.get(fr, 0) + amount - child.local.get(fr, 0)
        if self.parent is not None:
            self.local = {
                fr: max(0, self.subtree[fr] - quota.lending_limit)
                for fr, quota in self.quotas.items()
                if quota.lending_limit is not None
            }


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    """Flatten resource groups to quotas per flavor and resource."""
    return {
        FlavorResource(flavor.flavor, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
    }


class QuotaTree:
    """Quota and usage of all ClusterQueues. Mutable: the shell adds and removes admissions.

    A cohort that is only named exists with no quota. ClusterQueues below a cycle of cohorts are
    listed in `cyclic` and have nothing available.
    """

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort] = ()) -> None:
        self.queues: dict[str, QuotaNode] = {}
        self.lendable: dict[tuple[str, str], int] = {}
        """What a cohort could lend of a resource, as far as somebody asked (see `shares`)."""
        self._cohorts: dict[str, QuotaNode] = {}
        parents: dict[str, str] = {}
        for cohort in sorted(cohorts, key=lambda cohort: cohort.name):
            node = self._cohort(cohort.name)
            node.quotas, node.weight = quotas_of(cohort.groups), cohort.fair_weight
            parents[cohort.name] = cohort.parent
        in_cycle = {name for name in parents if _reaches_itself(name, parents)}
        for name, parent in parents.items():
            if parent and name not in in_cycle:
                child, above = self._cohort(name), self._cohort(parent)
                child.parent = above
                above.cohorts.append(child)
        cyclic = set()
        for queue in sorted(queues, key=lambda queue: queue.name):
            if queue.cohort in in_cycle:
                cyclic.add(queue.name)
            self.queues[queue.name] = self._leaf(queue, queue.cohort in in_cycle)
        self.cyclic = frozenset(cyclic)
        self._roots = {
            name: f"cohort/{leaf.root.name}"
            for name, leaf in self.queues.items()
            if leaf.parent is not None
        }
        for node in (*self.queues.values(), *self._cohorts.values()):
            if node.parent is None and node.name not in in_cycle:
                node.settle()

    def _leaf(self, queue: ClusterQueue, in_cycle: bool) -> QuotaNode:
        leaf = QuotaNode(queue.name, {} if in_cycle else quotas_of(queue.groups), queue.fair_weight)
        if queue.cohort and not in_cycle:
            leaf.parent = self._cohort(queue.cohort)
            leaf.parent.queues.append(leaf)
        elif leaf.quotas:  # without a cohort limits mean nothing
            leaf.quotas = {fr: Quota(quota.nominal) for fr, quota in leaf.quotas.items()}
        return leaf

    def _cohort(self, name: str) -> QuotaNode:
        return self._cohorts.setdefault(name, QuotaNode(name, {}))

    def available(self, queue: str, fr: FlavorResource) -> int:
        """Free for `queue`, borrowing included; never negative. 0 for what it does not list."""
        leaf = self.queues.get(queue)
        return max(0, leaf.available(fr)) if leaf and fr in leaf.quotas else 0

    def potential(self, queue: str, fr: FlavorResource) -> int:
        """The most `queue` could ever get."""
        leaf = self.queues.get(queue)
        return leaf.potential(fr) if leaf and fr in leaf.quotas else 0

    def usage(self, queue: str) -> Mapping[FlavorResource, int]:
        """What is charged to `queue` now."""
        leaf = self.queues.get(queue)
        return leaf.usage if leaf else {}

    def root(self, queue: str) -> str:
        """Name of the tree a queue is in: its top cohort, or the queue itself."""
        return self._roots.get(queue) or f"queue/{queue}"

    def cohort(self, name: str) -> QuotaNode | None:
        """A cohort, named or implicit."""
        return self._cohorts.get(name)

    def add(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Charge `usage`; a queue that is gone is ignored, as its quota is too."""
        if leaf := self.queues.get(queue):
            leaf.add_all(usage)

    def remove(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Undo `add`."""
        if leaf := self.queues.get(queue):
            leaf.remove_all(usage)


def _reaches_itself(name: str, parents: Mapping[str, str]) -> bool:
    """Whether the way up from `name` never ends (it is in, or below, a cycle of cohorts).

    One that is too long to be walked is taken for such a way.
    """
    seen: set[str] = set()
    current: str = name
    while current:
        if current in seen or len(seen) == _DEEPEST:
            return True
        seen.add(current)
        current = parents.get(current, "")
    return False
