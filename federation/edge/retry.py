"""The one retry policy: what is retried, how long apart and for how long.

Only an `ApiError` that says `retryable` is tried again; the list is positive because tenacity
otherwise catches CancelledError too. Delays are full jitter on an exponential ceiling, so that
clients that failed together do not come back together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from federation.edge.errors import ApiError

FIRST = 0.1  # seconds, ceiling of the first delay
LONGEST = 10.0  # seconds, ceiling of every delay

Sleep = Callable[[float], Awaitable[None]]


def is_retryable(error: BaseException) -> bool:
    """Say whether the same request can succeed later without anybody changing anything."""
    return isinstance(error, ApiError) and error.retryable


def backoff(failures: int, rng: random.Random, error: BaseException | None = None) -> float:
    """Seconds to wait after the `failures`-th failure in a row (counted from 1).

    The server's Retry-After is a floor, and jitter comes on top of it. An error that is not
    retryable waits long: only a change from outside can help.
    """
    ceiling = min(LONGEST, FIRST * 2.0 ** min(failures - 1, 16))
    if isinstance(error, ApiError) and not error.retryable:
        return rng.uniform(LONGEST / 2, LONGEST)
    floor = error.retry_after if isinstance(error, ApiError) and error.retry_after else 0.0
    return floor + rng.uniform(0.0, ceiling)


def retrying(
    *,
    stop_after: float = 30.0,
    attempts: int = 8,
    sleep: Sleep = asyncio.sleep,
    rng: random.Random | None = None,
) -> AsyncRetrying:
    """Build the policy: `await retrying()(kube.get, JOBS, name)`, or `async for attempt in ...`.

    Gives up with the last error after `attempts` tries, or when the next delay would pass
    `stop_after` seconds.
    """
    source = rng or random.Random()

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        return backoff(state.attempt_number, source, error)

    def stop(state: RetryCallState) -> bool:
        passed = max(state.seconds_since_start or 0.0, state.idle_for)
        return state.attempt_number >= attempts or passed + state.upcoming_sleep > stop_after

    return AsyncRetrying(
        retry=retry_if_exception(is_retryable), wait=wait, stop=stop, sleep=sleep, reraise=True
    )
