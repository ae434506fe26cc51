"""CRDs, admission policies and roles on a real API server, as `deploy/kustomize` installs them.

The fixture `rig` gives a running rig; each cluster gets its base here, which may be there already.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from federation.api.access import agent_access
from federation.api.report_placement import placement_to_wire
from federation.core.devices.cards import MIG, Card, Host, HostUse, MigProfile
from federation.core.devices.fleet.buckets import Buckets
from federation.core.devices.fleet.types import Room
from federation.core.types import Taint
from fedq.rig.errors import RigError
from fedq.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.timeout(120)]

Json = dict[str, Any]

BASES = Path(__file__).parents[2] / "deploy" / "kustomize"
SEEDS = Path(__file__).parents[2].parent / "shared" / "seed-manifests"
NAMESPACE = "crd-test"
SEED_NAMESPACES = ("ai-team-a", "ai-dev", "ml-team")
SEED_FILES = ("10", "11", "12", "13", "20", "40", "50", "51", "52", "53", "54", "56", "58")
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
MIRROR = "system:serviceaccount:fedq-system:fedq-mirror"
AGENT = "system:serviceaccount:fedq-system:fedq-agent"
MANAGER = "system:serviceaccount:fedq-system:fedq-manager"
PLAIN = "crd-test-plain"


def kueue(kind: str, name: str, spec: Json, version: str = "v1beta2", **more: Any) -> Json:
    """An object of Kueue's group; namespaced kinds go to the test namespace."""
    metadata: Json = {"name": name}
    if kind in ("Workload", "LocalQueue"):
        metadata["namespace"] = NAMESPACE
    api = f"kueue.x-k8s.io/{version}"
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec, **more}


def job(
    name: str, labels: Json | None = None, annotations: Json | None = None, **spec: Any
) -> Json:
    """A Job of one pod."""
    container = {"name": "c", "image": "registry.example.com/c:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"template": template, **spec},
    }


def group(resources: list[Json], covered: list[str] | None = None, flavor: str = "f") -> Json:
    """A resource group of one flavor."""
    names = covered or [r["name"] for r in resources]
    return {"coveredResources": names, "flavors": [{"name": flavor, "resources": resources}]}


def pod_sets(**more: Any) -> list[Json]:
    """The pod sets of a Workload of one pod."""
    pod = {"spec": {"containers": [{"name": "c", "image": "c"}]}}
    return [{"name": "main", "count": 1, "template": pod, **more}]


CPU: Json = {"name": "cpu", "nominalQuota": "4"}
MEMORY: Json = {"name": "memory", "nominalQuota": "4Gi"}


def objects_in(text: str) -> list[Json]:
    """The objects in a row of JSON texts, lists opened."""
    found: list[Json] = []
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        obj, end = decoder.raw_decode(text)
        found += obj["items"] if obj["kind"] == "List" else [obj]
        text = text[end:]
    return found


class Cluster:
    """One cluster of the rig, with the calls that these tests need."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.rig, self.name = rig, name

    def kubectl(self, *args: str, objects: list[Json] | None = None) -> str:
        """Standard output of kubectl, fed with the objects."""
        text = None if objects is None else "\n".join(map(json.dumps, objects))
        return self.rig.kubectl(self.name, *args, input=text)

    def try_create(self, *objects: Json, user: str = "") -> list[Json]:
        """The objects as the server would store them. Raises RigError with its refusals."""
        who = ("--as", user) if user else ()
        args = ("create", "--dry-run=server", "-o", "json", *who, "-f", "-")
        text = self.kubectl(*args, objects=list(objects))
        return objects_in(text)

    def refusal(self, *args: str, objects: list[Json] | None = None) -> str:
        """What the server says to a call that must fail."""
        with pytest.raises(RigError) as caught:
            self.kubectl(*args, objects=objects)
        return str(caught.value)


def until_policies_work(cluster: Cluster) -> None:
    """Kinds and policies take effect within seconds of their creation; at most 20 here."""
    probes = kueue("ClusterQueue", "probe", {"cohort": "c"}), job("probe", {QUEUE_LABEL: "q"})
    deadline = time.monotonic() + 20
    problem = ""
    while time.monotonic() < deadline:
        try:
            queue, queued = cluster.try_create(*probes)
        except RigError as error:
            problem = str(error)
        else:
            if "cohortName" in queue["spec"] and queued["spec"]["suspend"]:
                return
            problem = "the policies have no effect"
        time.sleep(0.5)
    pytest.fail(problem)


def prepared(rig: Rig, name: str, role: str) -> Cluster:
    """The cluster with its base, and a plain user who may do all with Jobs in the namespace."""
    cluster = Cluster(rig, name)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASES / role))
    space: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    binding: Json = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "plain", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLAIN}],
    }
    cluster.kubectl("apply", "-f", "-", objects=[space, binding])
    until_policies_work(cluster)
    return cluster


def remove_namespaces(cluster: Cluster, *names: str) -> None:
    """Delete namespaces without waiting for their end."""
    cluster.kubectl("delete", "namespace", "--ignore-not-found", "--wait=false", *names)


@pytest.fixture(scope="module")
def management(rig: Rig):
    """The management cluster."""
    cluster = prepared(rig, rig.management, "management")
    yield cluster
    remove_namespaces(cluster, NAMESPACE)


@pytest.fixture(scope="module")
def worker(rig: Rig):
    """The first worker cluster."""
    cluster = prepared(rig, rig.workers[0], "worker")
    yield cluster
    remove_namespaces(cluster, NAMESPACE)


# -- seed manifests ---------------------------------------------------------------------------


def minimal_crd(group: str, version: str, kind: str) -> Json:
    """A CRD that takes anything, for a kind that is not ours."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [served | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def until_accepted(cluster: Cluster, path: str) -> None:
    """A policy can judge objects of a new CRD within seconds of its creation; at most 60 here."""
    deadline = time.monotonic() + 60
    while True:
        try:
            cluster.kubectl("create", "--dry-run=server", "-f", path)
            return
        except RigError as error:
            if "There can be a delay" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.5)  # nothing tells that it is ready


