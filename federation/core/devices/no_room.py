"""Why a gang finds no cards, in words for people."""

from __future__ import annotations

from collections.abc import Sequence

from federation.core.devices.cards import HostUse
from federation.core.devices.fit import find
from federation.core.devices.fleet_types import NoPlace
from federation.core.devices.misfit import Misfit

LOOKED_AT = 4
"""Hosts that are looked at closely: those with the largest free slices."""


def no_room(answer: NoPlace, pods: int, freest: Sequence[HostUse], *, named: bool = True) -> str:
    """One sentence with numbers. `pods` are those of the gang, `freest` the hosts with the largest
    free slices (`Fleet.freest`), whose names and cards mean something to people if `named`.
    """
    misfits = [
        found for use in freest if isinstance(found := find(use, answer.shape.wants), Misfit)
    ]
    best = max(misfits, key=lambda found: found.free_mib, default=None)
    if best is not None and best.free_on:
        where = f"largest free slice {best.free_mib:,} MiB"
        where += f" on {best.host}/{best.free_on}" if named else ""
    elif best is not None and named:
        where = str(best)
    else:
        where = "no card of its kind is open to it"
    what = "fits on no card" if answer.pod == 0 else _part(answer, pods)
    return f"{what}: {where}; {answer}"


def _part(answer: NoPlace, pods: int) -> str:
    return f"of {pods} pods {answer.pod} find cards at the same time, and the next fits on no card"
