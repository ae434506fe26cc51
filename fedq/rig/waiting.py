"""Bounded waiting: the only place of the rig that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_INTERVAL = 0.03
"""Seconds between two looks at a condition; short beside any start-up time."""


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll until `condition` holds; False when `timeout` seconds have passed without it.

    An exception of the condition ends the wait: it is how a caller says "this never comes".
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL)  # a poll interval inside a bounded wait
    return True
