"""Copies that are to have more pods while they run: charged first, or refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.types import FlavorResource
from federation.edge.resources import JOBS
from federation.jobs import batch_job
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, job, mirrored
from worker_agent.facts import WorkerJob

GPU = FlavorResource("f", "gpu")
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
LOWER: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def used(worker: Worker) -> int:
    return worker.agent.tree.usage("cq").get(GPU, 0)


def wide(name: str, pods: int, **spec: Any) -> Any:
    body = mirrored(name, annotations=ELASTIC)
    body["spec"] |= {"parallelism": pods, "completions": 50, **spec}
    return body


async def running(worker: Worker, pods: int = 2, **spec: Any) -> None:
    worker.add(wide("a", pods, **spec))
    await until(lambda: worker.started("a"))
    worker.run_pods("a", pods)


def ask(worker: Worker, pods: int, name: str = "a", **counts: int) -> None:
    """The manager wants it to have so many."""
    text = json.dumps({"parallelism": pods, **counts})
    notes = {Mirror.GROW_TO.value: text, Mirror.GROW_REFUSED.value: None}
    worker.fake.merge(JOBS, name, {"metadata": {"annotations": notes}}, "team")


def pods(worker: Worker, name: str = "a") -> int:
    return int(worker.get(name)["spec"]["parallelism"])


def charged(worker: Worker, name: str = "a") -> int:
    """What the copy's own note says."""
    note = batch_job.decode_admission(worker.note_of(name, Mirror.ADMISSION))
    assert note is not None
    return note.pod_sets[0].count


async def test_room_for_more() -> None:
    """The spec and the note are written at once, the request goes, nothing is stopped."""
    worker = Worker(4)
    async with worker.running():
        await running(worker)
        started = worker.get("a")["metadata"]["annotations"][Mirror.RESERVED_AT.value]
        ask(worker, 4)
        await until(lambda: pods(worker) == 4)
        assert charged(worker) == 4
        assert worker.note_of("a", Mirror.GROW_TO) == ""
        await worker.at_rest()
        assert used(worker) == 4
        assert worker.started("a")
        assert worker.get("a")["metadata"]["annotations"][Mirror.RESERVED_AT.value] == started


async def test_no_room() -> None:
    """It is refused with the numbers, and goes on with what it has."""
    worker = Worker(4)
    async with worker.running():
        await running(worker)
        worker.add(job("local", 2))
        await until(lambda: worker.started("local"))
        ask(worker, 3)
        await until(lambda: worker.note_of("a", Mirror.GROW_REFUSED))
        assert worker.note_of("a", Mirror.GROW_REFUSED).startswith("WaitingForQuota: ")
        assert pods(worker) == charged(worker) == 2
        assert worker.started("a")
        assert not worker.refused("a")
        await worker.at_rest()
        assert used(worker) == 4


async def test_asked_again_after_a_refusal() -> None:
    """The manager asks anew when it thinks that there is room."""
    worker = Worker(4)
    async with worker.running():
        await running(worker)
        worker.add(job("local", 2))
        await until(lambda: worker.started("local"))
        ask(worker, 3)
        await until(lambda: worker.note_of("a", Mirror.GROW_REFUSED))
        worker.end("local")
        await worker.at_rest()
        assert pods(worker) == 2

        def asked_until_it_has_them() -> bool:
            """What was parked is looked at again a moment after room came free."""
            if worker.note_of("a", Mirror.GROW_REFUSED):
                ask(worker, 3)
            return pods(worker) == 3

        await until(asked_until_it_has_them)


@pytest.mark.parametrize("late", [False, True], ids=["at once", "after a restart"])
async def test_what_was_charged_counts_again_after_a_restart(late: bool) -> None:
    """The next agent reads it from the note; a request that stands is answered by it."""
    worker = Worker(4)
    async with worker.running():
        await running(worker)
        if not late:
            ask(worker, 4)
            await until(lambda: pods(worker) == 4)
    if late:
        ask(worker, 4)
    async with worker.running():
        await until(lambda: pods(worker) == 4)
        await until(lambda: used(worker) == 4)
        worker.add(mirrored("next"))
        await worker.until_answered("next")
        assert worker.refused("next")


async def test_several_in_a_row() -> None:
    """Up, down and up again: quota is charged for what runs."""
    worker = Worker(6)
    async with worker.running():
        await running(worker)
        ask(worker, 5)
        await until(lambda: pods(worker) == 5)
        worker.fake.merge(JOBS, "a", {"spec": {"parallelism": 1}}, "team")
        await until(lambda: used(worker) == 1)
        ask(worker, 4)
        await until(lambda: pods(worker) == 4)
        await until(lambda: used(worker) == 4)
        assert charged(worker) == 4


async def test_from_nothing() -> None:
    """A copy without pods keeps its flavors, and gets pods in these."""
    worker = Worker(4)
    async with worker.running():
        await running(worker)
        worker.fake.merge(JOBS, "a", {"spec": {"parallelism": 0}}, "team")
        await until(lambda: used(worker) == 0)
        ask(worker, 3)
        await until(lambda: pods(worker) == 3)
        await until(lambda: used(worker) == 3)


