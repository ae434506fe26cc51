"""A manager that follows several kinds of jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from federation.api.names import Label, Mirror
from federation.core.facts import BATCH_JOB
from federation.core.reasons import Reason
from federation.edge import kind_informers
from federation.edge.resources import (
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
    resource_of,
)
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.registry import KINDS, known
from tests.fakes.kube_api import FakeKube
from tests.fakes.patches import Refused
from tests.unit.jobs.kinds import samples
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.manager.test_lifecycle import checked_queue, decide, patch_workload
from tests.unit.worker_agent.support import job, mirrored

Json = dict[str, Any]
JOBSET = KINDS["JobSet.v1alpha2.jobset.x-k8s.io"]
TORCH = KINDS["PyTorchJob.v1.kubeflow.org"]
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def serving(*kinds: JobKind, world: Federation | None = None) -> Federation:
    """A federation of which all clusters serve some kinds; all kinds are switched on."""
    found = world or Federation("a")
    found.kinds = KINDS
    for fake in (found.home, *(worker.fake for worker in found.workers.values())):
        fake.discovery = True
        fake.resources += [resource_of(kind) for kind in kinds]
        fake.with_status.update(resource_of(kind) for kind in kinds)
    return found


def jobset(name: str = "s", gpus: int = 1) -> Json:
    """A JobSet of one pod as the policies leave it."""
    pods = samples.template()
    pods["spec"]["containers"][0]["resources"]["requests"] = {"gpu": str(gpus)}
    replicated = [{"name": "w", "template": {"spec": {"template": pods}}}]
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.kind,
        "metadata": {"name": name, "namespace": "team", "labels": {Label.QUEUE_NAME.value: "lq"}},
        "spec": {"suspend": True, "managedBy": MULTIKUEUE, "replicatedJobs": replicated},
    }


async def test_kinds_that_are_switched_off_are_not_followed() -> None:
    """Neither at home nor on the workers; the others are."""
    federation = serving(JOBSET, TORCH)
    federation.kinds = known(off=frozenset({BATCH_JOB, TORCH.name}))
    federation.home.create(JOBS, job("j"))
    federation.home.create(resource_of(JOBSET), jobset())
    copy = mirrored("left")  # of when they were switched on
    federation.workers["a"].add(copy)
    async with federation.running():
        await until(lambda: federation.record("s"), "the JobSet is queued")
        copied = federation.workers["a"].fake.objects.data
        await until(lambda: copied.get(resource_of(JOBSET)), "the copy of the JobSet")
    for fake in (federation.home, federation.workers["a"].fake):
        assert not [path for _, path in fake.log if "/pytorchjobs?" in path]
    assert federation.record("j") is None
    assert federation.local("j")["spec"]["suspend"]
    assert federation.workers["a"].fake.get(JOBS, "left", "team")


# Clusters that lack a CRD


async def test_a_cluster_is_a_candidate_for_kinds_that_it_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others are not asked, with the reason; it becomes one when the CRD appears, and jobs that
    other clusters take do not wait for it.
    """
    monkeypatch.setattr(kind_informers, "DISCOVER_S", 0.2)
    federation = serving(JOBSET, world=Federation("a"))
    federation.home.resources.append(resource_of(TORCH))
    fake, res = federation.workers["a"].fake, resource_of(JOBSET)
    fake.resources.remove(res)
    federation.home.create(res, jobset())
    async with federation.running():
        told = f"a: it does not serve {JOBSET.name}: the CRD is missing there"
        await until(lambda: (r := federation.record("s")) and told in r.message, "it is told")
        federation.submit("j")
        await federation.offered("j")
        asked = [path for method, path in fake.log if method == "POST" and "jobsets" in path]
        assert asked == []
        assert federation.record("s").binding is None
        fake.resources.append(res)
        await until(lambda: fake.objects.data.get(res), "it is offered")


async def test_nothing_is_offered_to_an_agent_that_has_not_read_the_kind() -> None:
    """It would not answer in time: agents look every ten seconds which CRDs there are."""
    federation = serving(JOBSET)
    fake, res = federation.workers["a"].fake, resource_of(JOBSET)
    federation.report("a", kinds=[])
    federation.home.create(res, jobset())
    async with federation.running():
        told = f"a: its agent has not read {JOBSET.name} yet"
        await until(lambda: (r := federation.record("s")) and told in r.message, "it is told")
        assert not fake.objects.data.get(res)
        federation.submit("j")
        await federation.offered("j")
        federation.report("a", kinds=[JOBSET.name])
        await until(lambda: fake.objects.data.get(res), "it is offered")
        assert federation.record("s").attempt == 1


# Edits of what runs

RAY = KINDS["RayService.v1.ray.io"]
SERVICES = resource_of(RAY)


