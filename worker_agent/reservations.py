"""Jobs that hold quota and wait for admission checks before they are started.

The reservation is a note on the Job. It becomes the note of an admission in the patch that starts
the Job, when the Workload shows the reservation and all checks that it needs are Ready. Where
checks have nodes made, places and cards are sought only then (Kueue's second pass).
"""

from __future__ import annotations

from functools import partial

from federation.api.names import Mirror
from federation.core import checks as core
from federation.core.checks import CheckState, standing
from federation.core.cycle import Fit
from federation.core.dispatch import FOR_GOOD_S
from federation.core.facts import Record
from federation.core.pod_updates import PodSetUpdate
from federation.core.reasons import Reason
from federation.core.types import Admission, ResourceFlavor
from federation.jobs import batch_job
from worker_agent.devices import Devices
from worker_agent.facts import WorkerJob
from worker_agent.second_pass import SecondPass
from worker_agent.state import State, stamp
from worker_agent.texts import MARGIN_S, Waiting


class Reservations:
    """Makes them, and starts what has waited long enough."""

    def __init__(self, state: State, devices: Devices) -> None:
        self._state, self._devices = state, devices
        self._second = SecondPass(state, devices)

    def needed(self, admission: Admission) -> bool:
        """Whether a Job has to wait for checks with this admission."""
        return bool(self._names(admission))

    def delayed(self, admission: Admission) -> bool:
        """Whether its places are sought when its checks are Ready."""
        queue = self._state.catalog.queues.get(admission.cluster_queue)
        delaying = self._state.scheduler.snapshot.delaying
        return queue is not None and core.delayed(queue, admission, delaying)

    def reserve(self, job: WorkerJob, fit: Fit, now: float) -> None:
        """Note what was charged for a Job that is not started yet."""
        self._state.write(job, partial(self._reserve, fit, now))

    async def _reserve(self, fit: Fit, now: float, job: WorkerJob) -> None:
        if not self._state.may_start(job):
            return  # the lease has ended since; it is decided on again
        notes: dict[str, str | None] = {
            Mirror.RESERVATION.value: batch_job.encode_admission(fit.admission),
            Mirror.RESERVED_AT.value: stamp(now),
            **self._devices.notes(job.uid),
        }
        if job.mirrored:
            states = core.synced((), self._names(fit.admission), now)
            notes[Mirror.WAITS_FOR.value] = core.unready(states)
            until = now + self._state.settings.checks_s
            notes[Mirror.DECIDING.value] = stamp(until + MARGIN_S)
        else:
            notes[Mirror.PRIORITY.value] = str(fit.item.priority)
        if job.eviction is not None:
            notes[Mirror.EVICTED.value] = None
        await self._state.api.reserve(job, notes)

    def start_if_checked(self, job: WorkerJob, record: Record, now: float) -> float | None:
        """Start it, or say that it cannot be started as its checks want it. Returns when to look
        again, if nothing changes: it may have no places yet.
        """
        state, admission = self._state, job.reservation
        if admission is None or job.uid in state.evicting or not record.life.reserved:
            return None
        if standing(record.life.checks, self._names(admission)) is not CheckState.READY:
            return None
        if not state.may_start(job):
            return None
        updates = self._updates(record, admission)
        flavors = self._flavors(admission)
        body, kind = state.book.bodies[job.uid], state.kind_of(job)
        problem = kind.start_problem(body, admission, flavors, updates)
        if problem:
            self._refuse(job, Waiting(Reason.FAILED_TO_START.value, problem))
            return None
        placed: Admission | Waiting = admission
        if self.delayed(admission) or state.delayed(job):
            placed = self._second.place(job, admission, updates)
        if isinstance(placed, Waiting):
            state.waits[job.uid] = placed
            state.unplaced.add(job.uid)
            state.on_change(job.uid)
            return self._second.again(record, now)
        state.write(job, partial(self._start, admission, placed, updates, stamp(now)))
        return None

    def _refuse(self, job: WorkerJob, why: Waiting) -> None:
        if job.mirrored:
            self._state.give_back(job, why, FOR_GOOD_S)
        else:
            self._state.refuse(job, why)

    async def _start(
        self,
        reserved: Admission,
        placed: Admission,
        updates: list[PodSetUpdate],
        at: str,
        job: WorkerJob,
    ) -> None:
        if job.reservation != reserved or not self._state.may_start(job):
            return  # it was given back meanwhile, or the lease has ended
        body = self._state.book.bodies[job.uid]
        flavors, cards = self._flavors(placed), self._devices.template(job.uid)
        kind = self._state.kind_of(job)
        patch = kind.admission_patch(body, placed, flavors, updates, cards)
        notes = patch["metadata"]["annotations"]
        notes |= {Mirror.RESERVATION.value: None, Mirror.ADMITTED_AT.value: at}
        notes |= self._devices.notes(job.uid)
        if job.mirrored:
            notes |= {Mirror.WAITS_FOR.value: None, Mirror.DECIDING.value: None}
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
