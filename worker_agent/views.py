"""A Job as the core sees it, waiting in a queue or holding quota, and the patch between the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from federation.api.names import Mirror
from federation.core.backoff import queue_timestamp
from federation.core.cycle import Fit
from federation.core.policies import RequeueTimestamp
from federation.core.types import (
    Admission,
    FlavorResource,
    Holder,
    Pending,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    Usage,
)
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
        pod_sets=tuple(_remaining(pods, job.reclaimable) for pods in job.pod_sets),
        generation=generation,
        preemptible=job.preemptible,
    )


def _queued(job: WorkerJob, standing: Standing) -> float:
    if job.eviction is None:
        return job.created
    reason, at = job.eviction.reason, batch_job.timestamp(job.eviction.at)
    return queue_timestamp(job.created, reason, at or None, standing.timestamp)


def _remaining(pods: PodSet, reclaimable: Mapping[str, int]) -> PodSet:
    count = max(0, pods.count - reclaimable.get(pods.name, 0))
    if count == pods.count:
        return pods
    fewest = pods.min_count if pods.min_count is None else min(pods.min_count, count)
    return replace(pods, count=count, min_count=fewest)


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
        usage=used(admission, job.pod_sets, job.reclaimable),
        reserved=job.reserved,
        evicted=evicted or job.stage is Stage.STOPPING,
        preemptible=job.preemptible,
        pods_ready=job.pods_ready,
        admitted=job.admission is not None,
    )


def used(
    admission: Admission, asked: tuple[PodSet, ...], reclaimable: Mapping[str, int]
) -> Mapping[FlavorResource, int]:
    """What is charged now: reclaimable pods are counted from the pods asked for, so an
    admission of fewer shrinks only when fewer than those are left.
    """
    counts = {pods.name: pods.count - reclaimable.get(pods.name, 0) for pods in asked}
    total: Usage = {}
    for assigned in admission.pod_sets:
        left = max(0, min(assigned.count, counts.get(assigned.name, assigned.count)))
        for key, amount in _amounts(assigned, left):
            total[key] = total.get(key, 0) + amount
    return total


def start_patch(
    job: WorkerJob, body: Json, fit: Fit, flavors: list[ResourceFlavor], at: str
) -> Json:
    """The write that starts a Job as admitted at a time (RFC 3339). With what it notes an agent
    that knows nothing else can hold the Job.
    """
    patch = batch_job.admission_patch(body, fit.admission, flavors)
    notes = patch["metadata"]["annotations"]
    notes[Mirror.RESERVED_AT.value] = at
    if not job.mirrored:
        notes[Mirror.PRIORITY.value] = str(fit.item.priority)
    if job.eviction is not None:
        notes[Mirror.EVICTED.value] = None
    if job.deciding_until:
        notes[Mirror.DECIDING.value] = None
    return patch


def _amounts(assigned: PodSetAssignment, left: int) -> list[tuple[FlavorResource, int]]:
    def part(amount: int) -> int:
        return amount if left == assigned.count else amount // max(assigned.count, 1) * left

    return [
        (FlavorResource(flavor, resource), part(assigned.usage.get(resource, 0)))
        for resource, flavor in assigned.flavors.items()
    ]
