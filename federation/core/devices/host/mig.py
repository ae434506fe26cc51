"""Which memory slices of a MIG card are taken."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from federation.core.devices.cards import Slice
from federation.core.devices.host.mig_table import bits


def taken(slices: Iterable[Slice]) -> int:
    """The memory slices of these instances, as a mask."""
    mask = 0
    for place in slices:
        mask |= bits(place.start, place.size)
    return mask


def overlap(slices: Iterable[Slice]) -> str:
    """Which two instances cannot be there both; '' if all can.

    What is known of such a card is wrong, so nothing new may go there.
    """
    ordered = sorted(slices, key=lambda place: place.start)
    for before, after in pairwise(ordered):
        if after.start < before.start + before.size:
            return (
                f"instances {before.profile} at {before.start} and {after.profile} "
                f"at {after.start} overlap"
            )
    return ""
