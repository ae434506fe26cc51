"""The cards of this cluster: who holds which, and where a gang that is admitted goes.

Before anything of a Job is started all of its pods have seats: a node and cards for each, counted
in the ledger from that moment. The seats are noted on the Job in the patch that starts it, and on
each pod when it gets one; all that is known here can be read again from nodes, Jobs and pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import structlog

from federation.api.names import Pin
from federation.core.card_shares import with_cards
from federation.core.cycle import NoCards
from federation.core.devices.cards import INSTANCE, WHOLE
from federation.core.devices.fleet import Fleet
from federation.core.devices.fleet_types import NoPlace, Placement, Shape
from federation.core.devices.holding import Replica, Reservation
from federation.core.devices.ledger import Ledger
from federation.core.devices.mix import Mix
from federation.core.devices.plan_note import PlanNoteError, Seat, decode_plan, encode_plan
from federation.core.devices.strategies.named import strategy
from federation.core.devices.wants import PodWants
from federation.core.requests import chargeable
from federation.core.topology import HOSTNAME
from federation.core.types import (
    Admission,
    Pending,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
)
from federation.jobs.admission_note import original
from federation.jobs.containers import NO_DEFAULTS, read_pod
from federation.jobs.device_pins import Template, template_for
from federation.jobs.topology import selectors
from worker_agent.binder import Binder
from worker_agent.device_nodes import DeviceNodes
from worker_agent.device_text import no_place
from worker_agent.device_watch import DevicePods
from worker_agent.facts import Stage, WorkerJob
from worker_agent.nodes import Nodes, Watchers
from worker_agent.rooms import Amounts, Rooms, demand
from worker_agent.state import State

log = structlog.get_logger(__name__)

DECIDED_FOR_S = 600.0
"""How long seats are kept for a Job that neither starts nor is decided on again."""
STARTED_FOR_S = 366 * 24 * 3600.0
"""Those of a Job that was started are kept while it runs; `release` ends that."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The seats of a Job, and what a pod in one of them asks for. `until` is their deadline."""

    seats: tuple[Seat, ...]
    wants: PodWants
    requests: Amounts
    namespace: str
    note: str = ""

    def reservations(self, job: str, until: float) -> Iterator[Reservation]:
        """As the ledger takes them."""
        for index, (host, allocation) in enumerate(self.seats):
            yield Reservation(
                Replica(job, index), self.namespace, host, self.wants, allocation, until
            )


@dataclass(slots=True)
class _News:
    """What has happened since the last look."""

    freed: bool = False
    told: Callable[[], None] = field(default=lambda: None)

    def free(self) -> None:
        self.freed = True
        self.told()


