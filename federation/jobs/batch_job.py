"""batch/v1 Job: pod sets, the copy, what is injected on admission, and the status back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from federation.api.names import DEFAULT_POD_SET, JOB_CONTROLLER, Controller, Label, Mirror
from federation.core.facts import LocalJob, ObjectKey, RemoteJob
from federation.core.quantity import QuantityError
from federation.core.types import Admission, PodSet, PodSetAssignment, ResourceFlavor
from federation.jobs.mirror import (
    Identity,
    copy_metadata,
    copy_spec,
    mirrored_attempt,
    without_controller_labels,
)
from federation.jobs.pods import pod_set

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


def pod_sets(job: Json) -> tuple[PodSet, ...]:
    """One pod set, `main`, of min(parallelism, completions) pods. Raises QuantityError."""
    spec = job["spec"]
    parallelism = spec.get("parallelism", 1)
    completions = spec.get("completions", parallelism)
    return (pod_set(DEFAULT_POD_SET, min(parallelism, completions), spec["template"]),)


def condition(status: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition is True."""
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or ())


def finished(status: Mapping[str, Any]) -> str:
    """'Complete', 'Failed', or '' while the Job has not ended."""
    return next((kind for kind in _TERMINAL if condition(status, kind)), "")


def local_job(job: Json) -> LocalJob:
    """Facts of a Job on the management cluster."""
    meta, spec, status = job["metadata"], job["spec"], job.get("status") or {}
    labels = meta.get("labels") or {}
    problem = _management_problem(spec)
    sets: tuple[PodSet, ...] = ()
    try:
        sets = pod_sets(job)
    except QuantityError as error:
        problem = problem or f"a resource request is not valid: {error}"
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
        pod_sets=sets,
        status=status,
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


def remote_manifest(job: Json, identity: Identity) -> Json:
    """The suspended copy to create on a worker."""
    spec = copy_spec(job, _DROPPED_SPEC)
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
    annotations = meta.get("annotations") or {}
    refusal = annotations.get(Mirror.REFUSED.value, "")
    reason, _, message = refusal.partition(": ")
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
        terminating="deletionTimestamp" in meta,
        finished=finished(status),
        gone=gone,
        status=status,
    )


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
    moved Job therefore shows the larger counts. Pods that the worker has yet to count are its
    controller's own bookkeeping and stay there.
    """
    merged = dict(remote)
    merged.pop("uncountedTerminatedPods", None)
    if local.get("startTime"):
        merged["startTime"] = local["startTime"]
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


def admission_patch(job: Json, admission: Admission, flavors: Iterable[ResourceFlavor]) -> Json:
    """One merge patch that starts a Job where it was admitted.

    The flavors' node labels become node selectors and their tolerations are added. The annotation
    is the agent's record of what it charged. Only the UID is a precondition: the Job controller
    writes the status of a new Job at the same moment, and the other writer that matters (the
    manager, withdrawing the offer) deletes.
    """
    pod_spec = job["spec"]["template"].get("spec") or {}
    patch: Json = {
        "metadata": {
            "uid": job["metadata"]["uid"],
            "annotations": {Mirror.ADMISSION.value: encode_admission(admission)},
        },
        "spec": {"suspend": False},
    }
    selector = {key: value for flavor in flavors for key, value in flavor.node_labels}
    added = [_wire_toleration(t) for flavor in flavors for t in flavor.tolerations]
    inject: Json = {}
    if selector:
        inject["nodeSelector"] = selector
    if added:
        present = pod_spec.get("tolerations") or []
        inject["tolerations"] = [*present, *(t for t in added if t not in present)]
    if inject:
        patch["spec"]["template"] = {"spec": inject}
    return patch


def _wire_toleration(toleration: Any) -> Json:
    wire = {"operator": toleration.operator}
    for key in ("key", "value", "effect"):
        if getattr(toleration, key):
            wire[key] = getattr(toleration, key)
    return wire


def encode_admission(admission: Admission) -> str:
    """The admission as annotation text."""
    body = {
        "clusterQueue": admission.cluster_queue,
        "podSets": [
            {"name": p.name, "count": p.count, "flavors": p.flavors, "usage": p.usage}
            for p in admission.pod_sets
        ],
    }
    return json.dumps(body, separators=(",", ":"))


def decode_admission(text: str) -> Admission | None:
    """The admission in an annotation; None if there is none or it is not one that can be charged.

    The text can be anybody's: names are text, amounts are whole numbers that are not negative.
    """
    try:
        body = json.loads(text)
        return Admission(_text(body["clusterQueue"]), tuple(map(_assignment, body["podSets"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _assignment(wire: Json) -> PodSetAssignment:
    return PodSetAssignment(
        _text(wire["name"]),
        _amount(wire["count"]),
        {_text(resource): _text(flavor) for resource, flavor in wire["flavors"].items()},
        {_text(resource): _amount(amount) for resource, amount in wire["usage"].items()},
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _amount(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not an amount")
    return value
