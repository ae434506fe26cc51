"""The manager's link to the worker of one cluster: batches what it is told, reads what it sees.

Commands that come while a batch is on its way go together in the next one. A worker that dies
loses nothing: commands end as RETRY, and its successor begins with a full inventory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

import structlog

from federation.api.names import ActiveReason
from manager.exposure import OpenOffers
from manager.ledger import Judge, Ledger
from manager.protocol import (
    Command,
    CreateCopy,
    Health,
    News,
    Outcome,
    Reply,
    Result,
    WorkerHandle,
    WorkerUnavailable,
)

log = structlog.get_logger(__name__)

MAX_BATCH = 64
BATCHES_IN_FLIGHT = 2
BATCHES_APART_S = 0.03
"""Least time between two batches: under load it makes them larger, idle it costs nothing."""
RESTART_PAUSE_S = 0.3
_STOPPED = Outcome(Result.RETRY, "Stopped", "the link to the cluster was closed", reply=Reply.NONE)


class ClusterLink:
    """One worker cluster as the manager's other parts see it."""

    def __init__(
        self,
        name: str,
        handle: WorkerHandle,
        on_news: Callable[[ClusterLink, News], None],
        judge: Judge | None = None,
        offers: OpenOffers | None = None,
    ) -> None:
        self.name = name
        self.offers = offers or OpenOffers()
        self.ledger = Ledger(name, judge)
        self.health = Health()
        self.inventoried = asyncio.Event()
        """Set once the copies on the cluster have been listed, or it is known that none is looked
        for there.
        """
        self.identity = ""
        """The physical cluster, as it was seen last; '' if it is not known."""
        self.kinds: frozenset[str] | None = None
        """The kinds of jobs that it serves; None as long as it is not known."""
        self.pid = 0
        self.requests: Mapping[tuple[str, str, str], int] = {}
        self._handle = handle
        self._on_news = on_news
        self._queue: deque[tuple[Command, asyncio.Future[Outcome]]] = deque()
        self._open: set[asyncio.Future[Outcome]] = set()
        self._stopped = False
        self._wake = asyncio.Event()
        self._sent_at = 0.0
        self._flights = asyncio.Semaphore(BATCHES_IN_FLIGHT)

    async def command(self, command: Command) -> Outcome:
        """Have the worker carry out one command. A link that stops leaves nobody waiting."""
        if self._stopped:
            return _STOPPED
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._open.add(future)
        self._queue.append((command, future))
        self._wake.set()
        try:
            return await future
        finally:
            self._open.discard(future)

    async def run(self) -> None:
        """Send and listen until cancelled, then stop the worker."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send(tasks))
                tasks.create_task(self._listen())
        finally:
            self._stopped = True
            for future in self._open:
                if not future.done():
                    future.set_result(_STOPPED)
            await self._handle.stop()

    async def _send(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                if not await self._may_fly():
                    continue
                # What is asked for meanwhile goes along: see BATCHES_APART_S.
                await asyncio.sleep(self._sent_at + BATCHES_APART_S - loop.time())
                self._sent_at = loop.time()
                size = min(len(self._queue), MAX_BATCH)
                batch = [self._queue.popleft() for _ in range(size)]
                tasks.create_task(self._fly(batch))

    async def _may_fly(self) -> bool:
        """Wait for a batch under way to end. While none does, offers are not kept waiting: none of
        them was sent, so they can be made elsewhere.
        """
        try:
            async with asyncio.timeout(self.offers.patience):
                await self._flights.acquire()
        except TimeoutError:
            text = f"cluster {self.name} has not answered for {self.offers.patience:g} s"
            unsent = Outcome(Result.RETRY, "NotAnswering", text, reply=Reply.UNSENT)
            for command, future in self._queue:
                if isinstance(command, CreateCopy):
                    self._end(command, future, unsent)
            self._queue = deque((c, f) for c, f in self._queue if not f.done())
            return False
        return True

    def _end(self, command: Command, future: asyncio.Future[Outcome], outcome: Outcome) -> None:
        """Tell whoever waits for a command."""
        made = outcome.result is not Result.RETRY or outcome.reply is Reply.NONE
        if isinstance(command, CreateCopy) and not made:
            unsent = outcome.reply is Reply.UNSENT
            self.offers.not_made(command.local_uid, unsent=unsent)
        if not future.done():
            future.set_result(outcome)

    async def _fly(self, batch: list[tuple[Command, asyncio.Future[Outcome]]]) -> None:
        flight = self.offers.departs()
        for command, _ in batch:
            if isinstance(command, CreateCopy):
                self.offers.sent(command.local_uid)
        try:
            outcomes = await self._handle.apply([command for command, _ in batch])
        except WorkerUnavailable as error:
            lost = Outcome(
                Result.RETRY, ActiveReason.WORKER_UNAVAILABLE.value, str(error), reply=Reply.NONE
            )
            outcomes = [lost] * len(batch)
        finally:
            self.offers.arrives(flight)
            self._flights.release()
        for (command, future), outcome in zip(batch, outcomes, strict=True):
            self._end(command, future, outcome)

    async def _listen(self) -> None:
        instance, ack = "", -1
        while True:
            try:
                news = await self._handle.poll(instance, ack)
            except WorkerUnavailable as error:
                log.warning("cluster.worker_unavailable", cluster=self.name, error=str(error))
                self.health = Health(False, ActiveReason.WORKER_UNAVAILABLE.value, str(error))
                await asyncio.sleep(RESTART_PAUSE_S)  # the runtime is restarting the worker
                continue
            instance, ack = news.instance, news.seq
            self._take(news)

    @property
    def _leads_home(self) -> bool:
        return self.health.reason == ActiveReason.MANAGEMENT_CLUSTER.value

    def _take(self, news: News) -> None:
        self.health, self.pid = news.health, news.pid
        self.requests = news.requests
        self.identity = news.identity or self.identity
        self.kinds = news.kinds
        if news.report is not None:
            self.ledger.report(news.report)
        if news.inventory is not None or self._leads_home:
            self.inventoried.set()
        self._on_news(self, news)
