"""What cycles decide is carried out: preemption, an index that comes and goes, reasons told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.api import record as records
from federation.api.names import ConditionType, Option
from federation.core import events as on
from federation.core.policies import FairStrategy, Policies, Rules
from federation.core.queueing import IndexUnavailable
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from manager.app import Manager
from manager.write_turns import WriteTurns
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import custom

Json = dict[str, Any]

LOWER = {"preemption": {"withinClusterQueue": "LowerPriority"}}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons are told, and Redis is asked again, without a pause worth the name."""
    monkeypatch.setattr("manager.dispatcher.EXPLAIN_S", 0.01)
    monkeypatch.setattr("manager.dispatcher.REDIS_PAUSE_S", 0.01)


def priorities(world: Federation, **values: int) -> None:
    for name, value in values.items():
        body = custom("WorkloadPriorityClass", name, {})
        del body["spec"]
        world.home.create(WORKLOAD_PRIORITY_CLASSES, {**body, "value": value})


def waiting(world: Federation, name: str = "j") -> Json:
    """status.fedq.waiting."""
    record = world.record(name)
    found: Json = ((record.status if record else {}).get("fedq") or {}).get("waiting") or {}
    return found


def condition(world: Federation, name: str, kind: ConditionType) -> Json:
    return records.find(world.record(name).status, kind) or {}


def status_of(world: Federation, name: str = "cq") -> Json:
    found = next(q for q in world.home.items(CLUSTER_QUEUES) if q["metadata"]["name"] == name)
    status: Json = found.get("status") or {}
    return status


def active(world: Federation, name: str = "cq") -> tuple[str, str]:
    found = records.find(status_of(world, name), ConditionType.ACTIVE) or {}
    return found.get("reason", ""), found.get("message", "")


# Preemption


async def test_a_victim_makes_room() -> None:
    """Evicted with Kueue's words; the preemptor is bound when its copy has stopped."""
    world = Federation("a", quota=4, **LOWER)
    priorities(world, high=100)
    async with world.running():
        low = world.submit("low", 3)
        worker = await world.offered("low")
        world.start(worker, "low")
        worker.run_pods("low")
        await until(lambda: world.record("low").admitted, "admitted")
        high = world.submit("high", 2, of="high")
        await until(lambda: condition(world, "low", ConditionType.EVICTED).get("status") == "True")
        workload = world.record("high").uid
        assert world.copy("high") is None
        told = condition(world, "low", ConditionType.EVICTED)
        assert told["reason"] == "Preempted"
        assert told["message"] == (
            f"Preempted to accommodate a workload (UID: {workload}, JobUID: {high}) due to"
            " prioritization in the ClusterQueue; preemptor path: /cq; preemptee path: /cq"
        )
        await until(lambda: world.copy("low") is None, "stopped")
        world.report("a", 4)
        await world.offered("high")
        await until(lambda: low in world.manager.scheduler.items, "it queues again")
        assert world.record("low").binding is None


async def test_victims_are_told_once() -> None:
    """Though the preemptor is looked at again while they stop."""
    world = Federation("a", quota=4, **LOWER)
    priorities(world, high=100)
    async with world.running() as manager:
        low = world.submit("low", 3)
        worker = await world.offered("low")
        world.start(worker, "low")
        worker.run_pods("low")
        await until(lambda: world.record("low").admitted, "admitted")
        told: list[str] = []
        feed = manager.controller.feed

        def listen(uid: str, event: object) -> None:
            told.append(f"{type(event).__name__} {uid}")
            feed(uid, event)  # type: ignore[arg-type]

        manager.controller.feed = listen  # type: ignore[method-assign]
        world.submit("high", 2, of="high")
        await world.offered("high")
        assert told.count(f"Evict {low}") == 1


async def test_nobody_is_evicted_for_what_no_cluster_can_take() -> None:
    """There would be quota for it; it says what the clusters lack."""
    world = Federation("a", "b", quota=8, **LOWER)
    priorities(world, high=100)
    async with world.running():
        for name in ("low", "lower"):
            world.submit(name, 3)
            world.start(await world.offered(name), name)
        await until(lambda: all(world.record(n).admitted for n in ("low", "lower")), "admitted")
        world.submit("high", 5, of="high")
        await until(lambda: waiting(world, "high"), "told why it waits")
        assert waiting(world, "high")["requeue"] == "NoCluster"
        told = condition(world, "high", ConditionType.QUOTA_RESERVED)["message"]
        assert "preempting others would not help" in told
        assert "gpu: 4 free, 5 needed" in told
        for name in ("low", "lower"):
            assert condition(world, name, ConditionType.EVICTED) == {}


