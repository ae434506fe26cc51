"""Hosts in classes of what is alike for placement, with counts: what an agent tells of its cluster.

A class has all that a placement looks at but names: whoever reads it back finds the same places at
the same scores (`ReportedFleet`). If that would be too long it is made coarser, step by step and
always downwards: nothing is ever told to be free that is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from federation.core.devices.cards import Card, HostUse
from federation.core.devices.fleet.bucket_labels import Labels
from federation.core.devices.fleet.bucket_steps import COARSEST, Told, coarser
from federation.core.devices.fleet.bucket_text import MOST_CARDS, encode, state_of
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.types import Room
from federation.core.types import Taint

_OVERHEAD: Final = 46
"""Characters of a class in JSON beside its numbers and its cards."""

Link = tuple[int, int, int]
"""Score of the pair of two cards, by their order on the node: first, second, score."""


@dataclass(frozen=True, slots=True)
class Site:
    """What nodes have in common beside their amounts: labels that are told, taints, links of the
    cards, whether anything new may go there.
    """

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    links: tuple[Link, ...] = ()
    ready: bool = True


@dataclass(frozen=True, slots=True)
class NodeClass:
    """So many nodes: number of their site, what is free of `Classes.resources` on each, and their
    cards (`bucket_text`).
    """

    count: int
    site: int
    free: tuple[int, ...]
    cards: str


@dataclass(frozen=True, slots=True)
class Classes:
    """All of them. `cards` are the kinds of cards by number; `omitted` label keys that are not
    told; `unlisted` how many hosts are left out altogether.
    """

    cards: tuple[Card, ...] = ()
    sites: tuple[Site, ...] = ()
    resources: tuple[str, ...] = ()
    classes: tuple[NodeClass, ...] = ()
    omitted: tuple[str, ...] = ()
    unlisted: int = 0


class _Key(NamedTuple):
    site: int
    free: tuple[tuple[str, int], ...]
    cards: str


@dataclass(slots=True)
class _Host:
    """What is known of a host, and the class in which it is counted now."""

    site: Site
    told: Told
    key: _Key | None = None


@dataclass(slots=True)
class Buckets:
    """Counts hosts by class; a change of one host costs the same however many there are."""

    _kinds: Kinds = field(default_factory=Kinds)
    _labels: Labels = field(default_factory=Labels)
    _hosts: dict[str, _Host] = field(default_factory=dict)
    _odd: set[str] = field(default_factory=set)
    _counts: Counter[_Key] = field(default_factory=Counter)
    _sites: dict[Site, int] = field(default_factory=dict)
    _step: int = 0
    _finer_at: int = 0

    def put(self, name: str, use: HostUse, room: Room) -> None:
        """Add a host, or say how it is now."""
        if len(use.host.cards) > MOST_CARDS:
            self.drop(name)
            self._odd.add(name)
            return
        before = self._hosts.get(name)
        number = {card.uuid: n for n, card in enumerate(use.host.cards)}
        links = tuple(
            sorted(
                (number[one], number[other], score)
                for (one, other), score in use.host.links.items()
                if one in number and other in number
            )
        )
        site = Site(tuple(sorted(room.labels.items())), room.taints, links, room.ready)
        cards = tuple(
            state_of(card, self._kinds.number(card), use.use(card.uuid), shut=bool(use.fence))
            for card in use.host.cards
        )
        told = Told(tuple(sorted(room.free.items())), cards, fixed=bool(links))
        if before is not None and (before.site, before.told) == (site, told):
            return
        self._labels.change(before.site.labels if before else (), site.labels)
        self._uncount(before)
        self._odd.discard(name)
        self._hosts[name] = _Host(site, told)
        self._count(self._hosts[name])

    def drop(self, name: str) -> None:
        """Forget a host; unknown ones are ignored."""
        self._odd.discard(name)
        host = self._hosts.pop(name, None)
        if host is not None:
            self._labels.change(host.site.labels, ())
            self._uncount(host)

    def classes(self, limit: int, needed: Collection[str] = ()) -> Classes:
        """As exact as `limit` characters allow. `needed` are label keys that flavors select by."""
        if self._labels.choose(needed):
            self._recount(self._step)
        if self._step and len(self._counts) <= self._finer_at:
            self._recount(self._step - 1)
        while self._step < COARSEST and self._size() > limit:
            self._recount(self._step + 1)
            self._finer_at = len(self._counts) // 2
        return self._told(limit)

    def _count(self, host: _Host) -> None:
        told = coarser(host.told, self._kinds.cards, self._step)
        site = replace(host.site, labels=self._labels.told(host.site.labels))
        number = self._sites.setdefault(site, len(self._sites))
        host.key = _Key(number, told.free, encode(told.cards, self._kinds.cards))
        self._counts[host.key] += 1

    def _uncount(self, host: _Host | None) -> None:
        if host is not None and host.key is not None:
            self._counts[host.key] -= 1
            if not self._counts[host.key]:
                del self._counts[host.key]

    def _recount(self, step: int) -> None:
        self._step = step
        self._counts.clear()
        self._sites.clear()
        for host in self._hosts.values():
            self._count(host)

    def _size(self) -> int:
        return self._fixed_size() + sum(map(_key_size, self._counts))

    def _fixed_size(self) -> int:
        used = {key.site for key in self._counts}
        names = sum(len(name) + 3 for name in self._resources())
        sites = sum(_site_size(site) for site, number in self._sites.items() if number in used)
        omitted = sum(len(key) + 3 for key in self._labels.omitted)
        return names + sites + omitted + sum(map(_kind_size, self._kinds.cards))

    def _resources(self) -> tuple[str, ...]:
        return tuple(sorted({name for key in self._counts for name, _ in key.free}))

    def _told(self, limit: int) -> Classes:
        """Where even the coarsest is too long, the hosts with the most free go first."""
        keys, left = sorted(self._counts), limit - self._fixed_size()
        if sum(map(_key_size, keys)) > left:
            kept = []
            for key in sorted(keys, key=_worth):
                left -= _key_size(key)
                if left >= 0:
                    kept.append(key)
            keys = sorted(kept)
        resources = self._resources()
        numbers = {number: n for n, number in enumerate(sorted({key.site for key in keys}))}
        sites = {number: site for site, number in self._sites.items() if number in numbers}
        classes = []
        for key in keys:
            free = dict(key.free)
            amounts = tuple(free.get(name, 0) for name in resources)
            classes.append(NodeClass(self._counts[key], numbers[key.site], amounts, key.cards))
        return Classes(
            tuple(self._kinds.cards),
            tuple(sites[number] for number in numbers),
            resources,
            tuple(classes),
            self._labels.omitted,
            len(self._odd) + len(self._hosts) - sum(one.count for one in classes),
        )


def _worth(key: _Key) -> tuple[bool, int, _Key]:
    """Those that are told first: with whole cards, then with the most amounts free."""
    idle = any(":" not in card and "!" not in card for card in key.cards.split())
    return not idle, -sum(amount.bit_length() for _, amount in key.free), key


def _key_size(key: _Key) -> int:
    return _OVERHEAD + len(key.cards) + sum(len(str(amount)) + 1 for _, amount in key.free)


def _site_size(site: Site) -> int:
    labels = sum(len(key) + len(value) + 6 for key, value in site.labels)
    taints = sum(40 + len(t.key) + len(t.value) + len(t.effect) for t in site.taints)
    return 60 + labels + taints + sum(8 + len(str(score)) for _, _, score in site.links)


def _kind_size(card: Card) -> int:
    profiles = sum(80 + len(p.name) + 12 * len(p.placements) for p in card.profiles)
    return 140 + len(card.vendor) + len(card.model) + profiles + 8 * len(card.sizes)
