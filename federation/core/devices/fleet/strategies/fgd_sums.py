"""Expected fragments summed in the order of the published code, to the last bit.

A pod without cards often changes nothing but the class in which a usual pod is counted (it lacks
cards, or cards and CPU). The fragments are the same then, the rounded sums are not always, and the
score is truncated to a whole number just there: 50, or 49 by the last bit. Whoever wants to arrive
at the published results has to round likewise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from federation.core.devices.cards import Card
from federation.core.devices.fleet.ask import asks_of
from federation.core.devices.fleet.fragmentation import Cards, shape_of
from federation.core.devices.fleet.mix import Usual
from federation.core.devices.fleet.table import Floats, Ints, View

_LACKS_BOTH, _FED, _LACKS_CPU, _NONE_ASKED, _NONE_NOR_CPU, _NO_ACCESS = range(6)
"""Classes of usual pods on a host, in the order of summing; those that fit are among the fed."""


class Sums:
    """The usual pods [t] against the kinds of cards. Cards of one host are of one kind."""

    def __init__(self, usual: Usual, kinds: Sequence[Card]) -> None:
        asks = [asks_of(shape_of(seen), kinds) for seen, _ in usual]
        none = np.zeros(len(kinds) + 1, np.int64)
        self._memory = np.array([one[0].memory if one else none for one in asks]).T
        self._allowed = np.array([one[0].allowed if one else none > 0 for one in asks]).T
        self._cards = np.array([one[0].cards if one else 0 for one in asks])
        self._cpu = np.array([seen.cpu_milli for seen, _ in usual])
        self._weights = np.array([weight for _, weight in usual])

    def fragments(self, view: View, cpu: Ints) -> Floats:
        """The expected fragments with so much CPU free [h]."""
        cards, kind = Cards.of(view), view.kind[:, 0]
        fed, asking, allowed = cpu[:, None] >= self._cpu, self._cards > 0, self._allowed[kind]
        fits = cards.memory[..., None] >= self._memory[kind][:, None]
        enough = fits.sum(axis=1) >= self._cards
        total = cards.share.sum(axis=1)[:, None]
        rest = np.where(fits, 0.0, cards.share[..., None]).sum(axis=1)
        what = self._weights * np.where(asking & allowed & enough & fed, rest, total)
        where = np.where(fed, _FED, np.where(enough, _LACKS_CPU, _LACKS_BOTH))
        where = np.where(allowed, where, _NO_ACCESS)
        where = np.where(asking, where, np.where(fed, _NONE_ASKED, _NONE_NOR_CPU))
        parts = np.where(where == np.arange(_NO_ACCESS + 1)[:, None, None], what, 0.0)
        sums = np.cumsum(parts, axis=2)[:, :, -1]  # one after the other, unlike `sum`
        return np.asarray(np.cumsum(sums, axis=0)[-1])
