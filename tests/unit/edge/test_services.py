"""Tasks that must not end."""

from __future__ import annotations

import asyncio
import random

import pytest

from federation.edge.errors import Unreachable
from federation.edge.services import ServiceEnded, guard, service


async def test_guard_turns_a_quiet_return_into_an_error() -> None:
    """A service that ends is a bug."""

    async def quiet() -> None: ...

    with pytest.raises(ServiceEnded, match="watcher"):
        await guard(quiet(), "watcher")


async def test_guard_lets_crashes_and_cancellation_pass() -> None:
    """The first is logged."""

    async def crash() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await guard(crash(), "watcher")
    task = asyncio.create_task(guard(asyncio.Event().wait(), "watcher"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def run(outcomes: list[Exception | None], jitter: float = 0.0) -> list[float]:
    """Tick through `outcomes`, return the delays; ends as the last one says."""
    slept: list[float] = []

    async def tick() -> None:
        outcome = outcomes.pop(0)
        if outcome:
            raise outcome

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with pytest.raises(KeyError):
        await service(tick, 10.0, jitter, random.Random(3), sleep=sleep)
    return slept


async def test_a_failing_service_slows_down_and_recovers() -> None:
    """Doubled per failure, at most eightfold; anything but an ApiError ends it."""
    down = Unreachable("x")
    slept = await run([None, down, down, down, down, None, KeyError("bug")])

    assert slept == [10.0, 20.0, 40.0, 80.0, 80.0, 10.0]


async def test_jitter_applies_to_the_backoff_too() -> None:
    """Services that failed together spread out."""
    slept = await run([*(Unreachable("x") for _ in range(50)), KeyError("bug")], jitter=0.3)

    assert 56.0 <= min(slept[3:]) < 65.0 < 95.0 < max(slept) <= 104.0
