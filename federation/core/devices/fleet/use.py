"""A host's use with one more pod, or one less."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from federation.core.devices.cards import Allocation, CardUse, HostUse, Slice
from federation.core.devices.ledger.charge import charge, occupied
from federation.core.devices.wants import PodWants


def more(use: HostUse, wants: PodWants, allocation: Allocation) -> tuple[HostUse, Collection[str]]:
    """The host with the pod on it, and the cards that changed."""
    roles = [container.role for container in wants.containers]
    charged = charge(roles, allocation)
    places = occupied(allocation)
    uses = dict(use.uses)
    for uuid, amount in charged.items():
        held = use.use(uuid)
        uses[uuid] = CardUse(
            held.amount.plus(amount),
            (*held.slices, *places.get(uuid, ())),
            held.closed or wants.wishes.mutex,
            held.fence,
        )
    return replace(use, uses=uses), charged


def less(use: HostUse, wants: PodWants, allocation: Allocation) -> tuple[HostUse, Collection[str]]:
    """The host without the pod, and the cards that changed."""
    roles = [container.role for container in wants.containers]
    charged = charge(roles, allocation)
    places = occupied(allocation)
    uses = dict(use.uses)
    for uuid, amount in charged.items():
        held = use.use(uuid)
        uses[uuid] = CardUse(
            held.amount.minus(amount),
            _without(held.slices, places.get(uuid, ())),
            held.closed and not wants.wishes.mutex,
            held.fence,
        )
    return replace(use, uses=uses), charged


def _without(slices: tuple[Slice, ...], gone: tuple[Slice, ...]) -> tuple[Slice, ...]:
    left = list(slices)
    for place in gone:
        left.remove(place)
    return tuple(left)
