"""What the status of a Workload keeps count of, and when the Workload may be deleted.

Times are in seconds since the epoch. Source: the admission specification, sections 2.1 to 2.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from federation.core.policies import Retention
from federation.core.reasons import Reason, deactivated_due_to

_MOST = 2**31 - 1
"""Counters are int32 on the wire."""


def accumulated_past(
    past_s: int, admitted_at: float | None, now: float, evicted: str, idle_s: float = 0.0
) -> int:
    """Seconds of execution counted so far, at the moment Admitted turns False. It stood still for
    `idle_s` of them.

    `evicted` is the reason of Evicted. A workload that was deactivated because its time was over
    starts with a new clock if people activate it again. A clock that went back counts nothing.
    """
    if evicted == deactivated_due_to(Reason.MAXIMUM_EXECUTION_TIME_EXCEEDED):
        return 0
    run = 0 if admitted_at is None else max(int(now - admitted_at - idle_s), 0)
    return min(max(past_s, 0) + run, _MOST)


def pods_ready_condition(
    admitted: bool, ready: bool, before: tuple[bool, str] | None
) -> tuple[bool, Reason]:
    """Status and reason of PodsReady, from those `before` (None if there is no such condition).

    Pods that were ready in this admission and are not wait for recovery; all others for start. It
    has to be written when the workload leaves its admission, or the next one inherits readiness.
    """
    recovering = before is not None and before[1] in (Reason.WAIT_FOR_RECOVERY, Reason.RECOVERED)
    if not admitted:
        return False, Reason.WAIT_FOR_START
    if ready:
        return True, Reason.RECOVERED if recovering else Reason.STARTED
    if recovering or (before is not None and before[0]):
        return False, Reason.WAIT_FOR_RECOVERY
    return False, Reason.WAIT_FOR_START


@dataclass(frozen=True, slots=True)
class EvictionCount:
    """How often a workload was evicted for one reason and cause (status.schedulingStats)."""

    reason: str
    cause: str
    count: int


def counted(
    counts: tuple[EvictionCount, ...], reason: str, cause: str
) -> tuple[EvictionCount, ...]:
    """The counts after one more eviction, in order of first occurrence."""
    for place, known in enumerate(counts):
        if (known.reason, known.cause) == (reason, cause):
            more = EvictionCount(reason, cause, min(known.count + 1, _MOST))
            return (*counts[:place], more, *counts[place + 1 :])
    return (*counts, EvictionCount(reason, cause, 1))


def deactivated_by_queue(active: bool, evicted: str) -> bool:
    """Whether the queue itself deactivated it, not a person; `evicted` is the reason of Evicted."""
    return not active and evicted.startswith(f"{Reason.DEACTIVATED}DueTo")


def expires_at(
    finished_at: float | None, deactivated_at: float | None, retention: Retention
) -> float | None:
    """When a Workload is to be deleted; None never.

    `finished_at` is when Finished turned True, `deactivated_at` when Evicted did for a workload
    that `deactivated_by_queue`; None if that is not so.
    """
    for since, keep in (
        (finished_at, retention.after_finished_s),
        (deactivated_at, retention.after_deactivated_s),
    ):
        if since is not None:
            return None if keep is None else since + keep
    return None
