"""Keeps the workers of clusters going, whatever becomes of Ray.

They run as Ray actors while Ray is well. If it cannot be had, or is lost, they go on in this
process, which says so, and Ray is tried again, each time after a longer pause. An actor that does
not answer is replaced; if that does not help either, Ray is given up.

A cluster keeps its handle, a `Seat`, while the worker behind it is exchanged: to its link this is a
worker that was restarted. The next worker begins when the one before certainly writes no
more: it was stopped, it was killed, or its leash is over (`manager.leash`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from federation.edge.machine import boottime
from manager.leash import LEASH_S
from manager.protocol import (
    ClusterSpec,
    Command,
    News,
    Outcome,
    Runtime,
    WorkerHandle,
    WorkerUnavailable,
)

log = structlog.get_logger(__name__)
T = TypeVar("T")


class ActorHandle(WorkerHandle, Protocol):
    """A worker that was heard of before it takes over from another one."""

    async def begin_again(self) -> None:
        """List the cluster anew, and tell all again: what it has listed may be older than what the
        other one told of.
        """


class Backend(Protocol):
    """Ray, as far as it is of interest here. `aclose` returns when none of its workers writes any
    more."""

    name: str

    async def start(self, spec: ClusterSpec) -> ActorHandle:
        """See Runtime."""

    async def check(self) -> str:
        """What is wrong with it; '' if nothing is. Answers within some seconds."""

    async def aclose(self) -> None:
        """See Runtime."""


@dataclass(frozen=True, slots=True)
class RuntimeTimes:
    """Seconds. A pause doubles each time; after `well_s` with Ray in use it begins anew."""

    start_s: float = 120.0
    """Ray has started within this time, or it does not."""
    patience_s: float = 2.0
    """Clusters are worked on without Ray if it takes longer to start: a leader that takes over has
    waited for long enough."""
    first_answer_s: float = 45.0
    """An actor has this long to start its process."""
    contact_s: float = 5.0
    """And this long to reach its cluster, before it takes over from a worker that does."""
    poll_s: float = 10.0
    silence_s: float = LEASH_S + 1
    """An actor that is not heard of for as long is replaced: it refuses all work by then."""
    apply_s: float = 60.0
    check_s: float = 2.0
    pause_s: float = 15.0
    most_pause_s: float = 600.0
    well_s: float = 30.0


class SupervisedRuntime:
    """A Runtime that heals itself while `run` runs. `halted` says why nothing may be written."""

    def __init__(
        self,
        open_ray: Callable[[], Awaitable[Backend]] | None,
        local: Runtime,
        *,
        halted: Callable[[], str] = lambda: "",
        times: RuntimeTimes | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.times, self.clock, self.halted = times or RuntimeTimes(), clock, halted
        self._open, self._local = open_ray, local
        self._now: Runtime | Backend | None = None
        self._ray: Backend | None = None
        self._in_use_since: float | None = None
        self._seats: set[Seat] = set()
        self.problem = ""
        """Why the workers do not run as Ray actors although they should; '' if they do."""

    @property
    def name(self) -> str:
        """Where the workers run now."""
        return self._now.name if self._now is not None else "starting"

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        """See Runtime."""
        seat = Seat(self, spec)
        self._seats.add(seat)
        if self._now is not None:
            with contextlib.suppress(WorkerUnavailable):  # Ray is being lost at this moment
                await seat.take(self._now, await self._now.start(spec))
        return seat

    def vacated(self, seat: Seat) -> None:
        """A cluster is not looked after any more."""
        self._seats.discard(seat)

    async def aclose(self) -> None:
        """See Runtime."""
        if self._ray is not None:
            await self._ray.aclose()
        await self._local.aclose()

    async def run(self) -> None:
        """Heal until cancelled."""
        if self._open is None:
            await self._use(self._local)
            await asyncio.Event().wait()
        pause = 0.0
        while True:
            self._in_use_since = None
            why = await self._with_ray()
            since = self._in_use_since
            if since is not None and self.clock() - since > self.times.well_s:
                pause = 0.0
            pause = min(max(self.times.pause_s, 2 * pause), self.times.most_pause_s)
            self._say(f"{why}. It is tried again after {pause:.0f} s")
            await asyncio.sleep(pause)  # nothing tells that Ray could be had now

    def _say(self, why: str) -> None:
        self.problem = f"cluster workers run in the manager's process: {why}"
        log.error("ray.unavailable", why=why, instead="cluster workers in this process")

    async def _with_ray(self) -> str:
        """Have Ray, as long as it is well. Returns what is wrong with it, everything in process."""
        ray = await self._opened()
        if isinstance(ray, str):
            await self._use(self._local)
            return ray
        self._ray = ray
        if not (why := await self._moved_to(ray)):
            self.problem, self._in_use_since = "", self.clock()
            log.info("ray.in_use", clusters=len(self._seats))
            why = await self._watched(ray)
            self._say(f"{why}. What is left of it is being ended")
        for seat in self._seats:
            seat.leave(ray)
        await ray.aclose()
        self._ray = None
        await self._use(self._local)
        return why

    async def _opened(self) -> Backend | str:
        assert self._open is not None
        opening = asyncio.ensure_future(self._open())
        try:
            done, _ = await asyncio.wait([opening], timeout=self.times.patience_s)
            if not done:
                if self._now is None:
                    self.problem = "Ray is still starting: cluster workers run in this process"
                await self._use(self._local)
                done, _ = await asyncio.wait([opening], timeout=self.times.start_s)
            if not done:
                return f"Ray has not started within {self.times.start_s:.0f} s"
            return opening.result()
        except WorkerUnavailable as error:
            return str(error)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)

    async def _use(self, runtime: Runtime) -> None:
        """Put workers of a runtime that cannot fail into all seats."""
        self._now = runtime
        for seat in [seat for seat in self._seats if seat.of is not runtime]:
            await seat.take(runtime, await runtime.start(seat.spec))

    async def _moved_to(self, ray: Backend) -> str:
        """Let actors take all seats, each once it has answered; why that failed, or ''."""
        while waiting := [seat for seat in self._seats if seat.of is not ray]:
            found = await asyncio.gather(*(self._move(seat, ray) for seat in waiting))
            if why := next(filter(None, found), ""):
                return why
        self._now = ray
        return ""

    async def _move(self, seat: Seat, ray: Backend) -> str:
        """Let an actor take a seat once it has reached its cluster. It begins again when the worker
        before has ended: a listing older than what that one told of would hide copies.
        """
        try:
            async with asyncio.timeout(self.times.first_answer_s):
                handle = await ray.start(seat.spec)
                await handle.poll("", -1)
            await self._contact(handle)
            if await seat.vacate():
                await _within(self.times.contact_s, handle.begin_again())
                await self._contact(handle)
        except WorkerUnavailable as error:
            return f"Ray has failed: {error}"
        except TimeoutError:
            return f"no actor has started within {self.times.first_answer_s:.0f} s"
        await seat.take(ray, handle)
        return ""

    async def _contact(self, handle: WorkerHandle) -> None:
        """Until an actor has something to tell, for a while. Who asks next is told the same."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.times.contact_s):
                news = await handle.poll("", -1)
                while not news.health.ok and _empty(news):
                    news = await handle.poll(news.instance, news.seq)

    async def _watched(self, ray: Backend) -> str:
        """Look after Ray and its actors; what is wrong once something is."""
        replaced: set[Seat] = set()
        while True:
            await asyncio.sleep(self.times.check_s)  # a process that hangs tells nobody
            if why := await ray.check():
                return f"Ray has failed: {why}"
            for seat in [seat for seat in self._seats if seat.silent]:
                if seat in replaced:
                    return f"actors of cluster {seat.spec.name} do not answer, one after the other"
                log.warning("cluster.worker_replaced", cluster=seat.spec.name)
                replaced.add(seat)
                try:
                    await seat.take(ray, await ray.start(seat.spec))
                except WorkerUnavailable as error:
                    return f"Ray has failed: {error}"
            replaced = {seat for seat in replaced if not seat.answered}


