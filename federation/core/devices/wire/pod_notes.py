"""The annotations of a pod about all its cards, of all vendors: written and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from federation.core.devices.cards import Allocation, Card, Grant
from federation.core.devices.wants import FULL, PodWants
from federation.core.devices.wire import mig_note
from federation.core.devices.wire.allocation_note import (
    NODE,
    TIME,
    decode,
    encode,
    of_containers,
    of_vendors,
    physical,
    with_slices,
)
from federation.core.devices.wire.undecodable import UndecodableError
from federation.core.devices.wire.vendor_table import NVIDIA, VENDORS
from federation.core.devices.wire.vendors import Note, Vendor, Vendors

Cards = Mapping[str, Card]
"""Of the node of the pod, by UUID."""

ASSIGNED: Final = "CAMBRICON_DSMLU_ASSIGHED"
"""Spelt as Cambricon's plugin reads it."""
_PREDICATE_TIME: Final = "predicate-time"


def write(
    allocation: Allocation,
    cards: Cards,
    now_s: int,
    *,
    node: str,
    soft: bool = False,
    vendors: Vendors = VENDORS,
) -> dict[str, str]:
    """What HAMi's scheduler writes on a pod when it has chosen; `cards` are those of `node`.

    `soft` is whether the pod chose a split in which memory is not cut (`Vendor.cores_need`).
    UndecodableError if a grant is of no such vendor, or cannot be written.
    """
    notes = {NODE: node, TIME: str(now_s)}
    known = {vendor.key for vendor in vendors}
    for grant in (grant for grants in allocation for grant in grants):
        if grant.vendor not in known:
            raise UndecodableError(f"the card {grant.uuid} is of {grant.vendor}, which is unknown")
    for vendor in vendors:
        own = _own(allocation, vendor, cards)
        if any(own):
            text = encode(own)
            notes |= {key: text for key in (vendor.to_allocate, vendor.allocated) if key}
            notes |= _besides(vendor, own, cards, soft=soft, now_s=now_s)
    if text := mig_note.encode(mig_note.of_allocation(_of(allocation, NVIDIA))):
        notes[mig_note.MIG_ALLOCATIONS] = text
    return notes


def read(
    annotations: Mapping[str, str], wants: PodWants, cards: Cards, vendors: Vendors = VENDORS
) -> Allocation | None:
    """The cards of a pod, one entry per container; None if no annotation tells of any.

    Only what was allocated is read, which no device plugin takes back piece by piece. Raises
    UndecodableError, with the annotation, if a text is broken or does not fit the pod.
    """
    found = []
    for vendor in vendors:
        text = annotations.get(vendor.allocated) if vendor.allocated else None
        if text:
            try:
                found.append(_read(text, annotations, wants, vendor, cards))
            except UndecodableError as error:
                raise UndecodableError(f"annotation {vendor.allocated}: {error}") from None
    return of_vendors(found) if found else None


def _read(
    text: str, annotations: Mapping[str, str], wants: PodWants, vendor: Vendor, cards: Cards
) -> Allocation:
    entries = decode(text)
    if vendor.key == NVIDIA.key and (places := annotations.get(mig_note.MIG_ALLOCATIONS)):
        entries = with_slices(entries, mig_note.decode(places))
    counts = [
        sum(asked.cards for asked in container.cards if asked.vendor == vendor.key)
        for container in wants.containers
    ]
    return tuple(
        tuple(_routed(grant, vendor, cards) for grant in grants)
        for grants in of_containers(entries, counts)
    )


def _routed(grant: Grant, vendor: Vendor, cards: Cards) -> Grant:
    """As it is counted here: the vendor's key, the card of an old MIG instance, percent."""
    uuid = physical(grant.uuid)
    card = cards.get(uuid)
    cores = grant.cores
    if card is not None and card.units:
        cores = -(-cores * FULL // card.units)
    return grant._replace(uuid=uuid, vendor=vendor.key, cores=cores)


def _of(allocation: Allocation, vendor: Vendor) -> Allocation:
    return tuple(tuple(g for g in grants if g.vendor == vendor.key) for grants in allocation)


def _own(allocation: Allocation, vendor: Vendor, cards: Cards) -> Allocation:
    """The grants of a vendor as its plugin reads them."""
    return tuple(
        tuple(_as_written(grant, vendor, cards) for grant in grants)
        for grants in _of(allocation, vendor)
    )


def _as_written(grant: Grant, vendor: Vendor, cards: Cards) -> Grant:
    card = cards.get(grant.uuid)
    if card is None:
        return grant
    cores = max(1, grant.cores * card.units // FULL) if card.units and grant.cores else grant.cores
    return grant._replace(vendor=card.model if vendor.type_is_model else vendor.key, cores=cores)


def _besides(
    vendor: Vendor, own: Allocation, cards: Cards, *, soft: bool, now_s: int
) -> dict[str, str]:
    """What the device plugin of a vendor reads besides the allocation."""
    if vendor.note is Note.ASCEND:
        value = _json([_ascend(vendor, grant, soft) for grants in own for grant in grants])
        return {vendor.note_key: value, _PREDICATE_TIME: str(now_s)}
    if vendor.note is Note.DSMLU:
        first = next(grant for grants in own for grant in grants)
        units = first.memory_mib // vendor.mib_per_unit
        value = f"{_index(first, cards)}_{first.cores}_{units}"
        return {vendor.note_key: value, ASSIGNED: "false"}
    if vendor.note is Note.INDICES:
        last = [grants for grants in own if grants][-1]
        return {vendor.note_key: ",".join(str(_index(grant, cards)) for grant in last)}
    if vendor.note is Note.METAX:
        return {vendor.note_key: _json([[_metax(grant) for grant in grants] for grants in own])}
    return {}


def _ascend(vendor: Vendor, grant: Grant, soft: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"UUID": grant.uuid}
    if soft:
        item |= {"memory": grant.memory_mib, "core": grant.cores}
    else:
        item["temp"] = vendor.size_names.get(grant.memory_mib, "")
    return {key: value for key, value in item.items() if value}


def _metax(grant: Grant) -> dict[str, Any]:
    item = {"uuid": grant.uuid, "compute": grant.cores, "vRam": grant.memory_mib}
    return {key: value for key, value in item.items() if value}


def _index(grant: Grant, cards: Cards) -> int:
    card = cards.get(grant.uuid)
    if card is None:
        raise UndecodableError(f"the card {grant.uuid} is not on the node: its index is unknown")
    return card.index


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
