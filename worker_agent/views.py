"""A Job as the core sees it, waiting in a queue or holding quota, and the patch between the two."""

from __future__ import annotations

from dataclasses import dataclass

from federation.api.names import Mirror
from federation.core.backoff import queue_timestamp
from federation.core.policies import RequeueTimestamp
from federation.core.requests import charged, remaining
from federation.core.types import Admission, Holder, Pending
from federation.edge.resources import Json
from federation.jobs import batch_job
from worker_agent.facts import Stage, WorkerJob


@dataclass(frozen=True, slots=True)
class Standing:
    """What queue objects and configuration make of a Job: its queue, and its place in it."""

    cluster_queue: str
    priority: int
    timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION


def pending(job: WorkerJob, standing: Standing, generation: int) -> Pending:
    """A Job that waits. Pods that need no quota any more are not asked for."""
    return Pending(
        uid=job.uid,
        namespace=job.key.namespace,
        name=job.key.name,
        local_queue=job.queue,
        cluster_queue=standing.cluster_queue,
        priority=standing.priority,
        created=_queued(job, standing),
        pod_sets=remaining(job.pod_sets, job.reclaimable),
        generation=generation,
        preemptible=job.preemptible,
    )


def _queued(job: WorkerJob, standing: Standing) -> float:
    if job.eviction is None:
        return job.created
    reason, at = job.eviction.reason, batch_job.timestamp(job.eviction.at)
    return queue_timestamp(job.created, reason, at or None, standing.timestamp)


def holder(job: WorkerJob, admission: Admission, priority: int, *, evicted: bool) -> Holder:
    """A Job that holds what was admitted, less what its finished pods need no more."""
    return Holder(
        uid=job.uid,
        namespace=job.key.namespace,
        name=job.key.name,
        local_queue=job.queue,
        priority=priority,
        created=job.created,
        admission=admission,
        usage=charged(admission, job.pod_sets, job.reclaimable).usage(),
        reserved=job.reserved,
        evicted=evicted or job.stage is Stage.STOPPING,
        preemptible=job.preemptible,
        pods_ready=job.pods_ready,
        admitted=job.admission is not None,
    )


def start_patch(job: WorkerJob, patch: Json, priority: int, at: str) -> Json:
    """The write that starts a Job as admitted at a time (RFC 3339): the `patch` of its kind, with
    notes by which an agent that knows nothing else can hold the Job.
    """
    notes = patch["metadata"]["annotations"]
    notes[Mirror.RESERVED_AT.value] = at
    if not job.mirrored:
        notes[Mirror.PRIORITY.value] = str(priority)
    if job.eviction is not None:
        notes[Mirror.EVICTED.value] = None
    if job.held:
        notes |= {Mirror.HELD.value: None, Mirror.HELD_AT.value: None}
    if job.deciding_until:
        notes[Mirror.DECIDING.value] = None
    if job.waits_for:
        notes[Mirror.WAITS_FOR.value] = None
    return patch
