"""Local Jobs that wait for admission checks, with restarts before any write of the agent."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.types import FlavorResource
from federation.edge.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS
from tests.unit.manager.support import until
from tests.unit.worker_agent.lives import Lived
from tests.unit.worker_agent.support import custom, job

GPU = FlavorResource("f", "gpu")


def used(day: Lived) -> int:
    return day.agent.tree.usage("cq").get(GPU, 0)


def check(day: Lived, name: str) -> Any:
    (found,) = day.status(name)["admissionChecks"]
    return found


async def reserved(day: Lived, name: str) -> None:
    """It holds quota, and waits for its check."""
    await until(lambda: day.says(name, "QuotaReserved", True, "QuotaReserved"), "reserved")
    await until(
        lambda: day.status(name).get("admission") and day.status(name).get("admissionChecks")
    )
    assert day.says(name, "Admitted", False, "UnsatisfiedAdmissionChecks")
    await until(lambda: check(day, name)["state"] == "Pending")
    assert not day.started(name)


async def ready(day: Lived) -> None:
    """Reserved, then started with what the check adds; all of that is undone by an eviction."""
    day.add(job("a"))
    await reserved(day, "a")
    day.add(job("b"))
    await until(lambda: day.says("b", "QuotaReserved", False, "WaitingForQuota"))
    day.fake.delete(JOBS, "b", "team")
    day.later(500)
    update = {"name": "main", "labels": {"of": "check"}, "nodeSelector": {"pool": "x"}}
    day.answer("a", "Ready", podSetUpdates=[update])
    await day.runs("a")
    template = day.get("a")["spec"]["template"]
    assert template["metadata"]["labels"]["of"] == "check"
    assert template["spec"]["nodeSelector"] == {"card": "a100", "pool": "x"}
    assert not day.note_of("a", Mirror.RESERVATION)
    day.later(99)  # the limit for its pods counts from the start
    day.unready("a")
    await day.at_peace()
    assert day.started("a")
    day.stop_policy("HoldAndDrain")
    await day.stops("a")
    await day.evicted("a", "ClusterQueueStopped")
    await until(lambda: not day.note_of("a", Mirror.ADMISSION), "as it was")
    assert set(day.get("a")["metadata"]["annotations"]) == {Mirror.EVICTED.value}
    template = day.get("a")["spec"]["template"]
    assert "nodeSelector" not in template["spec"]
    assert "of" not in (template.get("metadata") or {}).get("labels", {})
    await until(lambda: check(day, "a")["state"] == "Pending")
    day.stop_policy("None")
    await reserved(day, "a")


async def retried(day: Lived) -> None:
    """Evicted, and out of the queue for as long as the check asks; its check starts over."""
    day.add(job("a"))
    await reserved(day, "a")
    day.answer("a", "Retry", requeueAfterSeconds=30)
    await day.evicted("a", "AdmissionCheck")
    assert check(day, "a")["state"] == "Pending"
    assert check(day, "a")["retryCount"] == 1
    assert day.status("a")["requeueState"]["requeueAt"] == "2026-01-01T00:00:30Z"
    day.later(29)
    await day.at_peace()
    assert not day.note_of("a", Mirror.RESERVATION)
    day.later(2)
    await reserved(day, "a")
    day.answer("a", "Ready")
    await day.runs("a")
    day.answer("a", "Retry", requeueAfterSeconds=10)
    await day.stops("a")
    await day.evicted("a", "AdmissionCheck")
    assert day.evictions("a") == [("AdmissionCheck", "", 2)]


async def rejected(day: Lived) -> None:
    """Deactivated for good; the next one gets the quota."""
    day.add(job("a"))
    await reserved(day, "a")
    day.add(job("b"))
    day.answer("a", "Rejected")
    await day.evicted("a", "DeactivatedDueToAdmissionCheck")
    assert day.workload("a")["spec"]["active"] is False
    await reserved(day, "b")


async def stopped(day: Lived) -> None:
    """Hold gives back what was only reserved."""
    day.add(job("a"))
    await reserved(day, "a")
    day.stop_policy("Hold")
    await until(lambda: day.says("a", "QuotaReserved", False, "Suspended"))
    assert not day.note_of("a", Mirror.RESERVATION)
    assert day.evictions("a") == []
    day.stop_policy("None")
    await reserved(day, "a")


async def switched(day: Lived) -> None:
    """A person deactivates what is only reserved."""
    day.add(job("a"))
    await reserved(day, "a")
    day.switch("a", False)
    await day.evicted("a", "Deactivated")
    day.switch("a", True)
    await reserved(day, "a")
    day.answer("a", "Ready")
    await day.runs("a")


STORIES = {
    "Ready": ready,
    "Retry": retried,
    "Rejected": rejected,
    "a stopped queue": stopped,
    "spec.active": switched,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STORIES)
async def test_a_story_with_a_restart_before_any_write(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the same, whichever write the agent does not come to."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.01)
    await Lived.relive(STORIES[name], check="budget")


async def test_what_is_reserved_is_charged() -> None:
    """Also after a restart; it can be preempted, and then starts over."""
    day = Lived(check="budget", spec={"preemption": {"withinClusterQueue": "LowerPriority"}})
    day.class_of("high", 10)
    async with day.living():
        day.add(job("a"))
        await reserved(day, "a")
    async with day.living():
        await until(lambda: used(day) == 1)
        day.add(job("urgent", of="high"))
        await until(lambda: day.says("a", "Evicted", True, "Preempted"))
        await until(lambda: day.says("a", "Requeued", True, "Preempted"))
        await reserved(day, "urgent")
        assert used(day) == 1
        assert not day.started("a")


async def test_updates_that_contradict_the_flavor() -> None:
    """It ends with FailedToStart, and what it reserved is free."""
    day = Lived(check="budget")
    async with day.living():
        day.add(job("a"))
        await reserved(day, "a")
        update = {"name": "main", "nodeSelector": {"card": "h100"}}
        day.answer("a", "Ready", podSetUpdates=[update])
        await until(lambda: day.says("a", "Finished", True, "FailedToStart"))
        await until(lambda: not used(day), "its quota is free")
        assert not day.started("a")


async def test_a_job_that_is_started_past_its_checks() -> None:
    """It is suspended, and begins again with a reservation when its pods are gone."""
    day = Lived(check="budget")
    async with day.living():
        day.add(job("a"))
        await reserved(day, "a")
        day.fake.merge(JOBS, "a", {"spec": {"suspend": False}}, "team")
        day.run_pods("a")
        await until(lambda: not day.started("a"), "suspended")
        assert not day.note_of("a", Mirror.RESERVATION)
        day.stopping("a", 0)
        await until(lambda: day.note_of("a", Mirror.RESERVATION), "reserved again")
        await until(lambda: used(day) == 1)
        await day.at_peace()
        assert not day.started("a")


async def test_a_job_that_ran_past_its_checks_unseen() -> None:
    """It was stopped again before the agent saw it: what it reserved is given back while its pods
    stop, and not used unasked when they are gone.
    """
    day = Lived(check="budget")
    async with day.living():
        day.add(job("a"))
        await reserved(day, "a")
    day.fake.merge(JOBS, "a", {"spec": {"suspend": False}}, "team")
    day.run_pods("a")
    day.fake.merge(JOBS, "a", {"spec": {"suspend": True}}, "team")
    day.stopping("a", 1)
    async with day.living():
        await until(lambda: not day.note_of("a", Mirror.RESERVATION), "given back")
        day.stopping("a", 0)
        await until(lambda: day.note_of("a", Mirror.RESERVATION), "reserved again")


async def test_the_checks_of_a_manager_are_none_here() -> None:
    """A Job that was submitted here does not wait for MultiKueue."""
    day = Lived(check="budget")
    day.fake.delete(ADMISSION_CHECKS, "budget")
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
    day.fake.create(ADMISSION_CHECKS, custom("AdmissionCheck", "budget", spec))
    async with day.living():
        day.add(job("a"))
        await until(lambda: day.started("a"))


async def test_a_check_that_is_missing_or_idle() -> None:
    """The queue admits nothing, and says so; when the check is dropped, it does."""
    day = Lived(check="budget")
    day.fake.delete(ADMISSION_CHECKS, "budget")
    async with day.living():
        day.add(job("a"))
        await until(lambda: day.says("a", "QuotaReserved", False, "Suspended"))
        day.fake.create(
            ADMISSION_CHECKS, custom("AdmissionCheck", "budget", {"controllerName": "c"})
        )
        await until(lambda: any("is not active" in w.message for w in day.agent.waits.values()))
        day.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"admissionChecksStrategy": None}})
        await until(lambda: day.started("a"))
