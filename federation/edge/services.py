"""Tasks that must not end: how they are owned and how often they tick."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from federation.edge.errors import ApiError
from federation.edge.retry import Sleep

log = structlog.get_logger(__name__)

SLOWEST = 8.0  # a failing service ticks at most this many times less often


class ServiceEnded(RuntimeError):
    """A task that must run for ever returned."""


async def guard(coro: Coroutine[Any, Any, object], name: str) -> None:
    """Own a task that must not end: a crash is logged at once, a quiet return is a bug."""
    try:
        await coro
    except Exception:
        log.exception("service.crashed", service=name)
        raise
    raise ServiceEnded(name)


async def service(
    tick: Callable[[], Awaitable[object]],
    every: float,
    jitter: float,
    rng: random.Random,
    *,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Call `tick` for ever, `every` seconds apart give or take the share `jitter` (0.3 = 30 %).

    An ApiError is logged and doubles the distance (up to 8 times) until a tick succeeds; anything
    else is a bug and goes up. All delay arithmetic is in the last line, so jitter applies to the
    backoff too.
    """
    slower = 1.0
    while True:
        try:
            await tick()
            slower = 1.0
        except ApiError as error:
            slower = min(slower * 2, SLOWEST)
            log.warning("service.tick_failed", service=tick.__qualname__, error=str(error))
        await sleep(every * slower * (1 + rng.uniform(-jitter, jitter)))
