"""Where the workers of clusters run in the simulation: in the manager's process, or as actors that
take the place of Ray's. Those come late, are lost, and are had again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from bench.dst.clock import VirtualLoop
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from manager.cluster_worker import ClusterWorker
from manager.leash import Leash
from manager.local_runtime import TaskHandle
from manager.protocol import ClusterSpec, Command, News, Outcome, WorkerHandle, WorkerUnavailable
from manager.runtime import RuntimeTimes, SupervisedRuntime
from tests.fakes.links import Link

TIMES = RuntimeTimes(check_s=5.0)
"""Each look at actors costs a timer, and proves nothing more here."""
USED = 0.4
"""The share of the lives of managers that have actors at all."""
LAST_S = 400.0
"""Nothing is lost any more after this time."""


class SimRuntime:
    """As LocalRuntime, over the simulated network. `links` are those of the manager."""

    name = "simulation"
    problem = ""

    def __init__(self, links: dict[str, Link]) -> None:
        self._links = links
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        """See Runtime."""
        return self.worker(spec)

    def worker(self, spec: ClusterSpec, leash: Leash | None = None) -> TaskHandle:
        """A worker that runs."""
        worker = ClusterWorker(spec, client_of(self._links[spec.name], spec.name), leash)
        task = asyncio.create_task(worker.run())
        self._tasks.append(task)
        return TaskHandle(worker, task)

    async def aclose(self) -> None:
        """See Runtime."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Actors(SimRuntime):
    """A Backend, as Ray is one. It is lost at some time, which is seen when it is looked at."""

    name = "actors"

    def __init__(self, links: dict[str, Link], loop: VirtualLoop, rng: random.Random) -> None:
        super().__init__(links)
        self._rng = rng
        lost = loop.time() + rng.uniform(5, 240)
        self._loop, self._lost_at = loop, lost if lost < LAST_S else float("inf")

    async def start(self, spec: ClusterSpec) -> _Actor:
        """See Backend."""
        return _Actor(self, spec, Leash(self._loop.time), self._rng.choice((0.0, 0.5, 3.0)))

    async def check(self) -> str:
        """See Backend."""
        return "it was lost" if self._loop.time() > self._lost_at else ""


class _Actor:
    """As that of `manager.ray_runtime`: it lists its cluster when first asked for something."""

    def __init__(self, actors: Actors, spec: ClusterSpec, leash: Leash, starts_s: float) -> None:
        self._actors, self._spec, self._leash, self._starts_s = actors, spec, leash, starts_s
        self._handle: TaskHandle | None = None

    def _running(self) -> TaskHandle:
        if self._handle is None:
            self._handle = self._actors.worker(self._spec, self._leash)
        return self._handle

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        return await self._running().apply(commands)

    async def poll(self, instance: str, ack: int) -> News:
        news = await self._running().poll(instance, ack)
        if not instance:  # its process is new, and slow to answer
            await asyncio.sleep(self._starts_s)  # in virtual time
        return news

    async def begin_again(self) -> None:
        await self.stop()
        self._handle = None
        self._running()

    async def stop(self) -> None:
        if self._handle is not None:
            await self._handle.stop()


class Workers:
    """Those of one life of a manager."""

    def __init__(self, links: dict[str, Link], loop: VirtualLoop) -> None:
        self._links, self._loop, self._rng = links, loop, random.Random()
        self._all: list[SimRuntime] = [SimRuntime(links)]
        self._used = self._rng.random() < USED

    def runtime(self, halted: Callable[[], str]) -> SupervisedRuntime:
        """What exchanges them. `halted` says why nothing may be written."""
        return SupervisedRuntime(
            self._open if self._used else None, self._all[0], halted=halted, times=TIMES,
            clock=self._loop.time,
        )  # fmt: skip

    async def _open(self) -> Actors:
        await asyncio.sleep(self._rng.uniform(0, 12))  # Ray starts, in virtual time
        if self._rng.random() < 0.2 and self._loop.time() < LAST_S:
            raise WorkerUnavailable("it does not start")
        actors = Actors(self._links, self._loop, self._rng)
        self._all.append(actors)
        return actors

    async def aclose(self) -> None:
        """End all that still run."""
        for runtime in self._all:
            await runtime.aclose()


def client_of(link: Link, name: str) -> KubeClient:
    """A client whose requests go over a simulated connection."""
    return KubeClient(Endpoint("https://fake", name=name), transport=link)
