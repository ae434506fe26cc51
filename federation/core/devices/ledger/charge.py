"""What a placed pod is charged: on each card, the most that its containers hold at one time.

Init containers run one after the other, each beside the sidecars that were started before it;
then apps and sidecars run together. Per card and per quantity the charge is the largest of these
moments (recorded of HAMi; it counts sidecars as init containers and shifts slots past containers
without cards, defects d01, d02 and d17). A container counts one slot for each of its grants. Only
the roles of the containers matter, hence the same function serves a pod that was decided and one
that was read back from its annotations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from federation.core.devices.cards import Allocation, Amount, Grant, Slice
from federation.core.devices.wants import Role


def charge(
    roles: Sequence[Role], allocation: Allocation, *, init_done: bool = False
) -> dict[str, Amount]:
    """What a pod holds of each card, by UUID; cards of which it holds nothing are left out.

    `roles` and `allocation` have one entry per container, init containers and sidecars first, in
    the order they start. With `init_done` only what runs on is counted. ValueError if the lengths
    differ.
    """
    held: dict[str, Amount] = {}
    peaks: list[dict[str, Amount]] = []
    for role, grants in zip(roles, allocation, strict=True):
        if not grants:
            continue
        if role is not Role.INIT:
            _add(held, grants)
        elif not init_done:
            moment = {grant.uuid: held.get(grant.uuid, _NOTHING) for grant in grants}
            _add(moment, grants)
            peaks.append(moment)
    for moment in peaks:
        for uuid, amount in moment.items():
            held[uuid] = held[uuid].peak(amount) if uuid in held else amount
    return held


def occupied(allocation: Allocation) -> dict[str, tuple[Slice, ...]]:
    """Where a pod has instances on MIG cards, by UUID, in order of place.

    HAMi may give an app the place of an init container, so places of one pod may overlap. They
    are made when the pod starts, those of init containers too, and stay until it ends.
    """
    places: dict[str, set[Slice]] = {}
    for grants in allocation:
        for grant in grants:
            if grant.slice is not None:
                places.setdefault(grant.uuid, set()).add(grant.slice)
    return {
        uuid: tuple(sorted(slices, key=lambda place: (place.start, place.size, place.profile)))
        for uuid, slices in places.items()
    }


_NOTHING = Amount()


def _add(amounts: dict[str, Amount], grants: Iterable[Grant]) -> None:
    for grant in grants:
        more = Amount(1, grant.memory_mib, grant.cores)
        held = amounts.get(grant.uuid)
        amounts[grant.uuid] = more if held is None else held.plus(more)
