"""The watch over clusters on virtual time: a fake management API, agents that renew, a manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import httpx

from bench.dst.clock import Host, VirtualLoop
from bench.dst.determinism import deterministic
from federation.api.names import FEDQ_NAMESPACE, FENCED, Mirror
from federation.core.failover import DEFAULT, Standing, Timings
from federation.core.health import Facts, Phase
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import LEASES
from manager.health import Watcher
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import stop

Json = dict[str, Any]


def virtually(main: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    """Run to the end, in no time."""
    loop = VirtualLoop()
    try:
        with deterministic(loop, 1):
            loop.run_until_complete(loop.spawn(main(loop), Host("manager", start=1000.0)))
    finally:
        loop.close()


class Wire(httpx.AsyncBaseTransport):
    """The way to the management API; watches can be `frozen` while requests pass. `slow` says how
    many seconds a request takes.
    """

    def __init__(self, home: FakeKube) -> None:
        self._home = home
        self.slow: Callable[[httpx.Request], float] = lambda request: 0.0
        self._thawed = asyncio.Event()
        self._thawed.set()

    def freeze(self, frozen: bool = True) -> None:
        (self._thawed.clear if frozen else self._thawed.set)()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["hold"] = self._thawed.wait
        if (seconds := self.slow(request)) > 0:
            await asyncio.sleep(seconds)  # virtual time
        return await self._home.handle_async_request(request)


class Scene:
    """Clusters of these names, each with an agent that renews while it is not in `cut`.

    `heard` are the standings that the jobs were told, with the true time.
    """

    def __init__(self, loop: VirtualLoop, *names: str, timings: Timings = DEFAULT) -> None:
        self.loop, self.timings = loop, timings
        self.home = FakeKube(namespaces=(FEDQ_NAMESPACE,))
        self.wire = Wire(self.home)
        self.facts: dict[str, Facts] = {name: Facts() for name in names}
        self.bound: dict[str, int] = {}
        self.cut: set[str] = set()
        self.renewed: dict[str, float] = {}
        self.heard: list[tuple[float, Standing]] = []
        self.wall = 0.0
        """What the agents' clocks on the wall are off by."""
        self._tasks: list[asyncio.Task[None]] = []
        self._manager: list[asyncio.Task[None]] = []
        self.watcher: Watcher = None  # type: ignore[assignment]

    async def start(self) -> None:
        """Start the manager, then the agents once their Leases are there."""
        await self.start_manager()
        await self.after(2)
        self._tasks += [asyncio.create_task(self._agent(name)) for name in self.facts]
        await self.after(3)

    async def start_manager(self, **shown: str) -> None:
        client = KubeClient(Endpoint("https://home", name="home"), transport=self.wire)
        self.watcher = watcher = Watcher(client, self.timings)
        watcher.names, watcher.facts = lambda: list(self.facts), self.facts.get
        watcher.bound_epochs = lambda: self.bound
        watcher.on_standing = lambda standing: self.heard.append((self.loop.now, standing))
        informer = asyncio.create_task(watcher.leases.informer.run())
        await watcher.leases.informer.synced.wait()
        watcher.begin(shown)
        self._manager = [informer, asyncio.create_task(watcher.run())]

    async def stop_manager(self) -> None:
        await stop(self._manager)

    async def end(self) -> None:
        crashed = [task for task in [*self._tasks, *self._manager] if task.done()]
        assert crashed == []
        await stop([*self._tasks, *self._manager])

    async def after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, holds: Callable[[], object], most: float = 1000) -> float:
        """Wait until something holds; returns the time."""
        end = self.loop.now + most
        while not holds():
            assert self.loop.now < end, f"not within {most} s"
            await asyncio.sleep(0.25)
        return self.loop.now

    # Agents

    async def _agent(self, name: str) -> None:
        while True:
            if name not in self.cut and not self.home.silent:
                self.renew(name)
                await asyncio.sleep(self.timings.renew)
            else:
                await asyncio.sleep(1)

    def renew(self, name: str) -> None:
        """As the agent does: it takes a new epoch over once it has reported all it has."""
        found = self.home.objects.data.get(LEASES, {}).get((FEDQ_NAMESPACE, name))
        if found is None:
            return
        if name in self.facts:
            self.facts[name] = replace(self.facts[name], inventory_epoch=epoch_of(found))
        text = f"{1970 + int(self.wall)}-01-01T00:00:00.{int(self.loop.now * 1000) % 10**6:06}Z"
        spec = {"holderIdentity": f"agent-{name}", "renewTime": text}
        self.home.merge(LEASES, name, {"spec": spec}, FEDQ_NAMESPACE)
        self.renewed[name] = self.loop.now

    # What can be seen

    def lease(self, name: str) -> Json:
        return self.home.get(LEASES, name, FEDQ_NAMESPACE)

    def epoch(self, name: str) -> int:
        return epoch_of(self.lease(name))

    def fenced(self, name: str) -> bool:
        return bool(self.lease(name)["spec"].get("holderIdentity") == FENCED)

    def phase(self, name: str) -> Phase:
        return self.watcher.verdict(name).phase

    def first(self, name: str, what: Callable[[Standing], object], since: float = 0.0) -> float:
        """When its jobs were first told something."""
        return next(at for at, s in self.heard if at >= since and s.cluster == name and what(s))

    def told(self, what: Callable[[Standing], object]) -> set[str]:
        """Clusters of which that was ever said."""
        return {standing.cluster for _, standing in self.heard if what(standing)}


def epoch_of(lease: Json) -> int:
    return int(lease["metadata"]["annotations"][Mirror.EPOCH.value])
