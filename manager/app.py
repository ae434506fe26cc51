"""Puts the manager together: client, catalog, clusters, scheduler, controller, dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from federation.api.names import Label
from federation.core.events import QueueMoved
from federation.core.exposure import LIMITS, OfferLimits
from federation.core.facts import BATCH_JOB, LocalJob
from federation.core.failover import DEFAULT, Timings
from federation.core.plain_kueue import WORKER_LOST_S
from federation.core.policies import Policies
from federation.core.queueing import PendingIndex
from federation.core.scheduler import Scheduler
from federation.edge.catalog import Catalog
from federation.edge.errors import ApiError, NotFound
from federation.edge.informer import Calls, Informer, Select
from federation.edge.kind_informers import DISPATCHED, NOTHING, KindInformers
from federation.edge.kind_objects import objects
from federation.edge.kube import KubeClient
from federation.edge.redis_index import RedisIndex
from federation.edge.resources import JOBS, WORKLOADS, Json
from federation.edge.services import guard
from federation.edge.web import counted
from federation.jobs.kinds.kind import JobKind, Kinds
from federation.jobs.kinds.registry import BATCH_ONLY
from manager.automated_quotas import AutomatedQuotas
from manager.clusters import Clusters
from manager.controller import Controller
from manager.dispatcher import CYCLES_AHEAD, REACTIVATION_S, Dispatcher
from manager.drain import Drain
from manager.effects import EffectRunner
from manager.exposure import Exposures
from manager.health import Watcher, bound_epochs
from manager.kubeconfigs import Sources
from manager.link import ClusterLink
from manager.local_queues import LocalQueues
from manager.protocol import News, Runtime
from manager.queue_health import QueueHealth
from manager.queue_status import QueueStatus
from manager.reasons import Reasons

log = structlog.get_logger(__name__)

MOST_POSITIONS = 10_000
FETCH_AGAIN_S = 2.0
OWN = Select(label_selector=f"{Label.LOCAL.value}!=true")
"""Of the Workloads, those that are the manager's."""


