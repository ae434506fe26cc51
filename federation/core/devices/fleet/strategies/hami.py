"""HAMi's scores of nodes and cards: binpack and spread (spec of HAMi, section 2.3).

A node counts by what is used of all its cards before the pod comes, a card likewise; the chart's
default is nodes by binpack and cards by spread. HAMi breaks ties at random, here they go by name.
"""

from __future__ import annotations

import numpy as np

from federation.core.devices.fleet.ask import Ask
from federation.core.devices.fleet.strategies.base import ByCard
from federation.core.devices.fleet.table import Floats, Ints, View

_SCALE = 10.0
_NUMA = 1e-9
"""Of equal cards those of the higher NUMA node come first."""


class Hami(ByCard):
    """Nodes and cards each the fullest first, or the emptiest with `spread`."""

    def __init__(self, *, spread_nodes: bool = False, spread_cards: bool = False) -> None:
        self._node = _SCALE if spread_nodes else -_SCALE
        self._card = _SCALE if spread_cards else -_SCALE

    def keys(self, view: View, ask: Ask, cpu: int) -> Floats:
        """As `ByCard.keys`."""
        used = (view.used / np.maximum(view.total, 1)).sum(axis=0)
        return np.asarray(self._card * used - _NUMA * view.numa)

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`; what is spent does not enter."""
        ratios = view.used.sum(axis=2) / np.maximum(view.total.sum(axis=2), 1)
        return np.asarray(self._node * ratios.sum(axis=0))
