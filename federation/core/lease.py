"""What the Lease of a cluster tells of its agent, counted on the clock of whoever watches it.

A renewal counts from the moment in which it was seen here, never from the time that its writer put
into it (failover.md section 3.2). All times are seconds on a clock of the watcher that never jumps.
Where it is not known what happened meanwhile, the longer wait is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum

from federation.core.failover import Timings
from federation.core.holding import ANSWERED
from federation.core.renewals import Renewal, Renewals

STEADY = 3.0
"""A cluster that was well for so many times the time to recover is no flapping one."""


class Cause(StrEnum):
    """Why a Lease was fenced (value of `fedq.io/fence-cause`)."""

    SILENT = "silent"
    """No renewal was seen for L_W(1+r)/(1-r): the agent's deadline had passed."""
    LEFT = "left"
    """The cluster was taken out of the federation while jobs were bound there."""
    CONFIRMED = "confirmed"
    """Somebody confirmed that nothing of it runs."""
    EPOCH_LOST = "epoch-lost"
    """The Lease was deleted or its epoch lowered: it begins again above all that is known."""
    REPLACED = "replaced"
    """Another physical cluster has the name now."""


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A Lease as it was read. `epoch` is 0 if it has none that can be read, `renewed` the text of
    its renewTime, which is only ever compared. `lease`, `renew` and `kill` are the seconds that the
    agent goes by; `lowered_from` is what `lease` was before the settings were changed, as long as
    no renewal under the new value was seen (0: not changed). `fenced_version` is the version that a
    fence was put in the place of. `identity` is that of the physical cluster that the epoch is of
    ('': not known), `own_since` the first epoch of it (0: all are, as far as is known). `known` is
    the renewTime of the last renewal that the agent knew of as it made this one ('': none that
    still held, None: it does not tell), `breaks` how often its lease may have ended by then (0: it
    does not tell). All that was bound below the epoch `confirmed_below` was confirmed to be dead.
    """

    version: int
    epoch: int = 1
    fenced: bool = False
    holder: str = ""
    renewed: str = ""
    lease: float = 0.0
    renew: float = 0.0
    kill: float = 0.0
    lowered_from: float = 0.0
    cause: str = ""
    fenced_version: int = 0
    identity: str = ""
    own_since: int = 0
    known: str | None = None
    breaks: int = 0
    confirmed_below: int = 0

    @property
    def held(self) -> bool:
        """Whether an agent has it."""
        return bool(self.renewed) and not self.fenced


@dataclass(frozen=True, slots=True)
class Watch:
    """What is remembered of the Lease of one cluster.

    `renewed_at` is when the last renewal was seen (None: never one), `counted_from` when the last
    write was seen that may have been one: no deadline of the agent is based on anything later.
    `well_since` is when renewals came again after trouble, `flapping` whether that came soon after
    trouble before. `lease` and `renew` are what the agent went by at its last renewal. At `gone_at`
    whatever was bound below the epoch of the Lease, with policy `stop`, is stopped for certain;
    `stopped_below` is up to where that was found to be past. No deadline below that epoch is based
    on anything later than `over_at`. `lapsed_at` is when the first renewal after a lease that may
    have ended was seen, `proven` whether the last renewal was seen to come: the first reading of a
    Lease may be of any age. `renewals` are those that count for what may have been stopped.
    """

    seen: LeaseSeen | None = None
    highest: int = 0
    renewed_at: float | None = None
    counted_from: float = -math.inf
    well_since: float = -math.inf
    flapping: bool = False
    lease: float = 0.0
    renew: float = 0.0
    gone_at: float = math.inf
    stopped_below: int = 0
    over_at: float = math.inf
    lapsed_at: float = -math.inf
    proven: bool = False
    renewals: Renewals = field(default_factory=Renewals)

    def well_at(self, timings: Timings) -> float:
        """From when on it may get new work: at once if it had been well for long (STEADY) before
        it fell silent, else when it has renewed for a while.
        """
        return self.well_since + (timings.recover if self.flapping else 0.0)

    @property
    def unheard(self) -> bool:
        """Whether an agent has the Lease, and it is not known how old the renewal is that it goes
        by.
        """
        if self.seen is None or not self.seen.held:
            return False
        known = self.renewals.known
        return not (self.proven if known is None else known.came)

    def unrenewed(self, now: float) -> float:
        """For how long no renewal was seen of which the agent is known to have the answer; of any,
        if it does not tell.
        """
        known = self.renewals.known
        return self.silent(now) if known is None else max(0.0, now - known.at)

    def lapse_s(self, timings: Timings) -> float:
        """When the agent's deadline may be past, in seconds of `unrenewed`: L_W, less what the
        renewal may have taken to come here. If the agent does not tell which ones count, that is a
        period, and it is no sooner than when it is suspect.
        """
        known = self.renewals.known
        if known is not None:
            return min(timings.lease, known.lease or timings.lease) * (1 - ANSWERED)
        told = self.seen.lease if self.seen else 0.0
        lease = min(timings.lease, told or timings.lease)
        return max(self.suspect_s(timings), lease - max(timings.renew, self.renew))

    def lapsed(self, now: float, timings: Timings) -> bool:
        """Whether the lease of what runs there may have ended."""
        return self.renewed_at is not None and self.unrenewed(now) >= self.lapse_s(timings)

    def lately(self, timings: Timings) -> bool:
        """Whether it had until a while ago: what that did has yet to be heard of. What is told to
        end may take K for it.
        """
        if self.renewed_at is None:
            return False
        return self.renewed_at - self.lapsed_at < max(timings.recover, self.kill_s(timings))

    def lease_s(self, timings: Timings) -> float:
        """L_W of the last renewal, or the configured one if that is longer."""
        return max(timings.lease, self.lease)

    def suspect_s(self, timings: Timings) -> float:
        """T_s, stretched while the agent still renews at a longer period than is configured."""
        stretch = max(1.0, self.renew / timings.renew)
        return min(timings.suspect * stretch, max(timings.suspect, self.lease_s(timings)))

    def fence_s(self, timings: Timings) -> float:
        """The earliest fence, in seconds after the last renewal."""
        return self.lease_s(timings) * timings.skew

    def gone_s(self, timings: Timings) -> float:
        """When all is stopped, in seconds after the last renewal: L_M, or the bound if longer."""
        timed = replace(timings, kill=self.kill_s(timings))
        return max(timings.rerun, timed.bound(self.lease_s(timings)))

    def kill_s(self, timings: Timings) -> float:
        """K as it is told on the Lease, or the configured one if that is longer."""
        return max(timings.kill, self.seen.kill if self.seen else 0.0)

    def silent(self, now: float) -> float:
        """For how long no renewal was seen."""
        since = self.counted_from if self.renewed_at is None else self.renewed_at
        return max(0.0, now - since) if math.isfinite(since) else 0.0


def observe(
    watch: Watch,
    seen: LeaseSeen,
    now: float,
    timings: Timings,
    *,
    own: bool = False,
    blind: bool = False,
) -> Watch:
    """Take in the Lease as it is at `now`; `own` if it is the answer to a write of our own, `blind`
    if what is seen may be old.

    An older version than the one known is passed over: watches lag behind answers.
    """
    old = watch.seen
    if old is not None and seen.version <= old.version:
        return watch
    seen = replace(seen, epoch=seen.epoch or (old.epoch if old else 0) or watch.highest or 1)
    next_ = replace(watch, seen=seen, highest=max(watch.highest, seen.epoch))
    if seen.fenced:
        return _fenced(watch, next_, now, timings)
    if seen.held:
        came = old is not None and not blind
        next_ = _held(watch, next_, now, timings, own=own, came=came)
    elif old is None or not own:  # what took it from an agent may have hidden a renewal
        next_ = replace(next_, counted_from=now, lease=_longest(watch, seen))
    if seen.epoch == 1 and watch.highest <= 1:
        return replace(next_, gone_at=-math.inf, stopped_below=1)  # nothing was ever below
    if old is None or seen.epoch != old.epoch:
        longest = replace(next_, lease=max(next_.lease, watch.lease))
        return _over(watch, replace(next_, gone_at=now + longest.gone_s(timings)), now)
    return next_


def _held(old: Watch, new: Watch, now: float, timings: Timings, *, own: bool, came: bool) -> Watch:
    """An agent has it. What changed a Lease without a renewal may have hidden one, unless it was
    our own write; it puts the fence off, but is no sign of life.
    """
    seen, before = new.seen, old.seen
    assert seen is not None
    renewal = before is None or not before.held or before.epoch != seen.epoch
    if before is not None and not renewal:
        renewal = (before.holder, before.renewed) != (seen.holder, seen.renewed)
    if not own:
        new = replace(new, counted_from=now, lease=_under(old, seen, renewal=renewal))
    if renewal:
        new = replace(new, renew=seen.renew)
    if not renewal or own:
        return new
    gap = before is not None and old.renewed_at is not None
    gap = gap and old.silent(now) >= old.suspect_s(timings)
    troubled = gap or (before is not None and before.fenced)
    if troubled:
        was_well = math.inf if old.renewed_at is None else old.renewed_at - old.well_since
        new = replace(new, well_since=now, flapping=was_well < STEADY * timings.recover)
    lapsed = gap and old.unrenewed(now) >= old.lapse_s(timings)
    if before is not None and before.breaks and seen.breaks:
        lapsed = before.breaks != seen.breaks
    renewals = old.renewals.seen(Renewal(seen.renewed, now, seen.lease, came), seen.known)
    new = replace(new, renewals=renewals, proven=came)
    return replace(new, lapsed_at=now if lapsed else old.lapsed_at, renewed_at=now)


def _fenced(old: Watch, new: Watch, now: float, timings: Timings) -> Watch:
    """It is fenced. Who saw the very version that the fence replaced knows that no renewal came in
    between, and counts from the last one; who did not, counts from now, less what the fence is
    known to have waited.
    """
    seen, before = new.seen, old.seen
    assert seen is not None
    if before is not None and before.fenced and before.epoch == seen.epoch:
        return new
    known = before is not None and before.held and seen.fenced_version == before.version
    if not known:
        if before is None:
            new = replace(new, lease=_longest(old, seen))
        waited = new.fence_s(timings) if seen.cause == Cause.SILENT else 0.0
        new = replace(new, counted_from=max(old.counted_from, now - waited))
    last = new.counted_from
    return _over(old, replace(new, gone_at=last + new.gone_s(timings)), last)


def _under(old: Watch, seen: LeaseSeen, *, renewal: bool) -> float:
    """The lease that the last renewal was made under, or a longer one: if the settings may have
    been changed after it, that is not known.
    """
    before = old.seen
    changed = before is None or (before.lease, before.lowered_from) != (
        seen.lease,
        seen.lowered_from,
    )
    if renewal and before is not None and not (changed and seen.lowered_from):
        return seen.lease
    return _longest(old, seen)


def _longest(old: Watch, seen: LeaseSeen) -> float:
    """The longest lease that a renewal before this one may have been made under."""
    return max(old.lease, seen.lease, seen.lowered_from)


def _over(old: Watch, new: Watch, over_at: float) -> Watch:
    """An epoch is over since then. What was bound before an earlier fence may have longer still."""
    gone_at = max(old.gone_at, new.gone_at) if math.isfinite(old.gone_at) else new.gone_at
    over_at = max(old.over_at, over_at) if math.isfinite(old.over_at) else over_at
    return replace(new, gone_at=gone_at, over_at=over_at)


def vanished(watch: Watch, now: float) -> Watch:
    """The Lease was deleted: the agent may have renewed it until this moment."""
    if watch.seen is None:
        return watch
    return replace(watch, seen=None, counted_from=now, gone_at=math.inf)


def unsettled(watch: Watch) -> Watch:
    """The cluster was in trouble when a manager last looked: it has to prove itself again."""
    if watch.renewed_at is None:
        return watch
    well_since = max(watch.well_since, watch.renewed_at)
    return replace(watch, well_since=well_since, flapping=True)
