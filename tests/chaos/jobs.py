"""Many Jobs on their way, and what becomes of them; what the manager's pages say meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.observer import Observer, observing
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS
from tests.integration.conftest import Team

CREATORS = 8
LOOK_S = 0.2


class Storm:
    """Jobs of one team, by name; `create` may be called again for more."""

    def __init__(self, team: Team, observer: Observer, clients: dict[str, KubeClient]) -> None:
        self.team, self.observer, self.clients = team, observer, clients
        self.names: list[str] = []

    async def create(self, count: int) -> None:
        """Create so many one-pod Jobs."""
        wanted = [f"job-{len(self.names) + index:03d}" for index in range(count)]
        self.names += wanted

        async def creator() -> None:
            while wanted:
                name = wanted.pop()
                self.observer.created[name] = asyncio.get_running_loop().time()
                await self.clients["management"].create(JOBS, self.team.job(name))

        await asyncio.gather(*(creator() for _ in range(CREATORS)))

    @property
    def complete(self) -> int:
        """How many are."""
        return len(self.observer.reached["complete"])

    async def all_complete_once(self) -> None:
        """Every Job is Complete and was started once. Starts are counted by watches on the workers
        (distinct copies with a start time), never from our own statuses.
        """
        await self.observer.wait("complete", len(self.names))
        starts = self.observer.starts
        twice = [name for name, found in starts.items() if len(found) > 1]
        history = {name: (sorted(starts[name]), self.observer.said[name]) for name in twice}
        assert not twice, f"started more than once: {history}"
        never = sorted(set(self.names) - set(starts))
        assert not never, f"complete, but no start was seen: {never}"
        jobs = (await self.clients["management"].list(JOBS, self.team.name)).items
        assert {job["status"]["succeeded"] for job in jobs} == {1}


@asynccontextmanager
async def storm(team: Team, count: int, begun: int = 20) -> AsyncIterator[Storm]:
    """`count` Jobs of which `begun` have completed: others run, and others wait."""
    async with observing(team.stack, team.name) as (observer, clients):
        found = Storm(team, observer, clients)
        creating = asyncio.create_task(found.create(count))
        await observer.wait("complete", begun)
        yield found
        await creating


async def status(team: Team, manager: str = "manager") -> dict[str, Any]:
    """What a manager says of itself; {} if it says nothing."""
    page = await asyncio.to_thread(team.stack.page, manager, "status")
    return dict(json.loads(page)) if page else {}


async def until_status(team: Team, manager: str = "manager", **wanted: Any) -> dict[str, Any]:
    """Wait until a manager's page has these values."""
    while True:
        found = await status(team, manager)
        if all(found.get(key) == value for key, value in wanted.items()):
            return found
        await asyncio.sleep(LOOK_S)  # a page has no events
