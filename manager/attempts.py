"""How often a cluster that does not answer is asked, and what people are told of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from federation.api.meta import wire_time
from manager.clock import wall_time
from manager.protocol import Health

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
_SAME = 4
"""So many attempts are made before the pause doubles: most outages are short."""


def pause_after(failures: int) -> float:
    """Seconds until the next attempt after so many failures in a row."""
    doublings = min(max(failures - 1, 0) // _SAME, 10)
    return float(min(FIRST_PAUSE_S * 2.0**doublings, LONGEST_PAUSE_S))


def after_attempts(health: Health, failures: int, pause: float) -> Health:
    """The same, with the number of attempts and the time of the next one (RFC 3339)."""
    at = wire_time(wall_time() + timedelta(seconds=pause))
    text = f"{health.message} (attempts so far: {failures}, the next one at {at})"
    return replace(health, message=text)
