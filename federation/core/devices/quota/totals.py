"""What pods hold of cards in all: the numbers that quota is asked for.

Per container its cards times what it gets of each, summed over apps and sidecars, and at least
what each init container holds beside the sidecars started before it. Kueue multiplies the totals of
a pod instead, which charges two containers with a card each for four (its pitfalls a to c).
A share in percent, and a whole card, is resolved on the smallest card of the flavor; if that is
in MIG mode, memory and compute are those of the profile that will be used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from federation.core.devices.cards import INSTANCE, MIG, Card, profile_sizes
from federation.core.devices.wants import FULL, CardWants, ContainerWants, PodWants, Role

_COMPUTE_SLICES: Final = 7


class Held(NamedTuple):
    """What a pod holds of the cards of one vendor; `percent` is of the memory of one card.

    `memory_mib` and `percent` are None where that depends on a card that is not known.
    """

    cards: int = 0
    memory_mib: int | None = 0
    percent: int | None = 0
    cores: int = 0


def vendors_of(wants: PodWants) -> frozenset[str]:
    """The vendors whose cards a pod asks for."""
    return frozenset(asked.vendor for container in wants.containers for asked in container.cards)


def smallest(cards: Iterable[Card]) -> dict[str, Card]:
    """By vendor the card with the least memory: what shares are reckoned with. Instances that are
    handed out under names of their own are no cards.
    """
    found: dict[str, Card] = {}
    for card in cards:
        if card.mode == INSTANCE:
            continue
        known = found.get(card.vendor)
        if known is None or (card.memory_mib, card.uuid) < (known.memory_mib, known.uuid):
            found[card.vendor] = card
    return found


def like(card: Card) -> Card:
    """Its sort, without what makes it one card among others."""
    return replace(card, uuid="", model="", index=0, numa=0, healthy=True, cordoned=False)


@lru_cache(maxsize=8192)
def held(containers: tuple[ContainerWants, ...], vendor: str, card: Card | None = None) -> Held:
    """What one pod holds at most at one time of cards like `card`, each quantity by itself."""
    running, peak = Held(), Held()
    for container in containers:
        moment = running
        for asked in container.cards:
            if asked.vendor == vendor:
                moment = _combined(moment, _of(asked, card), operator.add)
        peak = _combined(peak, moment, max)
        if container.role is not Role.INIT:
            running = moment
    return peak


def _combined(left: Held, right: Held, choose: Callable[[int, int], int]) -> Held:
    """Both together; what is not known of one of them is not known."""
    cards, memory, percent, cores = (
        None if one is None or other is None else choose(one, other)
        for one, other in zip(left, right, strict=True)
    )
    assert cards is not None
    assert cores is not None
    return Held(cards, memory, percent, cores)


def _of(asked: CardWants, card: Card | None) -> Held:
    """What one container gets. Instances that are asked for by name are no cards by number."""
    memory, cores = _of_one(asked, card)
    if memory is None:
        percent: int | None = asked.percent
    elif asked.percent and not asked.profile:
        percent = asked.percent
    elif card is None or not card.memory_mib:
        percent = None
    else:
        percent = -(-memory * FULL // card.memory_mib)
    number = asked.cards
    return Held(
        0 if asked.profile else number,
        None if memory is None else memory * number,
        None if percent is None else percent * number,
        cores * number,
    )


def _of_one(asked: CardWants, card: Card | None) -> tuple[int | None, int]:
    """MiB and percent of compute of each card; MiB None if that is not known."""
    profiles = card.profiles if card is not None and card.mode == MIG else ()
    if asked.profile:
        named = next((p for p in profiles if p.name == asked.profile), None)
        return (named.memory_mib, named.cores) if named else _by_name(asked.profile)
    if card is None:
        return asked.memory_mib or None, asked.cores
    if not profiles:
        share = card.share(asked.memory_mib, asked.percent)
        return (asked.memory_mib if share is None else share), asked.cores
    need = asked.memory_mib or card.memory_mib * asked.percent // FULL
    if asked.percent == FULL:
        need = min(need, max(profile.memory_mib for profile in profiles))
    large = [(p.memory_mib, p.slices, p.cores) for p in profiles if p.memory_mib >= need]
    if not large:
        return need, asked.cores
    memory, _, cores = min(large)
    return memory, cores


def _by_name(profile: str) -> tuple[int | None, int]:
    """What the name of a MIG profile says."""
    found = profile_sizes(profile)
    if found is None:
        return None, 0
    compute, size = found
    return size * 1024, min(FULL, -(-compute * FULL // _COMPUTE_SLICES))
