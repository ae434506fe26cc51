"""The default: fragmentation gradient, with a price on what a placement strands.

Beside the fragments that the usual pods see (here: whatever models they ask for) a host is worth
less by the cards that its free CPU cannot feed, and by rests of cards too small for anyone. What
is taken of a model counts by how scarce it is: how much of the usual demand can go to few models
only, over what there is of these.
"""

from __future__ import annotations

import numpy as np

from federation.core.devices.fleet_ask import asks_of
from federation.core.devices.fleet_kinds import Kinds
from federation.core.devices.fleet_table import Floats, Ints, View
from federation.core.devices.fragmentation import MILLI, Cards, shape_of
from federation.core.devices.mix import Mix, Usual
from federation.core.devices.strategies.fgd import Fgd, level

LEVELS = 100
CPU_PER_CARD = 10_000
"""Milli-units that a card is taken to need."""
CPU_CHARGE = 2.0
SLIVER = 200.0
"""Thousandths of a card below which a rest is of no use."""
SCARCITY_CHARGE = 0.5


class Strand(Fgd):
    """See the module."""

    def __init__(self, mix: Mix) -> None:
        super().__init__(mix)
        self._scarce_key: tuple[int, int] | None = None
        self._scarce: Floats = np.zeros(1)

    def usual(self) -> Usual:
        """Without the models they ask for."""
        return tuple(
            (seen._replace(use_models=(), avoid_models=()), w) for seen, w in self.mix.usual
        )

    def each(self, view: View, cpu: int, gone: Floats, before: Cards, after: Cards) -> Floats:
        """As `Fgd.each`."""
        free = before.share.sum(axis=1)[:, None]
        left = free - before.share + after.share
        value = gone - _starving(left, free, view.cpu[:, None], cpu) - _slivers(before, after)
        return -level(value - self._price(view, before, after), LEVELS)

    def whole(self, view: View, cpu: int, gone: Floats, before: Cards, after: Cards) -> Floats:
        """As `Fgd.whole`."""
        free, left = before.share.sum(axis=1), after.share.sum(axis=1)
        value = gone - _starving(left, free, view.cpu, cpu)
        charges = _slivers(before, after) + self._price(view, before, after)
        return -level(value - charges.sum(axis=1), LEVELS)

    def _price(self, view: View, before: Cards, after: Cards) -> Floats:
        """What is taken of each card, weighed by how scarce its kind is [h, cards]."""
        key = (self.mix.version, view.kinds.version)
        if self._scarce_key != key:
            self._scarce_key, self._scarce = key, scarcity(self.mix.all, view.kinds)
        return SCARCITY_CHARGE * (before.share - after.share) * self._scarce[view.kind]


def scarcity(demand: Usual, kinds: Kinds) -> Floats:
    """For each kind, and for a card that is not there: the part of all demand for cards that can
    go to some kinds of its vendor only and would come to it if spread evenly over these, divided
    by its part of all cards.
    """
    supply = np.array([*kinds.supply, 0], np.float64)
    bound, total = np.zeros(len(supply)), 0.0
    for seen, weight in demand:
        for ask in asks_of(shape_of(seen), kinds.cards):
            capacity = np.where(ask.allowed, supply, 0.0)
            if not capacity.any():
                continue
            asked = weight * ask.cards * float((ask.share * capacity).sum() / capacity.sum())
            total += asked
            vendor = np.array([*(c.vendor == ask.vendor for c in kinds.cards), False])
            if (supply[vendor & ~ask.allowed] > 0).any():
                bound += asked * capacity / capacity.sum()
    part = supply / max(supply.sum(), 1.0)
    share = bound / max(total, 1e-12)
    return np.asarray(np.divide(share, part, out=np.zeros(len(supply)), where=part > 0))


def _starving(left: Floats, free: Floats, cpu: Ints, requested: int) -> Floats:
    """The charge for cards that lose the CPU to feed them."""
    fed = MILLI / CPU_PER_CARD
    after = np.maximum(left - (cpu - requested) * fed, 0.0)
    return np.asarray(CPU_CHARGE * (after - np.maximum(free - cpu * fed, 0.0)))


def _slivers(before: Cards, after: Cards) -> Floats:
    """By how much each card's rest of no use grows [h, cards]."""
    return _rest(after.share) - _rest(before.share)


def _rest(share: Floats) -> Floats:
    return np.where(share < SLIVER, share, 0.0)
