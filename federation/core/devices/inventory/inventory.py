"""The cards of a node: what it registers, what it has as capacity, how node groups cut them.

What cannot be read closes the node for new work, with a sentence that says what to do; the caller
goes on counting what it knew of it (`carried`). A registration goes before the capacity, in which
HAMi's plugin shows each card many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from federation.core.devices.cards import HAMI_CORE, MIG, Card, Host
from federation.core.devices.inventory.capacity import of_capacity, plain
from federation.core.devices.inventory.node_facts import NodeFacts
from federation.core.devices.inventory.node_groups import NodeGroup, group_of
from federation.core.devices.wire.registration import (
    CORDON,
    LINKS,
    decode,
    decode_cordon,
    decode_links,
)
from federation.core.devices.wire.undecodable import shown
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Form, Vendor, Vendors

_MIG_STATE: Final = "nvidia.com/mig.config.state"
_CHANGING: Final = ("pending", "rebooting")


@dataclass(frozen=True, slots=True)
class HostReading:
    """A host, why nothing new may go to it ('' if it may), and what else people should know.

    `unread` are keys of vendors of whose cards nothing is known now; `host` has none of them.
    """

    host: Host
    fence: str = ""
    problems: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Notes:
    fences: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)


def read_host(
    node: NodeFacts, groups: Iterable[NodeGroup] = (), vendors: Vendors = VENDORS
) -> HostReading:
    """The cards of a node. Never raises: what is wrong is told in the reading."""
    notes = _Notes()
    if node.unschedulable:
        notes.fences.append("the node is cordoned: kubectl uncordon it")
    if node.labels.get(_MIG_STATE) in _CHANGING:
        notes.fences.append("the MIG instances of the node are being changed: wait for the end")
    group = _group(node, groups, notes)
    cards: list[Card] = []
    for vendor in vendors:
        cards += _of_vendor(node, vendor, group, notes)
    cards = list(_once(cards, notes))
    cards = _cordoned(node, [_cut(card, group, notes) for card in cards], notes)
    cards.sort(key=lambda card: card.index)
    host = Host(node.name, tuple(cards), _links(node, notes))
    return HostReading(
        host, "; ".join(notes.fences), tuple(notes.problems), frozenset(notes.unread)
    )


def carried(reading: HostReading, before: Host | None) -> Host:
    """The host with the cards of vendors that cannot be read now as they were last known."""
    if before is None or not reading.unread:
        return reading.host
    have = {card.uuid for card in reading.host.cards}
    kept = [c for c in before.cards if c.vendor in reading.unread and c.uuid not in have]
    cards = sorted((*reading.host.cards, *kept), key=lambda card: card.index)
    return Host(reading.host.name, tuple(cards), {**before.links, **reading.host.links})


def _group(node: NodeFacts, groups: Iterable[NodeGroup], notes: _Notes) -> NodeGroup | None:
    try:
        return group_of(groups, node.labels)
    except ValueError as error:
        notes.fences.append(str(error))
        return None


def _of_vendor(
    node: NodeFacts, vendor: Vendor, group: NodeGroup | None, notes: _Notes
) -> tuple[Card, ...]:
    text = node.annotations.get(vendor.register) if vendor.register else None
    try:
        if text is not None:
            cards = decode(text, vendor)
            notes.problems += _remarks(cards, vendor)
        elif vendor.form is Form.CAPACITY:
            cards = of_capacity(vendor, node)
        elif vendor.handshake in node.annotations or not vendor.capacity_id:
            _unregistered(node, vendor, notes)
            return ()
        else:
            cards = plain(vendor, node, group)
    except ValueError as error:
        where = f"annotation {vendor.register}" if text is not None else f"capacity of {vendor.key}"
        notes.unread.add(vendor.key)
        notes.fences.append(
            f"{where} cannot be read: {error}. Nothing new is placed here until it can: check the"
            f" device plugin of {vendor.key} on the node"
        )
        return ()
    if vendor.key in node.lost and cards:
        notes.problems.append(
            f"the device plugin of {vendor.key} does not answer and offers no card: its cards get"
            " nothing new"
        )
        return tuple(replace(card, healthy=False) for card in cards)
    return cards


def _unregistered(node: NodeFacts, vendor: Vendor, notes: _Notes) -> None:
    """Capacity of a HAMi plugin is no number of cards: each shows as many as may share it."""
    if not node.amount(vendor.count):
        return
    said = f"the node has {vendor.count}, but no annotation {vendor.register} that tells its cards"
    if vendor.handshake in node.annotations:
        notes.unread.add(vendor.key)
        notes.fences.append(f"{said}: restart HAMi's device plugin of {vendor.key} there")
    else:
        notes.problems.append(f"{said}: they are not counted")


def _remarks(cards: tuple[Card, ...], vendor: Vendor) -> Iterator[str]:
    """One sentence of each sort, however many cards it is about."""
    cut = [card for card in cards if card.mode == MIG and not card.profiles]
    if cut:
        yield (
            f"{_named(cut)} in MIG mode without profiles: nothing new goes there; HAMi before 2.10"
            " registers so: update its device plugin"
        )
    word = vendor.model_word
    strange = [card for card in cards if word.lower() not in card.model.lower()]
    if strange:
        yield (
            f"{_named(strange)} registered as {shown(strange[0].model)}: HAMi's scheduler offers it"
            f" to nobody, because {word} is not in that text"
        )


def _named(cards: list[Card]) -> str:
    more = f" (and {len(cards) - 1} others)" if len(cards) > 1 else ""
    return f"card {cards[0].uuid}{more} is"


def _once(cards: Iterable[Card], notes: _Notes) -> Iterator[Card]:
    """Each UUID once: two vendors with the same would be counted as one."""
    seen: dict[str, str] = {}
    for card in cards:
        if card.uuid not in seen:
            seen[card.uuid] = card.vendor
            yield card
        else:
            notes.unread.add(card.vendor)
            notes.fences.append(
                f"{seen[card.uuid]} and {card.vendor} both register the card {card.uuid}: remove"
                " the registration that is not true"
            )


def _cut(card: Card, group: NodeGroup | None, notes: _Notes) -> Card:
    """A registered card as its node group cuts it; compute stays what its plugin allows."""
    if not group or not group.cuts or card.vendor != group.vendor or card.mode != HAMI_CORE:
        return card
    size = group.size_of(card.memory_mib)
    fitting = card.memory_mib // size if size else 0
    if group.slices and fitting > group.slices:
        fitting = group.slices
    if fitting < max(group.slices, 1):
        many = group.slices or "any"
        notes.problems.append(
            f"node group {group.name} cuts cards to {many} slices of {size} MiB, of which card"
            f" {card.uuid} with {card.memory_mib} MiB has {fitting}"
        )
    return replace(card, slots=min(card.slots, fitting), sizes=(size,))


def _cordoned(node: NodeFacts, cards: list[Card], notes: _Notes) -> list[Card]:
    text = node.annotations.get(CORDON)
    if not text:
        return cards
    try:
        closed = decode_cordon(text)
    except ValueError as error:
        notes.fences.append(f"annotation {CORDON} cannot be read: {error}. Write UUIDs and commas")
        return cards
    if strange := sorted(closed - {card.uuid for card in cards}):
        notes.problems.append(
            f"annotation {CORDON} names {shown(strange[0])}, which is no card of the node"
        )
    return [replace(c, cordoned=True) if c.uuid in closed else c for c in cards]


def _links(node: NodeFacts, notes: _Notes) -> dict[tuple[str, str], int]:
    """Scores of pairs of cards. They are preferences: without them the node is as usable."""
    try:
        return decode_links(node.annotations[LINKS]) if node.annotations.get(LINKS) else {}
    except ValueError as error:
        notes.problems.append(f"annotation {LINKS} cannot be read and is ignored: {error}")
        return {}
