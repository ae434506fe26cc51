"""What the API server refuses in the other kinds beyond their fields; lists with repetitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from federation.api.fields import LABEL_VALUE_PATTERN, QUALIFIED_NAME_PATTERN
from federation.api.names import Annotation
from federation.api.problems import Path, dotted
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import get, view
from fedq.lint.world import World

Json = dict[str, Any]

_HOST: Final = "kubernetes.io/hostname"
_ANY: Final = "*"
_UNIQUE: Final[Mapping[str, tuple[tuple[Path, tuple[str, ...]], ...]]] = {
    "ClusterQueue": (
        (("spec", "resourceGroups", _ANY, "coveredResources"), ()),
        (("spec", "resourceGroups", _ANY, "flavors"), ("name",)),
        (("spec", "resourceGroups", _ANY, "flavors", _ANY, "resources"), ("name",)),
        (("spec", "admissionChecksStrategy", "admissionChecks"), ("name",)),
        (("spec", "admissionChecksStrategy", "admissionChecks", _ANY, "onFlavors"), ()),
    ),
    "Cohort": (
        (("spec", "resourceGroups", _ANY, "coveredResources"), ()),
        (("spec", "resourceGroups", _ANY, "flavors"), ("name",)),
        (("spec", "resourceGroups", _ANY, "flavors", _ANY, "resources"), ("name",)),
    ),
    "ResourceFlavor": ((("spec", "nodeTaints"), ("key", "effect")),),
    "Workload": (
        (("spec", "podSets"), ("name",)),
        (("spec", "preemptionGates"), ("name",)),
        (("status", "admissionChecks"), ("name",)),
        (("status", "conditions"), ("type",)),
    ),
    "Topology": ((("spec", "levels"), ("nodeLabel",)),),
    "MultiKueueConfig": ((("spec", "clusters"), ()),),
}
"""Lists whose items differ: by these fields, or as a whole."""
_DEFAULTS: Final = {"name": "main"}


def repeated(world: World) -> Iterator[Finding]:
    """An item twice in a list whose items are known by a name."""
    for kind, lists in _UNIQUE.items():
        for thing in world.of(kind):
            for pattern, keys in lists:
                for path, items in _lists(thing.body, pattern):
                    yield from _repeated(thing, path, items, keys)


def _repeated(
    thing: Thing, path: Path, items: list[Any], keys: tuple[str, ...]
) -> Iterator[Finding]:
    counts = Counter(_identity(item, keys) for item in items)
    for identity in (found for found, count in counts.items() if count > 1):
        said = f"{dotted(path)} has {identity} {counts[identity]} times"
        yield Finding(thing, said, "remove or rename one", path)


def _identity(item: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return str(item)
    return ", ".join(str(item.get(key, _DEFAULTS.get(key, ""))) for key in keys)


def _lists(node: Any, pattern: Path, path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """Lists at a path in which `*` stands for any position."""
    if not pattern:
        if isinstance(node, list):
            yield path, node
        return
    first, rest = pattern[0], pattern[1:]
    if first == _ANY:
        for index, item in enumerate(node if isinstance(node, list) else ()):
            yield from _lists(item, rest, (*path, index))
    elif isinstance(node, dict) and first in node:
        yield from _lists(node[first], rest, (*path, first))


def toleration(world: World) -> Iterator[Finding]:
    """Tolerations of flavors that Kubernetes refuses on pods."""
    for thing in world.of("ResourceFlavor"):
        for index, item in enumerate(get(thing.body, ("spec", "tolerations")) or ()):
            if message := _toleration(item):
                path = ("spec", "tolerations", index)
                yield Finding(thing, f"{dotted(path)}: {message}", "correct it", path)


def _toleration(item: Json) -> str:
    operator = item.get("operator") or "Equal"
    if not item.get("key") and operator != "Exists":
        return "without a key the operator must be Exists (it then matches every taint)"
    if operator == "Exists" and item.get("value"):
        return "with operator Exists there is no value"
    if item.get("tolerationSeconds") is not None and item.get("effect") != "NoExecute":
        return "tolerationSeconds needs effect NoExecute"
    return ""


def topology_labels(world: World) -> Iterator[Finding]:
    """A flavor with a topology says which nodes it has."""
    for thing in world.of("ResourceFlavor"):
        spec = thing.body.get("spec") or {}
        if spec.get("topologyName") and not spec.get("nodeLabels"):
            said = "topologyName needs at least one of spec.nodeLabels"
            yield Finding(thing, said, "add the label of its nodes", ("spec", "topologyName"))


def topology_levels(world: World) -> Iterator[Finding]:
    """Nothing is narrower than a host."""
    for thing in world.of("Topology"):
        levels = [level["nodeLabel"] for level in thing.body["spec"]["levels"]]
        if _HOST in levels[:-1]:
            said = f"{_HOST} is allowed only as the last level"
            yield Finding(thing, said, "move it to the end of levels", ("spec", "levels"))


def cluster_source(world: World) -> Iterator[Finding]:
    """A worker cluster is reached in one way."""
    for thing in world.of("MultiKueueCluster"):
        source = get(thing.body, ("spec", "clusterSource")) or {}
        ways = [way for way in ("kubeConfig", "clusterProfileRef") if source.get(way)]
        if len(ways) != 1:
            said = f"spec.clusterSource has {' and '.join(ways) or 'nothing'}"
            todo = "set exactly one of kubeConfig and clusterProfileRef"
            yield Finding(thing, said, todo, ("spec", "clusterSource"))


def selector(world: World) -> Iterator[Finding]:
    """Label selectors: operators that have, or have not, values, and what no label can be."""
    path: Path = ("spec", "namespaceSelector", "matchExpressions")
    for thing in world.of("ClusterQueue"):
        for index, item in enumerate(get(thing.body, path) or ()):
            takes = item["operator"] in ("In", "NotIn")
            if takes != bool(item.get("values")):
                said = f"operator {item['operator']} {'needs' if takes else 'takes no'} values"
                todo = "add values" if takes else "remove values"
                yield Finding(thing, f"{dotted(path)}[{index}]: {said}", todo, (*path, index))
            elif not _selects(item):
                said = "labels have ASCII keys and values, of 63 characters at most"
                todo = "correct key and values"
                yield Finding(thing, f"{dotted(path)}[{index}]: {said}", todo, (*path, index))


def _selects(item: Json) -> bool:
    """Whether a label can have this key and these values."""
    key = re.fullmatch(QUALIFIED_NAME_PATTERN[1:-1], item["key"])
    values = (re.fullmatch(LABEL_VALUE_PATTERN[1:-1], v) for v in item.get("values") or ())
    return key is not None and all(
        found is not None and len(found.string) <= 63 for found in values
    )


def workload(world: World) -> Iterator[Finding]:
    """What the pod sets of a hand-written Workload must obey."""
    for thing in world.of("Workload"):
        for path, said in (*_workload(thing.body["spec"]), *_elastic(thing), *_templates(thing)):
            yield Finding(thing, said, "correct the Workload", ("spec", *path))


def _elastic(thing: Thing) -> Iterator[tuple[Path, str]]:
    """What jobs that may be scaled obey."""
    if thing.annotations.get(Annotation.ELASTIC_JOB.value) != "true":
        return
    for index, pods in enumerate(thing.body["spec"]["podSets"]):
        if pods.get("minCount") is not None:
            yield ("podSets", index), "an elastic job may not have minCount"


def _templates(thing: Thing) -> Iterator[tuple[Path, str]]:
    """What containers may not ask for."""
    job = view(thing)
    for pods in job.pods if job else ():
        parts = [
            ((*pods.path[1:], "spec", part, index), container)
            for part in ("initContainers", "containers")
            for index, container in enumerate(pods.spec.get(part) or ())
        ]
        for path, asking in [*parts, ((*pods.path[1:], "spec"), pods.spec)]:
            resources = asking.get("resources") or {}
            if any("pods" in (resources.get(part) or {}) for part in ("requests", "limits")):
                yield (*path, "resources"), "pods are counted by themselves: nobody asks for them"


def _workload(spec: Json) -> Iterable[tuple[Path, str]]:
    sets = spec["podSets"]
    for index, pods in enumerate(sets):
        path: Path = ("podSets", index)
        if (pods.get("minCount") or 0) > pods.get("count", 1):
            yield path, f"minCount {pods['minCount']} is above count {pods.get('count', 1)}"
        request = pods.get("topologyRequest") or {}
        if sum(bool(request.get(k)) for k in ("required", "preferred", "unconstrained")) > 1:
            yield path, "only one of required, preferred and unconstrained may be set"
    if sum(pods.get("minCount") is not None for pods in sets) > 1:
        yield ("podSets",), "at most one pod set may have minCount"
    ref = spec.get("priorityClassRef")
    if ref and spec.get("priority") is None:
        yield ("priorityClassRef",), "priorityClassRef needs priority"
    if ref and (ref["group"], ref["kind"]) not in _CLASSES:
        yield ("priorityClassRef",), f"there is no {ref['kind']} in group {ref['group']}"


_CLASSES: Final = (
    ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    ("scheduling.k8s.io", "PriorityClass"),
)

RULES: Final = (
    Rule("repeated", Severity.REFUSED, repeated),
    Rule("toleration", Severity.REFUSED, toleration),
    Rule("topology-labels", Severity.REFUSED, topology_labels),
    Rule("topology-levels", Severity.REFUSED, topology_levels),
    Rule("cluster-source", Severity.REFUSED, cluster_source),
    Rule("selector", Severity.REFUSED, selector),
    Rule("workload", Severity.REFUSED, workload),
)
