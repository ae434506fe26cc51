"""The commands with jobs of other kinds than batch/v1 Job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation.api.names import Order
from federation.edge import resources as r
from federation.edge.resources import Resource, resource_of
from federation.jobs.kinds.registry import KINDS
from fedq.refs import read_ref, word
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import (
    RUNNING,
    WAITING,
    Fedq,
    condition,
    give_cluster,
    give_job,
    give_queue,
)
from tests.unit.jobs.kinds import samples, test_scaled

Json = dict[str, Any]

NAMES = {
    "jobset": "JobSet.v1alpha2.jobset.x-k8s.io",
    "pytorchjob": "PyTorchJob.v1.kubeflow.org",
    "statefulset": "StatefulSet.v1.apps",
    "pod": "Pod.v1",
    "volcano": "Job.v1alpha1.batch.volcano.sh",
}
KIND_OF = {short: KINDS[name] for short, name in NAMES.items()}
TYPES: Mapping[str, Resource] = {short: resource_of(kind) for short, kind in KIND_OF.items()}
QUEUED = {"kueue.x-k8s.io/queue-name": "q"}
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
GATE = {"name": "kueue.x-k8s.io/admission"}


@pytest.fixture(autouse=True)
def served(kube: FakeKube) -> None:
    """JobSets, PyTorchJobs, StatefulSets, Volcano's Jobs and pods; no other CRD."""
    kube.discovery = True
    new = [res for res in TYPES.values() if res not in kube.resources]
    kube.resources = [*new, *kube.resources]  # those of Volcano are `jobs`, too
    kube.with_status.update(TYPES.values())
    give_queue(kube)


def make(short: str, name: str, spec: Json | None = None, **meta: Any) -> Json:
    """An object as people write it."""
    kind = KIND_OF[short]
    known = {**samples.SPECS, "StatefulSet": test_scaled.SPECS["StatefulSet"]}
    if short == "volcano":
        known["Job"] = test_scaled.SPECS["Job"]
    given = deepcopy(spec if spec is not None else known[kind.kind])
    head = {"name": name, "namespace": "default", "labels": QUEUED, **meta}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": head, "spec": given}


def pod(name: str, total: int = 0) -> Json:
    """A pod; with `total` of the group g."""
    labels, notes = dict(QUEUED), {}
    if total:
        labels["kueue.x-k8s.io/pod-group-name"] = "g"
        notes = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    resources = {"requests": {"cpu": "1"}}
    spec = {"containers": [{"name": "m", "image": "x", "resources": resources}]}
    return make("pod", name, spec, labels=labels, annotations=notes)


def give(
    kube: FakeKube, short: str, body: Json, workload: Json, status: Json | None = None
) -> None:
    """An object with its Workload."""
    made = kube.create(TYPES[short], body)
    meta = made["metadata"]
    if status is not None:
        kube.merge(TYPES[short], meta["name"], {"status": status}, "default", status=True)
    owner = {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": meta["name"],
             "uid": meta["uid"], "controller": True}  # fmt: skip
    name = f"{short}-{meta['name']}"
    head = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    spec = {"queueName": "q", "priority": 0, "podSets": []}
    base = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": head}
    kube.create(r.WORKLOADS, {**base, "spec": spec})
    kube.merge(r.WORKLOADS, name, {"status": workload}, "default", status=True)


def started(short: str, name: str) -> Json:
    """As the manager shows one that runs."""
    body = make(short, name)
    body["spec"]["runPolicy"] = {"suspend": False, "managedBy": MULTIKUEUE}
    return body


# How they are named


@pytest.mark.parametrize("text", ["jobset/a", "JobSets/a", "jobset.jobset.x-k8s.io/a",
                                  "JobSet.v1alpha2.jobset.x-k8s.io/a"])  # fmt: skip
def test_ways_to_write_a_kind(text: str) -> None:
    """As kubectl takes it, and as `fedq get kinds` names it."""
    kind, name = read_ref(text)
    assert kind is not None
    assert (kind.name, name) == (NAMES["jobset"], "a")


def test_two_kinds_called_job() -> None:
    """The word alone is the one that everybody means; what is shown can be typed."""
    for kind in KINDS:
        assert read_ref(f"{word(kind)}/a").kind is kind
    assert word(KIND_OF["volcano"]) == "job.batch.volcano.sh"


