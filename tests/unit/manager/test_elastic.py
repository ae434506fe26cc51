"""Elastic jobs: the number of pods of a job that runs follows its edits, without a restart."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from federation.api.names import Annotation, ConditionType, Label, Mirror
from federation.api.record import find, is_true
from federation.core import elastic
from federation.core.elastic import growth_uid
from federation.core.reasons import Reason
from federation.core.types import FlavorResource
from federation.edge.resources import JOBS, WORKLOADS
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.manager.test_edited import classes, edit, label, wide, workload
from tests.unit.manager.test_lifecycle import _evicted, patch_workload, running
from tests.unit.worker_agent.support import Worker

Json = dict[str, Any]
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
NOTES: dict[str, Any] = dict(ELASTIC)
LOWER: Json = {"preemption": {"withinClusterQueue": "LowerPriority"}}


async def started(
    world: Federation, pods: int = 2, name: str = "j", of: str = ""
) -> tuple[str, Worker]:
    """An elastic job that runs."""
    uid = wide(world, pods, name, of=of, **NOTES)
    worker = await running(world, name)
    worker.run_pods(name, pods)
    return uid, worker


def given(world: Federation, name: str = "j") -> int:
    """The pods that the record says it has quota for."""
    return int(world.record(name).admission.pod_sets[0].count)


def size(worker: Worker, name: str = "j") -> int:
    return int(worker.get(name)["spec"]["parallelism"])


def asked(worker: Worker, name: str = "j") -> int:
    """What the manager asks the agent for; 0 for nothing."""
    text = worker.note_of(name, Mirror.GROW_TO)
    return int(json.loads(text)["parallelism"]) if text else 0


def grow(worker: Worker, name: str = "j") -> None:
    """The agent does what it is asked for."""
    notes = {Mirror.GROW_TO.value: None}
    body = {"metadata": {"annotations": notes}, "spec": {"parallelism": asked(worker, name)}}
    worker.fake.merge(JOBS, name, body, "team")


def say_no(worker: Worker, name: str = "j") -> None:
    notes = {Mirror.GROW_REFUSED.value: "WaitingForQuota: no room there"}
    worker.fake.merge(JOBS, name, {"metadata": {"annotations": notes}}, "team")


def held(world: Federation, uid: str) -> int:
    """What the scheduler charges for a job, and for more pods of it."""
    found = [world.manager.scheduler.holder(name) for name in (uid, growth_uid(uid))]
    return sum(sum(holder.usage.values()) for holder in found if holder is not None)


def runs(world: Federation, uid: str) -> int:
    """How many pods the manager knows that the copy runs."""
    copy = world.manager.controller.states[uid].remote
    return copy.size.runs["main"] if copy is not None and copy.size is not None else 0


def lacking(world: Federation, name: str = "j") -> Json | None:
    """The condition that tells of a size that it has not got."""
    found = find(workload(world, name)["status"], ConditionType.SCALED)
    return found if found is not None and found["status"] == "False" else None


async def goes_on(world: Federation, name: str = "j") -> None:
    """In its first attempt, never evicted, its pods not stopped."""
    assert world.record(name).attempt == 1
    assert not _evicted(world, name)
    assert is_true(workload(world, name)["status"], ConditionType.ADMITTED)
    found = world.copy(name)
    assert found is not None
    assert not found[1]["spec"]["suspend"]


async def full(world: Federation, gpus: int = 2, name: str = "first") -> Worker:
    """Others have that much of the quota."""
    world.submit(name, gpus)
    return await running(world, name)


# Larger


async def test_larger_while_there_is_quota() -> None:
    """Record first, then the agent is asked; it is one Workload, one copy and one attempt."""
    world = Federation("a", "b", quota=4)
    async with world.running():
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: asked(worker) == 4, "asked")
        assert given(world) == 4
        assert held(world, uid) == 4
        assert size(worker) == 2  # the agent has yet to charge them
        assert workload(world)["spec"]["podSets"][0]["count"] == 4
        grow(worker)
        await until(lambda: runs(world, uid) == 4, "seen")
        await goes_on(world)
        assert lacking(world) is None
        assert len(world.home.items(WORKLOADS)) == 1
        assert sum(len(w.fake.items(JOBS)) for w in world.workers.values()) == 1


async def test_larger_waits_for_quota() -> None:
    """It goes on with the old size and says what it waits for; what is freed is given to it."""
    world = Federation("a", "b", quota=4)
    async with world.running() as manager:
        other = await full(world)
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: lacking(world), "told")
        said = lacking(world)
        assert said is not None
        assert said["reason"] == Reason.WAITING_FOR_QUOTA
        assert said["message"].startswith("It runs 2 pods and asks for 4: ")
        assert await manager.waiting("cq") == [growth_uid(uid)]
        assert (given(world), size(worker), asked(worker), held(world, uid)) == (2, 2, 0, 2)
        assert workload(world)["spec"]["podSets"][0]["count"] == 4
        await goes_on(world)
        other.end("first")
        await until(lambda: asked(worker) == 4, "asked")
        grow(worker)
        await until(lambda: size(worker) == 4, "grown")
        await until(lambda: lacking(world) is None, "told")
        found = find(workload(world)["status"], ConditionType.SCALED)
        assert found is not None
        assert (found["status"], found["reason"]) == ("True", Reason.ADMITTED)
        await goes_on(world)


def _room(world: Federation, cluster: str) -> int:
    """What a cluster said is free there."""
    view = world.manager.clusters.links[cluster].ledger.view("")
    return view.queues["cq"].amounts[FlavorResource("f", "gpu")].available


async def test_larger_stays_on_its_cluster() -> None:
    """Where that has no room the job waits, though another one has: it is not moved, and it holds
    no quota for what it has not got.
    """
    world = Federation("a", "b", quota=8)
    async with world.running():
        uid, worker = await started(world)
        here = next(name for name, found in world.workers.items() if found is worker)
        world.report(here, available=0)
        await until(lambda: not _room(world, here), "reported")
        edit(world, "j", parallelism=4)
        await until(lambda: lacking(world), "told")
        said = lacking(world)
        assert said is not None
        assert f"{here}: gpu: 0 free, 2 needed" in said["message"]
        assert held(world, uid) == 2
        await goes_on(world)
        world.report(here, available=2)
        await until(lambda: asked(worker) == 4, "asked")


async def test_the_agent_has_no_room() -> None:
    """Its no gives the quota back; it is asked again later."""
    world = Federation("a", quota=4)
    async with world.running():
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: asked(worker) == 4, "asked")
        say_no(worker)
        await until(lambda: given(world) == 2, "given back")
        await until(lambda: asked(worker) == 0, "withdrawn")
        assert worker.note_of("j", Mirror.GROW_REFUSED) == ""
        assert held(world, uid) == 2
        await until(lambda: asked(worker) == 4, "again")
        grow(worker)
        await until(lambda: runs(world, uid) == 4, "grown")
        await goes_on(world)


async def test_an_agent_that_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager says no in its place: the quota is free, and it is asked again later."""
    monkeypatch.setattr(elastic, "ANSWER_S", 0.2)
    world = Federation("a", quota=4)
    async with world.running():
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: asked(worker) == 4, "asked")
        await until(lambda: given(world) == 2, "given back")
        await until(lambda: asked(worker) == 0, "withdrawn")
        assert worker.note_of("j", Mirror.GROW_REFUSED) == ""
        assert held(world, uid) == 2
        await until(lambda: asked(worker) == 4, "again")
        grow(worker)
        await until(lambda: runs(world, uid) == 4, "grown")
        await goes_on(world)


