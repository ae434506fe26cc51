"""Cuts between network namespaces: the router drops the packets, and tells nobody.

A rule of the router's routing policy says `blackhole` for what comes in from one side and goes to
the other. This machine looks at both clusters through interfaces of its own, which stay.
"""

from __future__ import annotations

import asyncio

from fedq.drill.faults.link import Way
from fedq.rig.errors import RigError
from fedq.rig.network import Namespaces, ip
from fedq.rig.rig import Rig


class RoutedLink:
    """See `Link`."""

    how = "network namespaces: the router between them drops the packets"

    def __init__(self, rig: Rig) -> None:
        network = rig.network
        if not isinstance(network, Namespaces):
            raise RigError(
                f"the rig in {rig.home} is on the loopback", "there is nothing between its clusters"
            )
        self._network, self._management = network, rig.management

    async def cut(self, worker: str, way: Way) -> None:
        """See `Link`."""
        for side, source, target in self._sides(worker):
            if way in (side, Way.BOTH):
                await asyncio.to_thread(self._rule, "add", source, target)

    async def mend(self, worker: str) -> None:
        """See `Link`."""
        for _, source, target in self._sides(worker):
            await asyncio.to_thread(self._rule, "del", source, target)

    def _sides(self, worker: str) -> list[tuple[Way, str, str]]:
        return [
            (Way.FROM_WORKER, worker, self._management),
            (Way.TO_WORKER, self._management, worker),
        ]

    def _rule(self, verb: str, source: str, target: str) -> None:
        inside = ("-n", self._network.router, "-4", "rule")
        port, address = self._network.port(source), self._network.host(target)
        known = any(
            f"iif {port} " in f"{line} " and f"to {address} " in line
            for line in ip(*inside, "show").splitlines()
        )
        if known != (verb == "del"):
            return
        ip(*inside, verb, "iif", port, "to", address, "type", "blackhole", "priority", "100")
