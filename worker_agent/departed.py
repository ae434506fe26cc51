"""What the Workload records of an eviction, besides conditions that follow from the Job.

All of it goes into the write in which the Workload shows the eviction for the first time, so that
it is counted once: later the Workload has the reason and the time that the Job's note has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.api import record as records
from federation.api.departure import begun_anew, counts_after, requeue_state
from federation.api.life import moment, write_checks
from federation.api.names import ConditionType as Kind
from federation.core.bookkeeping import accumulated_past
from federation.core.checks import AdmissionCheckState, reset, synced
from federation.core.facts import Record
from federation.edge.resources import Json
from federation.jobs.eviction_note import Eviction
from worker_agent.facts import Stage, WorkerJob
from worker_agent.life import noted
from worker_agent.state import stamp


def unseen(job: WorkerJob, record: Record) -> bool:
    """Whether a Job was evicted and its Workload does not show that yet."""
    if job.eviction is None or job.finished or not job.suspended:
        return False
    return job.stage is not Stage.OVER and not noted(job.eviction, record)


def without(status: Mapping[str, Any], eviction: Eviction) -> Json:
    """The status without the conditions that an eviction begins anew."""
    begun = begun_anew(status, eviction.reason)
    return begun | {"conditions": [c for c in begun["conditions"] if c["type"] != Kind.REQUEUED]}


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
        stats = counts_after(record.status, eviction.reason, eviction.cause)
        fields["schedulingStats"] = stats
        if eviction.requeue is not None:
            fields["requeueState"] = requeue_state(eviction.requeue)
    states = record.life.checks if eviction is None else reset(record.life.checks, now)
    if job.stage in (Stage.WAITING, Stage.RESERVED, Stage.RUNNING):
        states = synced(states, checks, now)
    fields |= _checks(record, states)
    if not job.mirrored and record.life.admitted and any(_says_left(c) for c in news):
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
