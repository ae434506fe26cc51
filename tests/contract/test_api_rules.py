"""What a real API server with Fedq's CRDs and policies lets happen to objects, and what not.

The rules are those of the admission specification, section 1; where the schema refuses an object
at its creation, `tests/integration/test_crds.py` shows it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from federation.api.names import KUEUE_API, KUEUE_GROUP, KUEUE_OLD_VERSION, Annotation
from federation.edge.errors import Invalid
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import parse_untrusted
from federation.edge.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)
from fedq.stack import Stack

if TYPE_CHECKING:
    from fedq.rig.rig import Rig

Json = dict[str, Any]

pytestmark = [pytest.mark.rig, pytest.mark.timeout(180)]

NOW = "2026-01-01T00:00:00Z"
SPACE = "api-rules"
PATIENCE_S = 15.0
"""Policies take effect within seconds of their creation."""
NUMBERS = itertools.count()
RESOURCES = {
    "Workload": WORKLOADS,
    "Cohort": COHORTS,
    "ClusterQueue": CLUSTER_QUEUES,
    "LocalQueue": LOCAL_QUEUES,
    "ResourceFlavor": RESOURCE_FLAVORS,
    "Topology": TOPOLOGIES,
}


@pytest.fixture(scope="module")
def installed(rig: Rig) -> Rig:
    """The rig with the bases of `deploy/`."""
    Stack(rig).install()
    return rig


@pytest.fixture
async def server(installed: Rig) -> AsyncIterator[KubeClient]:
    """The management cluster, with a namespace for these tests."""
    config = parse_untrusted(installed.kubeconfig("management").read_bytes(), "rules")
    async with KubeClient(config) as client:
        names = {space["metadata"]["name"] for space in (await client.list(NAMESPACES)).items}
        if SPACE not in names:
            await client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        yield client


class Case(NamedTuple):
    """An object with a status, and a change of it. `says` is the refusal; '' lets it happen."""

    id: str
    body: Json
    change: Json
    says: str = ""
    status: Json = {}  # noqa: RUF012 - never changed
    subresource: str = ""


def thing(kind: str, spec: Json, **annotations: str) -> Json:
    """An object of Kueue's group; it is named when it is created."""
    meta: Json = {"annotations": annotations} if annotations else {}
    return {"apiVersion": KUEUE_API, "kind": kind, "metadata": meta, "spec": spec}


def pod_set(name: str = "main", count: int = 4, requests: Json | None = None, **more: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {"cpu": 1}}}
    pod = {"spec": {"containers": [container]}}
    return {"name": name, "count": count, "template": pod, **more}


def template(**parts: Any) -> Json:
    """A pod set whose template has these parts."""
    made = pod_set()
    made["template"] |= parts
    return made


