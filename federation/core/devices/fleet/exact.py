"""The exact search on single hosts for one shape; hosts in the same state share what was found."""

from __future__ import annotations

import numpy as np

from federation.core.devices.cards import Allocation, HostUse
from federation.core.devices.fleet.table import Ints, Table
from federation.core.devices.host.fit import find
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.ledger.charge import charge
from federation.core.devices.wants import PodWants

_STATES_KEPT = 4096


class Exact:
    """What `find` says of the hosts of a table, by row."""

    def __init__(self, wants: PodWants, table: Table) -> None:
        self._wants = wants
        self._table = table
        self._named = wants.wishes.use_uuids is not None or bool(wants.wishes.avoid_uuids)
        self._found: dict[object, tuple[HostUse, Allocation] | None] = {}

    def find(self, row: int) -> Allocation | None:
        """Cards on this host, or None."""
        use = self._table.uses[row]
        assert use is not None
        if self._named:  # what differs between two hosts may be the very UUIDs
            return _find(use, self._wants)
        state = self._table.likeness(row)
        if state not in self._found:
            if len(self._found) >= _STATES_KEPT:
                self._found.clear()
            found = _find(use, self._wants)
            self._found[state] = None if found is None else (use, found)
        known = self._found[state]
        return known and _translated(known[1], known[0], use)

    def spent(self, row: int, allocation: Allocation) -> Ints:
        """What the pod would take of each card [3, cards]."""
        use = self._table.uses[row]
        assert use is not None
        charged = charge([c.role for c in self._wants.containers], allocation)
        spent = np.zeros((3, self._table.width), np.int64)
        for column, card in enumerate(use.host.cards):
            if card.uuid in charged:
                spent[:, column] = charged[card.uuid]
        return spent


def _find(use: HostUse, wants: PodWants) -> Allocation | None:
    found = find(use, wants)
    return None if isinstance(found, Misfit) else found


def _translated(allocation: Allocation, source: HostUse, target: HostUse) -> Allocation:
    """The same cards by number on another host."""
    if source.host is target.host:
        return allocation
    uuids = {a.uuid: b.uuid for a, b in zip(source.host.cards, target.host.cards, strict=True)}
    return tuple(
        tuple(grant._replace(uuid=uuids[grant.uuid]) for grant in grants) for grants in allocation
    )
