"""When a workload that was evicted may queue again, and at which place in the order.

All times are in seconds since the epoch, all delays in seconds. Source: the admission
specification, sections 2.3 (delays, counts) and 3 (queue timestamp).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from federation.core.policies import PodsReady, RequeueTimestamp
from federation.core.reasons import Reason

SPREAD = 1e-4
"""A delay is longer by at most this part of it, so that equals do not come back all at once."""

_MOST_DOUBLINGS = 62
"""More would not fit int64; every limit on a delay lies far below."""

_MOST_EVICTIONS = 2**31 - 1
"""The counter is an int32 on the wire."""


@dataclass(frozen=True, slots=True)
class RequeueState:
    """Status.requeueState: evictions for unready pods so far, and when to queue again."""

    count: int = 0
    at: float | None = None

    def over(self, now: float) -> bool:
        """Whether nothing keeps the workload out of the queue any more."""
        return self.at is None or now >= self.at


def delay(count: int, base_s: float, max_s: float) -> float:
    """The delay before try `count` (from 1): doubled each time, at most `max_s`."""
    doublings = min(max(count - 1, 0), _MOST_DOUBLINGS)
    return min(base_s * 2.0**doublings, max_s)


def spread(uid: str, count: int) -> float:
    """A number in [0, 1) that differs between workloads and tries, and is the same when derived
    again: the random number of a delay, for those who have no other.
    """
    digest = hashlib.blake2b(f"{uid}/{count}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def later(current: float | None, other: float | None) -> float | None:
    """The later of two times to requeue at: one that was announced never moves earlier."""
    if current is None or other is None:
        return current if other is None else other
    return max(current, other)


def after_unready_pods(
    requeue: RequeueState, rules: PodsReady, now: float, random: float
) -> RequeueState | None:
    """The state after one more eviction for unready pods; None when the limit is exceeded.

    `random` is in [0, 1): it lengthens the delay by up to `SPREAD` of it. ValueError if it is not.
    """
    if not 0 <= random < 1:
        raise ValueError(f"the random number is {random}; it must be at least 0 and less than 1")
    count = min(max(requeue.count, 0) + 1, _MOST_EVICTIONS)
    if rules.backoff_limit is not None and count > rules.backoff_limit:
        return None
    wait = delay(count, rules.backoff_base_s, rules.backoff_max_s) * (1 + random * SPREAD)
    return RequeueState(count, later(requeue.at, now + wait))


def queue_timestamp(
    created: float, evicted: str, evicted_at: float | None, timestamp: RequeueTimestamp
) -> float:
    """The time by which a workload is ordered among equals.

    `evicted` is the reason of Evicted=True, '' if it is not evicted. Preempted workloads keep the
    place that their creation gives them; after unready pods (unless configured otherwise) or a
    check that is to be retried they go behind those that waited meanwhile.
    """
    back_of_line = evicted == Reason.ADMISSION_CHECK or (
        evicted == Reason.PODS_READY_TIMEOUT and timestamp is RequeueTimestamp.EVICTION
    )
    return evicted_at if back_of_line and evicted_at is not None else created
