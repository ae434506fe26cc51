"""Who holds which cards: decisions that are not seen yet, and what the API server shows.

Everything counted follows from what was last heard: node registrations, seats that are noted on
Jobs, pods in their latest version, and decisions made here since. Therefore events may come twice,
late or in any order, and a ledger made anew from the same notes is equal to this one.
All calls return at once and change all or nothing: to ask and to commit is one step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from federation.core.devices.cards import Amount, Host, HostUse
from federation.core.devices.host.legality import check
from federation.core.devices.ledger.books import Books
from federation.core.devices.ledger.cards import Unnamed
from federation.core.devices.ledger.claims import Claimed, Claims
from federation.core.devices.ledger.deadlines import Deadlines
from federation.core.devices.ledger.entry import NOTHING, Entry, entry_of
from federation.core.devices.ledger.holding import Holding, Owner, Replica, Reservation, State
from federation.core.devices.ledger.observed import SKEW, UNBOUND_FOR, ObservedPod
from federation.core.devices.ledger.seats import Seats
from federation.core.devices.ledger.spaces import Limit, by_vendor

REMEMBERED: Final = 16_384
"""Pods that are gone and must not come back with a late event."""


class _Before(NamedTuple):
    """What was decided for an owner before it was decided anew."""

    owner: Owner
    decided: Reservation | Holding | None
    lapsed: bool


class Ledger:
    """See the module. Owners are pods by UID, and seats of Jobs."""

    def __init__(self) -> None:
        self._books = Books()
        self._seats = Seats()
        self._given = Claims()
        self._own: dict[str, Holding] = {}
        self._adopted: dict[str, Replica] = {}
        self._pods: dict[str, ObservedPod] = {}
        self._entries: dict[str, Entry] = {}
        self._gone: dict[str, None] = {}
        self._lapsed: dict[str, float] = {}
        self._deadlines = Deadlines()
        self._ahead: set[str] = set()
        self._now = 0.0

    # What there is

    def set_host(self, host: Host) -> None:
        """A node registers its cards, or registers them anew. Who holds cards keeps them."""
        self._books.register(host.name, host)

    def drop_host(self, name: str) -> None:
        """A node is gone. Pods that are still known to be there keep what they hold."""
        self._books.register(name, None)

    def fence(self, host: str, why: str, card: str = "", key: str = "") -> None:
        """Let nothing new to a host, or to one card of it, for a reason that `key` stands for."""
        self._books.fence(host, card, f"-{key}", why)

    def unfence(self, host: str, card: str = "", key: str = "") -> None:
        """Lift a fence."""
        self._books.fence(host, card, f"-{key}", "")

    def limit(self, namespace: str, source: str, limits: Mapping[str, Limit]) -> None:
        """What an object named `source` lets a namespace hold, by vendor; empty is no limit."""
        self._books.spaces.limit(namespace, source, limits)

    # Decisions

    def reserve(self, *reservations: Reservation) -> str:
        """Commit decisions, all or none: '' or why not. What an owner has reserved already, and
        is not seen on the API server, is replaced.
        """
        done: list[_Before] = []
        for wanted in reservations:
            before = self._before(wanted.owner)
            why = self._reserve(wanted)
            if why:
                for earlier in reversed(done):
                    self._restore(earlier)
                return why
            done.append(before)
        return ""

    def recall(self, seats: Iterable[Reservation]) -> None:
        """Seats as they are noted on a Job. They were legal when they were decided."""
        for seat in seats:
            self._decide(seat.owner, seat)

    def adopt(self, seat: Replica, pod: str) -> str:
        """A gated pod is to have a seat that is kept, if its cards are still sound and free: '' or
        why not. It holds them until the deadline, or as long as the pod is seen to have the seat.
        """
        if self._adopted.get(pod) == seat:
            return ""
        if pod in self._gone:
            return f"pod {pod} has ended"
        if pod in self._books.holdings:
            return f"pod {pod} has other cards already, on {self._books.holdings[pod].host}"
        kept, decided = self._books.holdings.get(seat), self._seats.get(seat)
        if kept is None or decided is None:
            return f"seat {seat} is not kept: reserve it again"
        self._books.put(seat, None)
        why = self._objection(decided)
        self._books.put(seat, kept)
        if not why:
            self._adopted[pod] = seat
            self._settle(pod)
        return why

    def obstacle(self, pod: str) -> str:
        """Why a pod that has a seat and is not bound cannot be bound to its cards now: others were
        given them meanwhile. '' if it can, or has no such seat.
        """
        held, seat = self._books.holdings.get(pod), self._seat_of(pod, self._pods.get(pod))
        decided = self._seats.get(seat) if seat is not None else None
        if held is None or decided is None or held.state is not State.RESERVED:
            return ""
        known = held.host in self._books.changed
        self._books.put(pod, None)
        use = self._books.use(decided.host)
        why = check(use, decided.wants, decided.allocation) if use else ""
        self._books.put(pod, held)
        if not known:  # it is as it was
            self._books.changed.discard(held.host)
        return why

    def cancel(self, owner: Owner) -> None:
        """Give back what was decided for an owner that may come again: a bind failed, say. What
        the API server shows of a pod stays counted.
        """
        if isinstance(owner, str):
            self._adopted.pop(owner, None)
        self._decide(owner, None)

    def need(self, job: str, pods: int) -> None:
        """How many pods of a Job hold cards at one time from now on: seats beyond are free."""
        self._seats.need(job, pods)
        self._settle_seats(self._seats.replicas(job)[:1])

    def withdraw(self, job: str) -> None:
        """A Job has no seats any more; its pods keep what they hold."""
        seats = self._seats.replicas(job)
        pods = {pod for seat in seats for pod in self._seats.pods(seat)}
        self._seats.forget(job)
        for seat in seats:
            self._put(seat, None)
        for pod in pods:
            self._settle(pod)

    # What is seen

    def observe(self, pod: ObservedPod) -> None:
        """A pod is as the API server shows it, unless a newer version was seen or it is gone."""
        known = self._pods.get(pod.uid)
        if pod.uid in self._gone or (known and 0 < pod.version <= known.version):
            return
        if pod.ended:
            self.release(pod.uid)
            return
        self._pods[pod.uid] = pod = pod.checked()
        if pod.placed_at > self._now + SKEW:
            self._ahead.add(pod.uid)
        if not pod.gated and (pod.noted() or (pod.seat and self._seats.get(pod.seat))):
            self._adopted.pop(pod.uid, None)
            self._own.pop(pod.uid, None)
        self._settle(pod.uid)

    def claim(self, claim: Claimed) -> None:
        """A ResourceClaim is as the API server shows it: what it was allocated counts until it is
        allocated no more, whatever becomes of its pods; on its cards they are not charged again.
        """
        before = self._given.put(claim)
        now = {held.owner: held for held in claim.owned()}
        for held in before.owned():
            if held.owner not in now:
                self._books.put(held.owner, None)
        for owner, held in now.items():
            self._books.put(owner, held)
        for pod in {*before.pods, *claim.pods} & self._entries.keys():
            self._put(pod, self._given.less(pod, self._entries[pod].holding))

    def release(self, pod: str) -> None:
        """A pod has ended or is gone, for good; known or not, however often it is said."""
        self._gone[pod] = None
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._pods.pop(pod, None)
        self._own.pop(pod, None)
        self._adopted.pop(pod, None)
        self._lapsed.pop(pod, None)
        self._settle(pod)

    def retain(self, pods: Collection[str]) -> None:
        """All pods there are, after a list: what was seen of others is released."""
        for uid in [uid for uid in self._pods if uid not in pods]:
            self.release(uid)

    def expire(self, now: float) -> tuple[Holding, ...]:
        """Give back what was kept for pods that did not come in time; what that was."""
        self._now = now
        self._look_ahead()
        lapsed = []
        for owner in self._deadlines.due(now):
            holding = self._books.holdings.get(owner)
            if holding is None or holding.deadline is None or not self._lapse(owner, holding):
                continue
            lapsed.append(holding)
        return tuple(lapsed)

    def overdue(self, now: float) -> tuple[Holding, ...]:
        """Our pods that could be bound at any time, and were not in time: delete them."""
        waiting = (h for h in self._books.holdings.values() if h.deadline is not None)
        return tuple(holding for holding in waiting if (holding.deadline or now) <= now)

    # What follows

    def use(self, host: str) -> HostUse | None:
        """A host and what is used of it; None if it is not registered. The value is kept until
        something changes.
        """
        return self._books.use(host)

    def hosts(self) -> list[str]:
        """Registered hosts, in order of name."""
        return self._books.hosts()

    def holding(self, owner: Owner) -> Holding | None:
        """What an owner holds."""
        return self._books.holdings.get(owner)

    def holdings(self) -> Iterable[Holding]:
        """All of them."""
        return self._books.holdings.values()

    def holders(self, host: str, uuid: str) -> Mapping[Owner, Holding]:
        """Who holds a card."""
        return self._books.holders(host, uuid)

    def nameless(self, host: str) -> Mapping[Owner, Unnamed]:
        """Pods that have cards of the host of which nobody has named which they are."""
        return self._books.nameless(host)

    def totals(self, namespace: str) -> dict[str, Amount]:
        """What a namespace holds, by vendor."""
        return self._books.spaces.totals(namespace)

    def changed(self) -> set[str]:
        """The hosts whose use may be another than at the last call; gone ones too."""
        changed, self._books.changed = self._books.changed, set()
        return changed

    # Inside

    def _reserve(self, wanted: Reservation) -> str:
        owner, new = wanted.owner, wanted.holding()
        held, before = self._books.holdings.get(owner), self._before(owner)
        if owner in self._gone:
            return f"pod {owner} has ended"
        if held is not None and (before.decided is None or held.state is not State.RESERVED):
            same = (held.host, held.allocation) == (new.host, new.allocation)
            return "" if same else f"pod {owner} has other cards already, on {held.host}"
        if isinstance(owner, Replica) and self._seats.takers(owner):
            return f"seat {owner} is taken by a pod"
        if held is None or replace(held, deadline=new.deadline) != new:
            self._decide(owner, None)
            why = self._objection(wanted)
            if why:
                self._restore(before)
                return why
        self._restore(_Before(owner, wanted, False))
        if owner not in self._books.holdings:
            self._restore(before)
            return f"seat {owner} is not needed: the job has as many pods as it may have"
        return ""

    def _before(self, owner: Owner) -> _Before:
        if isinstance(owner, Replica):
            return _Before(owner, self._seats.get(owner), self._seats.has_lapsed(owner))
        return _Before(owner, self._own.get(owner), False)

    def _restore(self, before: _Before) -> None:
        if isinstance(before.owner, Replica):
            self._seats.lapse(before.owner, before.lapsed)
        self._decide(before.owner, before.decided)

    def _objection(self, wanted: Reservation) -> str:
        use = self._books.use(wanted.host)
        if use is None:
            return f"host {wanted.host} is not registered"
        why = check(use, wanted.wants, wanted.allocation)
        if why:
            return why
        new = wanted.holding()
        totals = by_vendor(new, new.charge())
        return self._books.spaces.objection(wanted.namespace, totals)

    def _decide(self, owner: Owner, decided: Reservation | Holding | None) -> None:
        if isinstance(owner, Replica):
            assert not isinstance(decided, Holding)
            pods = self._seats.pods(owner)
            self._seats.put(owner, decided)
            self._settle_seats((owner,))
            for pod in pods:
                self._settle(pod)
            return
        if isinstance(decided, Reservation):
            decided = decided.holding()
        if decided is None:
            self._own.pop(owner, None)
        else:
            self._own[owner] = decided
        self._settle(owner)

    def _lapse(self, owner: Owner, holding: Holding) -> bool:
        """Whether what passed its deadline can be given back: not if the pod may be bound."""
        if isinstance(owner, Replica):
            self._seats.lapse(owner)
            self._settle_seats((owner,))
            return True
        pod = self._pods.get(owner)
        if pod is None or pod.gated:
            if owner in self._adopted:
                self._seats.lapse(self._adopted[owner])
            self.cancel(owner)
            return True
        if self._decided_for(owner, pod) is None and holding.deadline is not None:
            self._lapsed[owner] = holding.deadline
            self._settle(owner)
            return True
        return False

    def _look_ahead(self) -> None:
        """Who says that a pod was placed in the future would keep cards for ever."""
        for uid in self._ahead:
            pod = self._pods.get(uid)
            if pod is not None and pod.placed_at > self._now + SKEW:
                self._lapsed[uid] = pod.placed_at + UNBOUND_FOR
                self._settle(uid)
        self._ahead.clear()

    def _settle(self, uid: str) -> None:
        """Count what follows of a pod now, instead of what followed before."""
        new, old = self._entry(uid), self._entries.get(uid, NOTHING)
        if new == old:
            return
        if new == NOTHING:
            del self._entries[uid]
        else:
            self._entries[uid] = new
        self._put(uid, self._given.less(uid, new.holding))
        self._books.doubt(uid, old.doubt, new.doubt)
        self._books.unnamed(uid, old.unnamed, new.unnamed)
        if new.seat != old.seat:
            for seat, change in (old.seat, self._seats.leave), (new.seat, self._seats.take):
                if seat is not None:
                    change(uid, seat)
                    self._settle_seats((seat,))

    def _settle_seats(self, seats: Iterable[Replica]) -> None:
        for seat in seats:
            for replica, decided in self._seats.kept(seat).items():
                self._put(replica, None if decided is None else decided.holding())

    def _put(self, owner: Owner, holding: Holding | None) -> None:
        self._books.put(owner, holding)
        if holding is not None and holding.deadline is not None:
            self._deadlines.add(owner, holding.deadline)

    def _entry(self, uid: str) -> Entry:
        pod = self._pods.get(uid)
        decided = self._decided_for(uid, pod)
        if pod is None or pod.gated:
            return Entry(decided, self._adopted.get(uid))
        last, lapsed = self._entries.get(uid, NOTHING).holding, self._lapsed.get(uid)
        return entry_of(pod, self._seat_of(uid, pod), decided, last, lapsed)

    def _seat_of(self, uid: str, pod: ObservedPod | None) -> Replica | None:
        marked = pod.seat if pod and not pod.gated else None
        return marked or self._adopted.get(uid)

    def _decided_for(self, uid: str, pod: ObservedPod | None) -> Holding | None:
        own, seat = self._own.get(uid), self._seat_of(uid, pod)
        if own is not None or seat is None:
            return own
        decided = self._seats.get(seat)
        return None if decided is None else replace(decided, owner=uid).holding()
