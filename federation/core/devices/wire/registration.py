"""What device plugins write about the cards of a node: annotation text to cards.

Go leaves zero values out: without `health` a card is unhealthy, without `index` and `numa` they
are 0, without `count` nobody may use it. Memory and cores are registered already scaled (HAMi's
deviceMemoryScaling, deviceCoreScaling), so nothing is computed here. All functions raise
UndecodableError with the field and what is wrong, whatever the text is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from federation.core.booleans import parse_bool
from federation.core.devices.cards import HAMI_CORE, Card, MigProfile
from federation.core.devices.wire.undecodable import (
    INT32,
    MOST,
    UndecodableError,
    bounded,
    clean,
    flag,
    identifier,
    integer,
    listed,
    objects,
    shown,
    whole,
    within,
    words,
)
from federation.core.devices.wire.vendors import Form, Vendor

CORDON: Final = "hami.io/device-cordon"
LINKS: Final = "hami.io/node-nvidia-score"
MOST_SLICES: Final = 16
"""Memory slices of one card; real ones have 4 or 8."""
MOST_PROFILES: Final = 64


def decode(text: str, vendor: Vendor) -> tuple[Card, ...]:
    """The cards of a registration, in order of index.

    JSON and the colon form are told apart by the text, since old plugins of every vendor write
    the latter. A UUID that is there twice is an error. `migtemplate`, by which HAMi before 2.10
    tells how it cuts MIG cards as a whole, is not read: such cards come without profiles.
    """
    bounded(text)
    if vendor.form is Form.METAX:
        cards = _entries(text, vendor, _metax)
    elif text.lstrip()[:1] in ("[", "{") or text.strip() == "null":
        cards = _entries(text, vendor, _card)
    else:
        cards = _colon(text, vendor)
    seen: set[str] = set()
    for card in cards:
        if card.uuid in seen:
            raise UndecodableError(f"the card {shown(card.uuid)} is there twice")
        seen.add(card.uuid)
    return tuple(sorted(cards, key=lambda card: card.index))


Read = Callable[[Mapping[str, Any], Vendor, int], Card]


def _entries(text: str, vendor: Vendor, read: Read) -> list[Card]:
    cards = []
    for number, item in enumerate(objects(text)):
        try:
            cards.append(read(item, vendor, number))
        except UndecodableError as error:
            raise UndecodableError(f"card {number}: {error}") from None
    return cards


def _card(item: Mapping[str, Any], vendor: Vendor, _: int) -> Card:
    return Card(
        uuid=identifier(words(item, "id"), "id"),
        vendor=vendor.key,
        model=words(item, "type"),
        memory_mib=integer(item, "devmem"),
        cores=_cores(integer(item, "devcore"), vendor),
        slots=integer(item, "count"),
        index=integer(item, "index"),
        numa=integer(item, "numa", -INT32),
        mode=words(item, "mode") or HAMI_CORE,
        healthy=flag(item, "health"),
        profiles=_profiles(listed(item.get("migProfiles"), "migProfiles")),
        units=integer(item, "devcore") if vendor.compute_units else 0,
    )


def _cores(registered: int, vendor: Vendor) -> int:
    """As registered; in percent where that is compute units, or nothing and not to be shared."""
    return 100 if vendor.compute_units or not (registered or vendor.cores) else registered


def _metax(item: Mapping[str, Any], vendor: Vendor, number: int) -> Card:
    return Card(
        uuid=identifier(words(item, "uuid"), "uuid"),
        vendor=vendor.key,
        model=words(item, "model") or vendor.key,
        memory_mib=integer(item, "totalVRam"),
        cores=integer(item, "totalCompute"),
        slots=integer(item, "totalDevCount"),
        index=number,
        numa=integer(item, "numa", -INT32),
        healthy=flag(item, "healthy"),
    )


def _profiles(items: list[Mapping[str, Any]]) -> tuple[MigProfile, ...]:
    if len(items) > MOST_PROFILES:
        raise UndecodableError(f"migProfiles has {len(items)} entries, more than {MOST_PROFILES}")
    profiles = tuple(map(_profile, items))
    if len({profile.name for profile in profiles}) < len(profiles):
        raise UndecodableError("migProfiles has a name twice")
    return profiles


def _profile(item: Mapping[str, Any]) -> MigProfile:
    name = words(item, "name")
    if not name:
        raise UndecodableError("a MIG profile has no name")
    try:
        return MigProfile(
            name,
            integer(item, "memoryMB", 1),
            integer(item, "core"),
            integer(item, "sliceCount", 0, MOST_SLICES),
            tuple(map(placement, listed(item.get("placements"), "placements"))),
        )
    except UndecodableError as error:
        raise UndecodableError(f"MIG profile {shown(name)}: {error}") from None


def placement(item: Mapping[str, Any]) -> tuple[int, int]:
    """Start and size of a MIG instance, in memory slices."""
    start = integer(item, "start", 0, MOST_SLICES - 1)
    size = integer(item, "size", 1, MOST_SLICES)
    within(start + size, "start and size together", 1, MOST_SLICES)
    return start, size


def _colon(text: str, vendor: Vendor) -> list[Card]:
    if ":" not in text:
        raise UndecodableError(f"{shown(text)} is no list of cards: each ends with a colon")
    parts = [part for part in text.split(":") if part.strip()]
    if not parts:
        raise UndecodableError("it has separators only")
    if len(parts) > MOST:
        raise UndecodableError(f"it has {len(parts)} cards, more than {MOST}")
    cards = []
    for number, part in enumerate(parts):
        try:
            cards.append(_fields(part.split(","), vendor))
        except UndecodableError as error:
            raise UndecodableError(f"card {number}: {error}") from None
    return cards


def _fields(fields: list[str], vendor: Vendor) -> Card:
    if len(fields) not in (7, 9):
        raise UndecodableError(
            f"it has {len(fields)} fields, not 7 (id,count,memory,cores,type,numa,health) or 9"
            " (index,mode after them)"
        )
    uuid, count, memory, cores, model, numa, health, *more = fields
    try:
        healthy = parse_bool(health)
    except ValueError:
        raise UndecodableError(f"health is {shown(health)}, not true or false") from None
    return Card(
        uuid=identifier(uuid, "id"),
        vendor=vendor.key,
        model=clean(model, "type"),
        memory_mib=whole(memory, "memory"),
        cores=whole(cores, "cores"),
        slots=whole(count, "count"),
        index=whole(more[0], "index") if more else 0,
        numa=whole(numa, "numa", -INT32),
        mode=(clean(more[1], "mode") if more else "") or HAMI_CORE,
        healthy=healthy,
    )


def decode_links(text: str) -> dict[tuple[str, str], int]:
    """Scores of pairs of cards under both orders. A pair that its two cards score differently is
    left out, as is one of score 0; one that only one of them tells of has that score.
    """
    told: dict[tuple[str, str], int] = {}
    for item in objects(text):
        one = words(item, "uuid")
        scores = item.get("score") or {}
        if not isinstance(scores, dict):
            raise UndecodableError(f"score of {shown(one)} is {shown(scores)}, not an object")
        if len(told) + len(scores) > MOST * 8:
            raise UndecodableError(f"it scores more than {MOST * 8} pairs")
        for other in scores:
            told[one, other] = integer(scores, other, -INT32)
    return {
        (a, b): score
        for one, other in told
        if one != other and (score := told[one, other]) and told.get((other, one), score) == score
        for a, b in ((one, other), (other, one))
    }


def decode_cordon(text: str) -> frozenset[str]:
    """UUIDs of cards that get no new work; blanks and stray commas are nothing."""
    return frozenset(word for part in bounded(text).split(",") if (word := part.strip()))
