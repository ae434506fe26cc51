"""Which of the cards that would do is taken first, within one host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from federation.core.devices.cards import Card
from federation.core.devices.wants import Wishes

Key = Callable[[Card, int, int, int, int, int], Any]
"""Of a card, what is used of it (slots, MiB, cores) and what it is to give (MiB, cores): the
smallest comes first. Ties go by index.
"""

CORE_WEIGHT = 0.3
"""How much compute counts that is left without memory beside it (spec of placement, measured)."""


@dataclass(frozen=True, slots=True)
class CardOrder:
    """`key` ranks single cards; with `pairs`, several cards of one container are those with the
    highest sum of pair scores, and one card the one with the lowest (topology-aware).
    """

    key: Key
    pairs: bool = False


def tightest(card: Card, slots: int, mib: int, cores: int, give_mib: int, give_cores: int) -> Any:
    """Our default: cards in use first, then the one with the least left over, so that idle cards
    stay whole for those who need one.
    """
    memory = (card.memory_mib - mib - give_mib) / card.memory_mib if card.memory_mib else 0.0
    compute = (card.cores - cores - give_cores) / card.cores if card.cores else 0.0
    waste = compute - memory
    return not slots, memory + CORE_WEIGHT * waste if waste > 0 else memory


TIGHTEST = CardOrder(tightest)


def order_of(wishes: Wishes, default: CardOrder = TIGHTEST) -> CardOrder:
    """The order that a pod asks for by annotation, else the default."""
    return _chain(wishes.policy, wishes.weights) if wishes.policy else default


@lru_cache(maxsize=256)
def _chain(policy: tuple[str, ...], weights: tuple[int, int, int]) -> CardOrder:
    """HAMi's words one after the other; equal cards by NUMA node, the higher first."""
    keys = [_word(word, weights) for word in policy if word != "topology-aware"]

    def key(card: Card, slots: int, mib: int, cores: int, _: int, __: int) -> Any:
        return *(one(card, slots, mib, cores) for one in keys), -card.numa

    return CardOrder(key, pairs="topology-aware" in policy)


def _word(word: str, weights: tuple[int, int, int]) -> Callable[[Card, int, int, int], float]:
    of_slots, of_cores, of_memory = weights

    def score(card: Card, slots: int, mib: int, cores: int) -> float:
        return (
            of_slots * slots / max(card.slots, 1)
            + of_cores * cores / max(card.cores, 1)
            + of_memory * mib / max(card.memory_mib, 1)
        )

    match word:
        case "binpack":
            return lambda card, slots, mib, cores: -score(card, slots, mib, cores)
        case "numa":
            return lambda card, slots, mib, cores: -card.numa
        case "mutex":
            return lambda card, slots, mib, cores: slots > 0
        case _:
            return score
