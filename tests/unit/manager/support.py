"""What tests of the manager share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from federation.core.queueing import IndexLost, IndexUnavailable, MemoryIndex
from federation.core.types import Pending

TEN_SECONDS = 10.0


async def until(holds: Callable[[], object], what: str = "") -> None:
    """Give way until something holds; fails after ten seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + TEN_SECONDS
    while not holds():
        if loop.time() > end:
            pytest.fail(f"it never came true: {what}")
        await asyncio.sleep(0.001)


async def stop(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended, and what they started with them.

    Once is not enough: `asyncio.wait_for` of Python 3.11, which the fake's watches use, loses a
    cancellation that comes in the moment its wait is over, and a TaskGroup cancels but once.
    """
    pending = set(tasks)
    for task in pending:
        task.cancel()
    while pending:
        _, pending = await asyncio.wait(pending, timeout=0.2)
        if pending:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class FillableMemory(MemoryIndex):
    """An index in memory that can be lost, and be out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.fills = 0
        self.down = False
        self.lost = False

    async def fill_anew(self, incarnation: str, items: Iterable[Pending]) -> None:
        if self.down:
            raise IndexUnavailable("down")
        super().__init__()
        self.lost = False
        self.fills += 1
        for item in items:
            await super().enqueue(item)

    def _check(self) -> None:
        if self.down:
            raise IndexUnavailable("down")
        if self.lost:
            raise IndexLost("lost")

    async def enqueue(self, item: Pending, *, sticky: bool = False) -> None:
        self._check()
        await super().enqueue(item, sticky=sticky)

    async def drop(self, uid: str) -> None:
        self._check()
        await super().drop(uid)

    async def release(self, uid: str) -> None:
        self._check()
        await super().release(uid)

    async def claim(self, uid: str, generation: int) -> bool:
        self._check()
        return await super().claim(uid, generation)
