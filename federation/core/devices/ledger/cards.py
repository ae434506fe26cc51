"""What is held of the cards of one host, kept as a sum and as the parts of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from federation.core.devices.cards import (
    IDLE,
    INSTANCE,
    MIG,
    WHOLE,
    Amount,
    Card,
    CardUse,
    Host,
    HostUse,
    Slice,
)
from federation.core.devices.ledger.holding import Holding, Owner

Unnamed = Mapping[tuple[str, str], int]
"""How many cards a pod has of which it is not known which they are, by vendor and MIG profile."""


class LedgerError(RuntimeError):
    """The books are wrong: more was given back than was held."""


class Share(NamedTuple):
    """One owner's part of a card."""

    amount: Amount
    places: tuple[Slice, ...]
    mutex: bool


class HostBook:
    """The cards of a host and their holders. Cards that are held stay, registered or not: a card
    that is replaced takes its holders along, nothing moves to the card in its place.
    """

    def __init__(self, name: str) -> None:
        self.host: Host | None = None
        self._name = name
        self._shares: dict[str, dict[Owner, Share]] = {}
        self._amounts: dict[str, Amount] = {}
        self._uses: dict[str, CardUse] = {}
        self._fences: dict[str, dict[str, str]] = {}
        self._unnamed: dict[Owner, Unnamed] = {}
        self._stale: set[str] = set()
        self._use: HostUse | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self.host or self._shares or self._fences or self._unnamed)

    def register(self, host: Host | None) -> None:
        """What the node says of itself; None if it is gone."""
        old, self.host = self.host, host
        for cards in (old, host):
            self._stale.update(card.uuid for card in (cards.cards if cards else ()))
        self._use = None

    def add(self, holding: Holding) -> dict[str, Amount]:
        """Count an owner that is not counted here; what it is charged."""
        charged = holding.charge()
        for uuid, share in _shares(holding, charged).items():
            self._shares.setdefault(uuid, {})[holding.owner] = share
            self._amounts[uuid] = self._amounts.get(uuid, _NOTHING).plus(share.amount)
            self._stale.add(uuid)
        self._use = None
        return charged

    def remove(self, holding: Holding) -> dict[str, Amount]:
        """Stop counting an owner; what it was charged. LedgerError if it was not counted so."""
        charged = holding.charge()
        for uuid, share in _shares(holding, charged).items():
            counted = self._shares.get(uuid, {}).pop(holding.owner, None)
            left = self._amounts.get(uuid, _NOTHING).minus(share.amount)
            if counted != share or min(left) < 0:
                raise LedgerError(f"{self._name}, {uuid}: {holding.owner} gives back {share}")
            self._amounts[uuid] = left
            self._stale.add(uuid)
            if not self._shares[uuid]:
                del self._shares[uuid], self._amounts[uuid]
                if any(left):
                    raise LedgerError(f"{self._name}, {uuid}: {left} is held by nobody")
        self._use = None
        return charged

    def fence(self, card: str, key: str, why: str) -> bool:
        """Let nothing new to a card, or to the host if that is ''; no reason lifts the fence of
        that key. Whether that changed anything.
        """
        fences = self._fences.setdefault(card, {})
        if fences.get(key, "") == why:
            return False
        if why:
            fences[key] = why
        else:
            del fences[key]
        if not fences:
            del self._fences[card]
        self._stale.add(card)
        self._use = None
        return True

    def unnamed(self, owner: Owner, cards: Unnamed) -> bool:
        """Cards of a pod that nobody has named; whether that changed anything."""
        if self._unnamed.get(owner, {}) == cards:
            return False
        if cards:
            self._unnamed[owner] = cards
        else:
            del self._unnamed[owner]
        self._use = None
        return True

    def nameless(self) -> Mapping[Owner, Unnamed]:
        """Who has cards that nobody has named."""
        return self._unnamed

    def holders(self, uuid: str) -> Mapping[Owner, Share]:
        """Who holds a card."""
        return self._shares.get(uuid, {})

    def use(self) -> HostUse | None:
        """As it is now; None if the host is not registered."""
        if self._use is None and self.host is not None:
            for uuid in self._stale:
                self._refresh(uuid)
            self._stale.clear()
            self._use = self._whole_use(self.host)
        return self._use

    def _refresh(self, uuid: str) -> None:
        shares = self._shares.get(uuid, {})
        fences = list(self._fences.get(uuid, {}).values())
        card = self._card(uuid)
        if card is not None and card.mode == MIG:
            fences += _disorder(card, shares)
        if not shares and not fences:
            self._uses.pop(uuid, None)
            return
        self._uses[uuid] = CardUse(
            self._amounts.get(uuid, _NOTHING),
            tuple(sorted(place for share in shares.values() for place in share.places)),
            any(share.mutex for share in shares.values()),
            "; ".join(sorted(fences)),
        )

    def _card(self, uuid: str) -> Card | None:
        cards = self.host.cards if self.host else ()
        return next((card for card in cards if card.uuid == uuid), None)

    def _whole_use(self, host: Host) -> HostUse:
        uses = dict(self._uses)
        fences = list(self._fences.get("", {}).values())
        for owner, unnamed in sorted(self._unnamed.items(), key=lambda item: str(item[0])):
            for (vendor, profile), count in sorted(unnamed.items()):
                free = [card for card in host.cards if _takes(card, vendor, profile, uses)]
                for card in free[:count]:
                    uses[card.uuid] = CardUse(Amount(card.slots, card.memory_mib, card.cores))
                if len(free) < count:
                    fences.append(f"pod {owner} has cards here, and nobody noted which")
        return HostUse(host, uses, "; ".join(sorted(fences)))


_NOTHING = Amount()


def _shares(holding: Holding, charged: Mapping[str, Amount]) -> dict[str, Share]:
    """By card: what an owner is charged, and places that it keeps without being charged."""
    places = holding.occupied()
    return {
        uuid: Share(
            charged.get(uuid, _NOTHING), places.get(uuid, ()), holding.mutex and uuid in charged
        )
        for uuid in {**charged, **places}
    }


def _takes(card: Card, vendor: str, profile: str, uses: Mapping[str, CardUse]) -> bool:
    """Whether a pod that took whole cards as they came may have this one."""
    mode = INSTANCE if profile else WHOLE
    if card.vendor != vendor or card.mode != mode or uses.get(card.uuid, IDLE).amount.slots:
        return False
    return not profile or any(profile == own.name for own in card.profiles)


def _disorder(card: Card, shares: Mapping[Owner, Share]) -> Iterator[str]:
    """What makes the places on a MIG card impossible to rely on."""
    allowed = {
        Slice(profile.name, *place) for profile in card.profiles for place in profile.placements
    }
    taken: list[tuple[Owner, Slice]] = []
    for owner, share in sorted(shares.items(), key=lambda item: str(item[0])):
        if not share.places:
            yield f"pod {owner} is on the card, and its place is not known"
        for place in share.places:
            if place not in allowed:
                yield f"pod {owner} is at {place}, which the card does not have"
            for other, theirs in taken:
                if other != owner and _overlap(place, theirs):
                    yield f"pods {other} and {owner} are at the same place"
            taken.append((owner, place))


def _overlap(one: Slice, other: Slice) -> bool:
    return one.start < other.start + other.size and other.start < one.start + one.size
