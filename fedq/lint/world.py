"""All objects of the files, and of a cluster if one was named, as the rules look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from federation.api.configuration import (
    ConfigurationError,
    Reading,
    is_configuration,
    read,
    to_resource_rules,
)
from federation.api.convert import to_cluster_queue, to_cohort, to_flavor, to_local_queue
from federation.api.names import KUEUE_GROUP
from federation.core.devices.inventory.node_groups import NodeGroup, decode
from federation.core.policies import ResourceRules, UndeclaredResources
from federation.core.quota import QuotaTree
from federation.core.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Taint
from federation.jobs.pods import taints
from fedq.lint.finding import Thing
from fedq.lint.jobs import JobView, get, view
from fedq.lint.pod_fields import Json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """A node, or a group of nodes of which only some labels are known (`partial`)."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, Any] = field(default_factory=dict)
    partial: bool = False

    def may_have(self, labels: Mapping[str, str]) -> bool:
        """Whether it has all these labels, or could have them."""
        return all(
            self.labels.get(key, value if self.partial else None) == value
            for key, value in labels.items()
        )


class World:
    """Sound objects only: what is wrong in itself is told before, and is not looked at here.

    `cluster` are the kinds of which all objects of a cluster are among them.
    """

    def __init__(self, things: Iterable[Thing], cluster: frozenset[str] = frozenset()) -> None:
        self.things = tuple(things)
        self.cluster = cluster

    def of(self, kind: str, group: str = KUEUE_GROUP) -> Iterator[Thing]:
        """All things of a kind."""
        return (t for t in self.things if t.kind == kind and t.group == group)

    def names(self, kind: str, group: str = KUEUE_GROUP) -> frozenset[str]:
        """Names of a cluster-scoped kind."""
        return frozenset(t.name for t in self.of(kind, group))

    def knows(self, kind: str, group: str = KUEUE_GROUP) -> bool:
        """Whether a name that is not among the things is likely to be missing: a cluster's were
        read, or the files define others of the kind.
        """
        return kind in self.cluster or next(self.of(kind, group), None) is not None

    def _core(self, kind: str, convert: Callable[[Json], T]) -> dict[Thing, T]:
        return {thing: convert(thing.body) for thing in self.of(kind)}

    @cached_property
    def queues(self) -> dict[Thing, ClusterQueue]:
        """ClusterQueues."""
        return self._core("ClusterQueue", to_cluster_queue)

    @cached_property
    def queue_by_name(self) -> dict[str, ClusterQueue]:
        """ClusterQueues by name."""
        return {queue.name: queue for queue in self.queues.values()}

    @cached_property
    def cohorts(self) -> dict[Thing, Cohort]:
        """Cohorts that are objects."""
        return self._core("Cohort", to_cohort)

    @cached_property
    def flavors(self) -> dict[Thing, ResourceFlavor]:
        """ResourceFlavors."""
        return self._core("ResourceFlavor", to_flavor)

    @cached_property
    def flavor_by_name(self) -> dict[str, ResourceFlavor]:
        """ResourceFlavors by name."""
        return {flavor.name: flavor for flavor in self.flavors.values()}

    @cached_property
    def local_queues(self) -> dict[tuple[str, str], LocalQueue]:
        """LocalQueues by namespace and name."""
        things = self._core("LocalQueue", to_local_queue)
        return {(thing.namespace, thing.name): queue for thing, queue in things.items()}

    @cached_property
    def tree(self) -> QuotaTree:
        """Quota with nothing used."""
        return QuotaTree(self.queues.values(), self.cohorts.values())

    @cached_property
    def jobs(self) -> tuple[JobView, ...]:
        """Everything with pods, or with a queue label."""
        return tuple(job for thing in self.things if (job := view(thing)) is not None)

    def queue_of(self, job: JobView) -> ClusterQueue | None:
        """The ClusterQueue that a job goes to, if both queues are known."""
        local = self.local_queues.get((job.thing.namespace, job.queue))
        return self.queue_by_name.get(local.cluster_queue) if local else None

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes, and the node groups of a device plugin's file."""
        nodes = (_node(thing) for thing in self.of("Node", ""))
        groups = (Node(g.name, g.selector, partial=True) for _, _, g in self.node_groups)
        return (*nodes, *groups)

    @cached_property
    def node_groups(self) -> tuple[tuple[Thing, int, NodeGroup], ...]:
        """Groups of nodes, each with its file and place there."""
        return tuple(
            (thing, index, group)
            for thing in self.things
            if is_node_groups(thing.body)
            for index, group in enumerate(decode(thing.body))
        )

    @cached_property
    def is_management(self) -> bool:
        """Whether the cluster sends its jobs elsewhere: then its nodes say nothing of them."""
        return any(thing.document is None for thing in self.of("MultiKueueCluster"))

    @cached_property
    def namespaces(self) -> dict[str, Mapping[str, str]]:
        """Labels of namespaces; every namespace has its name as a label."""
        return {
            t.name: {"kubernetes.io/metadata.name": t.name, **t.labels}
            for t in self.of("Namespace", "")
        }

    @cached_property
    def configurations(self) -> dict[Thing, Reading]:
        """Configurations."""
        found = {}
        for thing in self.things:
            if is_configuration(thing.body):
                try:
                    found[thing] = read(thing.body)
                except ConfigurationError:  # told as a bad value
                    continue
        return found

    @cached_property
    def resource_rules(self) -> ResourceRules:
        """Of the first Configuration that has any."""
        rules = (to_resource_rules(c.configuration) for c in self.configurations.values())
        return next((r for r in rules if r != ResourceRules()), ResourceRules())

    @cached_property
    def ignores_undeclared(self) -> bool:
        """Whether resources without quota need none."""
        return any(
            c.configuration.resources.quota_check_strategy is UndeclaredResources.IGNORE
            for c in self.configurations.values()
        )


def is_node_groups(body: Json) -> bool:
    """Whether it is a device plugin's list of node groups, which is no Kubernetes object."""
    return isinstance(body.get("nodeGroups"), list) and "kind" not in body


def _node(thing: Thing) -> Node:
    return Node(
        thing.name,
        thing.labels,
        taints(get(thing.body, ("spec", "taints"))),
        get(thing.body, ("status", "allocatable")) or {},
    )
