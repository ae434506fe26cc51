"""How long a Workload, and a Job that the queue deactivated, are kept after their end."""

from __future__ import annotations

from federation.core.bookkeeping import deactivated_by_queue, expires_at
from federation.core.facts import Record
from federation.core.policies import Retention
from worker_agent.facts import Stage, WorkerJob


def expiry(job: WorkerJob, record: Record, retention: Retention) -> float | None:
    """When the Workload of a finished Job, or a Job that was deactivated, is to be deleted.

    In seconds since the epoch; None never. A Job that is deactivated goes with its Workload.
    """
    if job.finished:
        return expires_at(record.finished_at, None, retention)
    over = job.stage is Stage.WAITING
    if over and deactivated_by_queue(record.active, record.life.evicted):
        return expires_at(None, record.evicted_at, retention)
    return None
