"""What one pod asks, as numbers per kind of card, and on which cards it fits: many hosts at once.

The rules are those of `federation.core.devices.fit`, for the pods that most are: one container
with cards of one vendor that are shared by software, nothing wished about NUMA, links or UUIDs.
For all others this is a bound: what does not pass here cannot fit, the rest is looked at exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from federation.core.devices.cards import HAMI_CORE, IDLE, Card
from federation.core.devices.fleet_table import CORES, MEMORY, SLOTS, Bools, Floats, Ints, View
from federation.core.devices.fleet_types import Shape
from federation.core.devices.matching import barred
from federation.core.devices.wants import CardWants, Wishes

WHOLE_CORES = 100


@dataclass(frozen=True, slots=True)
class Ask:
    """`cards` different cards for one container. Arrays have one entry per kind, and a last one
    for cards that are not there (kind -1): whether the kind will do, the memory it would take
    and that as a share of the card.
    """

    cards: int
    cores: int
    mutex: bool
    vendor: str
    allowed: Bools
    exact: Bools
    memory: Ints
    share: Floats

    def fits(self, view: View) -> Bools:
        """Which cards have what is asked of one card [h, cards]."""
        total, used, kind = view.total, view.used, view.kind
        fits: Bools = self.allowed[kind] & view.open & (used[SLOTS] < total[SLOTS])
        fits &= total[MEMORY] - used[MEMORY] >= self.memory[kind]
        fits &= total[CORES] - used[CORES] >= self.cores
        if self.cores == 0:
            fits &= used[CORES] < total[CORES]
        if self.cores >= WHOLE_CORES:
            fits &= (used[SLOTS] == 0) | (total[CORES] != WHOLE_CORES)
        if self.mutex:
            fits &= used[SLOTS] == 0
        return fits

    def spend(self, view: View, chosen: Bools) -> Ints:
        """What the chosen cards lose [3, h, cards]."""
        return np.stack(
            [chosen, chosen * self.memory[view.kind], chosen * self.cores], dtype=np.int64
        )


def asks_of(shape: Shape, kinds: Sequence[Card]) -> tuple[Ask, ...]:
    """What each container asks that asks for cards."""
    return tuple(
        _ask(wants, shape.wants.wishes, kinds)
        for container in shape.wants.containers
        for wants in container.cards
    )


def is_plain(shape: Shape) -> bool:
    """Whether a pod is one of those whose cards are chosen here, on hosts with plain cards."""
    asking = [wants for container in shape.wants.containers for wants in container.cards]
    wishes = shape.wants.wishes
    return len(asking) <= 1 and not (
        any(wants.profile for wants in asking)
        or wishes.use_uuids is not None
        or wishes.avoid_uuids
        or wishes.numa_bind
        or wishes.policy
    )


def _ask(wants: CardWants, wishes: Wishes, kinds: Sequence[Card]) -> Ask:
    anywhere = replace(wishes, use_uuids=None)
    allowed = [k.vendor == wants.vendor and not barred(k, IDLE, anywhere) for k in kinds]
    shares = [kind.share(wants.memory_mib, wants.percent) for kind in kinds]
    memory = [0 if share is None else share for share in shares]
    fractions = [m / max(1, kind.memory_mib) for m, kind in zip(memory, kinds, strict=True)]
    possible = [ok and s is not None for ok, s in zip(allowed, shares, strict=True)]
    exact = [kind.mode != HAMI_CORE or bool(kind.profiles) for kind in kinds]
    return Ask(
        wants.cards,
        min(wants.cores, WHOLE_CORES),
        wishes.mutex,
        wants.vendor,
        np.array([*possible, False]),
        np.array([*(e and a for e, a in zip(exact, allowed, strict=True)), False]),
        np.array([*memory, 0]),
        np.array([*fractions, 0.0]),
    )
