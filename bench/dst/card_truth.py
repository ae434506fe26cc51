"""What containers really have of cards, and what must hold of that at every moment.

Amounts are those that people asked for, not what the system under test wrote anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Card(NamedTuple):
    """Where a card is."""

    cluster: str
    node: str
    uuid: str


class Limits(NamedTuple):
    """What one card has, or what is used of it."""

    slots: int
    memory: int
    cores: int


@dataclass(frozen=True, slots=True)
class Ask:
    """So many different cards for each pod, MiB and percent of the compute of each. `limits` is how
    people write it.
    """

    cards: int
    memory: int
    cores: int
    limits: Mapping[str, str]


class Pin(NamedTuple):
    """Node and cards (UUIDs, in order) that a pod was let go to."""

    node: str
    cards: tuple[str, ...]


@dataclass
class CardTruth:
    """`violate` hears of every broken rule: (rule, text)."""

    violate: Callable[[str, str], None]
    limits: dict[Card, Limits] = field(default_factory=dict)
    """All cards there are."""
    holders: dict[Card, dict[str, Ask]] = field(default_factory=dict)
    """What the containers on each card have of it, by UID of their pod."""
    pins: dict[str, Pin] = field(default_factory=dict)
    """Where each pod was let go to, by UID."""
    begun = shared = 0
    """How many pods had cards, and how many of them one that others were on."""

    def pinned(self, uid: str, name: str, ask: Ask, pin: Pin | None) -> None:
        """A pod has no gate any more."""
        if pin is None or not pin.node or len(set(pin.cards)) != ask.cards:
            self.violate("pins", f"pod {name} asks for {ask.cards} cards and is let go to {pin}")
        elif self.pins.setdefault(uid, pin) != pin:
            self.violate("pins", f"pod {name} was let go to {self.pins[uid]} and then to {pin}")

    def begin(self, cluster: str, uid: str, name: str, ask: Ask, pin: Pin) -> None:
        """A container starts on these cards."""
        known = self.pins.get(uid)
        if pin != known:
            self.violate("pins", f"pod {name} runs on {pin}, and was let go to {known}")
        self.begun += 1
        places = [Card(cluster, pin.node, uuid) for uuid in pin.cards]
        self.shared += any(self.holders.get(card) for card in places)
        for card in places:
            if card not in self.limits:
                self.violate("pins", f"pod {name} runs on {card}, which there is not")
                continue
            self.holders.setdefault(card, {})[uid] = ask
            self._check(card, name)

    def end(self, uid: str) -> None:
        """A container is gone; unknown ones are ignored."""
        for holders in self.holders.values():
            holders.pop(uid, None)

    def _check(self, card: Card, name: str) -> None:
        asks, has = self.holders[card].values(), self.limits[card]
        used = Limits(len(asks), sum(a.memory for a in asks), sum(a.cores for a in asks))
        if any(taken > total for taken, total in zip(used, has, strict=True)):
            self.violate("cards", f"{card} has {has}; with pod {name} {used} are used")
