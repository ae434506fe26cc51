"""Keys to look at: several at a time, but never the same one twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Look = Callable[[str], Awaitable[float | None]]
"""Does what is due for a key; after how many seconds to look again, None for not at all."""

WORKERS = 4


class Worklist:
    """A key that is marked while it is being looked at is looked at once more afterwards. What
    `look` raises ends `run`.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()

    def mark(self, key: str) -> None:
        """Have it looked at."""
        if key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            if key in self._busy:  # another worker has it, and looks again when it is done
                self._again.add(key)
                continue
            self._busy.add(key)
            try:
                again = await self._look(key)
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                again = 0.0
            if again is not None:
                asyncio.get_running_loop().call_later(again, self.mark, key)
