"""The handshake between HAMi's scheduler and the device plugins of a node, as an onlooker reads it.

The scheduler writes `Requesting_TIME`; old plugins answer `Reported_TIME`, the current one of
NVIDIA does not. A request that nobody answered for a minute means the plugin is gone only if the
node has none of its cards to allocate either.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

PATIENCE_S: Final = 60.0
_ASKED: Final = "Requesting"
_FORMAT: Final = "%Y-%m-%d %H:%M:%S"


class Handshake(StrEnum):
    """What a handshake says of the plugin; only LOST takes its cards away."""

    ABSENT = "absent"
    """Nothing was ever written."""
    ANSWERED = "answered"
    """Anything but a request."""
    ASKED = "asked"
    """A request that may still be answered."""
    UNCLEAR = "unclear"
    """A request without a time that can be read."""
    SILENT = "silent"
    """An old request, but the node has cards to allocate: a plugin that does not answer."""
    LOST = "lost"
    """An old request and no card to allocate."""


def read(
    text: str | None, allocatable: int, now: datetime, seen: datetime | None = None
) -> Handshake:
    """The state of a handshake; `allocatable` is the node's amount of the vendor's card resource.

    The time in the text is of the scheduler's clock and without a zone. Who has watched the text
    since `seen` should say so: then that counts, by its own clock.
    """
    if not text:
        return Handshake.ABSENT
    word, _, written = text.partition("_")
    if word != _ASKED:
        return Handshake.ANSWERED
    since = seen
    if since is None:
        try:
            since = datetime.strptime(written, _FORMAT).replace(tzinfo=now.tzinfo)
        except ValueError:
            return Handshake.UNCLEAR
    if (now - since).total_seconds() <= PATIENCE_S:
        return Handshake.ASKED
    return Handshake.SILENT if allocatable > 0 else Handshake.LOST
