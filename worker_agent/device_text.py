"""Why a gang finds no cards, in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from federation.core.devices.cards import Host, HostUse
from federation.core.devices.fit import find
from federation.core.devices.fleet import Fleet
from federation.core.devices.fleet_types import NoPlace
from federation.core.devices.misfit import Misfit

LOOKED_AT = 4
"""Hosts that are looked at closely: those with the largest free slices."""


def no_place(answer: NoPlace, pods: int, fleet: Fleet, hosts: Mapping[str, Host]) -> str:
    """One sentence with numbers. `pods` are those of the gang."""
    vendors = {
        asked.vendor for container in answer.shape.wants.containers for asked in container.cards
    }
    uses = [use for name in hosts if (use := fleet.use(name)) is not None]
    uses.sort(key=lambda use: (-_largest(use, vendors), use.host.name))
    misfits = [
        found
        for use in uses[:LOOKED_AT]
        if isinstance(found := find(use, answer.shape.wants), Misfit)
    ]
    best = max(misfits, key=lambda found: found.free_mib, default=None)
    if best is not None and best.free_on:
        where = f"largest free slice {best.free_mib:,} MiB on {best.host}/{best.free_on}"
    else:
        where = str(best) if best is not None else "no card of its kind is open to it"
    what = "fits on no card" if answer.pod == 0 else _part(answer, pods)
    return f"{what}: {where}; {answer}"


def _part(answer: NoPlace, pods: int) -> str:
    return f"of {pods} pods {answer.pod} find cards at the same time, and the next fits on no card"


def _largest(use: HostUse, vendors: Iterable[str]) -> int:
    """MiB free on the card with the most, whatever else speaks against it."""
    return max(
        (
            card.memory_mib - use.use(card.uuid).amount.memory_mib
            for card in use.host.cards
            if card.vendor in vendors and not use.fence
        ),
        default=0,
    )
