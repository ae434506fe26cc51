"""What runs in a loop of its own goes on while the manager's loop stands still."""

from __future__ import annotations

import asyncio
import time

import pytest

from federation.api.names import FEDQ_NAMESPACE
from federation.core.election import ElectionTimes
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from manager.election import Election
from manager.own_loop import OwnLoop
from tests.fakes.kube_api import FakeKube


async def test_leadership_is_kept_while_the_loop_is_blocked() -> None:
    """For longer than its deadline, as by a storm of work."""
    fake = FakeKube(namespaces=(FEDQ_NAMESPACE,))
    client = KubeClient(Endpoint("https://home"), transport=fake)
    times = ElectionTimes(lease_s=4, renew_deadline_s=3.0, retry_s=0.2)
    election = Election(client, "me", times)
    with OwnLoop("election") as apart:
        await apart.run(election.lead())
        keeping = asyncio.create_task(apart.run(election.keep()))
        await asyncio.sleep(0)  # the renewals begin
        time.sleep(3.5)  # noqa: ASYNC251  (the loop is blocked: that is what is tried)
        assert election.may_act()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await apart.run(election.resign())
        assert not election.may_act()
        await apart.run(client.aclose())


async def test_errors_and_cancellation_pass() -> None:
    """As if it ran here."""

    async def fails() -> None:
        raise RuntimeError("why")

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            loop.call_soon_threadsafe(ended.set)

    with OwnLoop("x") as apart:
        with pytest.raises(RuntimeError, match="why"):
            await apart.run(fails())
        task = asyncio.create_task(apart.run(waits()))
        await asyncio.sleep(0.05)  # it waits by now
        task.cancel()
        async with asyncio.timeout(10):
            await ended.wait()
