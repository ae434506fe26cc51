"""Local Jobs that hold quota and wait for admission checks before they are started.

The reservation is a note on the Job. It becomes the note of an admission in the patch that starts
the Job, when the Workload shows the reservation and all checks that it needs are Ready.
"""

from __future__ import annotations

from functools import partial

from federation.api.names import Mirror
from federation.core.checks import CheckState, standing
from federation.core.cycle import Fit
from federation.core.facts import Record
from federation.core.pod_updates import PodSetUpdate
from federation.core.reasons import Reason
from federation.core.types import Admission, ResourceFlavor
from federation.jobs import batch_job
from worker_agent.devices import Devices
from worker_agent.facts import WorkerJob
from worker_agent.state import State, stamp
from worker_agent.texts import Waiting


class Reservations:
    """Makes them, and starts what has waited long enough."""

    def __init__(self, state: State, devices: Devices) -> None:
        self._state, self._devices = state, devices

    def needed(self, job: WorkerJob, admission: Admission) -> bool:
        """Whether a Job has to wait for checks with this admission."""
        return not job.mirrored and bool(self._names(admission))

    def reserve(self, job: WorkerJob, fit: Fit, now: float) -> None:
        """Note what was charged for a Job that is not started yet."""
        self._state.write(job, partial(self._reserve, fit, stamp(now)))

    async def _reserve(self, fit: Fit, at: str, job: WorkerJob) -> None:
        notes: dict[str, str | None] = {
            Mirror.RESERVATION.value: batch_job.encode_admission(fit.admission),
            Mirror.RESERVED_AT.value: at,
            Mirror.PRIORITY.value: str(fit.item.priority),
            **self._devices.notes(job.uid),
        }
        if job.eviction is not None:
            notes[Mirror.EVICTED.value] = None
        await self._state.api.reserve(job, notes)

    def start_if_checked(self, job: WorkerJob, record: Record, now: float) -> None:
        """Start it, or say that it cannot be started as its checks want it."""
        state, admission = self._state, job.reservation
        if admission is None or job.uid in state.evicting or not record.life.reserved:
            return
        if standing(record.life.checks, self._names(admission)) is not CheckState.READY:
            return
        updates = self._updates(record, admission)
        flavors = self._flavors(admission)
        body, kind = state.book.bodies[job.uid], state.kind_of(job)
        problem = kind.start_problem(body, admission, flavors, updates)
        if problem:
            state.refuse(job, Waiting(Reason.FAILED_TO_START.value, problem))
        else:
            state.write(job, partial(self._start, updates, stamp(now)))

    async def _start(self, updates: list[PodSetUpdate], at: str, job: WorkerJob) -> None:
        if job.reservation is None:  # given back meanwhile
            return
        body = self._state.book.bodies[job.uid]
        flavors, cards = self._flavors(job.reservation), self._devices.template(job.uid)
        kind = self._state.kind_of(job)
        patch = kind.admission_patch(body, job.reservation, flavors, updates, cards)
        patch["metadata"]["annotations"] |= {
            Mirror.RESERVATION.value: None,
            Mirror.ADMITTED_AT.value: at,
        }
        await self._state.api.start(job, patch)

    def _names(self, admission: Admission) -> tuple[str, ...]:
        queue = self._state.catalog.queues.get(admission.cluster_queue)
        return self._state.checks.names(queue, admission)

    def _updates(self, record: Record, admission: Admission) -> list[PodSetUpdate]:
        names = self._names(admission)
        return [u for check in record.life.checks if check.name in names for u in check.updates]

    def _flavors(self, admission: Admission) -> list[ResourceFlavor]:
        used = {name for pods in admission.pod_sets for name in pods.flavors.values()}
        known = self._state.scheduler.snapshot.flavors
        return [known[name] for name in sorted(used & known.keys())]
