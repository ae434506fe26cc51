"""Cards of nodes that say nothing but how many there are: they get made-up UUIDs.

HAMi names those of some vendors itself, and pods can choose them by these names. Plain NVIDIA
cards, and instances that the GPU operator cuts by MIG, are named here only: which one a pod gets is
up to the kubelet, but not how many. Of cards that the kubelet found unsound it is not known which
they are; the last ones stand for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from federation.core.devices.asking.amounts import whole
from federation.core.devices.cards import INSTANCE, SLICE, WHOLE, Card, MigProfile, profile_sizes
from federation.core.devices.inventory.node_facts import NodeFacts
from federation.core.devices.inventory.node_groups import NodeGroup
from federation.core.devices.wire.undecodable import MOST, UndecodableError, clean
from federation.core.devices.wire.vendors import Vendor
from federation.core.quantity import QuantityError

_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_GIB: Final = 1024


def of_capacity(vendor: Vendor, node: NodeFacts) -> tuple[Card, ...]:
    """The cards of a vendor whose plugin registers none, as HAMi builds them from the capacity.
    Raises ValueError for amounts that are none.
    """
    if vendor.cores and not vendor.only_whole:
        cores = node.amount(vendor.cores)
        count, usable = (
            -(-amount // vendor.card_cores) for amount in (cores, node.usable(vendor.cores))
        )
        memory = node.amount(vendor.memory) * vendor.mib_per_unit * vendor.card_cores
        memory //= max(cores, 1)
    else:
        count, usable, memory = *_counts(node, vendor.count), vendor.capacity_mib
    card = Card(
        "",
        vendor.key,
        vendor.key,
        memory,
        vendor.card_cores,
        1 if vendor.only_whole else vendor.capacity_slots,
    )
    cards = _numbered(card, f"{node.name}-{vendor.capacity_id}", count, usable)
    if vendor.groups_of_numa > 1:
        per_group = max(count // vendor.groups_of_numa, 1)
        return tuple(
            replace(card, numa=min(card.index // per_group, vendor.groups_of_numa - 1))
            for card in cards
        )
    return cards


def plain(vendor: Vendor, node: NodeFacts, group: NodeGroup | None) -> tuple[Card, ...]:
    """Cards that a plain device plugin counts, and MIG instances that it counts by profile.

    With time slicing each replica counts as a card with its part of the memory; in a node group
    that cuts cards, each slice. Memory is 0 where the GPU operator's labels do not tell.
    """
    count, usable = _counts(node, vendor.count)
    model = clean(node.labels.get(_PRODUCT, vendor.key), _PRODUCT)
    memory = _label(node, _MEMORY) // max(_label(node, _REPLICAS), 1)
    if group is not None and group.cuts and group.vendor == vendor.key:
        memory = group.size_of(_label(node, _MEMORY))
        card = Card("", vendor.key, model, memory, group.cores, 1, mode=SLICE)
        card = replace(card, sizes=(memory,) if memory else ())
    else:
        card = Card("", vendor.key, model, memory, 100, 1, mode=WHOLE)
    cards = _numbered(card, f"{node.name}-{vendor.capacity_id}", count, usable)
    return (*cards, *_instances(vendor, node))


def _instances(vendor: Vendor, node: NodeFacts) -> Iterator[Card]:
    for resource in sorted(node.capacity):
        profile = vendor.profile(resource)
        if not profile:
            continue
        memory = _label(node, f"{resource}.memory")
        slices, gigabytes = profile_sizes(profile) or (1, 0)
        memory = memory or gigabytes * _GIB
        made = MigProfile(profile, memory, 100, slices, ((0, 1),))
        model = clean(node.labels.get(f"{resource}.product", f"{vendor.key} MIG {profile}"), "")
        card = Card("", vendor.key, model, memory, 100, 1, mode=INSTANCE, profiles=(made,))
        yield from _numbered(card, f"{node.name}-mig-{profile}", *_counts(node, resource))


def _counts(node: NodeFacts, resource: str) -> tuple[int, int]:
    return node.amount(resource), node.usable(resource)


def _numbered(card: Card, name: str, count: int, usable: int) -> tuple[Card, ...]:
    if count > MOST:
        raise UndecodableError(f"a node with {count} cards: more than {MOST} are not believed")
    return tuple(
        replace(card, uuid=f"{name}-{number}", index=number, healthy=number < usable)
        for number in range(count)
    )


def _label(node: NodeFacts, key: str) -> int:
    """A number in a label; 0 if it is not there or none. Labels are descriptions, hence an odd one
    does not close the node.
    """
    try:
        return whole(node.labels.get(key, "0"))
    except QuantityError:
        return 0
