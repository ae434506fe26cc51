"""What each way of cutting a MIG card is worth, and hence where the next instance goes.

Hardware allows an instance at certain places only, and a bad place shuts out larger instances
later: of an A100, a 3g at slice 0 wastes a slice and four 1g from the top block every 3g. The
worth of a state (the set of taken memory slices) is the number of compute slices expected to be
served over the next `HORIZON` requests if all profiles are asked for equally often, none ends,
and each is put where the worth of the rest is largest. A card has at most 256 states, so that
is computed, once per kind of card and only for the states that come up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from federation.core.devices.cards import MigProfile, Slice

HORIZON = 7
_VALUED_SLICES = 12
"""With more memory slices than cards have today, places are taken from below."""
_REMEMBERED = 4096


class Move(NamedTuple):
    """One instance at one free place; `bits` are its memory slices."""

    profile: MigProfile
    slice: Slice
    bits: int


@dataclass(slots=True)
class MigTable:
    """The profiles of a kind of card, by memory and then slices, with their places as masks."""

    profiles: tuple[MigProfile, ...]
    _moves: dict[tuple[int, int, str], tuple[Move, ...]] = field(default_factory=dict)
    _worths: dict[tuple[int, int], float] = field(default_factory=dict)
    _counts: dict[tuple[int, int, str], int] = field(default_factory=dict)

    @property
    def largest_mib(self) -> int:
        """Memory of the largest profile."""
        return self.profiles[-1].memory_mib if self.profiles else 0

    def moves(self, mask: int, memory_mib: int, name: str = "") -> tuple[Move, ...]:
        """Free places of the profiles that hold so much memory, or of the one with this name;
        the smallest profile first, of one profile the best place first.
        """
        known = self._moves.get((mask, memory_mib, name))
        if known is None:
            if len(self._moves) > _REMEMBERED:
                self._moves.clear()
            known = tuple(
                move
                for profile in self.profiles
                if (profile.name == name if name else profile.memory_mib >= memory_mib)
                for move in self._places(profile, mask)
            )
            self._moves[mask, memory_mib, name] = known
        return known

    def count(self, mask: int, memory_mib: int, name: str = "") -> int:
        """How many such instances there is room for, at most: the places that end first."""
        key = (mask, memory_mib, name)
        known = self._counts.get(key)
        if known is None:
            if len(self._counts) > _REMEMBERED:
                self._counts.clear()
            places = [move.slice for move in self.moves(mask, memory_mib, name)]
            known = end = 0
            for place in sorted(places, key=lambda place: place.start + place.size):
                if place.start >= end:
                    known, end = known + 1, place.start + place.size
            self._counts[key] = known
        return known

    def free_mib(self, mask: int) -> int:
        """Memory of the largest instance that still has a place."""
        for profile in reversed(self.profiles):
            if any(not bits(*place) & mask for place in profile.placements):
                return profile.memory_mib
        return 0

    def _places(self, profile: MigProfile, mask: int) -> list[Move]:
        moves = [
            Move(profile, Slice(profile.name, start, size), bits(start, size))
            for start, size in profile.placements
            if not bits(start, size) & mask
        ]
        return sorted(
            moves, key=lambda move: (-self._worth(mask | move.bits, HORIZON), move.slice.start)
        )

    def _worth(self, mask: int, horizon: int) -> float:
        if not horizon or not self.profiles or mask >> _VALUED_SLICES:
            return 0.0
        known = self._worths.get((mask, horizon))
        if known is None:
            known = sum(self._served(profile, mask, horizon) for profile in self.profiles)
            known /= len(self.profiles)
            self._worths[mask, horizon] = known
        return known

    def _served(self, profile: MigProfile, mask: int, horizon: int) -> float:
        taken = [bits(*place) for place in profile.placements]
        after = [self._worth(mask | place, horizon - 1) for place in taken if not place & mask]
        return profile.slices + max(after) if after else self._worth(mask, horizon - 1)


def bits(start: int, size: int) -> int:
    """Memory slices [start, start + size) as a mask."""
    return ((1 << size) - 1) << start


def taken(slices: Iterable[Slice]) -> int:
    """The memory slices of these instances, as a mask."""
    mask = 0
    for place in slices:
        mask |= bits(place.start, place.size)
    return mask


@lru_cache(maxsize=256)
def table_of(profiles: tuple[MigProfile, ...]) -> MigTable:
    """The table of a kind of card."""
    ordered = sorted(profiles, key=lambda profile: (profile.memory_mib, profile.slices))
    return MigTable(tuple(ordered))
