"""The same hosts in four clusters by card family; the cluster is chosen by the placement score."""

from __future__ import annotations

from collections.abc import Sequence

from bench.packing.policies import strategy
from federation.core.devices.cards import Host, HostUse
from federation.core.devices.fleet import Fleet
from federation.core.devices.fleet_kinds import Kinds
from federation.core.devices.fleet_types import NoPlace, Placement, Room, Shape
from federation.core.devices.mix import Mix

_FAMILIES = {"G": "g", "T": "t", "A": "t", "P": "p", "V": "v"}


def family(host: Host) -> str:
    """G2 and G3; T4 and the one host of A10; P100; V100 of both sizes."""
    model = host.cards[0].model if host.cards else ""
    return _FAMILIES.get(model[:1], "others")


class Clusters:
    """One fleet per family; all share strategy and kinds, so that scores compare."""

    def __init__(self, hosts: Sequence[tuple[str, HostUse, Room]], policy: str, mix: Mix) -> None:
        known, kinds = strategy(policy, mix), Kinds()
        self._fleets: dict[str, Fleet] = {}
        self._cluster_of: dict[str, str] = {}
        for name, use, room in hosts:
            cluster = self._cluster_of[name] = family(use.host)
            if cluster not in self._fleets:
                self._fleets[cluster] = Fleet(known, kinds)
            self._fleets[cluster].put(name, use, room)

    def place(self, shape: Shape) -> Placement | NoPlace:
        """The best of all clusters' best places; equal ones by name of the host."""
        answers = [fleet.place(shape) for fleet in self._fleets.values()]
        places = [place for place in answers if isinstance(place, Placement)]
        if not places:
            return NoPlace(shape)
        return min(places, key=lambda place: (place.score, place.host))

    def take(self, placement: Placement) -> None:
        """Count it in its cluster."""
        self._fleets[self._cluster_of[placement.host]].take(placement)
