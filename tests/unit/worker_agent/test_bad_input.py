"""What is missing, changed or wrong: a reason that can be read, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from federation.edge.resources import (
    CLUSTER_QUEUES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
)
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, custom, job, mirrored


def why(worker: Worker, name: str) -> str:
    return str(worker.agent.waits.get(worker.get(name)["metadata"]["uid"], ""))


async def test_a_priority_class_that_is_missing() -> None:
    """The Job waits and says so, nobody waits for it; it starts when the class is there."""
    worker = Worker(1)
    async with worker.running():
        worker.add(job("a", of="gold"))
        await until(lambda: "WorkloadPriorityClass gold does not exist" in why(worker, "a"))
        worker.add(job("b"))
        await until(lambda: worker.started("b"))
        worker.end("b")
        worker.class_of("gold", 7)
        await until(lambda: worker.started("a"))


async def test_a_priority_class_that_vanishes() -> None:
    """What runs keeps the priority that it was started with, also for the next agent."""
    worker = Worker(1, preemption={"withinClusterQueue": "LowerPriority"})
    worker.class_of("gold", 7)
    async with worker.running():
        worker.add(job("a", of="gold"))
        await until(lambda: worker.started("a"))
    worker.run_pods("a")
    worker.fake.delete(WORKLOAD_PRIORITY_CLASSES, "gold")
    async with worker.running():
        worker.add(mirrored("lower", priority=6))
        await worker.until_answered("lower")
        assert worker.refused("lower")
        worker.add(mirrored("higher", priority=8))
        await until(lambda: not worker.started("a"))


async def test_a_priority_class_that_changes() -> None:
    """What waits and what runs has the new value."""
    worker = Worker(1, preemption={"withinClusterQueue": "LowerPriority"})
    worker.class_of("gold", 7)
    async with worker.running():
        worker.add(job("a", of="gold"))
        await until(lambda: worker.started("a"))
        worker.run_pods("a")
        worker.fake.merge(WORKLOAD_PRIORITY_CLASSES, "gold", {"value": 1})
        await until(lambda: worker.agent.priority(next(iter(worker.agent.jobs.values())))[0] == 1)
        worker.add(mirrored("b", priority=5))
        await until(lambda: not worker.started("a"))


@pytest.mark.parametrize(
    ("resource", "name", "namespace"),
    [(LOCAL_QUEUES, "lq", "team"), (CLUSTER_QUEUES, "cq", ""), (RESOURCE_FLAVORS, "f", "")],
)
async def test_a_queue_that_vanishes_while_jobs_run_and_wait(
    resource: Any, name: str, namespace: str
) -> None:
    """What runs goes on, what waits says why; when it is back, the same is held and admitted."""
    worker = Worker(1)
    async with worker.running():
        worker.add(job("runs"))
        await until(lambda: worker.started("runs"))
        worker.run_pods("runs")
        worker.add(job("waits"))
        await until(lambda: "WaitingForQuota" in why(worker, "waits"))
        body = worker.fake.get(resource, name, namespace)
        worker.fake.delete(resource, name, namespace)
        await until(lambda: name in why(worker, "waits") and "Waiting" not in why(worker, "waits"))
        assert worker.started("runs")
        worker.fake.create(resource, {k: v for k, v in body.items() if k != "status"})
        await until(lambda: "WaitingForQuota" in why(worker, "waits"))
        worker.end("runs")
        await until(lambda: worker.started("waits"))


async def test_quota_lowered_below_what_is_used() -> None:
    """Nothing is stopped, nothing is admitted until enough has ended."""
    worker = Worker(2)
    async with worker.running():
        worker.add(job("a"), job("b"))
        await until(lambda: worker.started("a") and worker.started("b"))
        quotas = [{"name": "gpu", "nominalQuota": 1}]
        group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": quotas}]}
        worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": [group]}})
        worker.add(job("c"))
        worker.end("a")
        await worker.at_rest()
        assert not worker.started("c")
        worker.end("b")
        await until(lambda: worker.started("c"))


async def test_a_job_that_moves_to_another_queue() -> None:
    """Its label says where it waits."""
    worker = Worker(1)
    worker.fake.create(LOCAL_QUEUES, custom("LocalQueue", "other", {"clusterQueue": "no"}, "team"))
    async with worker.running():
        body = job("a")
        body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "other"
        worker.add(body)
        await until(lambda: "ClusterQueue no" in why(worker, "a"))
        worker.relabel("a", "lq")
        await until(lambda: worker.started("a"))


async def test_a_limit_range_that_appears() -> None:
    """Pods that it forbids are Misconfigured from then on; those that run go on."""
    worker = Worker(2)
    async with worker.running():
        worker.add(job("before", 2))
        await until(lambda: worker.started("before"))
        limits = {"spec": {"limits": [{"type": "Container", "max": {"gpu": "1"}}]}}
        meta = {"metadata": {"name": "small", "namespace": "team"}}
        worker.fake.create(LIMIT_RANGES, meta | limits)
        worker.add(job("after", 2))
        await until(lambda: "LimitRange" in why(worker, "after"))
        worker.end("before")
        await worker.at_rest()
        assert not worker.started("after")
        worker.fake.delete(LIMIT_RANGES, "small", "team")
        await until(lambda: worker.started("after"))


@pytest.mark.parametrize("status", [422, 403])
async def test_a_start_that_the_server_never_takes(status: int) -> None:
    """Refused for good: nothing is tried over and over, and the quota is free."""
    worker = Worker(1)
    async with worker.running():
        worker.fake.fail(
            lambda r: r.method == "PATCH" and b'"suspend":false' in r.content, status=status
        )
        worker.add(job("bad"))
        await until(lambda: worker.refused("bad"))
        assert worker.refused("bad").startswith("FailedToStart: ")
        worker.add(job("good"))
        await until(lambda: worker.started("good"))
        assert not worker.started("bad")