def test_kinds_of_a_configuration(
    fedq: Fedq, kube: FakeKube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where FEDQ_CONFIG names it; a mistake in it is told."""
    body = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
            "multiKueue": {"externalFrameworks": [{"name": "Crunch.v1.example.com"}]}}  # fmt: skip
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(yaml.safe_dump(body))
    bad.write_text("x: [")
    res = Resource("example.com", "v1", "crunchs")
    kube.resources.append(res)
    meta = {"name": "c", "namespace": "default", "labels": QUEUED}
    kube.create(res, {"metadata": meta, "spec": {"template": samples.template()}})
    assert fedq("why", "crunch/c").exit_code == 2
    monkeypatch.setenv("FEDQ_CONFIG", str(good))
    assert "crunch/c" in fedq("get", "jobs").stdout
    assert fedq("why", "crunch/c").stdout.startswith("Crunch default/c was submitted")
    monkeypatch.setenv("FEDQ_CONFIG", str(bad))
    told = fedq("why", "crunch/c")
    assert (told.exit_code, "FEDQ_CONFIG cannot be used" in told.stderr) == (2, True)


def test_kinds_that_are_switched_off(
    fedq: Fedq, kube: FakeKube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told of wherever one is named, and not among the jobs."""
    give(kube, "jobset", make("jobset", "train"), WAITING)
    give_job(kube, "a", workload=WAITING)
    body = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {"frameworks": ["batch/job"]},
    }
    file = tmp_path / "configuration.yaml"
    file.write_text(yaml.safe_dump(body))
    monkeypatch.setenv("FEDQ_CONFIG", str(file))
    kinds = {v["name"]: v for v in json.loads(fedq("get", "kinds", "-o", "json").stdout)}
    assert [name for name, view in kinds.items() if view["switchedOn"]] == ["Job.v1.batch"]
    assert kinds[NAMES["jobset"]]["framework"] == "jobset.x-k8s.io/jobset"
    assert " switched off " in fedq("get", "kinds", "jobset").stdout
    said = "does not name jobset.x-k8s.io/jobset"
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    sent = fedq("submit", "-", input=text(make("jobset", "b"), deployment))
    for found in (sent, fedq("why", "jobset/train"), fedq("move", "jobset/train", "--to", "w")):
        assert found.exit_code == 2, found.output
        assert said in found.stderr
    assert "does not name pod" in sent.stderr
    assert "jobset" not in fedq("get", "jobs").stdout
    assert "a " in fedq("get", "jobs").stdout


# get


def test_one_table_of_all_kinds(fedq: Fedq, kube: FakeKube) -> None:
    """Jobs by name, others as KIND/NAME; what names no queue is not ours; groups are one."""
    give_job(kube, "a", workload=WAITING)
    give(kube, "jobset", make("jobset", "train"), WAITING)
    give(kube, "pytorchjob", started("pytorchjob", "torch"), RUNNING, samples.says("Running"))
    give(kube, "statefulset", make("statefulset", "web"), RUNNING)
    give(kube, "volcano", make("volcano", "sim"), WAITING)
    give(kube, "pod", pod("p0", 2), WAITING)
    kube.create(r.PODS, pod("p1", 2))
    kube.create(TYPES["jobset"], make("jobset", "apart", labels={}))
    lines = [line.split() for line in fedq("get", "jobs").stdout.splitlines()[1:]]
    assert [line[0] for line in lines] == [
        "a", "job.batch.volcano.sh/sim", "jobset/train", "pod/p0", "pytorchjob/torch",
        "statefulset/web",
    ]  # fmt: skip
    states = {line[0]: line[2] for line in lines}
    assert states["pytorchjob/torch"] == states["statefulset/web"] == "Running"
    assert states["jobset/train"] == "Pending"
    told = json.loads(fedq("get", "jobs", "-A", "-o", "json").stdout)
    assert {(one["kind"], one["apiVersion"]) for one in told} >= {
        ("Job", "batch/v1"), ("Job", "batch.volcano.sh/v1alpha1"), ("Pod", "v1"),
    }  # fmt: skip
    assert json.loads(fedq("get", "jobs", "jobset/train", "-o", "json").stdout)["kind"] == "JobSet"


