"""What a mix of pods says a host's resources are worth to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from federation.core.devices.fleet.ask import Ask, asks_of
from federation.core.devices.fleet.fragmentation import MILLI, shape_of
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Usual
from federation.core.devices.fleet.table import Floats, Ints

_NOISE = 1e-6
"""What just suffices must not count as too little for the rounding of floats."""
SMALLEST = 0.05
"""The part of all pods that share a card whose shares count as too small to wait for."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Amounts of cards are in thousandths of a card of mean size.

    `milli_per_cpu`: cards that go with a milli-unit of CPU in the mix. `sliver`: a rest of a card
    below it serves nearly nobody. `several`: the part of the demand that is for several cards at
    once. `size` and `scarcity` are per kind, and for a card that is not there.
    """

    milli_per_cpu: float
    sliver: float
    several: float
    size: Floats
    scarcity: Floats

    def starving(self, free: Floats, cpu: Ints) -> Floats:
        """What of the cards free on hosts the free CPU cannot feed [h]."""
        if self.milli_per_cpu == float("inf"):
            return np.zeros(len(free))
        return np.asarray(np.maximum(free - cpu * self.milli_per_cpu, 0.0))

    def slivers(self, free: Floats) -> Floats:
        """What is left of cards in rests of no use [h]."""
        return np.asarray(np.where(free < self.sliver - _NOISE, free, 0.0).sum(axis=1))


@dataclass(frozen=True, slots=True)
class _Asked:
    """One entry of the mix: weight, CPU, and `share`, what it takes of each card on average."""

    weight: float
    cpu: int
    ask: Ask
    share: float
    part: bool

    @property
    def demand(self) -> float:
        """Cards in all."""
        return self.weight * self.ask.cards * self.share


def prices_of(mix: Usual, kinds: Kinds) -> Prices:
    """The prices of a mix where there are so many cards of each kind."""
    supply = np.array([*kinds.supply, 0], np.float64)
    size = _sizes(kinds, supply)
    asked = []
    for seen, weight in mix:
        for ask in asks_of(shape_of(seen), kinds.cards):
            capacity = np.where(ask.allowed, supply, 0.0)
            if capacity.any():
                share = float((ask.share * size * capacity).sum() / capacity.sum())
                part = bool((ask.share * capacity).sum() < capacity.sum())
                asked.append(_Asked(weight, seen.cpu_milli, ask, share, part))
    cards, cpu = sum(one.demand for one in asked), sum(one.weight * one.cpu for one in asked)
    several = sum(one.demand for one in asked if one.ask.cards > 1)
    return Prices(
        MILLI * cards / cpu if cpu else float("inf"),
        _sliver(asked),
        several / cards if cards else 0.0,
        size,
        _scarcity(asked, supply, kinds),
    )


def _sizes(kinds: Kinds, supply: Floats) -> Floats:
    """Memory over that of the mean card; cards without a size count as one."""
    memory = np.array([*(card.memory_mib for card in kinds.cards), 0], np.float64)
    sized = memory > 0
    mean = (memory * supply).sum() / max(supply[sized].sum(), 1.0)
    return np.asarray(np.where(sized, memory / mean, 1.0)) if mean else np.ones(len(supply))


def _sliver(asked: list[_Asked]) -> float:
    """The share that the smallest of the pods that share a card do not exceed."""
    shares = sorted((one.share, one.weight) for one in asked if one.ask.cards == 1 and one.part)
    due = SMALLEST * sum(weight for _, weight in shares)
    for share, weight in shares:
        due -= weight
        if due < 0:
            return MILLI * share
    return 0.0


def _scarcity(asked: list[_Asked], supply: Floats, kinds: Kinds) -> Floats:
    """The part of all demand that can go to some kinds of its vendor only and would come to this
    one if it were spread evenly over these, divided by the part of this kind in all cards.
    """
    bound = np.zeros(len(supply))
    for one in asked:
        vendor = np.array([*(card.vendor == one.ask.vendor for card in kinds.cards), False])
        if (supply[vendor & ~one.ask.allowed] > 0).any():
            capacity = np.where(one.ask.allowed, supply, 0.0)
            bound += one.demand * capacity / capacity.sum()
    part = supply / max(supply.sum(), 1.0)
    share = bound / max(sum(one.demand for one in asked), 1e-12)
    return np.asarray(np.divide(share, part, out=np.zeros(len(supply)), where=part > 0))
