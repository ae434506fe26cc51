"""How many writes may be under way at once, and who waits for whom."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum

SHARE = 4
"""One write in so many is an ordinary one, however many others wait."""


class Rank(IntEnum):
    """The lower goes first."""

    STARTS = 0
    LEAVES = 1
    ORDINARY = 2


class WriteTurns:
    """A limit with a line for each rank, each of which is served in its order."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._urgent: tuple[deque[asyncio.Future[None]], ...] = (deque(), deque())
        self._ordinary: deque[asyncio.Future[None]] = deque()
        self._passed_over = 0

    @asynccontextmanager
    async def turn(self, rank: Rank = Rank.ORDINARY) -> AsyncIterator[None]:
        """Waits for its turn; the turn lasts as long as the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(self._ordinary if rank is Rank.ORDINARY else self._urgent[rank])
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, line: deque[asyncio.Future[None]]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while (turn := self._next()) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _next(self) -> asyncio.Future[None] | None:
        urgent = next(filter(None, self._urgent), None)
        if urgent and (not self._ordinary or self._passed_over < SHARE - 1):
            self._passed_over += bool(self._ordinary)
            return urgent.popleft()
        self._passed_over = 0
        return self._ordinary.popleft() if self._ordinary else None
