"""Leadership among replicas of the manager, by the Lease `fedq-system/fedq-manager`.

The rules are `federation.core.election`'s. From the moment its deadline has passed, even if it was
frozen until then, a leader may not act; it goes on if it then finds the Lease untouched, and raises
LeadershipLost if another replica has it. What was sent before must be harmless by itself: every
write names the version or the UID that it was decided on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from federation.api.meta import wire_micro_time
from federation.api.names import FEDQ_NAMESPACE
from federation.core.election import ElectionTimes, Seen, free_at, seen
from federation.edge.errors import AlreadyExists, ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.machine import boottime
from federation.edge.resources import LEASES, Json

log = structlog.get_logger(__name__)

LEASE_NAME = "fedq-manager"
LEAST_PAUSE_S = 0.05


class LeadershipLost(RuntimeError):
    """Another replica leads: this one must not act any more."""


class Election:
    """One replica's part. `client` should be its own, so that renewals queue behind nothing."""

    def __init__(
        self,
        client: KubeClient,
        identity: str,
        times: ElectionTimes | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.identity, self.times = identity, times or ElectionTimes()
        self._client, self._clock = client, clock
        self._lease: Json | None = None
        self._seen: Seen | None = None
        self._until = float("-inf")
        self._error = "the Lease has not been read yet"

    @property
    def leader(self) -> str:
        """Who holds the Lease, as last seen; '' if nobody does."""
        return self._seen.holder if self._seen else ""

    def may_act(self) -> bool:
        """Whether this replica leads at this moment."""
        return self._clock() < self._until

    @property
    def problem(self) -> str:
        """Why it is not known who leads, or that this one may not act although it did; '' if
        neither.
        """
        if self.may_act() or not self._error:
            return ""
        if self._until == float("-inf"):
            return self._error
        return f"leadership cannot be renewed, nothing is done until it is: {self._error}"

    async def lead(self) -> None:
        """Stand by until this replica leads."""
        while not await self._attempt():
            free = free_at(self._seen, self.identity, self.times)
            pause = self.times.retry_s if free is None else free - self._clock()
            # The end of the lease of another one is a matter of time alone.
            await asyncio.sleep(min(self.times.retry_s, max(LEAST_PAUSE_S, pause)))
        log.info("leader.elected", own=self.identity)

    async def keep(self) -> None:
        """Renew until another replica has the Lease. Raises LeadershipLost."""
        while True:
            await asyncio.sleep(self.times.retry_s)  # the period of the protocol
            if not await self._attempt() and self.leader not in ("", self.identity):
                self._until = float("-inf")
                raise LeadershipLost(f"{self.leader} leads, no longer {self.identity}")

    async def resign(self) -> None:
        """Give the Lease away, so that the next one need not wait for it to end. For when nothing
        of this replica acts any more.
        """
        lease, self._lease, self._until = self._lease, None, float("-inf")
        if lease is None:
            return
        try:
            async with asyncio.timeout(self.times.retry_s):
                body = {**lease, "spec": {**lease["spec"], "holderIdentity": ""}}
                await self._client.update(LEASES, body)
        except (ApiError, TimeoutError) as error:
            log.warning("leader.not_released", why=str(error))

    async def _attempt(self) -> bool:
        """Take or renew the Lease if that is right; whether this replica holds it now."""
        sent = self._clock()
        patience = self.times.renew_deadline_s / 2  # leaves time for another attempt
        try:
            async with asyncio.timeout(patience):
                try:
                    held = await self._hold()
                except (Conflict, AlreadyExists):  # somebody was faster: who?
                    held = await self._hold()
        except (Conflict, AlreadyExists):
            return False
        except (ApiError, TimeoutError) as error:
            self._error = str(error) or f"no answer within {patience:g} s"
            log.warning("leader.lease_out_of_reach", why=self._error)
            return False
        self._error = ""
        if held:
            self._until = sent + self.times.renew_deadline_s
        return held

    async def _hold(self) -> bool:
        lease, self._lease = self._lease, None  # read again, unless the write succeeds
        if lease is None:
            lease = await self._read()
        free = free_at(self._seen, self.identity, self.times)
        if free is not None and self._clock() < free:
            return False
        body = self._renewed(lease)
        write = self._client.create if lease is None else self._client.update
        self._see(await write(LEASES, body))
        return True

    async def _read(self) -> Json | None:
        try:
            lease = await self._client.get(LEASES, LEASE_NAME, FEDQ_NAMESPACE)
        except NotFound:
            return None
        before = self.leader
        self._see(lease)
        if self.leader not in (before, "", self.identity):
            log.info("leader.seen", leader=self.leader, own=self.identity)
        return lease

    def _see(self, lease: Json) -> None:
        spec = lease.get("spec") or {}
        holder, lasts = spec.get("holderIdentity") or "", spec.get("leaseDurationSeconds") or 0
        version = lease["metadata"]["resourceVersion"]
        self._seen = seen(self._seen, holder, lasts, version, self._clock())
        if holder == self.identity:
            self._lease = lease

    def _renewed(self, lease: Json | None) -> Json:
        now = wire_micro_time(datetime.now(UTC))
        spec: Json = dict((lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (lease is not None)
        spec["holderIdentity"], spec["renewTime"] = self.identity, now
        spec["leaseDurationSeconds"] = self.times.lease_s
        metadata = {"name": LEASE_NAME, "namespace": FEDQ_NAMESPACE}
        head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        return {**(lease or head), "spec": spec}
