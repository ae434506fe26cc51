"""Leaving a cluster and coming back, through the whole manager against fake API servers."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.names import ConditionType, Controller, Label
from federation.core.policies import PodsReady, Policies, Retention
from federation.core.reasons import Reason
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CONFIGS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from federation.jobs.batch_job import MANAGED_BY
from tests.unit.manager.federation import Federation, writes
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, custom, job

Json = dict[str, Any]
LOWER = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def condition(world: Federation, name: str, kind: ConditionType) -> tuple[str, str]:
    """Status and reason of a condition of a job's Workload; empty if there is none."""
    record = world.record(name)
    found = records.find(record.status, kind) if record else None
    return (found["status"], found["reason"]) if found else ("", "")


def linger(worker: Worker, name: str) -> None:
    """From now on the pods of a copy take their time to stop."""
    worker.fake.merge(JOBS, name, {"metadata": {"finalizers": ["pods"]}}, "team")


def stopped(worker: Worker, name: str) -> None:
    """They are gone."""
    worker.fake.merge(JOBS, name, {"metadata": {"finalizers": None}}, "team")


def terminating(worker: Worker, name: str) -> bool:
    return "deletionTimestamp" in worker.get(name)["metadata"]


async def running(world: Federation, name: str = "j") -> Worker:
    """Offered, started, and its pods are up."""
    worker = await world.offered(name)
    world.start(worker, name)
    await until(lambda: world.record(name).admitted, f"{name} is admitted")
    await until(lambda: not world.local(name)["spec"]["suspend"], f"{name} is started here")
    worker.run_pods(name)
    return worker


def patch_workload(world: Federation, name: str, body: Json, *, status: bool = False) -> None:
    key = world.record(name).key
    world.home.merge(WORKLOADS, key.name, body, key.namespace, status=status)


def patch_queue(world: Federation, **spec: Any) -> None:
    world.home.merge(CLUSTER_QUEUES, "cq", {"spec": spec})


async def test_preempted_across_clusters() -> None:
    """The global quota is full: the least job leaves its cluster, and its quota is free only when
    its pods are gone; it runs again when there is room.
    """
    world = Federation("a", "b", quota=2, **LOWER)
    for name, value in (("low", 1), ("high", 9)):
        world.home.create(
            WORKLOAD_PRIORITY_CLASSES, custom("WorkloadPriorityClass", name, {}) | {"value": value}
        )
    async with world.running() as manager:
        world.submit("first", of="low")
        worker = await running(world, "first")
        world.submit("second", of="low")
        await running(world, "second")
        linger(worker, "first")
        linger(await world.offered("second"), "second")
        world.submit("urgent", of="high")
        await until(
            lambda: "Preempted" in {_evicted(world, "first"), _evicted(world, "second")}, "evicted"
        )
        victim = "first" if _evicted(world, "first") else "second"
        kept = "second" if victim == "first" else "first"
        worker = await world.offered(victim)
        await until(lambda: terminating(worker, victim), "its pods are told to stop")
        assert condition(world, victim, ConditionType.PREEMPTED) == ("True", "InClusterQueue")
        assert condition(world, victim, ConditionType.QUOTA_RESERVED)[0] == "True"
        assert world.copy("urgent") is None
        assert manager.scheduler.snapshot.tree.usage("cq") == {("f", "gpu"): 2}
        stopped(worker, victim)
        urgent = await running(world, "urgent")
        assert not _evicted(world, kept)
        await until(lambda: world.local(victim)["spec"]["suspend"], "it waits")
        assert condition(world, victim, ConditionType.REQUEUED) == ("True", "Preempted")
        urgent.end("urgent")
        await running(world, victim)
        assert world.record(victim).attempt == 2
        assert condition(world, victim, ConditionType.EVICTED) == ("False", "QuotaReserved")


def _evicted(world: Federation, name: str) -> str:
    record = world.record(name)
    return record.life.evicted if record else ""


async def test_pods_that_are_never_ready() -> None:
    """Evicted with a backoff, tried again, and deactivated when that was once too often; then the
    job is deleted after its time.
    """
    ready = PodsReady(timeout_s=0.2, backoff_base_s=0, backoff_limit=1)
    policies = Policies(pods_ready=ready, retention=Retention(None, 0.5))
    world = Federation("a", policies=policies)
    async with world.running():
        world.submit()
        world.start(await world.offered())
        await until(lambda: world.record().attempt == 2, "the next attempt")
        assert world.record().life.requeue.count == 1
        reason = {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}
        assert world.record().status["schedulingStats"]["evictions"] == [reason]
        await until(lambda: world.copy() and not _evicted(world, "j"), "offered again")
        world.start(await world.offered())
        await until(lambda: not (r := world.record()) or not r.active, "deactivated")
        await until(lambda: world.home.items(JOBS) == [], "the job is deleted")
        await until(lambda: world.home.items(WORKLOADS) == [], "its record, too")
        assert world.workers["a"].fake.items(JOBS) == []


