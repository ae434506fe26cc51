"""Shares of cards on real control planes: never over what a card has, and all Jobs finish.

kube-scheduler binds here and the agents write what HAMi's plugin reads. The watch over the cards
knows nothing of Fedq (`tests.reference.card_watch`).
"""

from __future__ import annotations

import asyncio
import random
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import pytest

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import JOBS, NODES, PODS
from federation.jobs import batch_job
from fedq.rig.gpus import cards, register
from fedq.rig.objects import gpu_node
from fedq.stack import Stack
from tests.integration.conftest import API, Team
from tests.reference.card_watch import CardWatch

Json = dict[str, Any]

JOBS_IN_FLIGHT = 200
CREATORS = 8
NODES_EACH = 2
RESOURCES = ("cpu", "nvidia.com/gpu", "nvidia.com/total-gpumem", "nvidia.com/total-gpucores")


class Fleet:
    """Two nodes of four cards on each worker, one of them of another model, and a team for them."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.id = stack, uuid.uuid4().hex[:6]
        self.name = f"vgpu-{self.id}"
        for worker in stack.rig.workers:
            stack.apply(worker, [*self.nodes(worker), *self._queues()])
        stack.apply(stack.rig.management, self._queues())

    def nodes(self, worker: str) -> list[Json]:
        found = []
        for index in range(NODES_EACH):
            node = gpu_node(f"{worker}-{self.id}", index)
            name = node["metadata"]["name"]
            node["metadata"]["labels"]["example.com/fleet"] = self.id
            model, memory = ("NVIDIA A10", 24564) if index else ("NVIDIA A100-SXM4-40GB", 40960)
            found.append(register(node, cards(name, 4, model=model, memory_mib=memory, slots=4)))
        return found

    def _queues(self) -> list[Json]:
        label = {"example.com/fleet": self.id}
        quotas = [{"name": name, "nominalQuota": 10**7} for name in RESOURCES]
        group = {
            "coveredResources": list(RESOURCES),
            "flavors": [{"name": self.name, "resources": quotas}],
        }
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}},
            {
                "apiVersion": API,
                "kind": "ResourceFlavor",
                "metadata": {
                    "name": self.name,
                    "annotations": {"fedq.io/card-memory-mib": "24564"},
                },
                "spec": {"nodeLabels": label},
            },
            {
                "apiVersion": API,
                "kind": "ClusterQueue",
                "metadata": {"name": self.name},
                "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
            },
            {
                "apiVersion": API,
                "kind": "LocalQueue",
                "metadata": {"name": self.name, "namespace": self.name},
                "spec": {"clusterQueue": self.name},
            },
        ]

    def job(self, name: str, kind: str, pods: int, seconds: float) -> Json:
        """A Job of so many pods at once; see KINDS."""
        own, before = KINDS[kind]
        body = Team(self.stack, self.name).job(name, seconds=round(seconds, 2), pods=pods)
        spec = body["spec"]["template"]["spec"]
        spec["containers"] = [_container("main", own)]
        if before:
            spec["initContainers"] = [_container("prepare", before)]
        return body


Limits = dict[str, int]
KINDS: dict[str, tuple[Limits, Limits]] = {
    "small": ({"gpu": 1, "gpumem": 4000, "gpucores": 10}, {}),
    "memory": ({"gpu": 1, "gpumem": 13516}, {}),
    "percent": ({"gpu": 1, "gpumem-percentage": 33, "gpucores": 30}, {}),
    "two": ({"gpu": 2, "gpumem": 9000, "gpucores": 25}, {}),
    "whole": ({"gpu": 1}, {}),
    "prepared": ({"gpu": 1, "gpumem": 5000}, {"gpu": 1, "gpumem": 15000}),
    "implied": ({"gpumem": 8000}, {}),
}
"""What the main container asks for, and an init container."""


def _container(name: str, limits: Limits) -> Json:
    amounts = {f"nvidia.com/{key}": str(value) for key, value in limits.items()}
    resources = {"limits": amounts, "requests": {"cpu": "500m"}}
    return {"name": name, "image": "example.invalid/none", "resources": resources}


@pytest.fixture
def fleet(stack: Stack) -> Iterator[Fleet]:
    """Gone afterwards, so that other tests do not meet its nodes."""
    found = Fleet(stack)
    try:
        yield found
    finally:
        for worker in stack.rig.workers:
            stack.rig.kubectl(
                worker, "delete", "nodes", "-l", f"example.com/fleet={found.id}", "--wait=false"
            )


@asynccontextmanager
async def watched(fleet: Fleet) -> AsyncIterator[tuple[CardWatch, dict[str, KubeClient]]]:
    """The cards of all workers under watch from the first pod on."""
    watch = CardWatch()
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        clients = {}
        for cluster in fleet.stack.rig.clusters:
            endpoint = load_endpoint(fleet.stack.rig.kubeconfig(cluster))
            clients[cluster] = await stack.enter_async_context(
                KubeClient(endpoint, user_agent="card-watch")
            )
        followers = []
        for worker in fleet.stack.rig.workers:
            watch.nodes((await clients[worker].list(NODES)).items)
            version = (await clients[worker].list(PODS, fleet.name)).resource_version
            follow = _follow(clients[worker], fleet.name, version, watch)
            followers.append(tasks.create_task(follow))
        yield watch, clients
        for follower in followers:
            follower.cancel()


async def _follow(client: KubeClient, namespace: str, version: str, watch: CardWatch) -> None:
    """Every version of every pod: a watch that the server ends goes on where it was."""
    while True:
        async with aclosing(client.watch(PODS, namespace, resource_version=version)) as events:
            async for event in events:
                version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    watch.event(event.type, event.object)


async def all_complete(client: KubeClient, namespace: str, count: int) -> None:
    """When so many Jobs are Complete; none may fail."""
    done: set[str] = set()
    while len(done) < count:
        async with aclosing(client.watch(JOBS, namespace)) as events:
            async for event in events:
                job = event.object
                assert not batch_job.condition(job.get("status") or {}, "Failed"), job["status"]
                if batch_job.finished(job.get("status") or {}) == "Complete":
                    done.add(job["metadata"]["name"])
                if len(done) == count:
                    break


async def submit(fleet: Fleet, client: KubeClient) -> int:
    """200 Jobs of all kinds, gangs of up to eight; how many pods they have."""
    dice = random.Random(7)
    bodies = []
    for index in range(JOBS_IN_FLIGHT):
        pods = dice.choices((1, 2, 4, 8), (70, 15, 10, 5))[0]
        kind = dice.choice(list(KINDS))
        bodies.append(fleet.job(f"job-{index:03d}-{kind}", kind, pods, dice.uniform(0.2, 2.0)))
    total = sum(int(body["spec"]["parallelism"]) for body in bodies)

    async def creator() -> None:
        while bodies:
            await client.create(JOBS, bodies.pop())

    await asyncio.gather(*(creator() for _ in range(CREATORS)))
    return total


@pytest.mark.timeout(300)
async def test_no_card_is_ever_given_more_than_it_has(fleet: Fleet) -> None:
    """200 mixed Jobs over two workers, with an agent killed in the middle."""
    async with watched(fleet) as (watch, clients):
        management = clients[fleet.stack.rig.management]
        pods = await submit(fleet, management)
        process = fleet.stack.rig.process("agent/worker-1")
        assert process is not None
        process.kill(signal.SIGKILL)
        await asyncio.to_thread(fleet.stack.rig.restart, "agent/worker-1")
        await all_complete(management, fleet.name, JOBS_IN_FLIGHT)
    assert watch.problems == []
    assert len(watch.granted) == pods
    assert watch.most_shared > 1
