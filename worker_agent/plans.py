"""The seats of a Job as a plan: what is asked of the fleet, what it gives, and the note of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from federation.core.cluster_cards import shape_of
from federation.core.devices.fleet.types import Placement, Shape
from federation.core.devices.ledger.holding import Replica, Reservation
from federation.core.devices.wants import PodWants
from federation.core.devices.wire.plan_note import PlanNoteError, Seat, decode_plan, encode_plan
from federation.core.types import Admission, PodSet, PodSetAssignment, ResourceFlavor
from federation.jobs.topology import selectors
from worker_agent.facts import Stage, WorkerJob
from worker_agent.rooms import Amounts

STARTED_FOR_S = 366 * 24 * 3600.0
"""The seats of a Job that was started are kept while it runs, not until a time. This is what its
note says, for whoever finds it and no agent.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The seats of a Job, and what a pod in one of them asks for."""

    seats: tuple[Seat, ...]
    wants: PodWants
    requests: Amounts
    namespace: str
    note: str = ""

    def reservations(self, job: str, until: float) -> Iterator[Reservation]:
        """As the ledger takes them."""
        for index in range(len(self.seats)):
            yield self.reservation(job, index, until)

    def reservation(self, job: str, index: int, until: float) -> Reservation:
        """One of them."""
        host, allocation = self.seats[index]
        return Reservation(Replica(job, index), self.namespace, host, self.wants, allocation, until)

    def noted(self, now: float) -> Plan:
        """The plan with its note. PlanNoteError if it cannot be noted."""
        return replace(self, note=encode_plan(self.seats, now + STARTED_FOR_S))

    def moved(self, index: int, place: Placement, now: float) -> Plan:
        """The plan with one seat elsewhere."""
        seats = list(self.seats)
        seats[index] = Seat(place.host, place.allocation)
        return replace(self, seats=tuple(seats)).noted(now)


def read_plan(job: WorkerJob, note: str, requests: Amounts) -> Plan:
    """The plan that is noted on a Job. PlanNoteError if it is none, or not of its pods."""
    wants = next((pods.cards for pods in job.pod_sets if pods.cards), None)
    seats = decode_plan(note).seats
    if wants is None or not seats:
        raise PlanNoteError("it has seats, and its pods ask for no cards")
    if any(len(seat.allocation) != len(wants.containers) for seat in seats):
        raise PlanNoteError("it is of pods with other containers")
    return Plan(seats, wants, requests, job.key.namespace, note)


def asking(
    pod_sets: Iterable[PodSet], admission: Admission | None
) -> list[tuple[PodSet, PodSetAssignment]]:
    """The pod sets that ask for cards, and what they were assigned."""
    given = {pods.name: pods for pods in admission.pod_sets} if admission else {}
    return [(pods, given[pods.name]) for pods in pod_sets if pods.cards and pods.name in given]


def gang(
    pods: PodSet,
    given: PodSetAssignment,
    requests: Amounts,
    flavors: Mapping[str, ResourceFlavor],
) -> Sequence[tuple[Shape, int]]:
    """The pods as the fleet knows them, with their numbers: those of each domain of a topology
    apart, in the order of its domains. `requests` are those of one pod beside cards.
    """
    used = [flavors[name] for name in sorted({*given.flavors.values()} & flavors.keys())]
    shape = shape_of(pods, dict(requests), used)
    selector = dict(shape.node_selector)
    domains = selectors(given.topology) if given.topology else [({}, given.count)]
    return [
        (replace(shape, node_selector=tuple(sorted((selector | domain).items()))), count)
        for domain, count in domains
    ]


def needed(job: WorkerJob) -> int:
    """How many pods of a Job will hold cards at one time from now on."""
    if job.stage is Stage.STOPPING or job.holds is None:
        return 0
    return sum(
        max(0, pods.count - job.reclaimable.get(pods.name, 0)) for pods in job.holds.pod_sets
    )
