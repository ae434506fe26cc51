"""Admits Jobs on one worker cluster: copies are answered at once, local Jobs wait in line.

The Job itself is the record: one patch starts it and notes what was charged, so a crash at any
moment leaves it either suspended and uncharged, or started and charged. Everything in memory can
be read again from the Jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from federation.api.names import Mirror
from federation.core.cycle import Decision, Snapshot, Wait, run_cycle
from federation.core.flavors import Reason
from federation.core.queueing import MemoryIndex, shape
from federation.core.types import Admission, Pending, ResourceFlavor
from federation.edge.catalog import Catalog
from federation.edge.deletions import Deletions
from federation.edge.errors import ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, Json
from federation.jobs import batch_job
from worker_agent.facts import WorkerJob, worker_job

log = structlog.get_logger(__name__)

ALL = 1 << 20
WRITES_IN_FLIGHT = 32
RETRY_S = 1.0


class Agent:
    """One per worker cluster. `on_change` hears of every Job whose Workload may need a write."""

    def __init__(self, client: KubeClient, catalog: Catalog, epoch: Callable[[], int]) -> None:
        """`epoch` is the current one of this cluster's Lease: offers of an older one are void."""
        self.jobs: dict[str, WorkerJob] = {}
        self.tree = catalog.new_tree()
        self.decided_version = 0
        self.waits: dict[str, Wait] = {}
        self.on_change: Callable[[str], None] = lambda uid: None
        self.on_decided: Callable[[], None] = lambda: None
        self._client, self._catalog, self._epoch = client, catalog, epoch
        self._bodies: dict[str, Json] = {}
        self._assumed: dict[str, Admission] = {}
        self._answering: set[str] = set()
        self._newest: dict[str, int] = {}
        self._deleted = Deletions()
        self._seen_version = 0
        self._wake = asyncio.Event()
        self._stale_quotas = True
        self._limit = asyncio.Semaphore(WRITES_IN_FLIGHT)

    # Facts

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """Informer handler: all queue-labelled Jobs."""
        present = {item["metadata"]["uid"] for item in items}
        for uid in self.jobs.keys() - present:
            self._forget(uid, int(resource_version))
        for item in items:
            self._see(item)
        self._seen_version = max(self._seen_version, int(resource_version))
        self._wake.set()

    def on_event(self, type: str, obj: Json) -> None:
        """Informer handler: one change."""
        version = int(obj["metadata"]["resourceVersion"])
        self._seen_version = max(self._seen_version, version)
        if type == "DELETED":
            self._forget(obj["metadata"]["uid"], version)
        else:
            self._see(obj)
        self._wake.set()

    def quotas_changed(self) -> None:
        """Queue objects changed: the tree is built again before the next decision."""
        self._stale_quotas = True
        self._wake.set()

    def _see(self, obj: Json) -> None:
        job = worker_job(obj)
        if job is None or self._deleted.covers(job.uid, job.version):
            return
        known = self.jobs.get(job.uid)
        if known is not None and known.version > job.version:
            return
        before = self._charge_of(job.uid)
        self.jobs[job.uid] = job
        self._bodies[job.uid] = obj
        if job.local_uid:
            attempt = max(self._newest.get(job.local_uid, 0), job.attempt)
            self._newest[job.local_uid] = attempt
        self._recharge(job.uid, before)
        self.on_change(job.uid)

    def _forget(self, uid: str, version: int) -> None:
        self._deleted.note(uid, version)
        before = self._charge_of(uid)
        job = self.jobs.pop(uid, None)
        for memory in (self._bodies, self._assumed, self.waits):
            memory.pop(uid, None)
        if job is not None:
            self._newest.pop(job.local_uid, None)
        self._recharge(uid, before)
        self.on_change(uid)

    def _charge_of(self, uid: str) -> Admission | None:
        job = self.jobs.get(uid)
        return self._assumed.get(uid) or (job.charged if job else None)

    def _recharge(self, uid: str, before: Admission | None) -> None:
        after = self._charge_of(uid)
        if after is before or after == before:
            return
        if before is not None:
            self.tree.remove(before.cluster_queue, before.usage())
        if after is not None:
            self.tree.add(after.cluster_queue, after.usage())

    def body(self, uid: str) -> Json | None:
        """The whole Job."""
        return self._bodies.get(uid)

    # Decisions

    async def run(self) -> None:
        """Decide until cancelled, whenever something changed."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                for coroutine in await self._decide():
                    tasks.create_task(coroutine)
                self.on_decided()

    async def _decide(self) -> list[Any]:
        """One cycle over everything that waits; the writes it calls for."""
        if self._stale_quotas:
            self._rebuild()
        writes: list[Any] = []
        index = MemoryIndex()
        for job in list(self.jobs.values()):
            if job.uid in self._answering or job.uid in self._assumed:
                continue
            if job.stray:
                writes.append(self._answer(job, self._suspend(job)))
            elif job.waits:
                problem = self._problem(job)
                if not problem:
                    await index.enqueue(self._pending(job))
                elif isinstance(problem, Wait):
                    writes += self._set_aside(job, problem)
        queues = {name: await index.heads(name, ALL) for name in self._catalog.queues}
        decisions = self._cycle(queues)
        for decision in decisions:
            writes += self._act(decision)
        writes += self._refuse_blocked(queues, decisions)
        self.decided_version = self._seen_version
        return writes

    def _rebuild(self) -> None:
        self._stale_quotas = False
        self.tree = self._catalog.new_tree()
        for uid in self.jobs:
            if (charge := self._charge_of(uid)) is not None:
                self.tree.add(charge.cluster_queue, charge.usage())

    def _cycle(self, heads: dict[str, list[Pending]]) -> list[Decision]:
        catalog = self._catalog
        snapshot = Snapshot(catalog.queues, catalog.flavors, catalog.namespaces, self.tree)
        return run_cycle(heads, snapshot)

    def _pending(self, job: WorkerJob) -> Pending:
        local_queue = self._catalog.local_queues[job.key.namespace, job.queue]
        return Pending(
            uid=job.uid,
            namespace=job.key.namespace,
            name=job.key.name,
            local_queue=job.queue,
            cluster_queue=local_queue.cluster_queue,
            priority=self.priority(job)[0],
            created=job.created,
            pod_sets=job.pod_sets,
        )

    def priority(self, job: WorkerJob) -> tuple[int, Json | None]:
        """A copy carries the manager's priority; a local Job's class is looked up here."""
        if job.mirrored:
            return job.priority, None
        try:
            return self._catalog.priority(job.priority_class, job.pod_class)
        except KeyError:
            return 0, None

    def _problem(self, job: WorkerJob) -> Wait | None:
        """Why a Job cannot even be queued here."""
        if job.mirrored and job.attempt < self._newest.get(job.local_uid, 0):
            reason, text = Reason.MISCONFIGURED, f"attempt {job.attempt} is superseded"
        elif job.mirrored and job.epoch < self._epoch():
            reason = Reason.MISCONFIGURED
            text = f"epoch {job.epoch} is over; this cluster is in epoch {self._epoch()}"
        elif job.problem:
            reason, text = Reason.MISCONFIGURED, job.problem
        elif queue_problem := self._catalog.queue_problem(job.key.namespace, job.queue):
            reason, text = Reason.MISCONFIGURED, queue_problem
        else:
            return None
        item = Pending(job.uid, job.key.namespace, job.key.name, job.queue, "", 0, 0, ())
        return Wait(item, reason, text, parked=True)

    def _act(self, decision: Decision) -> list[Any]:
        job = self.jobs[decision.item.uid]
        if isinstance(decision, Wait):
            return self._set_aside(job, decision)
        before = self._charge_of(job.uid)
        self._assumed[job.uid] = decision.admission
        self._recharge(job.uid, before)
        self.waits.pop(job.uid, None)
        return [self._answer(job, self._start(job, self._admission(job, decision.admission)))]

    def _admission(self, job: WorkerJob, admission: Admission) -> Json:
        """The write that starts a Job, made from what is known now: the Job or a flavor may be
        deleted before it is sent.
        """
        used = {name for p in admission.pod_sets for name in p.flavors.values()}
        flavors: list[ResourceFlavor] = [self._catalog.flavors[name] for name in sorted(used)]
        return batch_job.admission_patch(self._bodies[job.uid], admission, flavors)

    def _set_aside(self, job: WorkerJob, wait: Wait) -> list[Any]:
        if job.mirrored:
            return [self._answer(job, self._refuse(job, f"{wait.reason}: {wait.message}"))]
        if self.waits.get(job.uid) != wait:
            self.waits[job.uid] = wait
            self.on_change(job.uid)
        return []

    def _refuse_blocked(
        self, heads: dict[str, list[Pending]], decisions: list[Decision]
    ) -> list[Any]:
        """Copies without a decision of their own: the queue is global, none may wait here."""
        decided = {decision.item.uid for decision in decisions}
        answered = {
            (d.item.cluster_queue, d.shape): d for d in decisions if isinstance(d, Wait) and d.shape
        }
        writes: list[Any] = []
        for queue, items in heads.items():
            for item in items:
                if item.uid in decided:
                    continue
                text = f"ClusterQueue {queue} is blocked by the head of its line (StrictFIFO)"
                wait = answered.get((queue, shape(item))) or Wait(
                    item, Reason.WAITING_FOR_QUOTA, text, parked=False
                )
                writes += self._set_aside(self.jobs[item.uid], wait)
        return writes

    # Writes

    async def _answer(self, job: WorkerJob, write: Any) -> None:
        """Carry out one write about a Job; a failure puts the Job before the next decision."""
        self._answering.add(job.uid)
        try:
            async with self._limit:
                await write
        except (Conflict, NotFound):
            log.debug("job.changed_meanwhile", job=str(job.key))
        except ApiError as error:
            log.warning("job.not_answered", job=str(job.key), why=str(error))
            await asyncio.sleep(RETRY_S)  # the API server refused; nothing will announce better
        finally:
            self._answering.discard(job.uid)
            before = self._charge_of(job.uid)
            self._assumed.pop(job.uid, None)
            self._recharge(job.uid, before)
            self._wake.set()

    async def _start(self, job: WorkerJob, patch: Json) -> None:
        self._see(await self._client.patch(JOBS, job.key.name, patch, job.key.namespace))
        log.info("job.started", job=str(job.key), attempt=job.attempt, mirrored=job.mirrored)

    async def _refuse(self, job: WorkerJob, why: str) -> None:
        patch = {
            "metadata": {
                "uid": job.uid,
                "annotations": {Mirror.REFUSED.value: why},
            }
        }
        self._see(await self._client.patch(JOBS, job.key.name, patch, job.key.namespace))
        log.info("job.refused", job=str(job.key), attempt=job.attempt, why=why)

    async def _suspend(self, job: WorkerJob) -> None:
        """A Job that was started past the queue is stopped, and waits its turn."""
        patch = {
            "metadata": {"resourceVersion": str(job.version)},
            "spec": {"suspend": True},
        }
        self._see(await self._client.patch(JOBS, job.key.name, patch, job.key.namespace))
        log.warning("job.stopped", job=str(job.key), why="it was started without admission")
