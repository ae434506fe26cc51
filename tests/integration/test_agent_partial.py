"""Partial admission and reclaimable pods on a real worker cluster."""

from __future__ import annotations

import pytest

from federation.edge.resources import JOBS
from fedq.stack import Stack
from tests.integration.agents import is_true, place, priority_class, running

pytestmark = pytest.mark.timeout(120)

FEWEST = {"kueue.x-k8s.io/job-min-parallelism": "2"}
EQUAL = {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}


async def test_fewer_pods_run_and_all_are_asked_for_again(agents: Stack) -> None:
    """Three of eight pods fit; after an eviction the Job is as it was submitted."""
    agents.apply("worker-1", [priority_class("urgent", 100)])
    crowd = place(agents, 3, preemption={"withinClusterQueue": "LowerPriority"})
    async with crowd.client:
        body = crowd.job("wide", pods=8, annotations=FEWEST | EQUAL, mode="Indexed")
        await crowd.submit(body)
        job = await crowd.until("wide", lambda job: (job["status"].get("active") or 0) == 3)
        assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (3, 3)
        await crowd.submit(crowd.job("urgent", cpu=3, of="urgent", seconds=2))
        await crowd.until("urgent", running)
        await crowd.until(
            "wide", lambda job: (job["spec"]["parallelism"], job["spec"]["completions"]) == (8, 8)
        )
        await crowd.until("wide", lambda job: (job["status"].get("active") or 0) == 3)


async def test_pods_that_are_done_make_room(agents: Stack) -> None:
    """Four pods, two ended and not replaced: their cores go to the next Job while it runs."""
    crowd = place(agents, 4)
    async with crowd.client:
        # Every pod of an Indexed Job runs for its own time: kwok reads it from the pod.
        await crowd.submit(crowd.job("shrinks", pods=4, seconds=3, mode="Indexed"))
        await crowd.until("shrinks", running)
        await crowd.submit(crowd.job("next", cpu=2, seconds=600))
        pods = await crowd.pods("shrinks")
        for pod in pods[:2]:
            long = {"metadata": {"annotations": {"fedq.io/run-seconds": "600"}}}
            from federation.edge.resources import PODS

            await crowd.client.patch(PODS, pod["metadata"]["name"], long, crowd.name)
        await crowd.until("next", running)
        still = await crowd.client.get(JOBS, "shrinks", crowd.name)
        assert still["status"]["active"] == 2
        assert not is_true("Complete")(still)
