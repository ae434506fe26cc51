"""The agent on a fake cluster: what it starts, refuses, suspends and lets wait."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.types import Admission, FlavorResource
from federation.edge.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, RESOURCE_FLAVORS
from federation.jobs import batch_job
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, job, mirrored, note

GPU = FlavorResource("f", "gpu")


def used(worker: Worker) -> int:
    return worker.agent.tree.usage("cq").get(GPU, 0)


def uid_of(worker: Worker, name: str) -> str:
    return str(worker.get(name)["metadata"]["uid"])


def charged(worker: Worker, name: str) -> Admission | None:
    return batch_job.decode_admission(worker.note_of(name, Mirror.ADMISSION))


async def test_a_copy_is_started() -> None:
    """One write: unsuspended, with the note of what was charged and the flavor's node label."""
    worker = Worker()
    async with worker.running():
        worker.add(mirrored("a", 2))
        await until(lambda: worker.started("a"))
        await worker.at_rest()
        assert worker.writes() == 1
        assert charged(worker, "a") == batch_job.decode_admission(note(2))
        template = worker.get("a")["spec"]["template"]["spec"]
        assert template["nodeSelector"] == {"card": "a100"}
        assert used(worker) == 2


REFUSALS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "more than there ever is": ({}, mirrored("x", 5), "ExceedsMaxQuota: "),
    "an epoch that is over": ({"epoch": 3}, mirrored("x", epoch=2), "epoch 2 is over"),
    "a request that cannot be read": ({}, mirrored("x", "some"), "Misconfigured: "),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_copy_is_refused(name: str) -> None:
    """With the reason and the numbers, in one write; nothing is charged."""
    settings, body, text = REFUSALS[name]
    worker = Worker()
    worker.epoch = settings.get("epoch", 1)
    async with worker.running():
        worker.add(body)
        await worker.until_answered("x")
        await worker.at_rest()
        assert text in worker.refused("x")
        assert worker.get("x")["spec"]["suspend"]
        assert worker.writes() == 1
        assert used(worker) == 0


async def test_no_room_now() -> None:
    """A copy does not wait here: it is refused at once, and not started when there is room."""
    worker = Worker(4)
    async with worker.running():
        worker.add(mirrored("first", 3))
        await until(lambda: worker.started("first"))
        worker.add(mirrored("second", 2))
        await worker.until_answered("second")
        assert worker.refused("second").startswith("WaitingForQuota: ")
        assert "1 more needed" in worker.refused("second")
        worker.end("first")
        await worker.at_rest()
        assert not worker.started("second")


@pytest.mark.parametrize(
    ("resource", "name", "namespace", "patch"),
    [
        (LOCAL_QUEUES, "lq", "team", None),
        (LOCAL_QUEUES, "lq", "team", {"spec": {"stopPolicy": "Hold"}}),
        (CLUSTER_QUEUES, "cq", "", None),
        (CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "Hold"}}),
        (CLUSTER_QUEUES, "cq", "", {"spec": {"namespaceSelector": None}}),
        (RESOURCE_FLAVORS, "f", "", None),
    ],
)
async def test_queues_that_take_nothing(
    resource: Any, name: str, namespace: str, patch: Any
) -> None:
    """Missing, stopped, not for this namespace: every copy gets an answer."""
    worker = Worker()
    if patch is None:
        worker.fake.delete(resource, name, namespace)
    else:
        worker.fake.merge(resource, name, patch, namespace)
    async with worker.running():
        worker.add(mirrored("x"))
        await worker.until_answered("x")
        assert worker.refused("x")


async def test_every_copy_of_a_blocked_queue_is_answered() -> None:
    """StrictFIFO: what stands behind a head that does not fit is refused, with its own numbers."""
    worker = Worker(4, queueingStrategy="StrictFIFO")
    worker.add(job("head", 9), mirrored("b", 1, at="2027-01-01T00:00:00Z"))
    worker.add(mirrored("c", 9, at="2027-01-02T00:00:00Z"))
    async with worker.running():
        await worker.until_answered("b", "c")
        assert "blocked by the head of its line" in worker.refused("b")
        assert "needs 9" not in worker.refused("b")
        assert worker.refused("c")


async def test_a_local_job_waits_and_starts() -> None:
    """When quota is free again; while it waits it is not written to."""
    worker = Worker(4)
    async with worker.running():
        worker.add(job("first", 3))
        await until(lambda: worker.started("first"))
        worker.add(job("second", 2))
        await worker.at_rest()
        assert not worker.started("second")
        assert worker.refused("second") == ""
        (wait,) = worker.agent.waits.values()
        assert "1 more needed" in wait.message
        worker.end("first")
        await until(lambda: worker.started("second"))
        assert worker.agent.waits == {}
        assert used(worker) == 2


