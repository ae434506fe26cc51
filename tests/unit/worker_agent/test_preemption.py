"""Two-phased eviction: who is stopped for whom, what is held meanwhile, and what comes after."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.types import FlavorResource
from federation.edge.resources import JOBS
from federation.jobs.eviction_note import read_eviction
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, job, mirrored

GPU = FlavorResource("f", "gpu")
LOWER = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def used(worker: Worker) -> int:
    return worker.agent.tree.usage("cq").get(GPU, 0)


def preemptive(nominal: int = 2, **spec: Any) -> Worker:
    worker = Worker(nominal, **(LOWER | spec))
    worker.class_of("high", 10)
    worker.class_of("low", -10)
    return worker


async def running(worker: Worker, body: Any) -> str:
    """The Job is admitted and the Job controller has made its pods."""
    name = str(body["metadata"]["name"])
    worker.add(body)
    await until(lambda: worker.started(name), f"{name} starts")
    worker.run_pods(name)
    await worker.at_rest()
    return name


async def test_a_local_job_makes_way() -> None:
    """Stopped with the reason; its quota is free when its pods are gone; then it waits again."""
    worker = preemptive()
    async with worker.running():
        await running(worker, job("victim", 2))
        uid = worker.get("victim")["metadata"]["uid"]
        worker.add(job("urgent", 2, of="high"))
        await until(lambda: not worker.started("victim"), "evicted")
        eviction = read_eviction(worker.get("victim"))
        assert eviction is not None
        assert (eviction.reason, eviction.cause) == ("Preempted", "InClusterQueue")
        preemptor = worker.get("urgent")["metadata"]["uid"]
        assert eviction.message == (
            f"Preempted to accommodate a workload (UID: UNKNOWN, JobUID: {preemptor}) due to"
            " prioritization in the ClusterQueue; preemptor path: /cq; preemptee path: /cq"
        )
        (waiting,) = worker.agent.waits.values()
        assert waiting.reason == "WaitingForPreemptedWorkloads"

        worker.stopping("victim")
        await worker.at_rest()
        assert used(worker) == 2
        assert worker.agent.scheduler.holder(uid)
        assert not worker.started("urgent")

        worker.stopping("victim", 0)
        await until(lambda: worker.started("urgent"), "the preemptor starts")
        await until(lambda: not worker.note_of("victim", Mirror.ADMISSION), "restored")
        await worker.at_rest()
        victim = worker.get("victim")
        assert "nodeSelector" not in victim["spec"]["template"]["spec"]
        assert "startTime" not in victim["status"]
        assert set(victim["metadata"]["annotations"]) == {Mirror.EVICTED.value}
        assert used(worker) == 2

        worker.end("urgent")
        await until(lambda: worker.started("victim"), "the victim runs again")
        assert not worker.note_of("victim", Mirror.EVICTED)


async def test_a_victim_keeps_its_place() -> None:
    """It is queued by its creation, before what was created while it ran."""
    worker = preemptive(1)
    async with worker.running():
        await running(worker, job("victim"))
        worker.later(5)
        worker.add(mirrored("urgent", priority=10), job("later"))
        await until(lambda: not worker.started("victim"))
        worker.stopping("victim", 0)
        await until(lambda: worker.started("urgent"))
        await worker.at_rest()
        worker.end("urgent")
        await until(lambda: worker.started("victim") or worker.started("later"))
        assert worker.started("victim")


async def test_who_may_not_be_evicted() -> None:
    """Equal priority, and a Job that says it must not be preempted."""
    worker = preemptive(2)
    async with worker.running():
        await running(worker, job("equal", of="high"))
        await running(worker, job("kept", of="low", **{"fedq.io/non-preemptible": "true"}))  # type: ignore[arg-type]
        worker.add(mirrored("urgent", priority=10))
        await worker.until_answered("urgent")
        assert worker.refused("urgent")
        assert worker.started("equal")
        assert worker.started("kept")


async def test_a_start_that_nobody_has_seen_yet() -> None:
    """The Job controller may be about to make pods: the victim is suspended when it has."""
    worker = preemptive(1)
    async with worker.running():
        worker.add(job("victim"))
        await until(lambda: worker.started("victim"))
        worker.add(job("urgent", of="high"))
        await worker.at_rest()
        assert worker.started("victim")
        worker.run_pods("victim")
        await until(lambda: not worker.started("victim"))


async def test_a_copy_that_preempts_says_so_and_starts() -> None:
    """`deciding` until the victims are gone, then started in one more write."""
    worker = preemptive(1)
    async with worker.running():
        await running(worker, job("victim"))
        worker.add(mirrored("urgent", priority=5))
        await until(lambda: worker.note_of("urgent", Mirror.DECIDING), "deciding")
        await worker.at_rest()
        assert not worker.answered("urgent")
        before = worker.writes()
        worker.stopping("victim", 0)
        await until(lambda: worker.started("urgent"), "started")
        await worker.at_rest()
        assert worker.note_of("urgent", Mirror.DECIDING) == ""
        assert worker.writes() == before + 3  # start, start time of the victim, its template


async def test_victims_that_do_not_stop_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is refused with the time; it does not start when they stop later."""
    monkeypatch.setattr("worker_agent.copies.VICTIMS_MAY_TAKE_S", 0.05)
    worker = preemptive(1)
    async with worker.running():
        await running(worker, job("victim"))
        worker.add(mirrored("urgent", priority=5))
        await worker.until_answered("urgent")
        assert worker.refused("urgent").startswith("WaitingForPreemptedWorkloads: ")
        assert worker.note_of("urgent", Mirror.DECIDING) == ""
        worker.stopping("victim", 0)
        await until(lambda: worker.started("victim"), "the victim has its place back")
        assert not worker.started("urgent")


