"""Fragmentation gradient descent, as published.

Where the expected fragments grow least. The score is a whole number of 0..100 and equals go by
name: near-ties must fall on the same hosts, the plain minimum packs three points worse
(spec of packing, section 2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from federation.core.devices.cards import Card
from federation.core.devices.fleet_ask import Ask
from federation.core.devices.fleet_table import Bools, Floats, Ints, View
from federation.core.devices.fragmentation import MILLI, Cards, Fragments
from federation.core.devices.mix import Mix
from federation.core.devices.strategies.base import Choice, lowest

LEVELS = 100
_NOISE = 1e-9
"""Sums of floats that should be equal must not fall on two sides of a level."""


class Fgd:
    """See the module. Sharing pods try each card, others take the first that are free."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        self._key: tuple[int, int] | None = None
        self._fragments = Fragments((), ())

    @property
    def version(self) -> int:
        """That of the mix."""
        return self._mix.version

    def choose(self, view: View, ask: Ask, cpu: int, fits: Bools) -> Choice:
        """As `Strategy.choose`."""
        if ask.cards != 1:
            cards = lowest(np.zeros(fits.shape), fits, ask.cards)
            return Choice(self.score(view, cpu, ask.spend(view, cards)), cards)
        each = np.ones(fits.shape, np.bool_)
        before, after = Cards.of(view), Cards.of(view, ask.spend(view, each))
        now, then = self.fragments(view.kinds).usable_after_each(
            view, before, after, view.cpu, view.cpu - cpu
        )
        grown = now[:, None] - then - (before.share - after.share)
        keys = np.where(fits, -level(-grown), 0.0)
        cards = lowest(keys, fits, 1)
        return Choice(keys.min(axis=1, initial=0.0), cards)

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`."""
        before, after = Cards.of(view), Cards.of(view, spent)
        fragments = self.fragments(view.kinds)
        now = fragments.usable(view, before, view.cpu)
        then = fragments.usable(view, after, view.cpu - cpu)
        return -level(then - now + (before.share - after.share).sum(axis=1))

    def fragments(self, kinds: Sequence[Card]) -> Fragments:
        """The usual pods, worked out again when they or the kinds of cards changed."""
        key = (self._mix.version, len(kinds))
        if self._key != key:
            self._key, self._fragments = key, Fragments(self._mix.usual, kinds)
        return self._fragments


def level(fewer: Floats, levels: int = LEVELS) -> Floats:
    """Fragments gone (thousandths of a card) as a whole number of levels, more is better."""
    return np.floor(levels / (1.0 + np.exp(-fewer / MILLI)) + _NOISE)
