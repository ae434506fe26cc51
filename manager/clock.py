"""The two clocks of a program: one that never jumps, to count by, and one that people read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from federation.edge.machine import boottime

JUMP_S = 2.0
"""The clock on the wall was set if the two differ by more than this from before."""


def wall_time() -> datetime:
    """The time of day, UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from."""

    boot: Callable[[], float] = boottime
    wall: Callable[[], datetime] = wall_time


class Dial:
    """Shows readings of the one clock as times of the other, the same reading as the same time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zero: datetime | None = None

    def time(self, reading: float) -> datetime:
        """The time of day at a reading."""
        zero = self._clock.wall() - timedelta(seconds=self._clock.boot())
        if self._zero is None or abs((zero - self._zero).total_seconds()) > JUMP_S:
            self._zero = zero
        return self._zero + timedelta(seconds=reading)
