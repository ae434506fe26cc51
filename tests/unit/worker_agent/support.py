"""An agent on a fake worker cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from federation.api.names import KUEUE_API, Label, Mirror
from federation.core.holding import Lease, unlimited
from federation.core.types import Admission, PodSetAssignment
from federation.edge.bundles import Bundles
from federation.edge.catalog import Catalog
from federation.edge.informer import Handler, Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    resource_of,
)
from federation.jobs import batch_job
from federation.jobs.kinds.kind import JobKind
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import stop, until
from worker_agent.agent import Agent, Settings
from worker_agent.gates import Gates
from worker_agent.pins import Pins
from worker_agent.workloads import Workloads

Json = dict[str, Any]
T0 = "2026-01-01T00:00:00Z"
QUEUED = Select(label_selector=Label.QUEUE_NAME.value)


def queue_objects(fake: FakeKube, nominal: int = 4, **spec: Any) -> None:
    """A ClusterQueue `cq` of gpus in flavor `f`, and the LocalQueue team/lq that leads to it."""
    if not any(n["metadata"]["name"] == "team" for n in fake.items(NAMESPACES)):
        fake.create(NAMESPACES, {"metadata": {"name": "team"}})
    flavor = {"nodeLabels": {"card": "a100"}}
    fake.create(RESOURCE_FLAVORS, custom("ResourceFlavor", "f", flavor))
    quotas = [{"name": "gpu", "nominalQuota": nominal}]
    group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": quotas}]}
    rules = {"resourceGroups": [group], "namespaceSelector": {}, **spec}
    fake.create(CLUSTER_QUEUES, custom("ClusterQueue", "cq", rules))
    fake.create(LOCAL_QUEUES, custom("LocalQueue", "lq", {"clusterQueue": "cq"}, "team"))


def custom(kind: str, name: str, spec: Json, namespace: str = "") -> Json:
    """An object of Kueue's API."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": KUEUE_API, "kind": kind, "metadata": meta, "spec": spec}


