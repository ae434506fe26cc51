"""Copies that the manager wants to have more pods where they run: charged first, then written.

The pods stand in the copy's queue beside it, in the flavors that it has, and get their answer as
copies do: they are given, or refused when nothing moves any more. What runs is not touched. Only
the agent raises the number of pods of a copy, and only by a write that also notes what is charged.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from federation.core.cycle import Fit
from federation.core.elastic import counts, flavors, grown, growth_uid, shrunk
from federation.core.reasons import Reason
from federation.core.sizes import exceeds, fewest, missing
from federation.core.types import Admission, Growth, Pending
from federation.edge.errors import Forbidden, Invalid
from federation.jobs import elastic
from federation.jobs.eviction_note import Eviction
from worker_agent.copies import Copies
from worker_agent.facts import Stage, WorkerJob
from worker_agent.state import State, stamp
from worker_agent.texts import Waiting


class Growths:
    """Asked about every Job of which there is news."""

    def __init__(self, state: State, copies: Copies) -> None:
        self._state, self._copies = state, copies

    def look(self, job: WorkerJob, now: float) -> None:
        """Have more pods of a copy wait if they are asked for; what was charged for them and is not
        in the copy's note is given back. What somebody else gave a copy is taken away; one that
        cannot be had without is stopped.
        """
        state, uid = self._state, growth_uid(job.uid)
        if self._overgrown(job):
            self.forget(job.uid, now)
            if job.admission and (why := self._uncuttable(job, job.admission)):
                self._stop(job, why)
            else:
                state.write(job, self._cut)
        elif not self.wanted(job):
            self.forget(job.uid, now)
        elif why := self._problem(job):
            self.forget(job.uid, now)
            self.refuse(job, Waiting(Reason.MISCONFIGURED.value, why))
        else:
            state.scheduler.release(uid, now)
            item = self._pending(job)
            if state.scheduler.items.get(uid) != item:
                state.scheduler.put(item, now)
            self._copies.stands(uid)

    def forget(self, job: str, now: float) -> None:
        """No more pods of it are asked for (any more)."""
        uid, state = growth_uid(job), self._state
        state.scheduler.take_out(uid, now)
        state.scheduler.release(uid, now)
        state.evicting.pop(uid, None)
        self._copies.forget(uid)

    def wanted(self, job: WorkerJob) -> bool:
        """Whether a copy is to have more pods than it runs, and has not been refused them."""
        if not exceeds(job.grow_to, job.asks) or job.grow_refused or not job.mirrored:
            return False
        stays = job.stage is Stage.RUNNING and not job.terminating
        return stays and job.uid not in self._state.evicting and self._state.may_start(job)

    def _overgrown(self, job: WorkerJob) -> bool:
        """Whether a copy makes more pods than it has quota for: nobody but its agent may say so."""
        if not job.mirrored or job.admission is None or job.terminating:
            return False
        running = job.stage is Stage.RUNNING and job.uid not in self._state.evicting
        return running and exceeds(job.at_once, counts(job.admission))

    def _uncuttable(self, job: WorkerJob, admission: Admission) -> str:
        """Why no numbers in its spec make a copy as small as its note says; '' if some do. Then the
        note is not the agent's.
        """
        kind, body = self._state.kind_of(job), self._state.book.bodies[job.uid]
        held = counts(admission)
        left = kind.sized(body, kind.resized(body, fewest(job.at_once, held))) or job.at_once
        for name, runs in left.items():
            if runs > (noted := held.get(name, 0)):
                return (
                    f"its note of admission has {noted} pods of {name}, its spec makes"
                    f" {runs} at least: somebody has changed one of the two"
                )
        return ""

    async def _cut(self, job: WorkerJob) -> None:
        """As many pods as its note says. One that the API server does not let have them stops."""
        if not self._overgrown(job) or job.admission is None:
            return
        if self._uncuttable(job, job.admission):
            return  # it has changed since: it is looked at again
        body = self._state.book.bodies[job.uid]
        less = fewest(job.at_once, counts(job.admission))
        patch = elastic.cut_patch(self._state.kind_of(job), body, less)
        try:
            await self._state.api.cut(job, patch)
        except (Forbidden, Invalid) as error:
            self._stop(job, f"its spec makes more pods than were admitted: {error.message}")

    def _stop(self, job: WorkerJob, why: str) -> None:
        at = stamp(self._state.settings.clock())
        self._state.evict(job.uid, Eviction(Reason.OUT_OF_SYNC.value, why, at))

    def _problem(self, job: WorkerJob) -> str:
        """Why a copy cannot have more pods where it runs."""
        given = {pods.name: pods for pods in job.admission.pod_sets} if job.admission else {}
        if given.keys() != job.grow_to.keys():
            return "its pod sets are others than those that were admitted"
        for name, has in job.asks.items():  # what is taken away goes before more is given
            if (wanted := job.grow_to.get(name, 0)) < has:
                return f"{name} is to have {wanted} pods, and has {has}"
        for pods in job.pod_sets:
            if job.grow_to[pods.name] <= pods.count:
                continue
            if pods.cards is not None:
                return (
                    "its pods ask for cards: more of them are seated only when it is started anew"
                )
            if given[pods.name].topology is not None:
                return (
                    "its pods have places in a topology: more get some only when it is started anew"
                )
        return job.problem

    def _pending(self, job: WorkerJob) -> Pending:
        assert job.admission is not None
        # Its spec may ask for more than was charged.
        more = missing(job.grow_to, fewest(job.asks, counts(job.admission)))
        return Pending(
            uid=growth_uid(job.uid),
            namespace=job.key.namespace,
            name=job.key.name,
            local_queue=job.queue,
            cluster_queue=job.admission.cluster_queue,
            priority=self._state.standings.priority(job)[0],
            created=job.created,
            pod_sets=tuple(
                replace(pods, count=more[pods.name]) for pods in job.pod_sets if pods.name in more
            ),
            generation=sum(job.grow_to.values()),
            preemptible=job.preemptible,
            growth=Growth(job.uid, "", flavors(job.admission)),
        )

    def admit(self, job: WorkerJob, fit: Fit) -> None:
        """The pods are charged: have them run."""
        self._copies.forget(fit.item.uid)
        self._state.write(job, partial(self._grow, fit.admission))

    async def _grow(self, more: Admission, job: WorkerJob) -> None:
        if not self.wanted(job) or job.admission is None:
            return  # another answer is due: it is decided on again
        held = grown(shrunk(job.admission, job.asks), more)
        if counts(held) != job.grow_to:
            return
        body = self._state.book.bodies[job.uid]
        patch = elastic.grown_patch(self._state.kind_of(job), body, held)
        await self._state.api.grow(job, patch)

    def refuse(self, job: WorkerJob, why: Waiting) -> None:
        """The answer for this time; what runs goes on."""
        self._state.write(job, lambda job: self._state.api.refuse_growth(job, str(why)))
