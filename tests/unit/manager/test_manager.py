"""The whole manager in one process, against fake API servers and an agent that the test plays."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from federation.api import record as records
from federation.api.names import FEDQ_NAMESPACE, Mirror
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    SECRETS,
    WORKER_REPORTS,
    WORKLOADS,
)
from federation.jobs import batch_job
from manager.app import Manager
from manager.cluster_worker import ClusterWorker
from manager.local_runtime import _TaskHandle
from manager.protocol import ClusterSpec, WorkerHandle
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import FillableMemory, stop, until
from tests.unit.worker_agent.support import Worker, custom, job, queue_objects

Json = dict[str, Any]
ORIGIN = "origin"


class FakeRuntime:
    """As LocalRuntime, with a fake cluster for each name instead of a kubeconfig."""

    name = "fake"

    def __init__(self, clusters: dict[str, Worker]) -> None:
        self.clusters = clusters
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        fake = self.clusters[spec.name].fake
        client = KubeClient(Endpoint("https://fake", name=spec.name), transport=fake)
        worker = ClusterWorker(spec, client)
        task = asyncio.create_task(worker.run())
        self.tasks.append(task)
        return _TaskHandle(worker, task)

    async def aclose(self) -> None:
        await stop(self.tasks)


class Federation:
    """A management cluster, its workers, and a manager that can be restarted."""

    def __init__(self, *names: str) -> None:
        self.home = FakeKube(namespaces=("team", FEDQ_NAMESPACE))
        queue_objects(self.home, 8)
        self.workers = {name: Worker(4) for name in names}
        self.manager: Manager = None  # type: ignore[assignment]
        self.index = FillableMemory()
        for name in names:
            self._join(name)

    def _join(self, name: str) -> None:
        secret = {"metadata": {"name": name, "namespace": FEDQ_NAMESPACE}}
        data = {"kubeconfig": base64.b64encode(b"x").decode()}
        self.home.create(SECRETS, {**secret, "data": data})
        source = {"clusterSource": {"kubeConfig": {"location": name, "locationType": "Secret"}}}
        self.home.create(MULTIKUEUE_CLUSTERS, custom("MultiKueueCluster", name, source))
        lease = {"metadata": secret["metadata"], "spec": {"renewTime": "2026-01-01T00:00:00Z"}}
        self.home.create(LEASES, lease)
        self.report(name)

    def report(self, name: str, available: int = 4) -> None:
        """The agent's report, as of now."""
        fake = self.workers[name].fake
        amounts = {"nominal": "4", "used": str(4 - available), "available": str(available)}
        status = {
            "countedResourceVersion": str(fake.objects.version),
            "localQueues": [{"namespace": "team", "name": "lq", "clusterQueue": "cq"}],
            "clusterQueues": [
                {"name": "cq", "resources": [{"flavor": "f", "resource": "gpu", **amounts}]}
            ],
        }
        if not fake.items(WORKER_REPORTS):
            fake.create(WORKER_REPORTS, {"kind": "WorkerReport", "metadata": {"name": name}})
        fake.merge(WORKER_REPORTS, name, {"status": status}, status=True)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Manager]:
        client = KubeClient(Endpoint("https://home", name="home"), transport=self.home)
        runtime = FakeRuntime(self.workers)
        self.manager = manager = Manager(client, self.index, runtime, ORIGIN)
        task = asyncio.create_task(manager.run())
        try:
            await until(lambda: manager.ready or task.done(), "the manager is ready")
            yield manager
            assert not task.done(), task
        finally:
            await stop([task])
            await runtime.aclose()
            await client.aclose()

    # People

    def submit(self, name: str = "j", gpus: int = 1) -> str:
        body = job(name, gpus)
        body["spec"]["managedBy"] = batch_job.MANAGED_BY
        return str(self.home.create(JOBS, body)["metadata"]["uid"])

    def local(self, name: str = "j") -> Json:
        return self.home.get(JOBS, name, "team")

    def record(self, name: str = "j") -> Any:
        for obj in self.home.items(WORKLOADS):
            if obj["metadata"]["ownerReferences"][0]["name"] == name:
                return records.read_record(obj)
        return None

    # Agents

    def copy(self, name: str = "j") -> tuple[str, Json] | None:
        """The cluster that has a copy."""
        for cluster, worker in self.workers.items():
            found = worker.fake.objects.data.get(JOBS, {}).get(("team", name))
            if found is not None:
                return cluster, found
        return None

    async def offered(self, name: str = "j") -> Worker:
        await until(lambda: self.copy(name), f"an offer of {name}")
        found = self.copy(name)
        assert found is not None
        return self.workers[found[0]]

    @staticmethod
    def start(worker: Worker, name: str = "j") -> None:
        worker.fake.merge(JOBS, name, {"spec": {"suspend": False}}, "team")

    @staticmethod
    def refuse(worker: Worker, name: str = "j") -> None:
        notes = {Mirror.REFUSED.value: "WaitingForQuota: no room"}
        worker.fake.merge(JOBS, name, {"metadata": {"annotations": notes}}, "team")


def writes(fake: FakeKube) -> Counter[str]:
    """Changing requests by method and resource, Leases and the statuses of queues apart."""
    return Counter(
        f"{method} {kind}"
        for method, path in fake.log
        for kind in ("jobs", "workloads")
        if method != "GET" and f"/{kind}" in path.partition("?")[0]
    )


