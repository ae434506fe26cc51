"""Which cards of a host are best connected, by the pair scores that its device plugin reports."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

from federation.core.devices.cards import Host

MOST_SETS = 2000
"""Up to so many sets are compared; of more, the best pair is extended card by card."""


def pair_sum(host: Host, number: int) -> int:
    """Of one card with all others."""
    uuid = host.cards[number].uuid
    return sum(host.links.get((uuid, other.uuid), 0) for other in host.cards)


def best_set(host: Host, cards: Sequence[int], wanted: int) -> list[int]:
    """The cards with those `wanted` first whose pair scores have the highest sum; of equal sums,
    those that were first.
    """
    if not host.links or wanted >= len(cards) or wanted < 2:
        return list(cards)
    score = {
        pair: host.links.get((host.cards[a].uuid, host.cards[b].uuid), 0)
        for a, b in combinations(cards, 2)
        for pair in ((a, b), (b, a))
    }
    if comb(len(cards), wanted) <= MOST_SETS:
        sets = combinations(cards, wanted)
        best = list(max(sets, key=lambda chosen: sum(score[p] for p in combinations(chosen, 2))))
    else:
        best = _grown(cards, wanted, score)
    return [*best, *(number for number in cards if number not in best)]


def _grown(cards: Sequence[int], wanted: int, score: dict[tuple[int, int], int]) -> list[int]:
    chosen = list(max(score, key=lambda pair: score[pair]))
    while len(chosen) < wanted:
        others = [number for number in cards if number not in chosen]
        chosen.append(max(others, key=lambda number: sum(score[number, c] for c in chosen)))
    return sorted(chosen, key=cards.index)
