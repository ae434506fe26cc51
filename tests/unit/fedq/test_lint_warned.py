"""`fedq lint`: what is taken and then surprises, each rule with a good and a bad case."""

from __future__ import annotations

from typing import Any

import pytest

from fedq.lint.finding import Severity
from tests.unit.fedq.lint_support import (
    WELL,
    Json,
    config,
    flavor,
    ids,
    job,
    kueue,
    lint,
    local,
    member,
    namespace,
    node,
    priority,
    put,
    queue,
    said,
    workload,
)

WARN, INFO = Severity.WARNING, Severity.INFO
Objects = tuple[Json, ...]
GROUP = "spec.resourceGroups.0"
QUOTA = f"{GROUP}.flavors.0.resources.0"
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
TOLERATES = [{"key": "gpu", "operator": "Exists"}]
LABELS, NOTES = "metadata.labels", "metadata.annotations"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def labelled(body: Json, where: str, key: str, value: str) -> Json:
    """A copy with one more label or annotation (their keys have dots)."""
    part = where.split(".")[-1]
    held = {**body["metadata"].get(part, {}), key: value}
    return put(body, where, held)


def unlabelled(body: Json) -> Json:
    """A copy without labels."""
    return put(body, LABELS, None)


def cohort(name: str, parent: str = "") -> Json:
    """A Cohort."""
    return kueue("Cohort", name, **({"parentName": parent} if parent else {}))


def tainted(name: str = "n", **labels: str) -> Json:
    """A Node with the taint."""
    return put(node(name, **labels), "spec.taints", [TAINT])


def container(**fields: Any) -> Json:
    """A Job whose container has these fields too."""
    body = job("other", "lq2")
    body["spec"]["template"]["spec"]["containers"][0] |= fields
    return body


def pytorch(**spec: Any) -> Json:
    """A PyTorchJob of one master and three workers."""
    template = {"spec": {"containers": job()["spec"]["template"]["spec"]["containers"]}}
    replicas = {"Master": {"template": template}, "Worker": {"replicas": 3, "template": template}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "p", "namespace": "team", "labels": {QUEUE_NAME: "lq"}},
        "spec": {"pytorchReplicaSpecs": replicas, "runPolicy": {"suspend": True}, **spec},
    }


