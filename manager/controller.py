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

from federation.core import effects as do
from federation.core import events as on
from federation.core.dispatchers import Dispatcher
from federation.core.facts import BATCH_JOB, JobState, LocalJob, ObjectKey
from federation.core.failover import DEFAULT, Timings
from federation.core.lifecycle import step, wake_at
from federation.core.policies import Policies
from federation.core.reasons import Reason
from federation.core.scheduler import Scheduler
from federation.core.stay import LifeRules
from federation.core.types import ClusterQueue
from federation.edge.catalog import Catalog
from federation.edge.deletions import FOR_EVER, Deletions
from federation.edge.resources import Json
from federation.edge.turns import in_turns
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.pod_groups import whole
from federation.jobs.kinds.registry import BATCH_ONLY
from manager.charges import Charges
from manager.cluster_news import ClusterNews
from manager.job_queues import JobQueues
from manager.pod_defaults import KnownDefaults
from manager.views import Views
from manager.workload_watch import WorkloadWatch, known

log = structlog.get_logger(__name__)

BODIES_KEPT = 5000
AFTER_CRASH_S = 30.0

RunEffects = Callable[[str, tuple[do.Effect, ...]], Coroutine[Any, Any, None]]


class Controller:
    """Keeps the states. What comes from Workloads and clusters goes through `workloads` and `news`,
    what jobs hold is told to the scheduler by `charges`.

    `run_effects` carries out the effects of one step. `on_moved` hears of each change of a job's
    state. `inactive` names the ClusterQueues that admit nothing, and why.
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
        self.charges = Charges(scheduler, self.views)
        self.workloads = WorkloadWatch(
            self.states, kinds, self.feed, self._look, lambda: self._held is not None
        )
        self.news = ClusterNews(self.states, self.feed, self._start, timings)
        self.on_news, self.cluster_replaced = self.news.take, self.news.replaced
        self.cluster_stood = self.news.stood
        self.run_effects: RunEffects | None = None
        self.inactive: Callable[[], dict[str, str]] = dict
        self.adjusted: Callable[[Mapping[str, ClusterQueue]], Mapping[str, ClusterQueue]] = dict
        """The ClusterQueues with the quota that counts."""
        self.on_moved: Callable[[str, JobState, JobState], None] = lambda uid, before, after: None
        self.fetch: Callable[[LocalJob], Coroutine[Any, Any, Json | None]]
        """Gets a Job that is not in memory any more; None if it cannot be had."""
        self._defaults = KnownDefaults(
            lambda namespace: catalog.pod_defaults(namespace, policies.resources), kinds
        )
        self._bodies: OrderedDict[str, Json] = OrderedDict()
        self._jobs: dict[tuple[str, ObjectKey], str] = {}
        self._deleted = Deletions()
        self._reborn: dict[str, Json] = {}
        """Groups of pods that are whole again, by UID, while what they were is still removed."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[tuple[str, on.Event]] | None = []

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
        self.workloads.see_left()
        await self._take_in(held)
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
        self.charges.moved(uid, state, after)
        self.on_moved(uid, state, after)
        if isinstance(event, on.Placed) and after.choice is None and after.bound is None:
            self.charges.charge(uid, after)  # void at once: nothing of it may stay
            self.charges.on_void(uid, event.choice.cluster)
        self._set_timer(uid, after)
        if effects:
            assert self.run_effects is not None
            self._start(uid, self.run_effects(uid, effects))
        self.news.moved(uid, state, after)
        self._revive(uid)

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

    def forget(self, uid: str) -> None:
        """Drop all memory of a job."""
        state = self.states.pop(uid, None)
        self._bodies.pop(uid, None)
        if timer := self._timers.pop(uid, None):
            timer.cancel()
        if state:
            self.charges.gone(uid, state)
            self.on_moved(uid, state, JobState())
            self.news.moved(uid, state, JobState())
        self._revive(uid)

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
        self.charges.on_quota()
        self._read_again()
        self.queues.refresh()
        for uid in list(self.states):
            self._see_queues(uid)
        for uid, state in list(self.states.items()):
            if state.bound is None and state.local is not None:
                self._see_problem(uid)
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

    def _look(self, uid: str) -> None:
        """Tell a job that is bound nowhere of its queues."""
        self._see_queues(uid)
        self._see_problem(uid)

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
            self.hear_of_job(item)
        self.workloads.jobs_listed(kind)

    def see_job(self, job: Json) -> None:
        """A local Job as the answer to a write has it."""
        state = self.states.get(job["metadata"]["uid"])
        if state is None or not known(state.local, job):
            self._take(job)

    def hear_of_job(self, job: Json) -> None:
        """A local Job as the watch tells. Of which pods a group is it has the last word: the answer
        to a write has the same version.
        """
        state = self.states.get(job["metadata"]["uid"])
        version = state.local.version if state is not None and state.local is not None else 0
        if version == int(job["metadata"]["resourceVersion"]) and self.kinds.of(job).bundled:
            self._take(job)
        else:
            self.see_job(job)

    def _take(self, job: Json) -> None:
        kind = self.kinds.of(job)
        if kind.bundled and not whole(job):
            return  # the answer to a write, when a pod has just been deleted: the watch tells of it
        local = kind.local_job(job, self._defaults.of(job["metadata"]["namespace"]))
        if self._deleted.covers(local.uid, local.version):
            return
        if kind.bundled and self._leaves(local.uid):
            self._reborn[local.uid] = job
            return
        known = self._jobs.get((local.kind, local.key))
        if known is not None and known != local.uid:
            self._job_gone(local.kind, local.key, known, local.version)
        self._jobs[local.kind, local.key] = local.uid
        self.keep_body(local.uid, job)
        self.feed(local.uid, on.LocalSeen(local))
        state = self.states.get(local.uid)
        if state is not None and state.bound is None:
            self._look(local.uid)
        if local.uid in self.states:
            self._see_priority(local.uid)

    def _leaves(self, uid: str) -> bool:
        """Whether a job is deleted, and its copies and its Workload are not gone yet. What remains
        of one that left a copy on a cluster out of reach is in nobody's way.
        """
        state = self.states.get(uid)
        if state is None or state.local is not None or uid not in self._deleted:
            return False
        return state.record is not None or state.busy

    def _revive(self, uid: str) -> None:
        """Take in a group that is whole again, once nothing of what it was is left: what became of
        pods that are gone says nothing of those in their place.
        """
        if uid in self._reborn and not self._leaves(uid):
            self._take(self._reborn.pop(uid))

    def _see_priority(self, uid: str) -> None:
        """Tell a job the class that its priority comes from, if that is new. One that was never
        bound is read with it when it is queued.
        """
        state = self.states[uid]
        if state.bound is None and state.priority_class is None:
            return
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
        self._deleted.note(uid, version)
        self._reborn.pop(uid, None)
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
