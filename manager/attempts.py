"""How often a cluster that does not answer is asked, and what people are told of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from federation.api.meta import wire_time
from federation.api.names import ActiveReason
from manager.clock import wall_time
from manager.protocol import Health

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
LONGEST_PROMISE_S = 320.0
_SAME = 4
"""So many attempts are made before the pause doubles: most outages are short."""


class Attempts:
    """Counts the attempts that failed in a row.

    What is told changes less and less often, up to every 320 s: each change is a write of the
    cluster's status. Attempts are made more often than that.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._last = self._said = Health()
        self._promised = float("-inf")

    @property
    def pause(self) -> float:
        """Seconds until the next attempt."""
        return min(self._doubled(), LONGEST_PAUSE_S)

    def _doubled(self) -> float:
        doublings = min(max(self.failures - 1, 0) // _SAME, 10)
        return float(min(FIRST_PAUSE_S * 2.0**doublings, LONGEST_PROMISE_S))

    def told(self, health: Health) -> Health:
        """The outcome of an attempt as people are told it: a failure with the number of attempts so
        far, and the time by which the next one is made (RFC 3339).
        """
        if health.ok or health.reason == ActiveReason.CONNECTING:
            self.failures, self._promised = 0, float("-inf")
            return health
        self.failures += 1
        now = asyncio.get_running_loop().time()
        if health == self._last and now < self._promised:
            return self._said
        pause = self._doubled()
        by = wire_time(wall_time() + timedelta(seconds=pause))
        text = f"{health.message} (attempts so far: {self.failures}, the next one by {by})"
        self._last, self._said = health, replace(health, message=text)
        self._promised = now + pause
        return self._said
