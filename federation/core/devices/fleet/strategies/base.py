"""What every strategy is: which cards of a host, and how good the host is with these."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from federation.core.devices.fleet.ask import Ask
from federation.core.devices.fleet.table import Bools, Floats, Ints, View


class Choice(NamedTuple):
    """For each host its score, lower is better [h], and the cards chosen [h, cards]. Where too few
    cards fit both mean nothing.
    """

    score: Floats
    cards: Bools


class Strategy(Protocol):
    """Scores depend on the host and what is asked only, so that those of different fleets compare.

    They hold while `version` stays the same.
    """

    @property
    def version(self) -> int:
        """Grows when the same question may have another answer."""

    def choose(self, view: View, ask: Ask, cpu: int, fits: Bools) -> Choice:
        """Choose `ask.cards` of the cards that fit for a pod that requests `cpu` (milli-units)."""

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """How good each host is if the pod takes what is `spent` [3, h, cards]."""


class ByCard:
    """A strategy that takes cards one by one, by a key of each."""

    @property
    def version(self) -> int:
        """Nothing to know that could change."""
        return 0

    def choose(self, view: View, ask: Ask, cpu: int, fits: Bools) -> Choice:
        """The cards with the lowest keys."""
        cards = lowest(self.keys(view, ask, cpu), fits, ask.cards)
        return Choice(self.score(view, cpu, ask.spend(view, cards)), cards)

    def keys(self, view: View, ask: Ask, cpu: int) -> Floats:
        """How good each card is [h, cards]; the lowest are taken, equals by index."""
        raise NotImplementedError

    def score(self, view: View, cpu: int, spent: Ints) -> Floats:
        """As `Strategy.score`."""
        raise NotImplementedError


def lowest(keys: Floats, fits: Bools, count: int) -> Bools:
    """The `count` cards with the lowest keys among those that fit, equals by index."""
    ordered = np.where(fits, keys, np.inf)
    cards = np.zeros(fits.shape, np.bool_)
    if not fits.shape[1]:
        return cards
    if count == 1:
        best = ordered.argmin(axis=1)[:, None]
    else:
        best = np.argsort(ordered, axis=1, kind="stable")[:, :count]
    np.put_along_axis(cards, best, True, axis=1)
    return cards & fits
