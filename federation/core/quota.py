"""The quota tree: ClusterQueues as leaves, cohorts above them.

The algebra (subtree quota, local quota, available, potential, add and remove) is Kueue's
`resource_node`: quota within the lending limit stays local, what exceeds it is shared upwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from federation.core.types import ClusterQueue, Cohort, FlavorResource, Quota, ResourceGroup, Usage

_NO_QUOTA = Quota(0)


@dataclass(slots=True)
class _Node:
    name: str
    quotas: dict[FlavorResource, Quota]
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)
    subtree: Usage = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)

    def quota(self, fr: FlavorResource) -> Quota:
        return self.quotas.get(fr, _NO_QUOTA)

    def local(self, fr: FlavorResource) -> int:
        """Quota that the lending limit keeps from the parent."""
        limit = self.quota(fr).lending_limit
        if self.parent is None or limit is None:
            return 0
        return max(0, self.subtree.get(fr, 0) - limit)

    def local_available(self, fr: FlavorResource) -> int:
        return max(0, self.local(fr) - self.usage.get(fr, 0))

    def available(self, fr: FlavorResource) -> int:
        """What is free here and by borrowing; negative when over-used."""
        subtree, usage = self.subtree.get(fr, 0), self.usage.get(fr, 0)
        if self.parent is None:
            return subtree - usage
        local = self.local(fr)
        shared = self.parent.available(fr)
        limit = self.quota(fr).borrowing_limit
        if limit is not None:
            shared = min(shared, subtree - local - max(0, usage - local) + limit)
        return self.local_available(fr) + shared

    def potential(self, fr: FlavorResource) -> int:
        """What could be free if nothing ran."""
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree
        most = self.local(fr) + self.parent.potential(fr)
        limit = self.quota(fr).borrowing_limit
        return most if limit is None else min(most, subtree + limit)

    def add(self, fr: FlavorResource, amount: int) -> None:
        local = self.local_available(fr)
        self.usage[fr] = self.usage.get(fr, 0) + amount
        if self.parent is not None and amount > local:
            self.parent.add(fr, amount - local)

    def remove(self, fr: FlavorResource, amount: int) -> None:
        stored_above = self.usage.get(fr, 0) - self.local(fr)
        self.usage[fr] = self.usage.get(fr, 0) - amount
        if self.parent is not None and stored_above > 0:
            self.parent.remove(fr, min(amount, stored_above))

    def settle(self) -> None:
        """Compute subtree quota bottom-up."""
        self.subtree = {fr: quota.nominal for fr, quota in self.quotas.items()}
        for child in self.children:
            child.settle()
            for fr, amount in child.subtree.items():
                self.subtree[fr] = self.subtree.get(fr, 0) + amount - child.local(fr)


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
        self._leaves: dict[str, _Node] = {}
        self._cohorts: dict[str, _Node] = {}
        self.cyclic: frozenset[str] = frozenset()
        parents: dict[str, str] = {}
        for cohort in cohorts:
            self._cohort(cohort.name).quotas = quotas_of(cohort.groups)
            parents[cohort.name] = cohort.parent
        for name, parent in parents.items():
            if parent:
                self._adopt(self._cohort(name), self._cohort(parent))
        in_cycle = {name for name in self._cohorts if _reaches_itself(name, parents)}
        cyclic = set()
        for queue in queues:
            leaf = _Node(queue.name, quotas_of(queue.groups))
            self._leaves[queue.name] = leaf
            if queue.cohort in in_cycle:
                cyclic.add(queue.name)
                leaf.quotas = {}
            elif queue.cohort:
                self._adopt(leaf, self._cohort(queue.cohort))
            elif leaf.quotas:
                leaf.quotas = {fr: Quota(quota.nominal) for fr, quota in leaf.quotas.items()}
        self.cyclic = frozenset(cyclic)
        for node in (*self._leaves.values(), *self._cohorts.values()):
            if node.parent is None and node.name not in in_cycle:
                node.settle()

    def _cohort(self, name: str) -> _Node:
        return self._cohorts.setdefault(name, _Node(name, {}))

    @staticmethod
    def _adopt(child: _Node, parent: _Node) -> None:
        child.parent = parent
        parent.children.append(child)

    def available(self, queue: str, fr: FlavorResource) -> int:
        """Free for `queue`, borrowing included; never negative. 0 for what it does not list."""
        leaf = self._leaves.get(queue)
        return max(0, leaf.available(fr)) if leaf and fr in leaf.quotas else 0

    def potential(self, queue: str, fr: FlavorResource) -> int:
        """The most `queue` could ever get."""
        leaf = self._leaves.get(queue)
        return leaf.potential(fr) if leaf and fr in leaf.quotas else 0

    def usage(self, queue: str) -> Mapping[FlavorResource, int]:
        """What is charged to `queue` now."""
        leaf = self._leaves.get(queue)
        return leaf.usage if leaf else {}

    def borrows(self, queue: str, fr: FlavorResource, amount: int) -> bool:
        """Whether charging `amount` more would exceed the queue's own nominal quota."""
        leaf = self._leaves[queue]
        return leaf.quota(fr).nominal < leaf.usage.get(fr, 0) + amount

    def add(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Charge `usage`; a queue that is gone is ignored, as its quota is too."""
        if leaf := self._leaves.get(queue):
            for fr, amount in usage.items():
                leaf.add(fr, amount)

    def remove(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Undo `add`."""
        if leaf := self._leaves.get(queue):
            for fr, amount in usage.items():
                leaf.remove(fr, amount)


def _reaches_itself(name: str, parents: Mapping[str, str]) -> bool:
    """Whether the way up from `name` never ends (it is in, or below, a cycle of cohorts)."""
    seen: set[str] = set()
    current: str = name
    while current:
        if current in seen:
            return True
        seen.add(current)
        current = parents.get(current, "")
    return False
