"""The Leases of clusters on the management API: watched, made, kept to the settings, and fenced.

Every write names the version that it replaces. Whether a write of the manager took place or an
agent's did is decided by the API server, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from federation.api import lease as wire
from federation.api.meta import wire_time
from federation.api.names import FEDQ_NAMESPACE
from federation.core.confirming import Confirm
from federation.core.failover import Timings
from federation.core.health import Create, Fence
from federation.core.lease import Watch, observe, vanished
from federation.edge.errors import AlreadyExists, ApiError, Conflict, NotFound
from federation.edge.informer import Calls, Informer, Select, Timing
from federation.edge.kube import KubeClient
from federation.edge.resources import LEASES, Json
from manager import canary, election
from manager.clock import Clock

log = structlog.get_logger(__name__)

RESERVED = frozenset({canary.NAME, election.LEASE_NAME})
"""Leases of the manager itself: no cluster can have such a name."""


class StoreRestored(RuntimeError):
    """The management cluster is as it was some time ago: what this manager remembers never was."""


class Leases:
    """`watches` has what is remembered of each Lease. `on_change` hears of a Lease that changed.
    `blind` tells whether what is seen at the moment may be old.
    """

    def __init__(self, client: KubeClient, timings: Timings, clock: Clock) -> None:
        self.watches: dict[str, Watch] = {}
        self.on_change: Callable[[str], None] = lambda name: None
        self.on_canary: Callable[[Json], None] = lambda lease: None
        self.blind: Callable[[], bool] = lambda: False
        self._client, self._timings, self._clock = client, timings, clock
        self._objects: dict[str, Json] = {}
        self._newest = 0
        calls = Calls(self._listed, self._seen, self._gone)
        # The canary is written four times in that time: a watch without it hangs, and must not make
        # clusters look silent.
        timing = Timing(idle_timeout=timings.suspect - timings.renew)
        select = Select(FEDQ_NAMESPACE)
        self.informer = Informer(client, LEASES, calls, select=select, timing=timing)

    def _listed(self, items: Sequence[Json], version: str) -> None:
        if int(version) < self._newest:  # no list is older than what was seen before it
            log.error(
                "management.restored", version=int(version), before=self._newest,
                hint="its store was restored from a backup: the manager starts anew from it",
            )  # fmt: skip
            raise StoreRestored(f"version {version} after {self._newest}")
        self._newest = int(version)
        present = {item["metadata"]["name"] for item in items}
        for name in self._objects.keys() - present:
            self._forget(name)
        for item in items:
            self._seen(item)

    def _seen(self, lease: Json) -> None:
        self._newest = max(self._newest, int(lease["metadata"]["resourceVersion"]))
        if lease["metadata"]["name"] == canary.NAME:
            self.on_canary(lease)
        else:
            self._take(lease)

    def _gone(self, lease: Json) -> None:
        self._forget(lease["metadata"]["name"])

    def _forget(self, name: str) -> None:
        self._objects.pop(name, None)
        if name in self.watches:
            self.watches[name] = vanished(self.watches[name], self._clock.boot())
            self.on_change(name)

    def _take(self, lease: Json, *, own: bool = False) -> None:
        name, seen = lease["metadata"]["name"], wire.lease_seen(lease)
        before = self.watches.get(name, Watch())
        now, blind = self._clock.boot(), self.blind()
        after = observe(before, seen, now, self._timings, own=own, blind=blind)
        if after is before:
            return
        self.watches[name] = after
        self._objects[name] = lease
        self.on_change(name)

    async def make(self, name: str, create: Create) -> None:
        """Make the Lease that a cluster's agent renews. One that is there already comes by the
        watch.
        """
        body = wire.created(name, create, self._timings, wire_time(self._clock.wall()))
        try:
            self._take(await self._client.create(LEASES, body), own=True)
            log.info("lease.created", cluster=name, epoch=create.epoch, fenced=create.fenced)
        except AlreadyExists:
            log.debug("lease.exists", cluster=name)
        except ApiError as error:
            log.error("lease.not_created", cluster=name, error=str(error))

    async def fence(self, name: str, fence: Fence) -> None:
        """End the epoch of a cluster by compare-and-swap. If the Lease was written meanwhile, its
        agent is alive: it is read again, as the watch has not shown that.
        """
        if (lease := self._objects.get(name)) is None:
            return
        body = wire.fenced(lease, fence, wire_time(self._clock.wall()))
        try:
            self._take(await self._client.update(LEASES, body), own=True)
            log.warning("cluster.fenced", cluster=name, epoch=fence.epoch, cause=fence.cause.value)
        except (Conflict, NotFound):
            log.info("cluster.not_fenced", cluster=name, why="its Lease was written meanwhile")
            await self._read(name)
        except ApiError as error:
            log.error("cluster.not_fenced", cluster=name, error=str(error))

    async def confirm(self, name: str, confirm: Confirm) -> None:
        """Note that a fence was confirmed, unless the agent has come back meanwhile."""
        if (lease := self._objects.get(name)) is None:
            return
        try:
            body = wire.confirmed(lease, confirm)
            self._take(await self._client.update(LEASES, body), own=True)
            log.warning("fence.confirmed", cluster=name, below=confirm.epoch)
        except (Conflict, NotFound):
            log.info("fence.not_confirmed", cluster=name, why="its Lease was written meanwhile")
            await self._read(name)
        except ApiError as error:
            log.error("fence.not_confirmed", cluster=name, error=str(error))

    async def _read(self, name: str) -> None:
        try:
            lease = await self._client.get(LEASES, name, FEDQ_NAMESPACE)
        except NotFound:
            self._forget(name)
            return
        except ApiError as error:
            log.error("lease.not_read", cluster=name, error=str(error))
            return
        known = self.watches.get(name, Watch()).seen
        if known is not None and int(lease["metadata"]["resourceVersion"]) < known.version:
            log.warning("lease.older_than_known", cluster=name, hint="was the store restored?")
            self._forget(name)
        self._take(lease)

    def stale(self, name: str, *, bound: bool, identity: str = "") -> Json | None:
        """The Lease to write where it does not say what the settings do; K is kept while jobs that
        may have been admitted under it are `bound` there. `identity` is that of the physical
        cluster which answers.
        """
        lease, watch = self._objects.get(name), self.watches.get(name)
        if lease is None or watch is None or watch.seen is None:
            return None
        kill = watch.seen.kill if bound else 0.0
        return wire.configured(lease, watch.seen.epoch, self._timings, watch.lease, kill, identity)

    def identity(self, name: str) -> str:
        """The physical cluster that has the name, as noted on its Lease; '' if none is."""
        seen = self.watches.get(name, Watch()).seen
        return seen.identity if seen is not None else ""

    async def configure(self, name: str, body: Json) -> None:
        """Write a Lease as `stale` gave it."""
        try:
            self._take(await self._client.update(LEASES, body), own=True)
            log.info("lease.configured", cluster=name)
        except (Conflict, NotFound):
            log.debug("lease.changed_meanwhile", cluster=name)
        except ApiError as error:
            log.warning("lease.not_configured", cluster=name, error=str(error))
