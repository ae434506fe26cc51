"""Carries out effects: writes to the management API, the index, and commands to clusters.

Every write of the record names the version it was decided on. A conflict is no error: the watch
brings the newer facts and the plan is made again from them.
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import structlog

from federation.api import record as records
from federation.api.meta import wire_time
from federation.core import effects as do
from federation.core import events as on
from federation.core.facts import Binding, JobState, LocalJob, Record
from federation.core.types import Pending
from federation.edge.catalog import pod_priority_class
from federation.edge.errors import AlreadyExists, ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, WORKLOADS, Json
from federation.edge.retry import backoff
from federation.jobs import batch_job
from federation.jobs.mirror import Identity
from manager.clusters import Clusters
from manager.controller import Controller
from manager.pending import PendingQueue
from manager.protocol import CreateCopy, DeleteCopy, Outcome, Result

log = structlog.get_logger(__name__)

WRITES_IN_FLIGHT = 48
AFTER_CONFLICT_S = 0.05
CONFLICTS_AT_ONCE = 5
"""As many in a row are followed at once; more mean that the newer facts do not come."""
AFTER_REFUSED_WRITE_S = 5.0


class _Again(Exception):
    """Not done; try the plan again after some seconds."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class _Ended(Exception):
    """The step ends with another event than Done."""

    def __init__(self, event: on.Event) -> None:
        super().__init__(event)
        self.event = event