async def test_pods_that_were_ready() -> None:
    """The loss is written at once; recovered in time, nothing else happens."""
    world = Federation("a", policies=Policies(pods_ready=PodsReady()))
    async with world.running():
        world.submit()
        worker = await running(world)
        patch_workload(world, "j", {"status": {"conditions": _ready_since(world)}}, status=True)
        status = {"startTime": "2026-01-01T00:00:00Z", "active": 1, "ready": 0}
        worker.fake.merge(JOBS, "j", {"status": status}, "team", status=True)
        waits = ("False", "WaitForRecovery")
        await until(lambda: condition(world, "j", ConditionType.PODS_READY) == waits, "lost")
        worker.run_pods("j")
        back = ("True", "Recovered")
        await until(lambda: condition(world, "j", ConditionType.PODS_READY) == back, "back")
        assert world.record().attempt == 1


def _ready_since(world: Federation) -> list[Json]:
    """The conditions as twenty seconds later, when readiness has been noted."""
    started = patches.pods_ready_change(world.record().status, True, True)
    return records.with_conditions(world.record().status, [started], "2026-01-01T00:00:00Z")


async def test_time_that_is_over() -> None:
    """Counted from the admission; deactivated, stopped and held. Activated again, it starts with
    a new clock.
    """
    world = Federation("a")
    async with world.running():
        body = {"metadata": {"labels": {Label.MAX_EXEC_TIME_SECONDS.value: "1"}}}
        uid = world.submit()
        world.home.merge(JOBS, "j", body, "team")
        await until(lambda: (r := world.record()) and r.life.max_execution_s == 1, "noted")
        worker = await running(world)
        assert worker.get("j")["metadata"]["labels"][Label.MAX_EXEC_TIME_SECONDS.value] == "1"
        over = "DeactivatedDueToMaximumExecutionTimeExceeded"
        await until(lambda: _evicted(world, "j") == over, "its time is over")
        await until(lambda: world.copy() is None, "stopped")
        await until(lambda: world.record().reason == Reason.DEACTIVATED, "held")
        assert world.record().life.accumulated_past_s == 0
        assert uid not in world.manager.scheduler.items
        patch_workload(world, "j", {"spec": {"active": True}})
        await until(lambda: world.record().attempt == 2, "queued again")


async def test_deactivated_and_activated() -> None:
    """`active: false` stops a running job, and `true` queues it again."""
    world = Federation("a")
    async with world.running():
        world.submit()
        await running(world)
        patch_workload(world, "j", {"spec": {"active": False}})
        await until(lambda: world.copy() is None, "stopped")
        await until(lambda: world.record().binding is None, "its quota is free")
        assert condition(world, "j", ConditionType.REQUEUED) == ("False", "Deactivated")
        assert world.local()["spec"]["suspend"]
        patch_workload(world, "j", {"spec": {"active": True}})
        await until(
            lambda: condition(world, "j", ConditionType.REQUEUED) == ("True", "Reactivated")
        )
        await running(world)
        assert world.record().attempt == 2


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
async def test_a_stopped_queue(policy: str) -> None:
    """Hold keeps what runs and takes back what is not answered; HoldAndDrain evicts as well."""
    world = Federation("a")
    async with world.running():
        world.submit("j")
        await running(world)
        world.submit("k")
        await world.offered("k")
        patch_queue(world, stopPolicy=policy)
        await until(lambda: world.record("k").binding is None, "taken back")
        assert _evicted(world, "k") == ""
        if policy == "HoldAndDrain":
            await until(lambda: world.record("j").binding is None, "drained")
            assert _evicted(world, "j") == "ClusterQueueStopped"
        else:
            assert world.record("j").admitted
        patch_queue(world, stopPolicy="None")
        await world.offered("k")
        await world.offered("j")
        assert world.record("j").attempt == (2 if policy == "HoldAndDrain" else 1)


async def test_a_finished_workload_is_not_kept() -> None:
    """The Workload goes after its time; the job stays and is not queued again."""
    world = Federation("a", policies=Policies(retention=Retention(0.2)))
    async with world.running() as manager:
        world.submit()
        worker = await running(world)
        worker.end("j")
        await until(lambda: world.home.items(WORKLOADS) == [] and world.copy() is None, "gone")
        (state,) = manager.controller.states.values()
        assert (state.record, state.queued) == (None, False)
        assert world.local()["status"]["completionTime"]
    assert writes(world.home)["POST workloads"] == 1


