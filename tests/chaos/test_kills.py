"""Kill each part in the middle of 200 Jobs: every Job still finishes, and was started once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pytest
import redis

from bench.observer import observing
from bench.usage import descendants
from federation.edge.resources import JOBS
from tests.chaos.jobs import storm, until_status
from tests.integration.conftest import Team

JOBS_IN_FLIGHT = 200

Strike = Callable[[Team], Awaitable[None]]


async def kill_manager(team: Team) -> None:
    """SIGKILL, and start it again as a supervisor would."""
    process = team.stack.rig.process("manager")
    assert process is not None
    process.kill(signal.SIGKILL)
    await asyncio.to_thread(team.stack.rig.restart, "manager")


async def kill_agent(team: Team) -> None:
    """SIGKILL of the agent of worker-1."""
    process = team.stack.rig.process("agent/worker-1")
    assert process is not None
    process.kill(signal.SIGKILL)
    await asyncio.to_thread(team.stack.rig.restart, "agent/worker-1")


async def kill_actor(team: Team) -> None:
    """SIGKILL of the process of the Ray actor of worker-1; Ray starts another one."""
    found = await until_status(team, runtime="ray")
    victim = found["clusters"]["worker-1"]["pid"]
    manager = team.stack.rig.process("manager")
    assert manager is not None
    assert victim != manager.pid
    assert victim in descendants(manager.pid)
    os.kill(victim, signal.SIGKILL)


async def flush_redis(team: Team) -> None:
    """All that Redis holds is gone."""
    with redis.Redis.from_url(team.stack.redis_url) as client:
        client.flushall()


async def restart_redis(team: Team) -> None:
    """SIGKILL of Redis, which keeps nothing on disk, and a new one."""
    process = team.stack.rig.process("redis")
    assert process is not None
    process.kill(signal.SIGKILL)
    await asyncio.to_thread(team.stack.rig.restart, "redis")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "strike",
    [kill_manager, kill_actor, kill_agent, flush_redis, restart_redis],
    ids=lambda strike: strike.__name__,
)
async def test_every_job_finishes_exactly_once(team: Team, strike: Strike) -> None:
    """Whatever is killed: 200 of 200 Complete, and as many starts."""
    async with storm(team, JOBS_IN_FLIGHT) as jobs:
        assert jobs.complete < JOBS_IN_FLIGHT
        await strike(team)
        await jobs.all_complete_once()


@pytest.mark.timeout(120)
async def test_a_job_deleted_while_the_manager_is_down_is_cleaned_up(team: Team) -> None:
    """Its copy is an orphan by origin and UID; the next manager removes it, and no other."""
    async with observing(team.stack, team.name) as (observer, clients):
        for name in ("kept", "deleted"):
            observer.created[name] = 0.0
            await clients["management"].create(JOBS, team.job(name, seconds=20))
        await observer.wait("running", 2)
        manager = team.stack.rig.process("manager")
        assert manager is not None
        manager.kill(signal.SIGKILL)
        await clients["management"].delete(JOBS, "deleted", team.name)
        await asyncio.to_thread(team.stack.rig.restart, "manager")
        await observer.wait("complete", 1)

        left = [
            job["metadata"]["name"]
            for worker in team.stack.rig.workers
            for job in (await clients[worker].list(JOBS, team.name)).items
        ]
        assert "deleted" not in left
        assert len(observer.starts["kept"]) == 1
