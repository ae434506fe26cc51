"""The manager's hold on the index: nothing is lost with it."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.queueing import IndexUnavailable
from manager.pending import PendingQueue
from tests.unit.core.build import item
from tests.unit.manager.support import FillableMemory


@pytest.fixture
def index() -> FillableMemory:
    return FillableMemory()


@pytest.fixture
async def queue(index: FillableMemory) -> PendingQueue:
    """Filled once."""
    found = PendingQueue(index)
    await found.rebuild()
    return found


async def test_it_starts_lost(index: FillableMemory) -> None:
    """Nothing is written to an index that was not filled by this owner; what came is kept."""
    queue = PendingQueue(index)
    await queue.enqueue(item("a"))
    assert queue.lost
    assert await index.heads("q", 9) == []
    await queue.rebuild()
    assert [found.uid for found in await index.heads("q", 9)] == ["a"]
    assert (queue.lost, queue.rebuilds, queue.problem) == (False, 1, "")


async def test_enqueue_and_drop(queue: PendingQueue, index: FillableMemory) -> None:
    """Both reach the index; a drop of what is not there does not."""
    await queue.enqueue(item("a"))
    await queue.enqueue(item("b", "r"))
    assert queue.queues == ["q", "r"]
    await queue.drop("a")
    await queue.drop("a")
    assert await index.heads("q", 9) == []


async def test_release(queue: PendingQueue, index: FillableMemory) -> None:
    """A claim is given back."""
    await queue.enqueue(item("a"))
    await index.claim("a", 0)
    await queue.release("a")
    assert [found.uid for found in await index.heads("q", 9)] == ["a"]


@pytest.mark.parametrize("how", ["down", "lost"])
@pytest.mark.parametrize("call", ["enqueue", "drop", "release"])
async def test_a_call_that_does_not_get_through(
    queue: PendingQueue, index: FillableMemory, how: str, call: str
) -> None:
    """It never fails for the caller; the index is marked, and filled again with what is known."""
    asked: list[str] = []
    queue.on_lost = lambda: asked.append("fill")
    await queue.enqueue(item("a"))
    setattr(index, how, True)
    arguments: dict[str, Any] = {"enqueue": item("b"), "drop": "a", "release": "a"}
    await getattr(queue, call)(arguments[call])
    assert (queue.lost, asked, queue.problem) == (True, ["fill"], how)
    await queue.enqueue(item("c"))
    index.down = False
    await queue.rebuild()
    expected = {"enqueue": ["a", "b", "c"], "drop": ["c"], "release": ["a", "c"]}
    assert [found.uid for found in await index.heads("q", 9)] == expected[call]


async def test_a_fill_while_it_is_down(queue: PendingQueue, index: FillableMemory) -> None:
    """The caller hears of it and tries again."""
    index.down = True
    queue.mark_lost(IndexUnavailable("down"))
    with pytest.raises(IndexUnavailable):
        await queue.rebuild()
    assert queue.lost


async def test_what_changes_during_a_fill_is_not_lost(index: FillableMemory) -> None:
    """A workload that is queued or dropped while the index is being filled."""

    class Slow(FillableMemory):
        async def fill_anew(self, incarnation: str, items: Any) -> None:
            given = list(items)
            await queue.enqueue(item("late"))
            await queue.drop("early")
            await super().fill_anew(incarnation, given)

    slow = Slow()
    queue = PendingQueue(slow)
    await queue.enqueue(item("early"))
    await queue.rebuild()
    if queue.lost:
        await queue.rebuild()
    assert [found.uid for found in await slow.heads("q", 9)] == ["late"]
