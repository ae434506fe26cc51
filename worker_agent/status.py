"""What the Workload of a Job on the worker should say, from the Job and what it says now.

Conditions, reasons and the moments of their changes are Kueue's (the admission specification,
section 2.1). Level-triggered: what was missed is caught up with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.departure import requeued
from federation.api.names import ConditionType as Kind
from federation.core.facts import Record
from federation.core.reasons import Reason
from federation.core.types import Admission
from federation.edge.resources import Json
from worker_agent import departed
from worker_agent.facts import Stage, WorkerJob
from worker_agent.texts import Waiting

_HOLDS = (Stage.RESERVED, Stage.RUNNING, Stage.HELD)
_LEFT = (Stage.STOPPED, Stage.WAITING, Stage.DRAINING, Stage.STRAY)


def changes(
    job: WorkerJob,
    record: Record,
    waiting: Waiting | None,
    checks: tuple[str, ...] = (),
    now: float = 0.0,
    *,
    delayed: frozenset[str] = frozenset(),
) -> Json:
    """Fields of the status that have to be written; empty if it says all that it should.

    `conditions` are only those that change, without their times; see `departed.merged`. `checks`
    are the admission checks that the Job needs, `now` is in seconds since the epoch, `delayed` are
    the pod sets that get places later.
    """
    status, stage = record.status, job.stage
    left = departed.unseen(job, record)
    said = departed.without(status, job.eviction) if left and job.eviction else status
    wire = _admission(job.holds) if stage in _HOLDS and job.holds is not None else None
    if wire is not None:
        _note_delays(wire, status.get("admission") or {}, delayed)
    over = wire is not None and _replaces(wire, status.get("admission"))
    wanted = _left(job, said) if over else _conditions(job, said, waiting)
    news = [c for c in wanted if _differs(said, c)]
    fields: Json = {"conditions": news} if news else {}
    if over:  # an admission is not edited: the one before ends first, even if nobody saw it end
        fields["admission"] = None
    elif wire is not None:
        if record.admission is None or _places(wire) != _places(status["admission"]):
            fields["admission"] = wire
    elif stage in _LEFT and record.admission is not None:
        fields["admission"] = None
    reclaimable = _reclaimable(job, status)
    if stage is Stage.RUNNING and reclaimable != (status.get("reclaimablePods") or []):
        fields["reclaimablePods"] = reclaimable
    return fields | departed.bookkeeping(job, record, news, checks, now)


def _admission(admission: Admission) -> Json:
    """The admission with its places, in the compressed form of v1beta2 (one slice)."""
    wire = records.write_admission(admission)
    for assignment, pods in zip(wire["podSetAssignments"], admission.pod_sets, strict=True):
        if pods.topology is not None and pods.topology.domains:
            values, counts = zip(*pods.topology.domains, strict=True)
            columns = zip(*values, strict=True)
            piece = {
                "domainCount": len(counts),
                "valuesPerLevel": [{"individual": {"roots": list(column)}} for column in columns],
                "podCounts": {"individual": list(counts)},
            }
            levels = list(pods.topology.levels)
            assignment["topologyAssignment"] = {"levels": levels, "slices": [piece]}
    return wire


def _note_delays(wire: Json, before: Mapping[str, Any], delayed: frozenset[str]) -> None:
    """Which pod sets have yet to get places, and which got theirs after that."""
    waited = {
        pods["name"]
        for pods in before.get("podSetAssignments") or ()
        if pods.get("delayedTopologyRequest")
    }
    for assignment in wire["podSetAssignments"]:
        if assignment["name"] in delayed:
            assignment["delayedTopologyRequest"] = "Pending"
        elif assignment["name"] in waited and "topologyAssignment" in assignment:
            assignment["delayedTopologyRequest"] = "Ready"


def _replaces(wire: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Whether an admission is another one than that before; only places may differ."""

    def fixed(admission: Mapping[str, Any]) -> list[Any]:
        fields = ("name", "count", "flavors", "resourceUsage")
        sets = admission.get("podSetAssignments") or ()
        return [admission["clusterQueue"], *([p.get(f) for f in fields] for p in sets)]

    return before is not None and fixed(before) != fixed(wire)


