"""One replica of the manager: it stands by until it leads, and builds everything then.

A standby looks at the Lease and nothing else. Who leads and may not act for a while (see
`manager.election`) writes nothing: its client is halted, and its workers get no commands. Who has
lost the Lease to another one ends, and its supervisor starts it again as a standby.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import structlog

from federation.core.failover import Timings
from federation.core.policies import Policies
from federation.core.queueing import IndexUnavailable
from federation.edge.embedded_redis import embedded_redis
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint, load_endpoint
from federation.edge.redis_index import RedisIndex
from federation.edge.services import exit_soon, guard, vital
from federation.edge.telemetry import settle_memory
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.registry import KINDS
from manager.app import Manager
from manager.election import Election, LeadershipLost
from manager.instance import instance
from manager.kubeconfigs import Sources
from manager.leases import StoreRestored
from manager.local_runtime import LocalRuntime
from manager.origin import ForeignOrigin, ensure_origin, identity_of
from manager.own_loop import OwnLoop
from manager.ray_process import RaySettings, open_ray
from manager.reading_api import Leader
from manager.runtime import SupervisedRuntime
from manager.settings import ManagerSettings

log = structlog.get_logger(__name__)

ENDS_WITHIN_S = 5.0
"""Who has lost the Lease is gone after that, whatever it hangs in."""


class Replica:
    """`lost` says that another replica has taken over from this one, or that it refused to lead."""

    def __init__(
        self,
        settings: ManagerSettings,
        policies: Policies,
        timings: Timings,
        sources: Sources | None = None,
        kinds: Kinds = KINDS,
    ) -> None:
        self._kinds = kinds
        self._settings, self._policies, self._timings = settings, policies, timings
        self._sources = sources
        self._election: Election | None = None
        self._manager: Manager | None = None
        self.lost = False

    async def run(self) -> None:
        """Stand by, then lead until cancelled, or until the Lease is lost."""
        endpoint = load_endpoint(self._settings.kubeconfig, self._settings.context)
        if not self._settings.leader_elect:
            await self._manage(endpoint)
            return
        client = KubeClient(endpoint, user_agent="fedq-manager-election")
        with instance(self._settings.state_dir) as identity, OwnLoop("election") as apart:
            election = Election(client, identity, self._settings.election())
            self._election = election
            try:
                await apart.run(election.lead())
                try:
                    await self._lead(election, endpoint, apart)
                finally:
                    await apart.run(election.resign())
            finally:
                await apart.run(client.aclose())

    async def _lead(self, election: Election, endpoint: Endpoint, apart: OwnLoop) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep(election, apart))
                tasks.create_task(guard(self._manage(endpoint), "manager"))
        except* LeadershipLost:
            log.info("leader.ended", own=election.identity)
        except* (ForeignOrigin, StoreRestored):  # logged with what to do
            self.lost = True

    async def _keep(self, election: Election, apart: OwnLoop) -> None:
        try:
            await apart.run(election.keep())
        except LeadershipLost as error:
            self.lost = True
            log.error("leader.lost", why=str(error))
            exit_soon(ENDS_WITHIN_S)
            raise

    def _halted(self) -> str:
        if self._election is None or self._election.may_act():
            return ""
        return "this manager does not lead at the moment"

    async def _manage(self, endpoint: Endpoint) -> None:
        settings = self._settings
        async with contextlib.AsyncExitStack() as stack:
            runtime = self._runtime()
            stack.push_async_callback(runtime.aclose)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(vital(runtime.run(), "runtime"))
                url = settings.redis_url or stack.enter_context(embedded_redis(settings.state_dir))
                client = KubeClient(endpoint, user_agent="fedq-manager")
                # Signs of life queue behind nothing.
                pulse = KubeClient(endpoint, user_agent="fedq-manager-canary")
                client.halted = pulse.halted = self._halted
                await stack.enter_async_context(client)
                await stack.enter_async_context(pulse)
                origin = await ensure_origin(client)
                index = RedisIndex(url, shard=f"{origin[:8]}:0")
                stack.push_async_callback(index.aclose)
                manager = Manager(
                    client, index, runtime, origin, self._policies, self._timings,
                    clamp_grace=settings.clamp_grace, offers=settings.offers(), pulse=pulse,
                    kinds=self._kinds, worker_lost_s=settings.worker_lost_s,
                    keep_finished_s=settings.keep_finished_s,
                    sources=self._sources, identity=await identity_of(client),
                    local_queues=settings.local_queues,
                )  # fmt: skip
                manager.on_crash = exit_soon
                self._manager = manager
                settle_memory()
                await manager.run()

    def _runtime(self) -> SupervisedRuntime:
        settings, local = self._settings, LocalRuntime()
        ray = RaySettings(settings.ray_address, settings.state_dir / "ray", settings.log_level)
        opener = partial(open_ray, ray) if settings.runtime == "ray" else None
        return SupervisedRuntime(opener, local, halted=self._halted)

    # What people are shown

    def problem(self) -> str:
        """Why no progress is made here; '' if it is, and for a standby that does its part."""
        if self._election is not None and (problem := self._election.problem):
            return problem
        if self._manager is not None:
            return self._manager.problem()
        return "" if self._stands_by() else "starting"

    def note(self) -> str:
        """What a healthy replica does."""
        if self._stands_by() and self._election is not None:
            return f"standby: {self._election.leader} leads"
        return "ok"

    def _stands_by(self) -> bool:
        election = self._election
        return election is not None and election.leader not in ("", election.identity)

    def status(self) -> dict[str, Any]:
        """See Manager.status, with who leads. A standby knows nothing else."""
        found: dict[str, Any] = {"ready": False}
        if self._manager is not None:
            found = self._manager.status()
        election = self._election
        if election is not None:
            found["leader"] = election.leader
            found["identity"] = election.identity
        return {**found, "leads": self._manager is not None and not self._halted()}

    def reader(self) -> Leader | None:
        """What logs and events are read with while this replica leads."""
        manager = self._manager
        if manager is None or self._halted():
            return None
        return Leader(manager.client, manager.clusters.kubeconfig, self._kinds)

    async def waiting(self, queue: str) -> list[str]:
        """See Manager.waiting. Raises IndexUnavailable on a standby, too."""
        if self._manager is None:
            raise IndexUnavailable(f"this manager does not lead: {self.note()}")
        return await self._manager.waiting(queue)
