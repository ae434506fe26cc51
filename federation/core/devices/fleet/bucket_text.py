"""The cards of a node as one short text: what they are, by number of a list, and what is free.

`4*0 0@1:20480/70/9 1:30208/86/6[0.0.1]!` are four idle cards of kind 0; one on NUMA node 1 with
20,480 MiB, 70 cores and 9 slots free; a MIG card with an instance of its profile 0 at slice 0, one
slice large, that takes nothing new (`!`). The order is that of the cards on the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from federation.core.devices.cards import Amount, Card, CardUse, Slice

MOST_CARDS: Final = 128
"""On one node; those with more are not told, and a text that tells of more is not believed."""

_TOKEN: Final = re.compile(
    r"(?:(\d{1,4})\*)?(\d{1,4})(?:@(-?\d{1,4}))?"
    r"(?::(-?\d{1,12})/(-?\d{1,9})/(-?\d{1,9}))?(?:\[([\d.,]+)\])?(!)?"
)
_TIMES: Final = re.compile(r"(\d{1,4})\*")
_PLACE: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")


class CardState(NamedTuple):
    """A card: number of its kind, NUMA node, what is used of it, whether it takes nothing new."""

    kind: int
    numa: int
    used: Amount
    slices: tuple[Slice, ...] = ()
    shut: bool = False


def state_of(card: Card, kind: int, use: CardUse, *, shut: bool) -> CardState:
    """As it will be told. A place of a profile that the card does not list cannot be told, and
    shuts it.
    """
    names = {profile.name for profile in card.profiles}
    told = tuple(sorted(place for place in use.slices if place.profile in names))
    shut = shut or len(told) < len(use.slices) or not use.open(card)
    return CardState(kind, card.numa, use.amount, told, shut)


def encode(cards: Sequence[CardState], kinds: Sequence[Card]) -> str:
    """The text; `kinds` by number."""
    return " ".join(
        (f"{len(alike)}*" if len(alike) > 1 else "") + _token(card, kinds[card.kind])
        for card, alike in ((card, list(group)) for card, group in groupby(cards))
    )


def _token(card: CardState, kind: Card) -> str:
    text = f"{card.kind}@{card.numa}" if card.numa else str(card.kind)
    if card.used != Amount():
        text += f":{kind.memory_mib - card.used.memory_mib}/{kind.cores - card.used.cores}"
        text += f"/{kind.slots - card.used.slots}"
    if card.slices:
        number = {profile.name: n for n, profile in enumerate(kind.profiles)}
        places = (f"{number[p.profile]}.{p.start}.{p.size}" for p in card.slices)
        text += f"[{','.join(places)}]"
    return text + "!" * card.shut


def decode(text: str, kinds: Sequence[Card]) -> tuple[CardState, ...]:
    """What was encoded. ValueError, with the piece that is wrong."""
    cards: list[CardState] = []
    for piece in text.split():
        found = _TOKEN.fullmatch(piece)
        if found is None or int(found[2]) >= len(kinds):
            raise ValueError(f"{piece[:80]!r} tells of no card")
        kind = kinds[int(found[2])]
        used = Amount()
        if found[4] is not None:
            memory, cores, slots = (int(found[group]) for group in (4, 5, 6))
            used = Amount(kind.slots - slots, kind.memory_mib - memory, kind.cores - cores)
        if min(used) < 0:
            raise ValueError(f"{piece[:80]!r} has more free than there is of the card")
        places = tuple(_places(found[7] or "", kind))
        card = CardState(int(found[2]), int(found[3] or 0), used, places, bool(found[8]))
        cards += [card] * int(found[1] or 1)
        if len(cards) > MOST_CARDS:
            raise ValueError(f"more than {MOST_CARDS} cards on one node")
    return tuple(cards)


def width(text: str) -> int:
    """How many cards a text tells of, right or wrong."""
    return sum(int(found[1]) if (found := _TIMES.match(piece)) else 1 for piece in text.split())


def _places(text: str, kind: Card) -> Iterator[Slice]:
    for piece in filter(None, text.split(",")):
        found = _PLACE.fullmatch(piece)
        if found is None or int(found[1]) >= len(kind.profiles):
            raise ValueError(f"{piece[:80]!r} is no place of a MIG profile of the card")
        yield Slice(kind.profiles[int(found[1])].name, int(found[2]), int(found[3]))