async def test_more_quota_starts_what_waits() -> None:
    """A change of the queue is a reason to look again."""
    worker = Worker(1)
    async with worker.running():
        worker.add(job("big", 3))
        await worker.at_rest()
        quotas = [{"name": "gpu", "nominalQuota": 3}]
        group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": quotas}]}
        worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": [group]}})
        await until(lambda: worker.started("big"))


async def test_priority_order() -> None:
    """Of what comes together the highest priority first, then what was queued first."""
    worker = Worker(2)
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    worker.add(
        mirrored("low", priority=0, at=early),
        mirrored("late", priority=5, at=late),
        mirrored("early", priority=5, at=early),
    )
    async with worker.running():
        await worker.until_answered("low", "late", "early")
        assert [worker.started(n) for n in ("early", "late", "low")] == [True, True, False]


async def test_a_local_job_of_higher_priority_than_a_copy() -> None:
    """Both stand in one line."""
    worker = Worker(1)
    worker.add(mirrored("copy", priority=-1), job("local"))
    async with worker.running():
        await worker.until_answered("copy")
        assert worker.started("local")
        assert worker.refused("copy")


async def test_a_stray_job_is_suspended() -> None:
    """Started past the queue: stopped, and then in line like any other."""
    worker = Worker(1)
    async with worker.running():
        worker.add(job("first"))
        await until(lambda: worker.started("first"))
        worker.add(job("stray", suspend=False))
        await until(lambda: not worker.started("stray"))
        worker.end("first")
        await until(lambda: worker.started("stray"))
        assert charged(worker, "stray") == batch_job.decode_admission(note())


async def test_what_a_job_uses() -> None:
    """From the start until its pods are gone, also when it is suspended meanwhile."""
    worker = Worker(1)
    async with worker.running():
        worker.add(job("a"))
        await until(lambda: worker.started("a"))
        worker.run_pods("a")
        worker.fake.merge(JOBS, "a", {"spec": {"suspend": True}}, "team")
        await worker.at_rest()
        assert used(worker) == 1
        status = {"status": {"active": None, "ready": 0, "startTime": None}}
        worker.add(job("b"))
        await worker.at_rest()
        assert not worker.started("b")
        worker.fake.merge(JOBS, "a", status, "team", status=True)
        await until(lambda: worker.started("a") or worker.started("b"))
        await worker.at_rest()
        assert worker.started("a") != worker.started("b")
        assert used(worker) == 1


async def test_a_deleted_job_gives_its_quota_back() -> None:
    """At once; what waits starts."""
    worker = Worker(1)
    async with worker.running():
        worker.add(job("a"))
        await until(lambda: worker.started("a"))
        worker.add(job("b"))
        await worker.at_rest()
        worker.fake.delete(JOBS, "a", "team")
        await until(lambda: worker.started("b"))
        assert used(worker) == 1


