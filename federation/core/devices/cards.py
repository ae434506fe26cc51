"""Cards as nodes register them, and what is used of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

HAMI_CORE: Final = "hami-core"
MIG: Final = "mig"
WHOLE: Final = "whole"
INSTANCE: Final = "mig-instance"
SLICE: Final = "slice"
"""Modes of a card: shared by software, cut by hardware, not shared; one hardware instance that a
device plugin hands out under a resource name of its own; one slice of a card that it hands out as
if it were a card. There may be others."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A size that a MIG card can be cut to; `placements` are (start, size) in memory slices."""

    name: str
    memory_mib: int
    cores: int
    slices: int
    placements: tuple[tuple[int, int], ...]


_PROFILE: Final = re.compile(r"([0-9]{1,2})g\.([0-9]{1,4})gb")


def profile_sizes(name: str) -> tuple[int, int] | None:
    """Compute slices and GiB that the name of a MIG profile says (2g.10gb); None if it says none.
    The memory is a little more than the profile really has.
    """
    found = _PROFILE.match(name)
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True, slots=True)
class Card:
    """One physical card. `vendor` is the short word of its device plugin (NVIDIA, DCU, MLU, ...);
    `model` the type text it registers. `slots` is how many containers may share it.
    `profiles` are there if it is in MIG mode. A card of mode WHOLE or INSTANCE is given out whole
    or not at all; those and slices cannot be chosen by UUID. `sizes`, ascending, are the shares of
    memory that it is cut to; empty if a share may have any size. `units` are the compute units
    that 100 cores are, where a vendor writes those on pods; else 0.
    """

    uuid: str
    vendor: str
    model: str
    memory_mib: int
    cores: int = 100
    slots: int = 10
    index: int = 0
    numa: int = 0
    mode: str = HAMI_CORE
    healthy: bool = True
    cordoned: bool = False
    profiles: tuple[MigProfile, ...] = ()
    sizes: tuple[int, ...] = ()
    units: int = 0

    def offers(self, memory_mib: int, percent: int, profile: str) -> bool:
        """Whether it is the sort of card that such a request may get, full or not."""
        if self.mode == INSTANCE:
            return any(profile == own.name for own in self.profiles)
        if self.mode == WHOLE:
            return (
                not profile
                and (memory_mib == self.memory_mib or not memory_mib)
                and (percent == 100 or bool(memory_mib))
            )
        return True

    def share(self, memory_mib: int, percent: int) -> int | None:
        """MiB that a share takes: what is asked, else percent of the card (rounded down), cut up
        to a size. None if no share is so large.
        """
        asked = memory_mib or self.memory_mib * percent // 100
        if not self.sizes:
            return asked if asked <= self.memory_mib else None
        return next((size for size in self.sizes if size >= asked), None)


@dataclass(frozen=True, slots=True)
class Host:
    """A node with its cards, in order of index. `links` has the score of each pair of cards that
    has one (NVLink, PCIe), under both orders of their UUIDs. UUIDs are unique on one host only.
    """

    name: str
    cards: tuple[Card, ...]
    links: Mapping[tuple[str, str], int] = field(default_factory=dict)


class Amount(NamedTuple):
    """What is used of one card, or is to be."""

    slots: int = 0
    memory_mib: int = 0
    cores: int = 0

    def plus(self, more: Amount) -> Amount:
        """Both together."""
        return Amount(self[0] + more[0], self[1] + more[1], self[2] + more[2])

    def minus(self, less: Amount) -> Amount:
        """What is left; may be negative."""
        return Amount(self[0] - less[0], self[1] - less[1], self[2] - less[2])

    def peak(self, other: Amount) -> Amount:
        """The larger of each quantity."""
        return Amount(max(self[0], other[0]), max(self[1], other[1]), max(self[2], other[2]))


class Slice(NamedTuple):
    """Where on a MIG card an instance is: memory slices [start, start + size)."""

    profile: str
    start: int
    size: int


class Grant(NamedTuple):
    """One card given to one container. In MIG mode amounts are those of the profile."""

    uuid: str
    vendor: str
    memory_mib: int
    cores: int
    slice: Slice | None = None


Allocation = tuple[tuple[Grant, ...], ...]
"""The grants of each container of a pod, in the order of `PodWants.containers`."""


@dataclass(frozen=True, slots=True)
class CardUse:
    """What is used of one card. `closed` says that a holder wants it for itself (mutex);
    `fence` why nothing new may go there although the card is sound ('' if it may).
    """

    amount: Amount = field(default_factory=Amount)
    slices: tuple[Slice, ...] = ()
    closed: bool = False
    fence: str = ""

    def open(self, card: Card) -> bool:
        """Whether anything new may go to the card that this is used of, if it fits."""
        return card.healthy and not (card.cordoned or self.closed or self.fence)


@dataclass(frozen=True, slots=True)
class HostUse:
    """A host and what is used of its cards, by UUID; a card that is not there is idle.
    `fence` says why nothing new may go to the host at all.
    """

    host: Host
    uses: Mapping[str, CardUse] = field(default_factory=dict)
    fence: str = ""

    def use(self, uuid: str) -> CardUse:
        """What is used of a card."""
        return self.uses.get(uuid, IDLE)


IDLE = CardUse()
