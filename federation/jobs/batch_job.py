"""batch/v1 Job: pod sets, the copy, what is injected on admission, and the status back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from federation.api.convert import preemptible
from federation.api.disconnect import read_wishes
from federation.api.epochs import read_epoch
from federation.api.names import DEFAULT_POD_SET, JOB_CONTROLLER, Controller, Label, Mirror
from federation.api.record import is_elastic
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.facts import Eviction, LocalJob, ObjectKey, RemoteJob
from federation.core.failover import OnDisconnect
from federation.core.pod_updates import PodSetUpdate
from federation.core.quantity import QuantityError
from federation.core.sizes import Size
from federation.core.types import Admission, PodSet, PodSetAssignment, ResourceFlavor
from federation.jobs import admissibility, answers, elastic, scaling, template
from federation.jobs.admission_note import decode_admission, encode_admission, original
from federation.jobs.device_pins import Template as Cards
from federation.jobs.devices import canonical
from federation.jobs.eviction_note import read_eviction
from federation.jobs.mirror import (
    Identity,
    copy_metadata,
    copy_spec,
    mirrored_attempt,
    mirrored_epoch,
    mirrored_priority,
    without_controller_labels,
)
from federation.jobs.pauses import read_pauses
from federation.jobs.pods import PodDefaults, pod_set

__all__ = ["decode_admission", "encode_admission"]

Json = dict[str, Any]

KIND = "Job"
API_VERSION = "batch/v1"
MANAGED_BY = Controller.MULTIKUEUE.value
_DROPPED_SPEC = ("suspend", "managedBy", "selector", "manualSelector", "ttlSecondsAfterFinished")
_TERMINAL = ("Complete", "Failed")
_ENDING = ("SuccessCriteriaMet", "FailureTarget")


def timestamp(text: str | None) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 if there is none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except (ValueError, OverflowError):
        return 0.0


def pod_sets(job: Json, defaults: PodDefaults | None = None) -> tuple[PodSet, ...]:
    """One pod set, `main`, of min(parallelism, completions) pods. Raises QuantityError.

    Of a started Job they are the pods that it asked for, not those that admission made of them.
    """
    asked = original(job)
    spec = asked["spec"]
    count, fewest = scaling.pod_count(spec), scaling.min_count(asked)
    return (pod_set(DEFAULT_POD_SET, count, spec["template"], defaults=defaults, min_count=fewest),)


def pods_problem(job: Json, defaults: PodDefaults | None = None) -> str:
    """Why the Job's pods cannot be admitted anywhere (Misconfigured); '' if they can."""
    asked = original(job)
    spec = asked["spec"]
    sets = [(DEFAULT_POD_SET, scaling.pod_count(spec), spec["template"])]
    return (
        admissibility.problem(sets, defaults)
        or scaling.annotation_problem(asked)
        or time_problem(asked)
    )


