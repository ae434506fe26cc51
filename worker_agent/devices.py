"""The cards of this cluster: who holds which, and where a gang that is admitted goes.

Before anything of a Job is started all of its pods have seats: a node and cards for each, counted
in the ledger from that moment. The seats are noted on the Job in the patch that starts it, and on
each pod when it gets one; all that is known here can be read again from nodes, Jobs and pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import structlog

from federation.api.names import Pin
from federation.core.card_shares import with_cards
from federation.core.cycle import NoCards
from federation.core.devices.cards import INSTANCE, WHOLE
from federation.core.devices.fleet.buckets import Buckets, Classes
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.no_room import LOOKED_AT, no_room
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import NoPlace, Room
from federation.core.devices.ledger.holding import Replica
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.quota.totals import vendors_of
from federation.core.devices.wants import PodWants
from federation.core.devices.wire.plan_note import PlanNoteError, Seat
from federation.core.requests import chargeable
from federation.core.topology import HOSTNAME
from federation.core.types import (
    Admission,
    ClusterQueue,
    Pending,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
)
from federation.jobs.admission_note import original
from federation.jobs.containers import NO_DEFAULTS, read_pod
from federation.jobs.device_pins import Pinned, Template, chosen, template_for
from worker_agent.binder import Binder
from worker_agent.device_changes import easier, tell_fences
from worker_agent.device_nodes import DeviceNodes
from worker_agent.device_watch import DevicePods
from worker_agent.facts import Stage, WorkerJob
from worker_agent.nodes import Nodes, Watchers
from worker_agent.plans import STARTED_FOR_S, Plan, asking, gang, needed, read_plan
from worker_agent.rooms import Amounts, Rooms, demand
from worker_agent.state import State

log = structlog.get_logger(__name__)

DECIDED_FOR_S = 600.0
"""How long seats are kept for a Job that neither starts nor is decided on again."""


class Devices:
    """One per agent. `on_moved` and `on_pods` hear of the Jobs whose pods have changed, by UID; the
    latter also of those that were started.
    """

    def __init__(self, state: State) -> None:
        self.binder = state.settings.binder
        self.on_pods: Callable[[str], None] = lambda job: None
        self.on_moved: Callable[[str], None] = lambda job: None
        self._state = state
        self._source: Nodes | None = None
        self._mix = Mix()
        rules, settings = state.policies.resources, state.settings
        self.vendors = rules.vendors
        self.ledger, self.rooms = Ledger(), Rooms(rules.vendors)
        self.fleet = Fleet(strategy(settings.card_strategy, self._mix))
        news = state.wake.set
        self.nodes = DeviceNodes(
            self.ledger, self.rooms, news, settings.clock, settings.node_groups, rules.vendors
        )
        self.pods = DevicePods(self.ledger, self.rooms, self.nodes, rules, self._moved, news)
        self.plans: dict[str, Plan] = {}
        """By UID of the Job."""
        self._recalled: dict[str, str] = {}
        self._tentative: set[str] = set()
        self._unread: set[str] = set()
        self._learned: set[str] = set()
        self._waiting: dict[str, str] = {}
        self._unseated: set[str] = set()
        self._told: dict[str, Room] = {}
        self._buckets = Buckets()
        self._eased = self._other_cards = False
        self.stirred: set[str] = set()
        """Hosts of which the use has changed; whoever looks at them empties it."""

    def connect(self, source: Nodes, cards: Callable[[], None]) -> None:
        """Where nodes and pods come from, and whom to tell that there are other cards."""

        def changed() -> None:
            self._other_cards = True
            cards()

        self._source, self.nodes.on_cards = source, changed

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
        if not self._seated(job.uid):
            return False
        self._want()
        if not self.ready:
            self._unread.add(job.uid)
        return not self.ready

    def flavored(self, flavors: Mapping[str, ResourceFlavor]) -> dict[str, ResourceFlavor]:
        """Flavors with the size of the cards of their nodes, which percentages are of."""
        nodes = self.rooms.nodes
        hosts = self.nodes.hosts().items()
        return with_cards(flavors, [(nodes[n].labels, host) for n, host in hosts if n in nodes])

    # A decision

    def place(self, item: Pending, admission: Admission) -> NoCards | None:
        """Find and count seats for all pods of a Job that ask for cards; None if they have them,
        or none asks.
        """
        sets = asking(item.pod_sets, admission)
        if not sets or self.binder is Binder.OFF or not self._seated(item.uid):
            return None
        self._want()
        if self.ready and not any(self._counted(pods, item.cluster_queue) for pods, _ in sets):
            return None  # of a kind that no node here ever registered: not ours to count
        found = self._find(item, sets)
        if not isinstance(found, NoCards):
            until = self.now() + DECIDED_FOR_S
            why = self.ledger.reserve(*found.reservations(item.uid, until))
            if not why:
                self._take(item.uid, found)
                return None
            found = NoCards(why)
        self._waiting[item.uid] = item.cluster_queue
        return found

    def _seated(self, uid: str) -> bool:
        """Whether the pods of a job are given seats: else HAMi's scheduler chooses their cards, and
        they are counted from then on.
        """
        job = self._state.jobs.get(uid)
        return job is None or self._state.kind_of(job).seats

    def _none_there(self, wants: PodWants) -> str:
        """That no node has such cards now; '' if some have."""
        there = {card.vendor for host in self.nodes.hosts().values() for card in host.cards}
        gone = sorted(vendors_of(wants) - there)
        if not gone:
            return ""
        return f"no node of this cluster shows any {' or '.join(gone)} card now: it waits for one"

    def _why(self, answer: NoPlace, pods: int) -> str:
        return no_room(answer, pods, self.fleet.freest(answer.shape, LOOKED_AT))

    def settle(self, admitted: Iterable[str]) -> None:
        """A cycle is over: who was placed in it and is not admitted has no seats."""
        lost, self._tentative = self._tentative - set(admitted), set()
        for uid in lost:
            self.release(uid)

    def keep(self, job: str) -> None:
        """What was found for a Job outside of a cycle is its own, whatever that decides."""
        self._tentative.discard(job)

    def _take(self, job: str, plan: Plan) -> None:
        self._waiting.pop(job, None)
        self._tentative.add(job)
        self.plans[job] = plan
        self._unseated.add(job)

    def _find(self, item: Pending, sets: list[tuple[PodSet, PodSetAssignment]]) -> Plan | NoCards:
        if not self.ready:
            return NoCards("the nodes of this cluster and their cards have not been read yet")
        (pods, given), *more = sets
        if more or pods.cards is None:
            return NoCards("several pod sets ask for cards: only one may")
        requests, flavors = self._requests(item.uid), self._state.scheduler.snapshot.flavors
        shapes = gang(pods, given, requests, flavors)
        if item.uid not in self._learned:
            self._learned.add(item.uid)
            for shape in (shape for shape, count in shapes for _ in range(count)):
                self._mix.learn(shape)
        self.refresh()
        placed = self.fleet.place_gang(shapes)
        if isinstance(placed, NoPlace):
            return NoCards(self._none_there(pods.cards) or self._why(placed, given.count))
        seats = tuple(Seat(place.host, place.allocation) for place in placed)
        try:
            return Plan(seats, pods.cards, requests, item.namespace).noted(self.now())
        except PlanNoteError as error:
            return NoCards(str(error))

    def _requests(self, job: str) -> Amounts:
        """What one of its pods takes of a node beside cards."""
        body, state = original(self._state.book.bodies[job]), self._state
        namespace = body["metadata"]["namespace"]
        defaults = state.catalog.pod_defaults(namespace, state.policies.resources)
        pod = read_pod(body["spec"]["template"]["spec"], defaults)
        return demand(chargeable(pod.requests(), NO_DEFAULTS.rules), self.vendors)

    def _counted(self, pods: PodSet, queue: str) -> bool:
        """Whether seats are given for them. Shares of cards in the quota of its queue say so before
        any node shows one: nobody but HAMi hands them out.
        """
        known = self.nodes.vendors | self._shared(self._state.catalog.queues.get(queue))
        return pods.cards is not None and not vendors_of(pods.cards).isdisjoint(known)

    def _shared(self, queue: ClusterQueue | None) -> frozenset[str]:
        groups = queue.groups if queue is not None else ()
        covered = (resource for group in groups for resource in group.covered)
        return self._state.policies.rules.cards.shared(covered)

    def counted(self) -> list[str]:
        """Keys of the vendors whose cards are given out in seats here, some of them even if no node
        shows any now.
        """
        queues = self._state.catalog.queues.values()
        return sorted(self.nodes.vendors.union(*map(self._shared, queues)))

    def recall(self, vendors: Iterable[str]) -> None:
        """An agent before this one has given out cards of these vendors."""
        self.nodes.vendors |= {key for key in vendors if self.vendors.get(key) is not None}

    # What a Job holds

    def hold(self, job: WorkerJob) -> None:
        """A Job holds the seats that are noted on it, if there are any."""
        uid, note = job.uid, self.noted_on(job.uid)
        if self.binder is Binder.OFF or not note:
            return
        self._want()
        self._tentative.discard(uid)
        if self._recalled.get(uid) != note:
            plan = self.plans.get(uid)
            if plan is None or plan.note != note:
                plan = self._read(job, note)
            if plan is None:
                return
            self._drop_rooms(uid)
            self.ledger.recall(plan.reservations(uid, self.now() + STARTED_FOR_S))
            self.plans[uid], self._recalled[uid] = plan, note
        self.ledger.need(uid, needed(job))
        self._unseated.add(uid)
        if job.stage is Stage.RUNNING:
            self.on_pods(uid)

    def _read(self, job: WorkerJob, note: str) -> Plan | None:
        try:
            plan = read_plan(job, note, self._requests(job.uid))
            self.recall(vendors_of(plan.wants))
            return plan
        except PlanNoteError as error:
            log.warning("job.plan_not_trusted", job=str(job.key), why=str(error))
            return None

    def noted_on(self, job: str) -> str:
        """The plan that is noted on a Job; '' if there is none."""
        annotations = self._state.book.bodies[job]["metadata"].get("annotations") or {}
        return str(annotations.get(Pin.DEVICES.value, ""))

    def reseat(self, job: WorkerJob, index: int) -> NoCards | None:
        """Give one seat, which no pod has, to another node; its domain of a topology stays."""
        plan, replica = self.plans[job.uid], Replica(job.uid, index)
        sets = asking(job.pod_sets, job.admission)
        if not sets:
            return NoCards("it is not known where it was admitted")
        flavors = self._state.scheduler.snapshot.flavors
        shapes = [s for s, n in gang(*sets[0], plan.requests, flavors) for _ in range(n)]
        self.ledger.cancel(replica)
        self.rooms.drop(replica)
        self.refresh()
        found = self.fleet.place(shapes[index])
        if not isinstance(found, NoPlace) and (found.host, found.allocation) != plan.seats[index]:
            plan = self.plans[job.uid] = plan.moved(index, found, self.now())
            self._recalled[job.uid] = plan.note
        self.ledger.recall([plan.reservation(job.uid, index, self.now() + STARTED_FOR_S)])
        self._unseated.add(job.uid)
        if isinstance(found, NoPlace):
            return NoCards(self._why(found, 1))
        return None

    def release(self, job: str) -> None:
        """A Job has no seats (any more)."""
        self._waiting.pop(job, None)
        self._tentative.discard(job)
        self._recalled.pop(job, None)
        if job in self.plans:
            self._drop_rooms(job)
            del self.plans[job]
            self.ledger.withdraw(job)

    def forget(self, job: str) -> None:
        """A Job is gone."""
        self.release(job)
        self._learned.discard(job)
        self._unread.discard(job)

    def _drop_rooms(self, job: str) -> None:
        plan = self.plans.get(job)
        for index in range(len(plan.seats) if plan else 0):
            self.rooms.drop(Replica(job, index))

    def _occupy(self, job: str) -> None:
        """What seats without a pod take of their nodes beside cards."""
        plan = self.plans.get(job)
        for index, seat in enumerate(plan.seats if plan else ()):
            replica = Replica(job, index)
            if plan is not None and self.ledger.holding(replica) is not None:
                self.rooms.put(replica, seat.host, plan.requests)
            else:
                self.rooms.drop(replica)

    # What changed

    def ease(self) -> None:
        """Something else than the use of cards may let others in: a limit, say."""
        self._eased = True
        self._state.wake.set()

    def _moved(self, job: str) -> None:
        self._unseated.add(job)
        self.on_moved(job)
        self.on_pods(job)

    def refresh(self) -> None:
        """Bring the fleet in line with the ledger and with what else is free."""
        for job in self._unseated:
            self._occupy(job)
        self._unseated.clear()
        changed = self.ledger.changed() | self.rooms.changed
        self.rooms.changed.clear()
        self.stirred |= changed
        for name in changed:
            use, room = self.ledger.use(name), self.rooms.room(name)
            before, known = self.fleet.use(name), self._told.pop(name, None)
            if use is None or room is None:
                self.fleet.drop(name)
                self._buckets.drop(name)
                continue
            self.fleet.put(name, use, room)
            self._buckets.put(name, use, room)
            self._told[name] = room
            tell_fences(before, use)
            if before is None or known is None or easier(before, use, known, room):
                self._eased = True

    def due(self) -> float | None:
        """When time alone asks for a look."""
        return self.nodes.handshakes.due()

    def take_in(self, now: float) -> set[str]:
        """What happened since the last time; the ClusterQueues to look at again."""
        for lapsed in self.ledger.expire(now):
            log.warning("cards.lapsed", owner=str(lapsed.owner), host=lapsed.host)
        if not self.ready:
            return set()
        self.nodes.wake(now)
        if self._other_cards:
            self._other_cards = False
            for job in self.plans:  # a seat may be on a node that was not known until now
                self.on_pods(job)
        for job in self._unread:
            self._state.touch(job)
        self._unread.clear()
        self.refresh()
        queues = set(self._waiting.values()) if self._eased else set()
        if self._eased:
            self._waiting.clear()
        self._eased = False
        return queues

    def free(self, limit: int, labels: Collection[str]) -> Classes | None:
        """What is free of nodes with cards, in so many characters, with these labels of them; None
        while that is not known. Once it was asked for, it will be.
        """
        if self.binder is Binder.OFF:
            return None
        self._want()
        if not self.ready:
            return None
        self.refresh()
        return self._buckets.classes(limit, labels)

    # What is written

    def template(self, job: str) -> Template | None:
        """What the start of a Job writes into its template; None if it has no seats."""
        plan = self.plans.get(job)
        if plan is None:
            return None
        alone = any(map(self.noted, plan.seats))
        return template_for(
            [Pinned(seat.host, self.chosen(seat)) for seat in plan.seats],
            self.hostname(plan.seats[0].host),
            alone=alone,
        )

    def chosen(self, seat: Seat) -> dict[str, str]:
        """The annotations that leave HAMi's scheduler no other cards than those of a seat."""
        return chosen(seat, self.selectable, self.vendors)

    def notes(self, job: str) -> Mapping[str, str | None]:
        """What is noted on a Job that gets its seats."""
        plan = self.plans.get(job)
        return {Pin.DEVICES.value: plan.note} if plan else {}

    def noted(self, seat: Seat) -> bool:
        """Whether the agent itself writes the annotations of a pod in this seat, for a plugin that
        reads them.
        """
        grants = (grant for grants in seat.allocation for grant in grants)
        return self.binder is Binder.AGENT and any(
            self.selectable(seat.host, grant.uuid) for grant in grants
        )

    def hostname(self, host: str) -> str:
        """The label by which pods select a node; '' if it has none."""
        node = self.rooms.nodes.get(host)
        return node.labels.get(HOSTNAME, "") if node else ""

    def selectable(self, host: str, uuid: str) -> bool:
        """Whether pods can choose a card by its UUID."""
        card = self.nodes.cards(host).get(uuid)
        return card is not None and card.mode not in (WHOLE, INSTANCE)
