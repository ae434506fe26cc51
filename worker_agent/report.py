"""Publishes the WorkerReport: what this cluster has free, up to which Job version it counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.metadata import version

import structlog
from pydantic import ValidationError

from federation.api.names import FEDQ_API
from federation.api.report_placement import flavors_to_wire, placement_to_wire
from federation.api.worker_report import WorkerReportStatus
from federation.core.failover import Tier
from federation.core.policies import StopPolicy
from federation.core.quota import quotas_of
from federation.core.types import ClusterQueue
from federation.edge.catalog import Catalog
from federation.edge.errors import AlreadyExists, ApiError, NotFound
from federation.edge.kind_informers import KindInformers
from federation.edge.kube import KubeClient
from federation.edge.resources import WORKER_REPORTS, Json
from worker_agent.agent import Agent

log = structlog.get_logger(__name__)

EVERY_S = 0.5
LONGEST = 250 * 1024
"""Characters of a report; etcd is spared what is longer."""
RETRY_S = 2.0
VERSION = version("fedq")


class Reporter:
    """Writes the report when something changed, at most twice a second. `epoch` is the one that the
    cluster is in, 0 while it is not known: of no lower one is any copy started after it is told.
    `tier` is how well the cluster keeps `stop` now, `kinds` those of jobs whose copies are read.
    """

    def __init__(
        self,
        client: KubeClient,
        catalog: Catalog,
        agent: Agent,
        cluster: str,
        tier: Callable[[], Tier] = lambda: Tier.AGENT,
        kinds: KindInformers | None = None,
    ) -> None:
        self._client, self._catalog, self._agent = client, catalog, agent
        self._cluster, self._tier, self._kinds = cluster, tier, kinds
        self.epoch = 0
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()
        self._writing = asyncio.Lock()
        self._written: Json = {}
        agent.on_decided = self._decided
        if kinds is not None:
            kinds.on_read = self._read

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            pause = EVERY_S
            try:
                await self._update()
            except ApiError as error:
                log.warning("report.not_written", why=str(error))
                self._changed.set()
                pause = RETRY_S
            await asyncio.sleep(pause)  # the limit on how often it is written

    async def tell(self, epoch: int) -> None:
        """Have the report say that the cluster is in an epoch; until it does. Raises ApiError."""
        await self._ready.wait()
        self.epoch = max(epoch, self.epoch)
        await self._update()

    async def recall(self) -> None:
        """Take over what the last report says that cannot be read from anywhere else: whose cards
        were seen here, though no node may show any now. Until it is known: else Jobs would be
        started without cards.
        """
        while True:
            try:
                report = await self._client.get(WORKER_REPORTS, self._cluster)
            except NotFound:
                return
            except ApiError as error:
                log.warning("report.not_read", why=str(error))
                await asyncio.sleep(RETRY_S)  # the API server refused; nothing will announce better
                continue
            try:
                status = WorkerReportStatus.model_validate(report.get("status") or {})
            except ValidationError as error:
                log.warning("report.not_understood", why=str(error))
                return  # it is written anew
            kinds = status.placement.cards if status.placement else ()
            self._agent.devices.recall([*status.card_vendors, *(card.vendor for card in kinds)])
            return

    def _decided(self) -> None:
        self._ready.set()
        self._changed.set()

    def _read(self) -> None:
        """Another kind is read: no decision tells of that."""
        if self._ready.is_set():
            self._changed.set()

    async def _update(self) -> None:
        async with self._writing:
            status = self.status()
            if status != self._written:
                await self._publish(status)
                self._written = status

    def status(self) -> Json:
        """The report as of the last decision."""
        told = self._quotas()
        flavors = self._catalog.flavors.values()
        told["flavors"] = flavors_to_wire(flavors)
        told["placement"] = None
        if self._kinds is not None:
            told["kinds"] = sorted(self._kinds.read)
        told["cardVendors"] = self._agent.devices.counted()
        if self._counts_cards():
            labels = {key for flavor in flavors for key, _ in flavor.node_labels}
            free = self._agent.devices.free(LONGEST - len(json.dumps(told)), labels)
            told["placement"] = None if free is None else placement_to_wire(free)
        return told

    def _counts_cards(self) -> bool:
        """Whether any queue gives cards, or shares of them."""
        quotas = self._agent.state.policies.rules.cards
        return any(
            quotas.counts(resource)
            for queue in self._catalog.queues.values()
            for group in queue.groups
            for resource in group.covered
        )

    def _quotas(self) -> Json:
        return {
            "agentVersion": VERSION,
            **({"inventoryEpoch": self.epoch} if self.epoch else {}),  # else what was told stands
            "tier": self._tier().value,
            "countedResourceVersion": str(self._agent.decided_version),
            "localQueues": [
                {"namespace": q.namespace, "name": q.name, "clusterQueue": q.cluster_queue}
                for _, q in sorted(self._catalog.local_queues.items())
                if q.stop is StopPolicy.NONE
            ],
            "clusterQueues": [
                self._queue(queue) for _, queue in sorted(self._catalog.queues.items())
            ],
        }

    def _queue(self, queue: ClusterQueue) -> Json:
        tree = self._agent.tree
        used = tree.usage(queue.name)
        flavors = self._catalog.flavors
        return {
            "name": queue.name,
            "active": self._agent.active(queue.name),
            "cohort": queue.cohort,
            "resources": [
                {
                    "flavor": key.flavor,
                    "resource": key.resource,
                    "nominal": str(quota.nominal),
                    "used": str(used.get(key, 0)),
                    "available": str(tree.available(queue.name, key)),
                }
                for key, quota in quotas_of(queue.groups).items()
                if key.flavor in flavors
            ],
        }

    async def _publish(self, status: Json) -> None:
        body = {"status": status}
        try:
            await self._client.patch(WORKER_REPORTS, self._cluster, body, subresource="status")
        except NotFound:
            report = {
                "apiVersion": FEDQ_API,
                "kind": "WorkerReport",
                "metadata": {"name": self._cluster},
            }
            try:
                await self._client.create(WORKER_REPORTS, report)
            except AlreadyExists:
                log.debug("report.exists")
            await self._client.patch(WORKER_REPORTS, self._cluster, body, subresource="status")
