"""Preemption on a real worker cluster: who is stopped, when others start, how it returns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.edge.resources import JOBS
from federation.jobs.eviction_note import read_eviction
from fedq.stack import Stack
from tests.integration.agents import Place, is_true, place, priority_class, running

pytestmark = pytest.mark.timeout(120)


def note(job: Any, key: Mirror) -> str:
    return str((job["metadata"].get("annotations") or {}).get(key.value, ""))


@pytest.fixture
async def crowded(agents: Stack) -> AsyncIterator[Place]:
    """A queue of four cores in which higher priorities preempt."""
    agents.apply("worker-1", [priority_class("urgent", 100)])
    found = place(agents, 4, preemption={"withinClusterQueue": "LowerPriority"})
    async with found.client:
        yield found


async def test_a_victim_stops_and_runs_again(crowded: Place) -> None:
    """The preemptor starts when the pods of the victim are gone, and not before."""
    await crowded.submit(crowded.job("victim", pods=2, cpu=2, stop=2))
    await crowded.until("victim", running)
    await crowded.submit(crowded.job("urgent", cpu=4, of="urgent", seconds=2))

    stopping = await crowded.until("victim", lambda job: job["spec"]["suspend"])
    eviction = read_eviction(stopping)
    assert eviction is not None
    assert eviction.cause == "InClusterQueue"
    evicted = await crowded.workload("victim", is_true("Evicted", "Preempted"))
    assert is_true("Preempted", "InClusterQueue")(evicted)
    await crowded.until("urgent", running)
    assert not any(pod["status"]["phase"] == "Running" for pod in await crowded.pods("victim"))
    await crowded.workload("victim", is_true("Requeued", "Preempted"))

    restored = await crowded.until("victim", lambda job: not note(job, Mirror.ADMISSION))
    assert restored["spec"]["suspend"]
    assert "startTime" not in restored["status"]
    await crowded.until("urgent", is_true("Complete"))
    await crowded.until("victim", running)
    again = await crowded.workload("victim", is_true("Evicted", "QuotaReserved", "False"))
    assert is_true("Admitted")(again)


async def test_a_copy_waits_for_its_victims(crowded: Place) -> None:
    """It says that it is deciding, and starts; a copy that is a victim is left to its manager."""
    await crowded.submit(crowded.copy("low", cpu=4, stop=2))
    await crowded.until("low", running)
    await crowded.submit(crowded.copy("high", cpu=4, priority=7))
    await crowded.until("high", lambda job: note(job, Mirror.DECIDING))
    started = await crowded.until("high", running)
    assert not note(started, Mirror.DECIDING)
    assert not note(started, Mirror.REFUSED)

    left = await crowded.client.get(JOBS, "low", crowded.name)
    assert left["spec"]["suspend"]
    assert note(left, Mirror.ADMISSION)
    assert read_eviction(left)
    assert not left["status"].get("active")


async def test_an_agent_that_is_killed_while_a_victim_stops(crowded: Place, agents: Stack) -> None:
    """The next one knows from the Jobs what is being stopped for whom."""
    await crowded.submit(crowded.job("victim", cpu=4, stop=3))
    await crowded.until("victim", running)
    await crowded.submit(crowded.copy("urgent", cpu=4, priority=7))
    await crowded.until("victim", lambda job: job["spec"]["suspend"])
    agents.rig.stop_process("agent/worker-1", grace=0)
    agents.start_agent("worker-1")
    await crowded.until("urgent", running)
    await crowded.until("victim", lambda job: not note(job, Mirror.ADMISSION))
