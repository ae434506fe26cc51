"""The Workload as the record of a job: read into core facts, and made.

A Workload is read on every watch event, so it is read from plain JSON and only as far as needed.
What changes it is `record_patches`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from federation.api.epochs import DIGITS
from federation.api.life import moment, read_life
from federation.api.names import (
    DEFAULT_POD_SET,
    KUEUE_API,
    Annotation,
    ConditionType,
    Label,
)
from federation.api.orders import move_target
from federation.api.workload_spec import pod_sets, shape, workload_class
from federation.core.dispatchers import NOT_NOMINATED, Nomination
from federation.core.facts import BATCH_JOB, Binding, LocalJob, ObjectKey, Record
from federation.core.failover import OnDisconnect
from federation.core.quantity import format_quantity, parse_resources
from federation.core.reasons import Reason
from federation.core.types import Admission, PodSetAssignment

Json = dict[str, Any]

_NONSENSE_EPOCH = 8 * 10**8
"""In place of one of more than nine digits: the fences above it are numbers that all can read."""


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """Kueue's naming rule: kind, name, and five hex digits of a digest that includes the UID."""
    digest = hashlib.sha1(
        f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False
    ).hexdigest()
    return f"{kind.lower()}-{name}"[:247] + f"-{digest[:5]}"


def read_record(obj: Json) -> Record:
    """Facts of a Workload."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    life, fedq = read_life(spec, status), status.get("fedq") or {}
    reserved = find(status, ConditionType.QUOTA_RESERVED)
    cluster, attempt = fedq.get("cluster") or "", int(fedq.get("attempt") or 0)
    binding = None
    if cluster and attempt:  # by hand one can be taken away: that binds to nothing
        binding = _binding(fedq, cluster, attempt)
    waiting = reserved is not None and reserved["status"] != "True"
    evicted = find(status, ConditionType.EVICTED) if life.evicted else None
    return Record(
        uid=meta["uid"],
        key=ObjectKey(meta["namespace"], meta["name"]),
        version=int(meta["resourceVersion"]),
        life=life,
        priority=spec.get("priority") or 0,
        admission=read_admission(status.get("admission")),
        binding=binding,
        attempt=attempt,
        finished=is_true(status, ConditionType.FINISHED),
        reason=reserved["reason"] if reserved and waiting else "",
        message=reserved["message"] if reserved and waiting else "",
        evicted_message=evicted.get("message", "") if evicted else "",
        move_to=move_target(obj),
        pods_note=fedq.get("pods") or "",
        note=fedq.get("message") or "",
        nomination=_nomination(status, fedq),
        waiting_since=None if binding else _waiting_since(obj, status),
        evicted_at=_since(status, ConditionType.EVICTED),
        finished_at=_since(status, ConditionType.FINISHED),
        reserved_at=_since(status, ConditionType.QUOTA_RESERVED),
        kind=owner_kind(obj),
        queue=spec.get("queueName") or "",
        priority_class=workload_class(spec.get("priorityClassRef")),
        counts={p.get("name", DEFAULT_POD_SET): p.get("count", 0) for p in pod_sets(spec)},
        pods=shape(pod_sets(spec)),
        elastic=is_elastic(obj),
        scaling=_scaling(status),
        status=status,
    )


def is_elastic(obj: Mapping[str, Any]) -> bool:
    """Whether a job, or a Workload, says that its number of pods may change while it runs."""
    annotations = obj["metadata"].get("annotations") or {}
    return bool(annotations.get(Annotation.ELASTIC_JOB.value) == "true")


def _scaling(status: Mapping[str, Any]) -> tuple[str, str]:
    found = find(status, ConditionType.SCALED)
    if found is None or found["status"] == "True":
        return "", ""
    return found["reason"], found["message"]


def superseded_slice(obj: Mapping[str, Any]) -> bool:
    """Whether a Workload is a slice of an elastic job that Kueue left, and not the job's record:
    another one has taken its place, or it was to take that of another one and has no quota. One
    that was ever bound here is the record, whatever becomes of its quota.
    """
    status = obj.get("status") or {}
    finished = find(status, ConditionType.FINISHED)
    if finished is not None and finished.get("reason") == Reason.WORKLOAD_SLICE_REPLACED:
        return True
    annotations = obj["metadata"].get("annotations") or {}
    replaces = annotations.get(Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR.value)
    ours = bool((status.get("fedq") or {}).get("attempt"))
    return bool(replaces) and not ours and not is_true(status, ConditionType.QUOTA_RESERVED)


def _nomination(status: Mapping[str, Any], fedq: Mapping[str, Any]) -> Nomination:
    names = status.get("nominatedClusterNames")
    if not names:
        return NOT_NOMINATED
    return Nomination(tuple(map(str, names)), moment(fedq.get("nominatedAt")))


def _waiting_since(obj: Json, status: Mapping[str, Any]) -> float | None:
    """When it was created, or began to wait again after that."""
    again = (ConditionType.EVICTED, ConditionType.REQUEUED)
    times = [moment(obj["metadata"].get("creationTimestamp")), *(_since(status, k) for k in again)]
    return max((at for at in times if at is not None), default=None)


def _binding(fedq: Mapping[str, Any], cluster: str, attempt: int) -> Binding:
    """A policy that nobody knows is the one that runs nothing twice."""
    known = {policy.value: policy for policy in OnDisconnect}
    return Binding(
        cluster,
        attempt,
        _epoch(fedq),
        fedq.get("boundAt", ""),
        known.get(fedq.get("policy", ""), OnDisconnect.STOP),
        fedq.get("rerunAfter"),
        fedq.get("heldBefore") or 0,
    )


def _epoch(fedq: Mapping[str, Any]) -> int:
    """The epoch of a binding, which somebody may have edited. It is never taken for a lower one:
    nothing that may run counts as stopped.
    """
    epoch = max(int(fedq.get("epoch") or 0), 0)
    return epoch if epoch < 10**DIGITS else _NONSENSE_EPOCH


def _since(status: Mapping[str, Any], kind: ConditionType) -> float | None:
    """When a condition turned True; None if it is not."""
    found = find(status, kind)
    if found is None or found["status"] != "True":
        return None
    return moment(found.get("lastTransitionTime"))


def owner_uid(obj: Json) -> str:
    """UID of the Job that a Workload belongs to; '' if it belongs to none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return str((obj["metadata"].get("labels") or {}).get(Label.JOB_UID.value, ""))


