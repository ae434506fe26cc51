"""Carries out effects: writes to the management API, the index, and commands to clusters.

Every write of the record names the version it was decided on. A conflict is no error: the watch
brings the newer facts and the plan is made again from them.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog

from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.meta import wire_time
from federation.api.names import Annotation, Order
from federation.api.workload_spec import pod_sets, spec_changes, workload_class
from federation.core import effects as do
from federation.core import events as on
from federation.core.elastic import growth_uid, wanted
from federation.core.facts import Binding, JobState, LocalJob, Record
from federation.core.reasons import Reason
from federation.core.returning import retakable
from federation.core.sizes import Counts
from federation.edge.errors import AlreadyExists, ApiError, Conflict, Halted, NotFound
from federation.edge.kind_objects import Objects, objects
from federation.edge.kube import KubeClient
from federation.edge.resources import WORKLOADS, Json
from federation.edge.retry import backoff
from federation.jobs.kinds.kind import JobKind
from manager.clusters import Clusters
from manager.controller import Controller
from manager.copies import Copies
from manager.moves import why_never
from manager.outcomes import AFTER_CONFLICT_S, Again, Ended, facts
from manager.statuses import status_body
from manager.write_turns import Rank, WriteTurns

log = structlog.get_logger(__name__)

WRITES_IN_FLIGHT = 48
CONFLICTS_AT_ONCE = 5
"""As many in a row are followed at once; more mean that the newer facts do not come."""
AFTER_REFUSED_WRITE_S = 5.0
AFTER_HALT_S = 1.0


class EffectRunner:
    """Runs the effects of one step in order, then tells the controller how it ended."""

    def __init__(
        self,
        client: KubeClient,
        controller: Controller,
        clusters: Clusters,
        origin: str,
    ) -> None:
        self._client = client
        self._controller = controller
        self._clusters = clusters
        self._copies = Copies(client, controller, clusters, origin)
        self._turns = WriteTurns(WRITES_IN_FLIGHT)
        self._rng = random.Random()
        self._decided: dict[str, int] = {}
        """Versions of the records that the steps under way were decided on, by UID of the job."""

    def run(self, uid: str, effects: tuple[do.Effect, ...]) -> Coroutine[Any, Any, None]:
        """Run effects; the first that fails ends the step. They are for the record as it is now."""
        record = self._state(uid).record
        return self._run(uid, effects, record.version if record else 0)

    async def _run(self, uid: str, effects: tuple[do.Effect, ...], version: int) -> None:
        self._decided[uid] = version
        try:
            for effect in effects:
                self._check_decided(uid)
                await self._one(uid, effect)
        except Ended as end:
            self._controller.feed(uid, end.event)
        except Again as again:
            self._failed(uid, again.after, str(again))
        except Conflict as conflict:
            self._failed(uid, AFTER_CONFLICT_S, str(conflict))
        except Halted:  # said once, where leadership is kept; nothing was sent
            self._failed(uid, AFTER_HALT_S, "")
        except ApiError as error:
            self._failed(uid, None if error.retryable else AFTER_REFUSED_WRITE_S, str(error))
        else:
            if uid in self._controller.states:
                self._controller.feed(uid, on.Done())

    def _check_decided(self, uid: str) -> None:
        """What was decided on another record than there is now has to be decided anew: a write that
        took the newer version would overwrite what somebody else decided.
        """
        record, version = self._state(uid).record, self._decided[uid]
        if record is not None and version and record.version != version:
            raise Again("", AFTER_CONFLICT_S)

    def _failed(self, uid: str, after: float | None, why: str) -> None:
        state = self._state(uid)
        if after == AFTER_CONFLICT_S:
            if state.failures < CONFLICTS_AT_ONCE:
                why = ""
            else:
                after = None
        delay = backoff(state.failures + 1, self._rng) if after is None else after
        if why:
            log.warning("effect.failed", uid=uid, job=_name(state), again_in=delay, why=why)
        self._controller.feed(uid, on.Failed(delay))

    def _state(self, uid: str) -> JobState:
        return self._controller.states.get(uid) or JobState()

    def _kind(self, local: LocalJob) -> JobKind:
        return self._controller.kinds[local.kind]

    async def _one(self, uid: str, effect: do.Effect) -> None:
        state = self._state(uid)
        match effect:
            case do.Forget():
                self._take_out(uid)
                if self._state(uid).forgettable:  # else something came up meanwhile
                    self._controller.forget(uid)
            case do.Dequeue():
                self._take_out(uid)
            case do.Enqueue():
                await self._enqueue(uid, state)
            case do.EnqueueGrowth(pods):
                self._enqueue_growth(uid, state, pods)
            case do.DequeueGrowth():
                self._take_out(growth_uid(uid))
            case do.Offer():
                await self._copies.offer(uid, state, effect)
            case do.Adopt():
                await self._copies.adopt(uid, state, effect)
            case do.RemoveRemote():
                await self._copies.remove(uid, state, effect)
            case do.Prioritize():
                await self._copies.prioritize(uid, state, effect)
            case do.PushLive():
                await self._copies.push(uid, state, effect)
            case do.Resize() | do.AskForMore() | do.WithdrawGrowth():
                await self._copies.resize(uid, state, effect)
            case do.Bind(cluster, attempt):
                async with self._turns.turn(_rank(state, effect)):
                    await self._bind(uid, state, cluster, attempt)
            case do.SetWaiting():
                async with self._turns.turn(_rank(state, effect)):
                    if self._state(uid).choice is None:  # it was placed meanwhile: bind it instead
                        await self._write(uid, state, effect)
            case _:
                async with self._turns.turn(_rank(state, effect)):
                    await self._write(uid, state, effect)

    # The index

    async def _enqueue(self, uid: str, state: JobState) -> None:
        local, record = facts(state)
        queue = self._controller.queues.cluster_queue(state)
        if queue is None:
            raise Again("", AFTER_CONFLICT_S)
        priority, ref = self._priority(uid, local)
        wanted = self._manifest(uid, local, priority, ref)
        changes: Json = {"spec": found} if (found := spec_changes(record, wanted)) else {}
        if local.elastic != record.elastic:
            note = {Annotation.ELASTIC_JOB.value: "true" if local.elastic else None}
            changes["metadata"] = {"annotations": note}
        if changes:
            await self._patch_workload(uid, record, changes)
        item = self._controller.views.pending(uid, local, record, queue, priority)
        if (copy := retakable(state)) is not None:
            item = replace(item, stays=copy.cluster)
        self._controller.scheduler.put(item, time.time())
        self._controller.charges.on_quota()

    def _enqueue_growth(self, uid: str, state: JobState, pods: Counts) -> None:
        """They keep the age and the priority of the job."""
        local, record = facts(state)
        if record.admission is None:
            raise Again("", AFTER_CONFLICT_S)
        self._controller.scheduler.put(
            self._controller.views.growth(uid, local, record, pods), time.time()
        )
        self._controller.charges.on_quota()

    def _manifest(self, uid: str, local: LocalJob, priority: int, ref: Json | None) -> Json:
        """What the spec of its Workload has to say, as far as it is known here."""
        wanted: Json = {
            "priority": priority, "priorityClassRef": ref, "queueName": local.queue,
            "maximumExecutionTimeSeconds": local.max_execution_s,
        }  # fmt: skip
        if (body := self._controller.body(uid)) is not None:
            kind = self._kind(local)
            templates = {role.name: role.template for role in kind.roles(body)}
            manifest = records.manifest(body, local, kind.kind, priority, ref, templates)
            wanted["podSets"] = manifest["spec"]["podSets"]
        return wanted

    async def _set_priority(self, uid: str, state: JobState) -> None:
        local, record = facts(state)
        priority, ref = self._priority(uid, local)
        if (named := workload_class(ref)) != state.priority_class:
            # The class is another one by now, or is gone: what is to be done is derived from that.
            self._controller.feed(uid, on.PrioritySeen(named))
            return
        body: Json = {"spec": {"priority": priority, "priorityClassRef": ref}}
        await self._patch_workload(uid, record, body)

    async def _set_pod_counts(self, state: JobState) -> None:
        """The templates stand: they are those of the pods that run."""
        local, record = facts(state)
        name, namespace = record.key.name, record.key.namespace
        found = await self._client.get(WORKLOADS, name, namespace)
        counts = wanted(local)
        sets = [{**pods, "count": counts[pods["name"]]} for pods in pod_sets(found["spec"])]
        await self._patch_workload(local.uid, record, {"spec": {"podSets": sets}})

    def _take_out(self, uid: str) -> None:
        self._controller.scheduler.take_out(uid, time.time())
        self._controller.charges.on_quota()

    def _priority(self, uid: str, local: LocalJob) -> tuple[int, Json | None]:
        body = self._controller.body(uid)
        pod_class = self._controller.kinds[local.kind].pod_class(body) if body else ""
        try:
            return self._controller.catalog.priority(local.priority_class, pod_class)
        except KeyError:
            return 0, None

    # Writes of the management API

    async def _bind(self, uid: str, state: JobState, cluster: str, attempt: int) -> None:
        local, record = facts(state)
        if state.admission is None or state.queues is None:
            raise Ended(on.BindLost())
        plain, views = self._clusters.plain(cluster), self._controller.views
        if plain and views.agent_only(local):  # its policy was changed meanwhile
            self._clusters.offer_void(uid, cluster)
            raise Ended(on.BindLost())
        found = views.disconnect_without_agent(local) if plain else views.disconnect(local)
        epoch = self._clusters.epoch(cluster)
        binding = Binding(cluster, attempt, epoch, _now(), found.policy, found.rerun_after)
        nominees = state.choice.nominees if state.choice else ()
        body = patches.bind_patch(record, state.admission, binding, state.queues, nominees)
        try:
            await self._patch_workload(uid, record, body, "status")
        except (Conflict, NotFound) as error:
            if isinstance(error, Conflict):
                await self._read_record(record)
            if self._state(uid).bound is None:
                self._clusters.offer_void(uid, cluster)
            raise Ended(on.BindLost()) from None
        self._copies.fresh[uid] = attempt

    async def _read_record(self, record: Record) -> None:
        """Before the quota of a decision is given to others: what stands in its way may be its own
        write, of which no answer came. The watch can be far behind then.
        """
        with contextlib.suppress(NotFound):
            name, namespace = record.key.name, record.key.namespace
            self._controller.workloads.see(await self._client.get(WORKLOADS, name, namespace))

    async def _write(self, uid: str, state: JobState, effect: do.Effect) -> None:
        if isinstance(effect, do.DeleteWorkload):
            return await self._delete_workload(state)
        if state.local is None:
            raise Again("", AFTER_CONFLICT_S)
        local = state.local
        match effect:
            case do.CreateWorkload():
                return await self._create_workload(uid, local)
            case do.DeleteJob():
                return await self._delete_job(local)
            case do.SetSuspend(suspend):
                return await self._patch_job(
                    local, self._kind(local).local_suspend(suspend=suspend)
                )
            case do.SyncStatus(cluster):
                shown = state.remotes[cluster].status
                wanted = self._kind(local).merge_status(local.status, shown)
                return await self._put_status(local, wanted)
            case do.ResetStatus():
                if not local.suspended or local.finished:  # resumed or ended meanwhile: plan again
                    raise Again("", AFTER_CONFLICT_S)
                cleared = self._kind(local).reset_status(local.status, _now())
                return await self._put_status(local, cleared)
        await self._write_record(state, effect)
        return None

    async def _write_record(self, state: JobState, effect: do.Effect) -> None:
        local, record = facts(state)
        if isinstance(effect, do.SetActive):
            active: Json = {"spec": {"active": effect.active}}
            return await self._patch_workload(local.uid, record, active)
        if isinstance(effect, do.SetPodCounts):
            return await self._set_pod_counts(state)
        if isinstance(effect, do.SetPriority):
            return await self._set_priority(local.uid, state)
        if isinstance(effect, do.EndMove):
            order: Json = {"metadata": {"annotations": {Order.MOVE_TO.value: None}}}
            return await self._patch_workload(local.uid, record, order)
        target = effect.target if isinstance(effect, do.Evict) else ""
        if target and (no := why_never(self._controller, self._clusters, state, target)):
            raise Ended(on.CannotMove(target, no))
        body = status_body(effect, state, record, self._controller.rules, _now())
        await self._patch_workload(local.uid, record, body, "status")
        return None

    async def _create_workload(self, uid: str, local: LocalJob) -> None:
        job = await self._copies.job_body(uid, local)
        priority, ref = self._priority(uid, local)
        kind = self._kind(local)
        templates = {role.name: role.template for role in kind.roles(job)}
        body = records.manifest(job, local, kind.kind, priority, ref, templates)
        try:
            created = await self._client.create(WORKLOADS, body)
        except AlreadyExists:
            name, namespace = body["metadata"]["name"], local.key.namespace
            created = await self._client.get(WORKLOADS, name, namespace)
            if records.owner_uid(created) != uid:
                raise Again(
                    f"a Workload {namespace}/{name} exists that is not this job's: delete it",
                    AFTER_REFUSED_WRITE_S,
                ) from None
            if records.superseded_slice(created):  # it is over, and in the way of the record
                await self._client.delete(
                    WORKLOADS, name, namespace, uid=created["metadata"]["uid"]
                )
                raise Again("", AFTER_CONFLICT_S) from None
        self._controller.workloads.see(created)

    async def _delete_job(self, local: LocalJob) -> None:
        """As it was decided on: somebody may release it at this moment."""
        namespace, name = local.key
        left: Json = {}
        with contextlib.suppress(NotFound):
            left = await self._objects(local).delete(
                name,
                namespace,
                uid=local.uid,
                resource_version=str(local.version),
            )
        log.info("job.expired", job=str(local.key))
        if left.get("kind") == self._kind(local).kind:  # something holds it yet
            self._controller.see_job(left)
        else:
            self._controller.job_gone(local)

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
        self._controller.workloads.gone(record.key, record.uid)

    async def _patch_workload(
        self, uid: str, record: Record, body: Json, subresource: str = ""
    ) -> None:
        decided = {"resourceVersion": str(self._decided[uid])}
        body = {**body, "metadata": {**body.get("metadata", {}), **decided}}
        written = await self._client.patch(
            WORKLOADS, record.key.name, body, record.key.namespace, subresource=subresource
        )
        self._decided[uid] = int(written["metadata"]["resourceVersion"])
        self._controller.workloads.see(written)

    async def _patch_job(self, local: LocalJob, body: Json) -> None:
        # A leader that another one has followed must not start or stop what that one decides on.
        decided = {"uid": local.uid, "resourceVersion": str(local.version)}
        body = {**body, "metadata": {**body.get("metadata", {}), **decided}}
        written = await self._objects(local).patch(local.key.name, body, local.key.namespace)
        self._controller.see_job(written)

    async def _put_status(self, local: LocalJob, status: Json) -> None:
        if not status and not local.status:
            return
        was = {"uid": local.uid, "resourceVersion": str(local.version)}
        name, namespace = local.key.name, local.key.namespace
        self._controller.see_job(
            await self._objects(local).put_status(name, was, status, namespace)
        )

    def _objects(self, local: LocalJob) -> Objects:
        kind, names = self._kind(local), set[str]()
        if kind.bundled and (body := self._controller.body(local.uid)) is not None:
            names = {pod["metadata"]["name"] for pod in body["spec"]["pods"]}
        return objects(self._client, kind, names)


def _rank(state: JobState, effect: do.Effect) -> Rank:
    """Who lost its cluster runs nowhere: until it is bound again it goes before all others, and who
    has a place already before those that are still to leave theirs. To say that it waits is not
    urgent.
    """
    leaves = isinstance(effect, do.Evict) and effect.reason == Reason.CLUSTER_LOST
    left = state.record is not None and state.record.life.evicted == Reason.CLUSTER_LOST
    if left and isinstance(effect, do.Bind):
        return Rank.STARTS
    return Rank.LEAVES if leaves or (left and state.bound is not None) else Rank.ORDINARY


def _now() -> str:
    return wire_time(datetime.now(UTC))


def _name(state: JobState) -> str:
    return str(state.local.key) if state.local else ""
