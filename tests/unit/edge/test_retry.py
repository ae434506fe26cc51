"""How long to wait before trying again."""

from __future__ import annotations

import random

import pytest

from federation.edge.errors import ApiError, Conflict, ServerError, TooManyRequests
from federation.edge.retry import backoff


@pytest.mark.parametrize(
    ("failures", "error", "low", "high"),
    [
        (1, None, 0.0, 0.1),
        (4, None, 0.0, 0.8),
        (50, None, 0.0, 10.0),
        (1, Conflict("x"), 5.0, 10.0),
        (1, ServerError("x"), 0.0, 0.1),
        (1, TooManyRequests("x", retry_after=5.0), 5.0, 5.1),
    ],
)
def test_backoff(failures: int, error: ApiError | None, low: float, high: float) -> None:
    """What cannot get better by itself is asked for rarely; Retry-After is a floor."""
    rng = random.Random(2)
    delays = [backoff(failures, rng, error) for _ in range(200)]
    assert low <= min(delays) < max(delays) <= high