def _reclaimable(job: WorkerJob, status: Mapping[str, Any]) -> list[Json]:
    """Pods that need no quota any more; while quota is held never fewer than were told before
    (Kueue's rule, by which the API server refuses them).
    """
    counts = dict(job.reclaimable)
    if records.is_true(status, Kind.QUOTA_RESERVED):
        for told in status.get("reclaimablePods") or ():
            counts[told["name"]] = max(told["count"], counts.get(told["name"], 0))
    return [{"name": name, "count": count} for name, count in sorted(counts.items())]


def _places(admission: Mapping[str, Any]) -> list[Any]:
    fields = ("topologyAssignment", "delayedTopologyRequest")
    sets = admission.get("podSetAssignments") or ()
    return [[p.get(field) for field in fields] for p in sets]


def _conditions(
    job: WorkerJob, status: Mapping[str, Any], waiting: Waiting | None
) -> Iterator[Json]:
    stage = job.stage
    if job.finished:
        reason = Reason.SUCCEEDED if job.finished == "Complete" else Reason.FAILED
        yield _condition(Kind.FINISHED, True, reason, f"the job ended as {job.finished}")
    elif stage in _HOLDS and job.holds is not None:
        yield from _running(job, job.holds.cluster_queue, status, waiting)
    elif stage is Stage.STOPPING:
        yield from _evicted(job)
    elif stage in _LEFT:
        yield from _evicted(job)
        yield from _left(job, status)
        if waiting is not None:
            yield records.condition(Kind.QUOTA_RESERVED, False, waiting.reason, waiting.message)
    elif job.refused and not job.mirrored and not job.terminating:
        text = job.refused.partition(": ")[2] or job.refused
        yield _condition(Kind.FINISHED, True, Reason.FAILED_TO_START, text)


def _running(
    job: WorkerJob, queue: str, status: Mapping[str, Any], waiting: Waiting | None
) -> Iterator[Json]:
    text = f"Quota reserved in ClusterQueue {queue}"
    yield _condition(Kind.QUOTA_RESERVED, True, Reason.QUOTA_RESERVED, text)
    if job.admission is None and waiting is not None:
        yield records.condition(Kind.ADMITTED, False, waiting.reason, waiting.message)
    elif job.admission is None:
        text = "Its admission checks are not all Ready"
        yield _condition(Kind.ADMITTED, False, Reason.UNSATISFIED_ADMISSION_CHECKS, text)
    else:
        text = job.held or "The workload is admitted"
        yield _condition(Kind.ADMITTED, True, Reason.ADMITTED, text)
    yield from patches.evictions_over(status)
    yield patches.pods_ready_change(status, job.admission is not None, job.pods_ready)


def _evicted(job: WorkerJob) -> Iterator[Json]:
    if job.eviction is None:
        return
    text = job.eviction.message
    yield records.condition(Kind.EVICTED, True, job.eviction.reason, text)
    if job.eviction.reason == Reason.PREEMPTED:
        yield records.condition(Kind.PREEMPTED, True, job.eviction.cause, text)


def _left(job: WorkerJob, status: Mapping[str, Any]) -> Iterator[Json]:
    """Nothing of it runs any more: what it held is free, and it is in its queue, or will be."""
    if job.eviction is not None and records.find(status, Kind.REQUEUED) is None:
        yield requeued(job.eviction.reason, job.eviction.message)
    if not any(records.is_true(status, kind) for kind in (Kind.QUOTA_RESERVED, Kind.ADMITTED)):
        return
    text = job.eviction.message if job.eviction else "The job was suspended"
    yield _condition(Kind.QUOTA_RESERVED, False, Reason.PENDING_EVALUATION, text)
    yield _condition(Kind.ADMITTED, False, Reason.NO_RESERVATION, text)
    yield patches.pods_ready_change(status, False, job.pods_ready)


def _condition(kind: Kind, true: bool, reason: Reason, text: str) -> Json:
    return records.condition(kind, true, reason.value, text)


def _differs(status: Mapping[str, Any], change: Json) -> bool:
    found = records.find(status, Kind(change["type"])) or {}
    return any(found.get(key) != value for key, value in change.items())
