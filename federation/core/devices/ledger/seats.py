"""Seats of Jobs: which of them are kept for pods that are yet to come.

A seat is kept if no pod has it, its deadline has not passed, and the Job still needs so many pods.
That depends on nothing but what is noted on Jobs and pods, in whatever order it was heard.
"""

from __future__ import annotations

from federation.core.devices.ledger.holding import Replica, Reservation

ANY = -1
"""Number of the seat of a pod that is not told which it has."""


class Seats:
    """Seats by Job, and the pods that have them."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def get(self, seat: Replica) -> Reservation | None:
        """What was decided for the seat, kept or not. `ANY` has what the first has: where pods
        are not told their seats, all are the same.
        """
        job = self._jobs.get(seat.job)
        if job is None or not job.known:
            return None
        return job.known.get(min(job.known) if seat.number == ANY else seat.number)

    def takers(self, seat: Replica) -> frozenset[str]:
        """The pods that have the seat."""
        job = self._jobs.get(seat.job)
        return frozenset(job.takers.get(seat.number, ()) if job else ())

    def pods(self, seat: Replica) -> frozenset[str]:
        """The pods that may have the seat."""
        job = self._jobs.get(seat.job)
        return self.takers(seat).union(job.takers.get(ANY, ()) if job else ())

    def replicas(self, job: str) -> list[Replica]:
        """All seats of a Job."""
        found = self._jobs.get(job)
        return [Replica(job, number) for number in found.known] if found else []

    def put(self, seat: Replica, decided: Reservation | None) -> None:
        """Make a seat known, change it, or forget it."""
        job = self._job(seat.job)
        if decided is not None:
            job.known[seat.number] = decided
        else:
            job.known.pop(seat.number, None)

    def need(self, job: str, pods: int) -> None:
        """How many pods of a Job will hold cards at one time from now on."""
        if job in self._jobs:
            self._jobs[job].need = pods

    def has_lapsed(self, seat: Replica) -> bool:
        """Whether its deadline has passed."""
        return seat.job in self._jobs and seat.number in self._jobs[seat.job].lapsed

    def lapse(self, seat: Replica, lapsed: bool = True) -> None:
        """Its deadline has passed, or is another now."""
        if lapsed:
            self._job(seat.job).lapsed.add(seat.number)
        else:
            self._job(seat.job).lapsed.discard(seat.number)

    def forget(self, job: str) -> None:
        """The Job has no seats any more."""
        if job in self._jobs:
            takers = self._jobs.pop(job).takers
            if takers:
                self._jobs[job] = _Job(takers)

    def take(self, pod: str, seat: Replica) -> None:
        """A pod has a seat, or `ANY` of its Job's."""
        self._job(seat.job).takers.setdefault(seat.number, set()).add(pod)

    def leave(self, pod: str, seat: Replica) -> None:
        """The opposite of `take`."""
        job = self._jobs[seat.job]
        job.takers[seat.number].discard(pod)
        if not job.takers[seat.number]:
            del job.takers[seat.number]
        if not job.takers and not job.known:
            del self._jobs[seat.job]

    def kept(self, seat: Replica) -> dict[Replica, Reservation | None]:
        """What is held for pods to come, of a seat that has changed and of all others of which it
        is not what it was.
        """
        job = self._jobs.get(seat.job)
        if job is None:
            return {seat: None}
        return {
            Replica(seat.job, number): job.known[number] if number in job.kept else None
            for number in {*job.choose(seat.number), seat.number}
            if number != ANY
        }

    def _job(self, uid: str) -> _Job:
        job = self._jobs.get(uid)
        if job is None:
            job = self._jobs[uid] = _Job({})
        return job


class _Job:
    """Pods by the number of their seat, seats by number, and which of them are kept."""

    def __init__(self, takers: dict[int, set[str]]) -> None:
        self.takers = takers
        self.known: dict[int, Reservation] = {}
        self.lapsed: set[int] = set()
        self.need: int | None = None
        self.kept: set[int] = set()
        self._all = True

    def choose(self, changed: int) -> set[int]:
        """Choose which to keep after a seat has changed; the seats for which that is new.

        Where all that are free are kept, before and after, the others need no look.
        """
        all_before = self._all
        self._all = ANY not in self.takers and (self.need is None or self.need >= len(self.known))
        if self._all and all_before and changed != ANY:
            now = {changed} if changed in self.known and self._is_free(changed) else set()
            new = self.kept & {changed} ^ now
            self.kept ^= new
            return new
        chosen = self._first()
        new = self.kept ^ chosen
        self.kept = chosen
        return new

    def _first(self) -> set[int]:
        """The first seats that are free, less those that pods without a mark have."""
        unmarked = len(self.takers.get(ANY, ()))
        free = sorted(number for number in self.known if self._is_free(number))[unmarked:]
        if self.need is None:
            return set(free)
        live = unmarked + len(self.known.keys() & self.takers.keys())
        return set(free[: max(0, self.need - live)])

    def _is_free(self, number: int) -> bool:
        return number not in self.takers and number not in self.lapsed