def owner_kind(obj: Json) -> str:
    """The kind of the job that a Workload belongs to, Kind.version.group."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group, _, version = str(owner.get("apiVersion", "")).rpartition("/")
            return ".".join(filter(None, (str(owner.get("kind", "")), version, group)))
    return BATCH_JOB


def read_admission(wire: Mapping[str, Any] | None) -> Admission | None:
    """Workload.status.admission as the core sees it."""
    if not wire:
        return None
    return Admission(
        wire["clusterQueue"],
        tuple(
            PodSetAssignment(
                name=p.get("name", DEFAULT_POD_SET),
                count=p.get("count", 0),
                flavors=p.get("flavors") or {},
                usage=parse_resources(p.get("resourceUsage")),
            )
            for p in wire.get("podSetAssignments") or ()
        ),
    )


def write_admission(admission: Admission) -> Json:
    """The core's admission as it goes into the status."""
    return {
        "clusterQueue": admission.cluster_queue,
        "podSetAssignments": [
            {
                "name": p.name,
                "count": p.count,
                "flavors": dict(p.flavors),
                "resourceUsage": {r: format_quantity(r, n) for r, n in p.usage.items()},
            }
            for p in admission.pod_sets
        ],
    }


def find(status: Mapping[str, Any], kind: ConditionType) -> Json | None:
    """A condition by type."""
    return next((c for c in status.get("conditions") or () if c["type"] == kind.value), None)


def is_true(status: Mapping[str, Any], kind: ConditionType) -> bool:
    """Whether a condition is True."""
    found = find(status, kind)
    return found is not None and found["status"] == "True"


def condition(kind: ConditionType, true: bool, reason: str, message: str) -> Json:
    """A condition without its time; `with_conditions` adds it."""
    return {
        "type": kind.value,
        "status": "True" if true else "False",
        "reason": reason,
        "message": message[:32768],
    }


def with_conditions(status: Mapping[str, Any], changes: Iterable[Json], now: str) -> list[Json]:
    """All conditions after `changes`; a time moves only when the condition's status does."""
    merged = {c["type"]: c for c in status.get("conditions") or ()}
    for change in changes:
        before = merged.get(change["type"])
        same = before is not None and before["status"] == change["status"]
        since = before["lastTransitionTime"] if before is not None and same else now
        merged[change["type"]] = {**change, "lastTransitionTime": since}
    return list(merged.values())


def manifest(
    job: Json,
    local: LocalJob,
    kind: str,
    priority: int,
    class_ref: Json | None,
    templates: Mapping[str, Json] | None = None,
) -> Json:
    """The Workload to create for a job. `templates` are those of its pods by pod set; of one that
    is not there, and without any, it is that of a Job.
    """
    meta = job["metadata"]
    group = job["apiVersion"].rpartition("/")[0]
    spec: Json = {
        "queueName": local.queue,
        "active": True,
        "priority": priority,
        "podSets": _pod_sets(job, local, templates or {}),
    }
    if local.max_execution_s is not None:
        spec["maximumExecutionTimeSeconds"] = local.max_execution_s
    if class_ref:
        spec["priorityClassRef"] = class_ref
    return {
        "apiVersion": KUEUE_API,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(kind, group, meta["name"], meta["uid"]),
            "namespace": meta["namespace"],
            "labels": {Label.JOB_UID.value: meta["uid"]},
            "ownerReferences": [_owner(job, kind)],
            **({"annotations": {Annotation.ELASTIC_JOB.value: "true"}} if local.elastic else {}),
        },
        "spec": spec,
    }


def _pod_sets(job: Json, local: LocalJob, templates: Mapping[str, Json]) -> list[Json]:
    found = []
    for pods in local.pod_sets:
        template = templates.get(pods.name) or job["spec"]["template"]
        one: Json = {"name": pods.name, "count": pods.count, "template": _template(template)}
        if pods.min_count is not None:
            one["minCount"] = pods.min_count
        found.append(one)
    if found:
        return found
    if not templates:  # what it asks for cannot be read
        templates = {DEFAULT_POD_SET: job["spec"]["template"]}
    return [
        {"name": name, "count": 1, "template": _template(template)}
        for name, template in templates.items()
    ]


def _owner(job: Json, kind: str) -> Json:
    meta = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def _template(template: Json) -> Json:
    metadata = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {"metadata": kept, "spec": template["spec"]} if kept else {"spec": template["spec"]}
