"""For how long a job has run: time in which its copy stood still does not count for its limit.

A copy is held when the lease of its cluster ends, which a manager hears of when that is back. Until
then it is not known how long it ran, so no limit of time passes; an eviction that waits for no news
counts until the end of the lease. All is judged by durations: clocks of workers are other clocks.
"""

from __future__ import annotations

from federation.core import doubt
from federation.core.facts import JobState, Record
from federation.core.failover import OnDisconnect, Timings
from federation.core.loss import standing_of


def unsure(state: JobState, record: Record, timings: Timings) -> bool:
    """Whether a job stands still, or may, for all that is known."""
    bound, copy = record.binding, state.remote
    if bound is None:
        return False
    if copy is None:
        return doubt.stops(bound)
    if copy.gone or copy.finished:
        return False
    return bool(copy.held) or doubt.may_stand_still(state, copy, timings)


def stood_still(state: JobState, record: Record, now: float, timings: Timings) -> float:
    """Seconds of its admission in which a job stood still, as far as is known at `now`."""
    bound, copy, since = record.binding, state.remote, record.life.admitted_at
    if bound is None or since is None:
        return 0.0
    if copy is not None and copy.ran_s is not None:
        return max(0.0, now - since - copy.ran_s)
    before = max(0, copy.held_s - bound.held_before) if copy is not None else 0
    if not doubt.stops(bound):
        return before
    limit = bound.rerun_after if bound.policy is OnDisconnect.KEEP else None
    lease = max(timings.lease, limit or 0.0)
    over = max(0.0, standing_of(state, bound.cluster).silent - lease)
    return before + min(over, max(0.0, now - since))