async def test_victims_leave_the_cluster_that_takes_the_preemptor() -> None:
    """Quota alone would have the youngest leave, and that is no use there."""
    world = Federation("a", "b", quota=8, **LOWER)
    priorities(world, high=100)
    async with world.running():
        world.submit("big", 4)
        big = await world.offered("big")
        world.start(big, "big")
        await until(lambda: world.record("big").admitted, "admitted")
        for name in ("one", "two"):
            world.submit(name, 2, of="high" if name == "one" else "")
            world.start(await world.offered(name), name)
            await until(lambda n=name: world.record(n).admitted, "admitted")  # type: ignore[misc]
        world.submit("high", 4, of="high")
        await world.offered("high")
        assert world.workers[str(world.record("high").binding.cluster)] is big
        assert condition(world, "two", ConditionType.EVICTED) == {}


@pytest.mark.parametrize("where", ["job", "local queue", "cluster queue"])
async def test_what_may_not_be_preempted(where: str) -> None:
    """The annotation counts wherever it stands; its copy has it too."""
    note = {Option.NON_PREEMPTIBLE.value: "true"}
    world = Federation("a", quota=4, **LOWER)
    priorities(world, high=100)
    meta = {"metadata": {"annotations": note}}
    if where == "local queue":
        world.home.merge(LOCAL_QUEUES, "lq", meta, "team")
    if where == "cluster queue":
        world.home.merge(CLUSTER_QUEUES, "cq", meta)
    async with world.running():
        world.submit("low", 3, **(note if where == "job" else {}))
        worker = await world.offered("low")
        world.start(worker, "low")
        await until(lambda: world.record("low").admitted, "admitted")
        world.submit("high", 2, of="high")
        await until(lambda: waiting(world, "high"), "told why it waits")
        assert waiting(world, "high")["requeue"] == "PreemptionNoCandidates"
        assert condition(world, "low", ConditionType.EVICTED) == {}
        assert note.items() <= worker.get("low")["metadata"]["annotations"].items()


async def test_the_nearest_word_counts() -> None:
    """A job may be given up although its queue's are not."""
    world = Federation("a", quota=4, **LOWER)
    priorities(world, high=100)
    note = {"metadata": {"annotations": {Option.NON_PREEMPTIBLE.value: "true"}}}
    world.home.merge(CLUSTER_QUEUES, "cq", note)
    async with world.running():
        world.submit("low", 3, **{Option.NON_PREEMPTIBLE.value: "false"})
        worker = await world.offered("low")
        world.start(worker, "low")
        await until(lambda: world.record("low").admitted, "admitted")
        world.submit("high", 2, of="high")
        await until(lambda: condition(world, "low", ConditionType.EVICTED).get("status") == "True")


# The index


