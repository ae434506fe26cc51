"""How long the worker of a cluster may write without having heard of its manager.

A worker on another machine, or one that was frozen, may be given up and replaced while it still has
commands to carry out. It refuses them once the leash is over. That its manager was alive is known
only from an acknowledgement: a call may have lain in a queue for any time, but the manager was
alive *after* the news were told that it acknowledges. So the leash is counted from then.
"""

from __future__ import annotations

from collections.abc import Callable

from federation.edge.machine import boottime

LEASH_S = 20.0
ENDS_AFTER_S = 60.0
"""A worker that was not heard of for as long is of no use to anybody."""


class Leash:
    """Of one worker."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._told = (-1, clock())
        self._from = self._told[1] - LEASH_S
        """Nothing has been acknowledged yet."""

    def told(self, seq: int) -> None:
        """News are handed out now."""
        self._told = (seq, self._clock())

    def acknowledged(self, seq: int) -> None:
        """The manager has taken in news that were told."""
        if seq == self._told[0]:
            self._from = self._told[1]

    @property
    def silence(self) -> float:
        """Seconds since the manager was certainly alive."""
        return self._clock() - self._from

    def problem(self) -> str:
        """Why nothing may be written; '' if it may."""
        if (silence := self.silence) < LEASH_S:
            return ""
        return f"no manager was heard of for {silence:.0f} s: another worker may do this by now"