def test_kinds_that_may_not_be_listed_are_left_out(fedq: Fedq, kube: FakeKube) -> None:
    """Those who may list Jobs see these."""
    give_job(kube, "a", workload=WAITING)
    give(kube, "jobset", make("jobset", "train"), WAITING)
    kube.fail(lambda request: "/jobsets" in request.url.path, status=403, times=9)
    found = fedq("get", "jobs")
    assert found.exit_code == 0
    assert "a " in found.stdout
    assert "jobset" not in found.stdout


def test_ended_with_what_the_kind_said(fedq: Fedq, kube: FakeKube) -> None:
    """As it stands in its Workload."""
    finished = condition("Finished", "True", "Failed", "a pod exited with 1")
    status = {**RUNNING, "conditions": [*RUNNING["conditions"], finished]}
    give(kube, "jobset", make("jobset", "train"), status, samples.says("Failed"))
    assert "ended as Failed on cluster east (attempt 2)" in fedq("why", "train").stdout
    assert "a pod exited with 1" in fedq("why", "jobset/train").stdout


# why


def test_why(fedq: Fedq, kube: FakeKube) -> None:
    """With numbers of all of its pods, and its place among all kinds."""
    give_job(kube, "a", workload=WAITING, priority=5)
    give(kube, "jobset", make("jobset", "train"), WAITING)
    said = fedq("why", "jobset/train").stdout
    assert said.startswith("JobSet default/train waits in ClusterQueue cq")
    assert "asks for cpu 7, memory 7Gi" in said
    assert "2 wait there, 1 of them before this one" in said
    assert fedq("why", "train").stdout == said
    told = json.loads(fedq("why", "jobset/train", "-o", "json").stdout)
    assert (told["kind"], told["name"]) == ("JobSet", "train")


@pytest.mark.parametrize("name", ["p0", "p1", "pod/p1", "g", "pod/g"])
def test_a_group_by_any_of_its_names(fedq: Fedq, kube: FakeKube, name: str) -> None:
    """The head's, another pod's, its own."""
    give(kube, "pod", pod("p0", 2), RUNNING, {"phase": "Succeeded"})
    kube.create(r.PODS, pod("p1", 2))
    said = fedq("why", name).stdout
    assert "Pod default/p0 is admitted on cluster east" in said
    assert "fedq logs pod/p0" in said


def test_a_group_that_is_not_whole(fedq: Fedq, kube: FakeKube) -> None:
    """Nobody is to blame but who has not made the others."""
    kube.create(r.PODS, pod("p0", 3))
    said = fedq("why", "pod/g").stdout
    assert "Pod default/p0 is not queued: the group has 1 pods, and says that 3 belong" in said
    assert "manager" not in said


def test_a_pod_in_excess(fedq: Fedq, kube: FakeKube) -> None:
    """Its group is whole without it."""
    give(kube, "pod", pod("p0", 2), RUNNING)
    for name in ("p1", "p2"):
        kube.create(r.PODS, pod(name, 2))
    said = fedq("why", "pod/p2").stdout
    assert "Pod default/p2 is not queued: group g has the 2 pods that belong to it" in said
    assert "(p0, p1)" in said
    assert "is admitted on cluster east" in fedq("why", "pod/p1").stdout


