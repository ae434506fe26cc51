"""The annotation about MIG instances of a pod: which container has which place on which card.

The scheduler writes it with the allocation; the device plugin adds the identity of each instance
once it exists. Indices count the entries of the allocation text, not the containers of the pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.core.devices.cards import Allocation, Slice
from federation.core.devices.wire.registration import placement
from federation.core.devices.wire.undecodable import (
    UndecodableError,
    identifier,
    integer,
    objects,
    shown,
    words,
)

MIG_ALLOCATIONS: Final = "hami.io/vgpu-mig-allocations"
_UINT32: Final = 2**32 - 1
_IDENTITY: Final = ("migUUID", "gpuInstanceID", "computeInstanceID")


@dataclass(frozen=True, slots=True)
class MigIdentity:
    """What names an instance that exists; ids may be 0."""

    uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class MigEntry:
    """One instance; `identity` is None until it exists."""

    container: int
    device: int
    uuid: str
    slice: Slice
    identity: MigIdentity | None = None


def decode(text: str) -> tuple[MigEntry, ...]:
    """The instances; none for an empty text. Raises UndecodableError for one that is there twice,
    a size of 0, or an identity of which a part is missing.
    """
    if text == "":
        return ()
    entries = []
    seen = set()
    for number, item in enumerate(objects(text)):
        try:
            entry = _entry(item)
        except UndecodableError as error:
            raise UndecodableError(f"entry {number}: {error}") from None
        if (entry.container, entry.device) in seen:
            said = f"container {entry.container}, device {entry.device} is there twice"
            raise UndecodableError(f"entry {number}: {said}")
        seen.add((entry.container, entry.device))
        entries.append(entry)
    return tuple(entries)


def _entry(item: Mapping[str, Any]) -> MigEntry:
    place = item.get("placement")
    if not isinstance(place, dict):
        raise UndecodableError(f"placement is {shown(place)}, not an object")
    profile = words(item, "profile")
    if not profile:
        raise UndecodableError("profile is missing")
    return MigEntry(
        integer(item, "containerIndex"),
        integer(item, "deviceIndex"),
        identifier(words(item, "gpuUUID"), "gpuUUID"),
        Slice(profile, *placement(place)),
        _identity(item),
    )


def _identity(item: Mapping[str, Any]) -> MigIdentity | None:
    given = [key for key in _IDENTITY if item.get(key) not in (None, "")]
    if not given:
        return None
    if len(given) < len(_IDENTITY):
        missing = ", ".join(key for key in _IDENTITY if key not in given)
        raise UndecodableError(f"it has {', '.join(given)} but not {missing}")
    uuid, gpu, compute = _IDENTITY
    return MigIdentity(
        words(item, uuid), integer(item, gpu, 0, _UINT32), integer(item, compute, 0, _UINT32)
    )


def encode(entries: Iterable[MigEntry]) -> str:
    """The text; '' if there is nothing to tell, when the annotation is left out."""
    items = [_item(entry) for entry in entries]
    return json.dumps(items, separators=(",", ":"), ensure_ascii=False) if items else ""


def _item(entry: MigEntry) -> dict[str, Any]:
    item: dict[str, Any] = {
        "containerIndex": entry.container,
        "deviceIndex": entry.device,
        "gpuUUID": entry.uuid,
        "profile": entry.slice.profile,
        "placement": {"start": entry.slice.start, "size": entry.slice.size},
    }
    if entry.identity is not None:
        known = entry.identity
        item |= dict(
            zip(_IDENTITY, (known.uuid, known.gpu_instance, known.compute_instance), strict=True)
        )
    return item


def of_allocation(allocation: Allocation) -> tuple[MigEntry, ...]:
    """The instances that grants have, before they exist."""
    return tuple(
        MigEntry(container, device, grant.uuid, grant.slice)
        for container, grants in enumerate(allocation)
        for device, grant in enumerate(grants)
        if grant.slice is not None
    )