async def test_several_in_a_row_while_one_waits() -> None:
    """What counts is what it asks for now."""
    world = Federation("a", quota=5)
    async with world.running() as manager:
        await full(world)
        uid, worker = await started(world)
        for pods in (6, 7, 4):
            edit(world, "j", parallelism=pods)
            await until(partial(_waits, world, uid, pods - 2), f"{pods - 2} wait")
        edit(world, "j", parallelism=3)
        await until(lambda: asked(worker) == 3, "one fits")
        assert held(world, uid) == 3
        assert growth_uid(uid) not in manager.scheduler.items
        edit(world, "j", parallelism=2)
        await until(lambda: given(world) == 2 and not asked(worker), "withdrawn")
        assert size(worker) == 2
        await until(lambda: held(world, uid) == 2, "free")
        await goes_on(world)


def _waits(world: Federation, uid: str, more: int) -> bool:
    item = world.manager.scheduler.items.get(growth_uid(uid))
    return item is not None and item.pod_sets[0].count == more


async def test_a_larger_size_is_taken_back_while_it_waits() -> None:
    """It leaves the queue, and nothing is said of it any more."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        await full(world)
        uid, _ = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: lacking(world), "told")
        edit(world, "j", parallelism=2)
        await until(lambda: growth_uid(uid) not in manager.scheduler.items, "out of the queue")
        await until(lambda: lacking(world) is None, "not told any more")
        assert await manager.waiting("cq") == []
        await goes_on(world)


async def test_it_takes_its_turn() -> None:
    """With the age and the priority of the job: before what came later."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        uid, worker = await started(world)
        other = await full(world)
        world.now += timedelta(seconds=1)
        later = world.submit("later", 2)
        await until(lambda: later in manager.scheduler.items, "it waits")
        edit(world, "j", parallelism=4)
        await until(lambda: growth_uid(uid) in manager.scheduler.items, "they wait")
        assert await manager.waiting("cq") == [growth_uid(uid), later]
        other.end("first")
        await until(lambda: asked(worker) == 4, "asked")
        assert world.copy("later") is None


