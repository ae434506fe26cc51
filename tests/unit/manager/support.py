"""What tests of the manager share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import pytest

from federation.core.queueing import Entry, IndexLost, IndexUnavailable, MemoryIndex
from federation.edge.resources import Json, Resource
from tests.fakes.patches import Refused

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


class Breakable(MemoryIndex):
    """An index in memory that can be lost, and be out of reach; as the port says, what is changed
    in it then is gone until it is filled. `before` is called ahead of each reading.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fills = 0
        self.down = False
        self.lost = True
        self.before: Callable[[str], None] = lambda name: None

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        if self.down:
            raise IndexUnavailable("down")
        self.lost = False
        self.fills += 1
        await super().fill(entries)

    def _check(self, name: str) -> None:
        self.before(name)
        if self.down:
            self.lost = True
            raise IndexUnavailable("down")
        if self.lost:
            raise IndexLost("lost")

    async def heads(self, queues: Iterable[str]) -> dict[str, Entry]:
        self._check("heads")
        return await super().heads(queues)

    async def ahead(self, queues: Iterable[str], depth: int) -> dict[str, list[Entry]]:
        self._check("heads")
        return await super().ahead(queues, depth)

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        self._check("claim")
        return await super().claim(entries)

    async def waiting(self, queue: str, limit: int) -> list[str]:
        self._check("waiting")
        return await super().waiting(queue, limit)


def webhook_away(kind: Resource, old: Json | None, new: Json) -> None:
    """What an API server answers whose admission webhook cannot be asked."""
    why = 'failed calling webhook "vjob.kb.io": no endpoints available'
    raise Refused(500, "InternalError", f"Internal error occurred: {why}")