def checked_queue() -> Federation:
    """A ClusterQueue with MultiKueue's check and one of another controller."""
    names = ("budget", "multikueue")
    checks = {"admissionChecks": [{"name": name} for name in names]}
    world = Federation("a", admissionChecksStrategy=checks)
    config = custom("MultiKueueConfig", "all", {"clusters": ["a"]})
    world.home.create(MULTIKUEUE_CONFIGS, config)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    for name, controller in (("budget", "example.com/budget"), ("multikueue", None)):
        spec: Json = {"controllerName": controller or Controller.MULTIKUEUE.value}
        if controller is None:
            spec["parameters"] = parameters
        world.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", name, spec))
        active = [{"type": "Active", "status": "True", "reason": "Active", "message": ""}]
        world.home.merge(ADMISSION_CHECKS, name, {"status": {"conditions": active}}, status=True)
    return world


def decide(world: Federation, state: str, job: str = "j", **more: Any) -> None:
    """The other controller says something."""
    checks = [
        check | {"state": state, **more} if check["name"] == "budget" else check
        for check in world.record(job).status["admissionChecks"]
    ]
    patch_workload(world, job, {"status": {"admissionChecks": checks}}, status=True)


async def test_checks_of_others_come_before_the_offer() -> None:
    """Nothing is offered before they are ready; what they add is in the copy."""
    world = checked_queue()
    async with world.running():
        world.submit()
        await until(lambda: (r := world.record()) and r.binding, "bound")
        states = {check.name: check.state for check in world.record().life.checks}
        assert states == {"budget": "Pending", "multikueue": "Pending"}
        assert world.copy() is None
        decide(world, "Ready", podSetUpdates=[{"name": "main", "nodeSelector": {"pool": "x"}}])
        worker = await running(world)
        template = worker.get("j")["spec"]["template"]
        assert template["spec"]["nodeSelector"] == {"pool": "x"}
        states = {check.name: check.state for check in world.record().life.checks}
        assert states == {"budget": "Ready", "multikueue": "Ready"}


async def test_a_check_that_wants_a_retry_and_one_that_rejects() -> None:
    """The first evicts and starts over, the second is final."""
    world = checked_queue()
    async with world.running() as manager:
        world.submit()
        await until(lambda: (r := world.record()) and r.binding, "bound")
        decide(world, "Retry", requeueAfterSeconds=0)
        await until(lambda: world.record().attempt == 2 and world.record().binding, "again")
        budget = world.record().status["admissionChecks"][0]
        assert (budget["state"], budget["retryCount"]) == ("Pending", 1)
        decide(world, "Rejected", message="too dear")
        await until(lambda: world.record().reason == Reason.DEACTIVATED, "held")
        assert _evicted(world, "j") == "DeactivatedDueToAdmissionCheck"
        assert "too dear" in world.record().message
        assert world.copy() is None
        assert manager.scheduler.items == {}


async def test_checks_that_contradict_the_job() -> None:
    """It can never be started so: finished, with both values."""
    world = checked_queue()
    async with world.running() as manager:
        world.submit()
        await until(lambda: (r := world.record()) and r.binding, "bound")
        twice = [{"name": "main", "labels": {"a": text}} for text in ("b", "c")]
        decide(world, "Ready", podSetUpdates=twice)
        await until(lambda: world.record().finished, "finished")
        assert condition(world, "j", ConditionType.FINISHED) == ("True", "FailedToStart")
        assert manager.scheduler.snapshot.tree.usage("cq").get(("f", "gpu"), 0) == 0
        assert world.copy() is None


async def test_pods_that_have_done_their_work_need_no_quota() -> None:
    """What they free is given away while the others run."""
    world = Federation("a", quota=2)
    async with world.running() as manager:
        body = job("wide", 1)
        body["spec"] |= {"managedBy": MANAGED_BY, "parallelism": 2, "completions": 2}
        world.home.create(JOBS, body)
        worker = await running(world, "wide")
        world.submit("next")
        status = {"startTime": "2026-01-01T00:00:00Z", "active": 1, "ready": 1, "succeeded": 1}
        await until(lambda: manager.scheduler.items, "next waits")
        worker.fake.merge(JOBS, "wide", {"status": status}, "team", status=True)
        await world.offered("next")
        assert manager.scheduler.snapshot.tree.usage("cq") == {("f", "gpu"): 2}


async def test_an_offer_that_was_never_made_owes_nothing_when_its_binding_is_gone() -> None:
    """Whoever took that away, and whether the manager has heard the answer to its own write."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        refused = world.workers["a"].fake
        refused.fail(lambda request: request.method == "POST", times=1000)
        uid = world.submit("j", 2)
        await until(lambda: (r := world.record()) and r.binding, "bound")
        ledger = manager.clusters.links["a"].ledger
        assert ledger.owes(uid) is not None
        patch_queue(world, stopPolicy="Hold")
        unbound = {"admission": None, "fedq": {"cluster": ""}}
        patch_workload(world, "j", {"status": unbound}, status=True)
        await until(lambda: manager.controller.states[uid].bound is None, "seen")
        assert ledger.owes(uid) is None
