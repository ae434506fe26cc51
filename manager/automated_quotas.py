"""Keeps the quota of queues at the sum of what their clusters have, where the config asks for it.

The sums stand beside the objects: nobody's ClusterQueue is written, its status tells the quota that
counts. Looked at once a second, as what clusters report comes in bursts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import structlog

from federation.api.names import ConditionType
from federation.api.record import condition
from federation.core.automated_quota import Automated, Contribution, automated
from federation.core.types import ClusterQueue, FlavorResource
from federation.edge.resources import Json
from manager.clusters import Clusters
from manager.controller import Controller

log = structlog.get_logger(__name__)

EVERY_S = 1.0
AUTOMATED, NOT_REQUESTED = "QuotaAutomated", "NotRequested"


class AutomatedQuotas:
    """`on_change` hears that the quota of a queue is another one now."""

    def __init__(
        self, controller: Controller, clusters: Clusters, on_change: Callable[[], None]
    ) -> None:
        self._controller, self._clusters, self._on_change = controller, clusters, on_change
        self._found: dict[str, Automated] = {}
        self._told: set[str] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(EVERY_S)  # a limit on the work, not a wait for something

    def look(self) -> None:
        """Say so if a sum has changed since the queues were `adjusted`."""
        now = self._sums(self._controller.catalog.queues.values())
        if now != self._found:
            log.info("quota.automated", queues={name: a.text for name, a in now.items()})
            self._on_change()

    def adjusted(self, queues: Mapping[str, ClusterQueue]) -> dict[str, ClusterQueue]:
        """The queues with the quota that counts."""
        self._found = self._sums(queues.values())
        return {**queues, **{name: found.queue for name, found in self._found.items()}}

    def condition(self, queue: str) -> Json | None:
        """What the status of a ClusterQueue says of it; None if its quota always was its own."""
        kind = ConditionType.MULTIKUEUE_MANAGER_QUOTA_AUTOMATION
        if (found := self._found.get(queue)) is not None:
            self._told.add(queue)
            return condition(kind, True, AUTOMATED, found.text)
        if queue in self._told:
            return condition(kind, False, NOT_REQUESTED, "the quota of the ClusterQueue counts")
        return None

    def _sums(self, queues: Iterable[ClusterQueue]) -> dict[str, Automated]:
        found = {}
        for queue in queues:
            if (clusters := self._clusters.membership.automated_for(queue.check_names)) is not None:
                parts = [self._contribution(queue.name, cluster) for cluster in clusters]
                found[queue.name] = automated(queue, parts)
        return found

    def _contribution(self, queue: str, cluster: str) -> Contribution:
        link = self._clusters.links.get(cluster)
        if link is None or not self._clusters.usable(cluster):
            return Contribution(cluster, self._bound(queue, cluster), reachable=False)
        doors = self._controller.catalog.local_queues.items()
        return Contribution(
            cluster, link.ledger.nominal(key for key, door in doors if door.cluster_queue == queue)
        )

    def _bound(self, queue: str, cluster: str) -> dict[FlavorResource, int]:
        """What jobs of a queue hold that are bound to a cluster."""
        total: dict[FlavorResource, int] = {}
        for uid, state in self._controller.states.items():
            binding = state.record.binding if state.record is not None else None
            if binding is None or binding.cluster != cluster:
                continue
            holder = self._controller.views.holder(uid, state)
            if holder is not None and holder.cluster_queue == queue:
                for key, amount in holder.usage.items():
                    total[key] = total.get(key, 0) + amount
        return total
