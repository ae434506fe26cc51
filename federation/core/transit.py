"""A Job between a cluster that is lost and its next one goes on showing its last run for a while.

Most find a place within seconds, all at once when a cluster is lost: to suspend each Job, to take
its status back, to say why it waits and to start it again would cost more writes than the move.
What its Workload says is true from the first write on. Only Jobs of Kubernetes are left so: of
other kinds the status may be somebody else's as well.
"""

from __future__ import annotations

from federation.core import effects as do
from federation.core.facts import BATCH_JOB, JobState, LocalJob, Record
from federation.core.reasons import Reason

PLACE_S = 60.0
"""For how long after its eviction: then it shows that it waits, and why."""


def at_once(local: LocalJob) -> bool:
    """Whether the eviction of a job whose cluster is lost frees its quota with the same write."""
    return local.kind == BATCH_JOB


def shows_run(local: LocalJob, record: Record) -> bool:
    """Whether a Job that was bound before shows a run, be it that it is suspended already."""
    return local.kind == BATCH_JOB and local.started and record.attempt > 0


def until(state: JobState, local: LocalJob, record: Record) -> float | None:
    """Until when a job without a binding counts as being on its way; None if it does not. What is
    not to be placed is not on its way, nor is one whose last run began to be taken back.
    """
    lost = record.life.evicted == Reason.CLUSTER_LOST and record.evicted_at is not None
    waits = not record.active or local.problem or state.queue_problem or record.life.requeued
    if not lost or waits or local.suspended or not shows_run(local, record):
        return None
    return (record.evicted_at or 0.0) + PLACE_S


def take_back(local: LocalJob) -> tuple[do.Effect, ...]:
    """Have the Job show that it runs nowhere."""
    suspend = () if local.suspended else (do.SetSuspend(True),)
    return (*suspend, do.ResetStatus())
