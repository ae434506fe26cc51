"""What the agent publishes: Workloads and the report."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from federation.api import record as records
from federation.edge import kind_informers
from federation.edge.catalog import Catalog
from federation.edge.kind_informers import QUEUED, KindInformers
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    WORKER_REPORTS,
    WORKLOADS,
    resource_of,
)
from federation.jobs.kinds.registry import KINDS
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker, job, mirrored
from worker_agent.report import Reporter


def record_of(worker: Worker, name: str) -> Any:
    found = [
        records.read_record(obj)
        for obj in worker.fake.items(WORKLOADS)
        if obj["metadata"]["ownerReferences"][0]["name"] == name
    ]
    return found[0] if found else None


async def test_workloads_follow_the_jobs() -> None:
    """Admitted with what was charged; waiting with the reason; finished; gone with the Job."""
    worker = Worker(2)
    async with worker.running():
        task = asyncio.create_task(worker.workloads.run())
        try:
            worker.add(job("a", 2))
            await until(
                lambda: (found := record_of(worker, "a")) and found.life.admitted, "admitted"
            )
            assert sum(record_of(worker, "a").admission.usage().values()) == 2
            worker.add(job("b", 1))
            await until(lambda: (found := record_of(worker, "b")) and found.reason, "reason")
            assert record_of(worker, "b").reason == "WaitingForQuota"
            worker.end("a")
            await until(lambda: record_of(worker, "a").finished, "finished")
            await until(lambda: record_of(worker, "b").life.admitted, "admitted in turn")
            worker.fake.delete(JOBS, "b", "team")
            await until(lambda: record_of(worker, "b") is None, "gone")
        finally:
            await stop([task])


async def test_a_workload_that_somebody_deletes() -> None:
    """It is written again: people and tools look for it."""
    worker = Worker(2)
    async with worker.running():
        task = asyncio.create_task(worker.workloads.run())
        try:
            worker.add(job("a"))
            await until(lambda: (found := record_of(worker, "a")) and found.life.admitted)
            name = worker.fake.items(WORKLOADS)[0]["metadata"]["name"]
            worker.fake.delete(WORKLOADS, name, "team")
            await until(lambda: (found := record_of(worker, "a")) and found.life.admitted)
        finally:
            await stop([task])


def reported(worker: Worker) -> Any:
    found = worker.fake.items(WORKER_REPORTS)
    return found[0].get("status") if found else None


async def test_the_report() -> None:
    """What is free, what is used, which door leads where, and up to which version it counts."""
    worker = Worker(4)
    async with worker.running() as agent:
        client = KubeClient(Endpoint("https://fake", name="a"), transport=worker.fake)
        reporter = Reporter(client, agent.state.catalog, agent, "a")
        task = asyncio.create_task(reporter.run())
        try:
            worker.add(mirrored("a", 3))
            await until(lambda: worker.started("a"))
            version = int(worker.get("a")["metadata"]["resourceVersion"])
            await until(lambda: (s := reported(worker)) and counted(s) >= version, "counted")
        finally:
            await stop([task])
    status = reported(worker)
    assert status["localQueues"] == [{"namespace": "team", "name": "lq", "clusterQueue": "cq"}]
    (queue,) = status["clusterQueues"]
    assert (queue["name"], queue["active"]) == ("cq", True)
    assert queue["resources"] == [
        {"flavor": "f", "resource": "gpu", "nominal": "4", "used": "3", "available": "1"}
    ]


async def test_the_report_tells_of_kinds_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one whose CRD came later, although nothing is decided about it."""
    monkeypatch.setattr(kind_informers, "DISCOVER_S", 0.1)
    worker, jobset = Worker(), KINDS["JobSet.v1alpha2.jobset.x-k8s.io"]
    worker.fake.discovery = True
    async with worker.running() as agent:
        client = KubeClient(Endpoint("https://fake", name="a"), transport=worker.fake)
        kinds = KindInformers(client, [jobset], agent.book.of, select=QUEUED)
        reporter = Reporter(client, agent.state.catalog, agent, "a", kinds=kinds)
        tasks = [asyncio.create_task(part.run()) for part in (reporter, kinds)]
        try:
            agent.quotas_changed()
            await until(lambda: (s := reported(worker)) and s["kinds"] == [], "none")
            worker.fake.resources.append(resource_of(jobset))
            await until(lambda: reported(worker)["kinds"] == [jobset.name], "it is told")
        finally:
            await stop(tasks)


def counted(status: Any) -> int:
    return int(status["countedResourceVersion"])


async def test_the_catalog_leaves_out_what_it_cannot_read() -> None:
    """A queue with a bad quantity does not take the others with it."""
    worker = Worker()
    async with worker.running() as agent:
        catalog: Catalog = agent.state.catalog
        quotas = [{"name": "gpu", "nominalQuota": "lots"}]
        group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": quotas}]}
        bad = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "bad"},
            "spec": {"resourceGroups": [group]},
        }
        worker.fake.create(CLUSTER_QUEUES, bad)
        await until(lambda: catalog.unreadable)
        assert list(catalog.queues) == ["cq"]
