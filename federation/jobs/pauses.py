"""For how long a copy stood still in its attempt because the lease of its cluster had ended, and
for how long it ran: time that is held does not count for any limit of time.

Its agent notes on it when it was held, when it went on, and how long all that lasted, by its own
clock; others use differences of these times only, for their clock is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from federation.api.life import moment
from federation.api.meta import wire_time
from federation.api.names import Mirror

Json = dict[str, Any]
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Pauses:
    """Times in seconds since the epoch, None if they are not known.

    `started` is when the copy was started, `resumed` when it went on last, `since` when it was held
    (None: it is not). `seconds` is for how long it stood still before that.
    """

    started: float | None = None
    resumed: float | None = None
    since: float | None = None
    seconds: int = 0

    def ran(self, until: float | None) -> int | None:
        """Seconds that it ran in all if it ended then, or was held; None if that is not known."""
        end = until if self.since is None else self.since
        if end is None or self.started is None:
            return None
        return max(0, int(end - self.started) - self.seconds)

    @property
    def stretch(self) -> int:
        """Seconds that it ran without a break before it was held; 0 if that is not known."""
        begun = self.resumed or self.started
        return 0 if begun is None or self.since is None else max(0, int(self.since - begun))

    def ends(self, now: float) -> dict[str, str | None]:
        """The notes when it is held no longer."""
        held = 0 if self.since is None else max(0, int(now - self.since))
        return {
            Mirror.HELD.value: None,
            Mirror.HELD_AT.value: None,
            Mirror.HELD_SECONDS.value: str(min(self.seconds + held, _MOST)),
        }


def read_pauses(notes: Mapping[str, str]) -> Pauses:
    """What the annotations of a copy say. Since when it is held counts beside that it is."""
    started = moment(notes.get(Mirror.ADMITTED_AT.value)) or moment(notes.get(Mirror.RESERVED_AT))
    resumed = moment(notes.get(Mirror.RESUMED_AT.value))
    since = moment(notes.get(Mirror.HELD_AT.value)) if notes.get(Mirror.HELD.value) else None
    written = notes.get(Mirror.HELD_SECONDS.value, "")
    seconds = int(written) if written.isdecimal() and len(written) < len(str(_MOST)) else 0
    return Pauses(started, resumed, since, seconds)


def begins(why: str, now: float) -> dict[str, str | None]:
    """The notes when a copy is held."""
    return {Mirror.HELD.value: why, Mirror.HELD_AT.value: _stamp(now)}


def goes_on(pauses: Pauses, now: float) -> dict[str, str | None]:
    """The notes when it is started again."""
    return {**pauses.ends(now), Mirror.RESUMED_AT.value: _stamp(now)}


def _stamp(now: float) -> str:
    return wire_time(datetime.fromtimestamp(now, UTC))
