"""The Workload as the record of a job: read into core facts, and the bodies that write it.

A Workload is read on every watch event, so it is read from plain JSON and only as far as needed.
Bodies are merge patches of the status; each carries the resourceVersion it was decided on, so a
writer that is behind gets a conflict instead of overwriting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from federation.api.names import (
    DEFAULT_POD_SET,
    KUEUE_API,
    ConditionType,
    Label,
)
from federation.core.checks import CheckState
from federation.core.facts import Binding, LocalJob, ObjectKey, Record
from federation.core.quantity import format_quantity, parse_resources
from federation.core.reasons import Reason
from federation.core.types import Admission, PodSetAssignment
from federation.core.why import Explanation, Shortage

Json = dict[str, Any]


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """Kueue's naming rule: kind, name, and five hex digits of a digest that includes the UID."""
    digest = hashlib.sha1(
        f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False
    ).hexdigest()
    return f"{kind.lower()}-{name}"[:247] + f"-{digest[:5]}"


def read_record(obj: Json) -> Record:
    """Facts of a Workload."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    fedq = status.get("fedq") or {}
    reserved = find(status, ConditionType.QUOTA_RESERVED)
    cluster, attempt = fedq.get("cluster") or "", int(fedq.get("attempt") or 0)
    binding = None
    if cluster and attempt:  # by hand one can be taken away: that binds to nothing
        binding = Binding(cluster, attempt, int(fedq.get("epoch", 0)), fedq.get("boundAt", ""))
    waiting = reserved is not None and reserved["status"] != "True"
    return Record(
        uid=meta["uid"],
        key=ObjectKey(meta["namespace"], meta["name"]),
        version=int(meta["resourceVersion"]),
        active=spec.get("active", True),
        priority=spec.get("priority") or 0,
        admission=read_admission(status.get("admission")),
        binding=binding,
        attempt=attempt,
        admitted=is_true(status, ConditionType.ADMITTED),
        finished=is_true(status, ConditionType.FINISHED),
        reason=reserved["reason"] if reserved and waiting else "",
        message=reserved["message"] if reserved and waiting else "",
        status=status,
    )


def owner_uid(obj: Json) -> str:
    """UID of the Job that a Workload belongs to; '' if it belongs to none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return str((obj["metadata"].get("labels") or {}).get(Label.JOB_UID.value, ""))


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