async def test_others_are_preempted_for_it() -> None:
    """What has lower priority makes room for more pods as for any workload; it goes on itself."""
    world = Federation("a", quota=4, **LOWER)
    classes(world, low=1, middle=5)
    async with world.running() as manager:
        world.submit("victim", 2, of="low")
        other = await running(world, "victim")
        uid, worker = await started(world, of="low")
        edit(world, "j", parallelism=4)
        await until(lambda: growth_uid(uid) in manager.scheduler.items, "they wait")
        await asyncio.sleep(0.1)  # time for an eviction that must not come
        assert not _evicted(world, "victim")
        label(world, "j", Label.PRIORITY_CLASS, "middle")
        await until(lambda: _evicted(world, "victim"), "it makes room")
        assert held(world, uid) == 2
        other.stopping("victim", 0)
        await until(lambda: asked(worker) == 4, "asked")
        await goes_on(world)


# Smaller


async def test_smaller_frees_its_quota_at_once() -> None:
    """The copy is made smaller, and the quota is free though pods have yet to stop."""
    world = Federation("a", quota=4)
    async with world.running():
        uid, worker = await started(world, 4)
        edit(world, "j", parallelism=1)
        await until(lambda: size(worker) == 1, "the copy")
        await until(lambda: held(world, uid) == 1, "free")
        assert given(world) == 1
        assert workload(world)["spec"]["podSets"][0]["count"] == 1
        assert worker.get("j")["status"]["active"] == 4
        await full(world, 3)
        await goes_on(world)


async def test_smaller_and_larger_again() -> None:
    """What was given back has to be got again."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        uid, worker = await started(world, 4)
        edit(world, "j", parallelism=2)
        await until(lambda: held(world, uid) == 2, "free")
        await full(world)
        edit(world, "j", parallelism=3)
        await until(lambda: growth_uid(uid) in manager.scheduler.items, "it waits")
        assert size(worker) == 2
        await goes_on(world)


async def test_smaller_while_the_agent_is_asked_for_more() -> None:
    """The last word counts, also if the agent was faster."""
    world = Federation("a", quota=4)
    async with world.running():
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: asked(worker) == 4, "asked")
        edit(world, "j", parallelism=1)
        if asked(worker):
            grow(worker)
        await until(lambda: size(worker) == 1 and not asked(worker), "the copy")
        await until(lambda: held(world, uid) == 1, "free")
        await goes_on(world)


async def test_what_it_was_asked_for_arrives_again() -> None:
    """Late, when less has been given: it was said of the copy as it was then."""
    world = Federation("a", quota=4)
    async with world.running():
        uid, worker = await started(world)
        sent: list[httpx.Request] = []

        def keep(request: httpx.Request) -> bool:
            if b'"fedq.io/grow-to":"' in request.content:
                sent.append(request)
            return False

        worker.fake.fail(keep)
        edit(world, "j", parallelism=4)
        await until(lambda: asked(worker) == 4, "asked")
        edit(world, "j", parallelism=2)
        await until(lambda: held(world, uid) == 2 and not asked(worker), "taken back")
        answer = await worker.fake.serve(sent[0])
        assert answer.status_code == 409
        assert asked(worker) == 0
        await goes_on(world)


# In the middle of it


async def test_it_is_evicted_while_more_waits() -> None:
    """It queues for all that it asks for now, as one workload."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        await full(world)
        uid, worker = await started(world)
        edit(world, "j", parallelism=3)
        await until(lambda: lacking(world), "told")
        patch_workload(world, "j", {"spec": {"active": False}})
        await until(lambda: world.copy() is None, "stopped")
        await until(lambda: world.record().binding is None, "left")
        assert growth_uid(uid) not in manager.scheduler.items
        assert find(workload(world)["status"], ConditionType.SCALED) is None
        patch_workload(world, "j", {"spec": {"active": True}})
        await until(lambda: uid in manager.scheduler.items, "it waits")
        assert manager.scheduler.items[uid].pod_sets[0].count == 3
        worker.end("first")
        await until(lambda: world.copy(), "again")
        found = world.copy()
        assert found is not None
        assert found[1]["spec"]["parallelism"] == 3
        assert given(world) == 3


