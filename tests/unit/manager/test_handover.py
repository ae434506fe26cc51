"""The worker of a cluster gives way to an actor while jobs are on their way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from manager.protocol import ClusterSpec, Command, News, Outcome, WorkerHandle
from manager.runtime import RuntimeTimes, SupervisedRuntime
from tests.unit.manager.federation import FakeRuntime, Federation
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker


class Actor:
    """It lists its cluster as soon as it is started. What it tells is on its way until it is
    `released`.
    """

    def __init__(self, runtime: Actors, spec: ClusterSpec, handle: WorkerHandle) -> None:
        self._runtime, self._spec, self._handle = runtime, spec, handle
        self.told = asyncio.Event()

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        return await self._handle.apply(commands)

    async def poll(self, instance: str, ack: int) -> News:
        await until(lambda: all_listed_twice(self._runtime.clusters), "the actors have listed, too")
        news = await self._handle.poll(instance, ack)
        self.told.set()
        await self._runtime.released.wait()
        return news

    async def begin_again(self) -> None:
        await self._handle.stop()
        self._handle = await self._runtime.worker(self._spec)

    async def stop(self) -> None:
        await self._handle.stop()


class Actors(FakeRuntime):
    """Takes the place of Ray."""

    name = "ray"

    def __init__(self, federation: Federation) -> None:
        super().__init__(federation.workers)
        self.released = asyncio.Event()
        self.begun: list[Actor] = []

    async def worker(self, spec: ClusterSpec) -> WorkerHandle:
        return await super().start(spec)

    async def start(self, spec: ClusterSpec) -> Actor:
        self.begun.append(Actor(self, spec, await self.worker(spec)))
        return self.begun[-1]

    async def check(self) -> str:
        return ""


def all_listed_twice(clusters: dict[str, Worker]) -> bool:
    """A watch follows a listing that was taken in."""
    return all(
        sum("/jobs?" in path and "watch=" in path for _, path in worker.fake.log) >= 2
        for worker in clusters.values()
    )


@contextlib.asynccontextmanager
async def handing_over(federation: Federation) -> AsyncIterator[tuple[Actors, SupervisedRuntime]]:
    """A manager whose workers run in process; actors have listed, and are not heard of yet."""
    actors, ready = Actors(federation), asyncio.Event()

    async def open_ray() -> Actors:
        await ready.wait()
        return actors

    times = RuntimeTimes(patience_s=0.01)
    runtime = SupervisedRuntime(open_ray, FakeRuntime(federation.workers), times=times)
    federation.runtime = lambda: runtime
    healing = asyncio.create_task(runtime.run())
    try:
        async with federation.running():
            await until(lambda: runtime.name == FakeRuntime.name, "workers in process")
            ready.set()
            await until(lambda: len(actors.begun) == len(federation.workers), "actors started")
            for actor in actors.begun:
                await actor.told.wait()
            yield actors, runtime
    finally:
        await stop([healing])


async def test_copies_made_before_an_actor_takes_over_are_not_missed_by_it() -> None:
    """It has listed its cluster before they were made: that is no sign that they are gone, nor that
    the cluster was restored from a backup. Such jobs were bound, and started, a second time.
    """
    federation = Federation("a", "b")
    async with handing_over(federation) as (actors, runtime):
        federation.submit("j")
        federation.start(await federation.offered("j"), "j")
        await until(lambda: federation.record("j").admitted, "j runs")
        before = federation.copy("j")
        actors.released.set()
        await until(lambda: runtime.name == "ray", "the actors have taken over")
        federation.submit("k")
        federation.start(await federation.offered("k"), "k")
        await until(lambda: federation.record("k").admitted, "k runs, as the actors tell")
        assert federation.record("j").binding.attempt == 1
        assert not federation.record("j").life.evicted
        assert federation.copy("j") == before
