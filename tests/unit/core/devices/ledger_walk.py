"""A small cluster that lives at random, told to a ledger late, twice and out of order; and a count
of who holds what that is made from scratch, by other means than those of the ledger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from federation.core.devices.cards import Allocation, Card, Grant, Host, MigProfile
from federation.core.devices.host.fit import find
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.ledger.claims import Claimed
from federation.core.devices.ledger.holding import Holding, Owner, Replica, Reservation, State
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.ledger.observed import UNBOUND_FOR, ObservedPod
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Role, Wishes
from tests.unit.core.devices.ledger_rebuild import rebuild

HOSTS = ("n0", "n1", "mig")
ANY = -1
PROFILES = (
    MigProfile("1g.5gb", 4864, 15, 1, tuple((start, 1) for start in range(7))),
    MigProfile("3g.20gb", 20096, 43, 3, ((0, 4), (4, 4))),
)


def fresh_host(name: str) -> Host:
    """Three cards of one of the hosts, as they were bought."""
    mig = name == "mig"
    extra: dict[str, Any] = {"mode": "mig", "profiles": PROFILES, "slots": 7} if mig else {}
    kind = {"slots": 4, **extra}
    return Host(
        name,
        tuple(
            Card(f"{name}-{i}", "NVIDIA", "NVIDIA A100", 40960, index=i, **kind) for i in range(3)
        ),
    )


@dataclass
class World:
    """What is written somewhere: it is there after a crash. Jobs have seats, and how many of
    them they need.
    """

    now: float = 1000.0
    version: int = 0
    hosts: dict[str, Host] = field(default_factory=lambda: {h: fresh_host(h) for h in HOSTS})
    seats: dict[Replica, Reservation] = field(default_factory=dict)
    need: dict[str, int] = field(default_factory=dict)
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    wants: dict[str, PodWants] = field(default_factory=dict)
    claims: dict[str, Claimed] = field(default_factory=dict)
    fences: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass
class Memory:
    """What only the program knows: decisions that are not written yet, and the last good value of
    pods that cannot be read.
    """

    seats: dict[Replica, Reservation] = field(default_factory=dict)
    adopted: dict[str, Replica] = field(default_factory=dict)
    own: dict[str, Reservation] = field(default_factory=dict)
    last: dict[str, Holding] = field(default_factory=dict)


def recount(world: World, memory: Memory) -> dict[Owner, Holding]:
    """Who holds what, in words of the specification: pod by pod, then the seats that are left."""
    seats = world.seats | memory.seats
    held: dict[Owner, Holding] = {}
    taken: dict[str, list[int]] = defaultdict(list)
    uids = world.pods.keys() | memory.own.keys() | memory.adopted.keys()
    for uid in uids:
        pod = world.pods.get(uid)
        if pod is not None and pod.ended:
            continue
        free_to_run = pod is not None and not pod.gated
        seat = pod.seat if pod is not None and free_to_run else memory.adopted.get(uid)
        if seat is not None:
            taken[seat.job].append(seat.number)
        decided = memory.own.get(uid) or _seat(seats, seat)
        holding = _held(pod, decided, memory, world.now) if free_to_run else _reserved(decided)
        if holding is not None:
            held[uid] = replace(holding, owner=uid)
    for seat, decided in _left(seats, taken, world).items():
        held[seat] = decided.holding()
    return held


def with_claims(world: World, held: dict[Owner, Holding]) -> dict[Owner, Holding]:
    """And claims, whose cards are not charged to their pods as well."""
    charged: dict[Owner, Holding] = {}
    for owner, holding in held.items():
        given = {
            grant.uuid
            for claim in world.claims.values()
            for grant in claim.holdings[0].allocation[0]
            if owner in claim.pods and claim.holdings[0].host == holding.host
        }
        rest = [tuple(g for g in gs if g.uuid not in given) for gs in holding.allocation]
        if any(rest):
            charged[owner] = replace(holding, allocation=tuple(rest))
    return charged | {uid: claim.holdings[0] for uid, claim in world.claims.items()}


def _seat(seats: dict[Replica, Reservation], seat: Replica | None) -> Reservation | None:
    if seat is not None and seat.number == ANY:
        return next((seats[s] for s in sorted(seats) if s.job == seat.job), None)
    return None if seat is None else seats.get(seat)


def _reserved(decided: Reservation | None) -> Holding | None:
    return None if decided is None else decided.holding()


def _held(
    pod: ObservedPod, decided: Reservation | None, memory: Memory, now: float
) -> Holding | None:
    if not pod.node and decided is not None:
        return decided.holding()
    if pod.trouble and pod.uid in memory.last:
        last = memory.last[pod.uid]
        state = max(last.state, State.RUNNING if pod.started else State.BOUND)
        now_so = replace(last, state=state, deadline=None, init_done=pod.init_done)
        return now_so if last.host == pod.node else None
    told = any(pod.allocation) and not pod.trouble
    where = pod.placed_on if told else decided.host if decided else ""
    if not where or (pod.node and pod.node != where):
        return None
    if not pod.node and pod.placed_at + UNBOUND_FOR <= now:
        return None
    state = State.RESERVED if not pod.node else State.RUNNING if pod.started else State.BOUND
    return Holding(
        pod.uid,
        pod.namespace,
        where,
        pod.roles if told or decided is None else decided.wants.roles,
        pod.allocation if told or decided is None else decided.allocation,
        state,
        None if pod.node else pod.placed_at + UNBOUND_FOR,
        pod.mutex,
        pod.init_done,
    )


def _left(
    seats: dict[Replica, Reservation], taken: dict[str, list[int]], world: World
) -> dict[Replica, Reservation]:
    left: dict[Replica, Reservation] = {}
    for job in {seat.job for seat in seats}:
        mine = sorted(seat for seat in seats if seat.job == job)
        unmarked = taken[job].count(ANY)
        free = [s for s in mine if s.number not in taken[job] and seats[s].deadline > world.now][
            unmarked:
        ]
        live = unmarked + len({n for n in taken[job] if Replica(job, n) in seats})
        room = max(0, world.need.get(job, len(mine)) - live)
        left |= {seat: seats[seat] for seat in (free if job not in world.need else free[:room])}
    return left


def sums(holdings: Iterable[Holding]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """What is used of each card of each host, played moment by moment."""
    total: dict[tuple[str, str], tuple[int, int, int]] = {}
    for held in holdings:
        moments: list[list[Grant]] = []
        running: list[Grant] = []
        for role, grants in zip(held.roles, held.allocation, strict=True):
            if role is not Role.INIT:
                running = [*running, *grants]
            elif not held.init_done:
                moments.append([*running, *grants])
        moments.append(running)
        for uuid in {grant.uuid for moment in moments for grant in moment}:
            on = [[g for g in moment if g.uuid == uuid] for moment in moments]
            peak = (
                max(len(grants) for grants in on),
                max(sum(g.memory_mib for g in grants) for grants in on),
                max(sum(g.cores for g in grants) for grants in on),
            )
            before = total.get((held.host, uuid), (0, 0, 0))
            total[held.host, uuid] = tuple(map(sum, zip(before, peak, strict=True)))
    return total


class Walk:
    """One life. `step` does one thing at random; `ledger` has heard of it afterwards."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World()
        self.memory = Memory()
        self.ledger = self.rebuilt()
        self.history: list[ObservedPod] = []
        self.gone: set[str] = set()
        self.news: list[ObservedPod | str] = []
        self.names = 0
        self.log: list[str] = []

    def rebuilt(self) -> Ledger:
        """A ledger made anew of what is written, in another order."""
        world = self.world
        pods = list(world.pods.values())
        self.random.shuffle(pods)
        noted = list(world.seats.values())
        claims = world.claims.values()
        ledger = rebuild(world.hosts.values(), pods, noted, world.need, claims, now=world.now)
        for (host, card), why in world.fences.items():
            ledger.fence(host, why, card)
        return ledger

    def step(self) -> None:
        """One thing, or a few before anybody hears of it."""
        for _ in range(self.random.choice((1, 1, 1, 3))):
            things = [name for name in dir(self) if name.startswith("do_")]
            thing = self.random.choice(things)
            self.log.append(thing)
            getattr(self, thing)()
        self.hear()
        self.memory.adopted = {
            uid: seat
            for uid, seat in self.memory.adopted.items()
            if (self.world.seats | self.memory.seats)[seat].deadline > self.world.now
        }
        for own in [u for u, r in self.memory.own.items() if r.deadline <= self.world.now]:
            del self.memory.own[own]
        self.ledger.expire(self.world.now)
        self.keep_last()

    def keep_last(self) -> None:
        """Remember what pods had that cannot be read."""
        held = recount(self.world, self.memory)
        unread = [uid for uid, pod in self.world.pods.items() if pod.trouble and not pod.ended]
        self.memory.last = {uid: held[uid] for uid in unread if uid in held}

    def hear(self) -> None:
        """All news, shuffled, among old and doubled news."""
        told = [*self.news, *self.news[:2], *self.random.choices(self.history or [""], k=3)]
        self.news.clear()
        self.random.shuffle(told)
        for event in told:
            if isinstance(event, ObservedPod):
                self.ledger.observe(event)
            elif event:
                self.ledger.release(event)

    # What can be done

    def do_plan(self) -> None:
        """Seats for a gang, or one seat anew."""
        job, wants = self.name("job"), self.some_wants()
        if self.random.random() < 0.2 and self.world.seats:
            job = self.random.choice(sorted(self.world.seats)).job
        number, same = self.random.randint(1, 3), self.random.random() < 0.3
        deadline = self.world.now + self.random.choice((50, 400))
        places = [self.some_place(wants)] * number
        if not same:
            places = [self.some_place(wants) for _ in range(number)]
        first = self.random.choice((0, 0, 1))
        self.reserve(
            [
                Reservation(Replica(job, first + i), "team", host, wants, allocation, deadline)
                for i, (host, allocation) in enumerate(places)
            ]
        )

    def reserve(self, seats: list[Reservation]) -> None:
        """Nothing is given beyond what is there."""
        if not self.ledger.reserve(*seats):
            self.memory.seats |= {s.owner: s for s in seats if isinstance(s.owner, Replica)}
            for seat in seats:
                self.within(seat.host, seat.allocation)

    def within(self, host: str, allocation: Allocation) -> None:
        """The cards that were given have no more in use than they have."""
        use = self.ledger.use(host)
        assert use is not None
        cards = {card.uuid: card for card in use.host.cards}
        for grant in (grant for grants in allocation for grant in grants):
            card = cards[grant.uuid]
            slots, memory, cores = use.use(card.uuid).amount
            assert slots <= card.slots
            if card.mode == "mig":
                places = [set(range(s.start, s.start + s.size)) for s in use.use(card.uuid).slices]
                assert grant.slice is not None
                mine = set(range(grant.slice.start, grant.slice.start + grant.slice.size))
                assert sum(bool(place & mine) for place in places) == self.own(grant, allocation)
            else:
                assert memory <= card.memory_mib
                assert cores <= card.cores

    def own(self, grant: Grant, allocation: Allocation) -> int:
        """How many different places of the same pod there are at the place of a grant."""
        others = {g.slice for grants in allocation for g in grants if g.uuid == grant.uuid}
        at = [place for place in others if place and grant.slice]
        return sum(
            place.start < grant.slice.start + grant.slice.size
            and grant.slice.start < place.start + place.size
            for place in at
            if grant.slice
        )

    def do_note(self) -> None:
        """Write the seats of a job down."""
        for job in self.some({seat.job for seat in self.memory.seats}):
            for seat in [seat for seat in self.memory.seats if seat.job == job]:
                self.world.seats[seat] = self.memory.seats.pop(seat)

    def do_withdraw(self) -> None:
        """A job has no seats any more."""
        for job in self.some({s.job for s in self.world.seats | self.memory.seats}):
            for seats in (self.world.seats, self.memory.seats):
                for seat in [seat for seat in seats if seat.job == job]:
                    del seats[seat]
            self.world.need.pop(job, None)
            for uid in [u for u, s in self.memory.adopted.items() if s.job == job]:
                self.ledger.cancel(uid)
                del self.memory.adopted[uid]
            self.ledger.withdraw(job)

    def do_need(self) -> None:
        """A job needs fewer pods."""
        for job in self.some({seat.job for seat in self.world.seats}):
            most = sum(seat.job == job for seat in self.world.seats | self.memory.seats)
            self.world.need[job] = self.random.randint(0, self.world.need.get(job, most))
            self.ledger.need(job, self.world.need[job])

    def do_create_gated(self) -> None:
        """A pod is born with a gate, with any text on it."""
        for seat in self.some(self.world.seats):
            wants = self.world.seats[seat].wants
            lie = {} if self.random.random() < 0.8 else self.placement(wants)
            self.write(self.name("pod"), wants, gated=True, seat=Replica(seat.job, ANY), **lie)

    def do_create_pinned(self) -> None:
        """A pod of a job whose seats are all the same is born free to run."""
        for job in self.some({seat.job for seat in self.world.seats}):
            places = {(s.host, s.allocation) for r, s in self.world.seats.items() if r.job == job}
            if len(places) == 1 and not any(seat.job == job for seat in self.memory.seats):
                wants = self.world.seats[min(s for s in self.world.seats if s.job == job)].wants
                self.write(self.name("pod"), wants, seat=Replica(job, ANY))

    def do_adopt(self) -> None:
        """A gated pod is to have a seat of its job."""
        for uid in self.some(self.gated()):
            pod = self.world.pods[uid]
            seats = self.world.seats | self.memory.seats
            assert pod.seat is not None
            for seat in self.some(s for s in seats if s.job == pod.seat.job):
                if self.memory.adopted.get(uid) == seat:
                    assert self.ledger.adopt(seat, uid) == ""
                elif uid not in self.memory.own and not self.ledger.adopt(seat, uid):
                    self.memory.adopted[uid] = seat
                    self.within(seats[seat].host, seats[seat].allocation)

    def do_cancel(self) -> None:
        """A write failed."""
        for uid in self.some(self.memory.adopted.keys() | self.memory.own.keys()):
            self.memory.adopted.pop(uid, None)
            self.memory.own.pop(uid, None)
            self.ledger.cancel(uid)

    def do_pin(self) -> None:
        """A pod is told its seat, and loses its gate."""
        for uid in self.some(self.memory.adopted):
            seat = self.memory.adopted[uid]
            if seat in self.world.seats and uid in self.world.pods:
                del self.memory.adopted[uid]
                self.change(uid, gated=False, seat=seat)

    def do_decide_for_pod(self) -> None:
        """Cards for one gated pod, which are not noted on a job."""
        for uid in self.some(self.gated()):
            wants = self.world.wants[uid]
            host, allocation = self.some_place(wants)
            wanted = Reservation(uid, "team", host, wants, allocation, self.world.now + 100)
            if uid not in self.memory.adopted and not self.ledger.reserve(wanted):
                self.memory.own[uid] = wanted
                self.within(host, allocation)

    def do_pin_own(self) -> None:
        """That is written on the pod."""
        for uid in self.some(self.memory.own):
            own = self.memory.own[uid]
            if uid in self.world.pods:
                del self.memory.own[uid]
                at = self.world.now
                place = {"placed_on": own.host, "allocation": own.allocation, "placed_at": at}
                self.change(uid, gated=False, seat=None, **place)

    def do_place(self) -> None:
        """Another scheduler places a pod, or places it anew."""
        wants = self.some_wants()
        self.write(self.name("pod"), wants, **self.placement(wants))
        for uid in self.some(self.unbound()):
            if self.random.random() < 0.5:
                self.change(uid, **self.placement(self.world.wants[uid]))

    def do_bind(self) -> None:
        """A pod is bound, most often where it belongs."""
        for uid in self.some(self.unbound()):
            pod = self.world.pods[uid]
            seats = self.world.seats
            decided = _seat(seats, pod.seat)
            node = decided.host if decided else pod.placed_on
            if self.random.random() < 0.1:
                node = self.random.choice(HOSTS)
            if node:
                if decided is not None and len(decided.allocation) != len(pod.roles):
                    decided = None  # the seats of its job were decided anew, for other pods
                mine = {"placed_on": node, "allocation": decided.allocation} if decided else {}
                self.change(uid, node=node, **(mine if self.random.random() < 0.7 else {}))

    def do_progress(self) -> None:
        """Containers start, init containers end, or start again."""
        for uid in self.some(self.bound()):
            done = self.random.random() < 0.7
            self.change(uid, started=True, init_done=done)

    def do_garble(self) -> None:
        """An annotation is broken, or repaired."""
        for uid in self.some(self.bound()):
            pod = self.world.pods[uid]
            if pod.trouble:
                self.change(uid, trouble="")
            else:
                held = recount(self.world, self.memory)
                self.memory.last |= {uid: held[uid]} if uid in held else {}
                self.hear()
                self.change(uid, trouble="broken")
                self.hear()

    def do_end(self) -> None:
        """A pod ends well or not, or is deleted; some are deleted after they ended."""
        for uid in self.some(self.world.pods):
            if self.random.random() < 0.5:
                self.change(uid, ended=True)
            else:
                del self.world.pods[uid]
                self.gone.add(uid)
                self.news.append(uid)
            self.memory.adopted.pop(uid, None)
            self.memory.own.pop(uid, None)

    def do_claim(self) -> None:
        """A claim is allocated, for pods or for nobody, or is allocated no more."""
        if self.world.claims and self.random.random() < 0.5:
            for uid in self.some(self.world.claims):
                del self.world.claims[uid]
                self.ledger.claim(Claimed(uid, ()))
            return
        uid, pods = self.name("claim"), self.some(self.world.pods)
        host = self.random.choice(HOSTS[:2])
        grant = Grant(f"{host}-{self.random.randrange(3)}", "NVIDIA", 4096, 10)
        held = Holding(uid, "team", host, (Role.APP,), ((grant,),), State.BOUND)
        self.world.claims[uid] = Claimed(uid, tuple(pods), (held,))
        self.ledger.claim(self.world.claims[uid])

    def do_register(self) -> None:
        """A node registers other cards, or none, or those that it had at first."""
        name = self.random.choice(HOSTS)
        host = fresh_host(name)
        number = self.random.randrange(3)
        change: dict[str, Any] = self.random.choice(
            (
                {"memory_mib": 20000},
                {"healthy": False},
                {"cordoned": True},
                {"slots": 1},
                {"uuid": self.name("card")},
                {},
                {},
            )
        )
        cards = list(host.cards)
        cards[number] = replace(cards[number], **change)
        self.world.hosts[name] = host = replace(host, cards=tuple(cards))
        if self.random.random() < 0.1:
            del self.world.hosts[name]
            self.ledger.drop_host(name)
        else:
            self.ledger.set_host(host)

    def do_fence(self) -> None:
        """Somebody fences a host or a card, or lifts that."""
        host = self.random.choice(HOSTS)
        card = self.random.choice(("", f"{host}-0"))
        if self.world.fences.pop((host, card), None):
            self.ledger.unfence(host, card)
        elif self.random.random() < 0.3:
            self.world.fences[host, card] = "smoke"
            self.ledger.fence(host, "smoke", card)

    def do_wait(self) -> None:
        """Time passes."""
        self.world.now += self.random.choice((1, 60, 200))

    def do_list(self) -> None:
        """The list of pods is read again."""
        self.hear()
        for pod in self.world.pods.values():
            self.ledger.observe(pod)
        self.ledger.retain(self.world.pods.keys())

    def do_crash(self) -> None:
        """Everything in memory is gone."""
        if self.random.random() < 0.5:
            self.news.clear()
            self.memory = Memory()
            self.ledger = self.rebuilt()
            for uid in self.gone:
                self.ledger.release(uid)
            self.keep_last()

    # How it is done

    def name(self, what: str) -> str:
        self.names += 1
        return f"{what}-{self.names}"

    def some(self, of: Iterable[Any]) -> list[Any]:
        """One of them, or none if there is none."""
        found = sorted(of)
        return [self.random.choice(found)] if found else []

    def gated(self) -> list[str]:
        return [uid for uid, pod in self.world.pods.items() if pod.gated and not pod.ended]

    def unbound(self) -> list[str]:
        pods = self.world.pods.items()
        return [uid for uid, p in pods if not (p.gated or p.node or p.ended)]

    def bound(self) -> list[str]:
        return [uid for uid, pod in self.world.pods.items() if pod.node and not pod.ended]

    def write(self, uid: str, wants: PodWants, **fields: Any) -> None:
        """A pod is created."""
        self.world.wants[uid] = wants
        self.world.pods[uid] = ObservedPod(uid, "team", roles=wants.roles, mutex=wants.wishes.mutex)
        self.change(uid, **fields)

    def change(self, uid: str, **fields: Any) -> None:
        """A pod is changed."""
        self.world.version += 1
        pod = replace(self.world.pods[uid], version=self.world.version, **fields)
        if not pod.trouble:
            self.memory.last.pop(uid, None)
        self.world.pods[uid] = pod
        self.history.append(pod)
        self.news.append(pod)

    def some_wants(self) -> PodWants:
        """Init containers, sidecars and apps, with cards or without."""
        random = self.random
        roles = random.choices((Role.INIT, Role.SIDECAR), k=random.choice((0, 0, 1, 2)))
        roles += [Role.APP] * random.choice((1, 1, 2))
        containers = []
        for number, role in enumerate(roles):
            asked = CardWants(
                "NVIDIA",
                random.choice((1, 1, 1, 2)),
                random.choice((4864, 10000, 20096, 40960)),
                0,
                random.choice((0, 10, 30, 100)),
            )
            cards = (asked,) if random.random() < 0.8 or role is Role.APP else ()
            containers.append(ContainerWants(f"c{number}", role, cards))
        mutex = ("mutex",) if random.random() < 0.1 else ()
        return PodWants(tuple(containers), Wishes(policy=mutex))

    def some_place(self, wants: PodWants) -> tuple[str, Allocation]:
        """Cards that are free, or any."""
        host = self.random.choice(HOSTS)
        use = self.ledger.use(host)
        if use is not None and self.random.random() < 0.9:
            found = find(use, wants)
            if not isinstance(found, Misfit):
                return host, found
        uuids = [f"{host}-{number}" for number in range(4)]
        return host, tuple(
            tuple(
                Grant(uuid, "NVIDIA", asked.memory_mib, asked.cores)
                for asked in container.cards
                for uuid in self.random.sample(uuids, asked.cards)
            )
            for container in wants.containers
        )

    def placement(self, wants: PodWants) -> dict[str, Any]:
        """As it is written on a pod."""
        host, allocation = self.some_place(wants)
        return {"placed_on": host, "allocation": allocation, "placed_at": self.world.now}
