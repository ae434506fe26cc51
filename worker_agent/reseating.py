"""Seats on nodes or cards that are lost: the pods to come get others, or the Job starts over.

A pod on a lost node is not touched: Kubernetes deletes it, and then its seat is free. The new plan
is on the Job before any pod is pinned by it. Where the template names the node, or there is no
other place, the Job is evicted (NodeFailures), as one that is placed in a topology is.
"""

from __future__ import annotations

from functools import partial

import structlog

from federation.api.names import Gate
from federation.core.cycle import NoCards
from federation.core.reasons import Reason
from federation.jobs.device_pins import taken
from federation.jobs.eviction_note import Eviction
from federation.jobs.pod_state import gated
from worker_agent.devices import Devices
from worker_agent.facts import Stage, WorkerJob
from worker_agent.failures import Failures
from worker_agent.state import State, stamp

log = structlog.get_logger(__name__)


class Reseating:
    """Looks at all Jobs with seats when nodes have changed."""

    def __init__(self, state: State, devices: Devices, failures: Failures) -> None:
        self._state, self._devices, self._failures = state, devices, failures
        self._asked: set[tuple[str, int]] = set()

    def ask(self, job: str, index: int) -> None:
        """The cards of a seat cannot be had by the pod that is there for it: look for others."""
        self._asked.add((job, index))

    def run(self, now: float) -> None:
        """Find what was lost, and mend it."""
        if not self._devices.ready:
            return
        asked, self._asked = self._asked, set()
        for job, index in sorted(asked):
            self._move(job, index)
        silent = self._failures.silent(now)
        for uid in list(self._devices.plans):
            found = self._state.jobs.get(uid)
            if found is not None and self._open(found):
                self._look(found, silent, now)

    def _open(self, job: WorkerJob) -> bool:
        state = self._state
        running = job.stage is Stage.RUNNING and job.uid not in state.evicting
        return running and not state.busy(job.uid)

    def _look(self, job: WorkerJob, silent: frozenset[str], now: float) -> None:
        plan = self._devices.plans[job.uid]
        hosts = {seat.host for seat in plan.seats}
        names = {host: self._devices.hostname(host) for host in hosts}
        if any(self._failures.is_down(name) for name in names.values()):
            self._failures.suspect(job.uid)
        lost = {host for host, name in names.items() if not name or name in silent}
        if not lost:
            return
        self._failures.suspect(job.uid)
        if not self._gated(job):
            self._evict(job, lost, "its template names the node", now)
            return
        occupied = set(taken(self._devices.pods.of_job(job.uid), len(plan.seats)).values())
        for index, seat in enumerate(plan.seats):
            if seat.host in lost and index not in occupied:
                found = self._devices.reseat(job, index)
                if isinstance(found, NoCards):
                    self._evict(job, lost, found.message(), now)
                    return
        self._write(job)

    def _move(self, uid: str, index: int) -> None:
        """Give a seat other cards because its own cannot be had now; else it stays as it is."""
        job = self._state.jobs.get(uid)
        if job is None or uid not in self._devices.plans or not self._open(job):
            return
        if self._gated(job) and not isinstance(self._devices.reseat(job, index), NoCards):
            self._write(job)

    def _gated(self, job: WorkerJob) -> bool:
        body = self._state.book.bodies[job.uid]
        return gated(body["spec"]["template"]["spec"], Gate.DEVICES)

    def _write(self, job: WorkerJob) -> None:
        note = self._devices.plans[job.uid].note
        if note != self._devices.noted_on(job.uid):
            self._state.write(job, partial(self._note, note))

    async def _note(self, note: str, job: WorkerJob) -> None:
        await self._state.api.reseat(job, note)

    def _evict(self, job: WorkerJob, lost: set[str], why: str, now: float) -> None:
        text = f"Pods have lost their node ({', '.join(sorted(lost))}), and {why}"
        self._state.evict(job.uid, Eviction(Reason.NODE_FAILURES.value, text, stamp(now)))
