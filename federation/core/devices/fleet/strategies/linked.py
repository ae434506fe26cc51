"""Topology-aware: several cards that are best connected, one card that others will miss least.

By the pair scores that device plugins report; where there are none, by NUMA node. Hosts with
equally good sets are told apart by another strategy, which also scores pods without cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from federation.core.devices.cards import Host
from federation.core.devices.fleet.ask import Ask
from federation.core.devices.fleet.strategies.base import Choice, Strategy
from federation.core.devices.fleet.table import Bools, Floats, Ints, View
from federation.core.devices.host.pairs import best_set, pair_sum

_STEP = 1e6


class Linked:
    """See the module."""

    def __init__(self, otherwise: Strategy) -> None:
        self._otherwise = otherwise

    @property
    def version(self) -> int:
        """That of the other strategy."""
        return self._otherwise.version

    def choose(self, view: View, ask: Ask, cpu: int, fits: Bools) -> Choice:
        """As `Strategy.choose`."""
        cards = np.zeros(fits.shape, np.bool_)
        for position, row in enumerate(view.rows):
            use = view.uses[row]
            assert use is not None
            host, free = use.host, [int(n) for n in np.flatnonzero(fits[position])]
            if len(free) >= ask.cards:
                cards[position, _chosen(host, free, ask.cards)] = True
        return Choice(self.score(view, cpu, ask.spend(view, cards)), cards)

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`: first the mean pair score, highest first."""
        worth = np.zeros(len(view.rows))
        for position, row in enumerate(view.rows):
            use = view.uses[row]
            assert use is not None
            taken = [int(n) for n in np.flatnonzero(spent[0, position])]
            worth[position] = _worth(use.host, taken)
        return np.asarray(self._otherwise.score(view, cpu, spent) - _STEP * worth)


def _chosen(host: Host, free: Sequence[int], wanted: int) -> list[int]:
    if wanted == 1:
        return [min(free, key=lambda number: pair_sum(host, number))]
    return best_set(host, free, wanted, 0, len(free))[:wanted]


def _worth(host: Host, taken: Sequence[int]) -> float:
    """The mean score of the pairs taken; of a single card the links it leaves unused, negative."""
    if len(taken) == 1:
        return -float(pair_sum(host, taken[0]))
    pairs = list(combinations([host.cards[number] for number in taken], 2))
    if host.links:
        total = sum(host.links.get((a.uuid, b.uuid), 0) for a, b in pairs)
    else:
        total = sum(a.numa == b.numa for a, b in pairs)
    return total / max(len(pairs), 1)
