"""Fragmentation gradient descent, as published.

Where the expected fragments grow least. The score is a whole number of 0..100 and equals go by
name: near-ties must fall on the same hosts, the plain minimum packs three points worse
(spec of packing, section 2).
"""

from __future__ import annotations

import numpy as np

from federation.core.devices.fleet.ask import Ask
from federation.core.devices.fleet.fragmentation import MILLI, Cards, Fragments
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.base import Choice, lowest
from federation.core.devices.fleet.strategies.fgd_sums import Sums
from federation.core.devices.fleet.table import Bools, Floats, Ints, View

LEVELS = 100


class Fgd:
    """See the module. One card is tried each, of several the first that are free are taken."""

    def __init__(self, mix: Mix) -> None:
        self.mix = mix
        self._key: tuple[int, int] | None = None
        self._fragments = Fragments((), ())
        self._sums = Sums((), ())

    @property
    def version(self) -> int:
        """That of the mix."""
        return self.mix.version

    def choose(self, view: View, ask: Ask, cpu: int, fits: Bools) -> Choice:
        """As `Strategy.choose`."""
        if ask.cards != 1:
            cards = lowest(np.zeros(fits.shape), fits, ask.cards)
            return Choice(self.score(view, cpu, ask.spend(view, cards)), cards)
        before = Cards.of(view)
        after = Cards.of(view, ask.spend(view, np.ones(fits.shape, np.bool_)))
        now, then = self.fragments(view.kinds).usable_after_each(
            view, before, after, view.cpu, view.cpu - cpu
        )
        gone = before.share - after.share - (now[:, None] - then)
        keys = -level(gone)
        cards = lowest(keys, fits, 1)
        return Choice(keys.min(axis=1, where=fits, initial=np.inf), cards)

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`."""
        before, after = Cards.of(view), Cards.of(view, spent)
        fragments = self.fragments(view.kinds)
        lost = fragments.usable(view, before, view.cpu) - fragments.usable(
            view, after, view.cpu - cpu
        )
        gone = (before.share - after.share).sum(axis=1) - lost
        if not spent.any():
            self._round(view, cpu, gone)
        return -level(gone)

    def _round(self, view: View, cpu: int, gone: Floats) -> None:
        """Where nothing changed, take what the published sums make of it."""
        same = np.flatnonzero(gone == 0)
        if len(same) and self.mix.usual and view.kind.shape[1]:
            here = view.of(same)
            before = self._sums.fragments(here, here.cpu)
            gone[same] = before - self._sums.fragments(here, here.cpu - cpu)

    def fragments(self, kinds: Kinds) -> Fragments:
        """The usual pods, worked out again when they or the kinds of cards changed."""
        key = (self.mix.version, len(kinds))
        if self._key != key:
            self._key, self._fragments = key, Fragments(self.mix.usual, kinds.cards)
            self._sums = Sums(self.mix.usual, kinds.cards)
        return self._fragments


def level(fewer: Floats) -> Floats:
    """Fragments gone (thousandths of a card) as a whole number of levels, more is better."""
    return np.asarray(np.floor(LEVELS / (1.0 + np.exp(-fewer / MILLI))))