@pytest.mark.parametrize("how", ["drop", "lost", "status"])
async def test_a_write_that_fails(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Job is decided on again; the quota is charged once."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.001)
    worker = Worker(2)
    worker.fake.fail(lambda request: request.method == "PATCH", how=how, times=2)
    async with worker.running():
        worker.add(mirrored("a", 2))
        await until(lambda: worker.started("a"))
        await worker.at_rest()
        assert used(worker) == 2


async def test_a_crash_between_decision_and_write() -> None:
    """The next agent finds the Job suspended and uncharged, and decides anew."""
    worker = Worker(2)
    worker.fake.fail(lambda request: request.method == "PATCH", how="hang", times=1)
    async with worker.running():
        worker.add(mirrored("a", 2))
        await until(lambda: used(worker) == 2)
        assert not worker.started("a")
    async with worker.running():
        await until(lambda: worker.started("a"))
        await worker.at_rest()
        assert used(worker) == 2


async def test_a_crash_after_the_write() -> None:
    """The next agent finds it started, and charges what the note says."""
    worker = Worker(4)
    async with worker.running():
        worker.add(mirrored("a", 3))
        await until(lambda: worker.started("a"))
    writes = worker.writes()
    async with worker.running():
        worker.add(mirrored("b", 2))
        await worker.until_answered("b")
        assert worker.refused("b")
        assert used(worker) == 3
        assert worker.writes() == writes + 1


async def test_deleted_between_decision_and_write() -> None:
    """The manager withdraws the offer at that moment: the agent goes on."""
    worker = Worker(100)
    async with worker.running() as agent:
        for n in range(60):
            worker.add(mirrored(f"j{n:02}"))
        await until(lambda: agent.scheduler.holder(uid_of(worker, "j59")))
        for n in range(59):
            worker.fake.delete(JOBS, f"j{n:02}", "team")
        await until(lambda: worker.started("j59"))
        worker.add(mirrored("later"))
        await until(lambda: worker.started("later"))
        await worker.at_rest()
        assert used(worker) == 2


async def test_a_flavor_deleted_between_decision_and_write() -> None:
    """The decision stands or is made again; the agent goes on."""
    worker = Worker(100)
    async with worker.running() as agent:
        worker.add(*(mirrored(f"j{n:02}") for n in range(60)))
        await until(lambda: agent.scheduler.holder(uid_of(worker, "j59")))
        worker.fake.delete(RESOURCE_FLAVORS, "f")
        await worker.until_answered(*(f"j{n:02}" for n in range(60)))


async def test_a_lower_attempt_is_refused() -> None:
    """Of two copies of one job the older one is never started."""
    worker = Worker(4)
    worker.add(mirrored("old", local_uid="u", attempt=1), mirrored("new", local_uid="u", attempt=2))
    async with worker.running():
        await worker.until_answered("old", "new")
        assert worker.started("new")
        assert "attempt 1 is superseded" in worker.refused("old")


async def test_an_attempt_that_comes_once_more_is_refused() -> None:
    """Its copy ran and was removed; then a create arrives that had been on its way all the time.
    The next attempt is welcome.
    """
    worker = Worker(4)
    worker.add(mirrored("j", local_uid="u", attempt=1))
    async with worker.running():
        await until(lambda: worker.started("j"))
        worker.fake.delete(JOBS, "j", "team")
        worker.add(mirrored("j", local_uid="u", attempt=1))
        await worker.until_answered("j")
        assert "attempt 1 is superseded, or has been here before" in worker.refused("j")
        worker.fake.delete(JOBS, "j", "team")
        worker.add(mirrored("j", local_uid="u", attempt=2))
        await until(lambda: worker.started("j"))


async def test_jobs_of_other_controllers() -> None:
    """Not looked at."""
    worker = Worker()
    other = job("other", suspend=False)
    other["spec"]["managedBy"] = "example.com/controller"
    worker.add(other)
    async with worker.running() as agent:
        worker.add(mirrored("a"))
        await until(lambda: worker.started("a"))
        assert len(agent.jobs) == 1
        assert worker.started("other")


HOSTILE = ["", "soon", "{}", "null", "-1", "9" * 5000, "1e999", "[" * 5000, note(-5), note(2**70)]


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_annotations(text: str) -> None:
    """Of somebody who may write Jobs: the agent goes on, and others' quota is what it was."""
    keys = ("attempt", "epoch", "queued-at", "priority", "deciding", "admission")
    forged = {f"fedq.io/{key}": text for key in keys}
    worker = Worker(2)
    async with worker.running():
        worker.add(job("local", 1, **forged))
        worker.add(mirrored("copy", 1, annotations=forged))
        running = job("running", 1, suspend=False, **forged)
        worker.add(running)
        await worker.at_rest()
        worker.add(mirrored("good", 1))
        await worker.until_answered("good")
        assert 0 <= used(worker) <= 2


async def test_a_note_alone_starts_nothing() -> None:
    """A suspended local Job with a forged note waits like any other."""
    worker = Worker(1)
    async with worker.running():
        worker.add(job("first"))
        await until(lambda: worker.started("first"))
        worker.add(job("forged", **{"fedq.io/admission": note(0)}))
        await worker.at_rest()
        assert not worker.started("forged")
        worker.end("first")
        await until(lambda: worker.started("forged"))
        assert batch_job.decode_admission(worker.note_of("forged", Mirror.ADMISSION))
        assert used(worker) == 1


async def test_late_news_of_a_deleted_job() -> None:
    """The answer to our own write, read after the watch told of the deletion, charges nothing."""
    worker = Worker()
    async with worker.running() as agent:
        worker.add(mirrored("a", 2))
        await until(lambda: worker.started("a"))
        await until(lambda: used(worker) == 2)
        started = worker.get("a")
        worker.fake.delete(JOBS, "a", "team")
        await until(lambda: not agent.jobs)
        agent.book.on_event("MODIFIED", started)
        assert not agent.jobs
        assert used(worker) == 0


async def test_decisions_count_an_event_that_only_confirms_the_answer_to_a_write() -> None:
    """The answer was read and decided on first: the watch brings nothing new but its version."""
    worker = Worker()
    async with worker.running() as agent:
        worker.add(mirrored("a"))
        await until(lambda: worker.started("a"))
        await worker.at_rest()
        body = deepcopy(worker.get("a"))
        version = agent.decided_version + 1
        body["metadata"]["resourceVersion"] = str(version)
        agent.book.see(body)
        await until(lambda: not (agent.state.dirty or agent.state.wake.is_set()))
        assert agent.decided_version < version
        agent.book.on_event("MODIFIED", body)
        assert agent.state.wake.is_set()  # at once: nothing else need ever happen
        await until(lambda: agent.decided_version == version)
