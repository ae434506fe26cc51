"""The life of a Job on the worker, from the Job and its Workload.

The Job says what it holds, what runs of it and why it was stopped. Its Workload says what people
and check controllers want, how often it was evicted, and how long it ran. An eviction is decided on
the Job; until the Workload shows it (`noted`), the Job's note is what counts.
"""

from __future__ import annotations

from dataclasses import replace

from federation.api import record as records
from federation.api.departure import AT_ONCE
from federation.api.life import moment
from federation.api.names import ConditionType
from federation.core.checks import synced
from federation.core.controls import Life
from federation.core.facts import Record
from federation.core.policies import StopPolicy
from federation.jobs.eviction_note import Eviction
from worker_agent.facts import Stage, WorkerJob


def noted(eviction: Eviction, record: Record) -> bool:
    """Whether the Workload shows this eviction: its reason, its message, and its time."""
    found = records.find(record.status, ConditionType.EVICTED)
    return (
        found is not None
        and (found["status"], found["reason"]) == ("True", eviction.reason)
        and found.get("message", "") == eviction.message
        and moment(found.get("lastTransitionTime")) == moment(eviction.at)
    )


def settled(eviction: Eviction, record: Record) -> bool:
    """Whether the Workload shows that this eviction is over, and whether the Job may queue."""
    over = records.find(record.status, ConditionType.REQUEUED) is not None
    return over and not record.life.reserved and noted(eviction, record)


def counts(job: WorkerJob, checks: tuple[str, ...]) -> bool:
    """Whether it matters that the Workload shows an eviction before the Job runs again: what that
    write records is lost with the Job's own note.
    """
    if job.eviction is None:
        return False
    limits = bool(checks) or job.max_execution_s is not None or job.eviction.requeue is not None
    return limits or job.eviction.reason not in AT_ONCE


def life_of(
    job: WorkerJob,
    record: Record,
    checks: tuple[str, ...],
    queues: tuple[StopPolicy | None, StopPolicy | None],
    evicted: str,
) -> Life:
    """The life of a local Job. `checks` are those it needs, `queues` the stop policies of its
    LocalQueue and ClusterQueue, `evicted` is the reason of an eviction under way ('' if none is).

    Pods that the Workload still calls ready count as ready: the clock of their recovery starts when
    it says that they are not.
    """
    admitted = job.admission is not None
    return replace(
        record.life,
        reserved=job.stage in (Stage.RESERVED, Stage.RUNNING, Stage.STOPPING),
        admitted=admitted,
        admitted_at=job.admitted_at if admitted else None,
        evicted=evicted,
        local_queue=queues[0],
        cluster_queue=queues[1],
        checks=synced(record.life.checks, checks, 0.0),
        pods_ready=job.pods_ready or record.life.pods_ready,
    )
