"""The link to a cluster's worker: batches, order, and what a dead worker leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from federation.core.exposure import OfferLimits
from federation.core.facts import ObjectKey
from manager import link as links
from manager.exposure import OpenOffers
from manager.link import ClusterLink
from manager.protocol import (
    Command,
    CreateCopy,
    DeleteCopy,
    Health,
    News,
    Outcome,
    Reply,
    Result,
    WorkerUnavailable,
)
from tests.unit.manager.support import until


def command(name: str) -> DeleteCopy:
    return DeleteCopy(ObjectKey("n", name), "u", None, False)


class Handle:
    """A worker whose answers the test gives."""

    def __init__(self) -> None:
        self.batches: list[list[Command]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.dead = False
        self.polls: list[tuple[str, int]] = []
        self.news: asyncio.Queue[News | None] = asyncio.Queue()
        self.stopped = False

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        self.batches.append(commands)
        await self.open.wait()
        if self.dead:
            raise WorkerUnavailable("it died")
        return [Outcome(Result.OK, message=c.key.name) for c in commands]

    async def poll(self, instance: str, ack: int) -> News:
        self.polls.append((instance, ack))
        found = await self.news.get()
        if found is None:
            raise WorkerUnavailable("it died")
        return found

    async def stop(self) -> None:
        self.stopped = True


class Linked:
    def __init__(self) -> None:
        self.handle = Handle()
        self.heard: list[News] = []
        self.link = ClusterLink("a", self.handle, lambda link, news: self.heard.append(news))
        self.task = asyncio.create_task(self.link.run())


@pytest.fixture
async def linked() -> AsyncIterator[Linked]:
    found = Linked()
    yield found
    found.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await found.task
    assert found.handle.stopped


def news(seq: int, instance: str = "i") -> News:
    return News(instance, 7, seq, Health(True, "Active", "Connected"))


async def test_outcomes_reach_their_commands(linked: Linked) -> None:
    """In whatever batches they travelled."""
    found = await asyncio.gather(*(linked.link.command(command(str(n))) for n in range(200)))
    assert [outcome.message for outcome in found] == [str(n) for n in range(200)]
    sizes = [len(batch) for batch in linked.handle.batches]
    assert sum(sizes) == 200
    assert max(sizes) <= links.MAX_BATCH
    assert len(sizes) < 20, "commands of one moment go together"


async def test_commands_gather_while_batches_are_on_their_way(linked: Linked) -> None:
    """No more than some batches at once; what waits goes together in the next."""
    linked.handle.open.clear()
    tasks = []
    for n in range(links.BATCHES_IN_FLIGHT):
        tasks.append(asyncio.create_task(linked.link.command(command(f"first{n}"))))
        await until(lambda n=n: len(linked.handle.batches) == n + 1)
    tasks += [asyncio.create_task(linked.link.command(command(f"later{n}"))) for n in range(10)]
    await asyncio.sleep(0.01)
    assert len(linked.handle.batches) == links.BATCHES_IN_FLIGHT
    linked.handle.open.set()
    await asyncio.gather(*tasks)
    assert [len(batch) for batch in linked.handle.batches[links.BATCHES_IN_FLIGHT :]] == [10]


async def test_a_worker_that_dies(linked: Linked) -> None:
    """What it was told ends as RETRY: it may have been done. The link goes on."""
    linked.handle.dead = True
    outcome = await linked.link.command(command("x"))
    assert (outcome.result, outcome.reason) == (Result.RETRY, "WorkerUnavailable")
    linked.handle.dead = False
    assert (await linked.link.command(command("y"))).result is Result.OK


async def test_news_are_acknowledged_by_the_next_poll(linked: Linked) -> None:
    """And only after they were taken in."""
    await linked.handle.news.put(news(1))
    await linked.handle.news.put(news(2))
    await until(lambda: len(linked.handle.polls) == 3)
    assert linked.handle.polls == [("", -1), ("i", 1), ("i", 2)]
    assert [n.seq for n in linked.heard] == [1, 2]
    assert linked.link.health.ok
    assert linked.link.pid == 7


async def test_no_news_from_a_dead_worker(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is unhealthy until its successor speaks."""
    monkeypatch.setattr(links, "RESTART_PAUSE_S", 0.001)
    await linked.handle.news.put(news(1))
    await linked.handle.news.put(None)
    await until(lambda: linked.link.health.reason == "WorkerUnavailable")
    await linked.handle.news.put(news(5, "j"))
    await until(lambda: linked.link.health.ok)
    await until(lambda: linked.handle.polls[-1] == ("j", 5))


async def test_a_report_goes_to_the_ledger(linked: Linked) -> None:
    """Before the listener hears of the news."""
    with_report = News("i", 7, 1, Health(True), report={"metadata": {"name": "a"}, "status": {}})
    await linked.handle.news.put(with_report)
    await until(lambda: linked.heard)
    assert linked.link.ledger.reported


async def test_commands_to_a_link_that_stops() -> None:
    """Whoever waits for an outcome is not left waiting."""
    linked = Linked()
    linked.handle.open.clear()
    tasks = [asyncio.create_task(linked.link.command(command(str(n)))) for n in range(3)]
    await until(lambda: linked.handle.batches)
    tasks.append(asyncio.create_task(linked.link.command(command("queued"))))
    await asyncio.sleep(0)
    linked.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await linked.task
    done, waiting = await asyncio.wait(tasks, timeout=1)
    for task in waiting:
        task.cancel()
    assert not waiting, f"{len(waiting)} of {len(tasks)} commands wait for ever"
    assert {task.result().result for task in done} == {Result.RETRY}


async def test_offers_are_not_kept_waiting() -> None:
    """While no batch comes back, they end as not sent; other commands wait."""
    linked = Linked()
    linked.link.offers = OpenOffers(OfferLimits(patience=0.1))
    linked.handle.open.clear()
    first: list[asyncio.Task[Outcome]] = []
    for n in range(links.BATCHES_IN_FLIGHT):
        first.append(asyncio.create_task(linked.link.command(command(f"first{n}"))))
        await until(lambda n=n: len(linked.handle.batches) == n + 1)
    late = asyncio.create_task(linked.link.command(command("late")))
    offer = await linked.link.command(CreateCopy(ObjectKey("n", "j"), "u", 1, {}))
    assert (offer.result, offer.reply) == (Result.RETRY, Reply.UNSENT)
    assert not late.done()
    linked.handle.open.set()
    assert {task.result().result for task in (await asyncio.wait([*first, late]))[0]} == {Result.OK}
    assert not any(isinstance(c, CreateCopy) for batch in linked.handle.batches for c in batch)
    linked.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await linked.task


async def test_commands_after_the_link_stopped() -> None:
    """It was replaced, because the kubeconfig changed: the effect must be tried again."""
    linked = Linked()
    await until(lambda: linked.handle.polls)
    linked.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await linked.task
    async with asyncio.timeout(1):
        outcome = await linked.link.command(command("x"))
    assert outcome.result is Result.RETRY
