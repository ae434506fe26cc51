"""Jobs that people edit while they wait or run: the index, the record and the copy follow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from federation.api.names import Label, Mirror
from federation.core import events as on
from federation.core.reasons import Reason
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKER_REPORTS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from federation.jobs.batch_job import MANAGED_BY
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.manager.test_lifecycle import _evicted, patch_workload, running
from tests.unit.worker_agent.support import custom, job

Json = dict[str, Any]


def classes(world: Federation, **values: int) -> None:
    for name, value in values.items():
        body = custom("WorkloadPriorityClass", name, {}) | {"value": value}
        world.home.create(WORKLOAD_PRIORITY_CLASSES, body)


def label(world: Federation, name: str, key: Label, value: str | None) -> None:
    """Somebody edits a label of the Job."""
    world.home.merge(JOBS, name, {"metadata": {"labels": {key.value: value}}}, "team")


def workload(world: Federation, name: str = "j") -> Json:
    return world.home.get(WORKLOADS, world.record(name).key.name, "team")


def edit(world: Federation, name: str, **spec: Any) -> None:
    world.home.merge(JOBS, name, {"spec": spec}, "team")


def wide(world: Federation, pods: int, name: str = "j", completions: int = 8, **notes: str) -> str:
    body = job(name, 1, **notes)
    body["spec"] |= {"managedBy": MANAGED_BY, "parallelism": pods, "completions": completions}
    return str(world.home.create(JOBS, body)["metadata"]["uid"])


async def full(world: Federation) -> None:
    """Somebody has all the quota."""
    world.submit("first", 1)
    await running(world, "first")


# Priority


async def test_the_priority_of_a_waiting_job() -> None:
    """Its place in the index and its record follow the label, also when it is taken away."""
    world = Federation("a", quota=1)
    classes(world, low=1, high=9)
    async with world.running() as manager:
        await full(world)
        one, two = world.submit("one", of="low"), world.submit("two", of="low")
        await until(lambda: len(manager.scheduler.items) == 2, "both wait")
        label(world, "two", Label.PRIORITY_CLASS, "high")
        await until(lambda: workload(world, "two")["spec"]["priority"] == 9, "the record")
        assert workload(world, "two")["spec"]["priorityClassRef"]["name"] == "high"
        assert await manager.waiting("cq") == [two, one]
        label(world, "two", Label.PRIORITY_CLASS, None)
        await until(lambda: workload(world, "two")["spec"]["priority"] == 0, "without a class")
        assert await manager.waiting("cq") == [one, two]


@pytest.mark.parametrize("started", [False, True], ids=["offered", "running"])
async def test_the_priority_of_a_job_on_a_cluster(started: bool) -> None:
    """The record, the copy and what the scheduler charges follow; the run goes on."""
    world = Federation("a")
    classes(world, low=1, high=9)
    async with world.running() as manager:
        uid = world.submit(of="low")
        worker = await (running(world) if started else world.offered())
        label(world, "j", Label.PRIORITY_CLASS, "high")

        await until(lambda: worker.note_of("j", Mirror.PRIORITY) == "9", "the copy")
        spec = workload(world)["spec"]
        assert (spec["priority"], spec["priorityClassRef"]["name"]) == (9, "high")
        assert worker.get("j")["metadata"]["labels"][Label.PRIORITY_CLASS.value] == "high"
        held = manager.scheduler.holder(uid)
        assert held is not None
        assert held.priority == 9
        assert world.record().attempt == 1
        assert worker.started("j") == started


async def test_a_running_job_whose_new_class_does_not_exist() -> None:
    """It keeps its priority, and gets the new one when somebody creates the class."""
    world = Federation("a")
    classes(world, low=1)
    async with world.running() as manager:
        world.submit(of="low")
        worker = await running(world)
        label(world, "j", Label.PRIORITY_CLASS, "high")
        await until(lambda: manager.controller.states[world.local()["metadata"]["uid"]].local
                    .priority_class == "high", "seen")  # fmt: skip
        writes = len(world.home.log)
        await asyncio.sleep(0.1)  # time for a write that must not come
        assert workload(world)["spec"]["priority"] == 1
        assert len(world.home.log) - writes <= 2
        classes(world, high=9)
        await until(lambda: worker.note_of("j", Mirror.PRIORITY) == "9", "the copy")
        assert workload(world)["spec"]["priority"] == 9


async def test_the_priority_of_a_job_that_was_preempted_and_runs_again() -> None:
    """Its class was changed while it waited, and counts when it is bound the second time."""
    rules = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    world = Federation("a", quota=1, **rules)
    classes(world, low=1, middle=5, high=9)
    async with world.running():
        world.submit(of="low")
        await running(world)
        world.submit("urgent", of="high")
        await until(lambda: _evicted(world, "j"), "it makes room")
        await running(world, "urgent")
        label(world, "j", Label.PRIORITY_CLASS, "middle")
        await until(lambda: workload(world)["spec"]["priority"] == 5, "the record")
        world.home.delete(JOBS, "urgent", "team")
        await running(world)
        assert workload(world)["spec"]["priority"] == 5
        assert world.record().attempt == 2


async def test_a_class_that_is_gone_before_it_counts() -> None:
    """The write that would give a running job its new class finds that this is not its class any
    more: the job goes on with the priority that it has.
    """
    world = Federation("a")
    classes(world, low=1, high=9)
    async with world.running() as manager:
        uid = world.submit(of="low")
        worker = await running(world)
        manager.controller.feed(uid, on.PrioritySeen("high"))
        await until(lambda: manager.controller.states[uid].priority_class == "low", "looked up")
        state = manager.controller.states[uid]
        assert (state.busy, state.failures) == (False, 0)
        assert worker.started("j")


async def test_a_victim_is_chosen_by_the_priority_that_it_has_now() -> None:
    """Of two that run, the one whose class was lowered makes room."""
    rules = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    world = Federation("a", quota=2, **rules)
    classes(world, low=1, middle=5, high=9)
    async with world.running():
        world.submit("one", of="middle")
        await running(world, "one")
        world.submit("two", of="middle")
        await running(world, "two")
        label(world, "one", Label.PRIORITY_CLASS, "low")
        await until(lambda: workload(world, "one")["spec"]["priority"] == 1, "lowered")
        world.submit("urgent", of="high")
        await until(lambda: _evicted(world, "one"), "it makes room")
        assert not _evicted(world, "two")


# Queues


def second_queue(world: Federation) -> None:
    world.home.create(RESOURCE_FLAVORS, custom("ResourceFlavor", "g", {}))
    group = {
        "coveredResources": ["gpu"],
        "flavors": [{"name": "f", "resources": [{"name": "gpu", "nominalQuota": 4}]}],
    }
    rules = {"resourceGroups": [group], "namespaceSelector": {}}
    world.home.create(CLUSTER_QUEUES, custom("ClusterQueue", "other", rules))
    spec = {"clusterQueue": "other"}
    world.home.create(LOCAL_QUEUES, custom("LocalQueue", "side", spec, "team"))
    doors = [{"namespace": "team", "name": name, "clusterQueue": "cq"} for name in ("lq", "side")]
    for name, worker in world.workers.items():
        report = {"status": {"localQueues": doors}}
        worker.fake.merge(WORKER_REPORTS, name, report, status=True)


async def test_a_waiting_job_is_moved_to_another_queue() -> None:
    """It waits there, its record names that queue, and the old one has nothing of it."""
    world = Federation("a", quota=1)
    second_queue(world)
    world.home.merge(CLUSTER_QUEUES, "other", {"spec": {"stopPolicy": "Hold"}})
    async with world.running() as manager:
        await full(world)
        uid = world.submit()
        await until(lambda: uid in manager.scheduler.items, "it waits")
        label(world, "j", Label.QUEUE_NAME, "side")
        await until(lambda: workload(world)["spec"]["queueName"] == "side", "the record")
        await until(lambda: world.record().reason not in ("", "WaitingForQuota"), "told why")
        assert await manager.waiting("cq") == []
        world.home.merge(CLUSTER_QUEUES, "other", {"spec": {"stopPolicy": "None"}})
        await until(lambda: (r := world.record()) and r.binding, "bound from there")
        assert world.record().admission.cluster_queue == "other"


async def test_the_queue_of_a_running_job_is_edited() -> None:
    """It keeps what it holds where it was admitted; the new queue counts for its next attempt."""
    world = Federation("a")
    second_queue(world)
    async with world.running():
        world.submit()
        worker = await running(world)
        label(world, "j", Label.QUEUE_NAME, "side")
        patch_workload(world, "j", {"spec": {"active": False}})
        await until(lambda: world.copy() is None, "stopped")
        patch_workload(world, "j", {"spec": {"active": True}})
        await until(lambda: (r := world.record()).binding and r.attempt == 2, "again")
        assert world.record().admission.cluster_queue == "other"
        assert workload(world)["spec"]["queueName"] == "side"
        await until(lambda: world.copy() is not None, "offered")
        assert worker.get("j")["metadata"]["labels"][Label.QUEUE_NAME.value] == "side"


# Numbers of pods, and templates


async def test_the_parallelism_of_a_waiting_job() -> None:
    """It is queued for the pods that it asks for now; record and copy have as many."""
    world = Federation("a", quota=2)
    async with world.running() as manager:
        await full(world)
        uid = wide(world, 2)
        await until(lambda: uid in manager.scheduler.items, "it waits for two")
        edit(world, "j", parallelism=1)
        await until(lambda: world.copy(), "one fits")
        assert workload(world)["spec"]["podSets"][0]["count"] == 1
        found = world.copy()
        assert found is not None
        assert found[1]["spec"]["parallelism"] == 1


async def test_requests_of_a_waiting_job() -> None:
    """Kubernetes lets people change them while a Job is suspended."""
    world = Federation("a", quota=2)
    async with world.running() as manager:
        await full(world)
        uid = world.submit("j", 2)
        await until(lambda: uid in manager.scheduler.items, "it waits for two")
        container = {"name": "c", "image": "i", "resources": {"requests": {"gpu": "1"}}}
        edit(world, "j", template={"spec": {"containers": [container]}})
        await until(lambda: world.copy(), "one fits")
        (pods,) = workload(world)["spec"]["podSets"]
        assert pods["template"]["spec"]["containers"][0]["resources"]["requests"]["gpu"] == "1"


async def test_a_running_job_gets_fewer_pods() -> None:
    """The copy goes on with fewer in the same attempt, and what they held goes to others."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        uid = wide(world, 4)
        worker = await running(world)
        worker.run_pods("j", 4)
        await until(lambda: world.local()["status"].get("active") == 4, "four run")
        edit(world, "j", parallelism=2)
        await until(lambda: worker.get("j")["spec"]["parallelism"] == 2, "the copy")
        await until(lambda: manager.controller.states[uid].remote.size.runs == {"main": 2}, "seen")
        assert world.record().attempt == 1
        assert not _evicted(world, "j")
        held = manager.scheduler.holder(uid)
        assert held is not None
        assert sum(held.usage.values()) == 4  # its pods have yet to stop
        status = {"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 2}
        worker.fake.merge(JOBS, "j", {"status": status}, "team", status=True)
        await until(
            lambda: (h := manager.scheduler.holder(uid)) and sum(h.usage.values()) == 2, "free"
        )


async def test_a_running_job_is_to_have_more_pods() -> None:
    """There is no quota for them: it leaves, and queues for what it asks for now."""
    world = Federation("a", quota=4)
    async with world.running():
        wide(world, 2)
        await running(world)
        edit(world, "j", parallelism=3)
        await until(lambda: world.record().attempt == 2 and world.record().binding, "again")
        assert world.record().admission.pod_sets[0].count == 3
        evictions = world.record().status["schedulingStats"]["evictions"]
        assert [e["reason"] for e in evictions] == [Reason.OUT_OF_SYNC]
        assert workload(world)["spec"]["podSets"][0]["count"] == 3


# Activity


async def test_a_waiting_job_is_deactivated_and_activated() -> None:
    """It leaves the index, says so, and comes back with its age."""
    world = Federation("a", quota=1)
    async with world.running() as manager:
        await full(world)
        one, two = world.submit("one"), world.submit("two")
        await until(lambda: len(manager.scheduler.items) == 2, "both wait")
        patch_workload(world, "one", {"spec": {"active": False}})
        await until(lambda: world.record("one").reason == Reason.DEACTIVATED, "told")
        assert await manager.waiting("cq") == [two]
        patch_workload(world, "one", {"spec": {"active": True}})
        await until(lambda: len(manager.scheduler.items) == 2, "it is back")
        order = await manager.waiting("cq")
        created = {u: manager.scheduler.items[u].created for u in (one, two)}
        assert order == sorted(order, key=lambda u: (created[u], u))


# Deletion


def delete(world: Federation, policy: str, name: str = "j") -> None:
    world.home.objects.delete(JOBS, ("team", name), {"propagationPolicy": policy})


@pytest.mark.parametrize("restarted", [False, True], ids=["seen", "while no manager runs"])
@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_deletion(policy: str, restarted: bool) -> None:
    """Whatever the policy, the copy is stopped and removed, and no record of it stays."""
    world = Federation("a")
    async with world.running():
        world.submit()
        await running(world)
        if not restarted:
            delete(world, policy)
            await until(lambda: world.copy() is None, "the copy is gone")
            await until(lambda: world.home.items(WORKLOADS) == [], "and the record")
    if restarted:
        delete(world, policy)
        async with world.running() as manager:
            await until(lambda: world.copy() is None, "the copy is gone")
            await until(lambda: world.home.items(WORKLOADS) == [], "and the record")
            assert manager.scheduler.snapshot.tree.usage("cq").get(("f", "gpu"), 0) == 0


async def test_deletion_that_waits_for_a_finalizer() -> None:
    """A Job that others hold is stopped at once; it is not started again while it is there."""
    world = Federation("a")
    async with world.running():
        world.submit()
        world.home.merge(JOBS, "j", {"metadata": {"finalizers": ["example.com/hold"]}}, "team")
        await running(world)
        delete(world, "Background")
        await until(lambda: world.copy() is None, "the copy is gone")
        await asyncio.sleep(0.05)  # time for a copy that must not come
        assert world.copy() is None
        world.home.merge(JOBS, "j", {"metadata": {"finalizers": None}}, "team")
        await until(lambda: world.home.items(WORKLOADS) == [], "nothing is left")


# Another one of the same name


@pytest.mark.parametrize("state", ["waiting", "offered", "running", "finished"])
async def test_created_again_at_once(state: str) -> None:
    """The new one has its own record, run and status, whatever the old one was about to do."""
    world = Federation("a", "b", quota=1)
    async with world.running() as manager:
        if state == "waiting":
            await full(world)
        old = world.submit()
        if state == "waiting":
            await until(lambda: old in manager.scheduler.items, "it waits")
        elif state == "offered":
            await world.offered()
        else:
            worker = await running(world)
            if state == "finished":
                worker.end("j")
        delete(world, "Background")
        new = world.submit()
        if state == "waiting":
            world.workers["a" if world.copy("first")[0] == "a" else "b"].end("first")  # type: ignore[index]
        worker = await running_anew(world, new)
        worker.end("j")
        await until(lambda: world.local()["status"].get("completionTime"), "complete")
        assert world.local()["metadata"]["uid"] == new
        assert {w["metadata"]["ownerReferences"][0]["uid"] for w in world.home.items(WORKLOADS)
                if w["metadata"]["ownerReferences"][0]["name"] == "j"} == {new}  # fmt: skip
        assert old not in manager.controller.states


async def running_anew(world: Federation, uid: str) -> Any:
    """The copy of exactly this job, started."""

    def there() -> Any:
        for worker in world.workers.values():
            found = worker.fake.objects.data.get(JOBS, {}).get(("team", "j"))
            if found and found["metadata"]["annotations"][Mirror.LOCAL_UID.value] == uid:
                return worker
        return None

    await until(there, "a copy of the new one")
    worker = there()
    world.start(worker, "j")
    await until(lambda: world.record("j").admitted, "admitted")
    worker.run_pods("j")
    return worker


async def test_created_again_while_its_cluster_is_slow() -> None:
    """The old one's deletion comes late and does not touch the new one."""
    world = Federation("a")
    async with world.running():
        world.submit()
        worker = await running(world)
        slow = {"times": 3, "how": "lost"}
        worker.fake.fail(lambda request: request.method == "DELETE", **slow)  # type: ignore[arg-type]
        delete(world, "Background")
        new = world.submit()
        await running_anew(world, new)
        uid = worker.get("j")["metadata"]["uid"]
        await asyncio.sleep(0.3)  # time for the late deletion
        assert worker.get("j")["metadata"]["uid"] == uid
        assert worker.started("j")


async def test_deleted_while_its_cluster_is_away() -> None:
    """The copy goes when the cluster is back, and nothing else there does."""
    world = Federation("a")
    async with world.running():
        world.submit()
        worker = await running(world)
        worker.add(job("local"))
        worker.fake.cut()
        delete(world, "Background")
        await asyncio.sleep(0.1)  # time for a deletion that cannot arrive
        assert world.copy() is not None
        worker.fake.heal()
        await until(lambda: world.copy() is None, "the copy is gone")
        await until(lambda: world.home.items(WORKLOADS) == [], "and the record")
        assert [item["metadata"]["name"] for item in worker.fake.items(JOBS)] == ["local"]
