"""The handshake between HAMi's scheduler and the device plugins of a node, as an onlooker reads it.

The scheduler writes `Requesting_TIME`; old plugins answer `Reported_TIME`, the current one of
NVIDIA does not. A request that nobody answered for a minute means the plugin is gone only if the
node has none of its cards to allocate either.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

PATIENCE_S: Final = 60.0
_ASKED: Final = "Requesting"


class Handshake(StrEnum):
    """What a handshake says of the plugin; only LOST takes its cards away."""

    ABSENT = "absent"
    """Nothing was ever written."""
    ANSWERED = "answered"
    """Anything but a request."""
    ASKED = "asked"
    """A request that may still be answered."""
    SILENT = "silent"
    """An old request, but the node has cards to allocate: a plugin that does not answer."""
    LOST = "lost"
    """An old request and no card to allocate."""


def read(text: str | None, allocatable: int, seen_for_s: float) -> Handshake:
    """The state of a handshake; `allocatable` is the node's amount of the vendor's card resource.

    `seen_for_s` is how long the text has been there by the reader's clock: the time in it is of
    the scheduler's, and without a zone.
    """
    if not text:
        return Handshake.ABSENT
    if text.partition("_")[0] != _ASKED:
        return Handshake.ANSWERED
    if seen_for_s <= PATIENCE_S:
        return Handshake.ASKED
    return Handshake.SILENT if allocatable > 0 else Handshake.LOST