def rayservice(config: str) -> Json:
    """A RayService of a head alone as the policies leave it."""
    head = samples.template()
    head["spec"]["containers"][0]["resources"]["requests"] = {"gpu": "1"}
    cluster = {"suspend": True, "headGroupSpec": {"template": head, "rayStartParams": {}}}
    labels = {Label.QUEUE_NAME.value: "lq", Label.PRIORITY_CLASS.value: "low"}
    return {
        "apiVersion": RAY.api_version,
        "kind": RAY.kind,
        "metadata": {"name": "r", "namespace": "team", "labels": labels},
        "spec": {
            "managedBy": MULTIKUEUE,
            "serveConfigV2": config,
            "rayClusterConfig": cluster,
        },
    }


def with_service() -> Federation:
    """With the RayService r, and the classes low, which is its own, and high."""
    federation = serving(RAY)
    for name, value in (("low", 1), ("high", 9)):
        body = {"metadata": {"name": name}, "value": value}
        federation.home.create(WORKLOAD_PRIORITY_CLASSES, body)
    federation.home.create(SERVICES, rayservice("one"))
    return federation


async def service_runs(federation: Federation) -> FakeKube:
    """Its copy is started; the worker."""
    fake = federation.workers["a"].fake
    await until(lambda: fake.objects.data.get(SERVICES), "the copy")
    fake.merge(SERVICES, "r", {"spec": {"rayClusterConfig": {"suspend": False}}}, "team")
    await until(lambda: federation.record("r").admitted, "it runs")
    return fake


async def test_what_a_service_serves_is_pushed_while_it_runs() -> None:
    """And its priority; of other fields the next attempt has what they say then."""
    federation, res = with_service(), SERVICES
    async with federation.running():
        fake = await service_runs(federation)

        def copy() -> Json:
            return fake.get(res, "r", "team")

        edit = {"serveConfigV2": "two", "rayClusterConfig": {"rayVersion": "2.9"}}
        federation.home.merge(res, "r", {"spec": edit}, "team")
        await until(lambda: copy()["spec"]["serveConfigV2"] == "two", "it is pushed")
        labels = {"metadata": {"labels": {Label.PRIORITY_CLASS.value: "high"}}}
        federation.home.merge(res, "r", labels, "team")
        await until(
            lambda: copy()["metadata"]["annotations"][Mirror.PRIORITY.value] == "9", "the priority"
        )
        assert "rayVersion" not in copy()["spec"]["rayClusterConfig"]
        assert not copy()["spec"]["rayClusterConfig"]["suspend"]
        federation.home.merge(res, "r", {"spec": {"serveConfigV2": None}}, "team")
        await until(lambda: "serveConfigV2" not in copy()["spec"], "taken away")
        assert federation.record("r").attempt == 1
        patches = [path for method, path in fake.log if method == "PATCH" and "rayserv" in path]
        assert len(patches) == 3


