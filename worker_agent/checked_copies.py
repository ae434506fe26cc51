"""Copies that hold quota here and wait for admission checks of this cluster.

The manager reads on the copy what it waits for, and until when; nobody else gets its quota. All
that ends the wait is one write on it: it is started, or refused, and then its quota is free.
"""

from __future__ import annotations

from federation.core.checks import AdmissionCheckState, synced, unready
from federation.core.controls import Deactivate, Evict, Nothing, Release, Verdict
from federation.core.dispatch import FOR_GOOD_S
from federation.core.facts import Record
from federation.core.reasons import Reason
from federation.core.waiting import REWRITE_S
from federation.jobs.eviction_note import LONGEST
from worker_agent.facts import WorkerJob
from worker_agent.reservations import Reservations
from worker_agent.state import State
from worker_agent.texts import MARGIN_S, Waiting

TOLD_KEPT = 1000
"""Times of what is gone are dropped when there are more."""


class CheckedCopies:
    """Asked about one whenever something of it, its Workload, its queues or the lease changed."""

    def __init__(self, state: State, reservations: Reservations) -> None:
        self._state, self._reservations = state, reservations
        self._told: dict[str, float] = {}

    def judge(
        self, job: WorkerJob, record: Record | None, verdict: Verdict, now: float
    ) -> float | None:
        """Start it, refuse it, or say what it waits for; when to look again."""
        state = self._state
        if job.uid in state.evicting:  # somebody takes its quota: that is being written
            return None
        if why := self._ended(job, verdict, now):
            self._told.pop(job.uid, None)
            state.give_back(job, *why)
            return None
        until = self._until(job)
        if record is None:
            return until
        again = self._reservations.start_if_checked(job, record, now)
        told = self._tell(job, record, now)
        return min(at for at in (until, again, told) if at is not None)

    def _ended(
        self, job: WorkerJob, verdict: Verdict, now: float
    ) -> tuple[Waiting, float | None] | None:
        """Why it does not wait any more, and after how many seconds it is of use to try again."""
        if outdated := self._state.standings.outdated(job):
            return Waiting(Reason.MISCONFIGURED.value, outdated), None
        match verdict:
            case Deactivate(reason, message):
                return Waiting(reason, message), FOR_GOOD_S
            case Evict(reason, message, requeue):
                after = None if requeue.at is None else max(0.0, requeue.at - now)
                return Waiting(reason, message), after
            case Release(reason, message):
                return Waiting(reason, message), None
            case Nothing() if now >= self._until(job):
                text = f"{job.waits_for or 'its admission checks'}: not Ready within"
                text = f"{text} {self._state.settings.checks_s:.0f} s (FEDQ_CHECKS_S)"
                return Waiting(Reason.UNSATISFIED_ADMISSION_CHECKS.value, text), None
        return None

    def _until(self, job: WorkerJob) -> float:
        """It was told until when it may wait; a restart of the agent changes nothing of that."""
        limit = (job.reserved or 0.0) + self._state.settings.checks_s
        return job.deciding_until - MARGIN_S if job.deciding_until else limit

    def _tell(self, job: WorkerJob, record: Record, now: float) -> float | None:
        """Have the copy say what it waits for now; other words at most every few seconds."""
        waiting = self._state.waits.get(job.uid)
        text = waiting.message if waiting is not None else unready(self._states(job, record))
        if not text or text[:LONGEST] == job.waits_for:
            return None
        due = self._told.get(job.uid, 0.0) + REWRITE_S
        if now < due:
            return due
        if len(self._told) > TOLD_KEPT:
            self._told = {uid: at for uid, at in self._told.items() if uid in self._state.jobs}
        self._told[job.uid] = now

        async def write(current: WorkerJob) -> None:
            if current.reservation == job.reservation and not current.refused:
                await self._state.api.tell_wait(current, text)

        self._state.write(job, write)
        return None

    def _states(self, job: WorkerJob, record: Record) -> tuple[AdmissionCheckState, ...]:
        return synced(record.life.checks, self._state.needed(job), 0.0)