class Manager:
    """One manager on one management cluster. `run` ends by cancellation, or with what broke."""

    def __init__(
        self,
        client: KubeClient,
        index: PendingIndex,
        runtime: Runtime,
        origin: str,
        policies: Policies | None = None,
        timings: Timings = DEFAULT,
        *,
        clamp_grace: bool = False,
        kinds: Kinds = BATCH_ONLY,
        sources: Sources | None = None,
        offers: OfferLimits = LIMITS,
        keep_finished_s: float = 0.0,
        pulse: KubeClient | None = None,
        worker_lost_s: float = WORKER_LOST_S,
        identity: str = "",
        local_queues: bool = False,
    ) -> None:
        """`pulse` is the client of the canary, if it is to have connections of its own; `identity`
        names the physical cluster of the manager ('': not known). With `local_queues` an agent
        beside it runs the jobs of queues without a check of MultiKueue.
        """
        self.client, self.runtime, self._index = client, runtime, index
        self.catalog = Catalog(client, self._catalog_changed, management=True)
        if policies and policies.resources.devices.mappings:
            self.catalog.claims.want()
        self.scheduler = Scheduler(index, REACTIVATION_S, CYCLES_AHEAD)
        rules = policies or Policies()
        self.controller = Controller(
            self.catalog,
            self.scheduler,
            rules,
            timings,
            clamp_grace=clamp_grace,
            keep_finished_s=keep_finished_s,
            kinds=kinds,
        )
        self.controller.fetch = self._fetch
        watcher = Watcher(client, timings, pulse=pulse, worker_lost_s=worker_lost_s)
        self.clusters = Clusters(
            client, runtime, origin, self._news, self._clusters_changed, watcher,
            Exposures(offers), sources,
        )  # fmt: skip
        self.clusters.external = kinds.external
        self.clusters.management = identity
        self.clusters.off = frozenset(kind.name for kind in kinds.off)
        self.dispatcher = Dispatcher(self.controller, self.clusters, Reasons(self.controller))
        self.drain = Drain(
            self.controller, self.clusters.orders, lambda name: watcher.verdict(name).standing
        )
        self._join()
        runner = EffectRunner(client, self.controller, self.clusters, origin)
        self.controller.run_effects = runner.run
        health = QueueHealth(self.catalog, self.clusters.membership)
        self.controller.inactive = health.inactive
        self._status = QueueStatus(client, self.controller, health)
        self._quotas = AutomatedQuotas(self.controller, self.clusters, self._catalog_changed)
        self._local = LocalQueues(client, self.catalog, self.clusters.membership, on=local_queues)
        self.controller.adjusted = lambda queues: self._local.apart(self._quotas.adjusted(queues))
        self.controller.queues.elsewhere = self._local.problem
        self._status.runs_here = self._local.runs_here
        self._status.quota_condition = self._quotas.condition
        self._catalog_dirty = asyncio.Event()
        self._jobs, self._workloads = _informers(client, self.controller)
        self._others = KindInformers(client, kinds, self._on_jobs, select=DISPATCHED, held=True)
        self._kinds: dict[str, frozenset[str] | None] = {}
        """Which kinds clusters served when it was looked at last."""
        self.ready = False
        self.crashed = ""
        self.on_crash: Callable[[], None] = lambda: None

    def _join(self) -> None:
        """Tell clusters, jobs and the dispatcher of each other."""
        watcher, controller, clusters = self.clusters.watcher, self.controller, self.clusters
        watcher.on_standing = controller.cluster_stood
        watcher.bound_epochs = lambda: bound_epochs(controller.states.values())
        clusters.on_checks = self._catalog_changed
        clusters.on_started = controller.cluster_replaced
        controller.queues.own_check = clusters.membership.multikueue_check
        controller.charges.on_quota = self.dispatcher.wake
        controller.charges.on_void, controller.on_moved = clusters.offer_void, clusters.offers.moved
        controller.charges.on_grown = clusters.grown

    async def run(self) -> None:
        """Read everything, then act."""
        informers = [*self.catalog.informers, *self.clusters.informers, self._jobs]
        informers.append(self._workloads)
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in informers:
                    name = f"informer/{informer.resource.plural}"
                    tasks.create_task(self._guard(informer.run(), name), name=name)
                claims = self._guard(self.catalog.claims.run(), "claims")
                tasks.create_task(claims, name="claims")
                others = self._guard(self._others.run(), "kinds")
                tasks.create_task(others, name="kinds")
                for informer in informers:
                    await informer.synced.wait()
                await self._others.settled.wait()
                await self.catalog.claims.ready()
                await self.controller.start()
                self.ready = True
                log.info("manager.started", jobs=len(self.controller.states))
                services = {
                    "clusters": self.clusters.run(),
                    "dispatcher": self._dispatch(),
                    "explain": self.dispatcher.explain(),
                    "drain": self.drain.run(),
                    "queue-status": self._status.run(),
                    "catalog": self._follow_catalog(),
                    "quotas": self._quotas.run(),
                    "local-queues": self._local.run(),
                }
                for name, service in services.items():
                    tasks.create_task(self._guard(service, name), name=name)
                self.dispatcher.wake()
        finally:
            await self.controller.aclose()

    def _on_jobs(self, kind: JobKind) -> Calls:
        """Who is told of the objects of another kind."""
        seen = self.controller

        def listed(items: Sequence[Json], version: str) -> Coroutine[Any, Any, None]:
            return seen.on_jobs_listed(items, version, kind.name)

        return Calls(listed, seen.hear_of_job, seen.job_deleted)

    async def _fetch(self, local: LocalJob) -> Json | None:
        key, stored = local.key, objects(self.client, self.controller.kinds[local.kind])
        while True:
            try:
                return await stored.get(key.name, key.namespace)
            except NotFound:
                return None
            except ApiError as error:
                log.warning("jobs.not_read_again", job=str(key), error=str(error))
                await asyncio.sleep(FETCH_AGAIN_S)  # the API server refused, or is away

    async def _dispatch(self) -> None:
        await self.clusters.inventoried()
        await self.dispatcher.run()

    async def _guard(self, coro: Coroutine[Any, Any, object], name: str) -> None:
        """Own a task that must not end, and be known as broken from when it does."""
        try:
            await guard(coro, name)
        except Exception:  # whatever it was: passed on
            self.crashed = name
            self.on_crash()
            raise

    def problem(self) -> str:
        """Why the manager makes no progress; '' if it does."""
        if self.crashed:
            return f"{self.crashed} has crashed, see the log: the manager is ending"
        if not self.ready:
            return "reading the management cluster"
        for informer in (self._jobs, self._workloads):
            if informer.error is not None:
                return str(informer.error)
        return self.dispatcher.problem

    def status(self) -> dict[str, Any]:
        """For people and tests: runtime, index, clusters, and the writes made so far."""
        return {
            "ready": self.ready,
            "runtime": self.runtime.name,
            "runtimeProblem": self.runtime.problem,
            "jobs": len(self.controller.states),
            "waiting": len(self.scheduler.items),
            "cycles": self.scheduler.cycles,
            "index": {
                "problem": self.dispatcher.problem,
                "fills": self.dispatcher.fills,
                "roundTrips": self._round_trips,
                "caution": self._index.caution if isinstance(self._index, RedisIndex) else "",
                "slowest": round(self.dispatcher.slowest, 3),
            },
            "requests": {"management": counted(self.client.requests)},
            "clusters": {
                name: {
                    "pid": link.pid,
                    "health": link.health.reason,
                    "message": link.health.message,
                    "requests": counted(link.requests),
                    "kinds": None if link.kinds is None else sorted(link.kinds),
                }
                for name, link in self.clusters.links.items()
            },
        }

    @property
    def _round_trips(self) -> int:
        return self._index.round_trips if isinstance(self._index, RedisIndex) else 0

    async def waiting(self, queue: str) -> list[str]:
        """UIDs of the jobs that wait in a ClusterQueue, in order: the first ten thousand.

        Raises IndexLost or IndexUnavailable.
        """
        return await self.scheduler.waiting(queue, MOST_POSITIONS)

    def _news(self, link: ClusterLink, news: News) -> None:
        self.controller.on_news(link, news)
        if news.report is not None or self._kinds.get(link.name) != news.kinds:
            self._kinds[link.name] = news.kinds
            self.dispatcher.clusters_changed()
        self.clusters.look()

    def _clusters_changed(self) -> None:
        self.dispatcher.clusters_changed()
        self.drain.wake()

    def _catalog_changed(self) -> None:
        self._catalog_dirty.set()
        self._local.look()

    async def _follow_catalog(self) -> None:
        """Many queue objects change together; rebuild once for all of them."""
        while True:
            await self._catalog_dirty.wait()
            self._catalog_dirty.clear()
            self.controller.quotas_changed()
            self._requeue_moved()

    def _requeue_moved(self) -> None:
        """A LocalQueue that was deleted and created at once may lead elsewhere now, and queues may
        say otherwise about where to run.
        """
        for item in list(self.scheduler.items.values()):
            door = self.catalog.local_queues.get((item.namespace, item.local_queue))
            state = self.controller.states.get(item.uid)
            if door is None or state is None or state.local is None:
                continue
            views = self.controller.views
            bounds = views.rules(state.local), views.agent_only(state.local)
            if door.cluster_queue != item.cluster_queue or bounds != (item.rules, item.agent_only):
                self.controller.feed(item.uid, QueueMoved())


def _informers(client: KubeClient, controller: Controller) -> tuple[Informer, Informer]:
    """Of the queue-labelled Jobs, and of the Workloads: but those of the agent beside us."""
    seen = controller
    queued = DISPATCHED if BATCH_JOB in seen.kinds else NOTHING
    jobs = Calls(seen.on_jobs_listed, seen.hear_of_job, seen.job_deleted)
    workloads = Calls(seen.workloads.listed, seen.workloads.see, seen.workloads.deleted)
    records = Informer(client, WORKLOADS, workloads, select=OWN)
    return Informer(client, JOBS, jobs, select=queued), records