async def test_it_is_evicted_when_more_was_granted() -> None:
    """All of its quota is free when it has stopped, and it asks for all."""
    world = Federation("a", quota=4)
    async with world.running():
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: asked(worker) == 4, "asked")
        patch_workload(world, "j", {"spec": {"active": False}})
        await until(lambda: world.record().binding is None, "left")
        assert held(world, uid) == 0
        patch_workload(world, "j", {"spec": {"active": True}})
        await until(lambda: world.copy() and size(worker) == 4, "again, with all")
        assert world.record().attempt == 2


async def test_it_is_deleted_while_more_waits() -> None:
    """Nothing of it stays in the queue."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        await full(world)
        uid, _ = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: growth_uid(uid) in manager.scheduler.items, "it waits")
        world.home.objects.delete(JOBS, ("team", "j"), {"propagationPolicy": "Background"})
        await until(lambda: uid not in manager.controller.states, "forgotten")
        assert await manager.waiting("cq") == []
        assert held(world, uid) == 0


async def test_it_ends_while_more_waits() -> None:
    world = Federation("a", quota=4)
    async with world.running() as manager:
        await full(world)
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: growth_uid(uid) in manager.scheduler.items, "it waits")
        worker.end("j")
        await until(lambda: world.record().finished, "recorded")
        await until(lambda: growth_uid(uid) not in manager.scheduler.items, "out of the queue")
        assert held(world, uid) == 0


async def test_its_cluster_is_away_while_more_waits() -> None:
    """Nothing is asked of a cluster that cannot be reached; it goes on when that is back."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        other = await full(world)
        uid, worker = await started(world)
        edit(world, "j", parallelism=4)
        await until(lambda: growth_uid(uid) in manager.scheduler.items, "it waits")
        other.end("first")
        await until(lambda: asked(worker) == 4, "asked")
        worker.fake.cut()
        edit(world, "j", parallelism=3)
        await asyncio.sleep(0.1)  # time for a write that cannot arrive
        worker.fake.heal()
        await until(lambda: asked(worker) == 3, "asked for what it wants now")
        grow(worker)
        await until(lambda: held(world, uid) == 3 and size(worker) == 3, "so many")
        await goes_on(world)


STEPS = ("waiting", "granted", "asked", "refused", "grown", "smaller")