class Devices:
    """One per agent. `on_moved` and `on_pods` hear of the Jobs whose pods have changed, by UID; the
    latter also of those that were started.
    """

    def __init__(self, state: State) -> None:
        self.binder = state.settings.binder
        self.on_pods: Callable[[str], None] = lambda job: None
        self.on_moved: Callable[[str], None] = lambda job: None
        self._state = state
        self._news = _News()
        self._source: Nodes | None = None
        self._unread: set[str] = set()
        self._mix = Mix()
        self._learned: set[str] = set()
        self.ledger, self.rooms = Ledger(), Rooms()
        self.fleet = Fleet(strategy(state.settings.card_strategy, self._mix))
        self.nodes = DeviceNodes(self.ledger, self.rooms, self._news.free)
        self.pods = DevicePods(self.ledger, self.rooms, self.nodes, self._moved, self._news.free)
        self.plans: dict[str, Plan] = {}
        """By UID of the Job."""
        self._tentative: set[str] = set()
        self._waiting: dict[str, str] = {}

    def connect(self, source: Nodes, news: Callable[[], None], cards: Callable[[], None]) -> None:
        """Where nodes and pods come from, and whom to tell that something may fit now, or that
        there are other cards than before.
        """
        self._source, self._news.told, self.nodes.on_cards = source, news, cards

    @property
    def ready(self) -> bool:
        """Whether all nodes and pods have been read."""
        return self._source is not None and self._source.ready

    def _want(self) -> None:
        if self._source is not None:
            self._source.want()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._state.settings.clock()

    @property
    def watchers(self) -> Watchers:
        """The handlers of nodes and of pods."""
        return () if self.binder is Binder.OFF else ((self.nodes, self.pods),)

    def unread(self, job: WorkerJob) -> bool:
        """Whether a Job asks for cards and has to wait until they are known; it is looked at again
        then.
        """
        if self.binder is Binder.OFF or not any(pods.cards for pods in job.pod_sets):
            return False
        self._want()
        if not self.ready:
            self._unread.add(job.uid)
        return not self.ready

    def flavored(self, flavors: Mapping[str, ResourceFlavor]) -> dict[str, ResourceFlavor]:
        """Flavors with the size of the cards of their nodes, which percentages are of."""
        hosts = self.nodes.hosts().values()
        nodes = [(self.rooms.nodes[h.name].labels, h) for h in hosts if h.name in self.rooms.nodes]
        return with_cards(flavors, nodes)

    # A decision

    def place(self, item: Pending, admission: Admission, now: float) -> NoCards | None:
        """Find and count seats for all pods of a Job that ask for cards; None if they have them,
        or none asks.
        """
        asking = [(pods, given) for pods, given in _pairs(item, admission) if pods.cards]
        if not asking or self.binder is Binder.OFF:
            return None
        self._want()
        if not self.ready:
            self._waiting[item.uid] = item.cluster_queue
            return NoCards("the nodes of this cluster and their cards have not been read yet")
        if not any(self._counted(pods) for pods, _ in asking):
            return None  # of a kind that no node here registers: not ours to count
        found = self._find(item, asking)
        if isinstance(found, NoCards):
            self._waiting[item.uid] = item.cluster_queue
            return found
        why = self.ledger.reserve(*found.reservations(item.uid, now + DECIDED_FOR_S))
        if why:
            self._waiting[item.uid] = item.cluster_queue
            return NoCards(why)
        self._waiting.pop(item.uid, None)
        self.plans[item.uid] = found
        self._tentative.add(item.uid)
        self._occupy(item.uid)
        return None

    def settle(self, admitted: Iterable[str]) -> None:
        """A cycle is over: who was placed in it and is not admitted has no seats."""
        lost, self._tentative = self._tentative - set(admitted), set()
        for uid in lost:
            self.release(uid)

    def _find(self, item: Pending, asking: list[tuple[PodSet, PodSetAssignment]]) -> Plan | NoCards:
        self.refresh()
        (pods, given), *more = asking
        if more:
            return NoCards("several pod sets ask for cards: this is not supported yet")
        assert pods.cards is not None
        requests = self._requests(item.uid)
        gang = list(self._shapes(pods, given, requests))
        if item.uid not in self._learned:
            self._learned.add(item.uid)
            for shape, count in gang:
                for _ in range(count):
                    self._mix.learn(shape)
        placed = self.fleet.place_gang(gang)
        if isinstance(placed, NoPlace):
            return NoCards(no_place(placed, given.count, self.fleet, self.nodes.hosts()))
        try:
            return self._plan(item, pods.cards, requests, placed)
        except PlanNoteError as error:
            return NoCards(str(error))

    def _plan(
        self, item: Pending, wants: PodWants, requests: Amounts, placed: list[Placement]
    ) -> Plan:
        seats = tuple(Seat(place.host, place.allocation) for place in placed)
        until = self.now() + STARTED_FOR_S
        return Plan(seats, wants, requests, item.namespace, encode_plan(seats, until))

    def _shapes(
        self, pods: PodSet, given: PodSetAssignment, requests: Amounts
    ) -> Iterator[tuple[Shape, int]]:
        """The pods as the fleet knows them: those of each domain of a topology apart."""
        flavors = self._state.scheduler.snapshot.flavors
        used = [flavors[name] for name in sorted({*given.flavors.values()} & flavors.keys())]
        selector = dict(pods.node_selector)
        tolerations = list(pods.tolerations)
        for flavor in used:
            selector |= dict(flavor.node_labels)
            tolerations += flavor.tolerations
        domains = selectors(given.topology) if given.topology else [({}, given.count)]
        for domain, count in domains:
            assert pods.cards is not None
            yield (
                Shape(
                    pods.cards,
                    requests,
                    tuple(sorted((selector | domain).items())),
                    pods.affinity,
                    tuple(dict.fromkeys(tolerations)),
                ),
                count,
            )

    def _requests(self, job: str) -> Amounts:
        """What one of its pods takes of a node beside cards."""
        body, catalog = original(self._state.book.bodies[job]), self._state.catalog
        rules = self._state.policies.resources
        defaults = catalog.pod_defaults(body["metadata"]["namespace"], rules)
        pod = read_pod(body["spec"]["template"]["spec"], defaults)
        return demand(chargeable(pod.requests(), NO_DEFAULTS.rules))

    def _counted(self, pods: PodSet) -> bool:
        wants = pods.cards or PodWants(())
        return any(
            asked.vendor in self.nodes.vendors
            for container in wants.containers
            for asked in container.cards
        )

    # What a Job holds

    def hold(self, job: WorkerJob) -> None:
        """A Job holds the seats that are noted on it, if there are any."""
        note = self.noted_on(job.uid)
        if self.binder is Binder.OFF or not note:
            return
        self._want()
        plan = self.plans.get(job.uid)
        if plan is None or plan.note != note:
            plan = self._read(job, note)
            if plan is None:
                return
            self._drop_rooms(job.uid)
            self.plans[job.uid] = plan
        self._tentative.discard(job.uid)
        until = self.now() + STARTED_FOR_S
        if self.ledger.holding(Replica(job.uid, 0)) is None or not self._held_long(job.uid):
            self.ledger.recall(plan.reservations(job.uid, until))
        self.ledger.need(job.uid, self._needed(job))
        self._occupy(job.uid)
        if job.stage is Stage.RUNNING:
            self.on_pods(job.uid)

    def _held_long(self, job: str) -> bool:
        held = self.ledger.holding(Replica(job, 0))
        soon = self.now() + DECIDED_FOR_S
        return held is None or held.deadline is None or held.deadline > soon

    def noted_on(self, job: str) -> str:
        """The plan that is noted on a Job; '' if there is none."""
        annotations = self._state.book.bodies[job]["metadata"].get("annotations") or {}
        return str(annotations.get(Pin.DEVICES.value, ""))

    def reseat(self, job: WorkerJob, index: int) -> NoCards | None:
        """Give one seat, which no pod has, to another node; its domain of a topology stays."""
        plan, replica = self.plans[job.uid], Replica(job.uid, index)
        admission = job.admission
        pods = next(pods for pods in job.pod_sets if pods.cards)
        given = (
            next((g for g in admission.pod_sets if g.name == pods.name), None)
            if admission
            else None
        )
        if given is None:
            return NoCards("it is not known where it was admitted")
        shapes = [shape for shape, n in self._shapes(pods, given, plan.requests) for _ in range(n)]
        self.ledger.cancel(replica)
        self.rooms.drop(replica)
        self.refresh()
        found = self.fleet.place(shapes[index])
        seats, why = list(plan.seats), None
        if isinstance(found, NoPlace):
            why = NoCards(no_place(found, 1, self.fleet, self.nodes.hosts()))
        else:
            seats[index] = Seat(found.host, found.allocation)
        until = self.now() + STARTED_FOR_S
        changed = replace(
            plan, seats=tuple(seats), note=encode_plan(seats, until) if not why else plan.note
        )
        self.ledger.recall([list(changed.reservations(job.uid, until))[index]])
        self.plans[job.uid] = changed
        self._occupy(job.uid)
        return why

    def _read(self, job: WorkerJob, note: str) -> Plan | None:
        wants = next((pods.cards for pods in job.pod_sets if pods.cards), None)
        try:
            seats = decode_plan(note).seats
        except PlanNoteError as error:
            log.warning("job.plan_unreadable", job=str(job.key), why=str(error))
            return None
        fitting = wants is not None and all(
            len(seat.allocation) == len(wants.containers) for seat in seats
        )
        if not fitting or wants is None:
            log.warning("job.plan_foreign", job=str(job.key), why="it is not of these pods")
            return None
        return Plan(seats, wants, self._requests(job.uid), job.key.namespace, note)

    @staticmethod
    def _needed(job: WorkerJob) -> int:
        if job.stage is Stage.STOPPING or job.holds is None:
            return 0
        return sum(
            max(0, pods.count - job.reclaimable.get(pods.name, 0)) for pods in job.holds.pod_sets
        )

    def release(self, job: str) -> None:
        """A Job has no seats (any more)."""
        self._waiting.pop(job, None)
        self._tentative.discard(job)
        if self.plans.get(job) is None:
            return
        self._drop_rooms(job)
        del self.plans[job]
        self.ledger.withdraw(job)
        self._news.free()

    def forget(self, job: str) -> None:
        """A Job is gone."""
        self.release(job)
        self._learned.discard(job)

    def _occupy(self, job: str) -> None:
        """What seats without a pod take of their nodes beside cards."""
        plan = self.plans.get(job)
        if plan is None:
            return
        for index, seat in enumerate(plan.seats):
            replica = Replica(job, index)
            if self.ledger.holding(replica) is not None:
                self.rooms.put(replica, seat.host, plan.requests)
            else:
                self.rooms.drop(replica)

    def _drop_rooms(self, job: str) -> None:
        plan = self.plans.get(job)
        for index in range(len(plan.seats) if plan else 0):
            self.rooms.drop(Replica(job, index))

    # What changed

    def _moved(self, job: str) -> None:
        self._occupy(job)
        self.on_moved(job)
        self.on_pods(job)

    def refresh(self) -> None:
        """Bring the fleet in line with the ledger and with what else is free."""
        changed = self.ledger.changed() | self.rooms.changed
        self.rooms.changed.clear()
        for name in changed:
            use, room = self.ledger.use(name), self.rooms.room(name)
            if use is None or room is None:
                self.fleet.drop(name)
            else:
                self.fleet.put(name, use, room)

    def take_in(self, now: float) -> set[str]:
        """What happened since the last time; the ClusterQueues to look at again."""
        for lapsed in self.ledger.expire(now):
            log.warning("cards.lapsed", owner=str(lapsed.owner), host=lapsed.host)
            self._news.freed = True
        if self._unread and self.ready:
            for job in self._unread:
                self._state.touch(job)
            self._unread.clear()
        if not self._news.freed or not self.ready:
            return set()
        self._news.freed = False
        queues = set(self._waiting.values())
        self._waiting.clear()
        return queues

    # What is written

    def template(self, job: str) -> Template | None:
        """What the start of a Job writes into its template; None if it has no seats."""
        plan = self.plans.get(job)
        if plan is None:
            return None
        alone = any(map(self.noted, plan.seats))
        return template_for(
            plan.seats, self.hostname(plan.seats[0].host), self.selectable, alone=alone
        )

    def noted(self, seat: Seat) -> bool:
        """Whether the agent itself writes the annotations of a pod in this seat, for a plugin that
        reads them.
        """
        grants = (grant for grants in seat.allocation for grant in grants)
        return self.binder is Binder.AGENT and any(
            self.selectable(seat.host, grant.uuid) for grant in grants
        )

    def notes(self, job: str) -> Mapping[str, str | None]:
        """What is noted on a Job that gets its seats."""
        plan = self.plans.get(job)
        return {Pin.DEVICES.value: plan.note} if plan else {}

    def hostname(self, host: str) -> str:
        """The label by which pods select a node; '' if it has none."""
        node = self.rooms.nodes.get(host)
        return node.labels.get(HOSTNAME, "") if node else ""

    def selectable(self, host: str, uuid: str) -> bool:
        """Whether pods can choose a card by its UUID."""
        card = self.nodes.cards(host).get(uuid)
        return card is not None and card.mode not in (WHOLE, INSTANCE)


def _pairs(item: Pending, admission: Admission) -> list[tuple[PodSet, PodSetAssignment]]:
    given = {pods.name: pods for pods in admission.pod_sets}
    return [(pods, given[pods.name]) for pods in item.pod_sets if pods.name in given]
