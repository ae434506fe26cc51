"""The queue objects that admission decides by, and what a change of them concerns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from federation.core.policies import FairUsage, Rules
from federation.core.quota import QuotaTree
from federation.core.topology import FlavorTopology
from federation.core.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor


@dataclass(frozen=True, slots=True)
class World:
    """The queue objects. `namespaces` are labels by name, `topologies` by flavor, `inactive` the
    queues that admit nothing for a reason that cannot be seen here (their checks are not there).
    `fair_usage` is admission fair sharing, None if it is off; nothing else needs `local_queues`.
    """

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    cohorts: tuple[Cohort, ...] = ()
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    topologies: Mapping[str, FlavorTopology] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    inactive: frozenset[str] = frozenset()
    fair_usage: FairUsage | None = None
    local_queues: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    delaying: frozenset[str] = frozenset()
    """Admission checks that make nodes: places are sought when they are Ready."""

    def goes_by_usage(self, name: str) -> bool:
        """Whether the LocalQueues of a ClusterQueue take turns, by what they used."""
        queue = self.queues.get(name)
        return self.fair_usage is not None and queue is not None and queue.usage_based


def changed_queues(before: World, after: World) -> set[str]:
    """The queues whose workloads may be decided on differently now."""
    flavors = {
        name
        for name in before.flavors.keys() | after.flavors.keys()
        if before.flavors.get(name) != after.flavors.get(name)
    }
    everything = before.namespaces != after.namespaces or before.rules != after.rules
    delaying = before.delaying ^ after.delaying
    changed = set((before.inactive ^ after.inactive) & after.queues.keys())
    for name, queue in after.queues.items():
        concerned = everything or not flavors.isdisjoint(queue.flavor_names)
        concerned = concerned or not delaying.isdisjoint(queue.check_names)
        if concerned or before.queues.get(name) != queue:
            changed.add(name)
    return changed | _below_changed_cohorts(before, after)


def requoted_queues(before: World, after: World) -> set[str]:
    """The queues whose own quota, or that of a cohort in their tree, is another one now."""
    requoted = set()
    for name, queue in after.queues.items():
        known = before.queues.get(name)
        if known is None or (known.groups, known.cohort) != (queue.groups, queue.cohort):
            requoted.add(name)
    return requoted | _below_changed_cohorts(before, after)


def _below_changed_cohorts(before: World, after: World) -> set[str]:
    cohorts_before = {cohort.name: cohort for cohort in before.cohorts}
    cohorts_after = {cohort.name: cohort for cohort in after.cohorts}
    moved = {
        name
        for name in cohorts_before.keys() | cohorts_after.keys()
        if cohorts_before.get(name) != cohorts_after.get(name)
    }
    found: set[str] = set()
    if moved:
        trees = [QuotaTree(w.queues.values(), w.cohorts) for w in (before, after)]
        for tree in trees:
            roots = {f"cohort/{node.root.name}" for name in moved if (node := tree.cohort(name))}
            found |= {name for name in after.queues if tree.root(name) in roots}
    return found