class Seat:
    """The worker of one cluster, whoever that is."""

    def __init__(self, runtime: SupervisedRuntime, spec: ClusterSpec) -> None:
        self.spec = spec
        self.of: object = None
        self.answered = False
        self._runtime = runtime
        self._worker: WorkerHandle | None = None
        self._taken = asyncio.Event()
        self._asking: asyncio.Future[News] | None = None
        self._deadline = 0.0
        self._removed = False

    @property
    def silent(self) -> bool:
        """Whether its worker has not answered for too long."""
        return self._runtime.clock() > self._deadline

    def leave(self, of: object) -> None:
        """The worker of runtime `of` is lost: whoever asks waits for the next."""
        if self.of is of:
            self._empty()

    def _empty(self) -> None:
        self.of = self._worker = None
        self._taken.clear()
        if self._asking is not None:
            self._asking.cancel()

    async def vacate(self) -> bool:
        """Stop the worker: whoever asks waits for the next. Returns whether there was one."""
        before = self._worker
        self._empty()
        if before is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._runtime.times.check_s):
                    await before.stop()
        return before is not None

    async def take(self, of: object, worker: WorkerHandle) -> None:
        """Let a worker of runtime `of` take over; the one before is stopped. If the cluster was
        removed meanwhile this one is.
        """
        await self.vacate()
        if self._removed:
            self.of = of  # nobody waits for it
            await worker.stop()
            return
        self.of, self._worker, self.answered = of, worker, False
        self._deadline = self._runtime.clock() + self._runtime.times.first_answer_s
        self._taken.set()

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        """See WorkerHandle."""
        if why := self._runtime.halted():
            raise WorkerUnavailable(why)
        worker = await self._present()
        return await _within(self._runtime.times.apply_s, worker.apply(commands))

    async def poll(self, instance: str, ack: int) -> News:
        """See WorkerHandle."""
        while True:
            worker, times = await self._present(), self._runtime.times
            patience = times.poll_s if self.answered else times.first_answer_s
            asking = self._asking = asyncio.ensure_future(worker.poll(instance, ack))
            try:
                news = await _within(patience, asking)
            except asyncio.CancelledError:
                own = asyncio.current_task()
                if (own is not None and own.cancelling()) or self._worker is worker:
                    raise
                continue  # another worker took over
            self.answered = True
            self._deadline = self._runtime.clock() + times.silence_s
            return news

    async def stop(self) -> None:
        """See WorkerHandle."""
        self._removed = True
        self._runtime.vacated(self)
        if self._worker is not None:
            await self._worker.stop()

    async def _present(self) -> WorkerHandle:
        await _within(self._runtime.times.poll_s, self._taken.wait())
        assert self._worker is not None
        return self._worker


def _empty(news: News) -> bool:
    nothing = not news.copies and news.inventory is None and not news.others
    return nothing and news.report is None


async def _within(seconds: float, call: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise WorkerUnavailable(f"no answer within {seconds:.0f} s") from None
