"""What each node offers beside its cards: its resources less what is spoken for there.

Counted once for each occupant, under a key: a pod that is bound to a node, or a seat whose pod
has yet to come. What changed is told, so that nothing has to be gone through again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from federation.core import cluster_cards
from federation.core.cluster_cards import beside
from federation.core.devices.fleet.types import Room
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.topology import HOSTNAME, Node

Amounts = tuple[tuple[str, int], ...]


class Rooms:
    """`changed` are the nodes of which something changed; whoever takes it in empties it."""

    def __init__(self, vendors: Vendors = VENDORS) -> None:
        self._vendors = vendors
        self.nodes: dict[str, Node] = {}
        self.changed: set[str] = set()
        self._occupants: dict[Hashable, tuple[str, Amounts]] = {}
        self._used: dict[str, dict[str, int]] = {}

    def put_node(self, node: Node) -> None:
        """A node as it is now; what is used of it is not looked for there."""
        if self.nodes.get(node.name) != node:
            self.nodes[node.name] = node
            self.changed.add(node.name)

    def drop_node(self, name: str) -> None:
        """It is gone; its occupants count again should it return."""
        if self.nodes.pop(name, None) is not None:
            self.changed.add(name)

    def put(self, key: Hashable, host: str, requests: Amounts) -> None:
        """Something is on a node, or is to be there."""
        if self._occupants.get(key) == (host, requests):
            return
        self.drop(key)
        self._occupants[key] = host, requests
        self._add(host, requests, 1)

    def drop(self, key: Hashable) -> None:
        """It is there no more; unknown ones are ignored."""
        known = self._occupants.pop(key, None)
        if known is not None:
            self._add(*known, -1)

    def _add(self, host: str, requests: Amounts, sign: int) -> None:
        used = self._used.setdefault(host, {})
        for resource, amount in requests:
            used[resource] = used.get(resource, 0) + sign * amount
        self.changed.add(host)

    def requests(self, key: Hashable) -> Amounts:
        """What an occupant takes; nothing if it is not there."""
        return self._occupants.get(key, ("", ()))[1]

    def room(self, host: str) -> Room | None:
        """What is free of a node that is there."""
        node = self.nodes.get(host)
        if node is None:
            return None
        used = self._used.get(host, {})
        totals = beside(node.allocatable, self._vendors)
        free = {name: total - used.get(name, 0) for name, total in totals.items()}
        ready = node.ready and not node.unschedulable and HOSTNAME in node.labels
        return Room(free, node.labels, node.taints, ready)


def demand(amounts: Mapping[str, int], vendors: Vendors) -> Amounts:
    """What a pod takes of its node beside cards, itself included, in order of name."""
    return tuple(sorted(cluster_cards.demand(amounts, vendors).items()))
