"""The lease of a worker cluster as its agent holds it: until when what may run there.

Source: failover.md section 3.2 with the bindings of DESIGN section 5. Times are seconds on a clock
that goes on while the machine sleeps (CLOCK_BOOTTIME), as arguments. A value is never changed: what
happened to the lease makes the next one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from federation.core.failover import DEFAULT, LONGEST, OnDisconnect

NEVER = math.inf
SHORTEST_PERIOD = 0.2
ANSWERED = 0.25
"""A renewal counts if its answer came within this part of L_W. Who sees one, and hears later that
it counts, knows by that how old it was at most.
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the Lease says, in seconds: renew every `renew` (R), a renewal holds for `lease` (L_W; 0
    if it does not say so), and a `stop` job may take `kill` (K) to end.
    """

    renew: float = DEFAULT.renew
    lease: float = DEFAULT.lease
    kill: float = DEFAULT.kill


def terms(lease: object, renew: object, kill: object) -> Terms:
    """What was written there, within bounds. A lease that cannot be read is 0: nothing may run on a
    guess. A period that is too long for its lease is shortened.
    """
    held = min(_seconds(lease) or 0.0, LONGEST)
    longest = max(SHORTEST_PERIOD, held / 3) if held else DEFAULT.renew
    period = _seconds(renew) or min(DEFAULT.renew, held / 6 or DEFAULT.renew)
    kills = _seconds(kill)
    return Terms(
        renew=min(max(period, SHORTEST_PERIOD), longest),
        lease=held,
        kill=DEFAULT.kill if kills is None else min(kills, LONGEST),
    )


def _seconds(written: object) -> float | None:
    """A number of seconds that makes sense; None if it does not."""
    try:
        number = float(written) if isinstance(written, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


@dataclass(frozen=True, slots=True)
class Tenure:
    """What the last successful renewal in an epoch gave: it was sent after `renewed`, and holds
    until `deadline`. `mark` is its renewTime as it was written ('': not known), `breaks` how often
    the lease of this cluster may have ended before it (0: not known).
    """

    epoch: int
    renewed: float
    deadline: float
    mark: str = ""
    breaks: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """`epoch` is that of this cluster, 0 while it is not known; `seen` the highest that was read
    from the Lease: if that is higher, the manager has fenced `epoch`.

    `tenure` is None while it is not known when the lease ends: after a start that has found no note
    of it. Then nothing new is started, and what runs goes on until a renewal has `failed`, or shows
    that its epoch is over. `before` is the tenure in the epoch before this one: copies of that one
    may go on until it ends, so that there is time to adopt them.
    """

    epoch: int = 0
    tenure: Tenure | None = None
    before: Tenure | None = None
    seen: int = 0
    failed: bool = False
    terms: Terms = Terms()

    # What happened

    def renewal(
        self, sent: float, epoch: int, given: Terms, mark: str = "", breaks: int = 0
    ) -> Lease:
        """A renewal that was sent after `sent` succeeded, in this epoch or a higher one; `mark` and
        `breaks` as in Tenure.
        """
        if epoch < self.epoch:
            raise ValueError(f"epoch {epoch} is over: this cluster is in epoch {self.epoch}")
        before = self.tenure if epoch > self.epoch else self.before
        tenure = Tenure(epoch, sent, sent + given.lease, mark, breaks)
        return Lease(epoch, tenure, before, max(self.seen, epoch), failed=False, terms=given)

    def living_under(self, breaks: int) -> Lease:
        """What is started now lives under an earlier lease: guards have not heard of this one."""
        assert self.tenure is not None
        return replace(self, tenure=replace(self.tenure, breaks=breaks))

    def fenced(self, epoch: int) -> Lease:
        """The Lease is in a higher epoch: the deadline stays that of the last renewal."""
        return replace(self, seen=max(self.seen, epoch))

    def failure(self) -> Lease:
        """A renewal failed, or nobody knows whether it did: nothing is extended."""
        return replace(self, failed=True)

    # What follows

    @property
    def deadline(self) -> float | None:
        """When the lease ends; None if that is not known."""
        return self.tenure.deadline if self.tenure else None

    @property
    def breaks(self) -> int:
        """How often the lease may have ended by which what is started now lives; 0 if that is not
        known.
        """
        return self.tenure.breaks if self.tenure else 0

    def unbroken(self, now: float) -> Tenure | None:
        """The last successful renewal if it still holds, in whatever epoch: what is sent now goes
        on from it. None if what ran may have been stopped.
        """
        return self.tenure if self.tenure is not None and now < self.tenure.deadline else None

    def in_time(self, sent: float, answered: float, given: Terms) -> bool:
        """Whether the answer to a renewal that was sent after `sent` came soon enough to count: not
        after the end of the lease that it was to extend, for then what ran was stopped.
        """
        before = self.unbroken(sent)
        if before is not None and answered >= before.deadline:
            return False
        return not given.lease or answered - sent <= given.lease * ANSWERED

    def holds(self, now: float) -> bool:
        """Whether new work may be started in this epoch."""
        return self.tenure is not None and now < self.tenure.deadline and self.seen <= self.epoch

    def may_start(self, epoch: int, now: float) -> bool:
        """Whether a copy that was offered or adopted in an epoch may be started, or go on. One of a
        higher epoch than this cluster is in tells of a fence that has yet to be heard of.
        """
        return self.holds(now) and epoch == self.epoch

    def limit(self, policy: OnDisconnect, rerun_after: float | None, epoch: int) -> float:
        """When a copy that runs has to be stopped: NEVER if the end of the lease is nothing to it,
        -NEVER if it is late already.

        `rerun_after` (seconds) counts for `keep` only. It never ends before the lease does: the
        manager does not re-run anything of a cluster that it has not fenced.
        """
        if policy is OnDisconnect.DUPLICATE_OK:
            return NEVER
        if policy is OnDisconnect.KEEP and rerun_after is None:
            return NEVER
        tenure = self._tenure(epoch)
        if tenure is None:
            waits = epoch >= max(self.epoch, self.seen) and not self.failed
            return NEVER if waits else -NEVER
        if policy is OnDisconnect.KEEP and rerun_after is not None:
            return max(tenure.deadline, tenure.renewed + rerun_after)
        return tenure.deadline

    def must_stop(
        self, policy: OnDisconnect, rerun_after: float | None, epoch: int, now: float
    ) -> bool:
        """Whether a copy that runs has to be stopped now."""
        return now >= self.limit(policy, rerun_after, epoch)

    def next_due(self, now: float) -> float:
        """When to renew next: at once if that is not known."""
        return self.tenure.renewed + self.terms.renew if self.tenure else now

    def _tenure(self, epoch: int) -> Tenure | None:
        if epoch >= self.epoch:
            return self.tenure
        return self.before if self.before and self.before.epoch == epoch else None


def unlimited(epoch: int) -> Lease:
    """A lease that does not end: of a cluster that nobody fences."""
    return Lease(epoch, Tenure(epoch, 0.0, NEVER), seen=epoch)
