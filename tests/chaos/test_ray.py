"""Ray loses a vital part in the middle of Jobs: the manager goes on without it, then with it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from bench.usage import descendants
from manager import sessions
from tests.chaos.jobs import status, storm, until_status
from tests.integration.conftest import Team

JOBS_IN_FLIGHT = 100
RESUMES_S = 120.0


def named(pid: int, name: str) -> list[int]:
    """Descendants of a process by the name the kernel has for them."""
    found = [sessions.process(child) for child in descendants(pid)]
    return [one.pid for one in found if one is not None and one.name == name]


@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    ("victim", "blow"),
    [("raylet", signal.SIGKILL), ("gcs_server", signal.SIGKILL), ("gcs_server", signal.SIGSTOP)],
    ids=["raylet killed", "GCS killed", "GCS frozen"],
)
async def test_jobs_go_on_without_ray(team: Team, victim: str, blow: signal.Signals) -> None:
    """Dispatch resumes by workers in the manager's process, which says so; then Ray is back. The
    manager stays the same all along, every Job finishes, and none starts twice.
    """
    manager = team.stack.rig.process("manager")
    assert manager is not None
    await until_status(team, runtime="ray")
    async with storm(team, JOBS_IN_FLIGHT) as jobs:
        [pid] = named(manager.pid, victim)
        loop = asyncio.get_running_loop()
        os.kill(pid, blow)
        struck = loop.time()
        found = await until_status(team, runtime="in-process")
        assert loop.time() - struck < RESUMES_S
        assert "Ray" in found["runtimeProblem"]
        await jobs.all_complete_once()

        await until_status(team, runtime="ray", runtimeProblem="")
        await jobs.create(10)
        await jobs.all_complete_once()
        assert manager.running
        assert (await status(team))["clusters"]["worker-1"]["pid"] != manager.pid


@pytest.mark.timeout(240)
async def test_nothing_of_ray_outlives_a_killed_manager(team: Team) -> None:
    """What its death leaves alive of Ray is ended at the next start, at the latest."""
    manager = team.stack.rig.process("manager")
    assert manager is not None
    await until_status(team, runtime="ray")
    [raylet] = named(manager.pid, "raylet")
    found = sessions.process(raylet)
    assert found is not None
    manager.kill(signal.SIGKILL)
    again = await asyncio.to_thread(team.stack.rig.restart, "manager")
    assert again.pid != manager.pid
    await until_status(team, ready=True)
    assert sessions.members(found.session) == []
    await until_status(team, runtime="ray")
