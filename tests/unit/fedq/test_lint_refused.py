"""`fedq lint`: what the API server would refuse, each rule with a good and a bad object."""

from __future__ import annotations

from typing import Any

import pytest

from fedq.lint.finding import Severity
from tests.unit.fedq.lint_support import (
    Json,
    config,
    flavor,
    ids,
    job,
    kueue,
    lint,
    local,
    member,
    put,
    queue,
    said,
    workload,
)

GROUP = "spec.resourceGroups.0"
QUOTA = f"{GROUP}.flavors.0.resources.0"
FUNGIBLE = {"whenCanBorrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"}
CHECK = kueue("AdmissionCheck", "c", controllerName="example.com/x")
CONTAINER = "spec.template.spec.containers.0"
CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"}
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
SELECT = "spec.namespaceSelector.matchExpressions"


def second(body: Json, flavor_name: str, *resources: str) -> Json:
    """The queue with one more resource group."""
    quotas = [{"name": name, "nominalQuota": 1} for name in resources]
    group = {
        "coveredResources": list(resources),
        "flavors": [{"name": flavor_name, "resources": quotas}],
    }
    groups = [*body["spec"]["resourceGroups"], group]
    return put(body, "spec.resourceGroups", groups)


def wide(flavors: int, resources: int) -> Json:
    """A queue with one large group."""
    names = [f"example.com/r{i}" for i in range(resources)]
    quotas = [{"name": name, "nominalQuota": 1} for name in names]
    group = {
        "coveredResources": names,
        "flavors": [{"name": f"f{i}", "resources": quotas} for i in range(flavors)],
    }
    return queue(resourceGroups=[group])


def checked(*on: str) -> Json:
    """A queue with a check for some flavors."""
    checks = [{"name": "c", "onFlavors": list(on)}]
    return queue(admissionChecksStrategy={"admissionChecks": checks})


def pod(**container: Any) -> Json:
    """A Job whose container has these resources."""
    return put(job(), "spec.template.spec.containers.0.resources", container)


def carded(annotations: Json) -> Json:
    """A ResourceFlavor that tells of its cards."""
    body = kueue("ResourceFlavor", "f")
    body["metadata"]["annotations"] = annotations
    return body


def sets(*pod_sets: Json) -> Json:
    """A Workload with these pod sets."""
    template = job()["spec"]["template"]
    return workload(podSets=[{"template": template, **one} for one in pod_sets])


def elastic(*pod_sets: Json) -> Json:
    """A Workload of an elastic job."""
    return put(sets(*pod_sets), "metadata.annotations", {"kueue.x-k8s.io/elastic-job": "true"})


def asking(**resources: Any) -> Json:
    """A Workload whose container asks for these."""
    container = {"name": "c", "image": "i", "resources": resources}
    return sets({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}})


def labelled(labels: Json) -> Json:
    """A Workload whose pods have these labels."""
    pods = job()["spec"]["template"]
    return sets({"template": {**pods, "metadata": {"labels": labels}}})


