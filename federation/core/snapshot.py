"""The state a cycle decides on. What a decision tries out is done to it and undone again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from federation.core.policies import Rules
from federation.core.quota import QuotaTree
from federation.core.topology import FlavorTopology
from federation.core.types import (
    Admission,
    ClusterQueue,
    Holder,
    ResourceFlavor,
    TopologyAssignment,
)

Holders = Mapping[str, Mapping[str, Holder]]
"""Workloads that hold quota: ClusterQueue, UID, workload."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`namespaces` are labels by name, `topologies` by flavor; `tree` and `topologies` have all
    that is charged, which is what `holders` hold. `usages` is the admission fair sharing usage of
    LocalQueues, by namespace and name.
    """

    queues: Mapping[str, ClusterQueue]
    flavors: Mapping[str, ResourceFlavor]
    namespaces: Mapping[str, Mapping[str, str]]
    tree: QuotaTree
    holders: Holders = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    topologies: Mapping[str, FlavorTopology] = field(default_factory=dict)
    usages: Mapping[tuple[str, str], float] = field(default_factory=dict)
    inactive: set[str] = field(default_factory=set)
    """Queues that take no part: their quota and usage count, but nobody there is a candidate."""
    gone: set[str] = field(default_factory=set)
    """UIDs of those whose leaving is assumed at the moment: they cannot leave once more."""
    pools: dict[object, list[Holder]] | None = None
    """While nothing is charged between two searches for victims, their candidates are kept."""

    def remove(self, holder: Holder) -> None:
        """Take away what a workload holds."""
        self.tree.queues[holder.cluster_queue].remove_all(holder.usage)
        self._topologies(holder.admission, -1)

    def restore(self, holder: Holder) -> None:
        """Undo `remove`."""
        self.tree.queues[holder.cluster_queue].add_all(holder.usage)
        self._topologies(holder.admission, 1)

    @contextmanager
    def without(self, holders: Iterable[Holder]) -> Iterator[None]:
        """The state as it would be if these had left."""
        gone = list(holders)
        for holder in gone:
            self.remove(holder)
        self.gone.update(holder.uid for holder in gone)
        try:
            yield
        finally:
            for holder in gone:
                self.restore(holder)
            self.gone.difference_update(holder.uid for holder in gone)

    def take_places(self, admission: Admission) -> None:
        """Count the pods of an admission in its topologies."""
        self._topologies(admission, 1)

    def leave_places(self, admission: Admission) -> None:
        """Undo `take_places`."""
        self._topologies(admission, -1)

    def has_places(self, admission: Admission) -> bool:
        """Whether the places of an admission are free."""
        wanted: dict[str, dict[tuple[str, ...], dict[str, int]]] = {}
        for flavor, places, per_pod in self._placed(admission):
            of_flavor = wanted.setdefault(flavor, {})
            for leaf, amounts in self.topologies[flavor].usage_of(places, per_pod).items():
                of_leaf = of_flavor.setdefault(leaf, {})
                for resource, amount in amounts.items():
                    of_leaf[resource] = of_leaf.get(resource, 0) + amount
        return all(self.topologies[flavor].fits(usage) for flavor, usage in wanted.items())

    def _topologies(self, admission: Admission, sign: int) -> None:
        for flavor, places, per_pod in self._placed(admission):
            topology = self.topologies[flavor]
            change = topology.add if sign > 0 else topology.remove
            change(places, per_pod)

    def _placed(
        self, admission: Admission
    ) -> Iterator[tuple[str, TopologyAssignment, dict[str, int]]]:
        """Flavor, places and requests per pod of the pod sets that have places."""
        if not self.topologies:
            return
        for pods in admission.pod_sets:
            if pods.topology is None or not pods.count:
                continue
            per_pod = {name: amount // pods.count for name, amount in pods.usage.items()}
            for flavor in sorted(set(pods.flavors.values())):
                if flavor in self.topologies:
                    yield flavor, pods.topology, per_pod
                    break