@pytest.mark.parametrize("ends", ["goes", "succeeds"])
async def test_pods_that_outlive_their_copy_keep_its_quota(ends: str) -> None:
    """As those do that an operator has made while the copy was on its way out."""
    federation, res = with_service(), SERVICES
    uid = federation.home.get(res, "r", "team")["metadata"]["uid"]
    async with federation.running() as manager:
        fake = await service_runs(federation)
        notes = {Mirror.LOCAL_UID.value: uid, Mirror.ATTEMPT.value: "1"}
        labels = {Label.MULTIKUEUE_WORKER_POD.value: "true"}
        meta = {"name": "p", "namespace": "team", "labels": labels, "annotations": notes}
        fake.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}})
        waits = {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        told = {"status": {"phase": "Pending", "containerStatuses": [waits]}}
        fake.merge(PODS, "p", told, "team", status=True)
        await until(lambda: manager.controller.states[uid].pods, "it is seen")

        patch_workload(federation, "r", {"spec": {"active": False}})
        await until(lambda: not fake.objects.data.get(res), "the copy is gone")
        asked = [method for method, path in fake.log if "/rayservices/r" in path]
        assert asked[-2:] == ["PATCH", "DELETE"]  # nothing runs of what is made anew meanwhile
        for _ in range(100):
            await asyncio.sleep(0)  # turns in which its quota would be given back
        assert federation.record("r").life.reserved
        if ends == "goes":
            fake.delete(PODS, "p", "team")
        else:
            fake.merge(PODS, "p", {"status": {"phase": "Succeeded"}}, "team", status=True)
        await until(lambda: not federation.record("r").life.reserved, "its quota is free")
        patch_workload(federation, "r", {"spec": {"active": True}})
        await until(lambda: fake.objects.data.get(res), "the next copy")
        assert federation.record("r").attempt == 2


async def test_a_copy_is_deleted_though_it_may_not_be_suspended() -> None:
    """A webhook there does not let it."""
    federation, res = with_service(), SERVICES
    async with federation.running():
        fake = await service_runs(federation)

        def refuses(found: Resource, old: Json | None, new: Json) -> None:
            if found == res and old is not None and new["spec"] != old["spec"]:
                raise Refused(422, "Invalid", "it serves")

        fake.admit = refuses
        patch_workload(federation, "r", {"spec": {"active": False}})
        await until(lambda: not fake.objects.data.get(res), "the copy is gone")
        await until(lambda: not federation.record("r").life.reserved, "its quota is free")


# Groups of pods

GATE = {"name": "kueue.x-k8s.io/admission"}
ROLE = "kueue.x-k8s.io/role-hash"


def pod(name: str, total: int = 2, gpus: int = 1) -> Json:
    """A pod of the group g as the policies leave it."""
    labels = {Label.QUEUE_NAME.value: "lq", "kueue.x-k8s.io/pod-group-name": "g"}
    notes = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    container = {"name": "c", "image": "i", "resources": {"requests": {"gpu": str(gpus)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "labels": labels, "annotations": notes},
        "spec": {"schedulingGates": [GATE], "containers": [container]},
    }


def alone(name: str) -> Json:
    """A pod of no group."""
    found = pod(name)
    found["metadata"] |= {"labels": {Label.QUEUE_NAME.value: "lq"}, "annotations": {}}
    return found


def give(federation: Federation, name: str, gpus: int = 1, *, retriable: bool = True) -> None:
    """One that is there, and waits for its gate."""
    body = pod(name, gpus=gpus)
    if not retriable:
        body["metadata"]["annotations"]["kueue.x-k8s.io/retriable-in-group"] = "false"
    federation.home.create(PODS, body)
    federation.home.merge(PODS, name, {"status": {"phase": "Pending"}}, "team", status=True)


def phase(federation: Federation, name: str) -> str:
    return str(federation.home.get(PODS, name, "team")["status"]["phase"])


def copies(federation: Federation) -> list[str]:
    return sorted(p["metadata"]["name"] for p in federation.workers["a"].fake.items(PODS))


async def started(federation: Federation, head: str = "p0") -> None:
    """The agent lets the copies go, and they run."""
    await until(lambda: len(copies(federation)) == 2, "the copies")
    fake = federation.workers["a"].fake
    for name in copies(federation):
        role = fake.get(PODS, name, "team")["metadata"]["annotations"][ROLE]
        notes = {"metadata": {"annotations": {ROLE: role}}}
        fake.merge(PODS, name, {"status": {"phase": "Running"}}, "team", status=True)
        fake.merge(PODS, name, {"spec": {"schedulingGates": []}, **notes}, "team")
    await until(lambda: federation.record(head).admitted, "it is admitted")


async def test_pods_in_excess_do_not_disturb_a_group_that_runs() -> None:
    """Nor are they copied, also not where one has failed and is not to be retried."""
    federation = serving()
    for name in ("p0", "p1"):
        give(federation, name, retriable=False)
    async with federation.running():
        await started(federation)
        fake = federation.workers["a"].fake
        fake.merge(PODS, "p1", {"status": {"phase": "Failed"}}, "team", status=True)
        await until(lambda: phase(federation, "p1") == "Failed", "its failure is shown")
        for name in ("a", "p2"):
            give(federation, name)
        later = {"phase": "Running", "message": "later"}
        fake.merge(PODS, "p0", {"status": later}, "team", status=True)
        shown = federation.home.get
        await until(lambda: shown(PODS, "p0", "team")["status"] == later, "it is followed")
        assert (federation.record("p0").attempt, copies(federation)) == (1, ["p0", "p1"])
    assert not [path for _, path in fake.log if path.endswith(("/pods/a", "/pods/p2"))]
    assert federation.home.get(PODS, "p2", "team")["spec"]["schedulingGates"] == [GATE]


async def test_a_pod_that_is_deleted_ends_the_run_of_its_group() -> None:
    """Also one that is not its head, and is gone at once; whole again it is queued again."""
    federation = serving()
    for name in ("p0", "p1"):
        give(federation, name)
    async with federation.running():
        await started(federation)
        federation.home.delete(PODS, "p1", "team")
        await until(lambda: not copies(federation), "the copies are gone")
        await until(lambda: not federation.home.items(WORKLOADS), "its quota is free")
        give(federation, "p2")
        await until(lambda: copies(federation) == ["p0", "p2"], "it is offered as it is now")


@pytest.mark.parametrize("again", ["p1", "p2"])
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "later"])
async def test_a_group_that_has_run_and_is_whole_again(again: str, waits: bool) -> None:
    """It runs again: how a pod has ended that was deleted says nothing of the one in its place,
    though that be there before all of the group is removed.
    """
    federation = serving()
    for name in ("p0", "p1"):
        give(federation, name)
    async with federation.running():
        await started(federation)
        fake = federation.workers["a"].fake
        for name in ("p0", "p1"):
            fake.merge(PODS, name, {"status": {"phase": "Succeeded"}}, "team", status=True)
        await until(lambda: federation.record("p0").finished, "it has ended")
        await until(lambda: not copies(federation), "its copies are gone")
        federation.home.delete(PODS, "p1", "team")
        if waits:
            await until(lambda: not federation.home.items(WORKLOADS), "its record is gone")
        give(federation, again)
        await until(lambda: copies(federation) == ["p0", again], "it is offered as it is now")
        await started(federation)
        await until(lambda: phase(federation, again) == "Running", "it runs")
        assert not federation.record("p0").finished