def test_a_pod_of_something_larger(fedq: Fedq, kube: FakeKube) -> None:
    """Whose part it is."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "x", "controller": True}
    body = pod("a-x7")
    body["metadata"]["ownerReferences"] = [owner]
    kube.create(r.PODS, body)
    found = fedq("why", "pod/a-x7")
    assert found.exit_code == 1
    assert "part of Job a: name that" in found.stderr


def test_a_name_alone_is_a_jobs_first(fedq: Fedq, kube: FakeKube) -> None:
    """Else that of the only other one; of several it is asked which."""
    give(kube, "jobset", make("jobset", "x"), WAITING)
    give(kube, "pytorchjob", make("pytorchjob", "x"), WAITING)
    several = fedq("why", "x")
    assert several.exit_code == 2
    assert "jobset/x, pytorchjob/x" in several.stderr
    kube.create(TYPES["statefulset"], make("statefulset", "only", labels={}))
    assert "names no queue" in fedq("why", "only").stdout
    give(kube, "jobset", make("jobset", "only"), WAITING)
    assert fedq("why", "only").stdout.startswith("JobSet default/only waits")
    give_job(kube, "x", workload=WAITING)
    assert fedq("why", "x").stdout.startswith("default/x waits")


MISSING = [
    ("mpijob/a", 1, "serves no MPIJob (kubeflow.org/v2beta1)"),
    ("jobset/a", 1, "there is no jobset a in namespace default"),
    ("nothing/a", 2, "there is no kind nothing"),
    ("deployment/a", 2, "its pods are queued one by one"),
    ("jobset/", 2, "names no job"),
    ("a", 1, "there is no job a in namespace default"),
]


@pytest.mark.parametrize(("text", "code", "said"), MISSING)
@pytest.mark.parametrize("command", [("why",), ("get", "jobs"), ("logs",), ("events",)])
def test_what_is_not_there(
    fedq: Fedq, command: tuple[str, ...], text: str, code: int, said: str
) -> None:
    """A kind without a CRD is named, and what to do."""
    found = fedq(*command, text)
    assert (found.exit_code, "Traceback" in found.output) == (code, False)
    assert said in found.stderr


# move, and the jobs of a cluster


def test_move(fedq: Fedq, kube: FakeKube) -> None:
    """The order is on its Workload."""
    for name in ("east", "west"):
        give_cluster(kube, name, status="True", reason="Active")
    give(kube, "jobset", make("jobset", "train"), RUNNING)
    found = fedq("move", "jobset/train", "--to", "west")
    assert found.stdout.startswith("JobSet default/train is stopped on east")
    notes = kube.get(r.WORKLOADS, "jobset-train", "default")["metadata"]["annotations"]
    assert notes[Order.MOVE_TO.value] == "west"


def test_a_drain_tells_of_all_kinds(fedq: Fedq, kube: FakeKube) -> None:
    """Nobody takes a cluster away under a JobSet that he was not shown."""
    give_cluster(kube, "east", status="True", reason="Active")
    give(kube, "jobset", make("jobset", "train"), RUNNING)
    found = fedq("cluster", "drain", "east", "--dry-run")
    assert "jobset/train" in found.stdout
    assert json.loads(fedq("get", "clusters", "-o", "json").stdout)[0]["running"] == 1
    kube.fail(lambda request: "/jobsets" in request.url.path, status=403, times=9)
    assert "jobset/train" in fedq("cluster", "drain", "east", "--dry-run").stdout


# submit


def text(*objects: Json) -> str:
    """A YAML stream."""
    return yaml.safe_dump_all(objects)


def test_submitted_ones_are_held_back(fedq: Fedq, kube: FakeKube) -> None:
    """As Kueue's webhooks would; again changes nothing."""
    bodies = [make("jobset", "a"), make("pytorchjob", "b"), pod("c"), make("volcano", "d")]
    plain = make("statefulset", "e")
    del plain["spec"]["template"]["spec"]["schedulingGates"]
    result = fedq("submit", "-", input=text(*bodies, plain))
    assert result.stderr == ""
    assert result.stdout == (
        "jobset default/a created\npytorchjob default/b created\npod default/c created\n"
        "job.batch.volcano.sh default/d created\nstatefulset default/e created\n"
    )
    spec = kube.get(TYPES["jobset"], "a", "default")["spec"]
    assert (spec["suspend"], spec["managedBy"]) == (True, MULTIKUEUE)
    run = kube.get(TYPES["pytorchjob"], "b", "default")["spec"]["runPolicy"]
    assert run == {"suspend": True, "managedBy": MULTIKUEUE}
    assert kube.get(r.PODS, "c", "default")["spec"]["schedulingGates"] == [GATE]
    held = kube.get(TYPES["statefulset"], "e", "default")["spec"]
    assert held["template"]["spec"]["schedulingGates"] == [GATE]
    kube.merge(TYPES["jobset"], "a", {"spec": {"suspend": False}}, "default")
    added = [{"name": "kube-api-access-x"}]
    kube.merge(r.PODS, "c", {"spec": {"volumes": added, "tolerations": added}}, "default")
    again = fedq("submit", "-", input=text(*bodies, plain))
    assert again.stdout.count("unchanged") == 5, again.output


