"""How long to wait before something that failed is tried again.

Who tries again is the owner of the work (an informer's next round, a job's next plan): nothing is
repeated inside a call. Delays are full jitter on an exponential ceiling, so that clients that
failed together do not come back together.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from federation.edge.errors import ApiError

FIRST = 0.1  # seconds, ceiling of the first delay
LONGEST = 10.0  # seconds, ceiling of every delay

Sleep = Callable[[float], Awaitable[None]]


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
