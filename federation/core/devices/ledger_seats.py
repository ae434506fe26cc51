"""Seats of Jobs: which of them are kept for pods that are yet to come.

A seat is kept if no pod has it, its deadline has not passed, and the Job still needs so many pods.
That depends on nothing but what is noted on Jobs and pods, in whatever order it was heard.
"""

from __future__ import annotations

from typing import TypeVar

from federation.core.devices.holding import Replica, Reservation

Key = TypeVar("Key")

ANY = -1
"""Number of the seat of a pod that is not told which it has."""


class Seats:
    """Seats by Job, and the pods that have them."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, Reservation]] = {}
        self._takers: dict[Replica, set[str]] = {}
        self._unmarked: dict[str, set[str]] = {}
        self._need: dict[str, int] = {}
        self._lapsed: set[Replica] = set()

    def get(self, replica: Replica) -> Reservation | None:
        """What was decided for the seat, kept or not. `ANY` has what the first has: where pods
        are not told their seats, all are the same.
        """
        seats = self._known.get(replica.job, {})
        return seats[min(seats)] if seats and replica.number == ANY else seats.get(replica.number)

    def takers(self, replica: Replica) -> frozenset[str]:
        """The pods that have the seat."""
        return frozenset(self._takers.get(replica, ()))

    def put(self, replica: Replica, decided: Reservation | None) -> None:
        """Make a seat known, change it, or forget it."""
        seats = self._known.setdefault(replica.job, {})
        if decided is not None:
            seats[replica.number] = decided
        else:
            seats.pop(replica.number, None)
        if not seats:
            del self._known[replica.job]

    def need(self, job: str, pods: int) -> None:
        """How many pods of a Job will hold cards at one time from now on."""
        if job in self._known:
            self._need[job] = pods

    def has_lapsed(self, replica: Replica) -> bool:
        """Whether its deadline has passed."""
        return replica in self._lapsed

    def lapse(self, replica: Replica, lapsed: bool = True) -> None:
        """Its deadline has passed, or is another now."""
        if lapsed:
            self._lapsed.add(replica)
        else:
            self._lapsed.discard(replica)

    def forget(self, job: str) -> None:
        """The Job has no seats any more."""
        self._lapsed.difference_update(self.replicas(job))
        self._known.pop(job, None)
        self._need.pop(job, None)

    def take(self, pod: str, seat: Replica) -> None:
        """A pod has a seat, or `ANY` of its Job's."""
        if seat.number == ANY:
            self._unmarked.setdefault(seat.job, set()).add(pod)
        else:
            self._takers.setdefault(seat, set()).add(pod)

    def leave(self, pod: str, seat: Replica) -> None:
        """The opposite of `take`."""
        if seat.number == ANY:
            _discard(self._unmarked, seat.job, pod)
        else:
            _discard(self._takers, seat, pod)

    def replicas(self, job: str) -> list[Replica]:
        """All seats of a Job."""
        return [Replica(job, number) for number in self._known.get(job, ())]

    def pods(self, replica: Replica) -> frozenset[str]:
        """The pods that may have the seat."""
        return self.takers(replica).union(self._unmarked.get(replica.job, ()))

    def kept(self, replica: Replica) -> dict[Replica, Reservation | None]:
        """What is held for pods to come, of a seat and of all others that hang on whether it is
        taken.
        """
        job = replica.job
        if replica.number != ANY and job not in self._need and job not in self._unmarked:
            return {replica: self.get(replica) if self._is_free(replica) else None}
        chosen = self._chosen(job)
        known = self._known.get(job, {})
        found: dict[Replica, Reservation | None] = {
            Replica(job, number): decided if number in chosen else None
            for number, decided in known.items()
        }
        return found if replica.number == ANY else {replica: None, **found}

    def _chosen(self, job: str) -> frozenset[int]:
        """The first seats that are free, less those that pods without a mark have."""
        seats = self.replicas(job)
        unmarked = len(self._unmarked.get(job, ()))
        live = unmarked + sum(seat in self._takers for seat in seats)
        free = sorted(seat.number for seat in seats if self._is_free(seat))[unmarked:]
        need = self._need.get(job)
        return frozenset(free if need is None else free[: max(0, need - live)])

    def _is_free(self, seat: Replica) -> bool:
        return seat not in self._takers and seat not in self._lapsed


def _discard(sets: dict[Key, set[str]], key: Key, member: str) -> None:
    sets[key].discard(member)
    if not sets[key]:
        del sets[key]
