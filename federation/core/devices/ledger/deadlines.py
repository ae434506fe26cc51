"""Who has until when, earliest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

from federation.core.devices.ledger.holding import Owner


class Deadlines:
    """Deadlines are only ever added: whoever asks looks whether one still holds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Owner]] = []
        self._last: dict[Owner, float] = {}
        self._number = count()

    def add(self, owner: Owner, deadline: float) -> None:
        """Ask for an owner at that time."""
        if self._last.get(owner) != deadline:
            self._last[owner] = deadline
            heapq.heappush(self._heap, (deadline, next(self._number), owner))

    def due(self, now: float) -> Iterator[Owner]:
        """Owners whose time has come, each deadline once."""
        while self._heap and self._heap[0][0] <= now:
            deadline, _, owner = heapq.heappop(self._heap)
            if self._last.get(owner) == deadline:
                del self._last[owner]
                yield owner
