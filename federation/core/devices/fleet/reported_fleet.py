"""The hosts of a cluster as its report tells them, less what was offered since.

Hosts have no names there: those given here stand for one of a class. What was offered is placed
again whenever a report comes that does not count it yet, for the hosts it was placed on may be
told otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from federation.core.devices.cards import Card, CardUse, Host, HostUse
from federation.core.devices.fleet.bucket_text import CardState, decode, width
from federation.core.devices.fleet.buckets import Classes, Site
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.types import Gang, NoPlace, Placement, Room, Shape

MOST_HOSTS: Final = 50_000
"""In one report; of more it is not believed."""
MOST_CARDS: Final = 2_000_000
"""In one report, were all hosts as wide as the widest: so much room is taken for them."""
CLOSED: Final = "the report says that it takes nothing new"

_Key = tuple[Site, tuple[int, ...], str]


class ReportedFleet:
    """See the module. Fleets whose scores are compared share strategy and kinds."""

    def __init__(self, strategy: Strategy, kinds: Kinds) -> None:
        self.fleet = Fleet(strategy, kinds)
        self.vendors: frozenset[str] = frozenset()
        """Whose cards are given out one by one there, though there may be none now."""
        self._cards: tuple[Card, ...] = ()
        self._resources: tuple[str, ...] = ()
        self._omitted: frozenset[str] = frozenset()
        self._names: dict[_Key, list[str]] = {}
        self._numbers = count()
        self._offers: dict[str, tuple[Gang, list[Placement]]] = {}

    def report(self, classes: Classes, vendors: Collection[str] = ()) -> None:
        """Take over a report: only classes that differ from those before. Afterwards all offers
        that were not released count beside it. `vendors` are those of `self.vendors` whose cards
        need not be there. ValueError, and nothing changed, if it is none.
        """
        wanted = _counts(classes)
        same = (self._cards, self._resources) == (classes.cards, classes.resources)
        known = {key: len(names) for key, names in self._names.items()} if same else {}
        cards = {
            key: decode(key[2], classes.cards)
            for key, number in wanted.items()
            if number > known.get(key, 0)
        }
        self._withdraw()
        self._cards, self._resources = classes.cards, classes.resources
        self._omitted = frozenset(classes.omitted)
        self.vendors = frozenset(card.vendor for card in classes.cards).union(vendors)
        for key in list(self._names):
            self._shrink(key, wanted.get(key, 0) if same else 0)
        for key, states in cards.items():
            self._grow(key, wanted[key], states)
        for uid, (gang, _) in self._offers.items():
            self._offers[uid] = gang, self._taken(self.place(gang))

    def place(self, gang: Gang) -> list[Placement] | NoPlace:
        """Places for a whole gang, or none. Changes nothing. What the report does not tell (UUIDs,
        labels of which every node has its own, resources that no node has) is taken to suit: the
        agent will know.
        """
        asked = [(self._asked(shape), pods) for shape, pods in gang]
        return self.fleet.place_gang(asked)

    def offer(self, uid: str, gang: Gang, places: Sequence[Placement]) -> None:
        """Count a gang at the places that were found for it just now, until a report counts it."""
        self.release(uid)
        self._offers[uid] = gang, self._taken(places)

    def keep(self, uid: str, gang: Gang) -> None:
        """Go on counting an offer. Reports may have come since its places were found, so that one
        which is not known is placed anew.
        """
        known = self._offers.get(uid)
        if known is None or known[0] != gang:
            self.release(uid)
            self._offers[uid] = gang, self._taken(self.place(gang))

    def release(self, uid: str) -> None:
        """An offer is in the report now, or is none any more; unknown ones are ignored."""
        _, places = self._offers.pop(uid, ((), []))
        for place in reversed(places):
            self.fleet.give_back(place)

    def uses(self) -> Iterator[HostUse]:
        """All hosts with what is used of their cards."""
        for names in self._names.values():
            for name in names:
                use = self.fleet.use(name)
                assert use is not None
                yield use

    def _asked(self, shape: Shape) -> Shape:
        wishes = shape.wants.wishes
        if wishes.use_uuids is not None or wishes.avoid_uuids:
            free = replace(wishes, use_uuids=None, avoid_uuids=frozenset())
            shape = replace(shape, wants=replace(shape.wants, wishes=free))
        told = tuple(pair for pair in shape.requests if pair[0] in self._resources)
        if told != shape.requests:
            shape = replace(shape, requests=told)
        omitted = self._omitted
        if any(key in omitted for key, _ in shape.node_selector):
            kept = tuple(pair for pair in shape.node_selector if pair[0] not in omitted)
            shape = replace(shape, node_selector=kept)
        if any(part[0] in omitted for term in shape.affinity for part in term):
            terms = tuple(tuple(p for p in term if p[0] not in omitted) for term in shape.affinity)
            shape = replace(shape, affinity=terms)
        return shape

    def _taken(self, places: Sequence[Placement] | NoPlace) -> list[Placement]:
        taken = [] if isinstance(places, NoPlace) else list(places)
        for place in taken:
            self.fleet.take(place)
        return taken

    def _withdraw(self) -> None:
        for _, places in self._offers.values():
            for place in reversed(places):
                self.fleet.give_back(place)

    def _shrink(self, key: _Key, wanted: int) -> None:
        names = self._names[key]
        while len(names) > wanted:
            self.fleet.drop(names.pop())
        if not names:
            del self._names[key]

    def _grow(self, key: _Key, wanted: int, states: Sequence[CardState]) -> None:
        site, free, _ = key
        names = self._names.setdefault(key, [])
        room = Room(
            dict(zip(self._resources, free, strict=True)),
            dict(site.labels),
            site.taints,
            site.ready,
        )
        while len(names) < wanted:
            name = f"{next(self._numbers):09d}"
            self.fleet.put(name, _host(name, site, states, self._cards), room)
            names.append(name)


def _counts(classes: Classes) -> dict[_Key, int]:
    wanted: dict[_Key, int] = {}
    for one in classes.classes:
        if one.site >= len(classes.sites) or len(one.free) != len(classes.resources):
            raise ValueError("a class of nodes does not fit the lists of sites and resources")
        key = (classes.sites[one.site], one.free, one.cards)
        wanted[key] = wanted.get(key, 0) + one.count
    hosts, widest = sum(wanted.values()), max((width(key[2]) for key in wanted), default=0)
    if hosts > MOST_HOSTS or hosts * widest > MOST_CARDS:
        raise ValueError(f"it tells of {hosts} nodes with up to {widest} cards: too many")
    return wanted


def _host(name: str, site: Site, states: Sequence[CardState], kinds: Sequence[Card]) -> HostUse:
    cards = tuple(
        replace(kinds[state.kind], uuid=str(index), index=index, numa=state.numa)
        for index, state in enumerate(states)
    )
    links = {
        (str(one), str(other)): score
        for one, other, score in site.links
        if max(one, other) < len(cards)
    }
    uses = {
        str(index): CardUse(state.used, state.slices, fence=CLOSED if state.shut else "")
        for index, state in enumerate(states)
    }
    return HostUse(Host(name, cards, links), uses)
