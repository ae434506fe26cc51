"""The same hosts in four clusters by card family; the cluster is chosen by the placement score.

As in the product: each cluster tells its free vectors in a report, some arrivals apart, and what
was offered since counts beside it. The best score over the reports decides which cluster gets the
pod, which then places it on its own hosts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from federation.api.report_placement import placement_from_wire, placement_to_wire
from federation.api.worker_report import ReportedPlacement
from federation.core.devices.cards import Host, HostUse
from federation.core.devices.fleet.buckets import Buckets
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.reported_fleet import ReportedFleet
from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import NoPlace, Placement, Room, Shape

_FAMILIES = {"G": "g", "T": "t", "A": "t", "P": "p", "V": "v"}

REPORT_EVERY = 20
"""Pods that a cluster takes between two of its reports."""
LIMIT = 200 * 1024
"""Characters of a report, of which the product allows a little more."""


def family(host: Host) -> str:
    """G2 and G3; T4 and the one host of A10; P100; V100 of both sizes."""
    model = host.cards[0].model if host.cards else ""
    return _FAMILIES.get(model[:1], "others")


class Cluster:
    """Its own hosts, and what is known of them elsewhere. The kinds are those of all clusters."""

    def __init__(self, own: Strategy, known: Strategy, kinds: Kinds) -> None:
        self.fleet = Fleet(own)
        self.told = ReportedFleet(known, kinds)
        self._buckets = Buckets()
        self._rooms: dict[str, Room] = {}
        self._offers: list[str] = []
        self._numbers = 0

    def put(self, name: str, use: HostUse, room: Room) -> None:
        """Add a host."""
        self._rooms[name] = room
        self.fleet.put(name, use, room)
        self._buckets.put(name, use, room)

    def take(self, placement: Placement, expected: Sequence[Placement]) -> None:
        """Count a pod here, and there as an offer until the next report."""
        self.fleet.take(placement)
        room = self._rooms[placement.host]
        free = dict(room.free)
        for resource, amount in placement.shape.requests:
            free[resource] = free.get(resource, 0) - amount
        room = self._rooms[placement.host] = replace(room, free=free)
        use = self.fleet.use(placement.host)
        assert use is not None
        self._buckets.put(placement.host, use, room)
        self._numbers += 1
        uid = str(self._numbers)
        self._offers.append(uid)
        self.told.offer(uid, [(placement.shape, 1)], expected)
        if len(self._offers) >= REPORT_EVERY:
            self.report()

    def report(self) -> None:
        """Send what is free, as text."""
        text = json.dumps(placement_to_wire(self._buckets.classes(LIMIT)))
        for uid in self._offers:
            self.told.release(uid)
        self._offers.clear()
        self.told.report(placement_from_wire(ReportedPlacement.model_validate_json(text)))


class Clusters:
    """One per family. What compares has one strategy; each cluster decides by its own."""

    def __init__(self, hosts: Sequence[tuple[str, HostUse, Room]], policy: str, mix: Mix) -> None:
        known, kinds = strategy(policy, mix), Kinds()
        self._clusters: dict[str, Cluster] = {}
        self._cluster_of: dict[str, str] = {}
        for name, use, room in hosts:
            cluster = self._cluster_of[name] = family(use.host)
            if cluster not in self._clusters:
                self._clusters[cluster] = Cluster(strategy(policy, mix), known, kinds)
            self._clusters[cluster].put(name, use, room)
        for one in self._clusters.values():
            one.report()
        self._expected: Sequence[Placement] = ()

    def place(self, shape: Shape) -> Placement | NoPlace:
        """On the cluster with the best score; if it refuses after all, on the next."""
        found = [(name, one.told.place([(shape, 1)])) for name, one in self._clusters.items()]
        offers = sorted(
            (places[0].score, name, places)
            for name, places in found
            if not isinstance(places, NoPlace)
        )
        for _, name, places in offers:
            answer = self._clusters[name].fleet.place(shape)
            if isinstance(answer, Placement):
                self._expected = places
                return answer
        return NoPlace(shape)

    def take(self, placement: Placement) -> None:
        """Count it in its cluster."""
        self._clusters[self._cluster_of[placement.host]].take(placement, self._expected)
