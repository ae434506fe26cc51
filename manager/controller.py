"""Holds the state of every job, feeds it events, and runs the effects the core asks for.

One job's effects run one step at a time; different jobs run side by side. All facts come from
watches and from the answers to our own writes; nothing is read again by GET except the body of a
job that has waited so long that it was let go from memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from federation.api import record as records
from federation.api.workload_spec import left_by
from federation.core import effects as do
from federation.core import events as on
from federation.core.dispatchers import Dispatcher
from federation.core.elastic import growth_uid, unsettled
from federation.core.facts import BATCH_JOB, JobState, LocalJob, ObjectKey, Record
from federation.core.failover import DEFAULT, Timings
from federation.core.lifecycle import step, wake_at
from federation.core.policies import Policies
from federation.core.reasons import Reason
from federation.core.scheduler import Scheduler
from federation.core.sizes import exceeds
from federation.core.stay import LifeRules
from federation.core.types import ClusterQueue, Holder
from federation.edge.catalog import Catalog
from federation.edge.deletions import FOR_EVER, Deletions
from federation.edge.resources import Json
from federation.edge.turns import in_turns
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.pod_groups import whole
from federation.jobs.kinds.registry import BATCH_ONLY
from manager.cluster_news import ClusterNews
from manager.job_queues import JobQueues
from manager.pod_defaults import KnownDefaults
from manager.views import Views

log = structlog.get_logger(__name__)

BODIES_KEPT = 5000
AFTER_CRASH_S = 30.0

RunEffects = Callable[[str, tuple[do.Effect, ...]], Coroutine[Any, Any, None]]


class Controller:
    """Keeps the states, and what the scheduler charges equal to what they hold.

    `run_effects` carries out the effects of one step. `on_quota` hears that the scheduler may
    decide something new, `on_void` that an offer decided on (UID, cluster) is not made, `on_grown`
    that more pods of what runs are counted there as of a version (0: are not to be), `on_moved` of
    each change of a job's state. `inactive` names the ClusterQueues that admit nothing, and why.
    """

    def __init__(
        self,
        catalog: Catalog,
        scheduler: Scheduler,
        policies: Policies,
        timings: Timings = DEFAULT,
        *,
        clamp_grace: bool = False,
        kinds: Kinds = BATCH_ONLY,
        keep_finished_s: float = 0.0,
    ) -> None:
        self.kinds = kinds
        self.catalog, self.scheduler, self.policies = catalog, scheduler, policies
        self.views = Views(catalog, policies, timings, clamp_grace)
        self.queues = JobQueues(catalog, kinds)
        self.states: dict[str, JobState] = {}
        kept = policies.retention
        others = policies.dispatching.kind is Dispatcher.EXTERNAL
        self.rules = LifeRules(
            kinds.is_behind, policies.pods_ready, kept, timings, others, keep_finished_s
        )
        self.news = ClusterNews(self.states, self.feed, self._start, timings)
        self.on_news, self.cluster_replaced = self.news.take, self.news.replaced
        self.cluster_stood = self.news.stood
        self.run_effects: RunEffects | None = None
        self.on_quota: Callable[[], None] = lambda: None
        self.inactive: Callable[[], dict[str, str]] = dict
        self.adjusted: Callable[[Mapping[str, ClusterQueue]], Mapping[str, ClusterQueue]] = dict
        """The ClusterQueues with the quota that counts."""
        self.on_void: Callable[[str, str], None] = lambda uid, cluster: None
        self.on_grown: Callable[[str, str, int], None] = lambda uid, cluster, version: None
        self.on_moved: Callable[[str, JobState, JobState], None] = lambda uid, before, after: None
        self.fetch: Callable[[LocalJob], Coroutine[Any, Any, Json | None]]
        """Gets a Job that is not in memory any more; None if it cannot be had."""
        self._defaults = KnownDefaults(
            lambda namespace: catalog.pod_defaults(namespace, policies.resources), kinds
        )
        self._bodies: OrderedDict[str, Json] = OrderedDict()
        self._jobs: dict[tuple[str, ObjectKey], str] = {}
        self._workloads: dict[ObjectKey, tuple[str, str]] = {}
        beside = (kind.name for kind in kinds if kind.name != BATCH_JOB)
        self._unread: dict[str, dict[str, Json]] = {name: {} for name in beside}
        """Workloads of kinds whose objects have not been listed yet, by UID: that none is known
        does not mean that none is there."""
        self._deleted_jobs = Deletions()
        self._deleted_workloads = Deletions()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[tuple[str, on.Event]] | None = []
        self._ownerless: list[tuple[str, Json]] = []

    async def start(self) -> None:
        """Begin to act on what the first listings brought, once all of it is known. What comes
        while it is taken in is taken in after it.
        """
        held = self._held
        assert held is not None
        await self._take_in(held)
        async for uid in in_turns(list(self.states)):
            if (queues := self.queues.of(self.states[uid])) is not None:
                self._step(uid, on.QueuesSeen(queues))
        await self._take_in(held)
        for uid, workload in self._ownerless:
            if uid not in self.states:
                self._see_left(uid, workload)
        await self._take_in(held)
        self._ownerless.clear()
        self._held = None
        self.quotas_changed()
        async for uid in in_turns(list(self.states)):
            self.feed(uid, on.Done())

    async def _take_in(self, held: list[tuple[str, on.Event]]) -> None:
        """Take events in without acting on them."""
        async for uid, event in in_turns(held):
            self.states.setdefault(uid, JobState(busy=True))
            self._step(uid, event)
        held.clear()

    async def aclose(self) -> None:
        """Stop acting; running effects are cancelled, and derived again by the next manager."""
        self.news.close()
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Events

    def feed(self, uid: str, event: on.Event) -> None:
        """Step one job. Effects start at once, in a task of their own."""
        if self._held is not None:
            self._held.append((uid, event))
        else:
            self._step(uid, event)

    def _step(self, uid: str, event: on.Event) -> None:
        before = self.states.get(uid)
        state = before or JobState()
        if before is None and not isinstance(event, on.LocalSeen | on.RecordSeen):
            return
        after, effects = step(state, event, time.time(), self.rules)
        self.states[uid] = after
        self._charge(uid, state, after)
        self._free_offer(uid, state, after)
        self._free_growth(uid, state, after)
        self.on_moved(uid, state, after)
        if isinstance(event, on.Placed) and after.choice is None and after.bound is None:
            self.charge(uid, after)  # void at once: nothing of it may stay
            self.on_void(uid, event.choice.cluster)
        self._set_timer(uid, after)
        if effects:
            assert self.run_effects is not None
            self._start(uid, self.run_effects(uid, effects))
        self.news.moved(uid, state, after)

    def _start(self, uid: str, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, uid))

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        """A bug in one effect must not end the others, nor leave its job waiting for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("effects.crashed", uid=uid, exc_info=error)
            if uid in self.states:
                self.feed(uid, on.Failed(AFTER_CRASH_S))

    def _set_timer(self, uid: str, state: JobState) -> None:
        if timer := self._timers.pop(uid, None):
            timer.cancel()
        due = wake_at(state)
        if due is not None and not state.busy:
            loop = asyncio.get_running_loop()
            delay = max(0.0, due - time.time()) + 0.001
            self._timers[uid] = loop.call_later(delay, self.feed, uid, on.Tick())

    def _charge(self, uid: str, before: JobState, after: JobState) -> None:
        """Keep what the scheduler charges equal to what the states hold."""
        same = before.record is after.record and before.local is after.local
        same = same and before.admission is after.admission and before.evicting == after.evicting
        same = same and before.grown is after.grown
        same = same and before.reclaimable == after.reclaimable and before.there == after.there
        if same and before.pods_ready == after.pods_ready:
            return
        self.charge(uid, after)

    def charge(self, uid: str, state: JobState) -> None:
        """Have the scheduler charge what a job holds, and what it is to have beside that."""
        self._charge_as(uid, self.views.holder(uid, state))
        self._charge_as(growth_uid(uid), self.views.growth_holder(uid, state))

    def _charge_as(self, uid: str, held: Holder | None) -> None:
        known = self.scheduler.holder(uid)
        if held == known:
            return
        if held is None:
            self.scheduler.release(uid, time.time())
        else:
            self.scheduler.hold(held)
            if known is not None and held.usage != known.usage:  # pods of it have ended
                self.scheduler.wake(held.cluster_queue, time.time())
        self.on_quota()

    def _free_offer(self, uid: str, before: JobState, after: JobState) -> None:
        """Say when a decision was given up, or a binding of which there is no copy: its cluster has
        that room again.
        """
        if before.choice is not None and after.choice is None and after.bound is None:
            self.on_void(uid, before.choice.cluster)
        was, now, copy = before.bound, after.bound, before.remote
        left = was is not None and (now is None or now.cluster != was.cluster)
        if was is not None and left and not (copy and copy.uid):
            self.on_void(uid, was.cluster)

    def _free_growth(self, uid: str, before: JobState, after: JobState) -> None:
        """Say what became of more pods that were decided on: they are there, or are not to be."""
        if not unsettled(before) or unsettled(after) or before.bound is None:
            return
        was, now = before.remote, after.remote
        more = was and now and was.size and now.size and exceeds(now.size.runs, was.size.runs)
        version = now.version if more and now else 0
        self.on_grown(growth_uid(uid), before.bound.cluster, version)

    def forget(self, uid: str) -> None:
        """Drop all memory of a job."""
        state = self.states.pop(uid, None)
        self._bodies.pop(uid, None)
        if timer := self._timers.pop(uid, None):
            timer.cancel()
        if state:
            self._charge(uid, state, JobState())
            self._free_offer(uid, state, JobState())
            self.on_moved(uid, state, JobState())
            self.news.moved(uid, state, JobState())

    # The catalog

    def quotas_changed(self) -> None:
        """Queue objects changed: the scheduler takes them over, and the queue of every waiting job
        is looked at.
        """
        world = self.views.world(self.inactive())
        world = replace(world, queues=self.adjusted(world.queues))
        self.scheduler.configure(world, time.time())
        for uid, state in self.states.items():
            if (held := self.views.holder(uid, state)) is not None:
                self.scheduler.hold(held)  # its queues may say otherwise about preemption
        self.on_quota()
        self._read_again()
        self.queues.refresh()
        for uid in list(self.states):
            self._see_queues(uid)
        for uid, state in list(self.states.items()):
            if state.bound is None and state.local is not None:
                self._see_problem(uid)
            elif state.bound is not None:
                self._see_priority(uid)

    def _read_again(self) -> None:
        """Read the waiting Jobs again whose pods may request something else now."""
        for uid, local, body in self._defaults.stale(self.states, self._bodies):
            if body is not None:
                self._take_anew(body)
            else:
                self._start(uid, self._fetch_anew(uid, local))

    async def _fetch_anew(self, uid: str, local: LocalJob) -> None:
        body = await self.fetch(local)
        if body is not None and body["metadata"]["uid"] == uid:
            self._take_anew(body)

    def _take_anew(self, body: Json) -> None:
        """Take in a Job as if it were new, and queue it as it is now."""
        uid = body["metadata"]["uid"]
        before = self.states[uid].local if uid in self.states else None
        self._take(body)
        after = self.states.get(uid)
        if before and after and after.local and after.local.pod_sets != before.pod_sets:
            self.feed(uid, on.QueueMoved())

    def _see_queues(self, uid: str) -> None:
        """Tell a job what its queues are, if that is new."""
        state = self.states[uid]
        queues = self.queues.of(state)
        if queues is not None and queues is not state.queues:
            self.feed(uid, on.QueuesSeen(queues))

    def _see_problem(self, uid: str) -> None:
        """Tell a job why it cannot be queued, if that is new."""
        state = self.states[uid]
        problem = on.QueueProblem(self.queues.problem(state))
        if not problem.message and state.local is not None:
            text = self.queues.not_ours(state) or self.views.disconnect_problem(state.local)
            problem = on.QueueProblem(text, Reason.MISCONFIGURED)
        if problem.message != state.queue_problem:
            self.feed(uid, problem)

    # Local jobs

    async def on_jobs_listed(
        self, items: Sequence[Json], version: str, kind: str = BATCH_JOB
    ) -> None:
        """A full listing of the queue-labelled jobs of a kind, as of `version`."""
        present = {item["metadata"]["uid"] for item in items}
        for (of, key), uid in list(self._jobs.items()):
            if of == kind and uid not in present:
                self._job_gone(kind, key, uid, int(version))
        async for item in in_turns(items):
            self.see_job(item)
        for workload in self._unread.pop(kind, {}).values():
            self.see_workload(workload)

    def see_job(self, job: Json) -> None:
        """A local Job as it is now, by the watch or as the answer to a write."""
        state = self.states.get(job["metadata"]["uid"])
        if state is None or not _known(state.local, job):
            self._take(job)

    def _take(self, job: Json) -> None:
        kind = self.kinds.of(job)
        if kind.bundled and not whole(job):
            return  # the answer to a write, when a pod has just been deleted: the watch tells of it
        local = kind.local_job(job, self._defaults.of(job["metadata"]["namespace"]))
        if self._deleted_jobs.covers(local.uid, local.version):
            return
        known = self._jobs.get((local.kind, local.key))
        if known is not None and known != local.uid:
            self._job_gone(local.kind, local.key, known, local.version)
        self._jobs[local.kind, local.key] = local.uid
        self.keep_body(local.uid, job)
        self.feed(local.uid, on.LocalSeen(local))
        state = self.states.get(local.uid)
        if state is not None and state.bound is None:
            self._see_queues(local.uid)
            self._see_problem(local.uid)
        elif state is not None:
            self._see_priority(local.uid)

    def _see_priority(self, uid: str) -> None:
        """Tell a job that is bound the class that its priority comes from, if that is new."""
        state = self.states[uid]
        name = self.queues.priority_class(state, self._bodies.get(uid))
        if name is not None and name != state.priority_class:
            self.feed(uid, on.PrioritySeen(name))

    def job_deleted(self, job: Json) -> None:
        """A local Job is gone (or lost its queue label)."""
        meta = job["metadata"]
        key, version = ObjectKey(meta["namespace"], meta["name"]), int(meta["resourceVersion"])
        self._job_gone(self.kinds.of(job).name, key, meta["uid"], version)

    def job_gone(self, local: LocalJob) -> None:
        """A local Job is known not to exist any more."""
        self._job_gone(local.kind, local.key, local.uid, FOR_EVER)

    def _job_gone(self, kind: str, key: ObjectKey, uid: str, version: int) -> None:
        self._deleted_jobs.note(uid, version)
        if self._jobs.get((kind, key)) == uid:
            del self._jobs[kind, key]
        self._bodies.pop(uid, None)
        if uid in self.states or self._held is not None:
            self.feed(uid, on.LocalSeen(None))

    def keep_body(self, uid: str, job: Json) -> None:
        """Remember the whole Job for its mirroring; the oldest are let go."""
        self._bodies[uid] = job
        self._bodies.move_to_end(uid)
        if len(self._bodies) > BODIES_KEPT:
            self._bodies.popitem(last=False)

    def body(self, uid: str) -> Json | None:
        """The whole Job, if it is still in memory."""
        return self._bodies.get(uid)

    # Workloads

    async def on_workloads_listed(self, items: Sequence[Json], version: str) -> None:
        """A full listing of the Workloads. No other one has the UID of one that is gone, so its
        `version` does not matter.
        """
        present = {item["metadata"]["uid"] for item in items}
        for key, (_, workload_uid) in list(self._workloads.items()):
            if workload_uid not in present:
                self.workload_gone(key, workload_uid)
        async for item in in_turns(items):
            self.see_workload(item)

    def see_workload(self, obj: Json) -> None:
        """A Workload as it is now. Those of other kinds of owners are not ours."""
        meta = obj["metadata"]
        known = self._workloads.get(ObjectKey(meta["namespace"], meta["name"]), ("", ""))
        if known[1] != meta["uid"] and records.superseded_slice(obj):
            return
        # One whose owner was taken away by hand still is the record that we write.
        if (unread := self._unread.get(records.owner_kind(obj))) is not None:
            unread[meta["uid"]] = obj
            return
        uid = self._job_uid(obj) or (known[0] if known[1] == meta["uid"] else "")
        if not uid and self._held is not None and (left := left_by(obj)):
            self._ownerless.append((left, obj))
        if not uid or self._deleted_workloads.covers(meta["uid"], int(meta["resourceVersion"])):
            return
        self._workloads[ObjectKey(meta["namespace"], meta["name"])] = (uid, meta["uid"])
        state = self.states.get(uid)
        if state is not None and _known(state.record, obj):
            return
        self.feed(uid, on.RecordSeen(records.read_record(obj)))
        state = self.states.get(uid)
        if state is not None and state.bound is None and state.local is not None:
            self._see_queues(uid)  # they may have been stopped while the job was bound
            self._see_problem(uid)

    def _job_uid(self, workload: Json) -> str:
        for owner in workload["metadata"].get("ownerReferences") or ():
            kind = self.kinds.find(owner.get("apiVersion", ""), owner.get("kind", ""))
            if owner.get("controller") and kind is not None:
                return str(owner["uid"])
        return ""

    def _see_left(self, uid: str, obj: Json) -> None:
        """A Workload whose Job was deleted alone (propagation policy Orphan) while no manager
        looked: it is removed like that of any other Job that is gone.
        """
        meta = obj["metadata"]
        self._workloads[ObjectKey(meta["namespace"], meta["name"])] = (uid, meta["uid"])
        self.feed(uid, on.RecordSeen(records.read_record(obj)))

    def workload_deleted(self, obj: Json) -> None:
        """A Workload is gone."""
        meta = obj["metadata"]
        self.workload_gone(ObjectKey(meta["namespace"], meta["name"]), meta["uid"])

    def workload_gone(self, key: ObjectKey, workload_uid: str) -> None:
        """A Workload is known to be gone. Another one of its name may be there already."""
        self._deleted_workloads.note(workload_uid, FOR_EVER)
        for unread in self._unread.values():
            unread.pop(workload_uid, None)
        uid, known = self._workloads.get(key, ("", ""))
        if known != workload_uid:
            return
        del self._workloads[key]
        if uid in self.states or self._held is not None:
            self.feed(uid, on.RecordSeen(None))


def _known(fact: LocalJob | Record | None, obj: Json) -> bool:
    """Whether this very version, or a later one, has been taken in: the echo of our own write."""
    meta = obj["metadata"]
    same = fact is not None and fact.uid == meta["uid"]
    return same and fact is not None and fact.version >= int(meta["resourceVersion"])
