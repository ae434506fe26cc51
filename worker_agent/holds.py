"""Copies stand still when the lease ends, and go on when it holds again: the worker's side of the
fence (failover.md section 3.2).

All of it follows from the lease, the clock and the Job as it is: a copy that must not run is
suspended whoever started it, one that is held and may run goes on with the same attempt, its quota
and its cards. An agent that dies between two writes leaves a Job of which the next one knows what
to do.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from federation.core.failover import OnDisconnect
from federation.core.holding import Lease
from worker_agent.facts import Stage, WorkerJob
from worker_agent.state import State, stamp

_CONCERNED = (Stage.RUNNING, Stage.HELD, Stage.WAITING, Stage.RESERVED)


class Holds:
    """Asked about a copy whenever something of it has changed. Remembers what the lease was when
    all copies were looked at last, and when single ones have to be stopped. `on_resumed` hears that
    one has gone on: its nodes may have been lost meanwhile.
    """

    def __init__(self, state: State, on_resumed: Callable[[], None]) -> None:
        self._state, self._on_resumed = state, on_resumed
        self._resumed: set[str] = set()
        self._seen: tuple[object, ...] = ()
        self._alarms: list[tuple[float, str]] = []

    def due(self) -> float | None:
        """When time alone asks for a look (seconds since the epoch)."""
        now, lease = self._now(), self._state.lease()
        times = [at for at, _ in self._alarms[:1]]
        if lease.deadline is not None and now < lease.deadline:
            times.append(lease.deadline)
        first = min(times, default=math.inf)
        return None if first == math.inf else self._state.settings.clock() + first - now

    def wake(self) -> None:
        """Have the copies looked at whose time has come: all of them if the lease has ended, holds
        again, or is in another epoch. What has to stop comes first, before anything is decided.
        """
        now, lease, state = self._now(), self._state.lease(), self._state
        over = lease.failed if lease.deadline is None else now >= lease.deadline
        seen = (lease.epoch, lease.seen, lease.holds(now), over)
        if seen != self._seen:
            self._seen = seen
            self._alarms.clear()
            for job in state.jobs.values():
                if job.mirrored and job.stage in _CONCERNED and not self._stops(job):
                    state.dirty[job.uid] = None
        while self._alarms and self._alarms[0][0] <= now:
            state.dirty[heapq.heappop(self._alarms)[1]] = None

    def look(self, job: WorkerJob) -> bool:
        """Whether a copy that was started stands still, or is about to: what has to be written
        about that is under way.
        """
        if not job.mirrored:
            return False
        state, lease, now = self._state, self._state.lease(), self._now()
        if job.stage is Stage.HELD:
            if job.pods.gone and lease.may_start(job.epoch, now):
                state.write(job, self._resume)
            return True
        if job.stage is not Stage.RUNNING:
            return False
        if job.uid in self._resumed:
            self._resumed.discard(job.uid)
            self._on_resumed()
        if self._stops(job):
            return True
        limit = lease.limit(job.policy, job.rerun_after, job.epoch)
        if limit != math.inf and (job.epoch < lease.epoch or not lease.holds(now)):
            heapq.heappush(self._alarms, (limit, job.uid))
        if job.held:  # somebody else has started it
            clock = state.settings.clock
            state.write(job, lambda job: state.api.unhold(job, clock()))
        return False

    def _stops(self, job: WorkerJob) -> bool:
        """Stop a copy that must not run any longer; whether it is one."""
        if job.stage is not Stage.RUNNING or self._state.busy(job.uid):
            return False
        lease, now = self._state.lease(), self._now()
        if not lease.must_stop(job.policy, job.rerun_after, job.epoch, now):
            return False
        self._state.write(job, self._hold, urgent=True)
        return True

    async def _hold(self, job: WorkerJob) -> None:
        """As it is when its turn comes."""
        lease, now = self._state.lease(), self._now()
        if job.stage is Stage.RUNNING and lease.must_stop(
            job.policy, job.rerun_after, job.epoch, now
        ):
            why, clock = self._why(job, lease, now), self._state.settings.clock
            await self._state.api.hold(job, why, clock())

    async def _resume(self, job: WorkerJob) -> None:
        """One write at a time: each is made only if the lease holds."""
        if (
            job.stage is not Stage.HELD
            or not job.pods.gone
            or not self._state.lease().may_start(job.epoch, self._now())
        ):
            return
        if job.pods.started:
            await self._state.api.forget_start(job)
        else:
            body, clock = self._state.book.bodies[job.uid], self._state.settings.clock
            await self._state.api.resume(job, body, clock())
            self._resumed.add(job.uid)

    def _why(self, job: WorkerJob, lease: Lease, now: float) -> str:
        """The sentence that people read on the copy."""
        goes_on = "the job goes on with the same attempt when it can be reached again"
        epoch = max(lease.epoch, lease.seen)
        if job.epoch < epoch:
            return (
                f"The management cluster has fenced epoch {job.epoch} of this cluster, which is in"
                f" epoch {epoch}: the job goes on with the same attempt if it is adopted there"
            )
        if lease.tenure is None:
            return (
                "The management cluster could not be reached since this cluster's agent was"
                f" started, nor is it known when it was last: {goes_on}"
            )
        since = stamp(self._state.settings.clock() - (now - lease.tenure.renewed))
        limit = f"the lease of {lease.terms.lease:g} s"
        if job.policy is OnDisconnect.KEEP:
            limit = f"the limit of {job.rerun_after or 0:g} s that the job has"
        return (
            f"The management cluster could not be reached since {since}, and {limit} is over:"
            f" {goes_on}"
        )

    def _now(self) -> float:
        return self._state.settings.boottime()
