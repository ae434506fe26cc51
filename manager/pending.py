"""The manager's hold on the index: enqueues and drops that never fail, and a mark when it is lost.

The index is filled from the states in memory, so a change that did not get through only has to be
remembered as "fill it again".
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from federation.core.queueing import IndexLost, IndexUnavailable, PendingIndex
from federation.core.types import Pending

log = structlog.get_logger(__name__)


class FillableIndex(PendingIndex, Protocol):
    """An index that can be filled from nothing."""

    async def fill_anew(self, incarnation: str, items: Iterable[Pending]) -> None:
        """Forget everything and make `items` ready."""


class PendingQueue:
    """The index as effects and dispatcher use it. `lost` asks the dispatcher to fill it anew."""

    def __init__(self, index: FillableIndex) -> None:
        self.index = index
        self.lost = True
        self.problem = ""
        self.rebuilds = 0
        self.on_lost: Callable[[], None] = lambda: None
        self._items: dict[str, Pending] = {}
        self._sizes: Counter[str] = Counter()

    @property
    def queues(self) -> list[str]:
        """The ClusterQueues that have something waiting, in order of name."""
        return sorted(self._sizes)

    @property
    def items(self) -> dict[str, Pending]:
        """All that waits, by UID: what the index has to hold."""
        return self._items

    async def enqueue(self, item: Pending) -> None:
        """Make a workload ready; kept in mind even when the index cannot take it now.

        The index takes the same generation of a job for the same entry: one that differs although
        the job did not change (its queue leads elsewhere) has to be taken out first.
        """
        known = self._items.get(item.uid)
        self._forget(item.uid)
        self._items[item.uid] = item
        self._sizes[item.cluster_queue] += 1
        if known not in (None, item) and not self.lost:
            await self._try(self.index.drop(item.uid))
        if not self.lost:
            await self._try(self.index.enqueue(item))

    async def drop(self, uid: str) -> None:
        """Forget a workload."""
        if self._forget(uid) and not self.lost:
            await self._try(self.index.drop(uid))

    def _forget(self, uid: str) -> bool:
        item = self._items.pop(uid, None)
        if item is None:
            return False
        self._sizes[item.cluster_queue] -= 1
        if not self._sizes[item.cluster_queue]:
            del self._sizes[item.cluster_queue]
        return True

    async def release(self, uid: str) -> None:
        """Give a claim back."""
        if not self.lost:
            await self._try(self.index.release(uid))

    async def _try(self, call: object) -> None:
        try:
            await call  # type: ignore[misc]  # any coroutine of the port
        except (IndexLost, IndexUnavailable) as error:
            self.mark_lost(error)

    def mark_lost(self, error: Exception) -> None:
        """The index has to be filled again."""
        if not self.lost:
            log.warning("index.lost", why=str(error))
        self.lost, self.problem = True, str(error)
        self.on_lost()

    async def rebuild(self) -> None:
        """Fill the index again. Raises IndexUnavailable when it cannot be reached."""
        filled = dict(self._items)
        await self.index.fill_anew(uuid.uuid4().hex, list(filled.values()))
        self.lost, self.problem = False, ""
        self.rebuilds += 1
        log.info("index.filled", workloads=len(filled))
        for uid in filled.keys() - self._items.keys():  # dropped while it was being filled
            await self._try(self.index.drop(uid))
        for uid, item in list(self._items.items()):
            if filled.get(uid) is not item:
                await self._try(self.index.enqueue(item))
