"""A job as people see it, from its object and its Workload. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from federation.api import record as records
from federation.api.kinds.paths import mapping, total
from federation.api.names import ConditionType, Label
from federation.core.bound import WAITS_THERE
from federation.core.checks import CheckState
from federation.core.facts import BATCH_JOB
from federation.core.reasons import Reason
from federation.jobs import batch_job
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.registry import KINDS
from federation.jobs.kinds.scaled import Scaled
from fedq.refs import Found, shown

Json = dict[str, Any]


class JobState(StrEnum):
    """Where a job is, in the order of its life."""

    NOT_QUEUED = "NotQueued"
    """It names no queue: Fedq does not look at it."""
    NEW = "New"
    """The manager has made no Workload for it yet."""
    PENDING = "Pending"
    CHECKING = "Checking"
    """It holds quota; admission checks that others decide come before the offer to a cluster."""
    OFFERED = "Offered"
    """Bound to a cluster, whose agent has not answered yet, or waits for admission checks there."""
    ADMITTED = "Admitted"
    """Accepted by the cluster; no pod is ready yet."""
    RUNNING = "Running"
    LEAVING = "Leaving"
    """Evicted; it holds its quota until its pods are gone."""
    COMPLETE = "Complete"
    FAILED = "Failed"
    HELD = "Held"
    """Its Workload is not active: a person stopped it."""
    DELETING = "Deleting"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self in (JobState.COMPLETE, JobState.FAILED)


@dataclass(frozen=True, slots=True)
class JobView:
    """One job. Times are RFC 3339; `message` is the newest sentence that says why."""

    namespace: str
    name: str
    queue: str
    state: JobState
    cluster: str
    attempt: int
    priority: int
    created: str
    since: str
    reason: str
    message: str
    uid: str
    kind: str = batch_job.KIND
    api_version: str = batch_job.API_VERSION

    @property
    def ref(self) -> str:
        """What people write for it: NAME of a batch/v1 Job, else KIND/NAME."""
        kind = KINDS.find(self.api_version, self.kind)
        return shown(kind, self.name) if kind else f"{self.kind.lower()}/{self.name}"

    @property
    def title(self) -> str:
        """How sentences name it."""
        what = "" if self.ref == self.name else f"{self.kind} "
        return f"{what}{self.namespace}/{self.name}"

    @property
    def key(self) -> tuple[str, str]:
        """Namespace, and what names it there."""
        return self.namespace, self.ref


def job_view(job: Json, workload: Json | None, kind: JobKind = KINDS[BATCH_JOB]) -> JobView:
    """The view of one object and its Workload, if it has one."""
    meta = job["metadata"]
    record = records.read_record(workload) if workload else None
    state = _state(job, workload, kind)
    reason, message, moment = _latest(job, workload, state, kind)
    fedq = ((workload or {}).get("status") or {}).get("fedq") or {}
    told = str(fedq.get("message") or "")
    if state is JobState.OFFERED and told.startswith(WAITS_THERE):
        reason, message = Reason.UNSATISFIED_ADMISSION_CHECKS.value, told
    shows_cluster = state not in (JobState.PENDING, JobState.HELD)
    return JobView(
        namespace=meta["namespace"],
        name=meta["name"],
        queue=(meta.get("labels") or {}).get(Label.QUEUE_NAME.value, ""),
        state=state,
        cluster=fedq.get("cluster", "") if shows_cluster else "",
        attempt=record.attempt if record else 0,
        priority=record.priority if record else 0,
        created=meta["creationTimestamp"],
        since=moment or meta["creationTimestamp"],
        reason=reason,
        message=message,
        uid=meta["uid"],
        kind=kind.kind,
        api_version=kind.api_version,
    )


def job_views(found: Iterable[Found], workloads: Iterable[Json]) -> list[JobView]:
    """Views of objects, each with its Workload, by namespace and name: Jobs come first."""
    by_owner = {records.owner_uid(item): item for item in workloads}
    views = [job_view(one.body, by_owner.get(one.uid), one.kind) for one in found]
    return sorted(views, key=lambda view: (view.namespace, "/" in view.ref, view.ref))


def ready(kind: JobKind, obj: Json) -> bool:
    """Whether pods of an object of the management cluster are ready, as far as it shows. The
    controllers of some kinds keep the status there, so that it shows nothing: they count as ready.
    """
    if kind.bundled or not isinstance(kind, GenericKind) or kind.row.managed_by:
        return bool(kind.running(obj).ready)
    if isinstance(kind, Scaled):
        return True
    told = [total(obj, path) for path in kind.row.active]
    return any(told) if told else bool(mapping(obj, ("status",)))


def _state(job: Json, workload: Json | None, kind: JobKind) -> JobState:
    if ended := kind.finished(job):
        return JobState(ended)
    if "deletionTimestamp" in job["metadata"]:
        return JobState.DELETING
    if workload is None:
        queued = (job["metadata"].get("labels") or {}).get(Label.QUEUE_NAME.value)
        return JobState.NEW if queued else JobState.NOT_QUEUED
    record = records.read_record(workload)
    placed = record.binding or record.admission  # bound, or of a worker's own queue
    if placed and record.life.evicted:
        return JobState.LEAVING
    if placed and record.life.admitted:
        return JobState.RUNNING if ready(kind, job) else JobState.ADMITTED
    if record.binding:
        return JobState.CHECKING if open_checks(workload) else JobState.OFFERED
    if placed:
        return JobState.CHECKING
    return JobState.PENDING if record.active else JobState.HELD


def open_checks(workload: Json) -> list[str]:
    """Admission checks that others have not answered yet, as `name: state`, by name.

    The one that the manager answers by itself is open while the job is offered.
    """
    status = workload.get("status") or {}
    own = f"offered to {(status.get('fedq') or {}).get('cluster', '')}"
    return sorted(
        f"{check['name']}: {check['state']}"
        for check in status.get("admissionChecks") or ()
        if check["state"] != CheckState.READY and check.get("message") != own
    )


_TELLING = {
    JobState.PENDING: ConditionType.QUOTA_RESERVED,
    JobState.HELD: ConditionType.QUOTA_RESERVED,
    JobState.CHECKING: ConditionType.QUOTA_RESERVED,
    JobState.OFFERED: ConditionType.QUOTA_RESERVED,
    JobState.ADMITTED: ConditionType.ADMITTED,
    JobState.RUNNING: ConditionType.ADMITTED,
    JobState.LEAVING: ConditionType.EVICTED,
}
"""The Workload's condition that says most about a state."""


def _latest(
    job: Json, workload: Json | None, state: JobState, kind: JobKind
) -> tuple[str, str, str]:
    """Reason, message and time of the condition that tells of the state; empty if there is none."""
    found: Mapping[str, Any] | None = None
    if state.ended and kind.name != BATCH_JOB:  # of each kind in its own way, there in ours
        status = (workload or {}).get("status") or {}
        found = records.find(status, ConditionType.FINISHED)
    elif state.ended:
        conditions = (job.get("status") or {}).get("conditions") or ()
        found = next((c for c in conditions if c["type"] == state.value), None)
    elif state in _TELLING and workload is not None:
        found = records.find(workload.get("status") or {}, _TELLING[state])
    if found is None:
        return "", "", ""
    fields = ("reason", "message", "lastTransitionTime")
    reason, message, moment = (str(found.get(name) or "") for name in fields)
    return reason, message, moment
