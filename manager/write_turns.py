"""How many writes may be under way at once, and who waits for whom.

When many jobs lose their cluster, what gets them running again goes first, and what only tells of
jobs that run waits, but for a share. It is not enough to let the urgent ones pass in a line: on a
busy machine there is none, as everything is under way at once and takes its part of the processor.
So after a burst of urgent writes the others wait although there is room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum

SHARE = 4
"""One write in so many is an ordinary one, however many others there are."""
BURST = 8
"""So many urgent writes within CALM_S are a burst."""
CALM_S = 1.0


class Rank(IntEnum):
    """The lower goes first."""

    STARTS = 0
    LEAVES = 1
    ORDINARY = 2


Turn = asyncio.Future[None]


class WriteTurns:
    """A limit with a line for each rank, each of which is served in its order."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._lines: tuple[deque[Turn], ...] = tuple(deque() for _ in Rank)
        self._urgent_at = deque[float](maxlen=BURST)
        self._passed_over = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, rank: Rank = Rank.ORDINARY) -> AsyncIterator[None]:
        """Waits for its turn; the turn lasts as long as the block."""
        turn: Turn = asyncio.get_running_loop().create_future()
        self._lines[rank].append(turn)
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self._end()
            raise
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        while self._free and (turn := self._next()) is not None:
            self._free -= 1
            turn.set_result(None)

    def _next(self) -> Turn | None:
        for line in self._lines:
            while line and line[0].done():  # given up
                line.popleft()
        *urgent, ordinary = self._lines
        first = next(filter(None, urgent), None)
        if ordinary and (self._passed_over >= SHARE - 1 or not (first or self._bursts())):
            self._passed_over = 0
            return ordinary.popleft()
        if first is None:
            return None
        self._passed_over = min(self._passed_over + 1, SHARE - 1)
        self._urgent_at.append(asyncio.get_running_loop().time())
        return first.popleft()

    def _bursts(self) -> bool:
        """Whether there is a burst of urgent writes. If so, the lines are looked at when it may be
        over.
        """
        if len(self._urgent_at) < BURST:
            return False
        loop, over = asyncio.get_running_loop(), self._urgent_at[0] + CALM_S
        if loop.time() >= over:
            return False
        if self._timer is None:
            self._timer = loop.call_at(over, self._look_again)
        return True

    def _look_again(self) -> None:
        self._timer = None
        self._serve()
