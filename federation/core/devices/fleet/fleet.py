"""All hosts with what is free of them, indexed so that a pod finds its place at once.

Per shape the score and the cards on every host are kept; a question works out again only the
hosts that changed since it was last asked. Nothing is rebuilt per decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.answers import Answers
from federation.core.devices.fleet.ask import is_sort
from federation.core.devices.fleet.gang import place_gang
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.strategies.named import wished
from federation.core.devices.fleet.table import MEMORY, Table
from federation.core.devices.fleet.types import NoPlace, Placement, Room, Shape
from federation.core.devices.fleet.use import less, more

_SHAPES_KEPT = 512


class Fleet:
    """See the module. Hosts are known by name; a host counts as it was last `put`, and with what
    was taken since. Fleets whose scores are compared share strategy and kinds.
    """

    def __init__(self, strategy: Strategy, kinds: Kinds | None = None) -> None:
        self._strategy = strategy
        self._table = Table(Kinds() if kinds is None else kinds)
        self._answers: dict[tuple[Shape, Strategy], Answers] = {}

    def put(self, name: str, use: HostUse, room: Room) -> None:
        """Add a host, or say how it is now."""
        self._table.put(name, use, room)

    def drop(self, name: str) -> None:
        """Forget a host; unknown ones are ignored."""
        self._table.drop(name)

    def use(self, name: str) -> HostUse | None:
        """The host with what is used of its cards, as it is counted here."""
        row = self._table.row_of.get(name)
        return None if row is None else self._table.uses[row]

    def place(self, shape: Shape, strategy: Strategy | None = None) -> Placement | NoPlace:
        """The best place for a pod; equal ones by name of the host. Changes nothing.

        The strategy is the pod's own if it asks for one by annotation, else the one given, else
        that of the fleet.
        """
        answers = self._asked(shape, strategy or self._strategy)
        row = answers.best(self._table.order)
        if row is None:
            return answers.no_place()
        return Placement(
            shape, self._table.names[row], answers.allocation(row), float(answers.score[row])
        )

    def take(self, placement: Placement) -> None:
        """Count the pod as placed. KeyError if the host is gone."""
        self._change(placement, 1)

    def give_back(self, placement: Placement) -> None:
        """The opposite of `take`. KeyError if the host is gone."""
        self._change(placement, -1)

    def place_gang(self, pods: Sequence[tuple[Shape, int]]) -> list[Placement] | NoPlace:
        """Places for so many pods of each shape, all or none. Changes nothing."""
        return place_gang(self, pods)

    def freest(self, shape: Shape, count: int) -> list[HostUse]:
        """Hosts with the most memory free on one card of the sort that is asked for, among those
        open to the pod: the first `count` of them. Whether it fits is not asked.
        """
        table = self._table
        rows = self._asked(shape, self._strategy).admitting()
        sort = np.array([*(is_sort(kind, shape.wants) for kind in table.kinds.cards), False])
        if not len(rows) or not sort.any():
            return []
        view = table.view(rows)
        fit = sort[view.kind] & view.open
        free = np.where(fit, view.total[MEMORY] - view.used[MEMORY], -1).max(axis=1)
        best = np.lexsort((table.order[rows], -free))[:count]
        return [use for at in best if free[at] >= 0 and (use := table.uses[rows[at]])]

    def _asked(self, shape: Shape, strategy: Strategy) -> Answers:
        strategy = wished(shape.wants.wishes.node_policy, strategy)
        key = (shape, strategy)
        answers = self._answers.pop(key, None)
        if answers is None:
            if len(self._answers) >= _SHAPES_KEPT:
                del self._answers[next(iter(self._answers))]
            answers = Answers(shape, self._table, strategy)
        self._answers[key] = answers  # the last asked is the last to go
        answers.refresh()
        return answers

    def _change(self, placement: Placement, sign: int) -> None:
        row = self._table.row_of[placement.host]
        use = self._table.uses[row]
        assert use is not None
        change = more if sign > 0 else less
        use, uuids = change(use, placement.shape.wants, placement.allocation)
        taken = [(name, sign * amount) for name, amount in placement.shape.requests]
        self._table.change(row, use, uuids, taken)