def workload(*sets: Json, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    return thing("Workload", {"podSets": [*sets] or [pod_set()], **spec}, **(annotations or {}))


ELASTIC = {Annotation.ELASTIC_JOB.value: "true"}
GATED = Annotation.ADMISSION_GATED_BY.value
RESERVED = {"type": "QuotaReserved", "status": "True", "reason": "R", "lastTransitionTime": NOW}
NOT_RESERVED = RESERVED | {"status": "False"}


def assigned(name: str = "main", count: int = 4, **more: Any) -> Json:
    usage = {"cpu": str(count)}
    return {"name": name, "count": count, "flavors": {"cpu": "f"}, "resourceUsage": usage, **more}


def admission(*sets: Json, queue: str = "cq") -> Json:
    return {"clusterQueue": queue, "podSetAssignments": [*sets] or [assigned()]}


def holding(**more: Any) -> Json:
    """A status with quota."""
    return {"conditions": [RESERVED], "admission": admission(), **more}


def check(state: str, **updates: Any) -> Json:
    found: Json = {"name": "c", "state": state, "message": "", "lastTransitionTime": NOW}
    if updates:
        found["podSetUpdates"] = [{"name": "main", **updates}]
    return {"admissionChecks": [found]}


def reclaimed(count: int, name: str = "main") -> Json:
    return {"reclaimablePods": [{"name": name, "count": count}]}


def of_status(id: str, before: Json, after: Json, says: str = "", body: Json | None = None) -> Case:
    """A Workload whose status changes."""
    return Case(id, body or workload(), {"status": after}, says, before, "status")


NOT_EDITED = "immutable; clear the admission first"
ADMISSIONS = [
    of_status("an admission is set", {}, holding()),
    of_status(
        "an admission is cleared", holding(), {"admission": None, "conditions": [NOT_RESERVED]}
    ),
    of_status(
        "an admission stays as it is",
        holding(),
        holding() | {"accumulatedPastExecutionTimeSeconds": 1},
    ),
    of_status(
        "another ClusterQueue",
        holding(),
        {"admission": admission(queue="other")},
        "not moved to another ClusterQueue",
    ),
    *(
        of_status(
            f"another {field} of an admission",
            holding(),
            {"admission": admission(assigned(**{field: value}))},
            f"{field} of an admission is {NOT_EDITED}",
        )
        for field, value in (
            ("flavors", {"cpu": "g"}),
            ("resourceUsage", {"cpu": "8"}),
            ("count", 2),
        )
    ),
    *(
        of_status(
            f"{count} pods of an elastic job",
            holding(),
            {"admission": admission(assigned(count=count))},
            body=workload(annotations=ELASTIC),
        )
        for count in (2, 8)
    ),
    of_status(
        "another flavor of an elastic job",
        holding(),
        {"admission": admission(assigned(count=8, flavors={"cpu": "g"}))},
        f"flavors of an admission is {NOT_EDITED}",
        workload(annotations=ELASTIC),
    ),
    of_status(
        "a pod set less, and its assignment",
        {"admission": admission(assigned(), assigned("b"))},
        {"admission": admission(assigned())},
        NOT_EDITED,
        workload(pod_set(), pod_set("b")),
    ),
    of_status(
        "another assignment by name",
        holding(),
        {"admission": admission(assigned("b"))},
        NOT_EDITED,
    ),
    of_status(
        "places may change",
        holding(),
        {
            "admission": admission(
                assigned(
                    topologyAssignment={"levels": ["rack"], "slices": []},
                    delayedTopologyRequest="Ready",
                )
            )
        },
    ),
    *(
        of_status(
            f"{usage} of {count} pods",
            {},
            {"admission": admission(assigned(count=count, resourceUsage=usage))},
            says,
        )
        for says, count, usage in (
            ("must be divisible", 4, {"cpu": "4001m"}),
            ("must be divisible", 3, {"cpu": 1}),
            ("must be divisible", 3, {"cpu": "1500m", "memory": "4Gi"}),
            ("must be divisible", 2, {"nvidia.com/gpu": 3}),
            ("", 3, {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "6"}),
            ("", 7, {"cpu": "8407m"}),
            ("", 0, {"cpu": "1"}),
            ("", 2, {"memory": str(2**62)}),
        )
    ),
]

MAY_NOT_SHRINK = "reclaimablePods may not shrink while QuotaReserved is True"
RECLAIMED = [
    of_status("reclaimable pods grow", holding(**reclaimed(1)), reclaimed(3)),
    of_status("reclaimable pods shrink", holding(**reclaimed(3)), reclaimed(1), MAY_NOT_SHRINK),
    of_status(
        "reclaimable pods vanish", holding(**reclaimed(3)), {"reclaimablePods": []}, MAY_NOT_SHRINK
    ),
    of_status(
        "reclaimable pods shrink without quota",
        reclaimed(3),
        {"reclaimablePods": None, "conditions": [NOT_RESERVED]},
    ),
    of_status(
        "reclaimable pods vanish with the quota",
        holding(**reclaimed(3)),
        {"admission": None, "conditions": [NOT_RESERVED], "reclaimablePods": None},
    ),
    of_status(
        "reclaimable pods of an elastic job shrink",
        holding(**reclaimed(3)),
        reclaimed(1),
        body=workload(annotations=ELASTIC),
    ),
    of_status("more reclaimable pods than pods", {}, reclaimed(5), "not more than their pods"),
    of_status("reclaimable pods of no pod set", {}, reclaimed(1, "b"), "must be of pod sets"),
]

FROZEN = "podSetUpdates are immutable while the check stays Ready"
CHECKS = [
    of_status("a check turns Ready", check("Pending"), check("Ready", labels={"a": "b"})),
    of_status(
        "updates of a Ready check change",
        check("Ready", labels={"a": "b"}),
        check("Ready", labels={"a": "c"}),
        FROZEN,
    ),
    of_status(
        "updates of a Ready check vanish",
        check("Ready", labels={"a": "b"}),
        check("Ready"),
        FROZEN,
    ),
    of_status(
        "updates come to a Ready check", check("Ready"), check("Ready", labels={"a": "b"}), FROZEN
    ),
    of_status("a Ready check is reset", check("Ready", labels={"a": "b"}), check("Pending")),
    of_status(
        "updates of a pending check change",
        check("Pending", labels={"a": "b"}),
        check("Pending", labels={"a": "c"}),
    ),
]


def gated(*gates: str) -> Json:
    return workload(annotations={GATED: ",".join(gates)} if gates else None)


def regate(value: str | None) -> Json:
    return {"metadata": {"annotations": {GATED: value}}}


ONLY_LESS = "may only lose entries after the creation"
GATES = [
    Case("a gate is lifted", gated("a.io/x", "b.io/y"), regate("b.io/y")),
    Case("all gates are lifted", gated("a.io/x", "b.io/y"), regate(None)),
    Case("gates are written in another order", gated("a", "b"), regate("b, a")),
    Case("a gate is added", gated("a"), regate("a,b"), ONLY_LESS),
    Case("a gate is exchanged", gated("a"), regate("b"), ONLY_LESS),
    Case("gates come late", gated(), regate("a"), ONLY_LESS),
    Case("gates are no matter of others", gated("a"), {"spec": {"priority": 5}}),
]

WPC = {"group": KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": "low"}
PC = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "low"}


def held(
    id: str, change: Json, says: str = "", body: Json | None = None, status: Json | None = None
) -> Case:
    """A change of the spec of a Workload that holds quota."""
    return Case(id, body or workload(), {"spec": change}, says, status or holding())


def classed(ref: Json) -> Json:
    return workload(priorityClassRef=ref, priority=1, queueName="q")


ADMITTED = holding(conditions=[RESERVED, RESERVED | {"type": "Admitted"}])
SETS_FIXED = "spec.podSets is immutable while QuotaReserved"
REF_FIXED = "priorityClassRef is immutable while QuotaReserved"
QUEUE_FIXED = "queueName is immutable while QuotaReserved"
TIME_FIXED = "maximumExecutionTimeSeconds is immutable while Admitted"
MORE, LESS = {"podSets": [pod_set(count=5)]}, {"podSets": [pod_set(count=3)]}
ELASTIC_JOB = workload(annotations=ELASTIC)
HELD = [
    held("more pods", MORE, SETS_FIXED),
    held("fewer pods", LESS, SETS_FIXED),
    held("other requests", {"podSets": [pod_set(requests={"cpu": 2})]}, SETS_FIXED),
    held("more pods of an elastic job", MORE, "", ELASTIC_JOB),
    held("another pod set of an elastic job", {"podSets": [pod_set("b")]}, SETS_FIXED, ELASTIC_JOB),
    held("fewer pods of an elastic job", LESS, "", ELASTIC_JOB),
    held("another queue", {"queueName": "r"}, QUEUE_FIXED, classed(WPC)),
    held("a first queue", {"queueName": "r"}, QUEUE_FIXED),
    held("another kind of class", {"priorityClassRef": PC}, REF_FIXED, classed(WPC)),
    held("another PriorityClass", {"priorityClassRef": {"name": "b"}}, REF_FIXED, classed(PC)),
    held("no class", {"priorityClassRef": None}, REF_FIXED, classed(WPC)),
    held("a first class", {"priorityClassRef": WPC, "priority": 1}, REF_FIXED),
    held("another WorkloadPriorityClass", {"priorityClassRef": {"name": "b"}}, "", classed(WPC)),
    held("another priority", {"priority": 7}, "", classed(PC)),
    held("deactivation", {"active": False}),
    held(
        "a limit of time, admitted", {"maximumExecutionTimeSeconds": 9}, TIME_FIXED, status=ADMITTED
    ),
    held("a limit of time, not admitted", {"maximumExecutionTimeSeconds": 9}),
]

TOPOLOGY = thing(
    "Topology", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}
)
LEVELS = {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
PLAIN_TOPOLOGY = thing("Topology", {"levels": [{"nodeLabel": "rack"}]})
OTHERS = [
    Case("levels above hosts change", TOPOLOGY, LEVELS),
    Case("levels that do not end in hosts change", PLAIN_TOPOLOGY, LEVELS, "levels are immutable"),
    Case(
        "levels change in v1beta1",
        TOPOLOGY | {"apiVersion": f"{KUEUE_GROUP}/{KUEUE_OLD_VERSION}"},
        LEVELS,
        "levels are immutable in v1beta1",
    ),
    Case(
        "a flavor leaves its topology",
        thing("ResourceFlavor", {"nodeLabels": {"a": "b"}, "topologyName": "t"}),
        {"spec": {"topologyName": None}},
        "topologyName is immutable once set",
    ),
    Case(
        "a flavor gets a topology",
        thing("ResourceFlavor", {"nodeLabels": {"a": "b"}}),
        {"spec": {"topologyName": "t"}},
    ),
    Case(
        "a flavor with a topology loses its labels",
        thing("ResourceFlavor", {"nodeLabels": {"a": "b"}, "topologyName": "t"}),
        {"spec": {"nodeLabels": None}},
        "at least one nodeLabel is required",
    ),
]
CASES = [*ADMISSIONS, *RECLAIMED, *CHECKS, *GATES, *HELD, *OTHERS]


def group(flavors: list[str], quota: Json | None = None, covered: str = "cpu") -> Json:
    quotas = [{"name": covered, "nominalQuota": 1, **(quota or {})}]
    return {
        "coveredResources": [covered],
        "flavors": [{"name": name, "resources": quotas} for name in flavors],
    }


def queue(**spec: Any) -> Json:
    return thing("ClusterQueue", spec)


def weighted(kind: str, weight: Any) -> Json:
    spec: Json = {"fairSharing": {"weight": weight}}
    return thing(kind, spec | ({"clusterQueue": "q"} if kind == "LocalQueue" else {}))


def asks(kind: str = "containers", **resources: Any) -> Json:
    container = {"name": "c", "image": "i"}
    spec: Json = {"containers": [container]}
    spec[kind] = [container | {"resources": resources}]
    return workload(template(spec=spec))


NEGATIVE = "must be quantities that are not negative"
NO_PODS = "containers may not ask for pods"
NEW: list[tuple[str, Json]] = [
    (NO_PODS, asks(requests={"pods": 1})),
    (NO_PODS, asks("initContainers", limits={"cpu": 1, "pods": "1"})),
    (NO_PODS, workload(template(spec={"containers": [], "resources": {"requests": {"pods": 1}}}))),
    (NEGATIVE, asks(requests={"cpu": "-1"})),
    (NEGATIVE, asks(limits={"cpu": -0.5})),
    (NEGATIVE, asks(requests={"cpu": "1 core"})),
    ("", asks(requests={"cpu": 0.5, "memory": "1Gi"}, limits=None)),
    ("", workload(template(spec={"containers": [{"name": "c", "resources": None}]}))),
    ("", workload(template(metadata=None, spec=None))),
    ("", workload(template(metadata={"creationTimestamp": None, "labels": None}))),
    ("no such label", workload(template(metadata={"labels": {"显卡": "a"}}))),
    ("no such label", workload(template(metadata={"labels": {"a": "b c"}}))),
    ("no such label", workload(template(metadata={"labels": {"a": "b" * 64}}))),
    ("no such label", workload(template(metadata={"labels": {"a": 5}}))),
    ("no such key", workload(template(metadata={"annotations": {"a b": "c"}}))),
    (
        "",
        workload(
            template(metadata={"labels": {"a.io/b": ""}, "annotations": {"A.io/b": "c d", "e": ""}})
        ),
    ),
    ("minCount is not allowed", workload(pod_set(minCount=1), annotations=ELASTIC)),
    ("", workload(pod_set(minCount=1))),
    ("", workload(pod_set(), annotations=ELASTIC)),
    ("at least 1 items", queue(resourceGroups=[group([])])),
    ("at least 1 items", queue(admissionChecksStrategy={"admissionChecks": []})),
    (
        "a resource group may have 512",
        queue(
            resourceGroups=[
                wide := {
                    "coveredResources": [f"r{n}" for n in range(16)],
                    "flavors": [
                        {
                            "name": f"f{m}",
                            "resources": [{"name": f"r{n}", "nominalQuota": 1} for n in range(16)],
                        }
                        for m in range(33)
                    ],
                }
            ]
        ),
    ),
    ("", queue(resourceGroups=[wide | {"flavors": wide["flavors"][:32]}])),
    (
        "may have 256 flavors",
        queue(
            resourceGroups=[
                group([f"f{n}-{m}" for m in range(52)], covered=f"r{n}") for n in range(5)
            ]
        ),
    ),
    (
        "a flavor may be in one",
        thing("Cohort", {"resourceGroups": [group(["f"]), group(["f"], covered="memory")]}),
    ),
    ("a resource may be in one", thing("Cohort", {"resourceGroups": [group(["f"]), group(["g"])]})),
    ("", thing("Cohort", {"resourceGroups": [group(["f"]), {"coveredResources": ["memory"]}]})),
    (
        "lendingLimit must be at most",
        queue(cohortName="c", resourceGroups=[group(["f"], {"lendingLimit": 2})]),
    ),
    (
        "",
        thing("Cohort", {"parentName": "p", "resourceGroups": [group(["f"], {"lendingLimit": 2})]}),
    ),
    *(
        ("weight must be 0, or more than 1e-9", weighted(kind, weight))
        for kind in ("ClusterQueue", "Cohort", "LocalQueue")
        for weight in ("1n", "1e-10")
    ),
    *(
        (f"spec.namespaceSelector.{says}", queue(namespaceSelector=selector))
        for says, selector in (
            ("matchLabels: Kubernetes allows no such", {"matchLabels": {"a b": "c"}}),
            ("matchLabels: Kubernetes allows no such", {"matchLabels": {"a": "-"}}),
            (
                "matchExpressions: Kubernetes allows no such",
                {"matchExpressions": [{"key": "型号", "operator": "Exists"}]},
            ),
            (
                "matchExpressions: Kubernetes allows no such",
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c d"]}]},
            ),
            ("matchExpressions[0]", {"matchExpressions": [{"key": "a", "operator": "In"}]}),
            (
                "matchExpressions[0]",
                {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            ),
        )
    ),
    ("", queue(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team"}})),
    *(("", weighted("LocalQueue", weight)) for weight in (0, "0", "2n", "1.5", 3)),
]


async def _create(server: KubeClient, body: Json) -> tuple[Resource, Json, str | None]:
    plain = RESOURCES[body["kind"]]
    version = body["apiVersion"].rpartition("/")[2]
    resource = (
        plain
        if version == plain.version
        else Resource(plain.group, version, plain.plural, plain.namespaced)
    )
    named = {**body, "metadata": {**body["metadata"], "name": f"rules-{next(NUMBERS)}"}}
    space = SPACE if resource.namespaced else None
    if space:
        named["metadata"]["namespace"] = space
    return resource, await server.create(resource, named, space), space


async def _changed(server: KubeClient, case: Case) -> str:
    """What the server says to the change; '' if it lets it happen."""
    resource, made, space = await _create(server, case.body)
    name = made["metadata"]["name"]
    try:
        if case.status:
            body = {"status": case.status}
            await server.patch(resource, name, body, space, subresource="status")
        await server.patch(resource, name, case.change, space, subresource=case.subresource)
    except Invalid as error:
        return str(error)
    finally:
        await server.delete(resource, name, space)
    return ""


async def _made(server: KubeClient, body: Json) -> str:
    """What the server says to the creation; '' if it lets it happen."""
    try:
        resource, made, space = await _create(server, body)
    except Invalid as error:
        return str(error)
    await server.delete(resource, made["metadata"]["name"], space)
    return ""


async def _wrong(said: Any, expected: str) -> str:
    """What is not as expected of an answer; it is asked for again while policies are new."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    answer = await said()
    while expected and not answer and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.5)  # nothing tells when a policy is in force
        answer = await said()
    as_expected = expected in answer if expected else not answer
    return "" if as_expected else f"expected {expected!r}, the server says {answer!r}"


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
async def test_changes(server: KubeClient, case: Case) -> None:
    """Of specs, statuses and annotations."""
    wrong = await _wrong(lambda: _changed(server, case), case.says)
    assert not wrong


@pytest.mark.parametrize(("says", "body"), NEW, ids=range(len(NEW)))
async def test_new_objects(server: KubeClient, says: str, body: Json) -> None:
    """What policies refuse beyond the schema, and what they do not."""
    wrong = await _wrong(lambda: _made(server, body), says)
    assert not wrong
