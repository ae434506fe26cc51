"""The parts of the fake API that only tests use; the rest is proved by tests/contract."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from federation.edge.errors import NotFound, ServerError, Unreachable
from federation.edge.kube import KubeClient, WatchEvent
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CONFIGMAPS, NAMESPACES, WORKLOADS
from tests.fakes.kube_api import BUILT_IN, FakeKube

CONFIG = {"metadata": {"name": "a", "namespace": "default"}}


def client(fake: FakeKube, timeout: float = 15.0) -> KubeClient:
    return KubeClient(Endpoint("https://fake"), transport=fake, request_timeout=timeout)


async def test_planned_faults() -> None:
    """Answered with a status, dropped before, or lost after they were carried out."""
    fake = FakeKube()
    kube = client(fake)
    fake.fail(status=500)
    with pytest.raises(ServerError):
        await kube.list(CONFIGMAPS)
    fake.fail(how="drop")
    with pytest.raises(Unreachable):
        await kube.create(CONFIGMAPS, CONFIG)
    assert fake.items(CONFIGMAPS) == []
    fake.fail(lambda request: request.method == "POST", how="lost")
    with pytest.raises(Unreachable):
        await kube.create(CONFIGMAPS, CONFIG)
    assert len(fake.items(CONFIGMAPS)) == 1


async def test_a_hung_request_ends_by_the_clients_timeout() -> None:
    """As on a socket."""
    fake = FakeKube()
    fake.fail(how="hang")

    with pytest.raises(Unreachable, match="timed out"):
        await client(fake, timeout=0.01).list(CONFIGMAPS)


async def test_a_worker_without_crds() -> None:
    """Types that are not registered are not served."""
    with pytest.raises(NotFound):
        await client(FakeKube(BUILT_IN)).list(WORKLOADS)


async def test_a_cut_holds_watches_and_healing_delivers() -> None:
    """As a partition does to an open connection."""
    fake = FakeKube()
    stream = client(fake).watch(CONFIGMAPS, resource_version=str(fake.objects.version))
    async with aclosing(stream) as events:
        following: asyncio.Task[WatchEvent] = asyncio.ensure_future(anext(events))
        for _ in range(20):
            await asyncio.sleep(0)
        assert fake.watches == 1
        fake.cut()
        fake.create(CONFIGMAPS, CONFIG)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not following.done()
        fake.heal()
        assert (await following).type == "ADDED"
    assert fake.watches == 0


async def test_deleting_a_namespace_empties_it() -> None:
    """At once."""
    fake = FakeKube()
    fake.create(CONFIGMAPS, CONFIG)

    fake.delete(NAMESPACES, "default")

    assert fake.items(CONFIGMAPS) == []
