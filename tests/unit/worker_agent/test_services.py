"""What the agent publishes: Workloads, the report, and its heartbeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from federation.api import record as records
from federation.api.names import FEDQ_NAMESPACE
from federation.edge.catalog import Catalog
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CLUSTER_QUEUES, JOBS, LEASES, WORKER_REPORTS, WORKLOADS
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker, job, mirrored
from worker_agent import heartbeat as heartbeats
from worker_agent.heartbeat import Heartbeat
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


def counted(status: Any) -> int:
    return int(status["countedResourceVersion"])


class Management:
    """The management cluster as the agent sees it: one Lease."""

    def __init__(self, *, epoch: str = "3") -> None:
        self.fake = FakeKube(namespaces=(FEDQ_NAMESPACE,))
        meta = {"name": "a", "namespace": FEDQ_NAMESPACE, "annotations": {"fedq.io/epoch": epoch}}
        self.lease = {"metadata": meta, "spec": {"leaseDurationSeconds": 120}}
        client = KubeClient(Endpoint("https://fake", name="m"), transport=self.fake)
        self.heartbeat = Heartbeat(client, "a", "agent-1")

    def stored(self) -> Any:
        return self.fake.get(LEASES, "a", FEDQ_NAMESPACE)


async def test_a_renewal() -> None:
    """Holder and time are written, the rest stays, and the epoch is the manager's."""
    management = Management()
    management.fake.create(LEASES, management.lease)
    assert await management.heartbeat._renew() == heartbeats.RENEW_S
    spec = management.stored()["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("agent-1", 120)
    assert spec["renewTime"].endswith("Z")
    assert management.heartbeat.epoch == 3
    assert management.heartbeat.renewed_at is not None


async def test_no_lease_yet() -> None:
    """The manager creates it; until then nothing is renewed and it is tried soon."""
    management = Management()
    assert await management.heartbeat._renew() == heartbeats.RETRY_S
    assert management.heartbeat.renewed_at is None
    management.fake.create(LEASES, management.lease)
    assert await management.heartbeat._renew() == heartbeats.RENEW_S


@pytest.mark.parametrize("how", ["drop", "lost", "status"])
async def test_an_unknown_outcome_extends_nothing(how: str) -> None:
    """Even if the write took hold: the deadline counts from the last answer."""
    management = Management()
    management.fake.create(LEASES, management.lease)
    await management.heartbeat._renew()
    before = management.heartbeat.renewed_at
    management.fake.fail(lambda request: request.method == "PUT", how=how)
    assert await management.heartbeat._renew() == heartbeats.RETRY_S
    assert management.heartbeat.renewed_at == before
    assert await management.heartbeat._renew() == heartbeats.RENEW_S


async def test_a_new_epoch_is_noticed() -> None:
    """The manager fences by a write to the Lease: the next renewal fails, the one after sees it."""
    management = Management()
    management.fake.create(LEASES, management.lease)
    await management.heartbeat._renew()
    fenced = {"metadata": {"annotations": {"fedq.io/epoch": "4"}}}
    management.fake.merge(LEASES, "a", fenced, FEDQ_NAMESPACE)
    assert await management.heartbeat._renew() == heartbeats.RETRY_S
    assert await management.heartbeat._renew() == heartbeats.RENEW_S
    assert management.heartbeat.epoch == 4


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
