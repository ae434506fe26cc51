"""What the Workload records of an eviction, besides conditions that follow from the Job.

All of it goes into the write in which the Workload shows the eviction for the first time, so that
it is counted once: later the Workload has the reason and the time that the Job's note has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.api import record as records
from federation.api.life import moment, wire_moment, write_checks
from federation.api.names import ConditionType as Kind
from federation.core.bookkeeping import EvictionCount, accumulated_past, counted
from federation.core.checks import AdmissionCheckState, reset, synced
from federation.core.facts import Record
from federation.core.reasons import Reason
from federation.edge.resources import Json
from federation.jobs.eviction_note import Eviction
from worker_agent.facts import Stage, WorkerJob
from worker_agent.life import noted
from worker_agent.state import stamp

_MOST_COUNTS = 256


def unseen(job: WorkerJob, record: Record) -> bool:
    """Whether a Job was evicted and its Workload does not show that yet."""
    if job.eviction is None or job.finished or not job.suspended:
        return False
    return job.stage is not Stage.OVER and not noted(job.eviction, record)


def without(status: Mapping[str, Any], eviction: Eviction) -> Json:
    """The status without the conditions that an eviction begins anew."""
    dropped = {Kind.EVICTED, Kind.REQUEUED}
    if eviction.reason == Reason.PREEMPTED:
        dropped.add(Kind.PREEMPTED)
    if eviction.reason.startswith(Reason.DEACTIVATED):
        dropped.add(Kind.DEACTIVATION_TARGET)
    kept = [c for c in status.get("conditions") or () if c["type"] not in dropped]
    return {**status, "conditions": kept}


def merged(job: WorkerJob, record: Record, news: Iterable[Json], now: float) -> list[Json]:
    """All conditions after `news`; Evicted has the time of the eviction, all others that of now."""
    status, eviction = record.status, job.eviction
    if eviction is None or not unseen(job, record):
        return records.with_conditions(status, news, stamp(now))
    conditions = records.with_conditions(without(status, eviction), news, stamp(now))
    at = stamp(moment(eviction.at) or now)
    return [c | {"lastTransitionTime": at} if c["type"] == Kind.EVICTED else c for c in conditions]


def bookkeeping(
    job: WorkerJob, record: Record, news: list[Json], checks: tuple[str, ...], now: float
) -> Json:
    """Fields of the status besides the conditions: counts, backoff, checks, time of execution."""
    fields: Json = {}
    eviction = job.eviction if unseen(job, record) else None
    if eviction is not None:
        fields["schedulingStats"] = {"evictions": _count(eviction, record.status)}
        if eviction.requeue is not None:
            fields["requeueState"] = _requeue_state(eviction)
    if job.mirrored:
        return fields
    states = record.life.checks if eviction is None else reset(record.life.checks, now)
    if job.stage in (Stage.WAITING, Stage.RESERVED, Stage.RUNNING):
        states = synced(states, checks, now)
    fields |= _checks(record, states)
    if record.life.admitted and any(_says_left(c) for c in news):
        past, since = record.life.accumulated_past_s, record.life.admitted_at
        reason = job.eviction.reason if job.eviction else ""
        run = accumulated_past(past, since, now, reason)
        fields["accumulatedPastExecutionTimeSeconds"] = run or None
    return fields


def _says_left(change: Json) -> bool:
    return bool(change["type"] == Kind.ADMITTED and change["status"] == "False")


def _checks(record: Record, states: tuple[AdmissionCheckState, ...]) -> Json:
    if states == record.life.checks:
        return {}
    before = record.status.get("admissionChecks") or ()
    return {"admissionChecks": write_checks(before, states) or None}


def _requeue_state(eviction: Eviction) -> Json | None:
    state = eviction.requeue
    if state is None or (not state.count and state.at is None):
        return None
    return {
        "count": state.count,
        "requeueAt": None if state.at is None else wire_moment(state.at),
    }


def _count(eviction: Eviction, status: Mapping[str, Any]) -> list[Json]:
    """How often it was evicted for each reason, this time included."""
    said: Iterable[Json] = (status.get("schedulingStats") or {}).get("evictions") or ()
    before = tuple(
        EvictionCount(c["reason"], c.get("underlyingCause", ""), c.get("count", 0)) for c in said
    )
    deactivated = eviction.reason.startswith(Reason.DEACTIVATED)
    reason = Reason.DEACTIVATED.value if deactivated else eviction.reason
    cause = "" if eviction.reason == Reason.PREEMPTED else eviction.cause
    counts = counted(before, reason, cause)[-_MOST_COUNTS:]
    return [{"reason": c.reason, "underlyingCause": c.cause, "count": c.count} for c in counts]
