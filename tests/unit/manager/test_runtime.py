"""Workers of clusters survive Ray: scripted backends, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.dst.clock import Host, VirtualLoop
from federation.core.facts import ObjectKey
from manager.protocol import (
    ClusterSpec,
    Command,
    DeleteCopy,
    Health,
    News,
    Outcome,
    Result,
    WorkerUnavailable,
)
from manager.runtime import RuntimeTimes, Seat, SupervisedRuntime

TIMES = RuntimeTimes()
COMMAND = DeleteCopy(ObjectKey("n", "j"), "u", None, False)


class Worker:
    """A worker of a scripted runtime; `mute` leaves its callers waiting."""

    def __init__(self, name: str, number: int) -> None:
        self.instance = f"{name}-{number}"
        self.mute = False
        self.connects_s, self.connected = 0.0, not name.startswith("ray")
        self.stopped = False
        self.asked: list[tuple[str, int]] = []
        self.commands = 0
        self.may_begin: Callable[[], bool] = lambda: True

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        self.commands += len(commands)
        if self.mute:
            await asyncio.Event().wait()
        return [Outcome(Result.OK) for _ in commands]

    async def poll(self, instance: str, ack: int) -> News:
        self.asked.append((instance, ack))
        if self.mute:
            await asyncio.Event().wait()
        if instance == self.instance:
            await asyncio.sleep(self.connects_s if not self.connected else 5)
            self.connected = True
        return News(self.instance, 1, ack + 1, Health(self.connected))

    async def begin_again(self) -> None:
        assert self.may_begin()
        self.instance, self.connected = f"{self.instance}'", False

    async def stop(self) -> None:
        self.stopped = True


class Backend:
    """Ray, or what takes its place."""

    problem = ""

    def __init__(
        self, name: str, number: int = 0, mute: bool = False, connects_s: float = 0.0
    ) -> None:
        self.name, self.number, self.mute, self.connects_s = name, number, mute, connects_s
        self.workers: list[Worker] = []
        self.wrong = ""
        self.closed = False
        self.closing_s = 0.0
        self.may_begin: Callable[[], bool] = lambda: True

    async def start(self, spec: ClusterSpec) -> Worker:
        if self.wrong:
            raise WorkerUnavailable(self.wrong)
        worker = Worker(f"{self.name}{self.number}", len(self.workers))
        worker.mute, worker.connects_s = self.mute, self.connects_s
        worker.may_begin = self.may_begin
        self.workers.append(worker)
        return worker

    async def check(self) -> str:
        return self.wrong

    async def aclose(self) -> None:
        await asyncio.sleep(self.closing_s)
        self.closed = True
        for worker in self.workers:
            worker.stopped = True


class World:
    """`rays` are those that could be started; `opens` scripts how that goes: an error or seconds
    that it takes.
    """

    def __init__(self, *opens: str | float, mute: bool = False, connects_s: float = 0.0) -> None:
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.host = Host("manager")
        self.opens, self.mute, self.connects_s = list(opens), mute, connects_s
        self.rays: list[Backend] = []
        self.tries: list[float] = []
        self.local = Backend("in-process")
        self.halted = ""
        self.news: list[News] = []
        self.failed: list[str] = []
        self.runtime = SupervisedRuntime(
            self._open, self.local, halted=lambda: self.halted, clock=lambda: self.loop.now
        )
        self.seat: Seat = self.within(self.runtime.start(ClusterSpec("a", b"", "o")))
        self.loop.spawn(self.runtime.run(), self.host)
        self.loop.spawn(self._listen(), self.host)

    async def _open(self) -> Backend:
        self.tries.append(self.loop.now)
        how = self.opens.pop(0) if self.opens else 1.0
        if isinstance(how, str):
            raise WorkerUnavailable(how)
        await asyncio.sleep(how)
        ray = Backend("ray", len(self.rays), self.mute, self.connects_s)
        ray.may_begin = lambda: all(worker.stopped for worker in self.local.workers)
        self.rays.append(ray)
        return ray

    async def _listen(self) -> None:
        instance, ack = "", -1
        while True:
            try:
                news = await self.seat.poll(instance, ack)
            except WorkerUnavailable as error:
                self.failed.append(str(error))
                await asyncio.sleep(0.3)
                continue
            instance, ack = news.instance, news.seq
            self.news.append(news)

    def within(self, coro: Any) -> Any:
        return self.loop.run_until_complete(self.loop.spawn(coro, self.host))

    def run(self, seconds: float) -> None:
        self.within(asyncio.sleep(seconds))

    @property
    def speaks(self) -> str:
        """Who was heard of last, begun again or not."""
        return self.news[-1].instance.removesuffix("'") if self.news else ""

    def apply(self) -> list[Outcome]:
        found: list[Outcome] = self.within(self.seat.apply([COMMAND]))
        return found


@pytest.fixture
def world() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(*opens: str | float, mute: bool = False, connects_s: float = 0.0) -> World:
        made.append(World(*opens, mute=mute, connects_s=connects_s))
        return made[-1]

    yield make
    for found in made:
        tasks = asyncio.all_tasks(found.loop)
        for task in tasks:
            task.cancel()
        found.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        found.loop.close()
    asyncio.set_event_loop(None)


def test_ray_that_starts_quickly_is_all_there_is(world: Callable[..., World]) -> None:
    w = world(1.5)
    w.run(4)
    assert w.speaks == "ray0-0"
    assert (w.runtime.name, w.runtime.problem) == ("ray", "")
    assert not w.local.workers
    assert not w.failed


def test_clusters_are_worked_on_while_ray_still_starts(world: Callable[..., World]) -> None:
    """And move to it without a gap: the worker in process is stopped, then the actor begins again,
    so that nothing it tells is older than what was told before.
    """
    w = world(40.0)
    w.run(TIMES.patience_s + 1)
    assert w.speaks == "in-process0-0"
    assert "still starting" in w.runtime.problem
    w.run(40)
    assert w.news[-1].instance == "ray0-0'"
    assert w.local.workers[0].stopped
    assert w.runtime.problem == ""
    assert not w.failed
    assert all(news.health.ok for news in w.news), "the cluster never seemed out of reach"


def test_an_actor_that_does_not_reach_its_cluster_still_takes_over(
    world: Callable[..., World],
) -> None:
    """Perhaps nobody does: it has some seconds, no more."""
    w = world(40.0, connects_s=1e9)
    w.run(41 + 2 * TIMES.contact_s)
    assert w.speaks == "ray0-0"
    assert not w.news[-1].health.ok


def test_without_ray_the_manager_says_so_and_tries_again(world: Callable[..., World]) -> None:
    """Each time after a longer pause, up to ten minutes."""
    w = world(*["Ray does not start: no room"] * 9)
    w.run(10)
    assert w.apply()[0].result is Result.OK
    assert w.runtime.name == "in-process"
    assert "no room" in w.runtime.problem
    assert "again after 15 s" in w.runtime.problem
    w.run(3000)
    pauses = [round(b - a) for a, b in zip(w.tries, w.tries[1:], strict=False)]
    assert pauses == [15, 30, 60, 120, 240, 480, 600, 600, 600][: len(pauses)]
    assert len(pauses) >= 8
    w.run(600)
    assert w.speaks == "ray0-0"
    assert w.runtime.problem == ""


def test_a_start_that_hangs_is_broken_off(world: Callable[..., World]) -> None:
    w = world(1e9)
    w.run(TIMES.patience_s + TIMES.start_s + 1)
    assert "not started within 120 s" in w.runtime.problem
    assert w.runtime.name == "in-process"
    w.run(20)
    assert w.speaks == "ray0-0"


def test_ray_that_fails_is_ended_before_others_go_on(world: Callable[..., World]) -> None:
    """Not before its last worker has ended does the next one begin; calls wait meanwhile."""
    w = world(1.0)
    w.run(10)
    ray = w.rays[0]
    ray.closing_s = 6.0
    ray.wrong = "its process raylet (7) has ended"
    w.run(TIMES.check_s + 4)
    assert not w.local.workers
    w.run(4)
    assert ray.closed
    assert w.speaks == "in-process0-0"
    assert "raylet (7)" in w.runtime.problem
    w.run(20)
    assert w.speaks == "ray1-0"
    assert w.runtime.problem == ""
    assert not w.failed


def test_ray_that_was_well_is_tried_again_soon(world: Callable[..., World]) -> None:
    """However often it could not be had before; one that fails at once waits longer and longer."""
    w = world("no room", "no room", "no room", 1.0, 1.0, 1.0)
    w.run(150)
    w.rays[0].wrong = "gone"
    w.run(TIMES.check_s + TIMES.pause_s + 3)
    assert w.speaks == "ray1-0"
    w.rays[1].wrong = "gone at once"
    w.run(TIMES.check_s + TIMES.pause_s + 3)
    assert w.speaks.startswith("in-process")
    w.run(TIMES.pause_s)
    assert w.speaks == "ray2-0"


def test_an_actor_that_does_not_answer_is_replaced(world: Callable[..., World]) -> None:
    """After its leash is over, and no other part of Ray is touched."""
    w = world(1.0)
    w.run(10)
    first = w.rays[0].workers[0]
    first.mute = True
    w.run(TIMES.silence_s - 6)
    assert len(w.rays[0].workers) == 1
    w.run(20)
    assert w.speaks == "ray0-1"
    assert first.stopped
    assert len(w.rays) == 1
    assert any("no answer within 10 s" in text for text in w.failed)


def test_actors_that_never_answer_cost_ray(world: Callable[..., World]) -> None:
    """The first that came up is silent, and the next too: within two minutes others do it."""
    w = world(1.0)
    w.run(10)
    w.rays[0].mute = True
    w.rays[0].workers[0].mute = True
    w.run(100)
    assert w.rays[0].closed
    assert w.apply()[0].result is Result.OK
    assert w.speaks in ("in-process0-0", "ray1-0")


def test_ray_without_a_single_answer_is_not_used(world: Callable[..., World]) -> None:
    """What works in process goes on until an actor has answered."""
    w = world(20.0, mute=True)
    w.run(30)
    assert w.speaks == "in-process0-0"
    w.run(TIMES.first_answer_s)
    assert w.rays[0].closed
    assert not w.local.workers[0].stopped
    assert "no actor has started" in w.runtime.problem


def test_a_command_that_hangs_fails_in_time(world: Callable[..., World]) -> None:
    w = world(1.0)
    w.run(10)
    w.rays[0].workers[0].mute = True
    began = w.loop.now
    with pytest.raises(WorkerUnavailable, match="no answer within 60 s"):
        w.apply()
    assert w.loop.now - began <= TIMES.apply_s + 1


def test_a_manager_that_may_not_act_gives_no_commands(world: Callable[..., World]) -> None:
    """It goes on listening."""
    w = world(1.0)
    w.run(10)
    w.halted = "it does not lead"
    with pytest.raises(WorkerUnavailable, match="it does not lead"):
        w.apply()
    heard = len(w.news)
    w.run(11)
    assert len(w.news) > heard
    assert w.rays[0].workers[0].commands == 0


def test_clusters_that_come_and_go(world: Callable[..., World]) -> None:
    """A new one gets its worker where the others have theirs; one that left gets none."""
    w = world(1.0)
    w.run(10)
    other = w.within(w.runtime.start(ClusterSpec("b", b"", "o")))
    w.within(other.poll("", -1))
    assert [worker.instance for worker in w.rays[0].workers] == ["ray0-0", "ray0-1"]
    w.within(other.stop())
    w.rays[0].wrong = "gone"
    w.run(TIMES.check_s + 2)
    assert len(w.local.workers) == 1


def test_everything_ends_with_the_manager(world: Callable[..., World]) -> None:
    w = world(1.0)
    w.run(10)
    w.within(w.runtime.aclose())
    assert w.rays[0].closed
    assert w.local.closed


def test_in_process_by_choice_is_no_problem() -> None:
    """No Ray is asked for, and nothing is missing."""
    loop = VirtualLoop()
    try:
        local = Backend("in-process")
        runtime = SupervisedRuntime(None, local, clock=loop.time)
        task = loop.spawn(runtime.run())
        loop.run_until_complete(loop.spawn(asyncio.sleep(1)))
        loop.run_until_complete(loop.spawn(runtime.start(ClusterSpec("a", b"", "o"))))
        assert (runtime.name, runtime.problem) == ("in-process", "")
        assert len(local.workers) == 1
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    finally:
        loop.close()


def test_a_cluster_that_is_removed_while_an_actor_takes_over(world: Callable[..., World]) -> None:
    """Nobody would ever stop the actor."""
    w = world(4.0, connects_s=3.0)
    w.run(5)
    (actor,) = w.rays[0].workers
    assert not actor.stopped
    w.within(w.seat.stop())
    w.run(10)
    assert actor.stopped
    assert all(worker.stopped for worker in w.local.workers)
    assert w.runtime.problem == ""
