"""The cards with the most room first: what leaves most places for further pods of the shape.

For pods that take a part of several different cards each. A gang of these may have no place with
cards taken the tightest first (two of the sizes 2, 1, 1: the pair 1, 1 leaves no second pair), and
has one this way whenever there is one.
"""

from __future__ import annotations

import numpy as np

from federation.core.devices.fleet.ask import Ask
from federation.core.devices.fleet.strategies.base import ByCard
from federation.core.devices.fleet.table import CORES, MEMORY, SLOTS, Floats, Ints, View

_MANY = 1 << 40


class Roomy(ByCard):
    """See the module. Hosts go by what they have in use, the fullest first."""

    def keys(self, view: View, ask: Ask, cpu: int) -> Floats:
        """Minus how many more containers of this shape the card could take."""
        free = view.total - view.used
        each = ask.spend(view, np.ones(view.kind.shape, np.bool_))
        times = np.where(each > 0, free // np.maximum(each, 1), _MANY)
        return np.asarray(
            -np.minimum(np.minimum(times[SLOTS], times[MEMORY]), times[CORES]), np.float64
        )

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`."""
        return np.asarray(-view.used[MEMORY].sum(axis=1), np.float64)
