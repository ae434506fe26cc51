"""Renews this cluster's Lease on the management API: the agent's only business there.

The deadline by which a renewal holds is counted from before it was sent, on a clock that goes on
while the machine sleeps; an unknown outcome never extends it.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import structlog

from federation.api.names import FEDQ_NAMESPACE, Mirror
from federation.edge.errors import ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import LEASES, Json

log = structlog.get_logger(__name__)

RENEW_S = 20.0
RETRY_S = 2.0


class Heartbeat:
    """Keeps the Lease; `epoch` is the one that the manager wrote into it."""

    def __init__(self, client: KubeClient, cluster: str, holder: str) -> None:
        self._client, self._cluster, self._holder = client, cluster, holder
        self._lease: Json | None = None
        self.epoch = 1
        self.renewed_at: float | None = None
        """CLOCK_BOOTTIME reading from before the last renewal that succeeded was sent."""

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            pause = await self._renew()
            await asyncio.sleep(pause)  # the period of the protocol

    async def _renew(self) -> float:
        """Renew once; seconds until the next time."""
        sent = time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            lease = self._lease or await self._client.get(LEASES, self._cluster, FEDQ_NAMESPACE)
            self._lease = None  # whatever happens to the write, read again unless it succeeded
            moment = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            lease["spec"] = {
                **(lease.get("spec") or {}),
                "holderIdentity": self._holder,
                "renewTime": moment,
            }
            self._lease = await self._client.update(LEASES, lease)
        except NotFound:
            log.info("lease.missing", cluster=self._cluster, hint="the manager creates it")
            return RETRY_S
        except ApiError as error:
            log.warning("lease.not_renewed", why=str(error))
            return RETRY_S
        self.renewed_at = sent
        annotations = self._lease["metadata"].get("annotations") or {}
        self.epoch = int(annotations.get(Mirror.EPOCH.value, "1"))
        return RENEW_S
