"""Tasks that must not end, and how they are owned."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any

import structlog

from federation.edge.errors import ApiError

log = structlog.get_logger(__name__)


class ServiceEnded(RuntimeError):
    """A task that must run for ever returned."""


async def guard(coro: Coroutine[Any, Any, object], name: str) -> None:
    """Own a task that must not end: a crash is logged at once, a quiet return is a bug."""
    try:
        await coro
    except Exception:  # whatever it was: logged here, and passed on
        log.exception("service.crashed", service=name)
        raise
    raise ServiceEnded(name)


async def vital(coro: Coroutine[Any, Any, object], name: str) -> None:
    """Own a task without which the process is of no use: if it crashes, the process ends too."""
    try:
        await guard(coro, name)
    except Exception:  # whatever it was: passed on
        exit_soon()
        raise


def run_program(main: Coroutine[Any, Any, None], name: str) -> int:
    """Run a program to its end: 0 after a signal, 1 with a logged reason when it cannot go on."""
    try:
        asyncio.run(main)
    except (ApiError, ExceptionGroup) as error:
        if not isinstance(found := _alone(error), ApiError):
            raise
        log.error(f"{name}.failed", error=str(found))
        return 1
    except asyncio.CancelledError:
        return 0
    return 0


def _alone(error: Exception) -> Exception:
    """What groups hold, if that is one error."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def exit_soon(seconds: float = 10.0) -> None:
    """End the process even if one of its tasks does not end: a supervisor starts it again.

    What has crashed and stays looks alive from outside, and does nothing for ever.
    """
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()
