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

    async def _check(self) -> None:
        await asyncio.sleep(self.rng.uniform(0, self.slow))
        if self.down:
            self._lost = True  # changes did not get through
            raise IndexUnavailable("the index does not answer")
        if self._lost:
            raise IndexLost("the index is not what it was")

    async def heads(self, queues: Iterable[str]) -> dict[str, Entry]:
        """See PendingIndex."""
        await self._check()
        return await super().heads(queues)

    async def ahead(self, queues: Iterable[str], depth: int) -> dict[str, list[Entry]]:
        """See PendingIndex."""
        await self._check()
        return await super().ahead(queues, depth)

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        """See PendingIndex. The answer can be lost after the claim."""
        await self._check()
        claimed = await super().claim(entries)
        if self.down:
            self._lost = True
            raise IndexUnavailable("the index does not answer")
        return claimed

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """See PendingIndex."""
        await self._check()
        return await super().waiting(queue, limit)

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """See PendingIndex."""
        if self.down:
            await asyncio.sleep(self.rng.uniform(0, self.slow))
            raise IndexUnavailable("the index does not answer")
        self._lost = False
        await super().fill(entries)  # they are of this moment
        await asyncio.sleep(self.rng.uniform(0, self.slow))
