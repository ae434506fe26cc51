"""The cards of all hosts as columns of numbers, changed in place, and views of some hosts.

One row per host, one column per card of it. A kind is what cards have in common that are not told
apart by what is used of them (vendor, model, size, mode): what a pod asks is resolved per kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from federation.core.devices.cards import Amount, Card, HostUse
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.types import Room

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SLOTS, MEMORY, CORES = 0, 1, 2
"""Index of an amount in `View.total`, `View.used` and what is spent."""

_KIND, _OPEN, _NUMA, _TOTAL, _USED = 0, 1, 2, 3, 6
_FIELDS = 9


@dataclass(frozen=True, slots=True)
class View:
    """Some hosts, in the order of `rows`; arrays have one entry per host [h] or card [h, cards].

    `kind` is -1 where a host has no such card; `open` says that new work may go there; `numa` is
    the number of the NUMA node.
    `total` and `used` have the amounts [3, h, cards]. `cpu` is milli-units free [h], `cpu_total`
    the most that was ever free. `kinds` are all kinds of the fleet,
    `uses` the hosts by row.
    """

    rows: Ints
    kind: Ints
    open: Bools
    numa: Ints
    total: Ints
    used: Ints
    cpu: Ints
    cpu_total: Ints
    kinds: Kinds
    uses: Sequence[HostUse | None]

    def of(self, chosen: Ints | Bools) -> View:
        """Some of the hosts."""
        return View(
            self.rows[chosen],
            self.kind[chosen],
            self.open[chosen],
            self.numa[chosen],
            self.total[:, chosen],
            self.used[:, chosen],
            self.cpu[chosen],
            self.cpu_total[chosen],
            self.kinds,
            self.uses,
        )


class Table:
    """The columns. Every change of a row stamps it with a growing `version`."""

    def __init__(self, kinds: Kinds) -> None:
        self.version = 0
        self.kinds = kinds
        self.row_of: dict[str, int] = {}
        self.names: list[str] = []
        self.uses: list[HostUse | None] = []
        self.rooms: list[Room] = []
        self._unused: list[int] = []
        self._cards: Ints = np.zeros((_FIELDS, 0, 0), np.int64)
        self._free: dict[str, Ints] = {}
        self._cpu_total: Ints = np.zeros(0, np.int64)
        self.changed: Ints = np.zeros(0, np.int64)
        self.relabelled: Ints = np.zeros(0, np.int64)
        self._order: Ints | None = None

    def __len__(self) -> int:
        """How many rows there are, in use or not."""
        return len(self.names)

    @property
    def width(self) -> int:
        """The most cards that a host has."""
        return int(self._cards.shape[2])

    def put(self, name: str, use: HostUse, room: Room) -> int:
        """Add a host or replace all that is known of it; its row."""
        row = self.row_of.get(name)
        if row is None:
            row = self._new_row(name)
        old, before = self.rooms[row], self.uses[row]
        if before is None or before.host.cards != use.host.cards:
            self.kinds.count(before.host.cards if before else (), use.host.cards)
        self.uses[row], self.rooms[row] = use, room
        self._write_cards(row, use)
        for column in self._free.values():
            column[row] = 0
        for resource, amount in room.free.items():
            self._column(resource)[row] = amount
        self._touch(row)
        if before is None or (old.labels, old.taints, old.ready) != (
            room.labels,
            room.taints,
            room.ready,
        ):
            self.relabelled[row] = self.version
        if before is None:
            self._cpu_total[row] = 0
        self._cpu_total[row] = max(int(self._cpu_total[row]), room.free.get("cpu", 0))
        return row

    def drop(self, name: str) -> None:
        """Forget a host; unknown ones are ignored."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        before = self.uses[row]
        self.kinds.count(before.host.cards if before else (), ())
        self.uses[row] = None
        self.rooms[row] = _GONE
        self._cards[:, row] = 0
        self._cards[_KIND, row] = -1
        self._touch(row)
        self.relabelled[row] = self.version
        self._unused.append(row)
        self._order = None

    def change(
        self, row: int, use: HostUse, cards: Iterable[str], taken: Iterable[tuple[str, int]]
    ) -> None:
        """Write what changed of a host: the named cards, and host resources `taken` from it."""
        self.uses[row] = use
        for column, card in enumerate(use.host.cards):
            if card.uuid in cards:
                self._write_card(row, column, card, use)
        for resource, amount in taken:
            self._column(resource)[row] -= amount
        self._touch(row)

    def view(self, rows: Ints) -> View:
        """A copy of these rows."""
        cards = self._cards[:, rows]
        return View(
            rows,
            cards[_KIND],
            cards[_OPEN] > 0,
            cards[_NUMA],
            cards[_TOTAL:_USED],
            cards[_USED:],
            self._column("cpu")[rows],
            self._cpu_total[rows],
            self.kinds,
            self.uses,
        )

    def likeness(self, row: int) -> object:
        """Equal for two hosts if the same pods find the same places, by number of the card."""
        use = self.uses[row]
        assert use is not None
        slices = tuple(use.use(card.uuid).slices for card in use.host.cards if card.profiles)
        number = {card.uuid: n for n, card in enumerate(use.host.cards)}
        links = use.host.links.items()
        pairs = frozenset((number[a], number[b], s) for (a, b), s in links if {a, b} <= set(number))
        return self._cards[:, row].tobytes(), slices, pairs, bool(use.fence)

    def has_room(self, rows: Ints, requests: Sequence[tuple[str, int]]) -> Bools:
        """Which of the rows have these host resources free."""
        enough = np.ones(len(rows), np.bool_)
        for resource, amount in requests:
            if amount > 0:
                enough &= self._column(resource)[rows] >= amount
        return enough

    @property
    def order(self) -> Ints:
        """The rank of each row by name."""
        if self._order is None:
            self._order = np.zeros(len(self.names), np.int64)
            self._order[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(
                len(self.names)
            )
        return self._order

    def _touch(self, row: int) -> None:
        self.version += 1
        self.changed[row] = self.version

    def _column(self, resource: str) -> Ints:
        column = self._free.get(resource)
        if column is None:
            column = self._free[resource] = np.zeros(len(self.changed), np.int64)
        return column

    def _new_row(self, name: str) -> int:
        if self._unused:
            row = self._unused.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
            self.uses.append(None)
            self.rooms.append(_GONE)
            if row >= len(self.changed):
                self._grow(max(16, 2 * row), self._cards.shape[2])
        self.row_of[name] = row
        self._order = None
        return row

    def _grow(self, hosts: int, cards: int) -> None:
        """Make room for more hosts or more cards per host."""
        old = self._cards
        self._cards = np.zeros((_FIELDS, hosts, cards), np.int64)
        self._cards[_KIND] = -1
        self._cards[:, : old.shape[1], : old.shape[2]] = old
        more = hosts - len(self.changed)
        self.changed = np.pad(self.changed, (0, more))
        self.relabelled = np.pad(self.relabelled, (0, more))
        self._cpu_total = np.pad(self._cpu_total, (0, more))
        self._free = {name: np.pad(column, (0, more)) for name, column in self._free.items()}

    def _write_cards(self, row: int, use: HostUse) -> None:
        cards = use.host.cards
        if len(cards) > self._cards.shape[2]:
            self._grow(self._cards.shape[1], len(cards))
        self._cards[_KIND, row, len(cards) :] = -1
        self._cards[_OPEN:, row, len(cards) :] = 0
        for column, card in enumerate(cards):
            self._write_card(row, column, card, use)

    def _write_card(self, row: int, column: int, card: Card, use: HostUse) -> None:
        held = use.use(card.uuid)
        total = Amount(card.slots, card.memory_mib, card.cores)
        kind, is_open = self.kinds.number(card), not use.fence and held.open(card)
        self._cards[:, row, column] = (kind, is_open, card.numa, *total, *held.amount)


_GONE = Room({}, ready=False)
