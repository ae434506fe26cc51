"""The programs under test in the simulation: started, killed at any request, restarted."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

from bench.dst import checks
from bench.dst.clock import HOST, Host, VirtualLoop
from bench.dst.cluster import Cluster
from bench.dst.index import OpenedIndex, ShakyIndex
from bench.dst.workers import Workers, client_of
from federation.core.election import ElectionTimes
from federation.core.failover import Tier, Timings
from federation.core.policies import Policies
from manager.app import Manager
from manager.election import Election, LeadershipLost
from tests.fakes.kube_api import FakeKube
from tests.fakes.links import Link
from worker_agent.__main__ import run as run_agent
from worker_agent.deadline_file import DeadlineFile
from worker_agent.heartbeat import Heartbeat
from worker_agent.settings import AgentSettings
from worker_agent.state import Settings

ORIGIN = "origin"
ELECTION = "election"
TERM = ElectionTimes(lease_s=15, renew_deadline_s=12.0, retry_s=5.0)
"""Each renewal costs a request, and proves nothing more here."""
Json = dict[str, Any]


class Program:
    """A process that is restarted when it ends. `links` are its connections, by server name; they
    outlive it, so that a cut does. `crashed` hears of an end that nobody ordered.
    """

    def __init__(
        self, loop: VirtualLoop, host: Host, links: dict[str, Link], crashed: Callable[[str], None]
    ) -> None:
        self.loop, self.host, self.links, self.crashed = loop, host, links, crashed
        self.lives = 0
        self.task: asyncio.Task[None] | None = None
        self.dies_in: int | None = None
        """After so many more requests it is killed, between two of them."""
        self.down_s = 2.0
        """How long it stays dead then."""
        self.on_killed: Callable[[], None] = lambda: None
        for link in links.values():
            link.on_request = self._request

    async def main(self, links: dict[str, Link]) -> None:
        """One life of the program."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin a life."""
        if self.task is not None:
            return
        self.lives += 1
        for link in self.links.values():
            link.dead = False
        name = f"{self.host.name}/{self.lives}"
        self.task = self.loop.spawn(self.main(self.links), self.host, name)
        self.task.add_done_callback(self._ended)

    def kill(self, down_s: float) -> None:
        """kill -9; started again after some seconds."""
        if self.task is None or any(link.dead for link in self.links.values()):
            return
        for link in self.links.values():
            link.dead = True
        self.down_s = down_s
        self.on_killed()
        self.task.cancel()

    def _request(self, method: str, path: str, before: bool) -> None:
        if self.dies_in is None or (method == "GET" and before):
            return
        if method != "GET":
            self.dies_in -= 1
            if self.dies_in < 0:
                self.dies_in = None
                self.kill(self.down_s)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashed(f"{self.host.name} crashed: {_innermost(error)!r}")
        elif not any(link.dead for link in self.links.values()):
            self.crashed(f"{self.host.name} ended by itself")
        self.loop.later(self.down_s, self.start)


class ManagerProgram(Program):
    """A replica of the manager, with the workers of its clusters in process. Worker `a` is link
    `a`, the management cluster is link '', and ELECTION leads there too, with a client of its own.
    """

    def __init__(self, index: ShakyIndex, policies: Policies, timings: Timings, *rest: Any) -> None:
        super().__init__(*rest)
        self.index, self.policies, self.timings = index, policies, timings
        self.manager: Manager | None = None
        """What it runs while it leads."""

    async def main(self, links: dict[str, Link]) -> None:
        """See Program. Who has lost the Lease ends in reality, and stands by in its next life."""
        for term in itertools.count(1):
            client = client_of(links[ELECTION], "home")
            identity = f"{self.host.name}/{self.lives}/{term}"
            election = Election(client, identity, TERM, clock=self.loop.time)
            await election.lead()
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(election.keep())
                    tasks.create_task(self._manage(links, election))
            except* LeadershipLost:
                pass
            finally:
                self.manager = None
                await election.resign()

    async def _manage(self, links: dict[str, Link], election: Election) -> None:
        def halted() -> str:
            return "" if election.may_act() else "this manager does not lead at the moment"

        client = client_of(links[""], "home")
        client.halted = halted
        workers = Workers(links, self.loop)
        runtime = workers.runtime(halted)
        index = OpenedIndex(self.index)
        self.manager = Manager(client, index, runtime, ORIGIN, self.policies, self.timings)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(runtime.run())
                tasks.create_task(self.manager.run())
        finally:
            await workers.aclose()


class AgentProgram(Program):
    """The agent of one worker: link `local` to its own API server, `lease` to the management. The
    note of its deadline outlives it.
    """

    def __init__(self, cluster: Cluster, tier: Literal[Tier.AGENT, Tier.GUARD], *rest: Any) -> None:
        super().__init__(*rest)
        self.cluster, self.tier = cluster, tier
        self.note = Note()

    async def main(self, links: dict[str, Link]) -> None:
        """See Program."""
        name, clock = self.cluster.name, self.loop.time
        settings = AgentSettings.model_construct(cluster=name, listen="", tier=self.tier)
        holder = f"agent-{name}-{self.lives}"
        file = DeadlineFile(cast(Path, self.note), name, "boot")
        lease = client_of(links["lease"], "home")
        guarded = self.tier is Tier.GUARD
        heartbeat = Heartbeat(lease, name, holder, file=file, guarded=guarded, clock=clock)
        binder = self.cluster.binder
        rules = Settings(
            clock=self.loop.wall, boottime=clock, binder=binder, checks_s=checks.WAIT_S
        )
        await run_agent(client_of(links["local"], name), heartbeat, settings, rules)


class Note:
    """A file in memory, as far as DeadlineFile reads a Path; see `determinism` for its writing."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.full = False
        """Whether its disk is: nothing can be written."""

    def read_text(self) -> str:
        """See Path."""
        if self.text is None:
            raise FileNotFoundError
        return self.text

    def write_text(self, text: str) -> None:
        """See Path."""
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.text = text


def link_to(server: FakeKube, rng: random.Random) -> Link:
    """A connection with its own chance."""
    return Link(server, random.Random(rng.getrandbits(64)))


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


__all__ = ["ELECTION", "HOST", "AgentProgram", "ManagerProgram", "Program", "link_to"]