async def test_completions_follow_where_they_did() -> None:
    """Kubernetes takes them for Indexed Jobs, if both are equal."""
    worker = Worker(4)
    async with worker.running():
        await running(worker, completions=2, completionMode="Indexed")
        ask(worker, 4, completions=4)
        await until(lambda: worker.get("a")["spec"]["completions"] == 4)
        assert pods(worker) == 4


async def test_others_are_preempted_for_more_pods() -> None:
    """The same rules as for any workload; they are written when the victims are gone."""
    worker = Worker(4, **LOWER)
    async with worker.running():
        body = wide("a", 2)
        body["metadata"]["annotations"][Mirror.PRIORITY.value] = "5"
        worker.add(body, job("local", 2))
        await until(lambda: worker.started("a") and worker.started("local"))
        worker.run_pods("a", 2)
        worker.run_pods("local")
        ask(worker, 4)
        await until(lambda: not worker.started("local"))
        assert pods(worker) == 2
        worker.stopping("local", 0)
        await until(lambda: pods(worker) == 4)
        assert worker.started("a")


async def test_one_that_is_evicted_does_not_grow() -> None:
    """What is asked for is void when it stops."""
    worker = Worker(3, **LOWER)
    async with worker.running():
        await running(worker)
        worker.add(mirrored("urgent", 3, priority=1))
        await until(lambda: not worker.started("a"))
        ask(worker, 3)
        worker.stopping("a", 0)
        await until(lambda: worker.started("urgent"))
        assert pods(worker) == 2
        await worker.at_rest()
        assert used(worker) == 3


async def test_pods_that_are_being_written_are_no_victims_yet() -> None:
    """Whoever preempts them would have their quota while they come all the same: who is more urgent
    waits for the write, and stops the copy.
    """
    worker = Worker(4, **LOWER)
    async with worker.running():
        await running(worker)
        grow, written = worker.agent.state.api.grow, asyncio.Event()

        async def slow(job: WorkerJob, patch: Any) -> None:
            await written.wait()
            await grow(job, patch)

        worker.agent.state.api.grow = slow  # type: ignore[method-assign]  # a slow write
        ask(worker, 4)
        await until(lambda: used(worker) == 4)
        worker.add(mirrored("urgent", 2, priority=1))
        cycles = worker.agent.scheduler.cycles
        await until(lambda: worker.agent.scheduler.cycles > cycles)
        await asyncio.sleep(0.05)  # nothing is to happen
        assert worker.agent.scheduler.cycles < cycles + 10
        written.set()
        await until(lambda: not worker.started("a"))
        assert pods(worker) == 4
        assert not worker.started("urgent")
        worker.stopping("a", 0)
        await until(lambda: worker.started("urgent"))
        await worker.at_rest()
        assert used(worker) == 2


@pytest.mark.parametrize("room", [8, 4], ids=["room for more", "no room"])
async def test_what_somebody_took_is_not_kept(room: int) -> None:
    """A copy runs as many pods as its note says, whoever edits its spec while it waits for more."""
    worker = Worker(room)
    async with worker.running():
        await running(worker)
        if room == 4:
            worker.add(job("local", 2))
            await until(lambda: worker.started("local"))
        text = json.dumps({"parallelism": 8 if room == 8 else 5})
        notes = {"metadata": {"annotations": {Mirror.GROW_TO.value: text}}}
        worker.fake.merge(JOBS, "a", {**notes, "spec": {"parallelism": 4}}, "team")
        wanted = 8 if room == 8 else 2
        await until(lambda: pods(worker) == charged(worker) == wanted)
        await worker.at_rest()
        assert used(worker) == (8 if room == 8 else 4)


async def test_a_request_that_is_withdrawn_in_time() -> None:
    """Nothing of it stays charged."""
    worker = Worker(4, **LOWER)
    async with worker.running():
        body = wide("a", 2)
        body["metadata"]["annotations"][Mirror.PRIORITY.value] = "5"
        worker.add(body, job("local", 2))
        await until(lambda: worker.started("a") and worker.started("local"))
        worker.run_pods("a", 2)
        worker.run_pods("local")
        ask(worker, 4)
        await until(lambda: not worker.started("local"))
        notes = {Mirror.GROW_TO.value: None}
        worker.fake.merge(JOBS, "a", {"metadata": {"annotations": notes}}, "team")
        worker.stopping("local", 0)
        await until(lambda: worker.started("local"), "it may run again")
        assert pods(worker) == 2
        await worker.at_rest()
        assert used(worker) == 4


@pytest.mark.parametrize("text", ["", "4", "{}", '{"parallelism": -1}', '{"parallelism": "4"}'])
async def test_a_request_that_nobody_can_read(text: str) -> None:
    """It changes nothing."""
    worker = Worker(4)
    async with worker.running():
        await running(worker)
        notes = {Mirror.GROW_TO.value: text}
        worker.fake.merge(JOBS, "a", {"metadata": {"annotations": notes}}, "team")
        await worker.at_rest()
        assert pods(worker) == 2
        assert used(worker) == 2


async def test_local_jobs_heed_no_request() -> None:
    """It is the manager's word; a local Job that is made larger queues again."""
    worker = Worker(4)
    async with worker.running():
        body = job("a")
        body["metadata"]["annotations"] = dict(ELASTIC)
        body["spec"] |= {"parallelism": 2, "completions": 50}
        worker.add(body)
        await until(lambda: worker.started("a"))
        ask(worker, 4)
        await worker.at_rest()
        assert pods(worker) == 2