CASES: list[tuple[str, Json, Json]] = [
    # rule, what is refused, what is not
    ("bad-value", put(queue(), "spec.queueingStrategy", "LIFO"), queue()),
    (
        "bad-value",
        put(queue(), f"{QUOTA}.nominalQuota", -1),
        put(queue(), f"{QUOTA}.nominalQuota", 0),
    ),
    ("bad-value", queue(cpu="-1"), queue(cpu="500m")),
    ("bad-value", queue(cpu="1e999"), queue(cpu="9" * 40)),
    ("bad-value", put(queue(), f"{QUOTA}.nominalQuota", 1.5), queue(cpu="1.5")),
    ("bad-value", queue(resourceGroups={"a": 1}), queue(resourceGroups=[])),
    ("bad-value", put(queue(), "spec", [1]), queue()),
    ("bad-value", put(queue(), "metadata.name", None), queue("a.b-c")),
    ("bad-value", queue("A_b"), queue("a-b")),
    ("bad-value", put(job(), "metadata.labels.x", True), put(job(), "metadata.labels.x", "true")),
    ("bad-value", put(job(), "metadata.namespace", "A B"), job()),
    ("bad-value", put(job(), "spec.parallelism", "2"), put(job(), "spec.parallelism", 2)),
    ("bad-value", put(job(), "spec.parallelism", -1), put(job(), "spec.parallelism", 0)),
    ("bad-value", put(job(), "spec.suspend", "true"), job()),
    ("bad-value", put(job(), "spec.template", None), job()),
    ("bad-value", job(containers=[]), job()),
    ("bad-value", job(containers={"name": "c"}), job()),
    ("bad-value", job(nodeSelector={"a": 1}), job(nodeSelector={"a": "1"})),
    ("bad-value", pod(requests={"cpu": "-1"}), pod(requests={"cpu": 0.5})),
    ("bad-value", pod(requests={"cpu": "two"}), pod(requests={"cpu": "2"})),
    ("bad-value", pod(requests=["cpu"]), pod()),
    ("bad-value", put(job(), "spec.template.spec.containers.0.args", [1]), job()),
    (
        "bad-value",
        put(job(), "spec.template.spec.containers.0.env", [{"name": "A", "value": 1}]),
        put(job(), "spec.template.spec.containers.0.env", [{"name": "A", "value": "1"}]),
    ),
    ("bad-value", sets({"template": {"spec": {"containers": [{"name": 1}]}}}), sets({})),
    ("bad-value", workload(podSets=[]), workload()),
    (
        "bad-value",
        {**kueue("WorkloadPriorityClass", "p"), "value": "100", "spec": None},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "p"},
            "value": 100,
        },
    ),
    ("bad-value", config(waitForPodsReady={"timeout": 10}), config()),
    ("bad-value", config(resources=[]), config(resources={})),
    ("bad-value", {"nodeGroups": [{"nodeSelector": {}}]}, {"nodeGroups": [{"name": "g"}]}),
    ("bad-value", {"nodeGroups": ["g"]}, {"nodeGroups": []}),
    (
        "bad-value",
        {"nodeGroups": [{"name": "g", "nvidia.com/gpu": "many"}]},
        {"nodeGroups": [{"name": "g", "nvidia.com/gpu": "4"}]},
    ),
    ("bad-label", flavor(nodeLabels={"显卡": "a"}), flavor()),
    ("bad-label", flavor(nodeLabels={"a": "b c"}), flavor(nodeLabels={"a": ""})),
    ("bad-label", flavor(nodeLabels={"a/b/c": "d"}), flavor(nodeLabels={"a.b/c_d": "d"})),
    ("bad-label", put(job(), "metadata.labels.a b", "c"), job()),
    ("bad-label", put(job(), "metadata.labels.a", "ü"), put(job(), "metadata.annotations.a", "ü")),
    ("bad-label", put(job(), "metadata.annotations", {"é": "c"}), job()),
    ("bad-label", job(nodeSelector={"型号": "a"}), job(nodeSelector={"gpu-model": "a"})),
    ("bad-label", queue(namespaceSelector={"matchLabels": {"-a": "b"}}), queue()),
    (
        "bad-label",
        {"nodeGroups": [{"name": "g", "nodeSelector": {"卡": "a"}}]},
        {"nodeGroups": [{"name": "g", "nodeSelector": {"a": "b"}}]},
    ),
    ("resource-order", put(queue(), f"{GROUP}.coveredResources", ["memory", "cpu"]), queue()),
    ("resource-order", put(queue(), f"{GROUP}.coveredResources", ["cpu"]), queue()),
    ("one-group", second(queue(), "g", "cpu"), second(queue(), "g", "pods")),
    ("one-group", second(queue(), "f", "pods"), second(queue(), "g", "pods")),
    ("limit-without-cohort", put(queue(), f"{QUOTA}.borrowingLimit", 1), member()),
    ("limit-without-cohort", put(queue(), f"{QUOTA}.lendingLimit", 1), member()),
    (
        "limit-without-cohort",
        {
            **put(put(member(), "spec.cohortName", None), "spec.namespaceSelector", None),
            "kind": "Cohort",
        },
        {
            **put(put(member(), "spec.cohortName", None), "spec.namespaceSelector", None),
            "kind": "Cohort",
            "spec": {
                **kueue(
                    "Cohort", "c", parentName="p", resourceGroups=member()["spec"]["resourceGroups"]
                )["spec"]
            },
        },
    ),
    ("lending-above-nominal", put(member(), f"{QUOTA}.lendingLimit", "9"), member()),
    ("lending-above-nominal", put(member(), f"{QUOTA}.lendingLimit", "8001m"), member(cpu="8001m")),
    ("too-many", wide(33, 16), wide(32, 16)),
    (
        "reclaim-never",
        member(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
        member(
            preemption={
                "reclaimWithinCohort": "LowerPriority",
                "borrowWithinCohort": {"policy": "LowerPriority"},
            }
        ),
    ),
    (
        "preference",
        queue(flavorFungibility={"preference": "PreemptionOverBorrowing"}),
        queue(flavorFungibility=FUNGIBLE),
    ),
    ("on-flavors", checked("f", "g"), checked("f")),
    ("weight", queue(fairSharing={"weight": "1n"}), queue(fairSharing={"weight": 0})),
    (
        "weight",
        put(local(), "spec.fairSharing.weight", "1e-10"),
        put(local(), "spec.fairSharing.weight", "10n"),
    ),
    (
        "repeated",
        put(queue(), f"{GROUP}.flavors", queue()["spec"]["resourceGroups"][0]["flavors"] * 2),
        queue(),
    ),
    ("repeated", checked("f", "f"), checked("f")),
    ("repeated", sets({"name": "a"}, {"name": "a"}), sets({"name": "a"}, {"name": "b"})),
    ("repeated", sets({}, {"name": "main"}), sets({})),
    (
        "repeated",
        flavor(nodeTaints=[{"key": "a", "effect": "NoSchedule", "value": v} for v in "xy"]),
        flavor(nodeTaints=[{"key": "a", "effect": e} for e in ("NoSchedule", "NoExecute")]),
    ),
    (
        "repeated",
        kueue("MultiKueueConfig", "m", clusters=["a", "a"]),
        kueue("MultiKueueConfig", "m", clusters=["a", "b"]),
    ),
    ("toleration", flavor(tolerations=[{"value": "a"}]), flavor(tolerations=[{"key": "a"}])),
    (
        "toleration",
        flavor(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        flavor(tolerations=[{"operator": "Exists"}]),
    ),
    (
        "toleration",
        flavor(tolerations=[{"key": "a", "tolerationSeconds": 5}]),
        flavor(tolerations=[{"key": "a", "tolerationSeconds": 5, "effect": "NoExecute"}]),
    ),
    ("topology-labels", flavor(topologyName="t", nodeLabels={}), flavor(topologyName="t")),
    (
        "topology-levels",
        kueue("Topology", "t", levels=[{"nodeLabel": n} for n in ("kubernetes.io/hostname", "a")]),
        kueue("Topology", "t", levels=[{"nodeLabel": n} for n in ("a", "kubernetes.io/hostname")]),
    ),
    (
        "cluster-source",
        kueue("MultiKueueCluster", "m", clusterSource={}),
        kueue("MultiKueueCluster", "m", clusterSource={"kubeConfig": {"location": "s"}}),
    ),
    (
        "cluster-source",
        kueue(
            "MultiKueueCluster",
            "m",
            clusterSource={"kubeConfig": {"location": "s"}, "clusterProfileRef": {"name": "p"}},
        ),
        kueue("MultiKueueCluster", "m", kubeConfig={"location": "s"}),
    ),
    (
        "selector",
        put(queue(), SELECT, [{"key": "a", "operator": "In"}]),
        put(queue(), SELECT, [{"key": "a", "operator": "In", "values": ["b"]}]),
    ),
    (
        "selector",
        put(queue(), SELECT, [{"key": "a", "operator": "Exists", "values": ["b"]}]),
        put(queue(), SELECT, [{"key": "a", "operator": "Exists"}]),
    ),
    (
        "selector",
        put(queue(), SELECT, [{"key": "a b", "operator": "Exists"}]),
        put(queue(), SELECT, [{"key": "a.io/b", "operator": "Exists"}]),
    ),
    (
        "selector",
        put(queue(), SELECT, [{"key": "a", "operator": "In", "values": ["b" * 64]}]),
        put(queue(), SELECT, [{"key": "a", "operator": "In", "values": ["b" * 63, ""]}]),
    ),
    ("workload", sets({"count": 2, "minCount": 3}), sets({"count": 3, "minCount": 3})),
    (
        "workload",
        sets({"name": "a", "minCount": 1}, {"name": "b", "minCount": 1}),
        sets({"name": "a", "minCount": 1}, {"name": "b"}),
    ),
    (
        "workload",
        sets({"topologyRequest": {"required": "a", "preferred": "a"}}),
        sets({"topologyRequest": {"required": "a"}}),
    ),
    (
        "workload",
        workload(priorityClassRef=CLASS),
        workload(priorityClassRef=CLASS, priority=1),
    ),
    (
        "workload",
        workload(
            priorityClassRef={**CLASS, "group": "kueue.x-k8s.io"},
            priority=1,
        ),
        workload(),
    ),
    ("workload", elastic({"minCount": 1}), elastic({})),
    ("workload", asking(limits={"pods": 1}), asking(requests={"cpu": 1})),
    (
        "workload",
        sets({"template": {"spec": {**POD, "resources": {"requests": {"pods": 1}}}}}),
        sets({"template": {"spec": {**POD, "resources": {"requests": {"cpu": 1}}}}}),
    ),
    ("bad-value", asking(requests={"cpu": "-1"}), asking(requests={"cpu": "1"})),
    ("bad-value", asking(requests={"cpu": "one"}), asking(requests={"cpu": 1})),
    ("bad-label", labelled({"a": "b c"}), labelled({"a": "b"})),
    ("bad-label", labelled({"卡": "b"}), labelled({})),
    (
        "bad-value",
        put(queue(), f"{GROUP}.flavors", []),
        {**queue(), "spec": {"namespaceSelector": {}}},
    ),
    ("bad-value", queue(admissionChecksStrategy={"admissionChecks": []}), queue()),
    (
        "one-group",
        kueue("Cohort", "c", resourceGroups=second(queue(), "f", "pods")["spec"]["resourceGroups"]),
        kueue("Cohort", "c", resourceGroups=second(queue(), "g", "pods")["spec"]["resourceGroups"]),
    ),
    ("restart-policy", job(restartPolicy="Always"), job(restartPolicy="OnFailure")),
    ("restart-policy", job(restartPolicy=None), job()),
    ("container", put(job(), f"{CONTAINER}.image", None), job()),
    ("container", put(job(), f"{CONTAINER}.name", ""), workload()),
    ("container", put(job(), f"{CONTAINER}.name", "A"), put(job(), f"{CONTAINER}.name", "0-a")),
    ("bad-value", put(job(), f"{CONTAINER}.image", 5), job()),
    ("bad-value", put(job(), "metadata.namespace", "a.b"), put(job(), "metadata.namespace", "")),
    ("bad-value", {**queue(), "spec": 5}, {**queue(), "spec": None}),
    (
        "card-request",
        pod(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 101}),
        pod(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 100}),
    ),
    (
        "bad-value",
        carded({"fedq.io/card-memory-mib": "40Gi"}),
        carded({"fedq.io/card-memory-mib": "40960"}),
    ),
    (
        "bad-value",
        carded({"fedq.io/card-memory-mib": "9", "fedq.io/mig-profiles": "1g.5gb"}),
        carded({"fedq.io/card-memory-mib": "9", "fedq.io/mig-profiles": "1g.5gb=4864:15"}),
    ),
    ("pod-resources", pod(requests={"gpu": 1}), pod(requests={"cpu": 1})),
    ("pod-resources", pod(requests={"pods": 1}), pod(requests={"ephemeral-storage": "1Gi"})),
    (
        "pod-resources",
        pod(requests={"cpu": 2}, limits={"cpu": "1500m"}),
        pod(requests={"cpu": "1500m"}, limits={"cpu": 2}),
    ),
    (
        "pod-resources",
        pod(requests={"nvidia.com/gpu": 1}),
        pod(limits={"nvidia.com/gpu": 1}),
    ),
    (
        "pod-resources",
        pod(requests={"nvidia.com/gpu": 1}, limits={"nvidia.com/gpu": 2}),
        pod(requests={"nvidia.com/gpu": 2}, limits={"nvidia.com/gpu": "2"}),
    ),
    ("pod-resources", pod(limits={"nvidia.com/gpu": "500m"}), pod(limits={"nvidia.com/gpu": "5k"})),
]


