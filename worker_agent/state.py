"""What the parts of the agent share: the Jobs, the scheduler, and what is under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from federation.api.meta import wire_time
from federation.core.controls import Deactivate, Readmit
from federation.core.devices.fleet.strategies.named import DEFAULT
from federation.core.devices.inventory.node_groups import NodeGroup
from federation.core.facts import Record
from federation.core.holding import Lease
from federation.core.policies import Policies
from federation.core.queueing import MemoryIndex
from federation.core.scheduler import REACTIVATION_S, Scheduler
from federation.core.types import ClusterQueue, LocalQueue
from federation.edge.catalog import Catalog
from federation.edge.kube import KubeClient
from federation.edge.machine import boottime
from federation.jobs.eviction_note import Eviction
from federation.jobs.kinds.kind import JobKind, Kinds
from federation.jobs.kinds.registry import BATCH_ONLY
from worker_agent import texts
from worker_agent.binder import Binder
from worker_agent.book import Book
from worker_agent.checks import Checks
from worker_agent.facts import Stage, WorkerJob
from worker_agent.standing import Standings
from worker_agent.texts import Waiting
from worker_agent.writes import Jobs, Queue


class Order(NamedTuple):
    """What a Workload of this version is to say because the rules of a Job's life ask for it."""

    version: int
    verdict: Readmit | Deactivate


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says, and where time comes from: `clock` in seconds since the epoch,
    `boottime` for the lease.
    """

    policies: Policies = field(default_factory=Policies)
    reactivation_s: float = REACTIVATION_S
    binder: Binder = Binder.HAMI
    card_strategy: str = DEFAULT
    node_groups: tuple[NodeGroup, ...] = ()
    clock: Callable[[], float] = time.time
    boottime: Callable[[], float] = boottime
    checks_s: float = 600.0
    """For how long a copy may wait for the admission checks of this cluster."""
    kinds: Kinds = BATCH_ONLY
    off: tuple[JobKind, ...] = ()
    """Those of which only copies are queued: what a manager sends is started, whatever is switched
    off here."""
    beside_manager: bool = False
    """Whether this is the management cluster: its own jobs are those of local queues, and there are
    no copies."""


_STOPPING = (Stage.HELD, Stage.STOPPING, Stage.DRAINING)
"""Stages of what was told to stop, by whomever."""


class State:
    """`waits` says why local Jobs wait, and others with a reservation that have no places yet, who
    are `unplaced`; `evicting` which Jobs are to be stopped and do not say so
    yet, `records` what the Workloads say, `orders` what has to be written there next; all by UID
    of the Job. `touch` has a Job looked at before the next decision.
    """

    def __init__(
        self, client: KubeClient, catalog: Catalog, lease: Callable[[], Lease], settings: Settings
    ) -> None:
        self.lease = lease
        self.settings, self.catalog = settings, catalog
        self.policies = policies = settings.policies
        self.book = Book(
            self.touch,
            lambda namespace: catalog.pod_defaults(namespace, policies.resources),
            settings.kinds,
        )
        self.scheduler = Scheduler(MemoryIndex(), settings.reactivation_s)
        self.standings = Standings(catalog, self.book, lease, policies.timestamp, self._elsewhere)
        self.waits: dict[str, Waiting] = {}
        self.unplaced: set[str] = set()
        self.evicting: dict[str, Eviction] = {}
        self.records: dict[str, Record] = {}
        self.orders: dict[str, Order] = {}
        self.dirty: dict[str, None] = {}
        self.wake = asyncio.Event()
        self.book.on_version = self.wake.set
        self.on_change: Callable[[str], None] = lambda uid: None
        self.checks = Checks(client, lambda: self.on_queues())
        self.on_queues: Callable[[], None] = lambda: None
        self.tasks: asyncio.TaskGroup | None = None
        self.api = Jobs(client, self.book.see, lambda: self.lease().breaks, settings.kinds)
        self._writes = Queue(self.touch)

    @property
    def jobs(self) -> dict[str, WorkerJob]:
        """All queue-labelled Jobs, by UID."""
        return self.book.jobs

    def kind_of(self, job: WorkerJob) -> JobKind:
        """What is known of its kind."""
        return self.settings.kinds[job.kind]

    def touch(self, uid: str) -> None:
        """There is news of a Job."""
        self.dirty[uid] = None
        self._writes.heard(uid)
        self.wake.set()
        self.on_change(uid)

    def workload_uid(self, uid: str) -> str:
        """UID of a Job's Workload; '' if there is none yet."""
        record = self.records.get(uid)
        return record.uid if record else ""

    def queue_of(self, job: WorkerJob) -> ClusterQueue | None:
        """The ClusterQueue whose quota a Job holds, else the one that it would ask."""
        if job.holds is not None:
            return self.catalog.queues.get(job.holds.cluster_queue)
        local = self.catalog.local_queues.get((job.key.namespace, job.queue))
        return self.catalog.queues.get(local.cluster_queue) if local else None

    def needed(self, job: WorkerJob) -> tuple[str, ...]:
        """The admission checks that a Job needs with what it holds, or before that."""
        return self.checks.names(self.queue_of(job), job.holds)

    def _elsewhere(self, door: LocalQueue) -> str:
        """Why the jobs of a LocalQueue are not this agent's; '' if they are."""
        queue = self.catalog.queues.get(door.cluster_queue)
        if not self.settings.beside_manager or queue is None:
            return ""
        if self.dispatched(queue):
            return texts.dispatched(queue)
        return "" if door.local else texts.not_local(door)

    def dispatched(self, queue: ClusterQueue) -> bool:
        """Whether a ClusterQueue is the manager's, which this agent works beside."""
        return self.settings.beside_manager and self.checks.dispatched(queue)

    def delayed(self, job: WorkerJob) -> frozenset[str]:
        """The pod sets of a reservation that have yet to get places in a topology."""
        if job.stage is not Stage.RESERVED or job.reservation is None:
            return frozenset()
        known = self.scheduler.snapshot.flavors
        return frozenset(
            pods.name
            for pods in job.reservation.pod_sets
            if pods.count and pods.topology is None
            if any(name in known and known[name].topology for name in pods.flavors.values())
        )

    def busy(self, uid: str) -> bool:
        """Whether a write about a Job is under way: it is looked at again when that is done."""
        return self._writes.busy(uid)

    def may_start(self, job: WorkerJob) -> bool:
        """Whether a Job may be started now: a copy only while the lease holds."""
        now = self.settings.boottime()
        return not job.mirrored or self.lease().may_start(job.epoch, now)

    def late(self) -> list[WorkerJob]:
        """Copies that have to be stopped by now and are not, as far as they say."""
        return [
            job
            for job in self.uncovered()
            if job.stage in (Stage.RUNNING, Stage.STRAY)
            or (job.stage in _STOPPING and not job.pods.gone)
        ]

    def uncovered(self) -> list[WorkerJob]:
        """Copies that the lease does not let run."""
        lease, now = self.lease(), self.settings.boottime()
        return [
            job
            for job in self.jobs.values()
            if job.mirrored and lease.must_stop(job.policy, job.rerun_after, job.epoch, now)
        ]

    async def written(self) -> None:
        """Until everything has been written, or given up, that was asked for before."""
        await self._writes.drained()

    def write(
        self,
        job: WorkerJob,
        write: Callable[[WorkerJob], Awaitable[None]],
        *,
        urgent: bool = False,
    ) -> None:
        """Have something written about a Job, as it is when its turn comes; what is `urgent` waits
        for nothing but earlier writes about the same Job.
        """

        async def run() -> None:
            current = self.jobs.get(job.uid)
            if current is not None:
                await write(current)

        assert self.tasks is not None
        self._writes.add(self.tasks, job, run, urgent=urgent)

    def refuse(self, job: WorkerJob, why: Waiting) -> None:
        """The final no to a copy, or to a Job that cannot be started as it was admitted."""
        self.write(job, lambda job: self.api.refuse(job, str(why)))

    def give_back(self, job: WorkerJob, why: Waiting, retry_after: float | None = None) -> None:
        """The no to a copy that holds a reservation, unless it has been started meanwhile."""

        async def write(job: WorkerJob) -> None:
            if job.stage is Stage.RESERVED:
                await self.api.refuse(job, str(why), retry_after)

        self.write(job, write)

    def set_aside(self, job: WorkerJob, why: Waiting) -> None:
        """A Job is not admitted now: a copy is refused, a local one waits and says why."""
        if job.mirrored:
            self.refuse(job, why)
        elif self.waits.get(job.uid) != why:
            self.waits[job.uid] = why
            self.on_change(job.uid)

    def evict(self, uid: str, eviction: Eviction, *, instead: bool = False) -> None:
        """Have a Job that holds quota stopped; until it is, it counts as evicted already.

        One that is about to be evicted for another reason keeps that, unless this one stands
        `instead` of it. More pods of a copy are being written, and cannot be called back: who asks
        for their quota waits, and finds them in the copy.
        """
        held = self.scheduler.holder(uid)
        if held is None or (held.evicted and not instead):
            return
        self.scheduler.hold(replace(held, evicted=True))
        if uid in self.jobs:
            self.evicting[uid] = eviction
            self.touch(uid)


def stamp(moment: float) -> str:
    """Seconds since the epoch as the API writes a time."""
    return wire_time(datetime.fromtimestamp(moment, UTC))
