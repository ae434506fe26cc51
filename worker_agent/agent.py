"""Admits Jobs on one worker cluster: copies are answered at once, local Jobs wait in line.

The Job itself is the record: one patch starts it and notes what was charged, one patch stops it
and notes why, so a crash at any moment leaves a Job of which the next agent knows what to do.
Everything in memory can be read again from the Jobs.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from federation.api.meta import wire_time
from federation.api.names import Mirror
from federation.core.cycle import Decision, Fit, Preempt
from federation.core.policies import RequeueTimestamp, ResourceRules, Rules
from federation.core.queueing import MemoryIndex
from federation.core.quota import QuotaTree
from federation.core.reasons import Reason
from federation.core.scheduler import REACTIVATION_S, Scheduler, World
from federation.core.types import Holder, ResourceFlavor
from federation.core.why import Explainer, preemption_message
from federation.edge.catalog import Catalog
from federation.edge.kube import KubeClient
from federation.edge.resources import Json
from federation.jobs import batch_job
from federation.jobs.eviction_note import Eviction
from federation.jobs.pods import PodDefaults
from worker_agent import texts
from worker_agent.book import Book
from worker_agent.copies import Copies
from worker_agent.facts import Stage, WorkerJob
from worker_agent.lines import Lines
from worker_agent.texts import Waiting
from worker_agent.views import Standing, holder, pending
from worker_agent.writes import Jobs, Queue


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says, and where time comes from (seconds since the epoch)."""

    rules: Rules = field(default_factory=Rules)
    resources: ResourceRules = field(default_factory=ResourceRules)
    timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION
    reactivation_s: float = REACTIVATION_S
    clock: Callable[[], float] = time.time


