"""The retry policy, without waiting."""

from __future__ import annotations

import asyncio
import random

import pytest

from federation.edge.errors import ApiError, Conflict, ServerError, TooManyRequests, Unreachable
from federation.edge.retry import backoff, retrying


class Flaky:
    """Fails with the given errors, then returns "done"; notes what was slept."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.calls = 0
        self.slept: list[float] = []

    async def __call__(self) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_retryable_errors_are_tried_again() -> None:
    """With delays below a doubling ceiling."""
    flaky = Flaky(Unreachable("a"), ServerError("b"), Unreachable("c"))

    assert await retrying(sleep=flaky.sleep, rng=random.Random(1))(flaky) == "done"
    assert len(flaky.slept) == 3
    assert all(s <= c for s, c in zip(flaky.slept, (0.1, 0.2, 0.4), strict=True))


@pytest.mark.parametrize("final", [Conflict("x"), ValueError("bug"), asyncio.CancelledError()])
async def test_everything_else_goes_up_at_once(final: BaseException) -> None:
    """Also cancellation."""
    flaky = Flaky(final)

    with pytest.raises(type(final)):
        await retrying(sleep=flaky.sleep)(flaky)
    assert flaky.calls == 1


async def test_attempts_are_bounded() -> None:
    """The last error goes up, not a wrapper."""
    flaky = Flaky(*(Unreachable(str(n)) for n in range(9)))

    with pytest.raises(Unreachable, match="2"):
        await retrying(attempts=3, sleep=flaky.sleep)(flaky)


async def test_time_is_bounded_before_it_passes() -> None:
    """A Retry-After beyond the limit is not waited for."""
    flaky = Flaky(TooManyRequests("a", retry_after=31.0))

    with pytest.raises(TooManyRequests):
        await retrying(stop_after=30.0, sleep=flaky.sleep)(flaky)
    assert flaky.slept == []


async def test_retry_after_is_a_floor() -> None:
    """Jitter comes on top, so that clients do not come back together."""
    flaky = Flaky(TooManyRequests("a", retry_after=5.0))

    await retrying(sleep=flaky.sleep, rng=random.Random(1))(flaky)
    assert 5.0 < flaky.slept[0] <= 5.1


@pytest.mark.parametrize(
    ("failures", "error", "low", "high"),
    [
        (1, None, 0.0, 0.1),
        (4, None, 0.0, 0.8),
        (50, None, 0.0, 10.0),
        (1, Conflict("x"), 5.0, 10.0),
        (1, ServerError("x"), 0.0, 0.1),
    ],
)
def test_backoff(failures: int, error: ApiError | None, low: float, high: float) -> None:
    """What cannot get better by itself is asked for rarely."""
    rng = random.Random(2)
    delays = [backoff(failures, rng, error) for _ in range(200)]
    assert low <= min(delays) < max(delays) <= high
