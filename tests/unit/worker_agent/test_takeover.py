"""A cluster is in a new epoch when nothing of an older one runs there that must not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from federation.api.names import FEDQ_NAMESPACE, Gate, Label, Mirror
from federation.core.holding import Lease, Tenure, Terms
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CONFIGMAPS, JOBS, NAMESPACES, PODS, WORKER_REPORTS, Json
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker, mirrored, unlimited
from worker_agent.agent import Agent
from worker_agent.epochs import Epochs
from worker_agent.report import Reporter
from worker_agent.takeover import Takeover


@dataclass
class Scene:
    """A cluster in epoch 1, whose agent takes it into epoch 4."""

    worker: Worker
    agent: Agent
    reporter: Reporter
    take_over: Takeover
    leases: list[Lease]
    ready: asyncio.Event

    async def runs(self) -> Json:
        """A copy that the lease covers, with a pod, which is returned."""
        self.worker.add(mirrored("a"))
        await until(lambda: self.worker.started("a"))
        self.worker.run_pods("a")
        await until(lambda: next(iter(self.agent.state.jobs.values())).pods.active)
        assert not self.agent.state.late()
        pod = pod_of(self.worker.get("a"))
        self.worker.fake.create(PODS, pod)
        return pod

    async def fenced(self, kill: float) -> None:
        """The agent hears of the fence, and stops the copy."""
        self.leases.append(Lease(1, Tenure(1, 0.0, 0.0), seen=4, terms=Terms(kill=kill)))
        self.agent.lease_changed()
        await until(lambda: not self.worker.started("a"), "it is stopped")

    async def says_stopped(self) -> None:
        """So the Job controller says of the copy, and the agent has heard of it."""
        self.worker.stopping("a", terminating=0)
        await until(lambda: not self.agent.state.late())

    def shown(self) -> Any:
        found = self.worker.fake.items(WORKER_REPORTS)
        return found[0].get("status") if found else None

    async def begins(self) -> asyncio.Task[int]:
        """The takeover has begun, and is not over yet."""
        task = asyncio.create_task(self.take_over(4))
        await until(lambda: self.worker.fake.items(CONFIGMAPS))
        await asyncio.sleep(0.6)  # several looks
        assert not self.worker.fake.items(WORKER_REPORTS)
        return task


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    worker, leases = Worker(), [unlimited(1)]
    worker.fake.create(NAMESPACES, {"metadata": {"name": FEDQ_NAMESPACE}})
    worker.lease = lambda: leases[-1]
    async with worker.running() as agent:
        client = KubeClient(Endpoint("https://fake", name="a"), transport=worker.fake)
        reporter = Reporter(client, agent.state.catalog, agent, "a")
        agent.quotas_changed()  # so that it decides once more
        ready = asyncio.Event()
        ready.set()
        take_over = Takeover(client, Epochs(client), agent, reporter, ready)
        yield Scene(worker, agent, reporter, take_over, leases, ready)


def pod_of(copy: Json) -> Json:
    """A pod that runs, as the Job controller makes it of the template of a copy."""
    notes = copy["metadata"]["annotations"]
    marks = {key: notes[key] for key in (Mirror.LOCAL_UID.value, Mirror.ATTEMPT.value)}
    named = {"name": "a-x7f2k", "namespace": copy["metadata"]["namespace"]}
    labels = {Label.MULTIKUEUE_WORKER_POD.value: "true"}
    return {
        "kind": "Pod",
        "metadata": {**named, "labels": labels, "annotations": marks},
        "status": {"phase": "Running"},
    }


def waiting(pod: Json) -> Json:
    """Another one, that waits for the queue."""
    meta = {**pod["metadata"], "name": "b"}
    return {**pod, "metadata": meta, "spec": {"schedulingGates": [{"name": Gate.ADMISSION.value}]}}


async def test_the_order() -> None:
    """ConfigMap, then report."""
    async with scene() as on:
        task = asyncio.create_task(on.reporter.run())
        try:
            await until(on.shown)
            assert "inventoryEpoch" not in on.shown()
            on.worker.fake.log.clear()
            assert await on.take_over(4) == 4
        finally:
            await stop([task])
        written = [
            path for method, path in on.worker.fake.log if method in ("PATCH", "POST", "PUT")
        ]
        assert "configmaps" in written[0]
        assert (on.shown()["inventoryEpoch"], on.shown()["tier"]) == (4, "A")


async def test_it_waits_for_what_is_being_written() -> None:
    """A start that was sent before the fence was heard of is over when the report is written."""
    async with scene() as on:
        slow, start = asyncio.Event(), on.agent.state.api.start

        async def late(*arguments: Any) -> None:
            await slow.wait()
            await start(*arguments)

        on.agent.state.api.start = late  # type: ignore[method-assign]
        on.worker.add(mirrored("a"))
        uid = on.worker.get("a")["metadata"]["uid"]
        await until(lambda: on.agent.state.busy(uid))
        task = await on.begins()
        slow.set()
        assert await task == 4
        assert on.worker.started("a")
        assert on.shown()["inventoryEpoch"] == 4


@pytest.mark.parametrize("kill", [1000.0, 0.8])
async def test_it_waits_for_what_should_have_been_stopped(kill: float) -> None:
    """The API server was down when the lease ended. Its pods are gone before the lease holds again,
    for guards go by that; but a copy that cannot go keeps the cluster away for K only.
    """
    async with scene() as on:
        pod = await on.runs()
        on.worker.fake.delete(PODS, pod["metadata"]["name"], "team")
        await on.fenced(kill)
        task = await on.begins()
        assert on.agent.state.late()
        if kill > 1.0:
            on.worker.stopping("a", terminating=0)
        assert await task == 4
        assert bool(on.agent.state.late()) is (kill < 1.0)
        assert on.shown()["inventoryEpoch"] == 4


@pytest.mark.parametrize("way", ["deleted", "gone meanwhile", "not known of"])
async def test_it_waits_for_pods_whoever_deletes_them(way: str) -> None:
    """The manager has deleted the copy already, which says nothing of its pods any more, or goes
    before them. Or the Job controller says that all is stopped, and has yet to hear of a pod.
    """
    async with scene() as on:
        fake, pod = on.worker.fake, await on.runs()
        await on.fenced(1000.0)
        if way == "deleted":
            fake.merge(JOBS, "a", {"metadata": {"finalizers": ["foregroundDeletion"]}}, "team")
            fake.delete(JOBS, "a", "team")
        else:
            await on.says_stopped()
        fake.create(PODS, waiting(pod))  # nothing to wait for
        task = await on.begins()
        if way == "gone meanwhile":
            fake.delete(JOBS, "a", "team")
            await until(lambda: not on.agent.state.jobs)
            await asyncio.sleep(0.6)  # a look
            assert not task.done()
        fake.delete(PODS, pod["metadata"]["name"], "team")
        if way == "deleted":
            fake.merge(JOBS, "a", {"metadata": {"finalizers": None}}, "team")
        assert await task == 4


async def test_it_ends_pods_that_nobody_tells_to_end() -> None:
    """Their controller has yet to hear of them: they would run beside the next attempt."""
    async with scene() as on:
        fake, pod = on.worker.fake, await on.runs()
        other = pod_of(on.worker.get("a"))
        other["metadata"] |= {"name": "c", "labels": {}}  # of no copy
        for one in (waiting(pod), other):
            fake.create(PODS, one)
        await on.fenced(1.0)
        await on.says_stopped()
        assert await on.take_over(4) == 4
        assert [one["metadata"]["name"] for one in fake.items(PODS)] == ["b", "c"]


async def test_it_waits_until_the_agent_has_read_what_is_there() -> None:
    """Before that nothing is known of the pods that run."""
    async with scene() as on:
        await on.runs()
        on.ready.clear()
        await on.fenced(1.0)
        await on.says_stopped()
        task = await on.begins()
        await asyncio.sleep(1.0)  # beyond the patience with controllers
        assert len(on.worker.fake.items(PODS)) == 1
        on.ready.set()
        assert await task == 4


@pytest.mark.parametrize("key", ["fedq.io/local-uid", "fedq.io/attempt"])
async def test_pods_of_whom_nothing_is_known_are_left_alone(key: str) -> None:
    """Those of another manager, or of a kind that cannot be read."""
    async with scene() as on:
        fake = on.worker.fake
        await on.runs()
        other = pod_of(on.worker.get("a"))
        other["metadata"] |= {"name": "b"}
        other["metadata"]["annotations"] = {**other["metadata"]["annotations"], key: "77"}
        fake.create(PODS, other)
        await on.fenced(1.0)
        await on.says_stopped()
        assert await on.take_over(4) == 4
        assert [one["metadata"]["name"] for one in fake.items(PODS)] == ["b"]


async def test_a_pod_that_cannot_be_deleted_keeps_the_cluster_away_for_a_while_only() -> None:
    """Also when a try ends in between: the management cluster is away, say."""
    async with scene() as on:
        await on.runs()
        on.worker.fake.fail(lambda request: request.method == "DELETE", times=99, status=403)
        await on.fenced(1.0)
        await on.says_stopped()
        first = await on.begins()
        await stop([first])
        assert await on.take_over(4) == 4
        assert len(on.worker.fake.items(PODS)) == 1


async def test_after_a_start_in_the_epoch_that_was_noted() -> None:
    """Nothing is waited for: what runs may run."""
    async with scene() as on:
        pod = await on.runs()
        on.ready.clear()
        assert await on.take_over(1) == 1
        assert on.worker.fake.get(PODS, pod["metadata"]["name"], "team")
