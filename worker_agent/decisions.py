"""From the decisions of a cycle to writes about Jobs, and to the reasons why others wait."""

from __future__ import annotations

from functools import partial

from federation.core.cycle import Decision, Fit, NoCards, Preempt
from federation.core.reasons import Reason
from federation.core.types import Admission, Pending, ResourceFlavor
from federation.core.why import Explainer, preemption_message
from federation.jobs.eviction_note import Eviction
from worker_agent import texts
from worker_agent.copies import Copies
from worker_agent.devices import Devices
from worker_agent.facts import Stage, WorkerJob
from worker_agent.growths import Growths
from worker_agent.lines import Lines
from worker_agent.reservations import Reservations
from worker_agent.state import State, stamp
from worker_agent.texts import Waiting
from worker_agent.views import start_patch


class Decisions:
    """Carries them out. `forget` everything about a Job that is in no queue any more."""

    def __init__(self, state: State, devices: Devices) -> None:
        self._state, self._devices = state, devices
        self.lines = Lines(state.scheduler)
        self.copies = Copies(state.scheduler, self.lines)
        self.growths = Growths(state, self.copies)
        self._reservations = Reservations(state, devices)
        self._untold: set[str] = set()

    def place(self, item: Pending, admission: Admission) -> NoCards | None:
        """Seats for pods with cards, unless their nodes are yet to be made. See `Devices.place`."""
        if self._reservations.delayed(admission):
            return None
        return self._devices.place(item, admission)

    def queued(self, job: WorkerJob, now: float, *, changed: bool) -> None:
        """A Job stands in a queue; `changed` if it was not there before as it is."""
        if changed:
            self._untold.add(job.uid)
        if job.mirrored:
            self.copies.waits(job, now)

    def forget(self, uid: str) -> None:
        """A Job does not stand in a queue."""
        self._untold.discard(uid)
        self.copies.forget(uid)

    def look_again(self, uids: list[str]) -> None:
        """The reason why these wait may be another one now."""
        self._untold.update(uids)

    def act(self, decision: Decision, explainer: Explainer, now: float) -> None:
        """Do what a cycle decided."""
        state, item, uid = self._state, decision.item, decision.item.uid
        job, more = state.jobs.get(item.job), item.growth is not None
        if job is None or not self._waits(job, more=more):  # changed since it was queued
            state.scheduler.release(uid, now)
            self._devices.release(uid)
            state.touch(item.job)
        elif isinstance(decision, Fit) and more:
            self.growths.admit(job, decision)
        elif isinstance(decision, Fit):
            self._admit(job, decision, now)
        else:
            if isinstance(decision, Preempt):
                self._preempt(decision, now)
            self.lines.note(decision)
            self._untold.discard(uid)
            if job.mirrored:
                self.copies.decided(uid, decision)
            else:
                state.set_aside(job, texts.of(decision, explainer))

    def _waits(self, job: WorkerJob, *, more: bool) -> bool:
        """Whether a Job, or more pods of it, still stand in a queue."""
        return self.growths.wanted(job) if more else job.stage is Stage.WAITING

    def _admit(self, job: WorkerJob, fit: Fit, now: float) -> None:
        state = self._state
        self.forget(job.uid)
        state.waits.pop(job.uid, None)
        used = {name for p in fit.admission.pod_sets for name in p.flavors.values()}
        flavors = [state.scheduler.snapshot.flavors[name] for name in sorted(used)]
        body, kind = state.book.bodies[job.uid], state.kind_of(job)
        problem = kind.start_problem(body, fit.admission, flavors)
        if problem:
            state.scheduler.release(job.uid, now)
            self._devices.release(job.uid)
            state.refuse(job, Waiting(Reason.FAILED_TO_START.value, problem))
        elif self._reservations.needed(fit.admission):
            self._reservations.reserve(job, fit, now)
        else:
            state.write(job, partial(self._start, fit, flavors, stamp(now)))

    async def _start(
        self, fit: Fit, flavors: list[ResourceFlavor], at: str, job: WorkerJob
    ) -> None:
        if not self._state.may_start(job):
            return  # the lease has ended since; it is decided on again
        body = self._state.book.bodies[job.uid]
        cards = self._devices.template(job.uid)
        given = self._state.kind_of(job).admission_patch(body, fit.admission, flavors, cards=cards)
        patch = start_patch(job, given, fit.item.priority, at)
        patch["metadata"]["annotations"] |= self._devices.notes(job.uid)
        await self._state.api.start(job, patch)

    def _preempt(self, decision: Preempt, now: float) -> None:
        state, item = self._state, decision.item
        for held, cause in decision.victims:
            text = preemption_message(
                decision, held, cause, state.scheduler.snapshot, state.workload_uid(item.job)
            )
            eviction = Eviction(Reason.PREEMPTED.value, text, stamp(now), cause.value)
            state.evict(held.uid, eviction)

    def tell(self, now: float) -> None:
        """Nothing moves any more: answer the copies, and say why the others wait."""
        state, scheduler = self._state, self._state.scheduler
        for uid, why in self.copies.refusals(now):
            item = scheduler.items[uid]
            scheduler.take_out(uid, now)
            self.forget(uid)
            if (job := state.jobs.get(item.job)) is not None:
                (self.growths if item.growth else state).refuse(job, why)
        for uid in self.copies.undecided():
            until = stamp(self.copies.wait_for_victims(uid, now))
            if uid in state.jobs:  # for more pods of a copy the manager waits anyway
                state.write(state.jobs[uid], partial(self._decide_later, until))
        explainer = Explainer(scheduler.snapshot)
        for uid in self._untold & scheduler.items.keys() & state.jobs.keys():
            why = self.lines.why(scheduler.items[uid], explainer)
            state.set_aside(state.jobs[uid], why)
            if why.reason != Reason.PENDING_EVALUATION:
                self._untold.discard(uid)

    async def _decide_later(self, until: str, job: WorkerJob) -> None:
        await self._state.api.decide_later(job, until)