@pytest.fixture(scope="module")
def seeds(management: Cluster):
    """Seed manifests applied as they stand, twice; removed afterwards."""
    if not SEEDS.is_dir():
        pytest.skip("no seed manifests beside the checkout")
    spaces: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in SEED_NAMESPACES
    ]
    training = minimal_crd("kubeflow.org", "v1", "PyTorchJob")
    management.kubectl("apply", "-f", "-", objects=[*spaces, training])
    management.kubectl("wait", "--for=condition=Established", "crd/pytorchjobs.kubeflow.org")
    files = [str(next(SEEDS.glob(f"{n}-*.yaml"))) for n in (*SEED_FILES, "55")]
    until_accepted(management, files[-1])
    given = [arg for f in files for arg in ("-f", f)]
    management.kubectl("apply", *given)
    yield management.kubectl("apply", *given), given
    management.kubectl("delete", "--ignore-not-found", "--wait=false", *given)
    management.kubectl("delete", "--wait=false", "crd", "pytorchjobs.kubeflow.org")
    remove_namespaces(management, *SEED_NAMESPACES)


def test_seed_manifests_apply_twice(seeds):
    """The second time nothing changes except where an old spelling is written again."""
    output, given = seeds

    lines = [line for line in output.splitlines() if ".kueue.x-k8s.io/" in line]
    changed = {line.split()[0].partition("/")[2] for line in lines if "unchanged" not in line}

    assert len(lines) > len(given) // 2
    assert changed <= {"ai-team-queue", "ai-team", "ai-multi", "gpu-west"}


def test_seed_pod_group_is_created(seeds, management):
    """It has a generateName, so it can be created only."""
    path = next(SEEDS.glob("57-*.yaml"))

    assert "created" in management.kubectl("create", "-f", str(path))


def test_seed_results(seeds, management):
    """Old spellings are rewritten, unknown fields of the Cohort kept, the Job suspended."""

    def spec(what: str, *args: str) -> Json:
        found: Json = json.loads(management.kubectl("get", what, *args, "-o", "json"))["spec"]
        return found

    assert spec("cq/ai-team-queue")["cohortName"] == "ai"
    assert "cohort" not in spec("cq/ai-team-queue")
    assert spec("cq/ai-multi")["admissionChecksStrategy"] == {
        "admissionChecks": [{"name": "multi-gpu"}]
    }
    assert "admissionChecks" not in spec("cq/ai-multi")
    assert spec("mkc/gpu-west") == {
        "clusterSource": {
            "kubeConfig": {"locationType": "Secret", "location": "gpu-west-kubeconfig"}
        }
    }
    assert spec("cohort/ai-research-cohort")["sharing"]["shareFuncs"][0]["weight"] == 1
    assert spec("job/llm-finetune", "-n", "ai-dev")["managedBy"] == "kueue.x-k8s.io/multikueue"
    workload = spec("workload/training-job-abc123", "-n", "ml-team")
    assert workload["active"] is True
    assert workload["podSets"][0]["template"]["spec"]["containers"][0]["name"] == "pytorch"


