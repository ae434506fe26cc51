"""Which devices there are: those of pools that are published completely.

A driver replaces its pool by publishing slices of a higher generation one after the other; until
the last of them is there nobody may take devices of the pool, old or new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from federation.core.devices.claims.claims import Device


@dataclass(frozen=True, slots=True)
class PoolSlice:
    """One ResourceSlice: a part of generation `generation` of a pool of `slices` such parts."""

    driver: str
    pool: str
    generation: int
    slices: int
    devices: tuple[Device, ...] = ()


def complete(slices: Iterable[PoolSlice]) -> tuple[Device, ...]:
    """The devices of all complete pools, by driver, pool and name.

    A pool is left out while a slice of its newest generation is missing, if its slices do not
    agree on how many they are, or if two devices have one name: the scheduler uses none of these.
    """
    pools: dict[tuple[str, str], list[PoolSlice]] = {}
    for part in slices:
        pools.setdefault((part.driver, part.pool), []).append(part)
    found: list[Device] = []
    for _, parts in sorted(pools.items()):
        newest = max(part.generation for part in parts)
        current = [part for part in parts if part.generation == newest]
        devices = [device for part in current for device in part.devices]
        whole = all(part.slices == len(current) for part in current)
        if whole and len({device.name for device in devices}) == len(devices):
            found += sorted(devices, key=lambda device: device.name)
    return tuple(found)