def test_pods_of_a_deployment(fedq: Fedq, kube: FakeKube) -> None:
    """They name the queue, too."""
    res = Resource("apps", "v1", "deployments")
    kube.resources.append(res)
    body = {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "labels": QUEUED},
            "spec": {"template": {"metadata": {"labels": {"app": "d"}}}}}  # fmt: skip
    assert fedq("submit", "-", input=text(body)).stdout == "deployment default/d created\n"
    made = kube.get(res, "d", "default")["spec"]["template"]["metadata"]["labels"]
    assert made == {"app": "d", **QUEUED}


MANAGED = {**samples.SPECS["JobSet"], "managedBy": "else.where/x"}
REFUSED = [
    (make("jobset", "a", MANAGED), "managedBy is else.where/x"),
    (make("jobset", "a", {"replicatedJobs": "x"}), "no pods were found"),
    (make("jobset", "a", {"replicatedJobs": [{"name": "x", "template": {}}]}), "no pods"),
    ({**make("jobset", "a"), "spec": None}, "spec is missing"),
    (make("pod", "a", {"containers": [{"resources": {"requests": {"cpu": "two"}}}]}), "'two'"),
    (make("pod", "a", {"schedulingGates": "x", "containers": []}), "of a wrong type"),
    (pod("a", -1), "says that 0 belong to it"),
    (make("jobset", "a", annotations={"fedq.io/on-disconnect": "x"}), "on-disconnect"),
    ({**make("jobset", "a"), "apiVersion": "jobset.x-k8s.io/v1"}, "as jobset.x-k8s.io/v1alpha2"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "said"), REFUSED)
def test_what_cannot_be_federated_is_refused(
    fedq: Fedq, kube: FakeKube, bad: Json, said: str
) -> None:
    """With the reason, and nothing is sent."""
    result = fedq("submit", "-", input=text(make("jobset", "good"), bad))
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert kube.log == []


def test_what_is_only_told(fedq: Fedq, kube: FakeKube) -> None:
    """No queue; pods that are not all; a kind that is not served; one that never ends."""
    result = fedq(
        "submit", "-", "--wait", "--timeout", "0.1",
        input=text(make("jobset", "a", labels={}), pod("b", 2), make("statefulset", "c")),
    )  # fmt: skip
    assert "JobSet a names no queue" in result.stderr
    assert "group g: 1 of its 2 pods are here" in result.stderr
    assert "statefulset default/c never ends" in result.stderr
    assert "1 of 1 jobs have not ended" in result.stderr
    assert "`fedq why pod/b -n default` says more" in result.stderr
    assert "suspend" not in kube.get(TYPES["jobset"], "a", "default")["spec"]
    meta, spec = {"name": "d", "labels": QUEUED}, samples.SPECS["MPIJob"]
    mpi = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": meta, "spec": spec}
    refused = fedq("submit", "-", input=text(mpi))
    assert refused.exit_code == 1
    assert "serves no MPIJob" in refused.stderr


def test_they_are_waited_for(fedq: Fedq, kube: FakeKube) -> None:
    """Until each has ended as its kind does; a group as one."""
    bodies = [make("jobset", "a"), pod("p0", 2), pod("p1", 2)]
    for body in bodies[1:]:  # a failed one waits for no other in its place
        body["metadata"]["annotations"]["kueue.x-k8s.io/retriable-in-group"] = "false"
    fedq("submit", "-", input=text(*bodies))
    kube.merge(TYPES["jobset"], "a", {"status": samples.says("Completed")}, "default", status=True)
    for name in ("p0", "p1"):
        status = {"status": {"phase": "Succeeded"}}
        kube.merge(r.PODS, name, status, "default", status=True)
    result = fedq("submit", "-", "--wait", "--timeout", "20", input=text(*bodies))
    assert "2 of 2 Jobs Complete" in result.stdout, result.output
    assert result.exit_code == 0
    kube.merge(r.PODS, "p1", {"status": {"phase": "Failed"}}, "default", status=True)
    failed = fedq("submit", "-", "--wait", "--timeout", "20", input=text(*bodies))
    assert failed.exit_code == 1
    assert "1 of 2 Jobs Complete" in failed.stdout
