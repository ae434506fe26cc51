"""The manager's own sign of life on the management API: written, and seen by the watch of Leases.

While it does not come back, the silence of clusters says nothing of them: the API server may be
away, or the watch frozen, or this process was stopped for a while.
"""

from __future__ import annotations

import asyncio
import uuid

import structlog

from federation.api.lease import API
from federation.api.meta import wire_micro_time
from federation.api.names import FEDQ_NAMESPACE
from federation.core.failover import Timings
from federation.edge.errors import AlreadyExists, ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import LEASES, Json
from manager.clock import Clock

log = structlog.get_logger(__name__)

NAME = "fedq-canary"
MOST_OPEN = 100
"""Writes that may still come back."""
AT_ONCE = 4
"""Writes under way: a slow one does not put the next one off."""


class Canary:
    """`run` writes the Lease `fedq-system/fedq-canary` for ever; `see` is told of it by the watch.

    It has to fail before the silence that it explains makes a cluster suspect: the last renewal of
    a cluster may be R old when the API goes away.
    """

    def __init__(self, client: KubeClient, timings: Timings, clock: Clock) -> None:
        self._client, self._clock = client, clock
        spare = timings.suspect - timings.renew
        self._period, self._limit = spare / 4, spare * 3 / 4
        self._holder = uuid.uuid4().hex
        self._number = 0
        self._sent: dict[int, float] = {}
        self._came_back = clock.boot()
        self._error = ""

    def see(self, lease: Json) -> None:
        """The Lease as the watch delivers it."""
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self._holder:
            return
        number = spec.get("leaseTransitions", 0)
        if (sent := self._sent.get(number)) is not None:
            self._came_back = max(self._came_back, sent)
            self._sent = {n: at for n, at in self._sent.items() if n > number}

    def problem(self) -> str:
        """Why the manager cannot trust what it sees of the Leases; '' if it can."""
        if self._clock.boot() - self._came_back <= self._limit:
            return ""
        why = self._error or "the watch of Leases does not show it"
        return f"the manager's own canary write on the management API fails ({why})"

    async def run(self) -> None:
        """Write until cancelled."""
        under_way: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                if len(under_way) < AT_ONCE:
                    self._number += 1
                    task = tasks.create_task(self._send(self._number))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                await asyncio.sleep(self._period)  # a sign of life has a period

    async def _send(self, number: int) -> None:
        self._sent[number] = self._clock.boot()
        self._sent.pop(number - MOST_OPEN, None)
        try:
            await self._write(number)
        except ApiError as error:
            if not self._error:
                log.warning("canary.not_written", error=str(error))
            self._error = str(error)
        else:
            if self._error:
                log.info("canary.written_again")
            self._error = ""

    async def _write(self, number: int) -> None:
        spec = {
            "holderIdentity": self._holder,
            "leaseTransitions": number,
            "renewTime": wire_micro_time(self._clock.wall()),
        }
        try:
            await self._client.patch(LEASES, NAME, {"spec": spec}, FEDQ_NAMESPACE)
        except NotFound:
            meta = {"name": NAME, "namespace": FEDQ_NAMESPACE}
            body = {"apiVersion": API, "kind": "Lease", "metadata": meta, "spec": spec}
            try:
                await self._client.create(LEASES, body)
            except AlreadyExists:
                log.debug("canary.exists")
