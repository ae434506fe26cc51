"""Copies that wait for admission checks of the worker, with restarts before any write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.types import FlavorResource
from federation.edge.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, WORKLOADS
from tests.unit.manager.support import until
from tests.unit.worker_agent.leased import Leased
from tests.unit.worker_agent.lives import Lived
from tests.unit.worker_agent.support import custom, job, mirrored
from worker_agent.facts import Stage, worker_job

GPU = FlavorResource("f", "gpu")
LOWER = {"preemption": {"withinClusterQueue": "LowerPriority"}}
OWN = {Mirror.LOCAL_UID, Mirror.ATTEMPT, Mirror.EPOCH, Mirror.QUEUED_AT, Mirror.PRIORITY}


def used(day: Lived) -> int:
    return day.agent.tree.usage("cq").get(GPU, 0)


def check(day: Lived, name: str) -> Any:
    (found,) = day.status(name)["admissionChecks"]
    return found


def notes(day: Lived, name: str) -> set[str]:
    return set(day.get(name)["metadata"]["annotations"])


async def waits(day: Lived, name: str) -> None:
    """Its Workload is there at once: quota and a Pending check; the manager is told on the copy."""
    await until(lambda: day.status(name).get("admission"), "a Workload with quota")
    await until(lambda: day.says(name, "QuotaReserved", True, "QuotaReserved"), "reserved")
    await until(lambda: day.status(name).get("admissionChecks"), "the checks")
    assert day.says(name, "Admitted", False, "UnsatisfiedAdmissionChecks")
    assert check(day, name)["state"] == "Pending"
    assert day.note_of(name, Mirror.WAITS_FOR) == 'AdmissionCheck in Pending state: "budget"'
    assert day.note_of(name, Mirror.DECIDING) == "2026-01-01T00:10:05Z"
    assert not day.answered(name)


async def says_no(day: Lived, name: str, reason: str, after: str = "") -> None:
    """One final answer, with which its quota is free."""
    await until(lambda: day.refused(name), "refused")
    assert day.refused(name).startswith(f"{reason}: ")
    assert day.note_of(name, Mirror.RETRY_AFTER) == after
    assert not day.started(name)
    left = notes(day, name) - {key.value for key in OWN}
    assert left == {Mirror.REFUSED.value} | ({Mirror.RETRY_AFTER.value} if after else set())
    await until(lambda: not day.agent.tree.usage("cq").get(GPU, 0), "its quota is free")


async def ready(day: Lived) -> None:
    """Started with what the check adds; what was noted of the wait goes with that."""
    day.add(mirrored("a", priority=7))
    await waits(day, "a")
    day.later(100)
    update = {
        "name": "main",
        "labels": {"of": "check"},
        "annotations": {"says": "check"},
        "nodeSelector": {"pool": "x"},
        "tolerations": [{"key": "new", "operator": "Exists"}],
    }
    day.answer("a", "Ready", podSetUpdates=[update])
    await until(lambda: day.started("a"), "started")
    template = day.get("a")["spec"]["template"]
    assert template["metadata"]["labels"]["of"] == "check"
    assert template["metadata"]["annotations"]["says"] == "check"
    assert template["spec"]["nodeSelector"] == {"card": "a100", "pool": "x"}
    assert template["spec"]["tolerations"] == [{"key": "new", "operator": "Exists"}]
    assert day.note_of("a", Mirror.PRIORITY) == "7"
    gone = (Mirror.WAITS_FOR, Mirror.DECIDING, Mirror.RESERVATION)
    assert not any(day.note_of("a", key) for key in gone)
    await until(lambda: day.says("a", "Admitted", True, "Admitted"), "admitted")


async def retried(day: Lived) -> None:
    """Refused, with the time that the check asks for."""
    day.add(mirrored("a"))
    await waits(day, "a")
    day.answer("a", "Retry", requeueAfterSeconds=30)
    await says_no(day, "a", "AdmissionCheck", "30")
    assert '"budget" (so)' in day.refused("a")


async def rejected(day: Lived) -> None:
    """Refused for good."""
    day.add(mirrored("a"))
    await waits(day, "a")
    day.answer("a", "Rejected")
    await says_no(day, "a", "AdmissionCheck", "never")
    assert '"budget" (so)' in day.refused("a")


async def contradicted(day: Lived) -> None:
    """The check wants other nodes than the flavor: no cluster state will change that."""
    day.add(mirrored("a"))
    await waits(day, "a")
    update = {"name": "main", "nodeSelector": {"card": "h100"}}
    day.answer("a", "Ready", podSetUpdates=[update])
    await says_no(day, "a", "FailedToStart", "never")


async def overdue(day: Lived) -> None:
    """The time that the manager was told is over, whoever counted it."""
    day.add(mirrored("a"))
    await waits(day, "a")
    day.later(599)
    await day.at_peace()
    assert not day.answered("a")
    day.later(1)
    await says_no(day, "a", "UnsatisfiedAdmissionChecks")
    assert "not Ready within 600 s" in day.refused("a")


async def stopped(day: Lived) -> None:
    """A stopped queue gives back what was only reserved."""
    day.add(mirrored("a"))
    await waits(day, "a")
    day.stop_policy("Hold")
    await says_no(day, "a", "Suspended")


async def revoked(day: Lived) -> None:
    """A check that takes its word back stops what runs; the manager reads for how long."""
    day.add(mirrored("a"))
    await waits(day, "a")
    day.answer("a", "Ready")
    await until(lambda: day.started("a"), "started")
    day.run_pods("a")
    await until(lambda: day.says("a", "Admitted", True, "Admitted"), "admitted")
    day.answer("a", "Retry", requeueAfterSeconds=10)
    await until(lambda: not day.started("a"), "stopped")
    assert '"AdmissionCheck"' in day.note_of("a", Mirror.EVICTED)
    assert day.note_of("a", Mirror.RETRY_AFTER) == "10"


async def forbidden(day: Lived) -> None:
    """One that rejects what runs stops it for good."""
    day.add(mirrored("a"))
    await waits(day, "a")
    day.answer("a", "Ready")
    await until(lambda: day.started("a"), "started")
    day.run_pods("a")
    await until(lambda: day.says("a", "Admitted", True, "Admitted"), "admitted")
    day.answer("a", "Rejected")
    await until(lambda: not day.started("a"), "stopped")
    assert '"DeactivatedDueToAdmissionCheck"' in day.note_of("a", Mirror.EVICTED)
    assert day.note_of("a", Mirror.RETRY_AFTER) == "never"


STORIES = {
    "Ready": ready,
    "Retry": retried,
    "Rejected": rejected,
    "a contradiction": contradicted,
    "no answer in time": overdue,
    "a stopped queue": stopped,
    "Retry of what runs": revoked,
    "Rejected while it runs": forbidden,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STORIES)
async def test_a_copy_waits_for_the_checks_of_the_worker(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the same, whichever write the agent does not come to."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.01)
    await Lived.relive(STORIES[name], check="budget")


async def test_what_it_waits_for_is_told_as_it_changes() -> None:
    """What the check says, in words, and at most every ten seconds."""
    day = Lived(check="budget")
    async with day.living():
        day.add(mirrored("a"))
        await waits(day, "a")

        def says(text: str) -> bool:
            return text in day.note_of("a", Mirror.WAITS_FOR)

        for text in ("nodes are coming", "2 of 3 nodes", "3 of 3 nodes"):
            day.answer("a", "Pending", message=text)
            if text != "nodes are coming":
                await day.at_peace()
                assert text not in day.note_of("a", Mirror.WAITS_FOR)
                day.later(10)
            await until(partial(says, text), text)


async def test_who_preempts_a_copy_that_waits() -> None:
    """It is refused, not stopped, and does not come back by itself."""
    day = Lived(check="budget", spec=LOWER)
    async with day.living():
        day.add(mirrored("a"))
        await waits(day, "a")
        day.add(mirrored("urgent", priority=10))
        await until(lambda: day.refused("a"), "refused")
        assert day.refused("a").startswith("Preempted: ")
        await until(lambda: day.note_of("urgent", Mirror.RESERVATION), "reserved")
        await day.at_peace()
        assert used(day) == 1


async def test_a_copy_that_is_started_past_its_checks() -> None:
    """It is suspended, and begins again with a reservation when its pods are gone."""
    day = Lived(check="budget")
    async with day.living():
        day.add(mirrored("a", priority=3))
        await waits(day, "a")
        day.fake.merge(JOBS, "a", {"spec": {"suspend": False}}, "team")
        day.run_pods("a")
        await until(lambda: not day.started("a"), "suspended")
        day.stopping("a", 0)
        await until(lambda: day.note_of("a", Mirror.RESERVATION), "reserved again")
        assert day.note_of("a", Mirror.PRIORITY) == "3"
        assert not day.started("a")


async def test_a_check_of_another_flavor() -> None:
    """It is none of this admission, so nothing is waited for."""
    day = Lived(check="budget")
    strategy = {"admissionChecks": [{"name": "budget", "onFlavors": ["other"]}]}
    day.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"admissionChecksStrategy": strategy}})
    async with day.living():
        day.add(mirrored("a"))
        await until(lambda: day.started("a"))
        assert not day.note_of("a", Mirror.DECIDING)


async def test_the_checks_of_a_manager_are_none_for_copies() -> None:
    """A worker that is a manager itself: MultiKueue is no check of what is to run here."""
    day = Lived(check="budget")
    day.fake.delete(ADMISSION_CHECKS, "budget")
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
    day.fake.create(ADMISSION_CHECKS, custom("AdmissionCheck", "budget", spec))
    async with day.living():
        day.add(mirrored("a"))
        await until(lambda: day.started("a"))


async def test_a_workload_that_somebody_deletes() -> None:
    """What the check had said is gone with it: it is asked again."""
    day = Lived(check="budget")
    async with day.living():
        day.add(mirrored("a"))
        await waits(day, "a")
        before = day.workload("a")["metadata"]
        day.fake.delete(WORKLOADS, before["name"], "team")
        await until(lambda: day.workload("a").get("metadata", before)["uid"] != before["uid"])
        await waits(day, "a")


async def lease_over(day: Leased) -> Callable[[], bool]:
    """It is not started while nobody knows what the manager thinks; then it goes on."""
    day.ends()
    day.answer("a", "Ready")
    await day.at_peace()
    assert not day.answered("a")
    day.renew()
    return lambda: day.started("a")


async def fenced(day: Leased) -> Callable[[], bool]:
    """The job is bound anew, in the epoch that the cluster comes back in."""
    day.ends()
    day.answer("a", "Ready")
    day.renew(2)
    return lambda: day.refused("a").startswith("Misconfigured: epoch 1 is over")


@pytest.mark.parametrize("end", [lease_over, fenced])
async def test_the_lease_of_a_cluster_where_a_copy_waits(end: Any) -> None:
    """Who waits for checks has not been started: nothing is to be stopped."""
    day = Leased(check="budget")
    async with day.living():
        day.offer("a")
        await waits(day, "a")
        found = worker_job(day.get("a"))
        assert found is not None
        assert found.stage is Stage.RESERVED
        holds = await end(day)
        await until(holds, end.__name__)
        await day.at_peace()
        assert day.started("a") is (end is lease_over)


async def test_a_local_job_and_a_copy_share_the_quota() -> None:
    """What a copy has reserved is charged like anything else, also after a restart."""
    day = Lived(check="budget")
    async with day.living():
        day.add(mirrored("a"))
        await waits(day, "a")
    async with day.living():
        await until(lambda: used(day) == 1)
        day.add(job("local"), mirrored("b"))
        await until(lambda: day.refused("b"), "no room")
        await until(lambda: day.says("local", "QuotaReserved", False, "WaitingForQuota"))
        day.fake.delete(JOBS, "a", "team")
        await until(lambda: day.note_of("local", Mirror.RESERVATION), "it is free")
