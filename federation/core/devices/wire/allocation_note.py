"""What stands on a pod about its cards: annotation text to grants, and back.

A card is `uuid,TYPE,MiB,cores` and a colon, a container its cards and a semicolon; init containers
come first. The text ends with a semicolon, hence it decodes to one empty entry more than there are
containers, and every rewrite by a device plugin appends another; HAMi leaves out entries of
containers before the first that has cards (defect d01). Therefore `of_containers`: entries that
have cards belong, in order, to the containers that ask for some.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from federation.core.devices.cards import Allocation, Grant
from federation.core.devices.wire.mig_note import MigEntry
from federation.core.devices.wire.undecodable import (
    MOST,
    UndecodableError,
    bounded,
    clean,
    identifier,
    shown,
    whole,
)

NODE: Final = "hami.io/vgpu-node"
"""Annotation and label: the node that the cards are of."""
TIME: Final = "hami.io/vgpu-time"
BIND_PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"


def decode(text: str) -> Allocation:
    """The entries of a text as they stand, empty ones too. Raises UndecodableError.

    More than four fields of a card are ignored, as HAMi does. `GPU-1[2-3]`, an instance of MIG
    templates before HAMi 2.10, is the UUID as it stands; see `physical`.
    """
    if bounded(text).count(";") > MOST or text.count(":") > MOST:
        raise UndecodableError(f"it has more than {MOST} containers or cards")
    if not text:
        return ()
    return tuple(
        tuple(_grant(card, number) for card in entry.split(":") if card.strip())
        for number, entry in enumerate(text.split(";"))
    )


def _grant(text: str, container: int) -> Grant:
    fields = text.split(",")
    where = f"container {container}, card {shown(text)}"
    if len(fields) < 4:
        raise UndecodableError(f"{where}: it has {len(fields)} of uuid,type,memory,cores")
    try:
        return Grant(
            identifier(fields[0], "uuid"),
            clean(fields[1], "type"),
            whole(fields[2], "memory"),
            whole(fields[3], "cores"),
        )
    except UndecodableError as error:
        raise UndecodableError(f"{where}: {error}") from None


def encode(allocation: Iterable[Sequence[Grant]]) -> str:
    """The text of one entry per container. ValueError if a grant cannot be written: a type with a
    separator, or a negative amount.
    """
    return "".join("".join(map(_card, grants)) + ";" for grants in allocation)


def _card(grant: Grant) -> str:
    identifier(grant.uuid, "uuid")
    if any(char in ",:;" for char in grant.vendor):
        raise UndecodableError(f"the type {shown(grant.vendor)} has a comma, colon or semicolon")
    if grant.memory_mib < 0 or grant.cores < 0:
        raise UndecodableError(f"the card {grant.uuid} would be given less than nothing")
    return f"{grant.uuid},{grant.vendor},{grant.memory_mib},{grant.cores}:"


def of_containers(entries: Allocation, cards: Sequence[int]) -> Allocation:
    """The grants of each container: `cards` says how many cards each asks for, 0 if none.

    Raises UndecodableError if the entries that have cards are not as many as the containers that
    ask for some. How many cards each got is not compared: some vendors give more than asked.
    """
    given = [entry for entry in entries if entry]
    asking = [number for number, count in enumerate(cards) if count]
    if len(given) != len(asking):
        said = f"{len(given)} containers have cards, {len(asking)} ask for some"
        raise UndecodableError(f"{said}: it is not of this pod")
    by_number = dict(zip(asking, given, strict=True))
    return tuple(by_number.get(number, ()) for number in range(len(cards)))


def of_vendors(pods: Iterable[Allocation]) -> Allocation:
    """The grants of a pod that has cards of several vendors, from one allocation per vendor."""
    joined: list[tuple[Grant, ...]] = []
    for allocation in pods:
        joined += [()] * (len(allocation) - len(joined))
        for number, grants in enumerate(allocation):
            joined[number] += grants
    return tuple(joined)


def physical(uuid: str) -> str:
    """The UUID of the card that an old MIG instance is on: GPU-1 of GPU-1[2-3]."""
    head, bracket, tail = uuid.partition("[")
    template, dash, slot = tail.removesuffix("]").partition("-")
    is_old = bracket and dash and tail.endswith("]") and template.isdigit() and slot.isdigit()
    return head if is_old and head else uuid


def with_slices(allocation: Allocation, entries: Iterable[MigEntry]) -> Allocation:
    """The grants with their place on MIG cards. Raises UndecodableError if an entry speaks of a
    container or card that has no grant, or of another card.
    """
    places = {(entry.container, entry.device): entry for entry in entries}
    placed = []
    for number, grants in enumerate(allocation):
        row = []
        for device, grant in enumerate(grants):
            entry = places.pop((number, device), None)
            if entry is not None and entry.uuid != grant.uuid:
                said = f"container {number}, device {device} is on {shown(entry.uuid)}"
                raise UndecodableError(f"{said} for MIG, but was given {shown(grant.uuid)}")
            row.append(grant._replace(slice=entry.slice) if entry else grant)
        placed.append(tuple(row))
    if places:
        container, device = min(places)
        raise UndecodableError(
            f"container {container}, device {device} has a MIG instance but no card"
        )
    return tuple(placed)
