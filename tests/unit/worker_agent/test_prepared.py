"""Ray clusters that KubeRay makes of a RayService before that may start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from federation.api.names import Label
from federation.edge.informer import Informer
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.parts import Wholes
from federation.edge.resources import LOCAL_QUEUES, resource_of
from federation.jobs.kinds.registry import KINDS
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import QUEUED, Worker, custom
from worker_agent.prepared import CLUSTERS, Prepared

Json = dict[str, Any]
SERVICE, CLUSTER = KINDS["RayService.v1.ray.io"], KINDS["RayCluster.v1.ray.io"]
SERVICES = resource_of(SERVICE)
QUEUE = {"clusterQueue": "cq"}


class Serving:
    """A worker with RayServices, of which the test makes the clusters as KubeRay does."""

    def __init__(self) -> None:
        self.worker = Worker()
        self.fake = self.worker.fake
        self.fake.resources += [SERVICES, CLUSTERS]
        self.worker.kinds = (SERVICE,)
        self.worker.settings = replace(self.worker.settings, kinds=KINDS)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.worker.running() as agent:
            client = KubeClient(Endpoint("https://fake", name="a"), transport=self.fake)
            prepared = Prepared(client, agent)
            handler = Wholes(agent.book.of(CLUSTER), prepared.see)
            informer = Informer(client, CLUSTERS, handler, select=QUEUED)
            tasks = [asyncio.create_task(part.run()) for part in (prepared, informer)]
            try:
                yield
            finally:
                await stop(tasks)
                await client.aclose()

    def service(self, queue: str) -> str:
        """One that wants a gpu; its UID."""
        container = {"name": "c", "resources": {"requests": {"gpu": "1"}}}
        head = {"template": {"spec": {"containers": [container]}}}
        labels = {Label.QUEUE_NAME.value: queue}
        body = {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "metadata": {"name": "s", "namespace": "team", "labels": labels},
            "spec": {"rayClusterConfig": {"suspend": True, "headGroupSpec": head}},
        }
        return str(self.fake.create(SERVICES, body)["metadata"]["uid"])

    def prepare(self, name: str, owner: str, *, suspend: bool, kind: str = "RayService") -> None:
        """With the labels of the RayService, as KubeRay does."""
        told = {"apiVersion": "ray.io/v1", "kind": kind, "uid": owner, "controller": True}
        labels = {Label.QUEUE_NAME.value: "lq"}
        meta = {"name": name, "namespace": "team", "labels": labels, "ownerReferences": [told]}
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta}
        self.fake.create(CLUSTERS, body | {"spec": {"suspend": suspend}})

    @property
    def started(self) -> bool:
        spec = self.fake.get(SERVICES, "s", "team")["spec"]
        return not spec["rayClusterConfig"]["suspend"]

    @property
    def left(self) -> list[str]:
        return sorted(cluster["metadata"]["name"] for cluster in self.fake.items(CLUSTERS))


async def test_what_was_prepared_is_deleted_when_the_service_starts() -> None:
    """Neither before, nor what is not suspended, or of others."""
    world = Serving()
    uid = world.service("later")
    world.prepare("early", uid, suspend=True)
    world.prepare("runs", uid, suspend=False)
    world.prepare("of-a-job", uid, suspend=True, kind="RayJob")
    async with world.running():
        world.prepare("late", uid, suspend=True)
        await world.worker.at_rest()
        assert world.left == ["early", "late", "of-a-job", "runs"]
        world.fake.create(LOCAL_QUEUES, custom("LocalQueue", "later", QUEUE, "team"))
        await until(lambda: world.started, "it starts")
        await until(lambda: world.left == ["of-a-job", "runs"], "they are gone")


async def test_what_is_prepared_by_late_news() -> None:
    """KubeRay has not seen yet that the RayService was started."""
    world = Serving()
    uid = world.service("lq")
    async with world.running():
        await until(lambda: world.started, "it starts")
        world.prepare("late", uid, suspend=True)
        await until(lambda: world.left == [], "it is gone")
    world.prepare("later", uid, suspend=True)
    async with world.running():
        await until(lambda: world.left == [], "also if the agent was away")


async def test_a_deletion_that_fails_is_tried_again() -> None:
    """The API server has an error."""
    world = Serving()
    world.prepare("early", world.service("lq"), suspend=True)
    world.fake.fail(lambda request: request.method == "DELETE", status=500)
    async with world.running():
        await until(lambda: world.left == [], "it is gone")