async def test_the_whole_way() -> None:
    """Submitted → bound → offered → admitted → status → complete → copy removed."""
    world = Federation("a")
    async with world.running():
        world.submit()
        worker = await world.offered()
        assert world.record().binding.cluster == "a"
        assert worker.get("j")["spec"]["suspend"]
        world.start(worker)
        await until(lambda: world.record().admitted, "admitted")
        await until(lambda: not world.local()["spec"]["suspend"], "started here")
        worker.run_pods("j")
        await until(lambda: world.local()["status"].get("active") == 1, "status")
        worker.end("j")
        await until(lambda: world.record().finished, "finished")
        await until(lambda: world.copy() is None, "removed")
        assert batch_job.finished(world.local()["status"]) == "Complete"
        assert dict(world.manager.controller.tree.usage("cq")) in ({}, {("f", "gpu"): 0})
        assert world.manager.queue.items == {}
    assert sum(writes(world.home).values()) <= 7, writes(world.home)
    assert writes(worker.fake) == {"POST jobs": 1, "DELETE jobs": 1}


async def test_refused_and_placed_elsewhere() -> None:
    """Attempt 2, on the other cluster; nothing is left on the first."""
    world = Federation("a", "b")
    async with world.running():
        world.submit()
        first = await world.offered()
        world.refuse(first)
        await until(lambda: world.record().attempt == 2, "the next attempt")
        await until(lambda: world.record().binding is not None, "bound")
        assert world.workers[world.record().binding.cluster] is not first
        await until(lambda: first.fake.items(JOBS) == [], "removed")


async def test_deleted_while_it_runs() -> None:
    """The copy goes, the Workload goes, the quota is free, nothing is remembered."""
    world = Federation("a")
    async with world.running():
        world.submit()
        world.start(await world.offered())
        await until(lambda: world.record().admitted)
        world.home.delete(JOBS, "j", "team")
        await until(lambda: world.copy() is None, "the copy is removed")
        await until(lambda: world.manager.controller.states == {}, "it is forgotten")
        assert world.home.items(WORKLOADS) == []


@pytest.mark.parametrize("phase", ["waiting", "offered", "running", "ended"])
async def test_restarted(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new manager goes on from the record and the copies, and writes nothing twice."""
    monkeypatch.setattr("manager.effects.AFTER_REFUSED_WRITE_S", 0.05)  # until its links are up
    world = Federation("a")
    worker = world.workers["a"]
    async with world.running():
        if phase == "waiting":
            world.home.merge(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "Hold"}}, "team")
        world.submit()
        await until(lambda: world.record() is not None)
        if phase != "waiting":
            await world.offered()
        if phase in ("running", "ended"):
            world.start(worker)
            await until(lambda: not world.local()["spec"]["suspend"])
    if phase == "waiting":
        world.home.merge(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "None"}}, "team")
    if phase == "ended":
        worker.run_pods("j")
        worker.end("j")
    created = writes(world.home)["POST workloads"]
    async with world.running():
        await world.offered() if phase != "ended" else None
        if phase in ("waiting", "offered"):
            world.start(worker)
        if phase != "ended":
            await until(lambda: not world.local()["spec"]["suspend"])
            worker.run_pods("j")
            worker.end("j")
        await until(lambda: world.record().finished, "finished")
        await until(lambda: world.copy() is None, "removed")
        assert world.record().attempt == 1
    assert writes(world.home)["POST workloads"] == created == 1


async def test_the_index_is_lost() -> None:
    """It is filled again from memory; what waits is dispatched."""
    world = Federation("a")
    async with world.running() as manager:
        world.report("a", 0)
        await until(lambda: _available(manager) == 0)
        world.submit()
        await until(lambda: manager.queue.items)
        await world.index.fill_anew("somebody else's", ())
        world.index.lost = True
        world.submit("k")
        await until(lambda: manager.queue.rebuilds == 2, "filled again")
        world.report("a", 4)
        await world.offered("j")
        await world.offered("k")


def _available(manager: Manager) -> int:
    queues = manager.clusters.links["a"].ledger.view("").queues if manager.clusters.links else {}
    return next(iter(queues["cq"].amounts.values())).available if "cq" in queues else -1


async def test_a_queue_stopped_while_the_job_was_bound() -> None:
    """When it comes back from its cluster it is not queued: its door is closed."""
    world = Federation("a")
    async with world.running() as manager:
        uid = world.submit()
        worker = await world.offered()
        world.home.merge(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "Hold"}}, "team")
        await until(lambda: manager.catalog.queue_problem("team", "lq"))
        world.refuse(worker)
        await until(lambda: world.record().reason == "Inadmissible", "told why")
        assert "is stopped" in world.record().message
        assert uid not in manager.queue.items


async def test_more_jobs_than_room() -> None:
    """What fits the worker is offered, the rest waits with a reason and holds no quota."""
    world = Federation("a")
    async with world.running() as manager:
        for n in range(6):
            world.submit(f"j{n}")
        await until(lambda: len(world.workers["a"].fake.items(JOBS)) == 4, "four offers")
        await until(lambda: manager.controller.tree.usage("cq") == {("f", "gpu"): 4})
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(world.workers["a"].fake.items(JOBS)) == 4
        assert len(manager.queue.items) == 2


async def test_a_foreign_job_of_that_name() -> None:
    """Left alone; the job goes to the other cluster."""
    world = Federation("a", "b")
    foreign = job("j")
    world.workers["a"].fake.create(JOBS, foreign)
    async with world.running():
        world.submit()
        await until(lambda: (r := world.record()) and r.binding and r.binding.cluster == "b")
        await until(lambda: world.workers["b"].fake.items(JOBS))
        assert Mirror.LOCAL_UID.value not in world.workers["a"].get("j")["metadata"]["annotations"]


async def test_orphans_are_removed() -> None:
    """A copy whose job was deleted while no manager ran."""
    world = Federation("a")
    async with world.running():
        world.submit()
        await world.offered()
    world.home.delete(JOBS, "j", "team")
    async with world.running():
        await until(lambda: world.copy() is None, "the orphan is removed")
