"""The default: spends what the pods that usually come will miss least.

The cost of a placement, in thousandths of a card of mean size: what of the host the usual pods
could use before and cannot after (the fragmentation gradient, whatever models they ask for); the
cards that its CPU cannot feed any more, at the rate of the mix; rests of cards too small for
nearly anyone; what is taken of a scarce model; each idle card that is opened; and, so that hosts
drain for pods with several cards if the mix has many, each card that was idle on the host.

Near-ties must fall on the same hosts, hence whole steps of cost; equals go to hosts that are not
empty, then to those with the fewest idle cards, then by name. Within a host cards in use are
filled first, the fullest first. The mix sets every rate (`prices`); the charges are flat optima
over the published lists and over pods that come and go (docs/performance/packing.md).
"""

from __future__ import annotations

import numpy as np

from federation.core.devices.fleet.ask import Ask
from federation.core.devices.fleet.fragmentation import Cards, Fragments
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.base import ByCard
from federation.core.devices.fleet.strategies.drain import left_over
from federation.core.devices.fleet.strategies.prices import Prices, prices_of
from federation.core.devices.fleet.table import SLOTS, Bools, Floats, Ints, View

STARVING, SLIVERS, SCARCITY = 1.5, 4.0, 0.5
"""Per thousandth of a card."""
OPENED = 400.0
DRAINING = 750.0
"""Per idle card of the host, times the square of the part of demand for several cards."""
STEP = 50.0
_IDLE_LAST = 1e3
_NOISE = 1e-6


class Thrift(ByCard):
    """See the module."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        self._key: tuple[int, int] | None = None
        self._fragments = Fragments((), ())
        self._prices = prices_of((), Kinds())

    @property
    def version(self) -> int:
        """That of the mix."""
        return self._mix.version

    def keys(self, view: View, ask: Ask, cpu: int) -> Floats:
        """Idle cards last, then the fullest first."""
        full = (view.used / np.maximum(view.total, 1)).sum(axis=0)
        return np.asarray(_IDLE_LAST * (view.used[SLOTS] == 0) - full)

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`: the cost, in whole steps."""
        prices = self.prices(view.kinds)
        size = prices.size[view.kind]
        before, after = Cards.of(view).sized(size), Cards.of(view, spent).sized(size)
        usable = self._fragments.usable
        cost = usable(view, before, view.cpu) - usable(view, after, view.cpu - cpu)
        cost += STARVING * (
            prices.starving(after.share.sum(axis=1), view.cpu - cpu)
            - prices.starving(before.share.sum(axis=1), view.cpu)
        )
        cost += SLIVERS * (prices.slivers(after.share) - prices.slivers(before.share))
        taken = (before.share - after.share) * prices.scarcity[view.kind]
        cost += SCARCITY * taken.sum(axis=1)
        there, idle = view.kind >= 0, view.open & (view.used[SLOTS] == 0)
        count, takes = idle.sum(axis=1), spent[SLOTS] > 0
        opened = (idle & takes & (after.share > 0)).sum(axis=1)
        whole = OPENED * opened + DRAINING * prices.several**2 * count
        cost += np.where(takes.any(axis=1), whole, 0.0)
        ties = _ties((count > 0) & (count == there.sum(axis=1)), count, view, spent)
        return np.asarray(STEP * (np.ceil(cost / STEP - _NOISE) + ties))

    def prices(self, kinds: Kinds) -> Prices:
        """Worked out again when the mix or the cards that there are changed."""
        key = (self._mix.version, kinds.version)
        if self._key != key:
            self._key = key
            self._prices = prices_of(self._mix.all, kinds)
            usual = tuple(
                (seen._replace(use_models=(), avoid_models=()), weight)
                for seen, weight in self._mix.usual
                if seen.wants
            )
            self._fragments = Fragments(usual, kinds.cards)
        return self._prices


def _ties(empty: Bools, idle: Ints, view: View, spent: Ints) -> Floats:
    """What tells apart hosts of equal cost, below one: empty, idle cards, what is left over."""
    left = np.where(spent[SLOTS] > 0, left_over(view, spent), 0.0).sum(axis=1)
    return np.asarray(empty / 2 + np.minimum(idle, 63) / 128 + np.minimum(left, 15) / 2048)
