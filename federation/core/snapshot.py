"""The state a cycle decides on. What a decision tries out is done to it and undone again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from federation.core.policies import Rules
from federation.core.quota import QuotaTree
from federation.core.topology import FlavorTopology, assume, topology_of
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
    away: set[str] = field(default_factory=set)
    """UIDs of all that were taken away to try something out, these and others."""
    delaying: frozenset[str] = frozenset()
    """Admission checks that make nodes: places are sought when they are Ready."""
    pools: dict[object, list[Holder]] | None = None
    """While nothing is charged between two searches for victims, their candidates are kept."""

    def remove(self, holder: Holder) -> None:
        """Take away what a workload holds."""
        self.away.add(holder.uid)
        self.tree.queues[holder.cluster_queue].remove_all(holder.usage)
        self.leave_places(holder.admission)

    def restore(self, holder: Holder) -> None:
        """Undo `remove`."""
        self.away.discard(holder.uid)
        self.tree.queues[holder.cluster_queue].add_all(holder.usage)
        self.take_places(holder.admission)

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
        for topology, places, per_pod in self._placed(admission):
            topology.add(places, per_pod)

    def leave_places(self, admission: Admission) -> None:
        """Undo `take_places`."""
        for topology, places, per_pod in self._placed(admission):
            topology.remove(places, per_pod)

    def has_places(self, admission: Admission) -> bool:
        """Whether the places of an admission are free."""
        wanted: dict[FlavorTopology, dict[tuple[str, ...], dict[str, int]]] = {}
        for topology, places, per_pod in self._placed(admission):
            assume(wanted.setdefault(topology, {}), topology.usage_of(places, per_pod))
        return all(topology.fits(usage) for topology, usage in wanted.items())

    def _placed(
        self, admission: Admission
    ) -> Iterator[tuple[FlavorTopology, TopologyAssignment, dict[str, int]]]:
        """Topology, places and requests per pod of the pod sets that have places."""
        if not self.topologies:
            return
        for pods in admission.pod_sets:
            if pods.topology is None or not pods.count:
                continue
            if (topology := topology_of(pods, self.topologies)) is not None:
                per_pod = {name: amount // pods.count for name, amount in pods.usage.items()}
                yield topology, pods.topology, per_pod
