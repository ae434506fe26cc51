"""What a ResourceFlavor says of its cards, for where no node can be asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from federation.core.card_shares import CARD_MEMORY, MIG_PROFILES
from federation.core.devices.cards import MIG, Card, MigProfile
from federation.core.devices.wire.vendor_table import NVIDIA

_MEMORY_LABEL = "nvidia.com/gpu.memory"
"""MiB of a card, as NVIDIA's feature discovery labels nodes."""
_SIZE = re.compile(r"(?:([A-Za-z0-9.-]{1,40})=)?([0-9]{1,9})")
_PROFILE = re.compile(r"([0-9]{1,2}g\.[0-9]{1,4}gb[+a-z0-9.]{0,20})=([0-9]{1,9}):([0-9]{1,3})")


def flavor_cards(annotations: Mapping[str, str], labels: Mapping[str, str]) -> tuple[Card, ...]:
    """One card of each vendor that the annotations tell of, else NVIDIA's by the node label.

    `fedq.io/card-memory-mib` is MiB of an NVIDIA card (40960), or of several vendors
    (NVIDIA=40960,DCU=65520). `fedq.io/mig-profiles` are the sizes to which NVIDIA's are cut, with
    MiB and percent of compute: 1g.5gb=4864:15,2g.10gb=9984:29. ValueError if they are unreadable.
    """
    sizes = dict(_sizes(annotations.get(CARD_MEMORY, "")))
    label = labels.get(_MEMORY_LABEL, "")
    if not sizes and label.isascii() and label.isdecimal():
        sizes[NVIDIA.key] = int(label)
    profiles = tuple(_profiles(annotations.get(MIG_PROFILES, "")))
    if profiles and NVIDIA.key not in sizes:
        raise ValueError(f"annotation {MIG_PROFILES} needs {CARD_MEMORY} as well")
    return tuple(
        Card("", vendor, "", memory, mode=MIG, profiles=profiles)
        if profiles and vendor == NVIDIA.key
        else Card("", vendor, "", memory)
        for vendor, memory in sorted(sizes.items())
    )


def _sizes(text: str) -> Iterator[tuple[str, int]]:
    for part in filter(None, map(str.strip, text.split(","))):
        found = _SIZE.fullmatch(part)
        if found is None or not int(found[2]):
            raise ValueError(
                f"annotation {CARD_MEMORY}: {part!r} is not MiB of a card: write 40960, or"
                " NVIDIA=40960,DCU=65520"
            )
        yield found[1] or NVIDIA.key, int(found[2])


def _profiles(text: str) -> Iterator[MigProfile]:
    for part in filter(None, map(str.strip, text.split(","))):
        found = _PROFILE.fullmatch(part)
        if found is None:
            raise ValueError(
                f"annotation {MIG_PROFILES}: {part!r} is no profile: write 1g.5gb=4864:15 (MiB,"
                " percent of compute)"
            )
        yield MigProfile(found[1], int(found[2]), int(found[3]), 0, ())