def job(
    name: str, gpus: int = 1, *, suspend: bool = True, of: str = "", **annotations: str
) -> Json:
    """A Job that asks for gpus in queue lq, of the WorkloadPriorityClass `of`."""
    labels = {Label.QUEUE_NAME.value: "lq"} | ({Label.PRIORITY_CLASS.value: of} if of else {})
    container = {"name": "c", "image": "i", "resources": {"requests": {"gpu": str(gpus)}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": labels,
            "annotations": dict(annotations),
        },
        "spec": {
            "suspend": suspend,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def mirrored(name: str, gpus: int = 1, *, priority: int = 0, at: str = T0, **more: Any) -> Json:
    """A copy as the manager offers it."""
    body = job(name, gpus)
    body["metadata"]["labels"][Label.MULTIKUEUE_ORIGIN.value] = "origin"
    body["metadata"]["annotations"] = {
        Mirror.LOCAL_UID.value: more.get("local_uid", f"uid-{name}"),
        Mirror.ATTEMPT.value: str(more.get("attempt", 1)),
        Mirror.EPOCH.value: str(more.get("epoch", 1)),
        Mirror.QUEUED_AT.value: at,
        Mirror.PRIORITY.value: str(priority),
        **more.get("annotations", {}),
    }
    return body


def _suspended(value: bool) -> list[Json]:
    return [{"type": "Suspended", "status": str(value), "reason": "", "message": ""}]


def note(gpus: int = 1, queue: str = "cq") -> str:
    """The agent's own note of an admission."""
    assigned = PodSetAssignment("main", 1, {"gpu": "f"}, {"gpu": gpus})
    return batch_job.encode_admission(Admission(queue, (assigned,)))


def _handler(agent: Agent, kind: JobKind) -> Handler:
    handler = agent.book.of(kind)
    return Bundles(handler) if kind.bundled else handler


class Worker:
    """A fake cluster with queues; `running` starts an agent on it."""

    def __init__(self, nominal: int = 4, **spec: Any) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)
        self.fake = FakeKube(clock=lambda: self.moment)
        queue_objects(self.fake, nominal, **spec)
        self.epoch = 1
        self.lease: Callable[[], Lease] = lambda: unlimited(self.epoch)
        self.settings = Settings(reactivation_s=0.01)
        self.kinds: tuple[JobKind, ...] = ()
        """Those that it serves beside batch/v1 Job."""
        self.agent: Agent = None  # type: ignore[assignment]
        self.workloads: Workloads = None  # type: ignore[assignment]

    def add(self, *bodies: Json) -> None:
        for body in bodies:
            self.fake.create(JOBS, body)

    def later(self, seconds: float) -> None:
        """Time passes on the API server."""
        self.moment += timedelta(seconds=seconds)

    def get(self, name: str) -> Json:
        return self.fake.get(JOBS, name, "team")

    def started(self, name: str) -> bool:
        return not self.get(name)["spec"]["suspend"]

    def note_of(self, name: str, key: Mirror) -> str:
        return str(self.get(name)["metadata"].get("annotations", {}).get(key.value, ""))

    def refused(self, name: str) -> str:
        return self.note_of(name, Mirror.REFUSED)

    def answered(self, name: str) -> bool:
        return self.started(name) or bool(self.refused(name))

    def class_of(self, name: str, value: int) -> None:
        """A WorkloadPriorityClass."""
        body = {"metadata": {"name": name}, "value": value}
        self.fake.create(WORKLOAD_PRIORITY_CLASSES, body)

    def run_pods(self, name: str, active: int = 1) -> None:
        """The Job controller started its pods."""
        self._status(name, startTime=T0, active=active, ready=active, conditions=_suspended(False))

    def stopping(self, name: str, terminating: int = 1) -> None:
        """The Job controller saw that the Job is suspended: its pods are deleted, some stop yet."""
        self._status(
            name, active=None, ready=0, terminating=terminating, conditions=_suspended(True)
        )

    def succeed(self, name: str, pods: int) -> None:
        """So many of its pods ended well, and were not replaced."""
        active = self.get(name)["status"]["active"] - pods
        self._status(name, active=active, ready=active, succeeded=pods)

    def relabel(self, name: str, queue: str) -> None:
        """Somebody moves it to another LocalQueue."""
        labels = {Label.QUEUE_NAME.value: queue}
        self.fake.merge(JOBS, name, {"metadata": {"labels": labels}}, "team")

    def _status(self, name: str, **status: Any) -> None:
        self.fake.merge(JOBS, name, {"status": status}, "team", status=True)

    def end(self, name: str) -> None:
        """It ended well."""
        kinds = ("SuccessCriteriaMet", "Complete")
        status = {
            "startTime": T0,
            "active": None,
            "ready": 0,
            "completionTime": T0,
            "conditions": [{"type": kind, "status": "True"} for kind in kinds],
        }
        self.fake.merge(JOBS, name, {"status": status}, "team", status=True)

    def writes(self, method: str = "PATCH", what: str = "/jobs/") -> int:
        return sum(m == method and what in path for m, path in self.fake.log)

    @contextlib.asynccontextmanager
    async def running(
        self, recall: Callable[[Agent], Awaitable[None]] | None = None
    ) -> AsyncIterator[Agent]:
        """An agent that has read everything and decides; `recall` comes before that."""
        client = KubeClient(Endpoint("https://fake", name="a"), transport=self.fake)
        agent: Agent | None = None

        def changed() -> None:
            if agent is not None:
                agent.quotas_changed()

        catalog = Catalog(client, changed)
        if self.settings.policies.resources.devices.mappings:
            catalog.claims.want()
        self.agent = agent = Agent(client, catalog, self.lease, self.settings)
        self.workloads = Workloads(client, agent)
        informers = [
            *catalog.informers,
            agent.state.checks.informer,
            Informer(client, WORKLOADS, self.workloads),
            Informer(
                client, JOBS, agent.book, select=Select(label_selector=Label.QUEUE_NAME.value)
            ),
            *(
                Informer(client, resource_of(kind), _handler(agent, kind), select=QUEUED)
                for kind in self.kinds
            ),
        ]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        tasks.append(asyncio.create_task(catalog.claims.run()))
        try:
            for informer in informers:
                await informer.synced.wait()
            await catalog.claims.ready()
            if recall is not None:
                await recall(agent)
            runs = (
                agent.run(), agent.nodes.run(), Gates(client, agent).run(),
                Pins(client, agent).run(),
            )  # fmt: skip
            tasks += [asyncio.create_task(run) for run in runs]
            yield agent
            for task in tasks:
                assert not task.done(), task
        finally:
            await stop(tasks)
            await client.aclose()

    async def until_answered(self, *names: str) -> None:
        await until(lambda: all(self.answered(name) for name in names), f"answers to {names}")

    async def at_rest(self) -> None:
        """Until the agent has decided on all that there is."""
        version = self.fake.objects.version
        await until(lambda: self.agent.decided_version >= self._last_job_version(), str(version))
        for _ in range(20):
            await asyncio.sleep(0)

    def _last_job_version(self) -> int:
        versions = [int(j["metadata"]["resourceVersion"]) for j in self.fake.items(JOBS)]
        return max(versions, default=0)
