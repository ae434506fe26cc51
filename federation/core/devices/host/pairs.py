"""Which cards of a host are best connected, by the pair scores that its device plugin reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import comb

from federation.core.devices.cards import Host

MOST_SETS = 2000
"""Up to so many sets are compared; of more, one is grown card by card."""

Score = Callable[[int, int], int]


def pair_sum(host: Host, number: int) -> int:
    """Of one card with all others."""
    uuid = host.cards[number].uuid
    return sum(host.links.get((uuid, other.uuid), 0) for other in host.cards)


def best_set(host: Host, cards: Sequence[int], wanted: int, sure: int, tied: int) -> list[int]:
    """The cards in such an order that the first `wanted` are best connected: the first `sure` are
    among them, the others are chosen of the next `tied`. Without pair scores, cards of one NUMA
    node are taken if there are enough.
    """
    fixed, choice, rest = cards[:sure], cards[sure : sure + tied], cards[sure + tied :]
    missing = wanted - sure
    if not 0 < missing < len(choice):
        return list(cards)
    if not host.links:
        best = _of_one_node(host, choice, missing)
    else:
        best = _connected(_scores(host, cards[: sure + tied]), fixed, choice, missing)
    others = [number for number in choice if number not in best]
    return [*fixed, *best, *others, *rest]


def _of_one_node(host: Host, choice: Sequence[int], missing: int) -> list[int]:
    """Of the smallest NUMA node that has enough, else the first."""
    sizes = Counter(host.cards[number].numa for number in choice)
    node = min((n for n in sizes if sizes[n] >= missing), key=sizes.__getitem__, default=None)
    same = [number for number in choice if node is None or host.cards[number].numa == node]
    return same[:missing]


def _scores(host: Host, cards: Sequence[int]) -> Score:
    uuids = {number: host.cards[number].uuid for number in cards}
    return lambda a, b: host.links.get((uuids[a], uuids[b]), 0)


def _connected(
    score: Score, fixed: Sequence[int], choice: Sequence[int], missing: int
) -> list[int]:
    def total(chosen: Iterable[int]) -> int:
        cards = tuple(chosen)
        inner = sum(score(a, b) for a, b in combinations(cards, 2))
        return inner + sum(score(a, b) for a in cards for b in fixed)

    if comb(len(choice), missing) <= MOST_SETS:
        return list(max(combinations(choice, missing), key=total))
    grown: list[int] = list(max(combinations(choice, min(missing, 2)), key=total))
    while len(grown) < missing:
        others = [number for number in choice if number not in grown]
        grown.append(max(others, key=lambda number: total([*grown, number])))
    return sorted(grown, key=choice.index)