def reclaimable_pods(job: Json, status: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Pods of each set that need no quota any more. `status` is that of the run (the Job's own
    by default): a Job that is shown on the management cluster keeps counts of earlier runs.
    """
    run = (job.get("status") or {}) if status is None else status
    return scaling.reclaimable(original(job)["spec"], job["spec"], run)


def max_execution_seconds(job: Json) -> int | None:
    """How long the Job may run in all, from its label; None without a limit."""
    text = _label(job, Label.MAX_EXEC_TIME_SECONDS)
    return int(text) if text and not time_problem(job) else None


def time_problem(job: Json) -> str:
    text = _label(job, Label.MAX_EXEC_TIME_SECONDS)
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else 0
    if not text or 1 <= number < 2**31:
        return ""
    return (
        f"label {Label.MAX_EXEC_TIME_SECONDS} is {text!r}: it takes a whole number of seconds"
        " from 1"
    )


def _label(job: Json, key: Label) -> str:
    return str((job["metadata"].get("labels") or {}).get(key.value, ""))


def _true(status: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """A condition that is True; None if it is not."""
    told = status.get("conditions") or ()
    return next((c for c in told if c["type"] == kind and c["status"] == "True"), None)


def condition(status: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition is True."""
    return _true(status, kind) is not None


def finished(status: Mapping[str, Any]) -> str:
    """'Complete', 'Failed', or '' while the Job has not ended."""
    return next((kind for kind in _TERMINAL if condition(status, kind)), "")


def local_job(job: Json, defaults: PodDefaults | None = None) -> LocalJob:
    """Facts of a Job on the management cluster. `defaults` are those of its namespace there."""
    meta, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    labels = meta.get("labels") or {}
    wishes = read_wishes(job)
    problem = _management_problem(spec) or pods_problem(job, defaults) or wishes.problem
    sets: tuple[PodSet, ...] = ()
    with suppress(QuantityError):  # told in `problem`
        sets = pod_sets(job, defaults)
    return LocalJob(
        uid=meta["uid"],
        key=ObjectKey(meta["namespace"], meta["name"]),
        version=int(meta["resourceVersion"]),
        queue=labels.get(Label.QUEUE_NAME.value, ""),
        priority_class=labels.get(Label.PRIORITY_CLASS.value, ""),
        created=timestamp(meta["creationTimestamp"]),
        suspended=bool(spec.get("suspend")),
        terminating="deletionTimestamp" in meta,
        started=bool(status.get("startTime")),
        finished=finished(status),
        problem=problem,
        max_execution_s=max_execution_seconds(job),
        pod_sets=sets,
        status=status,
        preemptible=preemptible(job),
        wishes=wishes,
        grace_s=template.grace_seconds(spec["template"]),
        elastic=is_elastic(job),
    )


def _management_problem(spec: Json) -> str:
    manager = spec.get("managedBy", JOB_CONTROLLER)
    if manager == MANAGED_BY:
        return ""
    return (
        f"spec.managedBy is {manager}, so this cluster's own Job controller runs it: delete the"
        f" Job and create it again with managedBy {MANAGED_BY} (the admission policy in"
        " deploy/policies sets it by itself)"
    )


def remote_manifest(
    job: Json,
    identity: Identity,
    admission: Admission | None = None,
    vendors: Vendors = VENDORS,
) -> Json:
    """The suspended copy to create on a worker.

    If fewer pods were admitted than asked for, the copy has so many: the worker may take still
    fewer, but not more than the global quota was charged for. Requests for cards are written as
    device plugins read them.
    """
    spec = copy_spec(job, _DROPPED_SPEC)
    spec["template"] = canonical(spec["template"], vendors)
    if admission is not None:
        given = _admitted(admission, job)
        spec.update(scaling.scaled(job, given, 0))
        if is_elastic(job) and given < scaling.pod_count(spec):  # it was edited since
            spec.update(elastic.resized(job, {DEFAULT_POD_SET: given}))
    without_controller_labels(spec["template"])
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": copy_metadata(job, identity),
        "spec": {**spec, "suspend": True},
    }


