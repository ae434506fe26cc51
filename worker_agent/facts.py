"""A Job on the worker as the agent sees it: mirrored from the management cluster, or local."""

from __future__ import annotations

from dataclasses import dataclass

from federation.api.names import JOB_CONTROLLER, Label, Mirror
from federation.core.facts import ObjectKey
from federation.core.quantity import QuantityError
from federation.core.types import Admission, PodSet
from federation.edge.resources import Json
from federation.jobs import batch_job
from federation.jobs.mirror import mirrored_attempt, mirrored_epoch, mirrored_priority


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """`admission` is what the agent charged when it started the Job (its own annotation).

    `created` orders equals: for a copy it is when the job was queued on the management cluster.
    """

    uid: str
    key: ObjectKey
    version: int
    queue: str
    priority_class: str
    pod_class: str
    created: float
    suspended: bool
    pod_sets: tuple[PodSet, ...] = ()
    problem: str = ""
    mirrored: bool = False
    local_uid: str = ""
    attempt: int = 0
    epoch: int = 0
    priority: int = 0
    admission: Admission | None = None
    refused: bool = False
    active: int = 0
    finished: str = ""
    terminating: bool = False

    @property
    def charged(self) -> Admission | None:
        """What it uses of the quota: from the start until its pods are gone."""
        if self.finished or (self.suspended and not self.active):
            return None
        return self.admission

    @property
    def waits(self) -> bool:
        """Whether the agent has to decide on it."""
        done = self.finished or self.terminating or self.refused or self.active
        return self.suspended and not done and not (self.mirrored and self.admission)

    @property
    def stray(self) -> bool:
        """Whether it runs without having been admitted."""
        return not (self.suspended or self.admission or self.finished or self.terminating)


def worker_job(job: Json) -> WorkerJob | None:
    """Facts of a queue-labelled Job; None if another controller manages it."""
    meta, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    if spec.get("managedBy", JOB_CONTROLLER) != JOB_CONTROLLER:
        return None
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    local_uid = annotations.get(Mirror.LOCAL_UID.value, "")
    mirrored = bool(local_uid and labels.get(Label.MULTIKUEUE_ORIGIN.value))
    queued_at = annotations.get(Mirror.QUEUED_AT.value) if mirrored else None
    sets: tuple[PodSet, ...] = ()
    problem = ""
    try:
        sets = batch_job.pod_sets(job)
    except QuantityError as error:
        problem = f"a resource request is not valid: {error}"
    return WorkerJob(
        uid=meta["uid"],
        key=ObjectKey(meta["namespace"], meta["name"]),
        version=int(meta["resourceVersion"]),
        queue=labels.get(Label.QUEUE_NAME.value, ""),
        priority_class=labels.get(Label.PRIORITY_CLASS.value, ""),
        pod_class=spec["template"]["spec"].get("priorityClassName", ""),
        created=batch_job.timestamp(queued_at) or batch_job.timestamp(meta["creationTimestamp"]),
        suspended=bool(spec.get("suspend")),
        pod_sets=sets,
        problem=problem,
        mirrored=mirrored,
        local_uid=local_uid,
        attempt=mirrored_attempt(job),
        epoch=mirrored_epoch(job) if mirrored else 0,
        priority=mirrored_priority(job),
        admission=batch_job.decode_admission(annotations.get(Mirror.ADMISSION.value, "")),
        refused=bool(annotations.get(Mirror.REFUSED.value)),
        active=status.get("active") or 0,
        finished=batch_job.finished(status),
        terminating="deletionTimestamp" in meta,
    )
