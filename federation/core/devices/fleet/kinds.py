"""The kinds of cards there are, and how many of each: common to all fleets that are compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from federation.core.devices.cards import Card


class Kinds:
    """A kind is what cards have in common that only their use tells apart. `cards` has one of
    each, without UUID; `supply` how many there are. `version` grows when either is seen to differ.
    """

    def __init__(self) -> None:
        self.cards: list[Card] = []
        self.supply: list[int] = []
        self._version = 0
        self._seen: list[int] = []
        self._numbers: dict[object, int] = {}

    def __len__(self) -> int:
        """How many kinds there are."""
        return len(self.cards)

    def number(self, card: Card) -> int:
        """The number of a card's kind."""
        key = (
            *(card.vendor, card.model, card.memory_mib, card.cores),
            *(card.slots, card.mode, card.profiles, card.sizes),
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.cards)
            self.cards.append(replace(card, uuid="", index=0, numa=0, healthy=True, cordoned=False))
            self.supply.append(0)
        return number

    @property
    def version(self) -> int:
        """A host that is replaced by one of the same kinds leaves it as it is."""
        if self._seen != self.supply:
            self._seen = self.supply[:]
            self._version += 1
        return self._version

    def count(self, gone: Iterable[Card], come: Iterable[Card]) -> None:
        """Cards of a host that went, and that came."""
        change: dict[int, int] = {}
        for sign, cards in ((-1, gone), (1, come)):
            for card in cards:
                number = self.number(card)
                change[number] = change.get(number, 0) + sign
        for number, count in change.items():
            self.supply[number] += count