@pytest.mark.parametrize("step", STEPS)
async def test_another_manager_goes_on(step: str) -> None:
    """Whatever was done when the first one ended, the next one finds it in the objects."""
    world = Federation("a", quota=4)
    other: Worker | None = None
    async with world.running():
        if step == "waiting":
            other = await full(world)
        uid, worker = await started(world)
        if step == "granted":  # the agent is not asked before the manager ends
            worker.fake.fail(lambda request: request.method == "PATCH", times=10**6, how="lost")
        edit(world, "j", parallelism=1 if step == "smaller" else 4)
        if step == "waiting":
            await until(lambda: lacking(world), "told")
        elif step == "granted":
            await until(lambda: given(world) == 4, "granted")
        elif step == "smaller":
            await until(lambda: size(worker) == 1, "the copy")
        else:
            await until(lambda: asked(worker) == 4, "asked")
    worker.fake.heal()
    if step == "refused":
        say_no(worker)
    elif step == "grown":
        grow(worker)
    async with world.running():
        if other is not None:
            await until(lambda: held(world, uid) == 2, "charged")
            other.end("first")
        if step == "smaller":
            await until(lambda: given(world) == 1 and held(world, uid) == 1, "free")
        elif step != "grown":
            await until(lambda: asked(worker) == 4, "asked")
            grow(worker)
        if step != "smaller":
            await until(lambda: size(worker) == 4 and held(world, uid) == 4, "all of it")
        await goes_on(world)


async def test_more_than_it_was_given_is_never_offered() -> None:
    """A job that is made larger between its binding and its offer is offered as it was admitted."""
    world = Federation("a", quota=2)
    async with world.running():
        worker = world.workers["a"]
        worker.fake.fail(lambda request: request.method == "POST", times=2, how="lost")
        wide(world, 2, **NOTES)
        await until(lambda: (r := world.record()) and r.binding, "bound")
        edit(world, "j", parallelism=5)
        await world.offered()
        assert size(worker) == 2


# Slices that Kueue left


@pytest.mark.parametrize("kind", ["replaced", "waiting"])
async def test_a_slice_that_is_not_the_record(kind: str) -> None:
    """One that another has replaced, and one without quota, are not taken for the job's record."""
    world = Federation("a", quota=4)
    async with world.running():
        uid, _ = await started(world)
    record = world.record()
    made = workload(world)
    owners = {"ownerReferences": made["metadata"]["ownerReferences"], "annotations": dict(ELASTIC)}
    meta: Json = {"name": f"slice-{kind}", "namespace": "team", **owners}
    if kind == "waiting":
        meta["annotations"][Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR] = f"team/{record.key.name}"
    world.home.create(WORKLOADS, {**made, "metadata": meta, "status": {}})
    if kind == "replaced":
        over = {"type": "Finished", "status": "True", "reason": "WorkloadSliceReplaced",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        status = {"status": {"conditions": [over]}}
        world.home.merge(WORKLOADS, meta["name"], status, "team", status=True)
    async with world.running() as manager:
        await until(lambda: held(world, uid) == 2, "charged")
        known = manager.controller.states[uid].record
        assert known is not None
        assert known.uid == record.uid
        edit(world, "j", parallelism=3)
        await until(lambda: given(world) == 3, "that is the record")


async def test_a_slice_that_was_taken_for_the_record_stays_that() -> None:
    """Also when its quota is gone: else nothing would be seen of it any more."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        uid, worker = await started(world)
        made = workload(world)
        meta = {"annotations": {Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR: "team/before"}}
        world.home.merge(WORKLOADS, made["metadata"]["name"], {"metadata": meta}, "team")
        patch_workload(world, "j", {"spec": {"active": False}})
        await until(lambda: _evicted(world, "j"), "evicted")
        worker.stopping("j", 0)
        await until(lambda: held(world, uid) == 0, "its quota is free")
        await until(lambda: manager.controller.states[uid].bound is None, "the manager knows")
    async with world.running() as manager:
        await until(lambda: uid in manager.controller.states, "known")
        record = manager.controller.states[uid].record
        assert record is not None
        assert record.attempt == 1


async def test_a_slice_that_was_replaced_and_nothing_took_its_place() -> None:
    """It has the name of the job's record, and makes way for that."""
    world = Federation("a", quota=4)
    uid = wide(world, 2, **NOTES)
    async with world.running():
        await until(lambda: world.record(), "made")
    made = workload(world)
    name = made["metadata"]["name"]
    over = {"type": "Finished", "status": "True", "reason": "WorkloadSliceReplaced",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    world.home.merge(WORKLOADS, name, {"status": {"conditions": [over]}}, "team", status=True)
    async with world.running() as manager:
        await until(lambda: (r := world.record()) and r.binding, "bound anew")
        assert workload(world)["metadata"]["uid"] != made["metadata"]["uid"]
        assert manager.controller.states[uid].record is not None
