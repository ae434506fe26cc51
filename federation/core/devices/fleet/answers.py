"""The answers for one shape on every host, and which of them have to be worked out again."""

from __future__ import annotations

import numpy as np

from federation.core.devices.cards import Allocation, Grant
from federation.core.devices.fleet.ask import Ask, asks_of, is_plain
from federation.core.devices.fleet.exact import Exact
from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.table import Bools, Floats, Ints, Table, View
from federation.core.devices.fleet.types import NoPlace, Room, Shape

OK, CLOSED, ROOM, CARDS = 0, 1, 2, 3
"""Why a host cannot take the pod."""


class Answers:
    """`score` per row of the table (infinite: the pod does not fit), and the cards chosen."""

    def __init__(self, shape: Shape, table: Table, strategy: Strategy) -> None:
        self._shape = shape
        self._table = table
        self._strategy = strategy
        self._plain = is_plain(shape)
        self._asks: tuple[Ask, ...] = ()
        self._basis: tuple[int, int] | None = None
        self._version = self._labels = -1
        self.score: Floats = np.zeros(0)
        self._admits: dict[object, bool] = {}
        self._exact = Exact(shape.wants, table)
        self._found: dict[int, Allocation] = {}
        self._cards: Bools = np.zeros((0, 0), np.bool_)
        self._why: Ints = np.zeros(0, np.int64)
        self._open: Bools = np.zeros(0, np.bool_)

    def refresh(self) -> None:
        """Work out again what changed since the last time."""
        table = self._table
        basis = (self._strategy.version, table.kinds.version)
        if self._basis != basis:
            self._basis, self._version = basis, -1
            self._asks = asks_of(self._shape, table.kinds.cards)
        if self._version == table.version:
            return
        self._grow()
        count = len(table)
        for row in np.flatnonzero(table.relabelled[:count] > self._labels):
            self._open[row] = self._admitted(table.rooms[row])
        rows = np.flatnonzero(table.changed[:count] > self._version)
        self._version = self._labels = table.version
        if len(rows):
            self._work_out(rows)

    def best(self, order: Ints) -> int | None:
        """The row with the lowest score, the first in `order` among equals."""
        score = self.score[: len(self._table)]
        if not len(score):
            return None
        lowest = score.min()
        if lowest == np.inf:
            return None
        rows = np.flatnonzero(score == lowest)
        return int(rows[order[rows].argmin()])

    def allocation(self, row: int) -> Allocation:
        """The cards chosen on a host."""
        if row in self._found:
            return self._found[row]
        use = self._table.uses[row]
        assert use is not None
        chosen = np.flatnonzero(self._cards[row])
        cards = [use.host.cards[column] for column in chosen]
        return tuple(
            tuple(
                Grant(
                    card.uuid,
                    card.vendor,
                    card.share(wants.memory_mib, wants.percent) or 0,
                    min(wants.cores, 100),
                )
                for wants in container.cards
                for card in cards
            )
            for container in self._shape.wants.containers
        )

    def admitting(self) -> Ints:
        """The rows that are open to the pod, whether it fits or not."""
        return np.flatnonzero(self._why[: len(self._table)] != CLOSED)

    def no_place(self) -> NoPlace:
        """Why there is none."""
        why = self._why[: len(self._table)]
        counts = [int((why == reason).sum()) for reason in (CLOSED, ROOM, CARDS)]
        gone = sum(use is None for use in self._table.uses)
        return NoPlace(self._shape, 0, counts[0] - gone, counts[1], counts[2])

    def _admitted(self, room: Room) -> bool:
        if self._shape.node_selector or self._shape.affinity:
            return self._shape.admitted_by(room)
        key = (room.ready, room.taints)  # few hosts differ in these
        if key not in self._admits:
            self._admits[key] = self._shape.admitted_by(room)
        return self._admits[key]

    def _grow(self) -> None:
        hosts, cards = len(self._table.changed), self._table.width
        old = self._cards.shape
        if old == (hosts, cards):
            return
        more = hosts - old[0]
        self.score = np.pad(self.score, (0, more), constant_values=np.inf)
        self._why = np.pad(self._why, (0, more), constant_values=CLOSED)
        self._open = np.pad(self._open, (0, more))
        self._cards = np.pad(self._cards, ((0, more), (0, cards - old[1])))

    def _work_out(self, rows: Ints) -> None:
        self.score[rows] = np.inf
        if self._found:
            for row in rows:
                self._found.pop(int(row), None)
        is_open = self._open[rows]
        self._why[rows] = np.where(is_open, ROOM, CLOSED)
        rows = rows[is_open]
        rows = rows[self._table.has_room(rows, self._shape.requests)]
        if not len(rows):
            return
        self._why[rows] = CARDS
        view = self._table.view(rows)
        if not self._asks:
            spent = np.zeros(view.used.shape, np.int64)
            self._keep(view, self._strategy.score(view, self._shape.cpu_milli, spent))
            return
        fits = [ask.fits(view) for ask in self._asks]
        may = np.ones(len(rows), np.bool_)
        for ask, fit in zip(self._asks, fits, strict=True):
            may &= ask.may_fit(view, fit)
        plain = may if self._plain else np.zeros(len(rows), np.bool_)
        plain = plain & ~(fits[0] & self._asks[0].cut[view.kind]).any(axis=1)
        self._plainly(view.of(plain), fits[0][plain])
        self._exactly(view.of(may & ~plain))

    def _plainly(self, view: View, fits: Bools) -> None:
        """The strategy chooses the cards, on all hosts at once."""
        if len(view.rows):
            choice = self._strategy.choose(view, self._asks[0], self._shape.cpu_milli, fits)
            self._keep(view, choice.score)
            self._cards[view.rows] = choice.cards

    def _exactly(self, view: View) -> None:
        """A search chooses the cards host by host, the strategy scores what it found."""
        found = {int(row): self._exact.find(int(row)) for row in view.rows}
        here = view.of(np.array([found[int(row)] is not None for row in view.rows], np.bool_))
        if not len(here.rows):
            return
        spent = []
        for row in here.rows:
            allocation = self._found[int(row)] = found[int(row)] or ()
            spent.append(self._exact.spent(int(row), allocation))
        score = self._strategy.score(here, self._shape.cpu_milli, np.stack(spent, axis=1))
        self._keep(here, score)

    def _keep(self, view: View, score: Floats) -> None:
        self.score[view.rows] = score
        self._why[view.rows] = OK
