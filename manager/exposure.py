"""Which offers are open to each cluster, and since when: see `federation.core.exposure`.

What is open follows from the states of the jobs alone, so that none can be forgotten; only the
times are remembered here. They are counted on the clock of the event loop, which never jumps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from federation.core.exposure import LIMITS, Exposure, OfferLimits, offered_to, replied
from federation.core.facts import JobState


class OpenOffers:
    """Those to one cluster. `sent` is told when one leaves, `busy` when any command does."""

    def __init__(self, limits: OfferLimits = LIMITS) -> None:
        self._limits = limits
        self._open: dict[str, float | None] = {}
        self._answers: deque[float] = deque()
        self._missed = False
        self._busy: dict[int, float] = {}
        self._flights = 0

    @property
    def patience(self) -> float:
        """For how long a command may be unanswered, in seconds."""
        return self._limits.patience

    def now(self) -> Exposure:
        """How it stands."""
        now = _now()
        while self._answers and now - self._answers[0] > self._limits.patience:
            self._answers.popleft()
        since = [at for at in (*self._open.values(), *self._busy.values()) if at is not None]
        waited = now - min(since, default=now)
        return Exposure(len(self._open), waited, len(self._answers), self._missed)

    def opened(self, uid: str, *, made: bool) -> None:
        """A job waits for an answer; `made` if the offer is there for certain."""
        known = self._open.get(uid)
        self._open[uid] = _now() if made and known is None else known

    def closed(self, uid: str, *, replied: bool) -> None:
        """It does not wait any more. What was not sent is no sign of anything."""
        sent = self._open.pop(uid, None)
        if sent is None:
            return
        if replied:
            self._missed = False
            self._answers.append(_now())
        elif _now() - sent >= self._limits.patience:
            self._missed = True

    def sent(self, uid: str) -> None:
        """Its offer is sent, be it again."""
        if uid in self._open and self._open[uid] is None:
            self._open[uid] = _now()

    def not_made(self, uid: str, *, unsent: bool) -> None:
        """Its offer is not there: the API server has answered so, or was not reached (`unsent`)."""
        if uid in self._open:
            self._open[uid] = None
        self._missed = self._missed or unsent

    def departs(self) -> int:
        """Commands are sent; returns what `arrives` takes."""
        self._flights += 1
        self._busy[self._flights] = _now()
        return self._flights

    def arrives(self, flight: int) -> None:
        """All of them have ended."""
        self._busy.pop(flight, None)


class Exposures:
    """The open offers of all clusters. `on_room` hears that a cluster takes offers again that did
    not.
    """

    def __init__(self, limits: OfferLimits = LIMITS) -> None:
        self.limits = limits
        self.on_room: Callable[[], None] = lambda: None
        self._clusters: dict[str, OpenOffers] = {}

    def of(self, cluster: str) -> OpenOffers:
        """Those to one cluster."""
        if cluster not in self._clusters:
            self._clusters[cluster] = OpenOffers(self.limits)
        return self._clusters[cluster]

    def moved(self, uid: str, before: JobState, after: JobState) -> None:
        """A job changed."""
        same = before.record is after.record and before.remotes is after.remotes
        if same and before.choice is after.choice:
            return
        was, now = offered_to(before), offered_to(after)
        if was and was != now:
            offers = self.of(was)
            full = not offers.now().room(self.limits)
            offers.closed(uid, replied=replied(after, was))
            if full and offers.now().room(self.limits):
                self.on_room()
        if now:
            self.of(now).opened(uid, made=now in after.remotes and after.choice is None)


def _now() -> float:
    return asyncio.get_running_loop().time()