class Agent:
    """One per worker cluster. `on_change` hears of every Job whose Workload may need a write."""

    def __init__(
        self,
        client: KubeClient,
        catalog: Catalog,
        epoch: Callable[[], int],
        settings: Settings | None = None,
    ) -> None:
        """`epoch` is the current one of this cluster's Lease: offers of an older one are void."""
        self.settings = settings or Settings()
        self.book = Book(self._touch, self._pod_defaults)
        self.scheduler = Scheduler(MemoryIndex(), self.settings.reactivation_s)
        self.decided_version = 0
        self.waits: dict[str, Waiting] = {}
        self.on_change: Callable[[str], None] = lambda uid: None
        self.on_decided: Callable[[], None] = lambda: None
        self.workload_uid: Callable[[str], str] = lambda uid: ""
        self._catalog, self._epoch = catalog, epoch
        self._writes = Queue(self._touch)
        self._jobs = Jobs(client, self.book.see)
        self._lines = Lines(self.scheduler)
        self._copies = Copies(self.scheduler, self._lines)
        self._evicting: dict[str, Eviction] = {}
        self._dirty: dict[str, None] = {}
        self._untold: set[str] = set()
        self._generations = itertools.count(1)
        self._stale_quotas = True
        self._wake = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None

    # Facts

    @property
    def jobs(self) -> dict[str, WorkerJob]:
        """All queue-labelled Jobs, by UID."""
        return self.book.jobs

    @property
    def tree(self) -> QuotaTree:
        """Quota and usage as of the last decision."""
        return self.scheduler.snapshot.tree

    def body(self, uid: str) -> Json | None:
        """The whole Job."""
        return self.book.bodies.get(uid)

    def quotas_changed(self) -> None:
        """Queue objects changed: everything is looked at again before the next decision."""
        self._stale_quotas = True
        self._wake.set()

    def _touch(self, uid: str) -> None:
        self._dirty[uid] = None
        self._writes.heard(uid)
        self._wake.set()
        self.on_change(uid)

    def _pod_defaults(self, namespace: str) -> PodDefaults:
        return self._catalog.pod_defaults(namespace, self.settings.resources)

    # The loop

    async def run(self) -> None:
        """Decide until cancelled, whenever something changed or time asks for it."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                await self._woken()
                await self._round()
                self.on_decided()

    async def _woken(self) -> None:
        times = [at for at in (self.scheduler.due(), self._copies.due()) if at is not None]
        delay = max(0.0, min(times) - self.settings.clock()) if times else None
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._wake.wait()
        self._wake.clear()

    async def _round(self) -> None:
        """Cycles until nothing new can be decided; then every copy gets its answer."""
        now = self.settings.clock()
        if self._stale_quotas:
            self._configure(now)
        while True:
            version, touched = self.book.seen_version, self._dirty
            self._dirty = {}
            for uid in touched:
                await self._sync(uid, now)
            due = self.scheduler.due()
            if not self._dirty and not self.scheduler.ready and (due is None or due > now):
                break
            decisions = await self.scheduler.cycle(now)
            explainer = Explainer(self.scheduler.snapshot)
            for decision in decisions:
                self._act(decision, explainer, now)
            await asyncio.sleep(0)  # let the watches and the heartbeat through
        await self._tell(now)
        self.decided_version = version

    def _configure(self, now: float) -> None:
        self._stale_quotas = False
        self.book.refresh_defaults()
        catalog = self._catalog
        world = World(
            queues=catalog.queues,
            cohorts=tuple(catalog.cohorts),
            flavors=catalog.flavors,
            namespaces=catalog.namespaces,
            rules=self.settings.rules,
        )
        self.scheduler.configure(world, now)
        self._untold.update(self._lines.configured())
        self._dirty |= dict.fromkeys(self.jobs)

    # From Jobs to the scheduler

    async def _sync(self, uid: str, now: float) -> None:
        """Bring the scheduler in line with what is known of one Job."""
        job = self.jobs.get(uid)
        if job is None:
            self.scheduler.release(uid, now)
            await self._leave(uid, now)
            return
        if self._writes.busy(uid):  # looked at again when the write is done
            return
        stage = job.stage
        if stage in (Stage.RUNNING, Stage.STOPPING):
            await self._leave(uid, now)
            self._hold(job, now)
            return
        self._evicting.pop(uid, None)
        self.scheduler.release(uid, now)
        if stage is Stage.WAITING:
            await self._enqueue(job, now)
            return
        await self._leave(uid, now)
        if stage is Stage.STRAY:
            self._write(job, self._jobs.suspend)
        elif stage is Stage.STOPPED and not (job.mirrored and job.admission):
            self._write(job, lambda job: self._jobs.reset(job, self.book.bodies[job.uid]))

    async def _leave(self, uid: str, now: float) -> None:
        """A Job does not wait (any more)."""
        await self.scheduler.drop(uid, now)
        self._copies.forget(uid)
        self._untold.discard(uid)
        if uid not in self.jobs:
            self._evicting.pop(uid, None)
        self.waits.pop(uid, None)

    def _hold(self, job: WorkerJob, now: float) -> None:
        assert job.admission is not None
        eviction = self._evicting.get(job.uid)
        held = holder(job, job.admission, self.priority(job)[0], evicted=eviction is not None)
        if not self.settings.rules.block_admission:  # nobody asks: spare the changes
            held = replace(held, pods_ready=True)
        before = self.scheduler.holder(job.uid)
        self.scheduler.hold(held)
        if before is not None and _helps(before, held):
            self.scheduler.wake(held.cluster_queue, now)
        if job.stage is Stage.STOPPING:
            self._evicting.pop(job.uid, None)
        elif eviction is not None and job.pods.started:
            # Before the start time the Job controller may be about to make pods unseen.
            self._write(job, lambda job: self._jobs.evict(job, eviction))

    async def _enqueue(self, job: WorkerJob, now: float) -> None:
        if problem := self._problem(job):
            await self._leave(job.uid, now)
            self._set_aside(job, problem)
            return
        local_queue = self._catalog.local_queues[job.key.namespace, job.queue]
        standing = Standing(
            local_queue.cluster_queue, self.priority(job)[0], self.settings.timestamp
        )
        known = self.scheduler.items.get(job.uid)
        item = pending(job, standing, known.generation if known else next(self._generations))
        if item != known:
            if known is not None:
                item = replace(item, generation=next(self._generations))
            await self.scheduler.enqueue(item, now)
            self._untold.add(job.uid)
        if job.mirrored:
            self._copies.waits(job, now)

    def priority(self, job: WorkerJob) -> tuple[int, Json | None]:
        """A copy carries the manager's priority; a local Job's class is looked up here.

        If the class is gone, what it was at the start of the Job stands.
        """
        if job.mirrored:
            return job.priority, None
        try:
            return self._catalog.priority(job.priority_class, job.pod_class)
        except KeyError:
            return job.priority, None

    def _problem(self, job: WorkerJob) -> Waiting | None:
        """Why a Job cannot even be queued here."""
        if self.book.superseded(job):
            return texts.superseded(job)
        if job.mirrored and job.epoch < self._epoch():
            return texts.old_epoch(job, self._epoch())
        problem = job.problem or self._catalog.queue_problem(job.key.namespace, job.queue)
        if problem:
            return Waiting(Reason.MISCONFIGURED.value, problem)
        if not job.mirrored:
            try:
                self._catalog.priority(job.priority_class, job.pod_class)
            except KeyError:
                if job.priority_class:
                    return texts.no_priority("WorkloadPriorityClass", job.priority_class)
                return texts.no_priority("PriorityClass", job.pod_class)
        return None

    def _set_aside(self, job: WorkerJob, why: Waiting) -> None:
        if job.mirrored:
            self._refuse(job, why)
        elif self.waits.get(job.uid) != why:
            self.waits[job.uid] = why
            self.on_change(job.uid)

    # From decisions to writes

    def _act(self, decision: Decision, explainer: Explainer, now: float) -> None:
        uid = decision.item.uid
        job = self.jobs.get(uid)
        if job is None or job.stage is not Stage.WAITING:  # changed since it was queued
            self.scheduler.release(uid, now)
            self._touch(uid)
        elif isinstance(decision, Fit):
            self._admit(job, decision, now)
        else:
            if isinstance(decision, Preempt):
                self._preempt(decision, now)
            self._lines.note(decision)
            self._untold.discard(uid)
            if job.mirrored:
                self._copies.decided(uid, decision)
            else:
                self._set_aside(job, texts.of(decision, explainer))

    def _admit(self, job: WorkerJob, fit: Fit, now: float) -> None:
        self.waits.pop(job.uid, None)
        self._untold.discard(job.uid)
        self._copies.forget(job.uid)
        used = {name for p in fit.admission.pod_sets for name in p.flavors.values()}
        flavors = [self.scheduler.snapshot.flavors[name] for name in sorted(used)]
        problem = batch_job.start_problem(self.book.bodies[job.uid], fit.admission, flavors)
        if problem:
            self.scheduler.release(job.uid, now)
            self._refuse(job, Waiting(Reason.FAILED_TO_START.value, problem))
            return
        self._write(job, partial(self._start, fit, flavors, now))

    async def _start(
        self, fit: Fit, flavors: list[ResourceFlavor], now: float, job: WorkerJob
    ) -> None:
        patch = batch_job.admission_patch(self.book.bodies[job.uid], fit.admission, flavors)
        notes = patch["metadata"]["annotations"]
        notes[Mirror.RESERVED_AT.value] = _stamp(now)
        if not job.mirrored:
            notes[Mirror.PRIORITY.value] = str(fit.item.priority)
        if job.eviction is not None:
            notes[Mirror.EVICTED.value] = None
        if job.deciding_until:
            notes[Mirror.DECIDING.value] = None
        await self._jobs.start(job, patch)

    def _preempt(self, decision: Preempt, now: float) -> None:
        item = decision.item
        for victim in decision.victims:
            held = victim.holder
            if held.evicted:
                continue
            text = preemption_message(
                decision, held, victim.reason, self.scheduler.snapshot, self.workload_uid(item.uid)
            )
            self._evicting[held.uid] = Eviction(
                Reason.PREEMPTED.value, text, _stamp(now), victim.reason.value
            )
            self.scheduler.hold(replace(held, evicted=True))
            self._touch(held.uid)

    async def _tell(self, now: float) -> None:
        """Nothing moves any more: answer the copies, and say why the others wait."""
        for uid, why in self._copies.refusals(now):
            await self._leave(uid, now)
            self._refuse(self.jobs[uid], why)
        for uid in self._copies.undecided():
            until = _stamp(self._copies.wait_for_victims(uid, now))
            self._write(self.jobs[uid], partial(self._decide_later, until))
        explainer, items = Explainer(self.scheduler.snapshot), self.scheduler.items
        for uid in self._untold & items.keys() & self.jobs.keys():
            why = self._lines.why(items[uid], explainer)
            self._set_aside(self.jobs[uid], why)
            if why.reason != Reason.PENDING_EVALUATION:
                self._untold.discard(uid)

    async def _decide_later(self, until: str, job: WorkerJob) -> None:
        await self._jobs.decide_later(job, until)

    def _refuse(self, job: WorkerJob, why: Waiting) -> None:
        self._write(job, lambda job: self._jobs.refuse(job, str(why)))

    def _write(self, job: WorkerJob, write: Callable[[WorkerJob], Awaitable[None]]) -> None:
        """Have something written about a Job, as it is when its turn comes."""

        async def run() -> None:
            current = self.jobs.get(job.uid)
            if current is not None:
                await write(current)

        assert self._tasks is not None
        self._writes.add(self._tasks, job, run)


def _helps(before: Holder, after: Holder) -> bool:
    """Whether a change of what holds quota may let others in."""
    less = any(after.usage.get(key, 0) < amount for key, amount in before.usage.items())
    return less or before.priority != after.priority


def _stamp(moment: float) -> str:
    return wire_time(datetime.fromtimestamp(moment, UTC))