async def test_a_copy_that_has_lost_its_head_is_not_gone() -> None:
    """Somebody deleted that pod on the worker: the rest of the copy is removed with the job."""
    federation = serving()
    for name in ("p0", "p1"):
        give(federation, name)
    async with federation.running() as manager:
        await started(federation)
        fake = federation.workers["a"].fake

        def watches() -> int:
            origin, log = "multikueue-origin%3D", fake.log
            return sum("/pods?watch" in path and origin in path for _, path in log)

        await until(lambda: watches() == 2, "once more, as it is known which cluster it is")
        uid = federation.home.get(PODS, "p0", "team")["metadata"]["uid"]
        known = manager.controller.states[uid].remotes["a"].version
        fake.delete(PODS, "p0", "team")
        states = manager.controller.states
        await until(lambda: states[uid].remotes["a"].version > known, "it is seen")
        federation.home.delete(PODS, "p1", "team")
        await until(lambda: not copies(federation), "the rest is gone")
        await until(lambda: not federation.home.items(WORKLOADS), "its quota is free")


async def test_a_group_waits_for_further_checks() -> None:
    """No pod of it is offered before they are ready, and what they add to a pod set is in the
    copies of its pods; one that wants a retry takes all of them away, one that rejects for good.
    """
    federation = serving(world=checked_queue())
    give(federation, "p0")
    give(federation, "p1", gpus=2)
    async with federation.running():
        await until(lambda: (r := federation.record("p0")) and r.binding, "bound")
        assert copies(federation) == []
        sets = {p.usage["gpu"]: p.name for p in federation.record("p0").admission.pod_sets}
        added = [{"name": sets[2], "nodeSelector": {"pool": "x"}}]
        decide(federation, "Ready", "p0", podSetUpdates=added)
        await started(federation)
        fake = federation.workers["a"].fake
        pools = {n: fake.get(PODS, n, "team")["spec"].get("nodeSelector") for n in ("p0", "p1")}
        assert pools == {"p0": None, "p1": {"pool": "x"}}
        decide(federation, "Retry", "p0", requeueAfterSeconds=0)
        await until(lambda: not copies(federation), "its copies are removed")
        await until(lambda: federation.record("p0").attempt == 2, "bound again")
        assert copies(federation) == []
        decide(federation, "Rejected", "p0")
        await until(lambda: federation.record("p0").reason == Reason.DEACTIVATED, "held")
        assert copies(federation) == []
        assert federation.home.get(PODS, "p0", "team")["spec"]["schedulingGates"] == [GATE]


async def test_pods_have_the_default_class_of_their_cluster() -> None:
    """As the API server gives it to them it counts as their priority, and no worker needs a class
    of that name; one that they name themselves goes along.
    """
    federation = serving()
    for name, value, default in (("usual", 7, True), ("lower", 3, False)):
        body = {"metadata": {"name": name}, "value": value, "globalDefault": default}
        federation.home.create(PRIORITY_CLASSES, body)
    for name, given in (("a", {"priorityClassName": "usual", "priority": 7}), ("b", {})):
        body = alone(name)
        federation.home.create(PODS, {**body, "spec": {**body["spec"], **given}})
    named = alone("c")
    named["spec"]["priorityClassName"] = "lower"
    federation.home.create(PODS, named)
    async with federation.running():
        await until(lambda: len(copies(federation)) == 3, "the copies")
        told = {name: federation.record(name).priority for name in ("a", "b", "c")}
        assert told == {"a": 7, "b": 7, "c": 3}
    fake = federation.workers["a"].fake
    classes = [fake.get(PODS, n, "team")["spec"].get("priorityClassName") for n in ("a", "b", "c")]
    assert classes == [None, None, "lower"]
