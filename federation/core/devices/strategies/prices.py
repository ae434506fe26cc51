"""What a mix of pods says a host's resources are worth to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from federation.core.devices.fleet_ask import Ask, asks_of
from federation.core.devices.fleet_kinds import Kinds
from federation.core.devices.fleet_table import Floats
from federation.core.devices.fragmentation import MILLI, shape_of
from federation.core.devices.mix import Usual

SMALLEST = 0.05
"""The part of all pods that share a card whose shares count as too small to wait for."""


@dataclass(frozen=True, slots=True)
class Prices:
    """`milli_per_cpu`: thousandths of a card that go with a milli-unit of CPU in the mix.
    `sliver`: a rest of a card below it, in thousandths, serves nearly nobody. `scarcity` per kind
    and for a card that is not there (`scarcity_of`).
    """

    milli_per_cpu: float
    sliver: float
    scarcity: Floats


@dataclass(frozen=True, slots=True)
class _Asked:
    """One entry of the mix: its weight, and what it asks, `share` of one card on average."""

    weight: float
    cpu: int
    ask: Ask
    share: float


def prices_of(mix: Usual, kinds: Kinds) -> Prices:
    """The prices of a mix where there are so many cards of each kind."""
    supply = np.array([*kinds.supply, 0], np.float64)
    asked = []
    for seen, weight in mix:
        for ask in asks_of(shape_of(seen), kinds.cards):
            capacity = np.where(ask.allowed, supply, 0.0)
            if capacity.any():
                share = float((ask.share * capacity).sum() / capacity.sum())
                asked.append(_Asked(weight, seen.cpu_milli, ask, share))
    cards = sum(one.weight * one.ask.cards * one.share for one in asked)
    cpu = sum(one.weight * one.cpu for one in asked)
    return Prices(
        MILLI * cards / cpu if cpu else float("inf"),
        _sliver(asked),
        _scarcity(asked, cards, supply, kinds),
    )


def _sliver(asked: list[_Asked]) -> float:
    """The share that the smallest of the pods that share a card do not exceed."""
    shares = sorted((o.share, o.weight) for o in asked if o.ask.cards == 1 and o.share < 1)
    due = SMALLEST * sum(weight for _, weight in shares)
    for share, weight in shares:
        due -= weight
        if due < 0:
            return MILLI * share
    return 0.0


def _scarcity(asked: list[_Asked], cards: float, supply: Floats, kinds: Kinds) -> Floats:
    """The part of all demand that can go to some kinds of its vendor only and would come to this
    one if it were spread evenly over these, divided by the part of this kind in all cards.
    """
    bound = np.zeros(len(supply))
    for one in asked:
        vendor = np.array([*(card.vendor == one.ask.vendor for card in kinds.cards), False])
        if (supply[vendor & ~one.ask.allowed] > 0).any():
            capacity = np.where(one.ask.allowed, supply, 0.0)
            bound += one.weight * one.ask.cards * one.share * capacity / capacity.sum()
    part = supply / max(supply.sum(), 1.0)
    share = bound / max(cards, 1e-12)
    return np.asarray(np.divide(share, part, out=np.zeros(len(supply)), where=part > 0))