def manifest(job: Json, local: LocalJob, kind: str, priority: int, class_ref: Json | None) -> Json:
    """The Workload to create for a job with one pod template."""
    meta = job["metadata"]
    template = job["spec"]["template"]
    group = job["apiVersion"].partition("/")[0]
    pods = local.pod_sets[0] if local.pod_sets else None
    spec: Json = {
        "queueName": local.queue,
        "active": True,
        "priority": priority,
        "podSets": [
            {
                "name": DEFAULT_POD_SET,
                "count": pods.count if pods else 1,
                "template": _template(template),
            }
        ],
    }
    if class_ref:
        spec["priorityClassRef"] = class_ref
    return {
        "apiVersion": KUEUE_API,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(kind, group, meta["name"], meta["uid"]),
            "namespace": meta["namespace"],
            "labels": {Label.JOB_UID.value: meta["uid"]},
            "ownerReferences": [
                {
                    "apiVersion": job["apiVersion"],
                    "kind": kind,
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }


def _template(template: Json) -> Json:
    metadata = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {"metadata": kept, "spec": template["spec"]} if kept else {"spec": template["spec"]}


def status_patch(record: Record, **fields: Any) -> Json:
    """A merge patch of the status that loses against any change of the Workload since."""
    return {"metadata": {"resourceVersion": str(record.version)}, "status": fields}


def bind_patch(record: Record, admission: Admission, binding: Binding, check: str) -> Json:
    """Quota reserved and a cluster chosen: the commit point of a dispatch."""
    changes = [
        condition(
            ConditionType.QUOTA_RESERVED,
            True,
            Reason.QUOTA_RESERVED.value,
            f"Quota reserved in ClusterQueue {admission.cluster_queue}",
        )
    ]
    if is_true(record.status, ConditionType.EVICTED):
        changes.append(
            condition(
                ConditionType.EVICTED, False, Reason.QUOTA_RESERVED.value, "quota is reserved again"
            )
        )
    checks = [_check(check, CheckState.PENDING, f"offered to {binding.cluster}", binding.bound_at)]
    return status_patch(
        record,
        conditions=with_conditions(record.status, changes, binding.bound_at),
        admission=write_admission(admission),
        admissionChecks=checks if check else None,
        fedq={
            "cluster": binding.cluster,
            "attempt": binding.attempt,
            "epoch": binding.epoch,
            "boundAt": binding.bound_at,
            "policy": "",
            "message": "",
            "waiting": None,
        },
    )


def admit_patch(record: Record, cluster: str, check: str, now: str) -> Json:
    """The cluster runs it."""
    changes = [
        condition(
            ConditionType.ADMITTED,
            True,
            Reason.ADMITTED.value,
            f"The workload is admitted and runs on cluster {cluster}",
        )
    ]
    checks = [_check(check, CheckState.READY, f'The workload was admitted on "{cluster}"', now)]
    return status_patch(
        record,
        conditions=with_conditions(record.status, changes, now),
        admissionChecks=checks if check else None,
        clusterName=cluster,
        nominatedClusterNames=None,
    )


def finish_patch(record: Record, ended: str, message: str, now: str) -> Json:
    """The job has ended; `ended` is Complete or Failed."""
    reason = Reason.SUCCEEDED if ended == "Complete" else Reason.FAILED
    change = condition(ConditionType.FINISHED, True, reason.value, message)
    return status_patch(record, conditions=with_conditions(record.status, [change], now))


def unbind_patch(record: Record, reason: str, message: str, evicted: bool, now: str) -> Json:
    """The job left its cluster and waits again. `attempt` stays: it only ever grows."""
    changes = [condition(ConditionType.QUOTA_RESERVED, False, reason, message)]
    if evicted:
        changes += [
            condition(ConditionType.ADMITTED, False, Reason.NO_RESERVATION.value, message),
            condition(ConditionType.EVICTED, True, reason, message),
            condition(ConditionType.REQUEUED, True, reason, message),
        ]
    return status_patch(
        record,
        conditions=with_conditions(record.status, changes, now),
        admission=None,
        admissionChecks=None,
        clusterName=None,
        fedq={"cluster": "", "message": message, "epoch": 0, "boundAt": None},
    )


def waiting_patch(
    record: Record, reason: str, message: str, now: str, why: Explanation | None = None
) -> Json:
    """Why the job waits, in words and, as far as there are any, in numbers."""
    change = condition(ConditionType.QUOTA_RESERVED, False, reason, message)
    conditions = with_conditions(record.status, [change], now)
    known = (record.status.get("fedq") or {}).get("waiting")
    if why is None and known is None:
        return status_patch(record, conditions=conditions)
    waiting = None if why is None else _waiting(why)
    return status_patch(record, conditions=conditions, fedq={"waiting": waiting})


def _waiting(why: Explanation) -> Json:
    """status.fedq.waiting; each list is complete, so that it replaces the one before."""
    return {
        "reason": why.reason,
        "requeue": why.requeue,
        "shortages": [_shortage(shortage) for shortage in why.shortages],
        "hint": why.hint,
    }


def _shortage(shortage: Shortage) -> Json:
    def amount(number: int) -> str:
        return format_quantity(shortage.resource, number)

    return {
        "podSet": shortage.pod_set,
        "flavor": shortage.flavor,
        "resource": shortage.resource,
        "needed": amount(shortage.needed),
        "free": amount(shortage.free),
        "borrowable": amount(shortage.borrowable),
        "nominal": amount(shortage.nominal),
        "most": amount(shortage.most),
        "heldBy": [
            {
                "namespace": held.namespace,
                "name": held.name,
                "clusterQueue": held.cluster_queue,
                "amount": amount(held.amount),
            }
            for held in shortage.held_by
        ],
    }


def _check(name: str, state: CheckState, message: str, now: str) -> Json:
    return {"name": name, "state": state.value, "message": message, "lastTransitionTime": now}
