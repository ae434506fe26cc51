"""Two managers: the leader is killed, or frozen and back, in the middle of Jobs."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator

import pytest

from fedq.stack import MANAGERS
from tests.chaos.jobs import LOOK_S, status, storm, until_status
from tests.integration.conftest import Team

FOLLOWS_S = 20.0
ENDS_S = 10.0


@pytest.fixture
async def two(team: Team) -> AsyncIterator[Team]:
    """A second manager stands by."""
    first, second = MANAGERS
    await until_status(team, first, leads=True)
    await asyncio.to_thread(team.stack.start_manager, "in-process", name=second)
    await until_status(team, second, leads=False)
    yield team
    process = team.stack.rig.process(first)
    if process is None or not process.running:
        await asyncio.to_thread(team.stack.rig.restart, first)
    await asyncio.to_thread(team.stack.rig.stop_process, second)
    await until_status(team, first, leads=True, ready=True)


async def leading(team: Team) -> str:
    """Which manager says that it leads; '' if none does."""
    for name in MANAGERS:
        if (await status(team, name)).get("leads"):
            return name
    return ""


async def follower(team: Team, old: str) -> str:
    """Wait until the other one leads; which that is."""
    [other] = set(MANAGERS) - {old}
    await until_status(team, other, leads=True)
    return other


@pytest.mark.timeout(300)
async def test_the_leader_is_killed_again_and_again(two: Team) -> None:
    """At any moment of a dispatch: the other one leads within twenty seconds, every Job ends."""
    rng, loop = random.Random(7), asyncio.get_running_loop()
    rig = two.stack.rig
    async with storm(two, 60, begun=5) as jobs:
        for _ in range(3):
            creating = asyncio.create_task(jobs.create(30))
            await asyncio.sleep(rng.uniform(0, 1.5))
            old = await leading(two)
            process = rig.process(old)
            assert process is not None
            process.kill(signal.SIGKILL)
            killed = loop.time()
            new = await follower(two, old)
            assert loop.time() - killed <= FOLLOWS_S
            await creating
            await asyncio.to_thread(rig.restart, old)
            await until_status(two, old, leads=False)
            await until_status(two, new, leads=True, ready=True)
        await jobs.all_complete_once()


@pytest.mark.timeout(300)
async def test_a_leader_that_was_frozen_ends(two: Team) -> None:
    """It stood still for longer than its lease and the other one took over; back, it writes
    nothing, and ends with an error, for its supervisor to start it again.
    """
    rig, loop = two.stack.rig, asyncio.get_running_loop()
    async with storm(two, 60, begun=5) as jobs:
        old = await leading(two)
        process = rig.process(old)
        assert process is not None
        process.kill(signal.SIGSTOP)
        frozen = loop.time()
        new = await follower(two, old)
        assert loop.time() - frozen <= FOLLOWS_S
        await jobs.create(20)
        await until_status(two, new, ready=True)
        process.kill(signal.SIGCONT)
        back = loop.time()
        while process.running:
            assert loop.time() - back < ENDS_S, "the old leader does not end"
            await asyncio.sleep(LOOK_S)
        await asyncio.to_thread(rig.restart, old)
        await until_status(two, old, leads=False, leader=(await status(two, new))["identity"])
        await jobs.all_complete_once()
