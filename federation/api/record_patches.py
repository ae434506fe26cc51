"""What is written into the status of a Workload, by what has happened.

Merge patches; each carries the resourceVersion that it was decided on, so a writer that is behind
gets a conflict instead of overwriting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.api.life import moment, write_checks
from federation.api.names import (
    ConditionType,
)
from federation.api.record import condition, find, is_true, with_conditions, write_admission
from federation.api.waiting import write_waiting
from federation.core.bookkeeping import pods_ready_condition
from federation.core.checks import AdmissionCheckState, CheckState, synced
from federation.core.facts import Binding, Queues, Record
from federation.core.reasons import Reason
from federation.core.types import Admission
from federation.core.why import Explanation

Json = dict[str, Any]


def status_patch(record: Record, **fields: Any) -> Json:
    """A merge patch of the status that loses against any change of the Workload since."""
    return {"metadata": {"resourceVersion": str(record.version)}, "status": fields}


def nominate_patch(record: Record, clusters: Iterable[str], now: str) -> Json:
    """The clusters that it may be offered to, from now on."""
    return status_patch(record, nominatedClusterNames=[*clusters], fedq={"nominatedAt": now})


def bind_patch(
    record: Record,
    admission: Admission,
    binding: Binding,
    queues: Queues,
    nominees: Iterable[str] = (),
) -> Json:
    """Quota reserved and a cluster chosen: the commit point of a dispatch.

    The checks that the job needs with this admission are listed; what others said of it stands.
    `nominees` are shown as nominated; without any that stays as it is.
    """
    nominated = {"nominatedClusterNames": [*nominees]} if nominees else {}
    now, after = binding.bound_at, binding.rerun_after
    reserved = condition(
        ConditionType.QUOTA_RESERVED,
        True,
        Reason.QUOTA_RESERVED.value,
        f"Quota reserved in ClusterQueue {admission.cluster_queue}",
    )
    names = queues.checks(admission)
    states = synced(record.life.checks, names, moment(now) or 0.0)
    offered = f"offered to {binding.cluster}"
    states = with_own(states, queues.own_check, CheckState.PENDING, offered, now)
    return status_patch(
        record,
        conditions=with_conditions(record.status, [reserved, *_outdated(record.status)], now),
        admission=write_admission(admission),
        admissionChecks=write_checks(record.status.get("admissionChecks") or (), states) or None,
        fedq={
            "cluster": binding.cluster,
            "attempt": binding.attempt,
            "epoch": binding.epoch,
            "boundAt": now,
            "policy": binding.policy.value,
            "rerunAfter": None if after is None else int(after),
            "heldBefore": None,
            "message": "",
            "pods": None,
            "waiting": None,
        },
        **nominated,
    )


def rebind_patch(record: Record, epoch: int) -> Json:
    """The binding goes on in a later epoch of its cluster: the commit point of an adoption."""
    return status_patch(record, fedq={"epoch": epoch})


def note_patch(record: Record, message: str) -> Json:
    """What people have to know of a job that is bound."""
    return status_patch(record, fedq={"message": message[:32768]})


def pods_patch(record: Record, text: str) -> Json:
    """What is wrong with the pods ('': nothing)."""
    return status_patch(record, fedq={"pods": text})


def regrant_patch(record: Record, admission: Admission) -> Json:
    """A job that runs holds quota for another number of pods, and goes on where it is."""
    return status_patch(record, admission=write_admission(admission))


def scaling_patch(record: Record, reason: str, message: str, now: str) -> Json:
    """Why a job runs fewer pods than it asks for ('': it does not any more)."""
    change = condition(ConditionType.SCALED, False, reason, message)
    if not reason:
        text = f"It runs the {sum(record.counts.values())} pods that it asks for"
        change = condition(ConditionType.SCALED, True, Reason.ADMITTED.value, text)
    return status_patch(record, conditions=with_conditions(record.status, [change], now))


def _outdated(status: Mapping[str, Any]) -> list[Json]:
    """The changes by which a reservation ends what was said before: evictions, and an admission
    whose cluster somebody took away by hand.
    """
    changes = evictions_over(status)
    if is_true(status, ConditionType.ADMITTED):
        text = "No cluster has admitted it since its quota was reserved"
        changes.append(condition(ConditionType.ADMITTED, False, Reason.NO_RESERVATION.value, text))
    return changes


def evictions_over(status: Mapping[str, Any]) -> list[Json]:
    """The changes by which a reservation ends what an eviction before it said."""
    changes = []
    for kind in (ConditionType.EVICTED, ConditionType.PREEMPTED):
        before = find(status, kind)
        if before is not None and before["status"] == "True":
            text = f"Previously: {before.get('message', '')}"
            changes.append(condition(kind, False, Reason.QUOTA_RESERVED.value, text))
    return changes


def with_own(
    states: Iterable[AdmissionCheckState], own: str, state: CheckState, message: str, now: str
) -> tuple[AdmissionCheckState, ...]:
    """The states, with what the manager says of the check that it decides itself."""
    return tuple(
        AdmissionCheckState(s.name, state, message, moment(now)) if s.name == own else s
        for s in states
    )


def admit_patch(
    record: Record,
    cluster: str,
    own_check: str,
    pods_ready: bool | None,
    now: str,
    held_s: int = 0,
) -> Json:
    """The cluster runs it, so the check that the manager decides itself is Ready.

    `pods_ready` is None where nobody waits for them. Its copy was held for `held_s` seconds before.
    """
    changes = [
        condition(
            ConditionType.ADMITTED,
            True,
            Reason.ADMITTED.value,
            f"The workload is admitted and runs on cluster {cluster}",
        )
    ]
    if pods_ready is not None:
        changes.append(pods_ready_change(record.status, True, pods_ready))
    said = f'The workload was admitted on "{cluster}"'
    names = {check.name for check in record.life.checks} | ({own_check} - {""})
    states = synced(record.life.checks, sorted(names), moment(now) or 0.0)
    states = with_own(states, own_check, CheckState.READY, said, now)
    told: Json = {"heldBefore": held_s} if held_s else {}
    if record.note and not record.move_to:  # what it waited for before is over
        told["message"] = ""
    return status_patch(
        record,
        conditions=with_conditions(record.status, changes, now),
        admissionChecks=write_checks(record.status.get("admissionChecks") or (), states) or None,
        clusterName=cluster,
        nominatedClusterNames=None,
        **({"fedq": told} if told else {}),
    )


_PODS_READY = {
    Reason.STARTED: "All pods are ready or have succeeded",
    Reason.RECOVERED: "All pods are ready or have succeeded again",
    Reason.WAIT_FOR_START: "Not all pods are ready yet",
    Reason.WAIT_FOR_RECOVERY: "Pods that were ready are not so any more",
}


def pods_ready_change(status: Mapping[str, Any], admitted: bool, ready: bool) -> Json:
    """The condition PodsReady after `ready` was seen; see `pods_ready_condition`."""
    before = find(status, ConditionType.PODS_READY)
    known = (before["status"] == "True", before["reason"]) if before else None
    true, reason = pods_ready_condition(admitted, ready, known)
    return condition(ConditionType.PODS_READY, true, reason.value, _PODS_READY[reason])


def finish_patch(
    record: Record,
    ended: str,
    message: str,
    now: str,
    *,
    pods_ready: bool = False,
    pods: str | None = None,
) -> Json:
    """The job has ended; `ended` is Complete, Failed or FailedToStart.

    With `pods_ready` the record says that its pods were, if it does not yet; `pods` is what was
    wrong with them, None if that is not known.
    """
    reasons = {"Complete": Reason.SUCCEEDED, "Failed": Reason.FAILED}
    reason = reasons.get(ended, Reason.FAILED_TO_START)
    changes = [condition(ConditionType.FINISHED, True, reason.value, message)]
    if pods_ready and not record.life.pods_ready:
        changes.append(pods_ready_change(record.status, True, True))
    told: Json = {} if pods in (None, record.pods_note) else {"fedq": {"pods": pods}}
    conditions = with_conditions(record.status, changes, now)
    return status_patch(record, conditions=conditions, **told)


def waiting_patch(
    record: Record, reason: str, message: str, now: str, why: Explanation | None = None
) -> Json:
    """Why the job waits, in words and, as far as there are any, in numbers."""
    change = condition(ConditionType.QUOTA_RESERVED, False, reason, message)
    conditions = with_conditions(record.status, [change], now)
    known = (record.status.get("fedq") or {}).get("waiting")
    if why is None and known is None:
        return status_patch(record, conditions=conditions)
    waiting = None if why is None else write_waiting(why)
    return status_patch(record, conditions=conditions, fedq={"waiting": waiting})