async def test_a_copy_that_is_evicted() -> None:
    """Stopped, with the reason for the manager; its quota is free when its pods are gone."""
    worker = preemptive(1)
    async with worker.running():
        await running(worker, mirrored("copy", priority=-1))
        worker.add(job("urgent"))
        await until(lambda: not worker.started("copy"))
        worker.stopping("copy")
        await worker.at_rest()
        assert not worker.started("urgent")
        worker.stopping("copy", 0)
        await until(lambda: worker.started("urgent"))
        await worker.at_rest()
        eviction = read_eviction(worker.get("copy"))
        assert eviction is not None
        assert eviction.cause == "InClusterQueue"
        assert worker.note_of("copy", Mirror.ADMISSION), "left as it is for the manager"
        assert not worker.started("copy")
        assert used(worker) == 1


@pytest.mark.parametrize("terminating", [1, 0])
async def test_an_agent_that_restarts_while_a_victim_stops(terminating: int) -> None:
    """The Job says what it holds, and that it is being stopped."""
    worker = preemptive(1)
    async with worker.running():
        await running(worker, job("victim"))
        worker.add(mirrored("urgent", priority=5))
        await until(lambda: not worker.started("victim"))
        await worker.at_rest()
    worker.stopping("victim", terminating)
    async with worker.running():
        if terminating:
            await worker.at_rest()
            assert used(worker) == 1
            assert not worker.answered("urgent")
            assert worker.note_of("urgent", Mirror.DECIDING)
            worker.stopping("victim", 0)
        await until(lambda: worker.started("urgent"))
        await until(lambda: not worker.note_of("victim", Mirror.ADMISSION))
        await worker.at_rest()
        assert used(worker) == 1


async def test_an_agent_that_restarts_between_decision_and_eviction() -> None:
    """Nothing was written: the next one decides the same."""
    worker = preemptive(1)
    async with worker.running():
        name = await running(worker, job("victim"))
        worker.fake.fail(lambda r: r.method == "PATCH" and r.url.path.endswith(name), how="hang")
        worker.add(job("urgent", of="high"))
        await until(lambda: worker.agent.waits and not any(f.times for f in worker.fake._faults))
        assert worker.started("victim")
    async with worker.running():
        await until(lambda: not worker.started("victim"))
        assert read_eviction(worker.get("victim"))


@pytest.mark.parametrize("how", ["drop", "lost", "status"])
async def test_an_eviction_that_fails(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written again; the preemptor waits meanwhile."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.001)
    worker = preemptive(1)
    async with worker.running():
        await running(worker, job("victim"))
        worker.fake.fail(
            lambda r: r.method == "PATCH" and b"evicted" in r.content, how=how, times=2
        )
        worker.add(job("urgent", of="high"))
        await until(lambda: not worker.started("victim"))
        assert read_eviction(worker.get("victim"))
        worker.stopping("victim", 0)
        await until(lambda: worker.started("urgent"))


async def test_a_victim_that_ends_or_is_deleted_meanwhile() -> None:
    """Its quota is free, and nothing is restored."""
    worker = preemptive(2)
    async with worker.running():
        await running(worker, job("ends"))
        await running(worker, job("deleted"))
        worker.add(job("urgent", 2, of="high"))
        await until(lambda: not worker.started("ends") and not worker.started("deleted"))
        worker.end("ends")
        worker.fake.delete(JOBS, "deleted", "team")
        await until(lambda: worker.started("urgent"))
        assert used(worker) == 2


async def test_who_is_behind_a_preemptor() -> None:
    """A copy that comes while another workload waits for its victims is refused with that reason;
    a local Job waits, and says so.
    """
    worker = preemptive(2)
    async with worker.running():
        await running(worker, job("victim"))
        worker.add(job("urgent", 2, of="high"))
        await until(lambda: not worker.started("victim"))
        worker.add(mirrored("copy"), job("small"))
        await worker.until_answered("copy")
        assert "waits for those that it preempts" in worker.refused("copy")
        await worker.at_rest()
        assert not worker.started("small")
        uid = worker.get("small")["metadata"]["uid"]
        assert "waits for those that it preempts" in worker.agent.waits[uid].message


async def test_the_same_class_has_another_value_here() -> None:
    """The management cluster's number counts for a copy, also when that changes while it runs."""
    worker = Worker(1, **LOWER)
    worker.class_of("shared", 1000)
    worker.class_of("five", 5)
    async with worker.running():
        copy = mirrored("copy", priority=3)
        copy["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "shared"
        await running(worker, copy)
        worker.add(job("local", of="five"))
        await until(lambda: worker.note_of("copy", Mirror.EVICTED), "it makes room")


async def test_a_copy_that_runs_gets_another_priority() -> None:
    """It is no victim any more of what it was lower than."""
    worker = Worker(2, **LOWER)
    worker.class_of("five", 5)
    async with worker.running():
        await running(worker, mirrored("one", priority=3))
        await running(worker, mirrored("two", priority=3))
        notes = {"metadata": {"annotations": {Mirror.PRIORITY.value: "9"}}}
        worker.fake.merge(JOBS, "two", notes, "team")
        await worker.at_rest()
        worker.add(job("local", of="five"))
        await until(lambda: worker.note_of("one", Mirror.EVICTED), "the lower one makes room")
        assert not worker.note_of("two", Mirror.EVICTED)
