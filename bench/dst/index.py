"""The pending index as a Redis that people and machines treat badly.

What the port promises is kept: a reading raises when the index, or a change before it, is lost.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Iterable, Mapping
from typing import Any

from federation.core.queueing import Entry, IndexLost, IndexUnavailable, MemoryIndex


class ShakyIndex(MemoryIndex):
    """`down`: out of reach. `slow`: seconds that a call takes at most. `lose` and `roll_back` are a
    FLUSHALL and a failover to a replica that lags; both are noticed by the next reading.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.down = False
        self.slow = 0.003
        self.owner: OpenedIndex | None = None
        """Who has filled it last."""
        self._lost = True
        self._replica: tuple[Any, Any] = ({}, {})

    def lose(self) -> None:
        """FLUSHALL."""
        self._queues, self._entries, self._lost = {}, {}, True

    def replicate(self) -> None:
        """The replica is up to date at this moment."""
        self._replica = copy.deepcopy((self._queues, self._entries))

    def roll_back(self) -> None:
        """The replica takes over."""
        self._queues, self._entries = copy.deepcopy(self._replica)
        self._lost = True

    async def reached(self, by: OpenedIndex) -> None:
        """A reading gets there. Raises IndexUnavailable, and IndexLost if it finds other data than
        whoever reads has put there.
        """
        await asyncio.sleep(self.rng.uniform(0, self.slow))  # virtual time on the way, as below
        if self.down:
            self._lost = True  # changes did not get through
            raise IndexUnavailable("the index does not answer")
        if self._lost or self.owner is not by:
            raise IndexLost("the index is not what it was")

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """See PendingIndex."""
        if self.down:
            await asyncio.sleep(self.rng.uniform(0, self.slow))  # virtual time
            raise IndexUnavailable("the index does not answer")
        self._lost = False
        await super().fill(entries)  # they are of this moment
        await asyncio.sleep(self.rng.uniform(0, self.slow))  # virtual time


class OpenedIndex:
    """What one manager does with it. It is that of the last who filled it: changes of others have
    no effect, as Redis has another incarnation then.
    """

    def __init__(self, index: ShakyIndex) -> None:
        self._index = index

    def _own(self) -> MemoryIndex:
        """Where its changes go: to nothing if it is another's."""
        return self._index if self._index.owner is self else MemoryIndex()

    def enqueue(self, queue: str, entry: Entry) -> None:
        """See PendingIndex."""
        self._own().enqueue(queue, entry)

    def park(self, uid: str, generation: int) -> None:
        """See PendingIndex."""
        self._own().park(uid, generation)

    def block(self, queue: str, shape: str) -> None:
        """See PendingIndex."""
        self._own().block(queue, shape)

    def reactivate(self, queues: Iterable[str]) -> None:
        """See PendingIndex."""
        self._own().reactivate(queues)

    def drop(self, uid: str) -> None:
        """See PendingIndex."""
        self._own().drop(uid)

    async def heads(self, queues: Iterable[str]) -> dict[str, Entry]:
        """See PendingIndex."""
        await self._index.reached(self)
        return await self._index.heads(queues)

    async def ahead(self, queues: Iterable[str], depth: int) -> dict[str, list[Entry]]:
        """See PendingIndex."""
        await self._index.reached(self)
        return await self._index.ahead(queues, depth)

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        """See PendingIndex."""
        await self._index.reached(self)
        return await self._index.claim(entries)

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """See PendingIndex."""
        await self._index.reached(self)
        return await self._index.waiting(queue, limit)

    async def counts(self, queues: Iterable[str]) -> dict[str, int]:
        """See PendingIndex."""
        await self._index.reached(self)
        return await self._index.counts(queues)

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """See PendingIndex."""
        if not self._index.down:
            self._index.owner = self
        await self._index.fill(entries)
