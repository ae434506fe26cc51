"""Status patches by which a Workload leaves where it is, and may come back to its queue.

Source: the admission specification, sections 2.1 to 2.3. Each patch carries the resourceVersion it
was decided on. Times are RFC 3339.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from federation.api.life import moment, wire_moment, write_checks
from federation.api.names import ConditionType
from federation.api.record import condition, find, with_conditions
from federation.api.record_patches import pods_ready_change, status_patch, with_own
from federation.core import effects as do
from federation.core.backoff import RequeueState
from federation.core.bookkeeping import EvictionCount, accumulated_past, counted
from federation.core.checks import CheckState, reset, synced
from federation.core.facts import Queues, Record
from federation.core.reasons import Reason

Json = dict[str, Any]

_MOST_COUNTS = 256

AT_ONCE = frozenset(
    {
        Reason.PREEMPTED,
        Reason.NODE_FAILURES,
        Reason.OUT_OF_SYNC,
        Reason.EVICTED_ON_WORKER_CLUSTER,
        Reason.CLUSTER_LOST,
        Reason.CLUSTER_DRAINED,
        Reason.MOVED,
    }
)
"""Evictions after which a workload may queue as soon as it has stopped."""


def evict_patch(record: Record, effect: do.Evict, now: str) -> Json:
    """Phase one of an eviction: all starts over, but the quota is held until the job has stopped.

    What holds no quota has nothing to stop: its eviction is over with this write. So is one with
    `unbind`, which says all that `unbind_patch` would say after it.
    """
    preempted = effect.reason == Reason.PREEMPTED
    changes = [condition(ConditionType.EVICTED, True, effect.reason, effect.message)]
    if preempted:
        changes.append(condition(ConditionType.PREEMPTED, True, effect.cause, effect.message))
    if record.binding is None:
        changes.append(requeued(effect.reason, effect.message))
    checks = reset(record.life.checks, moment(now) or 0.0)
    fields: Json = {
        # Each eviction has a time of its own, also one after the other.
        "conditions": with_conditions(begun_anew(record.status, effect.reason), changes, now),
        "admissionChecks": write_checks(record.status.get("admissionChecks") or (), checks) or None,
        "requeueState": requeue_state(effect.requeue),
        "schedulingStats": counts_after(record.status, effect.reason, effect.cause),
    }
    cleared = ("clusterName", "nominatedClusterNames", "unhealthyNodes")
    fields |= dict.fromkeys(cleared)
    if effect.unbind:
        fields |= _left(record, effect, fields, now)
    return status_patch(record, **fields)


def _left(record: Record, effect: do.Evict, fields: Json, now: str) -> Json:
    """What is written when a workload that was evicted by writing `fields` has left."""
    evicted = replace(
        record,
        status={**record.status, "conditions": fields["conditions"]},
        life=replace(record.life, evicted=effect.reason),
        evicted_message=effect.message,
    )
    left = do.Unbind(Reason.PENDING_EVALUATION, effect.message, True, effect.idle_s)
    return dict(unbind_patch(evicted, left, now)["status"])


def begun_anew(status: Mapping[str, Any], reason: str) -> Json:
    """The status without the conditions that an eviction for this reason begins anew."""
    dropped = {ConditionType.EVICTED}
    if reason == Reason.PREEMPTED:
        dropped.add(ConditionType.PREEMPTED)
    if reason.startswith(Reason.DEACTIVATED):
        dropped.add(ConditionType.DEACTIVATION_TARGET)
    kept = [c for c in status.get("conditions") or () if c["type"] not in dropped]
    return {**status, "conditions": kept}


def requeue_state(state: RequeueState) -> Json | None:
    """status.requeueState; None when there is nothing to say."""
    if not state.count and state.at is None:
        return None
    return {"count": state.count, "requeueAt": None if state.at is None else wire_moment(state.at)}


def counts_after(status: Mapping[str, Any], reason: str, cause: str) -> Json:
    """status.schedulingStats after one more eviction. Of preemptions no cause is told apart."""
    stats = status.get("schedulingStats") or {}
    known = tuple(
        EvictionCount(e.get("reason", ""), e.get("underlyingCause", ""), e.get("count", 0))
        for e in stats.get("evictions") or ()
    )
    kind = Reason.DEACTIVATED.value if reason.startswith(Reason.DEACTIVATED) else reason
    counts = counted(known, kind, "" if reason == Reason.PREEMPTED else cause)
    return {
        "evictions": [
            {"reason": e.reason, "underlyingCause": e.cause, "count": e.count}
            for e in counts[-_MOST_COUNTS:]
        ]
    }


def requeued(reason: str, message: str) -> Json:
    """Whether it may queue again now that the eviction is over."""
    return condition(ConditionType.REQUEUED, reason in AT_ONCE, reason, message)


def unbind_patch(record: Record, effect: do.Unbind, now: str) -> Json:
    """The job has left its cluster and its quota is free. `attempt` stays: it only ever grows."""
    status, life = record.status, record.life
    changes = [condition(ConditionType.QUOTA_RESERVED, False, effect.reason, effect.message)]
    if effect.evicted:
        changes.append(requeued(life.evicted, record.evicted_message))
    if find(status, ConditionType.ADMITTED) is not None:
        text = "The workload holds no quota"
        changes.append(condition(ConditionType.ADMITTED, False, Reason.NO_RESERVATION.value, text))
    if find(status, ConditionType.PODS_READY) is not None:
        changes.append(pods_ready_change(status, False, False))
    fields: Json = {}
    if life.admitted:
        past, since = life.accumulated_past_s, life.admitted_at
        at = moment(now) or 0.0
        run = accumulated_past(past, since, at, life.evicted, effect.idle_s)
        fields["accumulatedPastExecutionTimeSeconds"] = run or None
    return status_patch(
        record,
        conditions=with_conditions(_unscaled(status), changes, now),
        admission=None,
        clusterName=None,
        fedq={"cluster": "", "message": effect.message, "epoch": 0, "boundAt": None, "pods": None},
        **fields,
    )


def _unscaled(status: Mapping[str, Any]) -> Json:
    """The status without what is said of the size of a job that runs."""
    kept = [c for c in status.get("conditions") or () if c["type"] != ConditionType.SCALED]
    return {**status, "conditions": kept}


def readmit_patch(record: Record, reason: str, message: str, now: str) -> Json:
    """It may be in its queue again; the count of evictions stays."""
    change = condition(ConditionType.REQUEUED, True, reason, message)
    fields: Json = {"conditions": with_conditions(record.status, [change], now)}
    if record.life.requeue.at is not None:
        fields["requeueState"] = {"requeueAt": None}
    return status_patch(record, **fields)


def target_patch(record: Record, reason: str, message: str, now: str) -> Json:
    """Why it is about to be deactivated."""
    change = condition(ConditionType.DEACTIVATION_TARGET, True, reason, message)
    return status_patch(record, conditions=with_conditions(record.status, [change], now))


def checks_patch(record: Record, queues: Queues, now: str) -> Json:
    """List exactly the checks that it needs; new ones are Pending, but for the one that is done
    when a cluster runs the job.
    """
    states = synced(record.life.checks, queues.checks(record.admission), moment(now) or 0.0)
    if record.admitted:
        text = "The workload runs on a cluster"
        states = with_own(states, queues.own_check, CheckState.READY, text, now)
    before = record.status.get("admissionChecks") or ()
    return status_patch(record, admissionChecks=write_checks(before, states) or None)


def pods_ready_patch(record: Record, ready: bool, now: str) -> Json:
    """Whether its pods are ready."""
    change = pods_ready_change(record.status, record.admitted, ready)
    return status_patch(record, conditions=with_conditions(record.status, [change], now))
