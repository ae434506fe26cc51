"""What ends the stay of a local Job, and what lets it queue again; with restarts in between.

Each story is told on a fake clock, once without harm and then once for every write of the agent,
which is killed before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from federation.core.controls import Deactivate
from federation.core.policies import PodsReady, Retention, Rules
from federation.core.types import FlavorResource
from federation.edge.resources import JOBS, WORKLOADS
from federation.jobs.eviction_note import read_eviction
from tests.unit.manager.support import until
from tests.unit.worker_agent.lives import Lived
from tests.unit.worker_agent.support import job, mirrored
from worker_agent.state import Order

GPU = FlavorResource("f", "gpu")
Story = Callable[[Lived], Awaitable[None]]


async def unready(day: Lived) -> None:
    """Evicted after the timeout, out of the queue for the backoff, then admitted again."""
    await day.runs("a", ready=False)
    day.later(101)
    await day.stops("a")
    await day.evicted("a", "PodsReadyTimeout")
    state = day.status("a")["requeueState"]
    assert (state["count"], state["requeueAt"]) == (1, "2026-01-01T00:01:52Z")
    day.later(9)
    await day.at_peace()
    assert not day.started("a")
    day.later(5)
    await day.runs("a")
    assert day.says("a", "Requeued", True, "BackoffFinished")
    assert day.says("a", "Evicted", False, "QuotaReserved")
    assert day.status("a")["requeueState"] == {"count": 1}
    assert day.evictions("a") == [("PodsReadyTimeout", "WaitForStart", 1)]


async def too_often(day: Lived) -> None:
    """One time more than the limit deactivates it; its requeueState is gone."""
    for again in range(3):
        await day.runs("a", ready=False)
        day.later(101)
        await day.stops("a")
        if again < 2:
            await day.evicted("a", "PodsReadyTimeout")
            day.later(30)
    await day.evicted("a", "DeactivatedDueToRequeuingLimitExceeded")
    await until(lambda: day.says("a", "QuotaReserved", False, "Deactivated"))
    assert day.workload("a")["spec"]["active"] is False
    assert "requeueState" not in day.status("a")
    assert not any(c["type"] == "DeactivationTarget" for c in day.status("a")["conditions"])
    assert day.evictions("a") == [
        ("PodsReadyTimeout", "WaitForStart", 2),
        ("Deactivated", "RequeuingLimitExceeded", 1),
    ]


async def recovery(day: Lived) -> None:
    """Pods that were ready have the time to recover, from the moment when that was noted."""
    await day.runs("a")
    day.later(1000)
    day.unready("a")
    await until(lambda: day.says("a", "PodsReady", False, "WaitForRecovery"))
    day.later(49)
    await day.at_peace()
    assert day.started("a")
    day.later(2)
    await day.stops("a")
    await day.evicted("a", "PodsReadyTimeout")
    assert day.evictions("a") == [("PodsReadyTimeout", "WaitForRecovery", 1)]


async def too_long(day: Lived) -> None:
    """Its time is over: deactivated; the time of earlier runs counts, and is forgotten then."""
    await day.runs("a", limit=100)
    day.later(60)
    day.stop_policy("HoldAndDrain")
    await day.stops("a")
    await day.evicted("a", "ClusterQueueStopped")
    assert day.status("a")["accumulatedPastExecutionTimeSeconds"] == 60
    day.stop_policy("None")
    await day.runs("a")
    day.later(39)
    await day.at_peace()
    assert day.started("a")
    day.later(2)
    await day.stops("a")
    await day.evicted("a", "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert "accumulatedPastExecutionTimeSeconds" not in day.status("a")


async def switched(day: Lived) -> None:
    """Deactivated by a person, and activated again: it runs; while it waits, the same."""
    await day.runs("a")
    day.switch("a", False)
    await day.stops("a")
    await day.evicted("a", "Deactivated")
    await until(lambda: day.says("a", "QuotaReserved", False, "Deactivated"))
    day.later(100000)
    await day.at_peace()
    assert not day.started("a")
    day.switch("a", True)
    await day.runs("a")
    assert day.says("a", "Requeued", True, "Reactivated")
    day.add(job("b"))
    await until(lambda: day.says("b", "QuotaReserved", False, "WaitingForQuota"))
    day.switch("b", False)
    await day.evicted("b", "Deactivated")
    day.end("a")
    await until(lambda: day.says("a", "Finished", True, "Succeeded"))
    await day.at_peace()
    assert not day.started("b")
    day.switch("b", True)
    await until(lambda: day.started("b"))


def drained(local: bool) -> Story:
    """Hold lets it run; HoldAndDrain stops it; it queues again when the queue is restarted."""
    kind = "LocalQueue" if local else "ClusterQueue"

    async def story(day: Lived) -> None:
        await day.runs("a")
        day.stop_policy("Hold", local=local)
        day.add(job("b"))
        await until(lambda: day.says("b", "QuotaReserved", False, "Suspended"))
        await day.at_peace()
        assert day.started("a")
        day.stop_policy("HoldAndDrain", local=local)
        await day.stops("a")
        await day.evicted("a", f"{kind}Stopped")
        day.stop_policy("Hold", local=local)
        await day.at_peace()
        assert not day.started("a")
        day.stop_policy("None", local=local)
        await until(lambda: day.says("a", "Requeued", True, f"{kind}Restarted"))
        await until(lambda: day.started("a") or day.started("b"))

    return story


STORIES: dict[str, Story] = {
    "unready pods": unready,
    "unready too often": too_often,
    "pods that do not recover": recovery,
    "execution time": too_long,
    "spec.active": switched,
    "a drained ClusterQueue": drained(False),
    "a drained LocalQueue": drained(True),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STORIES)
async def test_a_story_with_a_restart_before_any_write(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the same, whichever write the agent does not come to."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.01)
    await Lived.relive(STORIES[name])


async def test_a_queue_timestamp_survives() -> None:
    """Evicted for unready pods, it goes behind what was created meanwhile, also after a restart."""
    day = Lived()
    async with day.living():
        await day.runs("a", ready=False)
        day.later(50)
        day.add(job("b"))
        day.later(51)
        await day.stops("a")
        await day.evicted("a", "PodsReadyTimeout")
        await day.runs("b")
        day.later(30)
        day.add(job("c"))
        await day.at_peace()
    async with day.living():
        await until(lambda: len(day.agent.scheduler.items) == 2)
        day.end("b")
        await until(lambda: day.started("a"))


async def test_a_target_that_somebody_sets() -> None:
    """DeactivationTarget deactivates a workload for its reason."""
    day = Lived()
    async with day.living():
        await day.runs("a")
        conditions = day.status("a")["conditions"]
        target = {
            "type": "DeactivationTarget", "status": "True", "reason": "AdmissionCheck",
            "message": "no", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        body = {"status": {"conditions": [*conditions, target]}}
        name = day.workload("a")["metadata"]["name"]
        day.fake.merge(WORKLOADS, name, body, "team", status=True)
        await day.stops("a")
        await day.evicted("a", "DeactivatedDueToAdmissionCheck")


async def test_a_deactivation_comes_before_a_preemption() -> None:
    """Of a Job that is about to be stopped, and has yet to be seen to have started."""
    day = Lived(spec={"preemption": {"withinClusterQueue": "LowerPriority"}})
    day.class_of("high", 10)
    async with day.living():
        day.add(job("a"))
        await until(lambda: day.says("a", "Admitted", True, "Admitted"))
        day.add(job("urgent", of="high"))
        await until(lambda: day.agent.state.evicting, "to be preempted")
        day.switch("a", False)
        await until(
            lambda: any(e.reason == "Deactivated" for e in day.agent.state.evicting.values())
        )
        day.run_pods("a")
        await day.stops("a")
        await day.evicted("a", "Deactivated")
        assert day.evictions("a") == [("Deactivated", "", 1)]


async def test_an_order_for_an_older_workload() -> None:
    """Is not carried out: the rules are asked again."""
    day = Lived()
    async with day.living():
        await day.runs("a")
        uid = day.get("a")["metadata"]["uid"]
        day.agent.state.orders[uid] = Order(1, Deactivate("AdmissionCheck", "no"))
        day.workloads.mark(uid)
        await until(lambda: uid not in day.agent.state.orders)
        await day.at_peace()
        assert day.started("a")
        assert not any(c["type"] == "DeactivationTarget" for c in day.status("a")["conditions"])


async def test_a_copy_leaves_a_drained_queue_and_nothing_else() -> None:
    """Stopped with the reason for its manager; its time and its pods are not judged here."""
    day = Lived()
    body = mirrored("copy")
    body["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "10"
    async with day.living():
        day.add(body)
        await until(lambda: day.started("copy"))
        day.unready("copy")
        day.later(5000)
        day.stop_policy("Hold")
        await day.at_peace()
        assert day.started("copy")
        day.stop_policy("HoldAndDrain")
        await day.stops("copy")
        await until(lambda: read_eviction(day.get("copy")) is not None)
        assert read_eviction(day.get("copy")).reason == "ClusterQueueStopped"  # type: ignore[union-attr]
        await until(lambda: not day.agent.tree.usage("cq").get(GPU, 0), "its quota is free")
        day.add(mirrored("other"))
        await day.until_answered("other")
        assert day.refused("other").startswith("Suspended: ")


async def test_one_is_admitted_after_the_pods_of_another_are_ready() -> None:
    """waitForPodsReady.blockAdmission."""
    day = Lived(2, rules=Rules(block_admission=True), pods_ready=PodsReady(block_admission=True))
    async with day.living():
        await day.runs("a", ready=False)
        day.add(job("b"))
        await until(lambda: day.says("b", "QuotaReserved", False, "WaitingForPodsReady"))
        day.run_pods("a")
        await until(lambda: day.started("b"))


async def test_unready_pods_are_let_be() -> None:
    """Without waitForPodsReady nothing times out."""
    day = Lived(pods_ready=None)
    async with day.living():
        await day.runs("a", ready=False)
        day.later(1e6)
        await day.at_peace()
        assert day.started("a")


async def test_a_finished_workload_is_deleted_in_time() -> None:
    """After the time that it is kept; it is not made again."""
    day = Lived(retention=Retention(after_finished_s=60))
    async with day.living():
        await day.runs("a")
        day.end("a")
        await until(lambda: day.says("a", "Finished", True, "Succeeded"))
        day.later(59)
        await day.at_peace()
        assert day.workload("a")
        day.later(2)
        await until(lambda: not day.workload("a"))
    async with day.living():
        await day.at_peace()
        assert not day.workload("a")


@pytest.mark.parametrize("by_queue", [True, False])
async def test_a_deactivated_job_is_deleted_in_time(by_queue: bool) -> None:
    """One that the queue deactivated; one that a person did is kept."""
    day = Lived(retention=Retention(after_deactivated_s=60))
    async with day.living():
        await day.runs("a", limit=10)
        if by_queue:
            day.later(11)
        else:
            day.switch("a", False)
        await day.stops("a")
        await until(lambda: day.says("a", "QuotaReserved", False, "Deactivated"))
        day.later(61)
        await day.at_peace()
        assert len(day.fake.items(JOBS)) == (0 if by_queue else 1)
