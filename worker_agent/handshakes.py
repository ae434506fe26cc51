"""Device plugins that are gone by HAMi's handshake on their node.

Times in the text are of another clock: what counts is since when a request has been seen here.
"""

from __future__ import annotations

from federation.core.devices.inventory.node_facts import NodeFacts
from federation.core.devices.wire.handshake import PATIENCE_S, Handshake, read
from federation.core.devices.wire.vendors import Vendors
from federation.core.quantity import QuantityError


class Handshakes:
    """Remembers when the text of each handshake was first seen (seconds since the epoch)."""

    def __init__(self, vendors: Vendors) -> None:
        self._vendors = [vendor for vendor in vendors if vendor.handshake]
        self._seen: dict[tuple[str, str], tuple[str, float]] = {}
        self._due: dict[str, float] = {}

    def lost(self, node: NodeFacts, now: float) -> frozenset[str]:
        """Keys of the vendors whose plugin is gone from a node."""
        found = set()
        self._due.pop(node.name, None)
        for vendor in self._vendors:
            text = node.annotations.get(vendor.handshake)
            key = node.name, vendor.key
            if text is None:
                self._seen.pop(key, None)
                continue
            before, since = self._seen.get(key, ("", now))
            since = since if before == text else now
            self._seen[key] = text, since
            state = read(text, _usable(node, vendor.count), now - since)
            if state is Handshake.LOST:
                found.add(vendor.key)
            elif state is Handshake.ASKED and not _usable(node, vendor.count):
                self._due[node.name] = min(since + PATIENCE_S, self._due.get(node.name, now * 2))
        return frozenset(found)

    def forget(self, node: str) -> None:
        """A node is gone."""
        self._due.pop(node, None)
        for key in [key for key in self._seen if key[0] == node]:
            del self._seen[key]

    def due(self) -> float | None:
        """When time alone may say that a plugin is gone."""
        return min(self._due.values(), default=None)

    def overdue(self, now: float) -> list[str]:
        """The nodes to look at again."""
        return sorted(name for name, at in self._due.items() if at < now)


def _usable(node: NodeFacts, resource: str) -> int:
    try:
        return node.usable(resource)
    except QuantityError:
        return 1  # there is something, whatever it is
