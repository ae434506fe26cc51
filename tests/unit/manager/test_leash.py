"""A worker writes only as long as its manager is certainly there."""

from __future__ import annotations

import asyncio

import pytest

from federation.core.facts import ObjectKey
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import JOBS
from manager.cluster_worker import ClusterWorker
from manager.leash import LEASH_S, Leash
from manager.protocol import ClusterSpec, CreateCopy, Result
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import stop
from tests.unit.worker_agent.support import mirrored


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_written_before_the_manager_was_heard_of() -> None:
    time = Time()
    leash = Leash(time)
    assert "no manager was heard of" in leash.problem()
    leash.told(1)
    assert leash.problem()
    leash.acknowledged(1)
    assert leash.problem() == ""


def test_it_counts_from_when_the_news_were_told() -> None:
    """The acknowledgement may have lain in a queue, and its sender be gone since."""
    time = Time()
    leash = Leash(time)
    leash.told(1)
    time.now += LEASH_S - 1
    leash.acknowledged(1)
    assert leash.problem() == ""
    time.now += 1
    assert f"for {LEASH_S:.0f} s" in leash.problem()


@pytest.mark.parametrize("ack", [-1, 0, 1, 3])
def test_only_the_last_news_prove_anything(ack: int) -> None:
    """Others were told earlier, or never."""
    time = Time()
    leash = Leash(time)
    leash.told(1)
    leash.acknowledged(1)
    time.now += 15
    leash.told(2)
    leash.acknowledged(ack)
    time.now += 5
    assert leash.problem()
    leash.acknowledged(2)
    assert leash.problem() == ""


async def test_a_worker_that_was_given_up_carries_nothing_out() -> None:
    """It was frozen with a command in its hands; there is another worker by now."""
    time, fake = Time(), FakeKube(namespaces=("team",))
    client = KubeClient(Endpoint("https://fake"), transport=fake)
    worker = ClusterWorker(ClusterSpec("a", b"", "origin"), client, Leash(time))
    task = asyncio.create_task(worker.run())
    try:
        commands = [
            CreateCopy(ObjectKey("team", name), f"uid-{name}", 1, mirrored(name))
            for name in ("early", "right", "late")
        ]
        [early] = await worker.apply(commands[:1])
        assert early.result is Result.RETRY
        news = await worker.poll("", -1)
        heard = asyncio.create_task(worker.poll(news.instance, news.seq))
        await asyncio.sleep(0)
        [right] = await worker.apply(commands[1:2])
        assert right.result is Result.OK
        time.now += LEASH_S
        [late] = await worker.apply(commands[2:])
        assert late.result is Result.RETRY
        assert "another worker may do this by now" in late.message
        assert [job["metadata"]["name"] for job in fake.items(JOBS)] == ["right"]
        heard.cancel()
    finally:
        await stop([task])