# -- columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "columns"),
    [
        ("kwl", "NAME QUEUE RESERVED IN ADMITTED FINISHED AGE"),
        ("cq", "NAME COHORT PENDING WORKLOADS ADMITTED WORKLOADS"),
        ("lq", "NAME CLUSTERQUEUE PENDING WORKLOADS ADMITTED WORKLOADS"),
        ("mkc", "NAME CONNECTED STATE AGE"),
        ("ac", "NAME ACTIVE AGE"),
        ("wpc", "NAME VALUE AGE"),
        ("rf", "NAME AGE"),
        ("workloads.v1beta1.kueue.x-k8s.io", "NAME QUEUE RESERVED IN ADMITTED FINISHED AGE"),
    ],
)
def test_columns_and_short_names(management, what, columns):
    """kubectl prints what people know, in both versions."""
    objects = [
        kueue("Workload", "shown", {"podSets": pod_sets(), "queueName": "q"}),
        kueue("ClusterQueue", "crd-shown", {"cohortName": "c"}),
        kueue("LocalQueue", "shown", {"clusterQueue": "crd-shown"}),
        kueue(
            "MultiKueueCluster", "crd-shown", {"clusterSource": {"kubeConfig": {"location": "s"}}}
        ),
        kueue("AdmissionCheck", "crd-shown", {"controllerName": "c"}),
        kueue("WorkloadPriorityClass", "crd-shown", {}) | {"value": 7},
        kueue("ResourceFlavor", "crd-shown", {}),
    ]
    objects[-2].pop("spec")
    management.kubectl("apply", "-f", "-", objects=objects)
    try:
        header = management.kubectl("get", what, "-n", NAMESPACE).splitlines()[0]
    finally:
        management.kubectl("delete", "--wait=false", "-f", "-", objects=objects)

    assert " ".join(header.split()) == columns


# -- spelling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_old_spellings_are_rewritten(management, version):
    """In both versions, on create."""
    old: Json = {
        "cohort": "c",
        "admissionChecks": ["a", "b"],
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
    }
    reference = {"priorityClassName": "high", "priority": 5}
    source = "kueue.x-k8s.io/workloadpriorityclass"
    queue, cluster, first, second = (
        o["spec"]
        for o in management.try_create(
            kueue("ClusterQueue", "old", old, version),
            kueue("MultiKueueCluster", "old", {"kubeConfig": {"location": "s"}}, version),
            kueue(
                "Workload",
                "old",
                {"podSets": pod_sets(), "priorityClassSource": source, **reference},
                version,
            ),
            kueue(
                "Workload",
                "older",
                {"podSets": pod_sets(), "priorityClassSource": "", "priorityClassName": ""},
                version,
            ),
        )
    )

    assert queue["cohortName"] == "c"
    assert queue["admissionChecksStrategy"] == {"admissionChecks": [{"name": "a"}, {"name": "b"}]}
    assert set(queue["flavorFungibility"].values()) == {"MayStopSearch"}
    assert not {"cohort", "admissionChecks"} & queue.keys()
    assert cluster == {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}}
    assert first["priorityClassRef"] == {
        "group": "kueue.x-k8s.io",
        "kind": "WorkloadPriorityClass",
        "name": "high",
    }
    for workload in (first, second):
        assert not {"priorityClassName", "priorityClassSource"} & workload.keys()


def test_old_spelling_on_update_wins(management):
    """Somebody who edits the old field means it: it never survives a write."""
    queue = kueue("ClusterQueue", "crd-moved", {"cohort": "a"})
    management.kubectl("apply", "--server-side", "-f", "-", objects=[queue])
    try:
        queue["spec"]["cohort"] = "b"
        management.kubectl("apply", "--server-side", "-f", "-", objects=[queue])
        spec = json.loads(management.kubectl("get", "cq", "crd-moved", "-o", "json"))["spec"]
    finally:
        management.kubectl("delete", "--wait=false", "cq", "crd-moved")

    assert spec["cohortName"] == "b"
    assert "cohort" not in spec


# -- refusals ---------------------------------------------------------------------------------

TAINT = {"key": "a", "effect": "NoSchedule"}
REF = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "n"}
RACK = {"nodeLabel": "rack"}
HOST = {"nodeLabel": "kubernetes.io/hostname"}

