"""What one pod asks, as numbers per kind of card, and on which cards it fits: many hosts at once.

The rules are those of `federation.core.devices.host.fit`, for the pods that most are: one container
with cards of one vendor that are shared by software, nothing wished about NUMA, links or UUIDs.
For all others this is a bound: what does not pass here cannot fit, the rest is looked at exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from federation.core.devices.cards import IDLE, MIG, Card
from federation.core.devices.fleet.table import CORES, MEMORY, SLOTS, Bools, Floats, Ints, View
from federation.core.devices.fleet.types import Shape
from federation.core.devices.host.matching import barred
from federation.core.devices.wants import FULL, CardWants, PodWants, Wishes


@dataclass(frozen=True, slots=True)
class Ask:
    """`cards` different cards for one container. Arrays have one entry per kind, and a last one
    for cards that are not there (kind -1): whether the kind will do, whether it is cut by profile
    (of such cards all that is open may fit), the memory it would take and that as a share of the
    card.
    """

    vendor: str
    cards: int
    cores: int
    alone: bool
    allowed: Bools
    cut: Bools
    memory: Ints
    share: Floats

    def fits(self, view: View) -> Bools:
        """Which cards have what is asked of one card [h, cards]."""
        total, used, kind = view.total, view.used, view.kind
        fits: Bools = self.allowed[kind] & view.open & (used[SLOTS] < total[SLOTS])
        if self.cores >= FULL:
            fits &= (used[SLOTS] == 0) | (total[CORES] != FULL)
        if self.alone:
            fits &= used[SLOTS] == 0
        free = total[CORES] - used[CORES]
        enough = (free >= self.cores) if self.cores else (free > 0)
        enough &= total[MEMORY] - used[MEMORY] >= self.memory[kind]
        return np.asarray(fits & (enough | self.cut[kind]))

    def may_fit(self, view: View, fits: Bools) -> Bools:
        """Whether hosts may have cards enough [h]; a card that is cut may give several."""
        cut = (fits & self.cut[view.kind]).any(axis=1)
        return np.asarray((fits.sum(axis=1) >= self.cards) | cut)

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


def is_sort(kind: Card, wants: PodWants) -> bool:
    """Whether a container may have cards of this kind, large enough or not."""
    anywhere = replace(wants.wishes, use_uuids=None)
    return not barred(kind, IDLE, anywhere) and any(
        asked.vendor == kind.vendor for container in wants.containers for asked in container.cards
    )


def _ask(wants: CardWants, wishes: Wishes, kinds: Sequence[Card]) -> Ask:
    anywhere = replace(wishes, use_uuids=None)
    allowed = [
        kind.vendor == wants.vendor
        and not barred(kind, IDLE, anywhere)
        and kind.offers(wants.memory_mib, wants.percent, wants.profile)
        for kind in kinds
    ]
    cut = [kind.mode == MIG or bool(wants.profile) for kind in kinds]
    memory = [kind.share(wants.memory_mib, wants.percent) for kind in kinds]
    # A percentage that rounds down to nothing would mean no limit at all.
    none = [
        not m and bool(wants.percent and k.memory_mib) for m, k in zip(memory, kinds, strict=True)
    ]
    possible = [
        ok and (c or (m is not None and not n))
        for ok, c, m, n in zip(allowed, cut, memory, none, strict=True)
    ]
    share = [
        (m or 0) / k.memory_mib if k.memory_mib else 1 / k.slots
        for m, k in zip(memory, kinds, strict=True)
    ]
    return Ask(
        wants.vendor,
        wants.cards,
        min(wants.cores, FULL),
        wishes.mutex,
        np.array([*possible, False]),
        np.array([*cut, False]),
        np.array([*(m or 0 for m in memory), 0]),
        np.array([*share, 0.0]),
    )