class EffectRunner:
    """Runs the effects of one step in order, then tells the controller how it ended."""

    def __init__(
        self,
        client: KubeClient,
        controller: Controller,
        queue: PendingQueue,
        clusters: Clusters,
        origin: str,
    ) -> None:
        self._client = client
        self._controller = controller
        self._queue = queue
        self._origin = origin
        self._clusters = clusters
        self._limit = asyncio.Semaphore(WRITES_IN_FLIGHT)
        self._rng = random.Random()

    async def run(self, uid: str, effects: tuple[do.Effect, ...]) -> None:
        """Run effects; the first that fails ends the step."""
        try:
            for effect in effects:
                await self._one(uid, effect)
        except _Ended as end:
            self._controller.feed(uid, end.event)
        except _Again as again:
            self._failed(uid, again.after, str(again))
        except Conflict as conflict:
            often = self._state(uid).failures >= CONFLICTS_AT_ONCE
            self._failed(uid, None if often else AFTER_CONFLICT_S, str(conflict) if often else "")
        except ApiError as error:
            self._failed(uid, None if error.retryable else AFTER_REFUSED_WRITE_S, str(error))
        else:
            if uid in self._controller.states:
                self._controller.feed(uid, on.Done())

    def _failed(self, uid: str, after: float | None, why: str) -> None:
        state = self._state(uid)
        delay = backoff(state.failures + 1, self._rng) if after is None else after
        if why:
            log.warning("effect.failed", uid=uid, job=_name(state), again_in=delay, why=why)
        self._controller.feed(uid, on.Failed(delay))

    def _state(self, uid: str) -> JobState:
        return self._controller.states.get(uid) or JobState()

    async def _one(self, uid: str, effect: do.Effect) -> None:
        state = self._state(uid)
        match effect:
            case do.Forget():
                await self._queue.drop(uid)
                if self._state(uid).forgettable:  # else something came up meanwhile
                    self._controller.forget(uid)
            case do.Dequeue():
                await self._queue.drop(uid)
            case do.Enqueue():
                await self._enqueue(uid, state)
            case do.Offer(cluster, attempt):
                await self._offer(uid, state, cluster, attempt)
            case do.RemoveRemote():
                await self._remove_remote(uid, state, effect)
            case do.Bind(cluster, attempt):
                async with self._limit:
                    await self._bind(uid, state, cluster, attempt)
            case _:
                async with self._limit:
                    await self._write(uid, state, effect)

    # The index

    async def _enqueue(self, uid: str, state: JobState) -> None:
        local, record = _facts(state)
        queue = self._controller.queue_of(state)
        if queue is None:
            raise _Again("", AFTER_CONFLICT_S)
        priority, ref = self._priority(uid, local)
        if priority != record.priority:
            body = {"spec": {"priority": priority, "priorityClassRef": ref}}
            await self._patch_workload(record, body)
        item = Pending(
            uid=uid,
            namespace=local.key.namespace,
            name=local.key.name,
            local_queue=local.queue,
            cluster_queue=queue.name,
            priority=priority,
            created=local.created,
            pod_sets=local.pod_sets,
            generation=local.version,
        )
        await self._queue.enqueue(item)
        self._controller.on_queued()

    def _priority(self, uid: str, local: LocalJob) -> tuple[int, Json | None]:
        body = self._controller.body(uid)
        pod_class = pod_priority_class(body) if body else ""
        try:
            return self._controller.catalog.priority(local.priority_class, pod_class)
        except KeyError:
            return 0, None

    # Commands to clusters

    async def _offer(self, uid: str, state: JobState, cluster: str, attempt: int) -> None:
        local, record = _facts(state)
        link = self._clusters.links.get(cluster)
        if link is None:
            raise _Again(f"cluster {cluster} is not registered")
        job = await self._job_body(uid, local)
        identity = Identity(
            origin=self._origin,
            local_uid=uid,
            attempt=attempt,
            epoch=record.binding.epoch if record.binding else 0,
            queued_at=job["metadata"]["creationTimestamp"],
            priority=record.priority,
        )
        body = batch_job.remote_manifest(job, identity)
        outcome = await link.command(CreateCopy(local.key, uid, attempt, body))
        if outcome.result is Result.REFUSED:
            link.ledger.ended(uid, 0)
            raise _Ended(on.OfferRefused(cluster, outcome.reason, outcome.message))
        self._check(outcome)
        if outcome.remote is not None:
            link.ledger.created(uid, outcome.remote.version)
            self._controller.feed(uid, on.RemoteSeen(outcome.remote))

    async def _job_body(self, uid: str, local: LocalJob) -> Json:
        job = self._controller.body(uid)
        if job is None:
            job = await self._client.get(JOBS, local.key.name, local.key.namespace)
            if job["metadata"]["uid"] != uid:
                raise _Again("the job was replaced", AFTER_CONFLICT_S)
        return job

    async def _remove_remote(self, uid: str, state: JobState, effect: do.RemoveRemote) -> None:
        link = self._clusters.links.get(effect.cluster)
        if link is None:
            raise _Again(f"cluster {effect.cluster} is not registered")
        copy = state.remotes[effect.cluster]
        command = DeleteCopy(copy.key, effect.uid, effect.version, effect.wait)
        outcome = await link.command(command)
        if outcome.remote is not None:
            self._controller.feed(uid, on.RemoteSeen(outcome.remote))
        if outcome.result is Result.ABSENT:
            self._controller.feed(uid, on.RemoteAbsent(effect.cluster, copy.version))
            link.ledger.ended(uid, copy.version)
        else:
            self._check(outcome)

    @staticmethod
    def _check(outcome: Outcome) -> None:
        if outcome.result is not Result.OK:
            raise _Again(outcome.message)

    # Writes of the management API

    async def _bind(self, uid: str, state: JobState, cluster: str, attempt: int) -> None:
        _, record = _facts(state)
        if state.admission is None:
            raise _Ended(on.BindLost())
        binding = Binding(cluster, attempt, self._clusters.epoch(cluster), _now())
        body = records.bind_patch(record, state.admission, binding, self._check_name(state))
        try:
            await self._patch_workload(record, body, "status")
        except (Conflict, NotFound):
            await self._queue.release(uid)
            if link := self._clusters.links.get(cluster):
                link.ledger.ended(uid, 0)
            raise _Ended(on.BindLost()) from None
        await self._queue.drop(uid)

    def _check_name(self, state: JobState) -> str:
        queue = self._controller.queue_of(state)
        return self._clusters.multikueue_check(queue.check_names) if queue else ""

    async def _write(self, uid: str, state: JobState, effect: do.Effect) -> None:
        if isinstance(effect, do.DeleteWorkload):
            return await self._delete_workload(state)
        if state.local is None:
            raise _Again("", AFTER_CONFLICT_S)
        local = state.local
        match effect:
            case do.CreateWorkload():
                return await self._create_workload(uid, local)
            case do.SetSuspend(suspend):
                return await self._patch_job(local, {"spec": {"suspend": suspend}})
            case do.SyncStatus(cluster):
                wanted = batch_job.merge_status(local.status, state.remotes[cluster].status)
                return await self._put_status(local, wanted)
            case do.ResetStatus():
                if not local.suspended or local.finished:  # resumed or ended meanwhile: plan again
                    raise _Again("", AFTER_CONFLICT_S)
                cleared = batch_job.reset_status(local.status, _now())
                return await self._put_status(local, cleared)
        await self._write_record(state, effect)
        return None

    async def _write_record(self, state: JobState, effect: do.Effect) -> None:
        _, record = _facts(state)
        now = _now()
        match effect:
            case do.SetActive(active):
                return await self._patch_workload(record, {"spec": {"active": active}})
            case do.Admit(cluster):
                body = records.admit_patch(record, cluster, self._check_name(state), now)
            case do.FinishWorkload(reason):
                body = records.finish_patch(record, reason, _end_message(state, reason), now)
            case do.Unbind(reason, message, evicted):
                body = records.unbind_patch(record, reason, message, evicted, now)
            case do.SetWaiting(reason, message):
                body = records.waiting_patch(record, reason, message, now)
            case _:
                raise AssertionError(f"no handler for {effect}")
        return await self._patch_workload(record, body, "status")

    async def _create_workload(self, uid: str, local: LocalJob) -> None:
        job = await self._job_body(uid, local)
        priority, ref = self._priority(uid, local)
        body = records.manifest(job, local, batch_job.KIND, priority, ref)
        try:
            created = await self._client.create(WORKLOADS, body)
        except AlreadyExists:
            name, namespace = body["metadata"]["name"], local.key.namespace
            created = await self._client.get(WORKLOADS, name, namespace)
            if records.owner_uid(created) != uid:
                raise _Again(
                    f"a Workload {namespace}/{name} exists that is not this job's: delete it",
                    AFTER_REFUSED_WRITE_S,
                ) from None
        self._controller.see_workload(created)

    async def _delete_workload(self, state: JobState) -> None:
        record = state.record
        if record is None:
            return
        try:
            await self._client.delete(
                WORKLOADS, record.key.name, record.key.namespace, uid=record.uid
            )
        except (NotFound, Conflict):
            log.debug("workload.already_gone", workload=str(record.key))
        self._controller.workload_gone(record.key, record.uid)

    async def _patch_workload(self, record: Record, body: Json, subresource: str = "") -> None:
        written = await self._client.patch(
            WORKLOADS, record.key.name, body, record.key.namespace, subresource=subresource
        )
        self._controller.see_workload(written)

    async def _patch_job(self, local: LocalJob, body: Json) -> None:
        body = {**body, "metadata": {"uid": local.uid}}
        written = await self._client.patch(JOBS, local.key.name, body, local.key.namespace)
        self._controller.see_job(written)

    async def _put_status(self, local: LocalJob, status: Json) -> None:
        """Replace the status: a merge patch could not take fields away that are gone."""
        operations: list[Json] = [
            {"op": "replace", "path": "/metadata/uid", "value": local.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": str(local.version)},
            {"op": "add", "path": "/status", "value": status},
        ]
        name, namespace = local.key.name, local.key.namespace
        self._controller.see_job(
            await self._client.patch(
                JOBS, name, operations, namespace, kind="json", subresource="status"
            )
        )


def _facts(state: JobState) -> tuple[LocalJob, Record]:
    if state.local is None or state.record is None:
        raise _Again("", AFTER_CONFLICT_S)
    return state.local, state.record


def _now() -> str:
    return wire_time(datetime.now(UTC))


def _name(state: JobState) -> str:
    return str(state.local.key) if state.local else ""


def _end_message(state: JobState, ended: str) -> str:
    copy = state.remote
    where = f" on cluster {copy.cluster}, attempt {copy.attempt}" if copy else ""
    for condition in copy.status.get("conditions") or () if copy else ():
        if condition["type"] == ended and condition.get("message"):
            return f"{condition['message']}{where}"
    return f"the job ended as {ended}{where}"
