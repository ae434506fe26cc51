"""The manager's hold on the index: enqueues and drops that never fail, and a mark when it is lost.

The index is filled from the states in memory, so a change that did not get through only has to be
remembered as "fill it again".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
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

    def queued(self, queue: str) -> bool:
        """Whether anything waits in a ClusterQueue."""
        return any(item.cluster_queue == queue for item in self._items.values())

    @property
    def items(self) -> dict[str, Pending]:
        """All that waits, by UID: what the index has to hold."""
        return self._items

    async def enqueue(self, item: Pending) -> None:
        """Make a workload ready; kept in mind even when the index cannot take it now."""
        self._items[item.uid] = item
        if not self.lost:
            await self._try(self.index.enqueue(item))

    async def drop(self, uid: str) -> None:
        """Forget a workload."""
        if self._items.pop(uid, None) is not None and not self.lost:
            await self._try(self.index.drop(uid))

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


def queues_of(items: Collection[Pending]) -> list[str]:
    """The ClusterQueues that have something waiting, in order of name."""
    return sorted({item.cluster_queue for item in items})
