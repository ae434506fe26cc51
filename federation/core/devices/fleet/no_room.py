"""Why a gang finds no cards, in words for people."""

from __future__ import annotations

from collections.abc import Sequence

from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.types import NoPlace
from federation.core.devices.host.fit import find
from federation.core.devices.host.misfit import Code, Misfit

LOOKED_AT = 4
"""Hosts that are looked at closely: those with the largest free slices."""

_OF_MEMORY = frozenset((Code.MEMORY, Code.SIZE, Code.MIG))
"""What a free slice explains by its size; else it says only what is not the reason."""


def no_room(answer: NoPlace, pods: int, freest: Sequence[HostUse], *, named: bool = True) -> str:
    """One sentence with numbers. `pods` are those of the gang, `freest` the hosts with the largest
    free slices (`Fleet.freest`), whose names and cards mean something to people if `named`.
    """
    found = [find(use, answer.shape.wants) for use in freest]
    misfits = [one for one in found if isinstance(one, Misfit)]
    best = max(misfits, key=lambda one: one.free_mib, default=None)
    parts = []
    if best is not None and best.free_on:
        on = f" on {best.host}/{best.free_on}" if named else ""
        parts.append(f"largest free slice {best.free_mib:,} MiB{on}")
        if not best.codes.keys() & _OF_MEMORY:
            parts.append(best.reason)
    elif best is not None and named:
        parts.append(str(best))
    elif not freest:
        parts.append("no card of its kind is open to it")
    what = "fits on no card" if answer.pod == 0 else _part(answer, pods)
    return f"{what}: {'; '.join([*parts, str(answer)])}"


def _part(answer: NoPlace, pods: int) -> str:
    return f"of {pods} pods {answer.pod} find cards at the same time, and the next fits on no card"
