"""Published devices as cards of hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from federation.core.devices.cards import Card, Host
from federation.core.devices.claims.claims import HAMI_DRIVER, Attribute, Device
from federation.core.devices.wire.vendor_table import NVIDIA

NO_LIMIT: Final = 2**31 - 1
"""Slots of a card that is published as a device: claims share memory and compute, nothing counts
how many they are."""

_CLOSING = ("NoSchedule", "NoExecute")
_MIB: Final = 2**20


def named(device: Device) -> str:
    """The UUID of a card, else what names the device in its cluster."""
    uuid = device.attributes.get(f"{device.driver}/uuid")
    return uuid if isinstance(uuid, str) and uuid else "/".join(device.key)


def is_card(device: Device) -> bool:
    """Whether its memory is counted as that of a card."""
    return device.driver == HAMI_DRIVER and f"{HAMI_DRIVER}/memory" in device.capacity


def card(device: Device) -> Card:
    """The card that it is. One with a taint takes nothing new."""
    return Card(
        uuid=named(device),
        vendor=NVIDIA.key,
        model=_text(device.attributes.get(f"{HAMI_DRIVER}/productName")),
        memory_mib=_whole(device, "memory", _MIB),
        cores=_whole(device, "cores", 1),
        slots=NO_LIMIT if device.shared else 1,
        index=_number(device.attributes.get(f"{HAMI_DRIVER}/minor")),
        cordoned=closed(device),
    )


def closed(device: Device) -> bool:
    """Whether a taint keeps claims off it that do not tolerate that."""
    return any(taint.effect in _CLOSING for taint in device.taints)


def _whole(device: Device, name: str, unit: int) -> int:
    """What there is of a capacity, in whole units; all compute where a driver says nothing."""
    found = device.capacity.get(f"{HAMI_DRIVER}/{name}")
    return max(0, int(found.value // unit)) if found else 100


def _text(value: Attribute | None) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Attribute | None) -> int:
    return value if type(value) is int and value >= 0 else 0


def hosts(devices: Iterable[Device]) -> dict[str, Host]:
    """The cards among them, by node, in order of index."""
    found: dict[str, list[Card]] = {}
    for device in devices:
        if is_card(device) and device.node:
            found.setdefault(device.node, []).append(card(device))
    return {
        name: Host(name, tuple(sorted(cards, key=lambda item: (item.index, item.uuid))))
        for name, cards in found.items()
    }


def merged(registered: Host, published: Host | None) -> Host:
    """A node that both registers cards and publishes them: the same UUID is the same card.

    What is registered stands (it knows slots and modes), with no more memory and compute than is
    published, and closed if either says so.
    """
    if published is None:
        return registered
    known = {item.uuid: item for item in published.cards}
    both = tuple(_one(item, known.pop(item.uuid, None)) for item in registered.cards)
    return replace(registered, cards=(*both, *known.values()))


def _one(registered: Card, published: Card | None) -> Card:
    if published is None:
        return registered
    return replace(
        registered,
        memory_mib=min(registered.memory_mib, published.memory_mib),
        cores=min(registered.cores, published.cores),
        cordoned=registered.cordoned or published.cordoned,
    )
