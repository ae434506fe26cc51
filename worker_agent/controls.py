"""Carries out the rules of a workload's life on a worker: who has to stop, and who may queue.

Of local Jobs all rules hold (`federation.core.controls`). Of a copy only stopped queues and what
admission checks of this cluster say end the stay: its manager keeps its time and its pods, and
queues it elsewhere when it reads why it stopped.
Nothing is remembered here but when to look again: all follows from Jobs, Workloads and queues.
"""

from __future__ import annotations

import heapq

from federation.core import elastic
from federation.core.backoff import RequeueState, spread
from federation.core.checks import synced
from federation.core.controls import (
    Deactivate,
    Evict,
    Life,
    Nothing,
    Readmit,
    Release,
    Verdict,
    control,
)
from federation.core.facts import Record
from federation.core.policies import StopPolicy
from federation.core.reasons import Reason, deactivated_due_to
from federation.core.sizes import exceeds
from federation.jobs.eviction_note import Eviction
from worker_agent.checked_copies import CheckedCopies
from worker_agent.devices import Devices
from worker_agent.facts import Stage, WorkerJob
from worker_agent.life import counts, life_of, settled
from worker_agent.reservations import Reservations
from worker_agent.state import Order, State, stamp
from worker_agent.texts import Waiting


class Controls:
    """Asked about a Job whenever something of it, its Workload or its queues has changed."""

    def __init__(self, state: State, devices: Devices) -> None:
        self._state = state
        self._reservations = Reservations(state, devices)
        self._copies = CheckedCopies(state, self._reservations)
        self._alarms: list[tuple[float, str]] = []
        self._alarm_of: dict[str, float] = {}

    def due(self) -> float | None:
        """When time alone asks for a look at a Job."""
        return self._alarms[0][0] if self._alarms else None

    def wake(self, now: float) -> None:
        """Have the Jobs looked at whose time has come."""
        while self._alarms and self._alarms[0][0] <= now:
            at, uid = heapq.heappop(self._alarms)
            if self._alarm_of.get(uid) == at:
                del self._alarm_of[uid]
                self._state.dirty[uid] = None

    def judge(self, job: WorkerJob, now: float) -> None:
        """Whether a Job may go on holding its quota; one whose checks are Ready is started."""
        state, record = self._state, self._state.records.get(job.uid)
        if self._outgrown(job, now):
            return
        verdict = self._verdict(job, record, now)
        if job.mirrored and job.stage is Stage.RESERVED:
            self._look_again(job, self._copies.judge(job, record, verdict, now))
            return
        match verdict:
            case Evict():
                self._evict(job, verdict, now)
            case Deactivate(reason, message) if job.mirrored:
                text = f"The workload is deactivated due to {message}"
                self._evict(job, Evict(deactivated_due_to(reason), text, RequeueState()), now)
            case Release():
                state.write(job, state.api.unreserve)
            case Nothing(wake_at):
                self._look_again(job, wake_at)
                if job.stage is Stage.RESERVED and record is not None:
                    again = self._reservations.start_if_checked(job, record, now)
                    self._look_again(job, again)
        self._order(job, record, verdict)

    def stop(self, job: WorkerJob, eviction: Eviction) -> None:
        """Have one that holds quota give it back: a copy that is not started is refused."""
        state = self._state
        if job.mirrored and job.stage is Stage.RESERVED:
            state.give_back(job, Waiting(eviction.reason, eviction.message))
        else:
            state.write(job, lambda job: state.api.evict(job, eviction))

    def held(self, job: WorkerJob, now: float) -> Waiting | None:
        """Why a Job must not be in its queue, although nothing of it runs; None if it may."""
        if job.mirrored:
            return None
        record = self._state.records.get(job.uid)
        queue = self._state.queue_of(job)
        unseen = counts(job, self._state.checks.all(queue)) and (
            record is None or job.eviction is None or not settled(job.eviction, record)
        )
        if record is None:
            return _returning(job) if unseen else None
        verdict = self._verdict(job, record, now)
        if isinstance(verdict, Evict):
            self._evict(job, verdict, now)
            return Waiting(Reason.DEACTIVATED, verdict.message)
        if unseen:
            return self._deactivated(job) if not record.active else _returning(job)
        self._order(job, record, verdict)
        if isinstance(verdict, Deactivate | Readmit):
            return Waiting(Reason.PENDING_EVALUATION, verdict.message)
        if not record.active:
            return self._deactivated(job)
        return self._kept_out(job, record, now)

    def _kept_out(self, job: WorkerJob, record: Record, now: float) -> Waiting | None:
        """Whether a queue is stopped that evicted it, or its backoff is not over."""
        requeue = record.life.requeue
        if requeue.at is not None and not requeue.over(now):
            self._look_again(job, requeue.at)
            return _returning(job, requeue.at)
        return _returning(job) if record.life.requeued else None

    @staticmethod
    def _deactivated(job: WorkerJob) -> Waiting:
        text = job.eviction.message if job.eviction else "The workload is deactivated"
        advice = "set spec.active of the Workload to true to queue it again"
        return Waiting(Reason.DEACTIVATED, f"{text}: {advice}")

    # What the rules say

    def _verdict(self, job: WorkerJob, record: Record | None, now: float) -> Verdict:
        evicting = self._state.evicting.get(job.uid)
        stopped = job.eviction if job.suspended else None
        eviction = evicting or stopped
        reason = "" if eviction is None else eviction.reason
        if job.mirrored or record is None:  # a local Job's Workload is about to be made
            local, cluster = self._stops(job)
            known = record.life.checks if job.mirrored and record is not None else ()
            held = Life(
                reserved=job.holds is not None,
                admitted=job.admission is not None,
                evicted=reason,
                local_queue=local,
                cluster_queue=cluster,
                checks=synced(known, self._state.needed(job), 0.0) if known else (),
            )
            return control(held, None, now)
        life = life_of(job, record, self._state.needed(job), self._stops(job), reason)
        random = spread(job.uid, life.requeue.count)
        return control(life, self._state.policies.pods_ready, now, random)

    def _stops(self, job: WorkerJob) -> tuple[StopPolicy | None, StopPolicy | None]:
        local = self._state.catalog.local_queues.get((job.key.namespace, job.queue))
        queue = self._state.queue_of(job)
        gone = queue is None or queue.terminating
        return (local.stop if local else None, None if gone or queue is None else queue.stop)

    def _outgrown(self, job: WorkerJob, now: float) -> bool:
        """Whether somebody had a running Job make more pods than it has quota for: it is stopped,
        and queues with what it asks for now.
        """
        if job.stage is not Stage.RUNNING or job.admission is None or job.mirrored:
            return False
        held = elastic.counts(job.admission)
        if not exceeds(job.at_once, held) or job.uid in self._state.evicting:
            return False
        runs = sum(job.at_once.values())
        text = f"It was admitted with {sum(held.values())} pods and its spec makes {runs} now"
        self._state.evict(job.uid, Eviction(Reason.OUT_OF_SYNC.value, text, stamp(now)))
        return True

    # What is done about it

    def _evict(self, job: WorkerJob, verdict: Evict, now: float) -> None:
        """On the Job first; the Workload is brought in line with that."""
        state = self._state
        counts = not job.mirrored or verdict.reason == Reason.ADMISSION_CHECK
        requeue = verdict.requeue if counts else None
        eviction = Eviction(verdict.reason, verdict.message, stamp(now), verdict.cause, requeue)
        if job.stage in (Stage.RUNNING, Stage.RESERVED, Stage.HELD):
            state.evict(job.uid, eviction, instead=True)
        else:
            state.write(job, lambda job: state.api.evict(job, eviction))

    def _order(self, job: WorkerJob, record: Record | None, verdict: Verdict) -> None:
        """Have the Workload say what the rules want it to say, if it still is as it was."""
        state = self._state
        if record is None or job.mirrored or not isinstance(verdict, Deactivate | Readmit):
            state.orders.pop(job.uid, None)
            return
        order = Order(record.version, verdict)
        if state.orders.get(job.uid) != order:
            state.orders[job.uid] = order
            state.on_change(job.uid)

    def _look_again(self, job: WorkerJob, at: float | None) -> None:
        if at is not None and self._alarm_of.get(job.uid) != at:
            self._alarm_of[job.uid] = at
            heapq.heappush(self._alarms, (at, job.uid))


def _returning(job: WorkerJob, at: float | None = None) -> Waiting:
    """Of a Job that was evicted, and may not queue yet."""
    text = job.eviction.message if job.eviction else "The workload was evicted"
    stopped = (Reason.CLUSTER_QUEUE_STOPPED, Reason.LOCAL_QUEUE_STOPPED)
    if job.eviction is not None and job.eviction.reason in stopped:
        return Waiting(Reason.SUSPENDED, text)
    return Waiting(
        Reason.PENDING_EVALUATION, text if at is None else f"{text}; it queues again at {stamp(at)}"
    )
