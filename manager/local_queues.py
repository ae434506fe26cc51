"""Queues of the management cluster whose jobs run there, by an agent beside the manager.

Those are the queues without a check of MultiKueue, if the manager was told that there is such an
agent. The LocalQueues that lead to them get the label `fedq.io/local`: by it the API server marks
each job at its creation (policies fedq-local-...), and agent and manager know which are theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from federation.api.names import Controller, Label
from federation.core.role_sharing import apart, runs_here
from federation.core.types import ClusterQueue
from federation.edge.catalog import Catalog
from federation.edge.errors import ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import LOCAL_QUEUES, Json
from manager.membership import Membership

log = structlog.get_logger(__name__)

RETRY_S = 5.0

Key = tuple[str, str]


class LocalQueues:
    """Keeps the labels as they have to be. Without `on` there are no such queues."""

    def __init__(
        self, client: KubeClient, catalog: Catalog, membership: Membership, *, on: bool
    ) -> None:
        self._client, self._catalog, self._membership, self._on = client, catalog, membership, on
        self._dirty = asyncio.Event()
        self._dirty.set()

    def runs_here(self, queue: ClusterQueue) -> bool | None:
        """Whether the jobs of a ClusterQueue run on this cluster; None as long as it names a check
        that does not exist.
        """
        return runs_here(map(self._of_multikueue, queue.check_names)) if self._on else False

    def _of_multikueue(self, name: str) -> bool | None:
        found = self._membership.check(name)
        return None if found is None else found.controller == Controller.MULTIKUEUE

    def apart(self, queues: Mapping[str, ClusterQueue]) -> Mapping[str, ClusterQueue]:
        """The queues as the manager counts them."""
        return apart(queues, {name for name, queue in queues.items() if self.runs_here(queue)})

    def problem(self, queue: ClusterQueue, always_sent: bool) -> str:
        """Why a job of the manager is not sent anywhere from a ClusterQueue; '' if it is.
        `always_sent` are kinds that nothing holds back here.
        """
        if not self.runs_here(queue):
            return ""
        here = f"ClusterQueue {queue.name} has no MultiKueue check: its jobs run on this cluster"
        if always_sent:
            return (
                f"{here}, and those of this kind are always sent to a worker cluster: name a queue"
                " with such a check"
            )
        return (
            f"{here}, and this one was made to be sent to a worker cluster, as it has no label"
            f" {Label.LOCAL}. Create it again to run it here, or give the ClusterQueue such a check"
        )

    def look(self) -> None:
        """Queues or checks may be others."""
        self._dirty.set()

    async def run(self) -> None:
        """Write labels until cancelled."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            refused = [
                key for key, here in self._wrong().items() if not await self._label(key, here)
            ]
            if refused:  # or the API server is away; others are not kept waiting
                asyncio.get_running_loop().call_later(RETRY_S, self._dirty.set)

    def _wrong(self) -> dict[Key, bool]:
        """LocalQueues that say something else than they have to, and what they have to say. What
        leads nowhere yet keeps what it says.
        """
        found = {}
        for key, door in self._catalog.local_queues.items():
            queue = self._catalog.queues.get(door.cluster_queue)
            if queue is None and self._on:
                continue
            here = self.runs_here(queue) if queue is not None else False
            if here is not None and here != door.local:
                found[key] = here
        return found

    async def _label(self, key: Key, here: bool) -> bool:
        """Whether there is nothing left to write about it."""
        body: Json = {"metadata": {"labels": {Label.LOCAL.value: "true" if here else None}}}
        try:
            await self._client.patch(LOCAL_QUEUES, key[1], body, key[0])
        except NotFound:
            return True
        except ApiError as error:
            log.warning("local_queue.not_labelled", queue="/".join(key), why=str(error))
            return False
        log.info("local_queue.labelled", queue="/".join(key), here=here)
        return True
