"""What is offered to a cluster that plain Kueue runs: a Workload first, and then the Job.

Wire formats: the specification of MultiKueue, sections 1.1 and 1.3. Both carry what every copy
does; the two are one copy to the manager, named by the job and the attempt. Its version is that of
the Job as soon as there is one, which is later than that of the admission it followed on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from federation.api.disconnect import read_wishes
from federation.api.life import read_check
from federation.api.names import KUEUE_API, Annotation, ConditionType, Label, Mirror
from federation.api.record import find, is_true
from federation.core.checks import unready
from federation.core.facts import Eviction, ObjectKey, RemoteJob
from federation.core.failover import OnDisconnect
from federation.core.reasons import Reason
from federation.jobs import batch_job
from federation.jobs.kinds.batch import BatchJob
from federation.jobs.mirror import mirrored_attempt, mirrored_epoch

Json = dict[str, Any]

PREEMPTS_S = 60.0
"""How long it may wait there for others to leave."""
CHECKS_S = 600.0
"""How long it may wait there for admission checks, such as new nodes."""
_LONGEST_LABEL = 63
_BATCH = BatchJob()


def job_of(body: Json, workload: str) -> Json:
    """The copy of a Job as plain Kueue takes it: `workload` has been admitted for it. Up to 0.17
    that is read from a label, later from an annotation. Its priority is that of the Workload: the
    class may be missing there, or mean something else.
    """
    meta = body["metadata"]
    labels = {k: v for k, v in meta["labels"].items() if k != Label.PRIORITY_CLASS.value}
    if len(workload) <= _LONGEST_LABEL:
        labels[Label.PREBUILT_WORKLOAD_NAME.value] = workload
    notes = {**meta["annotations"], Annotation.PREBUILT_WORKLOAD_NAME.value: workload}
    return {**body, "metadata": {**meta, "labels": labels, "annotations": notes}}


def clone_of(body: Json, workload: str, priority: int) -> Json:
    """The Workload to offer for the copy `body` of a Job. Its pods have to be those of the Job, or
    Kueue finds the two out of sync. One for a copy that carries its refusal is never admitted.
    """
    meta, (role,) = body["metadata"], _BATCH.roles(body)
    (pods,) = _BATCH.pod_sets(body)
    sets: Json = {"name": role.name, "count": role.count, "template": role.template}
    if pods.min_count is not None:
        sets["minCount"] = pods.min_count
    notes = {k: v for k, v in meta["annotations"].items() if k.startswith("fedq.io/")}
    spec: Json = {
        "queueName": meta["labels"][Label.QUEUE_NAME.value],
        "active": Mirror.REFUSED.value not in meta["annotations"],
        "priority": priority,
        "podSets": [sets],
    }
    if (seconds := batch_job.max_execution_seconds(body)) is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    origin = Label.MULTIKUEUE_ORIGIN.value
    return {
        "apiVersion": KUEUE_API,
        "kind": "Workload",
        "metadata": {
            "name": workload,
            "namespace": meta["namespace"],
            "labels": {origin: meta["labels"][origin]},
            "annotations": {**notes, Mirror.JOB.value: meta["name"]},
        },
        "spec": spec,
    }


def pair_key(obj: Json) -> str:
    """What the two objects of a copy have in common. Annotations can be copied into an object of
    another namespace: that is another copy.
    """
    meta = obj["metadata"]
    return f"{meta['namespace']}/{(meta.get('annotations') or {}).get(Mirror.LOCAL_UID.value, '')}"


def pair_uid(obj: Json) -> str:
    """The name of a copy to the manager, in place of a UID: its two objects have one each."""
    return f"{pair_key(obj)}.{mirrored_attempt(obj)}"


def grantable(clone: Json) -> bool:
    """Whether the Job may be created. Once Kueue has seen one it owns the Workload: if that is gone
    since, it is not made again.
    """
    owners = clone["metadata"].get("ownerReferences") or ()
    status, terminating = clone.get("status") or {}, "deletionTimestamp" in clone["metadata"]
    over = any(is_true(status, k) for k in (ConditionType.FINISHED, ConditionType.EVICTED))
    granted = is_true(status, ConditionType.ADMITTED) and not over
    return granted and not terminating and not any(owner.get("controller") for owner in owners)


@dataclass(frozen=True, slots=True)
class Answer:
    """What Kueue says of a Workload that is not admitted: it is to wait for `wait_s` seconds (0: it
    says nothing) for `checks`, or, with a `reason`, that it is not admitted now.
    """

    wait_s: float = 0.0
    reason: str = ""
    message: str = ""
    checks: str = ""


def answer(clone: Json) -> Answer:
    """What it says."""
    meta, status = clone["metadata"], clone.get("status") or {}
    if refused := (meta.get("annotations") or {}).get(Mirror.REFUSED.value, ""):
        reason, _, message = refused.partition(": ")
        return Answer(0.0, reason, message or refused)
    if ended := _ended(clone):
        return Answer(0.0, Reason.EVICTED_ON_WORKER_CLUSTER, f"{ended.reason}: {ended.message}")
    if not (clone.get("spec") or {}).get("active", True):
        return Answer(0.0, Reason.DEACTIVATED, "its Workload was deactivated there")
    said = find(status, ConditionType.QUOTA_RESERVED)
    if said is None or is_true(status, ConditionType.ADMITTED):
        return Answer()
    if said["status"] == "True":
        states = map(read_check, status.get("admissionChecks") or ())
        return Answer(CHECKS_S, checks=unready(states))
    message = str(said.get("message", ""))
    if "preemption" in message.lower():
        return Answer(PREEMPTS_S)
    return Answer(0.0, str(said.get("reason", "")) or Reason.WAITING_FOR_QUOTA, message)


def _ended(clone: Json) -> Eviction | None:
    """Why Kueue took back what it gave, if it did; a Workload that ended with its Job did not."""
    status = clone.get("status") or {}
    for kind in (ConditionType.EVICTED, ConditionType.FINISHED):
        found = find(status, kind)
        if found is not None and found["status"] == "True":
            return Eviction(str(found.get("reason", "")), str(found.get("message", "")))
    return None


def remote_job(
    cluster: str,
    clone: Json | None,
    job: Json | None,
    *,
    waits_until: float = 0.0,
    started: bool = False,
) -> RemoteJob:
    """The facts of a copy: of its Workload, of its Job, or of both. `waits_until` is how long its
    Workload may wait (seconds since the epoch), `started` whether the Job was seen to run.
    """
    if job is not None:
        return _of_job(cluster, clone, job, started=started)
    assert clone is not None
    meta, wishes = clone["metadata"], read_wishes(clone)
    notes, said = meta.get("annotations") or {}, answer(clone)
    return RemoteJob(
        cluster=cluster,
        key=ObjectKey(meta["namespace"], notes.get(Mirror.JOB.value, "")),
        uid=pair_uid(clone),
        version=int(meta["resourceVersion"]),
        attempt=mirrored_attempt(clone),
        suspended=True,
        refused=said.message or said.reason,
        refused_reason=said.reason,
        deciding_until=waits_until if said.wait_s else 0.0,
        waits_for=said.checks,
        epoch=mirrored_epoch(clone),
        policy=wishes.policy or OnDisconnect.STOP,
        rerun_after=wishes.rerun_after,
        granted=grantable(clone),
    )


def _of_job(cluster: str, clone: Json | None, job: Json, *, started: bool) -> RemoteJob:
    found = batch_job.remote_job(cluster, job)
    found = replace(found, uid=pair_uid(job), breaks=0, priority=None, size=None)
    ended = _ended(clone) if clone is not None and not found.finished else None
    if ended is None:
        return found
    if found.suspended and not started:  # an offer that came to nothing
        why = f"{ended.reason}: {ended.message}"
        found = replace(found, refused=why, refused_reason=Reason.EVICTED_ON_WORKER_CLUSTER)
    return replace(found, evicted=ended)
