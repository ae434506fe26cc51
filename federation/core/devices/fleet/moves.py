"""Who would have to leave so that a gang finds cards: the fewest holders, of these the smallest.

A bounded search that says whether it has seen all; nothing here moves anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Final, NamedTuple

from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.types import Gang, NoPlace, Room, Shape
from federation.core.devices.fleet.use import without
from federation.core.devices.ledger.holding import Holding

MOST: Final = 3
"""Holders that are made to leave at once."""
BUDGET: Final = 1000
"""Sets that are tried by placing the gang: about a millisecond each."""
LISTED: Final = 50_000
"""Sets of each size that are looked at at all."""


class Holder(NamedTuple):
    """One that might leave, and what it takes of its host beside cards."""

    holding: Holding
    requests: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """`leave` is the smallest set that was found, empty if none was; `tried` how many were tried,
    `all_tried` whether these are all up to `most`. `hopeless`: not even if all of them left.
    """

    leave: tuple[Holding, ...] = ()
    tried: int = 0
    all_tried: bool = True
    hopeless: bool = False
    most: int = MOST


def smallest_moves(
    fleet: Fleet,
    rooms: Mapping[str, Room],
    gang: Gang,
    holders: Iterable[Holder],
    *,
    most: int = MOST,
    budget: int = BUDGET,
) -> Moves:
    """Of holders on hosts of the fleet. `rooms` are those of its hosts. The fleet is as it was
    afterwards.
    """
    found = [one for one in holders if fleet.use(one.holding.host) is not None]
    found.sort(key=lambda one: (_memory(one), str(one.holding.owner)))
    trial = _Trial(fleet, rooms, gang)
    if not trial.fits(found):
        return Moves(tried=1, hopeless=True, most=most)
    tried, complete = 1, True
    for size in range(1, most + 1):
        sets = list(islice(_sets(found, size, gang), LISTED + 1))
        complete = complete and len(sets) <= LISTED
        for one in sorted(sets, key=lambda some: sum(map(_memory, some))):
            if trial.is_hopeless(one):
                continue
            if tried >= budget:
                return Moves(tried=tried, all_tried=False, most=most)
            tried += 1
            if trial.fits(one):
                return Moves(tuple(holder.holding for holder in one), tried, complete, most=most)
    return Moves(tried=tried, all_tried=complete, most=most)


def _sets(found: Sequence[Holder], size: int, gang: Gang) -> Iterator[tuple[Holder, ...]]:
    """For a single pod those on one host: others would leave in vain."""
    if sum(count for _, count in gang) > 1:
        return combinations(found, size)
    hosts: dict[str, list[Holder]] = {}
    for one in found:
        hosts.setdefault(one.holding.host, []).append(one)
    return chain.from_iterable(combinations(there, size) for there in hosts.values())


def _memory(holder: Holder) -> int:
    return sum(amount.memory_mib for amount in holder.holding.charge().values())


class _Trial:
    """The fleet without some of the holders."""

    def __init__(self, fleet: Fleet, rooms: Mapping[str, Room], gang: Gang) -> None:
        self._fleet, self._rooms, self._gang = fleet, rooms, gang

    def fits(self, gone: Sequence[Holder]) -> bool:
        """Whether the gang finds places if these leave."""
        changed = self._without(gone)
        before = {name: use for name in changed if (use := self._fleet.use(name)) is not None}
        try:
            for name, (use, room) in changed.items():
                self._fleet.put(name, use, room)
            return not isinstance(self._fleet.place_gang(self._gang), NoPlace)
        finally:
            for name, use in before.items():
                self._fleet.put(name, use, self._rooms[name])

    def is_hopeless(self, gone: Sequence[Holder]) -> bool:
        """Whether it is plain that no pod of the gang gains anything: where those were, the cards
        have too little memory still, or too few slots.
        """
        changed = self._without(gone)
        return not any(
            _may_fit(use, room, shape) for use, room in changed.values() for shape, _ in self._gang
        )

    def _without(self, gone: Sequence[Holder]) -> dict[str, tuple[HostUse, Room]]:
        changed: dict[str, tuple[HostUse, Room]] = {}
        for holding, requests in gone:
            known = changed.get(holding.host)
            if known is None:
                use = self._fleet.use(holding.host)
                assert use is not None
                known = use, self._rooms[holding.host]
            free = dict(known[1].free)
            for resource, amount in requests:
                free[resource] = free.get(resource, 0) + amount
            left = without(known[0], holding.charge(), holding.occupied(), mutex=holding.mutex)
            changed[holding.host] = left, replace(known[1], free=free)
        return changed


def _may_fit(use: HostUse, room: Room, shape: Shape) -> bool:
    """What holds for every placement: enough cards with the memory and a slot, and the room."""
    if any(room.free.get(name, 0) < amount for name, amount in shape.requests if amount > 0):
        return False
    for container in shape.wants.containers:
        for asked in container.cards:
            fitting = 0
            for card in use.host.cards:
                slots, memory, _ = use.use(card.uuid).amount
                need = asked.memory_mib or (
                    card.memory_mib * asked.percent // 100 if asked.percent < 100 else 0
                )
                if card.vendor == asked.vendor and slots < card.slots:
                    fitting += card.slots - slots if card.profiles else 1
                    fitting -= (memory + need > card.memory_mib) and not card.profiles
            if fitting < asked.cards:
                return False
    return True