def remote_job(cluster: str, job: Json, *, gone: bool = False) -> RemoteJob:
    """Facts of a copy on a worker."""
    meta, status = job["metadata"], job.get("status") or {}
    annotations, wishes = meta.get("annotations") or {}, read_wishes(job)
    refusal = annotations.get(Mirror.REFUSED.value, "")
    reason, _, message = refusal.partition(": ")
    pauses = read_pauses(annotations)
    return RemoteJob(
        cluster=cluster,
        key=ObjectKey(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        attempt=mirrored_attempt(job),
        suspended=bool(job["spec"].get("suspend")),
        refused=message or refusal,
        refused_reason=reason,
        deciding_until=timestamp(annotations.get(Mirror.DECIDING.value)),
        waits_for=answers.waits_for(annotations),
        retry_after=answers.retry_after(annotations),
        evicted=_evicted(job),
        ready=pods_are_ready(job),
        reclaimable=reclaimable_pods(job) if status.get("succeeded") else {},
        terminating="deletionTimestamp" in meta,
        finished=finished(status),
        gone=gone,
        epoch=mirrored_epoch(job),
        held=annotations.get(Mirror.HELD.value, ""),
        held_s=pauses.seconds,
        ran_s=pauses.ran(_failed_at(status)),
        policy=wishes.policy or OnDisconnect.STOP,
        rerun_after=wishes.rerun_after,
        breaks=read_epoch(annotations.get(Mirror.BREAKS.value, "")),
        priority=mirrored_priority(job),
        size=_size(job),
        growth=elastic.asked(job, elastic.sized),
        status=status,
    )


def _failed_at(status: Mapping[str, Any]) -> float | None:
    """When it failed, by the clock of its cluster; None if it has not."""
    found = _true(status, "Failed")
    return timestamp(found.get("lastTransitionTime")) or None if found is not None else None


def _size(job: Json) -> Size:
    """How many pods a copy asked for, runs, and has: those that stop are there until they have."""
    status = job.get("status") or {}
    there = sum(int(status.get(field) or 0) for field in ("active", "terminating"))
    runs = scaling.pod_count(job["spec"])
    counts = (scaling.pod_count(original(job)["spec"]), runs, max(runs, there))
    return Size(*({DEFAULT_POD_SET: count} for count in counts))


def pods_are_ready(job: Json) -> bool:
    """Whether all pods of a Job as it runs are ready, or have done their work.

    Pods that have ended count until its controller has drawn its conclusion from that; a Job that
    is about to end waits for none.
    """
    status = job.get("status") or {}
    if any(condition(status, kind) for kind in (*_ENDING, *_TERMINAL)):
        return True
    ended = status.get("uncountedTerminatedPods") or {}
    counted = sum(int(status.get(field) or 0) for field in ("ready", "succeeded"))
    return counted + sum(map(len, ended.values())) >= scaling.pod_count(job["spec"])


def _evicted(job: Json) -> Eviction | None:
    note = read_eviction(job)
    return None if note is None else Eviction(note.reason, note.message)


def in_transit(status: Mapping[str, Any]) -> bool:
    """Whether the worker's Job controller is between two writes that belong together.

    It counts ended pods in one write and draws the conclusion in the next; copying the first
    would cost a write for a state that lasts milliseconds.
    """
    if (status.get("uncountedTerminatedPods") or {}).keys() & {"succeeded", "failed"}:
        return True
    ending = any(condition(status, kind) for kind in _ENDING)
    return ending and not status.get("terminating") and not finished(status)


def merge_status(local: Mapping[str, Any], remote: Mapping[str, Any]) -> Json:
    """The status the local Job should have: the copy's, as far as Kubernetes lets it be written.

    Kubernetes forbids changing startTime while unsuspended and lowering succeeded or failed; a
    moved Job therefore shows the larger counts, one that goes on after it was held its first start,
    and one whose result is that of an earlier attempt does not end before it started. Pods that
    the worker has yet to count are its controller's own bookkeeping and stay there. That it is
    about to end is shown when it has: it cannot be taken back, and the job may yet be lost.
    """
    merged = dict(remote)
    if "conditions" in merged and not finished(remote):
        merged["conditions"] = [c for c in merged["conditions"] if c["type"] not in _ENDING]
    merged.pop("uncountedTerminatedPods", None)
    if local.get("startTime"):
        merged["startTime"] = local["startTime"]
        ended = merged.get("completionTime")
        if ended and timestamp(ended) < timestamp(local["startTime"]):
            merged["completionTime"] = local["startTime"]
    for field in ("succeeded", "failed"):
        most = max(local.get(field, 0), remote.get(field, 0))
        if most:
            merged[field] = most
    return merged


def is_behind(local: LocalJob, remote: RemoteJob) -> bool:
    """Whether the local status has to be written to show the copy's."""
    if not remote.status or (in_transit(remote.status) and not remote.gone):
        return False
    return merge_status(local.status, remote.status) != _comparable(local.status)


def _comparable(status: Mapping[str, Any]) -> Json:
    return {key: value for key, value in status.items() if key != "uncountedTerminatedPods"}


def reset_status(status: Mapping[str, Any], now: str) -> Json:
    """The status of a Job that has left a cluster: suspended, nothing active, not started."""
    kept = [c for c in status.get("conditions") or () if c["type"] != "Suspended"]
    suspended = {
        "type": "Suspended",
        "status": "True",
        "reason": "JobSuspended",
        "message": "queued again",
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }
    cleared = {"startTime", "ready", "active", "terminating", "conditions"}
    rest = {key: value for key, value in status.items() if key not in cleared}
    return {**rest, "ready": 0, "terminating": 0, "conditions": [*kept, suspended]}


def admission_patch(
    job: Json,
    admission: Admission,
    flavors: Iterable[ResourceFlavor],
    updates: Iterable[PodSetUpdate] = (),
    cards: Cards | None = None,
) -> Json:
    """One merge patch that starts a Job where it was admitted.

    The flavors' node labels become node selectors and their tolerations are added, so is what
    admission checks (`updates`), the topology and the `cards` that it was given say; of a Job
    admitted with fewer pods the parallelism is lowered. The annotation is the agent's record of
    what it charged, and of what `restore_patch` has to put back. Only the UID is a precondition:
    the Job controller writes the status of a new Job at the same moment, and the other writer that
    matters (the manager, withdrawing the offer) deletes.
    """
    asked = original(job)
    spec = dict(asked["spec"])
    before: Json = {}
    for assignment in _main(admission):
        done = reclaimable_pods(job).get(DEFAULT_POD_SET, 0)
        fewer = scaling.scaled(asked, assignment.count, done)
        before.update({field: spec.get(field) for field in fewer})
        added = template.additions(assignment, flavors, updates)
        spec.update(fewer)
        spec["template"] = template.started(spec["template"], assignment, added, cards)
    if parts := template.replaced(asked["spec"]["template"], spec["template"]):
        before["template"] = parts
    note = encode_admission(admission, before)
    return {
        "metadata": {
            "uid": job["metadata"]["uid"],
            "annotations": {Mirror.ADMISSION.value: note},
        },
        "spec": {**template.merge_patch(job["spec"], spec), "suspend": False},
    }


def start_problem(
    job: Json,
    admission: Admission,
    flavors: Iterable[ResourceFlavor],
    updates: Iterable[PodSetUpdate] = (),
) -> str:
    """Why the Job cannot be started as admitted (FailedToStart): two of the template, the
    flavors, the topology and the checks set one key to different values. '' if it can.
    """
    own = original(job)["spec"]["template"]
    for assignment in _main(admission):
        added = template.additions(assignment, flavors, updates)
        if text := template.conflict(own, assignment, added):
            return text
    return ""


def restore_patch(job: Json) -> Json | None:
    """The merge patch that undoes what `admission_patch` changed; None if there is nothing.

    For a Job that is suspended, whose pods are gone and whose status has no startTime any more:
    before that Kubernetes refuses changes of the template, and the quota is still in use. The
    record of the admission goes too.
    """
    annotations = job["metadata"].get("annotations") or {}
    if Mirror.ADMISSION.value not in annotations:
        return None
    patch: Json = {
        "metadata": {
            "uid": job["metadata"]["uid"],
            "annotations": {Mirror.ADMISSION.value: None},
        }
    }
    if spec := template.merge_patch(job["spec"], original(job)["spec"]):
        patch["spec"] = spec
    return patch


def _main(admission: Admission) -> Iterable[PodSetAssignment]:
    return (p for p in admission.pod_sets if p.name == DEFAULT_POD_SET)


def _admitted(admission: Admission, job: Json) -> int:
    return next((p.count for p in _main(admission)), scaling.pod_count(job["spec"]))
