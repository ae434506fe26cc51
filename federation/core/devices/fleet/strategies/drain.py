"""Keeps idle cards and idle hosts together: what is in use is filled first (spec of HAMi, 9).

Hosts: not an empty one; fewest idle cards; fewest idle cards taken into use; least left over on
the cards chosen. For pods that need whole cards: the smallest card that will do, then the host
that is left with the fewest idle cards.
"""

from __future__ import annotations

import numpy as np

from federation.core.devices.fleet.ask import Ask
from federation.core.devices.fleet.strategies.base import ByCard
from federation.core.devices.fleet.table import CORES, MEMORY, SLOTS, Bools, Floats, Ints, View
from federation.core.devices.wants import FULL

CORE_WEIGHT = 0.3
"""How much compute counts that is left without memory beside it."""
_IN_USE_FIRST = 1e3
_STEP = 1e3
"""One step of a criterion outweighs all that come after it: cards of a host are fewer."""


class Drain(ByCard):
    """See the module."""

    def keys(self, view: View, ask: Ask, cpu: int) -> Floats:
        """Cards in use first, then the one with the least left over."""
        each = np.ones(view.kind.shape, np.bool_)
        idle = view.used[SLOTS] == 0
        return np.asarray(left_over(view, ask.spend(view, each)) + _IN_USE_FIRST * idle)

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`."""
        there = view.kind >= 0
        idle = there & (view.used[SLOTS] == 0)
        taken = spent[SLOTS] > 0
        count, opened = idle.sum(axis=1), (idle & taken).sum(axis=1)
        left = np.where(taken, left_over(view, spent), 0.0).sum(axis=1)
        empty = (count == there.sum(axis=1)) & (count > 0)
        shared = ((empty * _STEP + count) * _STEP + opened) * _STEP + left
        whole = (spent[MEMORY].sum(axis=1) * _STEP + count - opened) * 1.0
        return np.asarray(np.where(_is_whole(view, spent, taken), whole, shared))


def left_over(view: View, spent: Ints) -> Floats:
    """Memory left as a share of the card, and compute left beyond that [h, cards]."""
    left = (view.total - view.used - spent) / np.maximum(view.total, 1)
    return np.asarray(left[MEMORY] + CORE_WEIGHT * np.maximum(left[CORES] - left[MEMORY], 0.0))


def _is_whole(view: View, spent: Ints, taken: Bools) -> Bools:
    """Whether all that is taken are whole cards [h]."""
    whole = (spent[MEMORY] >= view.total[MEMORY]) | (spent[CORES] >= FULL)
    return np.asarray((whole | ~taken).all(axis=1) & taken.any(axis=1))