@pytest.mark.parametrize(("rule", "bad", "good"), CASES)
def test_refused(rule: str, bad: Json, good: Json) -> None:
    """The rule speaks of the bad object, and not of the good one."""
    found = said(lint(bad), rule)
    assert found
    assert all(line.severity is Severity.REFUSED for line in found)
    assert all(line.message and line.todo for line in found)
    assert rule not in ids(lint(good))


def test_a_chinese_label_key_is_refused_with_the_reason() -> None:
    """Kubernetes has ASCII keys only."""
    (line,) = lint(flavor(nodeLabels={"显卡型号": "a100"}))
    assert line.rule == "bad-label"
    assert line.message == (
        "spec.nodeLabels has the key '显卡型号': Kubernetes allows letters, digits, '-', '_' and"
        " '.' of ASCII, at most 63, with a letter or digit at both ends (and before them a DNS"
        " name and '/')"
    )
    assert line.line == 7


def test_a_bad_object_is_not_looked_at_further_but_others_are() -> None:
    """What can be said of the rest is said in the same run."""
    found = lint(put(queue(), "spec.stopPolicy", "Maybe"), job(to=""))
    assert ids(found) == {"bad-value", "no-queue"}


def test_the_field_and_its_line_are_named() -> None:
    """Deep in a list."""
    (line,) = lint(put(queue(), f"{QUOTA}.nominalQuota", -1))
    assert line.field == "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
    assert line.line == 15
