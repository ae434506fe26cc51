"""Names of other objects that are not there.

What is missing is a warning when it should be known: a cluster was named, or the files define
others of that kind. Else it may well be somewhere, and an info says that nobody looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from federation.api.names import KUEUE_GROUP, Controller
from federation.api.problems import Path, suggest
from federation.core.matching import selects
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import JobView, get
from fedq.lint.world import World

SCHEDULING: Final = "scheduling.k8s.io"
_BUILT_IN: Final = "system-"
"""Prefix of the PriorityClasses that every cluster has."""


def _missing(
    world: World, thing: Thing, path: Path, wanted: tuple[str, str], others: Iterable[str]
) -> Finding:
    """A reference to a (kind, name) that is not among `others`."""
    kind, name = wanted
    group = SCHEDULING if kind == "PriorityClass" else KUEUE_GROUP
    if world.knows(kind, group):
        where = "in the files or the cluster" if kind in world.cluster else "among the files"
        said = f"{kind} {name} is not {where}{suggest(name, others)}"
        return Finding(thing, said, f"create it, or correct the name ({_effect(kind)})", path)
    said = f"{kind} {name} is not among the files, nor is any other"
    todo = "lint them together, or look into a cluster with --against CONTEXT"
    return Finding(thing, said, todo, path, Severity.INFO)


def _effect(kind: str) -> str:
    return {
        "LocalQueue": "without it the job waits for ever",
        "ClusterQueue": "without it nothing is admitted",
        "ResourceFlavor": "without it the whole ClusterQueue is inactive",
        "AdmissionCheck": "without it the whole ClusterQueue is inactive",
        "Topology": "without it queues with this flavor are inactive",
        "WorkloadPriorityClass": "without it the job is not queued at all",
        "PriorityClass": "without it its pods cannot be created",
        "MultiKueueCluster": "without it nothing is sent there",
    }.get(kind, "without it the check is inactive")


def queue_missing(world: World) -> Iterator[Finding]:
    """A job names a LocalQueue."""
    for job in world.jobs:
        space = job.thing.namespace
        if job.queue and (space, job.queue) not in world.local_queues:
            wanted = ("LocalQueue", f"{space}/{job.queue}")
            others = [f"{s}/{name}" for s, name in world.local_queues]
            yield _missing(world, job.thing, job.queue_path, wanted, others)


def cluster_queue_missing(world: World) -> Iterator[Finding]:
    """A LocalQueue leads to a ClusterQueue."""
    path: Path = ("spec", "clusterQueue")
    for thing in world.of("LocalQueue"):
        name = get(thing.body, path)
        if not name:
            said = "it leads to no ClusterQueue"
            yield Finding(thing, said, "set spec.clusterQueue", ("spec",))
        elif name not in world.queue_by_name:
            wanted = ("ClusterQueue", name)
            yield _missing(world, thing, path, wanted, world.queue_by_name)


def flavor_missing(world: World) -> Iterator[Finding]:
    """A queue or cohort gives quota in a flavor."""
    known = world.names("ResourceFlavor")
    for thing in (*world.of("ClusterQueue"), *world.of("Cohort")):
        for i, group in enumerate(get(thing.body, ("spec", "resourceGroups")) or ()):
            for j, flavor in enumerate(group.get("flavors") or ()):
                if flavor["name"] not in known:
                    path = ("spec", "resourceGroups", i, "flavors", j, "name")
                    wanted = ("ResourceFlavor", flavor["name"])
                    yield _missing(world, thing, path, wanted, known)


def check_missing(world: World) -> Iterator[Finding]:
    """A queue asks checks; a check of MultiKueue has its config, a config its clusters."""
    checks, configs = world.names("AdmissionCheck"), world.names("MultiKueueConfig")
    clusters = world.names("MultiKueueCluster")
    for thing in world.of("ClusterQueue"):
        path: Path = ("spec", "admissionChecksStrategy", "admissionChecks")
        for index, check in enumerate(get(thing.body, path) or ()):
            if check["name"] not in checks:
                wanted = ("AdmissionCheck", check["name"])
                yield _missing(world, thing, (*path, index), wanted, checks)
    for thing in world.of("AdmissionCheck"):
        spec = thing.body["spec"]
        if spec["controllerName"] != Controller.MULTIKUEUE.value:
            continue
        name = get(spec, ("parameters", "name"))
        if not name:
            said = "a check of MultiKueue without spec.parameters"
            yield Finding(thing, said, "name a MultiKueueConfig there", ("spec",))
        elif name not in configs:
            path = ("spec", "parameters", "name")
            yield _missing(world, thing, path, ("MultiKueueConfig", name), configs)
    for thing in world.of("MultiKueueConfig"):
        for index, name in enumerate(thing.body["spec"]["clusters"]):
            if name not in clusters:
                path = ("spec", "clusters", index)
                yield _missing(world, thing, path, ("MultiKueueCluster", name), clusters)


def topology_missing(world: World) -> Iterator[Finding]:
    """A flavor is arranged in a topology."""
    known, path = world.names("Topology"), ("spec", "topologyName")
    for thing in world.of("ResourceFlavor"):
        name = get(thing.body, path)
        if name and name not in known:
            yield _missing(world, thing, path, ("Topology", name), known)


def priority_missing(world: World) -> Iterator[Finding]:
    """A job names a priority class of the queue, or its pods one of the cluster."""
    own, classes = world.names("WorkloadPriorityClass"), world.names("PriorityClass", SCHEDULING)
    for job in world.jobs:
        if job.priority_class and job.priority_class not in own:
            yield _own_class(world, job, own, job.priority_class in classes)
        for pods in job.pods:
            name = pods.spec.get("priorityClassName")
            if name and name not in classes and not name.startswith(_BUILT_IN):
                path = (*pods.path, "spec", "priorityClassName")
                yield _missing(world, job.thing, path, ("PriorityClass", name), classes)


def _own_class(world: World, job: JobView, own: frozenset[str], other_kind: bool) -> Finding:
    path: Path = ("metadata", "labels", "kueue.x-k8s.io/priority-class")
    name = job.priority_class
    if other_kind:
        said = f"{name} is a PriorityClass, the label names a WorkloadPriorityClass"
        todo = "create a WorkloadPriorityClass of that name, or set priorityClassName of the pods"
        return Finding(job.thing, said, todo, path)
    return _missing(world, job.thing, path, ("WorkloadPriorityClass", name), own)


def namespace_not_selected(world: World) -> Iterator[Finding]:
    """A LocalQueue in a namespace whose workloads its ClusterQueue does not take."""
    for thing in world.of("LocalQueue"):
        queue = world.queue_by_name.get(get(thing.body, ("spec", "clusterQueue")) or "")
        labels = world.namespaces.get(thing.namespace)
        if queue is None or queue.namespace_selector is None or labels is None:
            continue  # without a selector: rule no-namespace-selector
        if not selects(queue.namespace_selector, labels):
            said = (
                f"namespaceSelector of ClusterQueue {queue.name} does not match {thing.namespace}"
            )
            todo = "label the namespace, or widen the selector"
            yield Finding(thing, said, todo, ("spec", "clusterQueue"))


RULES: Final = (
    Rule("queue-missing", Severity.WARNING, queue_missing),
    Rule("cluster-queue-missing", Severity.WARNING, cluster_queue_missing),
    Rule("flavor-missing", Severity.WARNING, flavor_missing),
    Rule("check-missing", Severity.WARNING, check_missing),
    Rule("topology-missing", Severity.WARNING, topology_missing),
    Rule("priority-missing", Severity.WARNING, priority_missing),
    Rule("namespace-not-selected", Severity.WARNING, namespace_not_selected),
)
