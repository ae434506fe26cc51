"""Objects that lint has nothing to say about, to be changed one field at a time."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from federation.edge.documents import Document
from fedq.lint import engine
from fedq.lint.cluster import ClusterThings
from fedq.lint.collect import Collected, take, take_text
from fedq.lint.finding import Line, Thing

Json = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"


def put(body: Json, path: str, value: Any) -> Json:
    """A copy with one field (dots; numbers are positions) set, or removed by None."""
    body = copy.deepcopy(body)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    node: Any = body
    for part in way:
        node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
    if value is None:
        node.pop(last, None)
    else:
        node[last] = value
    return body


def kueue(kind: str, name: str, **spec: Any) -> Json:
    """An object of Kueue's group."""
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}


def flavor(name: str = "f", **spec: Any) -> Json:
    """A ResourceFlavor of nodes labelled a=f."""
    return kueue("ResourceFlavor", name, **{"nodeLabels": {"a": "f"}, **spec})


def queue(name: str = "cq", cpu: str = "8", memory: str = "8Gi", **spec: Any) -> Json:
    """A ClusterQueue without a cohort: cpu and memory in flavor f, for every namespace."""
    resources = [
        {"name": "cpu", "nominalQuota": cpu},
        {"name": "memory", "nominalQuota": memory},
    ]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": "f", "resources": resources}],
    }
    return kueue(
        "ClusterQueue", name, **{"namespaceSelector": {}, "resourceGroups": [group], **spec}
    )


def member(name: str = "cq", cohort: str = "co", **spec: Any) -> Json:
    """A ClusterQueue of a cohort, that borrows and lends up to 4 cpu and 4Gi."""
    body = queue(name, cohortName=cohort, **spec)
    for resource, limit in zip(
        body["spec"]["resourceGroups"][0]["flavors"][0]["resources"], ("4", "4Gi"), strict=True
    ):
        resource |= {"borrowingLimit": limit, "lendingLimit": limit}
    return body


def local(name: str = "lq", to: str = "cq", namespace: str = "team") -> Json:
    """A LocalQueue."""
    return put(kueue("LocalQueue", name, clusterQueue=to), "metadata.namespace", namespace)


def job(name: str = "j", to: str = "lq", **pod: Any) -> Json:
    """A suspended Job of two pods with 1 cpu and 1Gi each."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "c", "image": "i", "resources": resources}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/queue-name": to},
        },
        "spec": {
            "suspend": True,
            "parallelism": 2,
            "completions": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], **pod}},
        },
    }


def workload(**spec: Any) -> Json:
    """A hand-written Workload of one pod."""
    body = kueue("Workload", "w", queueName="lq", **spec)
    template = job()["spec"]["template"]
    body["spec"].setdefault("podSets", [{"name": "main", "count": 2, "template": template}])
    return put(body, "metadata.namespace", "team")


def node(name: str = "n", **labels: str) -> Json:
    """A Node with 16 cpu and 64Gi, labelled a=f."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {"a": "f"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
    }


def namespace(name: str = "team", **labels: str) -> Json:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def priority(name: str = "high", own: bool = True) -> Json:
    """A WorkloadPriorityClass, or one of the pods."""
    api = KUEUE if own else "scheduling.k8s.io/v1"
    kind = "WorkloadPriorityClass" if own else "PriorityClass"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "value": 100}


def config(**sections: Any) -> Json:
    """A Configuration that leaves nothing important out."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "objectRetentionPolicies": {"workloads": {"afterFinished": "24h"}},
        "waitForPodsReady": {"timeout": "10m"},
        **sections,
    }


WELL = (flavor(), queue(), local(), job())
"""A whole chain without a finding."""


def lint(*objects: Any, cluster: tuple[Json, ...] | None = None) -> list[Line]:
    """What is said about objects in one file, with the kinds of a cluster if one is given."""
    return lint_text(yaml.safe_dump_all(objects, sort_keys=False), cluster=cluster)


def lint_text(text: str, cluster: tuple[Json, ...] | None = None) -> list[Line]:
    """What is said about a text."""
    found = Collected(files=["x.yaml"])
    take_text("x.yaml", text, found)
    return lint_found(found, cluster)


def lint_json(*objects: Json) -> list[Line]:
    """What is said about objects, without the way through YAML and without lines."""
    found = Collected(files=["x.json"])
    for body in objects:
        take("x.json", Document(body, 1, yaml.ScalarNode("", "")), found)
    return lint_found(found, None)


def lint_found(found: Collected, cluster: tuple[Json, ...] | None) -> list[Line]:
    """What is said about what was collected."""
    if cluster is None:
        return engine.lint(found)
    things = [Thing(body, "cluster", raw=body) for body in cluster]
    kinds = frozenset({"Node", "LocalQueue", "ClusterQueue", "ResourceFlavor", "Topology"})
    return engine.lint(found, ClusterThings(things, kinds))


def ids(lines: list[Line]) -> set[str]:
    """The rules that spoke."""
    return {line.rule for line in lines}


def said(lines: list[Line], rule: str) -> list[Line]:
    """What one rule said."""
    return [line for line in lines if line.rule == rule]
