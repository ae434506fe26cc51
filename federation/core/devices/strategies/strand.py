"""Fragmentation gradient, with a price on what a placement strands.

Beside the fragments that the usual pods see (here: whatever models they ask for) a host is worth
less by the cards that its free CPU cannot feed, at the rate of the mix, and by rests of cards too
small for nearly anyone. What is taken of a model costs by how scarce it is. Nothing of it is
fitted to a fleet: rates, slivers and scarcity come from the mix (`prices`).
"""

from __future__ import annotations

import numpy as np

from federation.core.devices.fleet_kinds import Kinds
from federation.core.devices.fleet_table import Floats, Ints, View
from federation.core.devices.fragmentation import Cards
from federation.core.devices.mix import Mix, Usual
from federation.core.devices.strategies.fgd import LEVELS, Fgd, level
from federation.core.devices.strategies.prices import Prices, prices_of

STARVING, SLIVERS, SCARCITY = 1.5, 3.0, 0.5
"""Charges per thousandth of a card; flat optima over the published lists."""


class Strand(Fgd):
    """See the module."""

    def __init__(self, mix: Mix) -> None:
        super().__init__(mix)
        self._prices_of: tuple[int, int] | None = None
        self._prices = Prices(float("inf"), 0.0, np.zeros(1))

    def usual(self) -> Usual:
        """Without the models they ask for."""
        return tuple(
            (seen._replace(use_models=(), avoid_models=()), weight)
            for seen, weight in self.mix.usual
            if seen.wants
        )

    def each(self, view: View, cpu: int, gone: Floats, before: Cards, after: Cards) -> Floats:
        """As `Fgd.each`."""
        free = before.share.sum(axis=1)[:, None]
        left = free - before.share + after.share
        starving = self._starving(view.kinds, left, free, view.cpu[:, None], cpu)
        return -level(gone - starving - self._charges(view, before, after), LEVELS)

    def whole(self, view: View, cpu: int, gone: Floats, before: Cards, after: Cards) -> Floats:
        """As `Fgd.whole`."""
        free, left = before.share.sum(axis=1), after.share.sum(axis=1)
        starving = self._starving(view.kinds, left, free, view.cpu, cpu)
        charges = self._charges(view, before, after).sum(axis=1)
        return -level(gone - starving - charges, LEVELS)

    def prices(self, kinds: Kinds) -> Prices:
        """Worked out again when the mix or the cards that there are changed."""
        key = (self.mix.version, kinds.version)
        if self._prices_of != key:
            self._prices_of, self._prices = key, prices_of(self.mix.all, kinds)
        return self._prices

    def _starving(self, kinds: Kinds, left: Floats, free: Floats, cpu: Ints, less: int) -> Floats:
        """The charge for cards that lose the CPU to feed them."""
        rate = self.prices(kinds).milli_per_cpu
        if rate == float("inf"):
            return np.zeros(left.shape)
        after = np.maximum(left - (cpu - less) * rate, 0.0)
        return np.asarray(STARVING * (after - np.maximum(free - cpu * rate, 0.0)))

    def _charges(self, view: View, before: Cards, after: Cards) -> Floats:
        """For the slivers that come, and for what is taken of scarce kinds [h, cards]."""
        prices = self.prices(view.kinds)
        rests = [np.where(c.share < prices.sliver, c.share, 0.0) for c in (after, before)]
        taken = (before.share - after.share) * prices.scarcity[view.kind]
        return np.asarray(SLIVERS * (rests[0] - rests[1]) + SCARCITY * taken)
