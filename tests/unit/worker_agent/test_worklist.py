"""Keys that are marked are looked at, each by one worker at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.unit.manager.support import until
from worker_agent.worklist import Look, Worklist


@asynccontextmanager
async def working(look: Look) -> AsyncIterator[Worklist]:
    worklist = Worklist(look)
    task = asyncio.create_task(worklist.run())
    yield worklist
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_key_that_is_marked_meanwhile_is_looked_at_once_more_afterwards() -> None:
    looks, now, most = 0, 0, 0
    gate = asyncio.Event()

    async def look(key: str) -> float | None:
        nonlocal looks, now, most
        now += 1
        most = max(most, now)
        await gate.wait()
        now -= 1
        looks += 1
        return None

    async with working(look) as worklist:
        worklist.mark("a")
        await until(lambda: now == 1)
        for _ in range(3):  # taken by another worker each time, which leaves it to the first
            worklist.mark("a")
            await asyncio.sleep(0)  # gives way, so that it is
        gate.set()
        await until(lambda: looks == 2)
        assert most == 1


async def test_different_keys_are_looked_at_at_the_same_time() -> None:
    inside: set[str] = set()
    gate = asyncio.Event()

    async def look(key: str) -> float | None:
        inside.add(key)
        await gate.wait()
        return None

    async with working(look) as worklist:
        worklist.mark("a")
        worklist.mark("b")
        await until(lambda: inside == {"a", "b"})
        gate.set()


async def test_what_asks_for_another_look_gets_it() -> None:
    answers: list[float | None] = [0.0, 0.001, None]
    looks = 0

    async def look(key: str) -> float | None:
        nonlocal looks
        looks += 1
        return answers.pop(0)

    async with working(look) as worklist:
        worklist.mark("a")
        await until(lambda: looks == 3)


async def test_an_error_ends_it() -> None:
    async def look(key: str) -> float | None:
        raise RuntimeError(key)

    worklist = Worklist(look)
    worklist.mark("a")
    with pytest.raises(ExceptionGroup) as caught:
        await worklist.run()
    assert str(caught.value.exceptions[0]) == "a"