BAD: list[tuple[str, Json, str]] = [
    ("ResourceFlavor", {"topologyName": "t"}, "at least one nodeLabel is required"),
    ("ResourceFlavor", {"nodeLabels": {"显卡": "a"}}, "no such label key: 显卡"),
    ("ResourceFlavor", {"nodeLabels": {"a": "b c"}}, "should match"),
    ("ResourceFlavor", {"nodeLabels": {f"k{n}": "v" for n in range(9)}}, "at most 8"),
    ("ResourceFlavor", {"nodeTaints": [TAINT, TAINT]}, "unique by key and effect"),
    ("ResourceFlavor", {"nodeTaints": [{"key": "a", "effect": "No"}]}, "Unsupported value"),
    ("ResourceFlavor", {"tolerations": [{"operator": "Equal"}]}, "operator must be Exists"),
    (
        "ResourceFlavor",
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "v"}]},
        "a value must not be set",
    ),
    (
        "ResourceFlavor",
        {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
        "must be NoExecute",
    ),
    ("ClusterQueue", {"stopPolicy": "Stop"}, "Unsupported value"),
    ("ClusterQueue", {"queueingStrategy": "LIFO"}, "Unsupported value"),
    ("ClusterQueue", {"resourceGroups": [group([CPU], ["cpu", "memory"])]}, "as many resources"),
    ("ClusterQueue", {"resourceGroups": [group([CPU, MEMORY], ["memory", "cpu"])]}, "same order"),
    (
        "ClusterQueue",
        {"resourceGroups": [group([CPU | {"borrowingLimit": 1}])]},
        "borrowingLimit is allowed only when cohortName is set",
    ),
    (
        "ClusterQueue",
        {"resourceGroups": [group([CPU | {"lendingLimit": 1}])]},
        "lendingLimit is allowed only when cohortName is set",
    ),
    (
        "ClusterQueue",
        {"cohortName": "c", "resourceGroups": [group([CPU | {"lendingLimit": "4001m"}])]},
        "lendingLimit must be at most nominalQuota",
    ),
    ("ClusterQueue", {"resourceGroups": [group([CPU | {"nominalQuota": "-1"}])]}, "should match"),
    (
        "ClusterQueue",
        {"resourceGroups": [group([CPU | {"nominalQuota": -1}])]},
        "greater than or eq",
    ),
    (
        "ClusterQueue",
        {"resourceGroups": [group([CPU | {"nominalQuota": "4cores"}])]},
        "should match",
    ),
    (
        "ClusterQueue",
        {"resourceGroups": [group([CPU]), group([MEMORY])]},
        "a flavor may be in one resource group only",
    ),
    (
        "ClusterQueue",
        {"resourceGroups": [group([CPU]), group([CPU], flavor="g")]},
        "a resource may be in one resource group only",
    ),
    ("ClusterQueue", {"resourceGroups": [group([CPU, CPU])]}, "Duplicate value"),
    (
        "ClusterQueue",
        {"flavorFungibility": {"preference": "BorrowingOverPreemption"}},
        "TryNextFlav",
    ),
    (
        "ClusterQueue",
        {"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["g"]}]}},
        "onFlavors must name flavors of this ClusterQueue",
    ),
    (
        "ClusterQueue",
        {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
        "borrowWithinCohort needs reclaimWithinCohort",
    ),
    (
        "Cohort",
        {"resourceGroups": [group([CPU | {"borrowingLimit": 1}])]},
        "borrowingLimit is allowed only when parentName is set",
    ),
    ("LocalQueue", {"clusterQueue": "Upper Case"}, "should match"),
    ("Workload", {"podSets": []}, "at least 1"),
    ("Workload", {"podSets": pod_sets(minCount=2)}, "minCount must be at most count"),
    ("Workload", {"podSets": pod_sets(name="Main")}, "should match"),
    (
        "Workload",
        {
            "podSets": [
                *pod_sets(minCount=1),
                *pod_sets(name="b", minCount=1),
            ]
        },
        "at most one podSet may have minCount",
    ),
    (
        "Workload",
        {"podSets": pod_sets(topologyRequest={"required": "a", "preferred": "b"})},
        "at most one of required, preferred and unconstrained",
    ),
    ("Workload", {"podSets": pod_sets(), "priorityClassRef": REF}, "priority is required"),
    (
        "Workload",
        {"podSets": pod_sets(), "priority": 1, "priorityClassRef": REF | {"kind": "PriorityClass"}},
        "priorityClassRef must be",
    ),
    (
        "Workload",
        {"podSets": pod_sets(), "maximumExecutionTimeSeconds": 0},
        "greater than or equal",
    ),
    ("AdmissionCheck", {"controllerName": ""}, "at least 1"),
    ("Topology", {"levels": [RACK, RACK]}, "unique by nodeLabel"),
    ("Topology", {"levels": [HOST, RACK]}, "only as the lowest level"),
    ("MultiKueueConfig", {"clusters": ["a", "a"]}, "Duplicate value"),
    ("MultiKueueCluster", {}, "clusterSource is required"),
    ("MultiKueueCluster", {"clusterSource": {}}, "exactly one of kubeConfig and clusterProfileRef"),
    ("MultiKueueCluster", {"clusterSource": {"kubeConfig": {"location": ""}}}, "at least 1"),
    ("ProvisioningRequestConfig", {}, "provisioningClassName"),
]


@pytest.fixture(scope="module")
def refusals(management: Cluster) -> dict[int, str]:
    """All bad objects sent at once: number to what the server said."""
    objects = [kueue(kind, f"bad-{n:02}", spec) for n, (kind, spec, _) in enumerate(BAD)]
    said = management.refusal("create", "--dry-run=server", "-f", "-", objects=objects)
    found: dict[int, str] = {}
    for part in re.split(r"\n(?=Error from server|The \w+ \")", said):
        for number in re.findall(r"bad-(\d\d)", part)[:1]:
            found[int(number)] = part
    return found


@pytest.mark.parametrize("number", range(len(BAD)), ids=lambda n: f"{n:02}-{BAD[n][0]}")
def test_bad_objects_are_refused(refusals, number):
    """The schema, its CEL rules and the policies say what is wrong."""
    assert BAD[number][2] in refusals.get(number, "it was accepted")


CHANGES = [
    (
        kueue("ResourceFlavor", "crd-fixed", {"nodeLabels": {"a": "b"}, "topologyName": "t"}),
        {"spec": {"topologyName": "u"}},
        "topologyName is immutable",
    ),
    (
        kueue("LocalQueue", "fixed", {"clusterQueue": "a"}),
        {"spec": {"clusterQueue": "b"}},
        "clusterQueue is immutable",
    ),
    (
        kueue("AdmissionCheck", "crd-fixed", {"controllerName": "a"}),
        {"spec": {"controllerName": "b"}},
        "controllerName is immutable",
    ),
    (
        kueue("Topology", "crd-fixed", {"levels": [RACK]}),
        {"spec": {"levels": [RACK, HOST]}},
        "levels are immutable",
    ),
]


@pytest.mark.parametrize(("obj", "change", "message"), CHANGES, ids=lambda v: str(v)[:0])
def test_immutable_fields(management, obj, change, message):
    """What may not change is refused on update."""
    management.kubectl("apply", "-f", "-", objects=[obj])
    what = (obj["kind"].lower(), obj["metadata"]["name"], "-n", NAMESPACE)
    try:
        said = management.refusal("patch", *what, "--type=merge", "-p", json.dumps(change))
    finally:
        management.kubectl("delete", "--wait=false", *what)

    assert message in said


def test_workload_rules_while_quota_is_reserved(management):
    """Admission must match the pod sets; the queue is fixed; spec.priority is not."""
    spec = {"podSets": pod_sets(), "queueName": "q", "priority": 1, "priorityClassRef": REF}
    workload = kueue("Workload", "held", spec)
    management.kubectl("apply", "-f", "-", objects=[workload])
    now = "2026-01-01T00:00:00Z"
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "R", "lastTransitionTime": now}
    admission: Json = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main"}]}

    def patch(body: Json, *more: str) -> tuple[str, ...]:
        what = ("patch", "workload", "held", "-n", NAMESPACE, "--type=merge")
        return (*what, *more, "-p", json.dumps(body))

    status = "--subresource=status"
    lone = management.refusal(*patch({"status": {"conditions": [reserved]}}, status))
    two = {"podSetAssignments": [{"name": "main"}, {"name": "b"}], "clusterQueue": "cq"}
    odd = management.refusal(*patch({"status": {"admission": two}}, status))
    bound = {"cluster": "east", "attempt": 1, "epoch": 1, "policy": "stop", "boundAt": now}
    good = {"conditions": [reserved], "admission": admission, "fedq": bound}
    management.kubectl(*patch({"status": good}, status))
    moved = management.refusal(*patch({"spec": {"queueName": "other"}}))
    grown = management.refusal(*patch({"spec": {"podSets": pod_sets(count=2)}}))
    unset = management.refusal(*patch({"spec": {"priorityClassRef": None}}))
    elsewhere = {"status": {"admission": {"clusterQueue": "dq"}}}
    swapped = management.refusal(*patch(elsewhere, status))
    renamed = {"priority": 9, "priorityClassRef": REF | {"name": "urgent"}}
    management.kubectl(*patch({"spec": renamed}))
    by_queue = ("get", "kwl", "-n", NAMESPACE, "--field-selector")
    found = management.kubectl(*by_queue, "status.admission.clusterQueue=cq", "-o", "name")
    management.kubectl("delete", "workload", "held", "-n", NAMESPACE, "--wait=false")

    assert "QuotaReserved needs status.admission" in lone
    assert "one podSetAssignment per podSet" in odd
    assert "queueName is immutable while QuotaReserved" in moved
    assert "podSets is immutable while QuotaReserved" in grown
    assert "priorityClassRef is immutable while QuotaReserved" in unset
    assert "not moved to another ClusterQueue" in swapped
    assert found.strip() == "workload.kueue.x-k8s.io/held"


# -- Jobs -------------------------------------------------------------------------------------


def test_management_suspends_queued_jobs_and_takes_them_over(management):
    """With a queue name: suspended and managed by us, unless somebody else manages it."""
    queued, default, other, plain, empty = (
        o["spec"]
        for o in management.try_create(
            job("queued", {QUEUE_LABEL: "q"}),
            job("default", {QUEUE_LABEL: "q"}, managedBy="kubernetes.io/job-controller"),
            job("other", {QUEUE_LABEL: "q"}, managedBy="example.com/other"),
            job("plain"),
            job("empty", {QUEUE_LABEL: ""}),
            user=PLAIN,
        )
    )

    for spec in (queued, default):
        assert (spec["suspend"], spec["managedBy"]) == (True, "kueue.x-k8s.io/multikueue")
    assert (other["suspend"], other["managedBy"]) == (True, "example.com/other")
    for spec in (plain, empty):
        assert not spec["suspend"]
        assert "managedBy" not in spec


def test_jobs_of_our_own_namespace_are_left_alone(management):
    """The queue must not wait for itself."""
    own = job("own", {QUEUE_LABEL: "q"})
    own["metadata"]["namespace"] = "fedq-system"

    (seen,) = management.try_create(own)

    assert not seen["spec"]["suspend"]


def test_namespace_can_require_a_queue_name(management):
    """By the label fedq.io/require-queue=true."""
    label = ("label", "namespace", NAMESPACE, "--overwrite")
    management.kubectl(*label, "fedq.io/require-queue=true")
    deadline = time.monotonic() + 10
    said = ""
    while "takes only Jobs with the label" not in said and time.monotonic() < deadline:
        try:
            management.try_create(job("plain"), user=PLAIN)
        except RigError as error:
            said = str(error)
    management.try_create(job("queued", {QUEUE_LABEL: "q"}), user=PLAIN)
    management.kubectl(*label, "fedq.io/require-queue-")

    assert "takes only Jobs with the label" in said


def test_worker_suspends_queued_jobs_only(worker):
    """A local Job stays with the Job controller and waits for the agent."""
    queued, plain = (
        o["spec"] for o in worker.try_create(job("a", {QUEUE_LABEL: "q"}), job("b"), user=PLAIN)
    )

    assert queued["suspend"] is True
    assert "managedBy" not in queued
    assert not plain["suspend"]


MARKS = [
    ({ORIGIN_LABEL: "o"}, {}),
    ({"fedq.io/x": "o"}, {}),
    ({}, {"fedq.io/attempt": "9"}),
    ({}, {"fedq.io/epoch": "9", "fedq.io/clusters": "a"}),
]


@pytest.mark.parametrize(("labels", "annotations"), MARKS)
def test_worker_refuses_forged_marks(worker, labels, annotations):
    """A plain user cannot create a Job that looks mirrored; the mirror can."""
    forged = job("forged", labels, annotations)

    with pytest.raises(RigError, match="only Fedq may write"):
        worker.try_create(forged, user=PLAIN)
    worker.try_create(forged, user=MIRROR)


def test_worker_keeps_marks_from_users_and_lets_them_do_the_rest(worker):
    """On a mirrored Job a user may neither change nor remove a mark, nor an option: its agent stops
    it by that.
    """
    marks = {"fedq.io/attempt": "1", "fedq.io/on-disconnect": "stop"}
    mirrored = job("mirrored", {QUEUE_LABEL: "q", ORIGIN_LABEL: "o"}, marks, suspend=True)
    worker.kubectl("create", "--as", MIRROR, "-f", "-", objects=[mirrored])

    def patch(user: str, annotations: Json) -> tuple[str, ...]:
        body = json.dumps({"metadata": {"annotations": annotations}})
        what = ("patch", "job", "mirrored", "-n", NAMESPACE, "--as", user)
        return (*what, "--type=merge", "-p", body)

    changed = worker.refusal(*patch(PLAIN, {"fedq.io/attempt": "2"}))
    removed = worker.refusal(*patch(PLAIN, {"fedq.io/attempt": None}))
    added = worker.refusal(*patch(PLAIN, {"fedq.io/refused": "no"}))
    kept = worker.refusal(*patch(PLAIN, {"fedq.io/on-disconnect": "keep"}))
    limited = worker.refusal(*patch(PLAIN, {"fedq.io/rerun-after": "1h"}))
    worker.kubectl(*patch(PLAIN, {"mine": "1"}))
    worker.kubectl(*patch(AGENT, {"fedq.io/refused": "no"}))
    worker.kubectl(*patch(MIRROR, {"fedq.io/attempt": "2"}))
    worker.kubectl("delete", "job", "mirrored", "-n", NAMESPACE, "--wait=false")

    for said in (changed, removed, added, kept, limited):
        assert "only Fedq may write" in said


def test_options_of_local_jobs_are_free(worker):
    """They are their owners'."""
    worker.kubectl("create", "--as", PLAIN, "-f", "-", objects=[job("own", {QUEUE_LABEL: "q"})])
    body = json.dumps({"metadata": {"annotations": {"fedq.io/on-disconnect": "keep"}}})
    what = ("patch", "job", "own", "-n", NAMESPACE, "--as", PLAIN, "--type=merge", "-p", body)
    worker.kubectl(*what)
    worker.kubectl("delete", "job", "own", "-n", NAMESPACE, "--wait=false")


CARD_NOTES = {
    "fedq.io/seat": "0",
    "hami.io/vgpu-node": "n1",
    "hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,4000,0:;",
}


def test_worker_keeps_what_is_noted_of_cards(worker):
    """A tenant changes neither the cards of a pod nor its gate; HAMi and the agent may."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "seated", "namespace": NAMESPACE, "annotations": CARD_NOTES},
        "spec": {
            "containers": [{"name": "c", "image": "c"}],
            "schedulingGates": [{"name": "fedq.io/devices"}],
        },
    }
    worker.kubectl("create", "-f", "-", objects=[pod])
    allocated = "hami.io/vgpu-devices-allocated"

    def patch(body: Json, *who: str) -> tuple[str, ...]:
        what = ("patch", "pod", "seated", "-n", NAMESPACE, *who)
        return (*what, "--type=merge", "-p", json.dumps(body))

    def noted(notes: Json) -> Json:
        return {"metadata": {"annotations": notes}}

    less = noted({allocated: "GPU-1,NVIDIA,1,0:;"})
    changed = worker.refusal(*patch(less, "--as", PLAIN))
    removed = worker.refusal(*patch(noted(dict.fromkeys(CARD_NOTES)), "--as", PLAIN))
    added = worker.refusal(*patch(noted({"hami.io/bind-phase": "allocating"}), "--as", PLAIN))
    ungated = worker.refusal(*patch({"spec": {"schedulingGates": []}}, "--as", PLAIN))
    worker.kubectl(*patch(noted({"mine": "1"}), "--as", PLAIN))
    worker.kubectl(*patch(less, "--as", "plugin", "--as-group", "system:masters"))
    worker.kubectl(*patch({"spec": {"schedulingGates": []}}, "--as", AGENT))
    worker.kubectl("delete", "pod", "seated", "-n", NAMESPACE, "--wait=false")

    for said in (changed, removed, added):
        assert "only Fedq and HAMi may change" in said
    assert "only Fedq may remove the scheduling gate" in ungated


EPOCH = ("configmap", "fedq-epoch", "-n", "fedq-system")


@pytest.fixture
def no_epoch(worker: Cluster):
    """The worker as it is before it has an epoch; what an agent wrote stands there again after."""
    held = worker.kubectl("get", *EPOCH, "--ignore-not-found", "-o", "json")
    worker.kubectl("delete", *EPOCH, "--ignore-not-found")
    yield
    worker.kubectl("delete", *EPOCH, "--ignore-not-found")
    if held:
        known = json.loads(held)
        meta = {key: known["metadata"][key] for key in ("name", "namespace")}
        worker.kubectl("create", "-f", "-", objects=[known | {"metadata": meta}])


@pytest.mark.usefixtures("no_epoch")
def test_worker_refuses_an_epoch_that_is_over(worker):
    """Jobs of an older epoch can be stopped, not made; without the ConfigMap all may be made."""
    old = job("old", {QUEUE_LABEL: "q", ORIGIN_LABEL: "o"}, {"fedq.io/epoch": "2"}, suspend=True)
    worker.kubectl("create", "--as", MIRROR, "-f", "-", objects=[old])
    config: Json = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "fedq-epoch", "namespace": "fedq-system"},
        "data": {"epoch": "10"},
    }
    worker.kubectl("create", "--as", AGENT, "-f", "-", objects=[config])
    late = job("late", {ORIGIN_LABEL: "o"}, {"fedq.io/epoch": "9"})
    try:
        said, deadline = "", time.monotonic() + 10
        while "is over" not in said and time.monotonic() < deadline:
            try:
                worker.try_create(late, user=MIRROR)
            except RigError as error:
                said = str(error)
        late["metadata"]["annotations"]["fedq.io/epoch"] = "10"
        worker.try_create(late, user=MIRROR)
        verdict = json.dumps({"metadata": {"annotations": {"fedq.io/verdict": "kill"}}})
        patch = ("patch", "job", "old", "-n", NAMESPACE, "--type=merge", "-p", verdict)
        worker.kubectl(*patch, "--as", MIRROR)
    finally:
        worker.kubectl("delete", "job", "old", "-n", NAMESPACE, "--wait=false")

    assert "the epoch in fedq.io/epoch is over" in said


@pytest.mark.usefixtures("no_epoch")
def test_worker_does_not_lower_its_epoch(worker):
    """Raised, and left alone, it may be by the agent; lowered, or made nonsense, by nobody."""
    config: Json = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "fedq-epoch", "namespace": "fedq-system"},
        "data": {"epoch": "9"},
    }
    worker.kubectl("create", "--as", AGENT, "-f", "-", objects=[config])

    def written(**data: str) -> str:
        patch = ("patch", *EPOCH, "--type=merge", "-p")
        try:
            worker.kubectl(*patch, json.dumps({"data": data}), "--as", AGENT)
        except RigError as error:
            return str(error)
        return ""

    assert written(epoch="10") == ""
    assert written(other="x") == ""
    assert "never lowered" in written(epoch="9")
    assert "whole number" in written(epoch="eleven")
    assert "whole number" in written(epoch="")
    assert written(epoch="11") == ""


# -- roles ------------------------------------------------------------------------------------

MAY = [
    ("management", MANAGER, "patch", "jobs.batch/status", "", True),
    ("management", MANAGER, "create", "workloads.kueue.x-k8s.io", "", True),
    ("management", MANAGER, "create", "jobs.batch", "", False),
    ("management", MANAGER, "create", "pods", "", False),
    ("management", MANAGER, "patch", "pods/status", "", True),
    ("management", MANAGER, "update", "clusterqueues.kueue.x-k8s.io", "", False),
    ("management", MANAGER, "get", "secrets", "fedq-system", True),
    ("management", MANAGER, "get", "secrets", "kueue-system", True),
    ("management", MANAGER, "get", "secrets", "default", False),
    ("management", MANAGER, "update", "leases.coordination.k8s.io", "fedq-system", True),
    ("management", MANAGER, "update", "leases.coordination.k8s.io", "kube-system", False),
    ("worker", MIRROR, "create", "jobs.batch", "", True),
    ("worker", MIRROR, "get", "secrets", "fedq-system", False),
    ("worker", MIRROR, "create", "pods", "", True),
    ("worker", MIRROR, "create", "pods/exec", "", False),
    ("worker", MIRROR, "create", "jobsets.jobset.x-k8s.io", "", True),
    ("worker", AGENT, "create", "pods", "", False),
    ("worker", MIRROR, "patch", "workerreports.fedq.io/status", "", False),
    ("worker", AGENT, "patch", "workerreports.fedq.io/status", "", True),
    ("worker", AGENT, "create", "jobs.batch", "", False),
    ("worker", AGENT, "get", "configmaps", "fedq-system", False),
    ("worker", AGENT, "get", "secrets", "fedq-system", False),
]


def review(who: str, verb: str, what: str, space: str) -> Json:
    """A question to the API server: may this account do that?"""
    resource, _, sub = what.partition("/")
    name, _, api_group = resource.partition(".")
    asked = {"verb": verb, "group": api_group, "resource": name, "subresource": sub}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": who, "resourceAttributes": asked | {"namespace": space}},
    }


@pytest.mark.parametrize("where", ["management", "worker"])
def test_roles(management, worker, where):
    """Each identity may do its work and nothing else."""
    cluster = management if where == "management" else worker
    rows = [row[1:] for row in MAY if row[0] == where]
    asked = [review(who, verb, what, space) for who, verb, what, space, _ in rows]
    answers = objects_in(cluster.kubectl("create", "-o", "json", "-f", "-", objects=asked))

    assert [
        (*row[:4], answer["status"]["allowed"]) for row, answer in zip(rows, answers, strict=True)
    ] == rows


def test_typing_errors_are_refused(management):
    """A field that does not exist is an error for kubectl, except in a Cohort."""
    flavor = kueue("ResourceFlavor", "typo", {"nodeLabel": {"a": "b"}})

    said = management.refusal("create", "--dry-run=server", "-f", "-", objects=[flavor])

    assert 'unknown field "spec.nodeLabel"' in said


def test_agent_on_the_management_cluster_may_only_renew_its_lease(management):
    """Another cluster's Lease, a list, and everything else is forbidden."""
    objects = agent_access("crd-east")
    management.kubectl("apply", "-f", "-", objects=objects)
    who = "system:serviceaccount:fedq-system:agent-crd-east"
    rows = [("patch", "crd-east"), ("patch", "crd-west"), ("list", ""), ("create", "crd-east")]
    asked = [review(who, verb, "leases.coordination.k8s.io", "fedq-system") for verb, _ in rows]
    for question, (_, name) in zip(asked, rows, strict=True):
        question["spec"]["resourceAttributes"]["name"] = name
    answers = objects_in(management.kubectl("create", "-o", "json", "-f", "-", objects=asked))
    management.kubectl("delete", "--wait=false", "-f", "-", objects=objects)

    assert [a["status"]["allowed"] for a in answers] == [True, False, False, False]


def test_worker_report_is_stored(worker):
    """Classes of nodes, their cards and numbers come back as they were written."""
    report: Json = {
        "apiVersion": "fedq.io/v1alpha1",
        "kind": "WorkerReport",
        "metadata": {"name": "crd-east"},
    }
    places = ((0, 4), (4, 4))
    profiles = (MigProfile("3g.20gb", 20096, 43, 3, places),)
    card = Card("GPU-1", "NVIDIA", "A100", 40960, mode=MIG, profiles=profiles, sizes=(5,))
    taint = Taint("gpu", "", "NoSchedule")
    room = Room({"cpu": -5, "memory": 2**42}, {"a": "b"}, (taint,), ready=False)
    buckets = Buckets()
    buckets.put("n", HostUse(Host("n", (card,))), room)
    status: Json = {
        "agentVersion": "0.1.0",
        "inventoryEpoch": 3,
        "countedResourceVersion": "12345",
        "localQueues": [{"namespace": "n", "name": "q", "clusterQueue": "cq"}],
        "clusterQueues": [
            {
                "name": "cq",
                "active": True,
                "cohort": "c",
                "resources": [
                    {
                        "flavor": "f",
                        "resource": "cpu",
                        "nominal": "4000",
                        "used": "0",
                        "available": "4000",
                    }
                ],
            }
        ],
        "flavors": [
            {
                "name": "f",
                "nodeLabels": {"a": "b"},
                "tolerations": [{"key": "k", "operator": "Exists", "value": "", "effect": ""}],
            }
        ],
        "placement": placement_to_wire(buckets.classes(9000)),
    }
    assert status["placement"]["classes"][0]["free"] == [-5, 2**42]
    worker.kubectl("create", "--as", AGENT, "-f", "-", objects=[report])
    body = json.dumps({"status": status})
    what = ("workerreport", "crd-east", "--subresource=status", "--type=merge", "-p", body)
    worker.kubectl("patch", "--as", AGENT, *what)
    found = json.loads(worker.kubectl("get", "wr", "crd-east", "--as", MIRROR, "-o", "json"))
    worker.kubectl("delete", "wr", "crd-east", "--wait=false")

    assert found["status"] == status
