"""A leader that is frozen at any of its writes, a new one that goes on, and the old one back.

Nothing of leadership is used here: for as long as the test lasts after the thaw both act, which is
worse than what `manager.election` allows. What the old one had sent or decided must be harmless by
itself. The agents are real; starts are counted from the history of the worker API servers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CLUSTER_QUEUES, JOBS
from manager.app import Manager
from manager.cluster_worker import ClusterWorker
from manager.local_runtime import TaskHandle
from manager.protocol import ClusterSpec, WorkerHandle
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.federation import ORIGIN, Federation
from tests.unit.manager.support import Breakable, until

QUIET_S = 0.3


@dataclass(frozen=True)
class Step:
    """The nth write of a kind; where it is held: before the server has it, or before its answer."""

    name: str
    server: str
    method: str
    tail: tuple[str, ...]
    nth: int
    where: str = "before"

    def __str__(self) -> str:
        return f"{self.where} {self.name}"


WRITES = (
    Step("the Workload is created", "home", "POST", ("workloads",), 1),
    Step("the job is bound", "home", "PATCH", ("workloads", "status"), 1),
    Step("the offer is made", "worker", "POST", ("jobs",), 1),
    Step("it is recorded as admitted", "home", "PATCH", ("workloads", "status"), 2),
    Step("the local Job is unsuspended", "home", "PATCH", ("jobs", ""), 1),
    Step("its status is copied", "home", "PATCH", ("jobs", "status"), 1),
)
LATE_WRITES = (  # counted from when the job runs
    Step("its result is copied", "home", "PATCH", ("jobs", "status"), 1),
    Step("it is recorded as finished", "home", "PATCH", ("workloads", "status"), 1),
    Step("the copy is removed", "worker", "DELETE", ("jobs", ""), 1),
)


def at(*steps: Step) -> list[Step]:
    return [Step(**{**s.__dict__, "where": where}) for s in steps for where in ("before", "after")]


class Frozen:
    """Whether a manager stands still, and at which of its writes it begins to."""

    def __init__(self) -> None:
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.step: Step | None = None
        self.count = 0

    def meets(self, server: str, request: httpx.Request) -> Step | None:
        step = self.step
        if step is None or (server, request.method) != (step.server, step.method):
            return None
        parts = request.url.path.split("/")
        kind = parts[6] if len(parts) > 6 else ""
        sub = parts[8] if len(parts) > 8 else ""
        if kind != step.tail[0] or (len(step.tail) > 1 and sub != step.tail[1]):
            return None
        self.count += 1
        return step if self.count == step.nth else None


class Line(httpx.AsyncBaseTransport):
    """The way of one manager to one API server, which stands still with the manager."""

    def __init__(self, fake: FakeKube, frozen: Frozen, name: str) -> None:
        self._fake, self._frozen, self._name = fake, frozen, name

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._frozen.thawed.wait()
        step = self._frozen.meets(self._name, request)
        if step is not None and step.where == "before":
            self._frozen.thawed.clear()
            await self._frozen.thawed.wait()
        request.extensions["hold"] = self._frozen.thawed.wait
        response = await self._fake.handle_async_request(request)
        if step is not None and step.where == "after":
            self._frozen.thawed.clear()
        await self._frozen.thawed.wait()
        return response


class Runtime:
    name, problem = "fake", ""

    def __init__(self, fed: Federation, frozen: Frozen) -> None:
        self._fed, self._frozen = fed, frozen
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        line = Line(self._fed.workers[spec.name].fake, self._frozen, "worker")
        worker = ClusterWorker(spec, KubeClient(Endpoint("https://fake"), transport=line))
        self.tasks.append(asyncio.create_task(worker.run()))
        return TaskHandle(worker, self.tasks[-1])

    async def aclose(self) -> None:
        await end(*self.tasks)


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel these tasks, and no others."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class World(Federation):
    """Two clusters with agents, and what plays their pods. `may_end` lets jobs end."""

    def __init__(self) -> None:
        super().__init__("a", "b")
        self.may_end = asyncio.Event()

    @contextlib.asynccontextmanager
    async def manager_behind(self, frozen: Frozen) -> AsyncIterator[Manager]:
        """A manager with an index of its own: the one in Redis is its last filler's alone."""
        client = KubeClient(Endpoint("https://home"), transport=Line(self.home, frozen, "home"))
        runtime = Runtime(self, frozen)
        manager = Manager(client, Breakable(), runtime, ORIGIN)
        task = asyncio.create_task(manager.run())
        try:
            await until(lambda: manager.ready or task.done(), "the manager is ready")
            yield manager
            assert not task.done(), task
        finally:
            frozen.thawed.set()
            await end(task, *runtime.tasks)
            await client.aclose()

    @contextlib.asynccontextmanager
    async def clusters(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for worker in self.workers.values():
                await stack.enter_async_context(worker.running())
            pods = asyncio.create_task(self._pods())
            try:
                yield
            finally:
                await end(pods)

    async def _pods(self) -> None:
        while True:
            await asyncio.sleep(0.002)
            for worker in self.workers.values():
                for job in worker.fake.items(JOBS):
                    status, name = job.get("status") or {}, job["metadata"]["name"]
                    if job["spec"]["suspend"] or status.get("completionTime"):
                        continue
                    if not status.get("startTime"):
                        worker.run_pods(name)
                    elif self.may_end.is_set():
                        worker.end(name)

    def starts(self) -> dict[str, set[str]]:
        """UIDs of all copies that were ever unsuspended, by name."""
        found: dict[str, set[str]] = {}
        for worker in self.workers.values():
            for change in worker.fake.objects.history:
                job = change.new
                if change.resource == JOBS and job and not job["spec"]["suspend"]:
                    found.setdefault(job["metadata"]["name"], set()).add(job["metadata"]["uid"])
        return found

    def ended(self, name: str = "j") -> bool:
        """All is said and done."""
        status, record = self.local(name).get("status") or {}, self.record(name)
        kinds = {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}
        return "Complete" in kinds and record and record.finished and self.copy(name) is None

    def runs(self, name: str = "j") -> bool:
        local = self.local(name)
        return not local["spec"]["suspend"] and (local.get("status") or {}).get("active") == 1

    async def quiet(self) -> None:
        """Until nobody has written for a while."""
        fakes = [self.home, *(worker.fake for worker in self.workers.values())]
        before, since, loop = -1, 0.0, asyncio.get_running_loop()
        while before < 0 or loop.time() - since < QUIET_S:
            now = sum(fake.objects.version for fake in fakes)
            if now != before:
                before, since = now, loop.time()
            await asyncio.sleep(0.01)


Meanwhile = Callable[[World], Awaitable[None]]


async def _thawed(step: Step, meanwhile: Meanwhile, *, ends: bool = False) -> World:
    """Freeze the old leader at a step, let a new one do `meanwhile`, thaw the old one."""
    world, old, new = World(), Frozen(), Frozen()
    async with world.clusters(), world.manager_behind(old):
        old.step = None if ends else step
        world.submit()
        if ends:
            await until(world.runs, "the job runs")
            await world.quiet()
            old.step = step
            world.may_end.set()
        await until(lambda: not old.thawed.is_set(), f"the old leader is frozen {step}")
        async with world.manager_behind(new):
            await meanwhile(world)
            before = world.copy()
            old.thawed.set()
            await world.quiet()
            after = world.copy()
            same = before and after and before[1]["metadata"]["uid"] == after[1]["metadata"]["uid"]
            assert same or before is after is None, "no copy was deleted, and none came"
            world.may_end.set()
            await until(world.ended, "the job ends")
            await world.quiet()
            assert world.ended()
    return world


@pytest.mark.parametrize("step", at(*WRITES), ids=str)
async def test_the_job_runs_while_the_old_leader_comes_back(step: Step) -> None:
    """Its copy goes on, and is the only one that ever started."""

    async def run(world: World) -> None:
        await until(world.runs, "the job runs")
        await world.quiet()

    world = await _thawed(step, run)
    assert len(world.starts()["j"]) == 1
    assert world.record().binding.attempt == 1


@pytest.mark.parametrize("step", at(*WRITES, *LATE_WRITES), ids=str)
async def test_the_job_has_ended_when_the_old_leader_comes_back(step: Step) -> None:
    """It stays ended: not created again, not started again, nothing written over its result."""

    async def end(world: World) -> None:
        world.may_end.set()
        await until(world.ended, "the job ends")
        await world.quiet()

    world = await _thawed(step, end, ends=step.name in {late.name for late in LATE_WRITES})
    assert len(world.starts()["j"]) == 1
    assert world.record().binding.attempt == 1


@pytest.mark.parametrize("step", at(*WRITES[1:3])[:3], ids=str)
async def test_the_job_runs_elsewhere_when_the_old_leader_comes_back(step: Step) -> None:
    """The cluster of its first attempt said no and takes jobs again; the late offer of that
    attempt is refused there, and removed.
    """

    async def move(world: World) -> None:
        worker = world.workers["a"]
        worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await until(world.runs, "the job runs")
        found = world.copy()
        assert found is not None
        assert found[0] == "b"
        worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await world.quiet()

    world = await _thawed(step, move)
    assert len(world.starts()["j"]) == 1
    assert world.record().binding.attempt == 2


async def test_orders_of_people_are_not_undone() -> None:
    """The old leader is about to start the local Job; meanwhile somebody held it."""
    step = at(WRITES[4])[0]
    world, old, new = World(), Frozen(), Frozen()
    async with world.clusters(), world.manager_behind(old):
        old.step = step
        world.submit()
        await until(lambda: not old.thawed.is_set(), "the old leader is frozen")
        async with world.manager_behind(new):
            await until(world.runs, "the job runs")
            world.home.merge(JOBS, "j", {"spec": {"suspend": True}}, "team")
            await until(lambda: world.copy() is None, "the job is held")
            await world.quiet()
            old.thawed.set()
            await world.quiet()
            held: Any = world.local()
            assert held["spec"]["suspend"]
            assert not world.record().active
            assert world.copy() is None
