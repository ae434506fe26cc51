"""How much of a host is of no use to the pods that usually come.

After Weng et al., "Beware of Fragmentation" (FGD, ATC 2023): of a host that can take a pod, the
part on cards too full for it is a fragment; of a host that cannot (CPU, cards, model, or it asks
for no card), all that is free. The expectation over the usual pods is what is measured, in
thousandths of a card. Here as free less what is expected to be usable, which sums over cards and
over groups of pods that differ in their CPU only. Free is counted in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from federation.core.devices.cards import Card
from federation.core.devices.fleet.ask import Ask, asks_of
from federation.core.devices.fleet.mix import Typical, Usual
from federation.core.devices.fleet.table import CORES, MEMORY, SLOTS, Bools, Floats, Ints, View
from federation.core.devices.fleet.types import Shape
from federation.core.devices.wants import ContainerWants, PodWants, Wishes

MILLI = 1000.0
_NEVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards as fragmentation sees them [h, cards]: share free in thousandths, memory and compute
    that a newcomer could have (-1: none can come).
    """

    share: Floats
    memory: Ints
    cores: Ints

    @classmethod
    def of(cls, view: View, spent: Ints | int = 0) -> Cards:
        """The cards as they are, less what is `spent` [3, h, cards]."""
        free = view.total - view.used - spent
        comes = view.open & (free[SLOTS] > 0) & (free[CORES] > 0)
        sized = view.total[MEMORY] > 0  # else it is counted in slots
        whole = np.where(sized, view.total[MEMORY], np.maximum(view.total[SLOTS], 1))
        part = np.where(sized, free[MEMORY], free[SLOTS]) * (MILLI / whole)
        share = np.where(view.open, part, 0.0)
        return cls(share, np.where(comes, free[MEMORY], -1), np.where(comes, free[CORES], -1))

    def sized(self, size: Floats) -> Cards:
        """With the share weighed by the size of each card [h, cards]."""
        return replace(self, share=self.share * size)


class Fragments:
    """The usual pods against the kinds of cards: groups [g] of equal asks, and their weight by
    the CPU that a host has free.
    """

    def __init__(self, usual: Usual, kinds: Sequence[Card]) -> None:
        groups: dict[object, tuple[Ask, list[tuple[int, float]]]] = {}
        for shape, weight in usual:
            for ask in asks_of(shape_of(shape), kinds):
                key = (ask.cards, ask.cores, ask.memory.tobytes(), ask.allowed.tobytes())
                groups.setdefault(key, (ask, []))[1].append((shape.cpu_milli, weight))
        asks = [ask for ask, _ in groups.values()]
        empty = np.zeros((0, len(kinds) + 1), np.int64)
        self._memory = np.array(
            [np.where(ask.allowed, ask.memory, _NEVER) for ask in asks] or empty
        ).T
        self._cores = np.array([ask.cores for ask in asks], np.int64)
        self._cards = np.array([ask.cards for ask in asks], np.int64)
        pairs = [pairs for _, pairs in groups.values()]
        self._steps = np.unique(np.array([cpu for pair in pairs for cpu, _ in pair], np.int64))
        self._weights = np.zeros((len(self._steps) + 1, len(asks)))
        for group, pair in enumerate(pairs):
            for cpu, weight in pair:
                self._weights[int(np.searchsorted(self._steps, cpu)) + 1 :, group] += weight

    def usable(self, view: View, cards: Cards, cpu: Ints) -> Floats:
        """What is expected to be of use, per host [h]."""
        _, sums, counts = self._sums(view, cards)
        return self._expected(self._weight(cpu), counts, sums)

    def usable_after_each(
        self, view: View, before: Cards, after: Cards, cpu_before: Ints, cpu: Ints
    ) -> tuple[Floats, Floats]:
        """What is usable [h], and what it would be if one card changed, for each [h, cards]."""
        fits, sums, counts = self._sums(view, before)
        fits_after = self._fits(view, after)
        counts_after = counts[:, None] - fits + fits_after
        sums_after = (
            sums[:, None] - before.share[..., None] * fits + after.share[..., None] * fits_after
        )
        now = self._expected(self._weight(cpu_before), counts, sums)
        return now, self._expected(self._weight(cpu)[:, None], counts_after, sums_after)

    def _weight(self, cpu: Ints) -> Floats:
        """The part of each group whose CPU a host has [h, g]."""
        return np.asarray(self._weights[np.searchsorted(self._steps, cpu, side="right")])

    def _fits(self, view: View, cards: Cards) -> Bools:
        kind = view.kind
        if kind.shape[1] and bool((kind == kind[:, :1]).all(where=kind >= 0)):
            kind = kind[:, :1]  # all cards of a host alike: cards that are not there have memory -1
        fits = cards.memory[..., None] >= self._memory[kind]
        if self._cores.any():
            fits &= cards.cores[..., None] >= self._cores
        return fits

    def _sums(self, view: View, cards: Cards) -> tuple[Bools, Floats, Ints]:
        fits = self._fits(view, cards)
        return fits, np.einsum("hc,hcg->hg", cards.share, fits), fits.sum(axis=1)

    def _expected(self, weights: Floats, counts: Ints, sums: Floats) -> Floats:
        return np.asarray((weights * sums * (counts >= self._cards)).sum(axis=-1))


def shape_of(seen: Typical) -> Shape:
    """A shape that asks the same."""
    cards = (seen.wants,) if seen.wants else ()
    wishes = Wishes(seen.use_models, seen.avoid_models)
    return Shape(PodWants((ContainerWants("", cards=cards),), wishes))