async def test_redis_is_away_and_comes_back() -> None:
    """Said as the reason that nothing moves; then all that waits is dispatched, once."""
    world = Federation("a")
    async with world.running() as manager:
        await until(lambda: manager.dispatcher.fills == 1)
        world.index.down = True
        for n in range(3):
            world.submit(f"j{n}")
        await until(lambda: len(manager.scheduler.items) == 3)
        await until(lambda: "down" in manager.problem())
        with pytest.raises(IndexUnavailable):
            await manager.waiting("cq")
        world.index.down = False
        for n in range(3):
            await world.offered(f"j{n}")
        assert manager.problem() == ""
        assert [world.record(f"j{n}").attempt for n in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("reading", ["heads", "claim"])
async def test_lost_in_the_middle_of_a_cycle(reading: str) -> None:
    """Nothing is lost or offered twice."""
    world = Federation("a", "b")
    left = 3

    def lose(name: str) -> None:
        nonlocal left
        if name == reading and left and world.manager.scheduler.items:
            left -= 1
            world.index.lost = True

    world.index.before = lose
    async with world.running() as manager:
        for n in range(6):
            world.submit(f"j{n}")
        for n in range(6):
            await world.offered(f"j{n}")
        await until(lambda: all(world.record(f"j{n}").binding for n in range(6)))
        assert left == 0
        assert manager.dispatcher.fills == 4
        assert [world.record(f"j{n}").attempt for n in range(6)] == [1] * 6
        assert manager.scheduler.snapshot.tree.usage("cq") == {("f", "gpu"): 6}


async def test_a_job_deleted_while_it_is_decided_on() -> None:
    """Its quota is free again and nothing is offered."""
    world = Federation("a")
    async with world.running() as manager:
        await until(lambda: manager.dispatcher.fills == 1)
        uid = ""

        def delete(name: str) -> None:
            if name == "claim" and uid in manager.controller.states:
                world.index.before = lambda name: None
                manager.controller.job_deleted(world.local())

        world.index.before = delete
        uid = world.submit()
        await until(lambda: world.index.before is not delete, "claimed")
        world.submit("k")
        await world.offered("k")
        assert world.copy("j") is None
        assert manager.scheduler.snapshot.tree.usage("cq")["f", "gpu"] == 1


async def test_a_workload_that_ended_while_it_waited() -> None:
    """Somebody wrote Finished: it is out of the queue, and no quota is held for it."""
    world = Federation("a", quota=1)
    async with world.running() as manager:
        world.submit("first")
        await world.offered("first")
        uid = world.submit("over")
        await until(lambda: waiting(world, "over"))
        ended = {"type": "Finished", "status": "True", "reason": "ByHand", "message": ""}
        stood = world.record("over").status["conditions"]
        status = {"status": {"conditions": [*stood, ended]}}
        name = world.record("over").key.name
        world.home.merge(WORKLOADS, name, status, "team", status=True)
        await until(lambda: uid not in manager.scheduler.items, "out of the queue")
        world.home.delete(JOBS, "first", "team")
        await until(lambda: world.copy("first") is None)
        world.submit("next")
        await world.offered("next")
        assert manager.scheduler.snapshot.tree.usage("cq")["f", "gpu"] == 1


async def test_a_workload_that_ends_while_it_is_decided_on() -> None:
    """The decision is void: its quota and its place on the cluster are free again."""
    world = Federation("a", quota=1)
    async with world.running() as manager:
        await until(lambda: manager.dispatcher.fills == 1)
        uid = ""

        def finish(name: str) -> None:
            state = manager.controller.states.get(uid)
            if name == "claim" and state and state.record:
                world.index.before = lambda name: None
                over = replace(state.record, finished=True, version=state.record.version + 1)
                manager.controller.states[uid] = replace(state, record=over, busy=True)

        world.index.before = finish
        uid = world.submit("over")
        await until(lambda: world.index.before is not finish, "claimed")
        world.submit("next")
        await world.offered("next")
        assert manager.scheduler.snapshot.tree.usage("cq")["f", "gpu"] == 1


async def test_positions() -> None:
    """The order of a queue by priority; nobody in an unknown one."""
    world = Federation("a", quota=0)
    priorities(world, high=100)
    async with world.running() as manager:
        first, last = world.submit("first"), world.submit("last")
        await until(lambda: len(manager.scheduler.items) == 2)
        high = world.submit("high", of="high")
        await until(lambda: len(manager.scheduler.items) == 3)
        assert await manager.waiting("cq") == [high, *sorted([first, last])]
        assert await manager.waiting("nowhere") == []


# Reasons


async def test_numbers_for_programs() -> None:
    """The condition's words and the same in fields; gone when it is bound."""
    world = Federation("a", quota=4)
    async with world.running():
        world.submit("big", 3)
        worker = await world.offered("big")
        world.start(worker, "big")
        world.submit("j", 2)
        await until(lambda: waiting(world), "told why")
        found = waiting(world)
        assert (found["reason"], found["requeue"]) == ("WaitingForQuota", "PreemptionNoCandidates")
        held = [{"namespace": "team", "name": "big", "clusterQueue": "cq", "amount": "3"}]
        assert found["shortages"] == [
            {
                "podSet": "main",
                "flavor": "f",
                "resource": "gpu",
                "needed": "2",
                "free": "1",
                "borrowable": "0",
                "nominal": "4",
                "most": "4",
                "heldBy": held,
            }
        ]
        told = condition(world, "j", ConditionType.QUOTA_RESERVED)
        assert told["reason"] == "WaitingForQuota"
        assert told["message"].endswith(found["hint"])
        assert "gpu in flavor f: 2 needed, 1 free" in told["message"]
        worker.end("big")
        world.report("a", 4)
        await world.offered("j")
        assert waiting(world) == {}


async def test_others_of_the_shape_are_told_the_same() -> None:
    """Though only one of them is looked at; new numbers are no reason to tell them again."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        world.submit("big", 3)
        await world.offered("big")
        for name in ("j", "k", "l"):
            world.submit(name, 2)
        await until(lambda: all(waiting(world, name) for name in ("j", "k", "l")))
        assert waiting(world, "j") == waiting(world, "l")
        versions = {name: world.record(name).version for name in ("j", "k", "l")}
        world.home.merge(CLUSTER_QUEUES, "cq", _quota(1))
        await until(lambda: waiting(world, "j")["reason"] == "ExceedsMaxQuota")
        await until(lambda: all(world.record(n).version > versions[n] for n in versions))
        assert not manager.scheduler.ready


async def test_those_behind_a_strict_head_are_told() -> None:
    """Though none of them is ever looked at; they go on when the head is gone."""
    world = Federation("a", quota=4, queueingStrategy="StrictFIFO")
    priorities(world, high=100)
    async with world.running():
        world.submit("head", 5, of="high")
        await until(lambda: waiting(world, "head"))
        world.submit("j", 1)
        await until(lambda: waiting(world, "j"), "told why")
        told = condition(world, "j", ConditionType.QUOTA_RESERVED)
        assert told["reason"] == "WaitingForQuota"
        assert "team/head is ahead in ClusterQueue cq, which is StrictFIFO" in told["message"]
        assert "ExceedsMaxQuota" in told["message"]
        world.home.delete(JOBS, "head", "team")
        await world.offered("j")


def _quota(nominal: int) -> Json:
    quotas = [{"name": "gpu", "nominalQuota": nominal}]
    flavor = {"name": "f", "resources": quotas}
    return {"spec": {"resourceGroups": [{"coveredResources": ["gpu"], "flavors": [flavor]}]}}


async def test_what_is_placed_meanwhile_is_not_told_that_it_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its binding is due, and would have to wait for that write."""
    monkeypatch.setattr("manager.dispatcher.EXPLAIN_S", 60.0)
    world = Federation("a", quota=4)
    world.report("a", 0)
    async with world.running() as manager:
        uid = world.submit("j", 1)
        await until(lambda: uid in manager.scheduler.items, "it waits")
        await until(lambda: not manager.controller.states[uid].busy)
        runner = manager.controller.run_effects.__self__  # type: ignore[union-attr]
        turns, runner._turns = runner._turns, WriteTurns(1)
        held = runner._turns.turn()
        await held.__aenter__()
        manager.controller.feed(uid, on.NotPlaced("WaitingForQuota", "no cluster has room"))
        await until(lambda: manager.controller.states[uid].busy, "that is to be written")
        world.report("a", 4)
        await until(lambda: manager.controller.states[uid].choice, "there is room")
        await held.__aexit__(None, None, None)
        runner._turns = turns
        await until(lambda: world.record("j").binding, "bound")
        seen = [change.new for change in world.home.objects.history if change.resource == WORKLOADS]
        assert seen
        assert not [obj for obj in seen if "no cluster has room" in str(obj)]


async def test_a_stopped_queue_says_so() -> None:
    """To the jobs, in its status, and it goes on when it is started again."""
    world = Federation("a", stopPolicy="Hold")
    async with world.running():
        world.submit()
        await until(lambda: world.record() and world.record().reason == "Suspended")
        assert "ClusterQueue cq is inactive: it is stopped (Hold)" in world.record().message
        await until(lambda: active(world)[0] == "Stopped")
        assert active(world)[1] == "Can't admit new workloads: it is stopped (Hold)"
        world.home.merge(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await world.offered()


async def test_a_queue_that_was_deleted_and_made_again() -> None:
    """It has a status of its own, though that says the same as the one before."""
    world = Federation("a")
    async with world.running() as manager:
        await until(lambda: active(world)[0] == "Ready")
        body = world.home.get(CLUSTER_QUEUES, "cq")
        world.home.delete(CLUSTER_QUEUES, "cq")
        await until(lambda: not manager.catalog.queues)
        world.home.create(CLUSTER_QUEUES, {**body, "metadata": {"name": "cq"}, "status": {}})
        await until(lambda: active(world)[0] == "Ready", "told again")


async def test_a_missing_check() -> None:
    """The queue is inactive until it is there; the jobs are told."""
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}
    world = Federation("a", **checks)
    async with world.running():
        world.submit()
        await until(lambda: active(world)[0] == "AdmissionCheckNotFound")
        await until(lambda: world.record() and "budget does not exist" in world.record().message)
        check = custom("AdmissionCheck", "budget", {"controllerName": "example.com/budget"})
        world.home.create(ADMISSION_CHECKS, check)
        await until(lambda: active(world)[0] == "AdmissionCheckInactive")
        assert world.copy() is None
        ready = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        status = {"status": {"conditions": [ready]}}
        world.home.merge(ADMISSION_CHECKS, "budget", status, status=True)
        await until(lambda: active(world)[0] == "Ready")
        await until(lambda: world.record().admission, "quota is reserved")


async def test_cohorts_in_a_cycle() -> None:
    """The queue is inactive until somebody breaks it."""
    world = Federation("a", cohortName="x")
    for name, parent in (("x", "y"), ("y", "x")):
        world.home.create(COHORTS, custom("Cohort", name, {"parentName": parent}))
    async with world.running():
        world.submit()
        await until(lambda: "form a cycle" in active(world)[1])
        await until(lambda: world.record() and world.record().reason == "Suspended")
        world.home.merge(COHORTS, "y", {"spec": {"parentName": None}})
        await world.offered()
        await until(lambda: active(world)[0] == "Ready")


# Statuses of queues


async def test_borrowed_and_shares() -> None:
    """What a queue has from its cohort, and its share; the cohort's too if it has a parent."""
    fair = Policies(Rules(fair_strategies=tuple(FairStrategy)))
    world = Federation("a", quota=1, policies=fair, cohortName="child")
    spec = {"parentName": "root", "fairSharing": {"weight": "2"}}
    world.home.create(COHORTS, custom("Cohort", "child", spec))
    lender = {**_quota(3)["spec"], "cohortName": "root", "namespaceSelector": {}}
    world.home.create(CLUSTER_QUEUES, custom("ClusterQueue", "lender", lender))
    async with world.running():
        world.submit("j", 3)
        world.start(await world.offered("j"), "j")
        await until(lambda: (status_of(world).get("flavorsUsage") or [{}])[0].get("resources"))
        row = {"name": "gpu", "total": "3", "borrowed": "2"}
        await until(lambda: status_of(world)["flavorsUsage"][0]["resources"] == [row])
        assert status_of(world)["flavorsReservation"] == [{"name": "f", "resources": [row]}]
        # 2 of 4 that the root could lend: 500 per mille; the cohort's weight is 2.
        await until(lambda: status_of(world)["fairSharing"] == {"weightedShare": 500})
        share = {"weightedShare": 250}  # written after those of queues
        await until(lambda: world.home.items(COHORTS)[0]["status"]["fairSharing"] == share)
        idle = {"name": "gpu", "total": "0", "borrowed": "0"}
        assert status_of(world, "lender")["flavorsUsage"][0]["resources"] == [idle]


async def test_without_fair_sharing_there_are_no_shares() -> None:
    """Kueue shows none either."""
    world = Federation("a")
    async with world.running():
        await until(lambda: active(world)[0] == "Ready")
        assert "fairSharing" not in status_of(world)


# Rest


async def test_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at while nothing happens: no cycles, no reading of the index."""
    world = Federation("a", quota=4)
    async with world.running() as manager:
        world.submit("big", 3)
        await world.offered("big")
        world.submit("j", 2)
        await until(lambda: waiting(world), "told why")
        await _at_rest(manager)
        cycles, readings = manager.scheduler.cycles, list[str]()
        world.index.before = readings.append
        # Two rounds of what has to go on: the statuses of queues.
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            ticks += 1

        monkeypatch.setattr(manager._status, "tick", tick)
        await until(lambda: ticks >= 2)
        assert (manager.scheduler.cycles, readings) == (cycles, [])


async def _at_rest(manager: Manager) -> None:
    await until(lambda: not manager.scheduler.ready and manager.scheduler.due() is None, "rest")
