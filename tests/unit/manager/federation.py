"""A whole manager in one process, against fake API servers and agents that the test plays."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from federation.api import record as records
from federation.api.names import FEDQ_NAMESPACE, Mirror
from federation.core.exposure import OfferLimits
from federation.core.plain_kueue import WORKER_LOST_S
from federation.core.policies import Policies
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    JOBS,
    LEASES,
    MULTIKUEUE_CLUSTERS,
    SECRETS,
    WORKER_REPORTS,
    WORKLOADS,
)
from federation.jobs import batch_job
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.registry import BATCH_ONLY
from manager.app import Manager
from manager.cluster_worker import ClusterWorker
from manager.kubeconfigs import Sources
from manager.local_runtime import TaskHandle
from manager.protocol import ClusterSpec, Runtime, WorkerHandle
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import Breakable, stop, until
from tests.unit.worker_agent.support import Worker, custom, job, queue_objects

Json = dict[str, Any]
ORIGIN = "origin"


class FakeRuntime:
    """As LocalRuntime, with a fake cluster for each name instead of a kubeconfig."""

    name = "fake"
    problem = ""

    def __init__(self, clusters: dict[str, Worker]) -> None:
        self.clusters = clusters
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        fake = self.clusters[spec.name].fake
        client = KubeClient(Endpoint("https://fake", name=spec.name), transport=fake)
        worker = ClusterWorker(spec, client)
        task = asyncio.create_task(worker.run())
        self.tasks.append(task)
        return TaskHandle(worker, task)

    async def aclose(self) -> None:
        await stop(self.tasks)


class Federation:
    """A management cluster, its workers, and a manager that can be restarted."""

    def __init__(
        self,
        *names: str,
        quota: int = 8,
        policies: Policies | None = None,
        sources: Sources | None = None,
        **spec: Any,
    ) -> None:
        """`spec` is added to that of ClusterQueue `cq` on the management cluster."""
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        """By the management API server; it stands still."""
        self.home = FakeKube(namespaces=("team", FEDQ_NAMESPACE), clock=lambda: self.now)
        queue_objects(self.home, quota, **spec)
        self.policies, self.sources = policies, sources
        self.keep_finished_s = 0.0
        self.worker_lost_s = WORKER_LOST_S
        self.kinds: Kinds = BATCH_ONLY
        self.identity, self.local_queues = "", False
        self.workers = {name: Worker(4) for name in names}
        self.manager: Manager = None  # type: ignore[assignment]
        self.runtime: Callable[[], Runtime] = lambda: FakeRuntime(self.workers)
        self.index = Breakable()
        self.offers = OfferLimits(idle=8)
        """Most tests play no agent that would answer the first offer."""
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

    def report(
        self, name: str, available: int = 4, nominal: int = 4, kinds: list[str] | None = None
    ) -> None:
        """The agent's report, as of now; `kinds` as it says what it has read."""
        fake = self.workers[name].fake
        used = str(nominal - available)
        amounts = {"nominal": str(nominal), "used": used, "available": str(available)}
        status: Json = {
            "countedResourceVersion": str(fake.objects.version),
            "localQueues": [{"namespace": "team", "name": "lq", "clusterQueue": "cq"}],
            "clusterQueues": [
                {"name": "cq", "resources": [{"flavor": "f", "resource": "gpu", **amounts}]}
            ],
        }
        if kinds is not None:
            status["kinds"] = kinds
        if not fake.items(WORKER_REPORTS):
            fake.create(WORKER_REPORTS, {"kind": "WorkerReport", "metadata": {"name": name}})
        fake.merge(WORKER_REPORTS, name, {"status": status}, status=True)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Manager]:
        client = KubeClient(Endpoint("https://home", name="home"), transport=self.home)
        runtime = self.runtime()
        self.manager = manager = Manager(
            client, self.index, runtime, ORIGIN, self.policies, sources=self.sources,
            keep_finished_s=self.keep_finished_s, worker_lost_s=self.worker_lost_s,
            kinds=self.kinds, identity=self.identity, local_queues=self.local_queues,
            offers=self.offers,
        )  # fmt: skip
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

    def submit(self, name: str = "j", gpus: int = 1, of: str = "", **annotations: str) -> str:
        body = job(name, gpus, of=of, **annotations)
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