def cron(**labels: str) -> Json:
    """A CronJob."""
    spec = {"metadata": {"labels": labels}, "spec": job()["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"schedule": "* * * * *", "jobTemplate": spec},
    }


ANY = {"reclaimWithinCohort": "Any"}
RECLAIMS = (
    flavor(),
    member("cq", preemption=ANY),
    member("cq2"),
    local("lq", "cq"),
    local("lq2", "cq2"),
)
TWO = put(queue(), f"{GROUP}.flavors", queue()["spec"]["resourceGroups"][0]["flavors"] * 2)
TWO = put(
    TWO, f"{GROUP}.flavors.1", {**TWO["spec"]["resourceGroups"][0]["flavors"][1], "name": "g"}
)
MISSING_LIMIT = put(member(), f"{QUOTA}.borrowingLimit", None)
GROUPS = {
    "nodeGroups": [{"name": "g", "nodeSelector": {"a": "x"}, "nvidia.com/gpu-memory": "10Gi"}]
}
CARD = '[{"id":"g","count":10,"devmem":8192,"devcore":100,"type":"NVIDIA T4","health":true}]'


def groups(name: str = "g", **selector: str) -> Json:
    """A file of one group that cuts cards to 10 GB."""
    return {
        "nodeGroups": [{"name": name, "nodeSelector": selector, "nvidia.com/gpu-memory": "10Gi"}]
    }


def carded(register: str) -> Json:
    """A Node whose device plugin registers cards."""
    return put(node(), "metadata.annotations", {"hami.io/node-nvidia-register": register})


def asking(**limits: Any) -> Json:
    """A Job of two pods whose container asks for cards."""
    return put(job(), "spec.template.spec.containers.0.resources", {"limits": limits})


def noted(key: str) -> Json:
    """A Job whose pods have this annotation."""
    body = asking(**{"nvidia.com/gpu": 1})
    body["spec"]["template"]["metadata"] = {"annotations": {key: "GPU-1"}}
    return body


def limits(**hard: str) -> Json:
    """A ResourceQuota."""
    meta = {"name": "q", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}


def memory_queue() -> Json:
    """A ClusterQueue for 20 GiB of cards in flavor f."""
    resources = [{"name": "nvidia.com/total-gpumem", "nominalQuota": "20Gi"}]
    return put(
        queue(),
        "spec.resourceGroups",
        [
            {
                "coveredResources": ["nvidia.com/total-gpumem"],
                "flavors": [{"name": "f", "resources": resources}],
            }
        ],
    )


SLICED = put(
    job(to="lq"),
    "spec.template.spec.containers.0.resources",
    {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpu-memory": "11Gi"}},
)
MULTI = kueue(
    "AdmissionCheck",
    "c",
    controllerName="kueue.x-k8s.io/multikueue",
    parameters={"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "m"},
)
CHECKED = queue(admissionChecksStrategy={"admissionChecks": [{"name": "c"}]})
CLUSTERS = kueue("MultiKueueConfig", "m", clusters=["east"])
EAST = kueue("MultiKueueCluster", "east", clusterSource={"kubeConfig": {"location": "s"}})
PRIOR = "kueue.x-k8s.io/priority-class"

CASES: list[tuple[str, Severity, Objects, Objects]] = [
    # rule, how severe, what it speaks of, what it does not
    ("unknown-field", WARN, (put(queue(), "spec.resourceGroup", []),), (queue(),)),
    ("unknown-field", WARN, (put(queue(), "spec.preemption.withinQueue", "Any"),), (queue(),)),
    ("unknown-field", WARN, (put(job(), "spec.paralelism", 4),), (job(),)),
    ("unknown-field", WARN, (put(job(), "metadata.label", {}),), (job(),)),
    ("unknown-field", WARN, (job(nodeSelectors={}),), (job(dnsPolicy="Default"),)),
    ("unknown-field", WARN, (container(resource={}),), (container(volumeMounts=[]),)),
    ("unknown-field", WARN, (kueue("Cohort", "c", sharing={}),), (cohort("c"),)),
    ("unknown-field", WARN, (config(fairSharings={}),), (config(metrics={"bindAddress": ":1"}),)),
    ("unknown-field", WARN, (config(integrations={"frameworks": ["job"]}),), (config(),)),
    ("unknown-key", WARN, (labelled(job(), LABELS, "kueue.x-k8s.io/queueName", "lq"),), (job(),)),
    (
        "unknown-key",
        WARN,
        (labelled(job(), NOTES, QUEUE_NAME, "lq"),),
        (labelled(job(), NOTES, "fedq.io/on-disconnect", "stop"),),
    ),
    (
        "unknown-key",
        WARN,
        (labelled(job(), LABELS, "fedq.io/clusters", "east"),),
        (labelled(job(), NOTES, "fedq.io/clusters", "east"),),
    ),
    (
        "unknown-key",
        WARN,
        (put(job(), "spec.template.metadata", {"annotations": {"kueue.x-k8s.io/podset": "x"}}),),
        (
            put(
                job(),
                "spec.template.metadata",
                {"annotations": {"kueue.x-k8s.io/podset-required-topology": "x"}},
            ),
        ),
    ),
    ("old-spelling", INFO, (put(queue(), "spec.cohort", "co"),), (queue(cohortName="co"),)),
    ("old-spelling", INFO, ({**queue(), "apiVersion": "kueue.x-k8s.io/v1beta1"},), (queue(),)),
    ("old-spelling", WARN, ({**config(), "kind": "KueueConfiguration"},), (config(),)),
    ("old-spelling", INFO, ({**config(), "apiVersion": "kueue.x-k8s.io/v1beta2"},), (config(),)),
    ("no-queue", WARN, (unlabelled(job()),), (job(),)),
    ("no-queue", WARN, (cron(),), (cron(**{QUEUE_NAME: "lq"}),)),
    ("no-queue", WARN, (unlabelled(pytorch()),), (pytorch(),)),
    ("not-suspended", WARN, (put(job(), "spec.suspend", None),), (job(),)),
    ("not-suspended", WARN, (put(job(), "spec.suspend", False),), (unlabelled(job()),)),
    ("not-suspended", WARN, (pytorch(runPolicy={}),), (pytorch(),)),
    (
        "managed-by",
        WARN,
        (put(job(), "spec.managedBy", "example.com/x"),),
        (put(job(), "spec.managedBy", "kueue.x-k8s.io/multikueue"),),
    ),
    (
        "bad-option",
        WARN,
        (labelled(job(), LABELS, "kueue.x-k8s.io/max-exec-time-seconds", "0"),),
        (labelled(job(), LABELS, "kueue.x-k8s.io/max-exec-time-seconds", "60"),),
    ),
    (
        "bad-option",
        WARN,
        (labelled(job(), NOTES, "kueue.x-k8s.io/job-min-parallelism", "3"),),
        (labelled(job(), NOTES, "kueue.x-k8s.io/job-min-parallelism", "2"),),
    ),
    (
        "bad-option",
        WARN,
        (labelled(job(), NOTES, "fedq.io/on-disconnect", "stopp"),),
        (labelled(job(), NOTES, "fedq.io/on-disconnect", "keep"),),
    ),
    (
        "bad-option",
        WARN,
        (labelled(job(), NOTES, "fedq.io/rerun-after", "soon"),),
        (labelled(job(), NOTES, "fedq.io/rerun-after", "10m"),),
    ),
    ("queue-missing", WARN, (*WELL, job("k", "lp")), WELL),
    ("queue-missing", WARN, (flavor(), queue(), local(namespace="x"), job()), WELL),
    ("queue-missing", INFO, (job(),), WELL),
    ("queue-missing", WARN, (*WELL, put(workload(), "spec.queueName", "lx")), (*WELL, workload())),
    ("cluster-queue-missing", WARN, (queue(), local(to="cx")), (queue(), local())),
    ("cluster-queue-missing", WARN, (put(local(), "spec", {}),), (queue(), local())),
    ("cluster-queue-missing", INFO, (local(),), (queue(), local())),
    ("flavor-missing", WARN, (flavor("x"), queue()), (flavor(), queue())),
    ("flavor-missing", INFO, (queue(),), (flavor(), queue())),
    ("check-missing", INFO, (CHECKED,), (CHECKED, MULTI, CLUSTERS, EAST)),
    (
        "check-missing",
        WARN,
        (CHECKED, {**MULTI, "metadata": {"name": "d"}}),
        (CHECKED, MULTI, CLUSTERS, EAST),
    ),
    ("check-missing", WARN, (put(MULTI, "spec.parameters", None),), (MULTI, CLUSTERS, EAST)),
    (
        "check-missing",
        WARN,
        ({**CLUSTERS, "spec": {"clusters": ["est"]}}, EAST),
        (CLUSTERS, EAST),
    ),
    ("topology-missing", INFO, (flavor(topologyName="t"),), (flavor(),)),
    (
        "topology-missing",
        WARN,
        (flavor(topologyName="t"), kueue("Topology", "u", levels=[{"nodeLabel": "a"}])),
        (flavor(topologyName="u"), kueue("Topology", "u", levels=[{"nodeLabel": "a"}])),
    ),
    (
        "priority-missing",
        WARN,
        (labelled(job(), LABELS, PRIOR, "hihg"), priority()),
        (labelled(job(), LABELS, PRIOR, "high"), priority()),
    ),
    (
        "priority-missing",
        WARN,
        (labelled(job(), LABELS, PRIOR, "high"), priority(own=False)),
        (job(priorityClassName="high"), priority(own=False)),
    ),
    (
        "priority-missing",
        WARN,
        (job(priorityClassName="low"), priority(own=False)),
        (job(priorityClassName="system-node-critical"), priority(own=False)),
    ),
    (
        "namespace-not-selected",
        WARN,
        (queue(namespaceSelector={"matchLabels": {"team": "a"}}), local(), namespace(team="b")),
        (queue(namespaceSelector={"matchLabels": {"team": "a"}}), local(), namespace(team="a")),
    ),
    (
        "no-namespace-selector",
        WARN,
        (put(queue(), "spec.namespaceSelector", None),),
        (put(queue(), "spec.namespaceSelector", {}),),
    ),
    ("no-quota", WARN, (queue(resourceGroups=[]),), (queue(),)),
    ("borrowing-unlimited", WARN, (MISSING_LIMIT,), (put(member(), f"{QUOTA}.borrowingLimit", 0),)),
    ("borrowing-unlimited", WARN, (queue(cohortName="co"),), (queue(),)),
    (
        "borrowing-unlimited",
        WARN,
        (kueue("Cohort", "c", parentName="p", resourceGroups=queue()["spec"]["resourceGroups"]),),
        (kueue("Cohort", "c", resourceGroups=queue()["spec"]["resourceGroups"]),),
    ),
    ("lends-all", INFO, (put(member(), f"{QUOTA}.lendingLimit", None),), (member(),)),
    ("reclaim-any", WARN, (*RECLAIMS, job("other", "lq2")), (*RECLAIMS[2:], job("other", "lq2"))),
    ("reclaim-any", INFO, RECLAIMS, (queue(preemption=ANY),)),
    ("reclaim-any", INFO, (*RECLAIMS, job("own", "lq")), (member(),)),
    ("cohort-cycle", WARN, (cohort("a", "b"), cohort("b", "a")), (cohort("a", "b"), cohort("b"))),
    ("cohort-cycle", WARN, (cohort("a", "a"),), (cohort("a"),)),
    ("stopped", INFO, (queue(stopPolicy="Hold"),), (queue(stopPolicy="None"),)),
    ("little-memory", WARN, (queue(memory="512"),), (queue(memory="0"),)),
    ("little-memory", WARN, (queue(memory="512m"),), (queue(memory="512Mi"),)),
    (
        "little-memory",
        WARN,
        (container(resources={"limits": {"memory": 16}}),),
        (container(resources={"limits": {"memory": "16M"}}),),
    ),
    (
        "no-node",
        WARN,
        (flavor(nodeLabels={"a": "g"}), node()),
        (flavor(), node(), node("m", a="g")),
    ),
    ("no-node", WARN, (flavor(), node("n", b="f")), (flavor(),)),
    ("no-node", WARN, (flavor(), GROUPS), (flavor(nodeLabels={"b": "f"}), GROUPS)),
    ("any-node", INFO, (flavor(nodeLabels={}), flavor("g"), TWO), (flavor(), flavor("g"), TWO)),
    (
        "taint",
        WARN,
        (flavor(nodeTaints=[TAINT]), job()),
        (flavor(nodeTaints=[TAINT], tolerations=TOLERATES), job()),
    ),
    (
        "taint",
        WARN,
        (flavor(nodeTaints=[TAINT]), job()),
        (flavor(nodeTaints=[TAINT]), job(tolerations=TOLERATES)),
    ),
    (
        "taint",
        INFO,
        (flavor(nodeTaints=[TAINT]),),
        (flavor(nodeTaints=[{**TAINT, "effect": "PreferNoSchedule"}]),),
    ),
    ("node-taint", WARN, (flavor(), tainted()), (flavor(tolerations=TOLERATES), tainted())),
    ("node-taint", WARN, (flavor(), tainted()), (flavor(nodeTaints=[TAINT]), tainted())),
    (
        "node-taint",
        WARN,
        (flavor(), tainted(), job()),
        (flavor(), tainted(), job(tolerations=TOLERATES)),
    ),
    ("node-taint", WARN, (flavor(), tainted()), (flavor(), tainted(), node("m"))),
    ("unused-flavor", INFO, (flavor(), flavor("g"), queue()), (flavor("g"),)),
    (
        "not-covered",
        WARN,
        (*WELL[:3], put(job(), "spec.template.spec.containers.0.resources.limits", {"a/b": 1})),
        (*WELL[:3], put(job(), "spec.template.spec.containers.0.resources.limits", {"a/b": 0})),
    ),
    (
        "not-covered",
        WARN,
        (*WELL[:3], put(job(), "spec.template.spec.containers.0.resources.limits", {"a/b": 1})),
        (
            *WELL[:3],
            put(job(), "spec.template.spec.containers.0.resources.limits", {"a/b": 1}),
            config(resources={"excludeResourcePrefixes": ["a/"]}),
        ),
    ),
    (
        "not-covered",
        WARN,
        (*WELL[:3], put(job(), "spec.template.spec.containers.0.resources.limits", {"a/b": 1})),
        (
            *WELL[:3],
            put(job(), "spec.template.spec.containers.0.resources.limits", {"a/b": 1}),
            config(resources={"quotaCheckStrategy": "IgnoreUndeclared"}),
        ),
    ),
    ("no-flavor", WARN, (*WELL[:3], job(nodeSelector={"a": "g"})), WELL),
    ("no-flavor", WARN, (flavor(nodeTaints=[TAINT]), queue(), local(), job()), WELL),
    ("no-flavor", WARN, (flavor("x"), queue(), local(), job()), (queue(), local(), job())),
    ("too-large", WARN, (flavor(), queue(cpu="1999m"), local(), job()), WELL),
    (
        "too-large",
        WARN,
        (flavor(), queue(cpu="1"), local(), job()),
        (
            flavor(),
            queue(cpu="1"),
            local(),
            labelled(job(), NOTES, "kueue.x-k8s.io/job-min-parallelism", "1"),
        ),
    ),
    (
        "too-large",
        WARN,
        (
            flavor(),
            member(),
            local(),
            put(put(job(), "spec.parallelism", 9), "spec.completions", 9),
        ),
        (
            flavor(),
            member(),
            member("cq2"),
            local(),
            put(put(job(), "spec.parallelism", 9), "spec.completions", 9),
        ),
    ),
    (
        "too-large",
        WARN,
        (
            *WELL[:3],
            pytorch(),
            put(pytorch(), "spec.pytorchReplicaSpecs.Worker.replicas", 9)
            | {"metadata": {**pytorch()["metadata"], "name": "q"}},
        ),
        (*WELL[:3], pytorch()),
    ),
    ("no-room", WARN, (node(), container(resources={"requests": {"cpu": 17}})), (node(), job())),
    (
        "slice-too-small",
        WARN,
        (GROUPS, SLICED),
        (
            GROUPS,
            put(
                SLICED,
                "spec.template.spec.containers.0.resources.limits",
                {"nvidia.com/gpu-memory": "10Gi"},
            ),
        ),
    ),
    (
        "card-spelling",
        INFO,
        (asking(**{"nvidia.com/gpu-memory": "11Gi"}),),
        (asking(**{"nvidia.com/gpumem": 11264}),),
    ),
    (
        "card-both",
        WARN,
        (asking(**{"nvidia.com/gpumem": 5, "volcano.sh/vgpu-memory-percentage": 5}),),
        (asking(**{"nvidia.com/gpumem": 5}),),
    ),
    (
        "card-name",
        WARN,
        (asking(**{"nvidia.com/gpumen": 5}),),
        (asking(**{"nvidia.com/gpumem": 5, "nvidia.com/priority": 1}),),
    ),
    (
        "card-name",
        WARN,
        (noted("nvidia.com/use-gpu-uuid"),),
        (noted("nvidia.com/use-gpuuuid"), noted("nvidia.com/else")),
    ),
    (
        "card-quota",
        WARN,
        (limits(**{"limits.nvidia.com/gpumemory": "1"}),),
        (limits(**{"limits.nvidia.com/gpumem": "1", "limits.cpu": "1"}),),
    ),
    (
        "too-large",
        WARN,
        (flavor(), memory_queue(), local(), asking(**{"nvidia.com/gpumem-percentage": 50})),
        (
            labelled(flavor(), NOTES, "fedq.io/card-memory-mib", "20480"),
            memory_queue(),
            local(),
            asking(**{"nvidia.com/gpumem-percentage": 50}),
        ),
    ),
    (
        "too-large",
        WARN,
        (flavor(), memory_queue(), local(), asking(**{"nvidia.com/gpumem": "11Gi"})),
        (flavor(), memory_queue(), local(), asking(**{"nvidia.com/gpumem": "10Gi"})),
    ),
    (
        "not-covered",
        WARN,
        (flavor(), queue(), local(), asking(**{"nvidia.com/gpu": 1})),
        (flavor(), memory_queue(), local(), asking(**{"nvidia.com/gpumem": 1})),
    ),
    (
        "node-groups-alike",
        WARN,
        (groups(a="x"), groups("h", b="y")),
        (groups(a="x"), groups("h", a="y")),
    ),
    (
        "node-groups-alike",
        WARN,
        (groups(a="x"), groups("h", a="x")),
        (groups(a="x"), groups("h", a="x", b="y")),
    ),
    ("node-group-empty", WARN, (groups(a="x"), node()), (groups(a="f"), node())),
    ("node-cards", WARN, (carded("[{}]"),), (carded(CARD),)),
    ("node-cards", WARN, (groups(a="f"), carded(CARD)), (groups(a="x"), carded(CARD))),
    ("retention", WARN, (config(objectRetentionPolicies=None),), (config(),)),
    ("pods-ready", INFO, (config(waitForPodsReady=None),), (config(),)),
    ("pods-ready", WARN, (config(waitForPodsReady={"enable": False}),), (config(),)),
]


@pytest.mark.parametrize(("rule", "severity", "bad", "good"), CASES)
def test_warned(rule: str, severity: Severity, bad: Objects, good: Objects) -> None:
    """The rule speaks in the one case and not in the other."""
    found = said(lint(*bad), rule)
    assert severity in {line.severity for line in found}
    assert all(line.message and line.todo for line in found)
    assert rule not in ids(lint(*good))


def test_a_whole_good_chain_says_nothing() -> None:
    """From flavor to job, with namespaces, nodes, classes and configuration."""
    everything = (*WELL, workload(), node(), namespace(), priority(), config(), pytorch())
    assert lint(*everything) == []


SIGNS = [
    container(args=["--resume-from", "/data"]),
    container(env=[{"name": "CHECKPOINT_DIR", "value": "x"}]),
    container(volumeMounts=[{"name": "v", "mountPath": "/ckpt"}]),
    put(job("other", "lq2", restartPolicy="OnFailure"), "spec.suspend", True),
    labelled(job("other", "lq2"), NOTES, "example.com/checkpoint-every", "5m"),
    labelled(job("other", "lq2"), NOTES, "fedq.io/non-preemptible", "true"),
    put(job("other", "lq2"), "spec.template.metadata", {"labels": {"checkpointing": "yes"}}),
]


@pytest.mark.parametrize("safe", SIGNS)
def test_reclaim_any_is_a_warning_only_for_jobs_without_a_sign_of_checkpoints(safe: Json) -> None:
    """Each sign alone turns it into an info."""
    assert [x.severity for x in said(lint(*RECLAIMS, job("other", "lq2")), "reclaim-any")] == [WARN]
    assert [x.severity for x in said(lint(*RECLAIMS, safe), "reclaim-any")] == [INFO]


def test_reclaim_any_looks_at_the_whole_tree_of_cohorts() -> None:
    """A victim may be in another cohort below the same root."""
    objects = (
        flavor(),
        member("cq", "left", preemption=ANY),
        member("cq2", "right"),
        local("lq2", "cq2"),
        job("other", "lq2"),
    )
    apart = lint(*objects, cohort("left", "root"), cohort("right"))
    together = lint(*objects, cohort("left", "root"), cohort("right", "root"))
    assert [x.severity for x in said(apart, "reclaim-any")] == [INFO]
    (line,) = said(together, "reclaim-any")
    assert line.severity is WARN
    assert "cohort root" in line.message
    assert "Job/other" in line.message


def test_a_missing_borrowing_limit_is_said_to_be_unlimited() -> None:
    """The one thing that articles get wrong."""
    (line,) = said(lint(MISSING_LIMIT), "borrowing-unlimited")
    assert "cpu in f" in line.message
    assert "memory" not in line.message
    assert "without limit (not: nothing)" in line.message


def test_names_that_are_near_are_suggested() -> None:
    """Of fields, keys and objects."""
    assert "did you mean team/lq?" in said(lint(*WELL, job("k", "lp")), "queue-missing")[0].message
    field = said(lint(put(job(), "spec.paralelism", 4)), "unknown-field")[0]
    assert "did you mean parallelism?" in field.message
    key = said(lint(labelled(job(), LABELS, "kueue.x-k8s.io/queue", "q")), "unknown-key")[0]
    assert "did you mean kueue.x-k8s.io/queue-name?" in key.message


def test_a_cluster_makes_every_name_known() -> None:
    """What is not in the files may be there; what is nowhere is a warning."""
    there = (flavor(), queue(), local())
    assert lint(job(), cluster=there) == []
    (line,) = lint(job(to="lx"), cluster=there)
    assert (line.rule, line.severity) == ("queue-missing", WARN)
    assert "in the files or the cluster" in line.message


def test_only_the_files_are_spoken_of() -> None:
    """Mistakes that are in the cluster already are not this person's."""
    assert lint(job(), cluster=(flavor(), put(queue(), "spec.extra", 1), local())) == []
    assert lint(job(), cluster=(flavor(), queue(), local(), {"metadata": {"name": 5}})) == []


def test_the_files_replace_what_the_cluster_has() -> None:
    """They are what is going to be applied."""
    there = (flavor(), queue(cpu="1"), local())
    assert ids(lint(job(), cluster=there)) == {"too-large"}
    assert lint(job(), queue(cpu="8"), cluster=there) == []


def test_nodes_of_a_management_cluster_prove_nothing() -> None:
    """There a flavor is a budget: an info, and no word about the size of pods."""
    big = container(resources={"requests": {"cpu": 17}})
    things = (flavor(nodeLabels={"a": "g"}), big)
    worker = lint(*things, cluster=(node(),))
    management = lint(*things, cluster=(node(), EAST))
    assert {(x.rule, x.severity) for x in worker} >= {("no-node", WARN), ("no-room", WARN)}
    assert {(x.rule, x.severity) for x in management} >= {("no-node", INFO)}
    assert "no-room" not in ids(management)


def test_a_flavor_without_a_node_hears_what_nodes_have() -> None:
    """The values of the first label that none has."""
    things = (flavor(nodeLabels={"a": "g"}), node("n", a="x"), node("m", a="y"))
    (line,) = said(lint(*things), "no-node")
    assert "nodes have a=x, y" in line.todo


def test_what_is_refused_is_not_held_against_the_queue() -> None:
    """Otherwise people would be told to give quota to a request that is no request."""
    wrong = asking(**{"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 101})
    assert ids(lint(flavor(), queue(), local(), wrong)) == {"card-request"}


def test_an_unknown_size_of_cards_asks_for_the_annotation() -> None:
    """Less or more quota would change nothing."""
    percent = asking(**{"nvidia.com/gpumem-percentage": 50})
    (line,) = said(lint(flavor(), memory_queue(), local(), percent), "too-large")
    assert line.todo == (
        'give ResourceFlavor f the annotation fedq.io/card-memory-mib: "MIB", or ask for MiB'
    )
