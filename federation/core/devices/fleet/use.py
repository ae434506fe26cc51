"""A host's use with one more pod, or one less."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from federation.core.devices.cards import Allocation, Amount, CardUse, HostUse, Slice
from federation.core.devices.ledger.charge import charge, occupied
from federation.core.devices.wants import PodWants


def more(use: HostUse, wants: PodWants, allocation: Allocation) -> tuple[HostUse, Collection[str]]:
    """The host with the pod on it, and the cards that changed."""
    charged = charge(wants.roles, allocation)
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
    charged = charge(wants.roles, allocation)
    return without(use, charged, occupied(allocation), mutex=wants.wishes.mutex), charged


def without(
    use: HostUse,
    charged: Mapping[str, Amount],
    places: Mapping[str, tuple[Slice, ...]],
    *,
    mutex: bool,
) -> HostUse:
    """The host less what somebody is charged there and the places that it has on MIG cards, by
    UUID. `mutex` says that it wanted its cards for itself.
    """
    uses = dict(use.uses)
    for uuid, amount in charged.items():
        held = use.use(uuid)
        left = list(held.slices)
        for place in places.get(uuid, ()):
            left.remove(place)
        closed = held.closed and not mutex
        uses[uuid] = CardUse(held.amount.minus(amount), tuple(left), closed, held.fence)
    return replace(use, uses=uses)
