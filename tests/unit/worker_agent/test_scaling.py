"""Fewer pods: partial admission, and pods that need no quota any more."""

from __future__ import annotations

from typing import Any

from federation.api.names import Mirror
from federation.core.types import FlavorResource
from federation.edge.resources import JOBS
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, job, mirrored

GPU = FlavorResource("f", "gpu")
FEWEST = "kueue.x-k8s.io/job-min-parallelism"


def used(worker: Worker) -> int:
    return worker.agent.tree.usage("cq").get(GPU, 0)


def parallel(body: Any, pods: int, completions: int | None = None) -> Any:
    body["spec"] |= {"parallelism": pods, "completions": completions or pods}
    return body


async def test_fewer_pods_are_started_and_all_asked_for_again() -> None:
    """A local Job: parallelism is lowered at the start, and as before after a stop."""
    worker = Worker(3, preemption={"withinClusterQueue": "LowerPriority"})
    async with worker.running():
        worker.add(parallel(job("a", **{FEWEST: "2"}), 8))  # type: ignore[arg-type]
        await until(lambda: worker.started("a"))
        await worker.at_rest()
        assert worker.get("a")["spec"]["parallelism"] == 3
        assert used(worker) == 3
        worker.run_pods("a", 3)
        worker.add(mirrored("urgent", 3, priority=1))
        await until(lambda: not worker.started("a"))
        worker.stopping("a", 0)
        await until(lambda: worker.started("urgent"))
        await until(lambda: worker.get("a")["spec"]["parallelism"] == 8)


async def test_a_copy_with_fewer_pods() -> None:
    """It is admitted by the same rule; too few are refused."""
    worker = Worker(3)
    async with worker.running():
        worker.add(parallel(mirrored("enough", annotations={FEWEST: "3"}), 8))
        await until(lambda: worker.started("enough"))
        assert worker.get("enough")["spec"]["parallelism"] == 3
        worker.add(parallel(mirrored("few", annotations={FEWEST: "3"}), 8))
        await worker.until_answered("few")
        assert worker.refused("few")


async def test_pods_that_are_not_needed_any_more() -> None:
    """When fewer completions are left than pods were admitted, others get the quota."""
    worker = Worker(4)
    async with worker.running():
        worker.add(parallel(job("a"), 4))
        await until(lambda: worker.started("a"))
        worker.run_pods("a", 4)
        worker.add(job("next", 3))
        await worker.at_rest()
        assert not worker.started("next")
        worker.succeed("a", 3)
        await until(lambda: worker.started("next"))
        await worker.at_rest()
        assert used(worker) == 4


async def test_an_agent_that_restarts_counts_what_is_left() -> None:
    """From the Job's own status."""
    worker = Worker(4)
    async with worker.running():
        worker.add(parallel(job("a"), 4))
        await until(lambda: worker.started("a"))
    worker.run_pods("a", 4)
    worker.succeed("a", 3)
    async with worker.running():
        await worker.at_rest()
        await until(lambda: used(worker) == 1)


async def test_what_was_evicted_asks_for_what_is_left() -> None:
    """Two of three completions are done: one pod is asked for, and waits for the room of one."""
    worker = Worker(3, preemption={"withinClusterQueue": "LowerPriority"})
    async with worker.running():
        worker.add(parallel(job("a"), 3))
        await until(lambda: worker.started("a"))
        worker.run_pods("a", 3)
        worker.succeed("a", 2)
        await until(lambda: used(worker) == 1)
        worker.add(mirrored("urgent", 3, priority=1))
        await until(lambda: not worker.started("a"))
        worker.stopping("a", 0)
        await until(lambda: worker.started("urgent"))
        worker.end("urgent")
        await until(lambda: worker.started("a"))
        await worker.at_rest()
        assert used(worker) == 1
        assert worker.get("a")["spec"]["parallelism"] == 3


async def test_a_running_job_that_is_made_to_run_more_pods_queues_again() -> None:
    """With what it asks for now; fewer are no reason to stop."""
    worker = Worker(6)
    async with worker.running():
        worker.add(parallel(job("a"), 2, 50))
        await until(lambda: worker.started("a"))
        worker.run_pods("a", 2)
        worker.fake.merge(JOBS, "a", {"spec": {"parallelism": 1}}, "team")
        await worker.at_rest()
        assert worker.started("a")
        worker.fake.merge(JOBS, "a", {"spec": {"parallelism": 5}}, "team")
        await until(lambda: not worker.started("a"))
        assert "OutOfSync" in worker.note_of("a", Mirror.EVICTED)
        worker.stopping("a", 0)
        await until(lambda: worker.started("a"))
        assert used(worker) == 5
