"""What a Workload says of its life: evictions, checks, readiness and clocks, as core facts.

Read from plain JSON on every watch event, as the rest of the record (`federation.api.record`).
Times that cannot be read count as not known: no limit passes by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from federation.api.meta import wire_time
from federation.api.names import ConditionType
from federation.core.backoff import RequeueState
from federation.core.checks import AdmissionCheckState, CheckState
from federation.core.controls import Life, Why
from federation.core.pod_updates import PodSetUpdate
from federation.core.reasons import Reason
from federation.core.types import Toleration

Json = dict[str, Any]


def moment(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None if there is none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def read_life(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Life:
    """The life of a Workload, without what its queues and its copy say."""
    conditions = _Conditions(status)
    evicted, ready = (
        conditions.true(ConditionType.EVICTED),
        conditions.get(ConditionType.PODS_READY),
    )
    target = conditions.true(ConditionType.DEACTIVATION_TARGET)
    admitted = conditions.true(ConditionType.ADMITTED)
    requeued = conditions.get(ConditionType.REQUEUED)
    requeue = status.get("requeueState") or {}
    return Life(
        active=spec.get("active", True),
        target=Why(target.get("reason", ""), target.get("message", "")) if target else None,
        reserved=bool(conditions.true(ConditionType.QUOTA_RESERVED)),
        admitted=bool(admitted),
        admitted_at=moment(admitted.get("lastTransitionTime")),
        evicted=evicted.get("reason", ""),
        requeued=requeued.get("reason", "") if requeued.get("status") == "False" else "",
        requeue=RequeueState(requeue.get("count") or 0, moment(requeue.get("requeueAt"))),
        checks=tuple(read_check(check) for check in status.get("admissionChecks") or ()),
        pods_ready=ready.get("status") == "True",
        pods_were_ready=ready.get("status") == "False"
        and ready.get("reason") == Reason.WAIT_FOR_RECOVERY,
        pods_ready_changed_at=moment(ready.get("lastTransitionTime")),
        max_execution_s=spec.get("maximumExecutionTimeSeconds"),
        accumulated_past_s=status.get("accumulatedPastExecutionTimeSeconds") or 0,
    )


class _Conditions:
    def __init__(self, status: Mapping[str, Any]) -> None:
        self._found = {c["type"]: c for c in status.get("conditions") or ()}

    def get(self, kind: ConditionType) -> Json:
        """A condition, {} if there is none."""
        return self._found.get(kind.value) or {}

    def true(self, kind: ConditionType) -> Json:
        """A condition that is True, else {}."""
        found = self.get(kind)
        return found if found.get("status") == "True" else {}


def read_check(wire: Mapping[str, Any]) -> AdmissionCheckState:
    """One entry of status.admissionChecks. A state that nobody knows decides nothing."""
    known = {state.value for state in CheckState}
    state = wire.get("state")
    return AdmissionCheckState(
        name=wire["name"],
        state=CheckState(state) if state in known else CheckState.PENDING,
        message=wire.get("message") or "",
        changed_at=moment(wire.get("lastTransitionTime")),
        requeue_after_s=wire.get("requeueAfterSeconds"),
        retry_count=wire.get("retryCount"),
        updates=tuple(_read_update(update) for update in wire.get("podSetUpdates") or ()),
    )


def _read_update(wire: Mapping[str, Any]) -> PodSetUpdate:
    return PodSetUpdate(
        name=wire["name"],
        labels=wire.get("labels") or {},
        annotations=wire.get("annotations") or {},
        node_selector=wire.get("nodeSelector") or {},
        tolerations=tuple(
            Toleration(
                t.get("key") or "",
                t.get("operator") or "Equal",
                t.get("value") or "",
                t.get("effect") or "",
            )
            for t in wire.get("tolerations") or ()
        ),
    )


def write_checks(
    before: Iterable[Mapping[str, Any]], states: Iterable[AdmissionCheckState]
) -> list[Json]:
    """status.admissionChecks with these states.

    An entry that says what it said is kept as it is, with fields that the core does not know.
    What others add to pods is never written by us but in such an entry.
    """
    known = {entry["name"]: dict(entry) for entry in before}
    written = []
    for state in states:
        entry = known.get(state.name)
        kept = entry is not None and read_check(entry) == state
        written.append(entry if entry is not None and kept else _write_check(state))
    return written


def _write_check(state: AdmissionCheckState) -> Json:
    wire: Json = {"name": state.name, "state": state.state.value, "message": state.message[:32768]}
    if state.changed_at is not None:
        wire["lastTransitionTime"] = wire_moment(state.changed_at)
    if state.requeue_after_s is not None:
        wire["requeueAfterSeconds"] = int(state.requeue_after_s)
    if state.retry_count is not None:
        wire["retryCount"] = state.retry_count
    return wire


def wire_moment(seconds: float) -> str:
    """A time as the API writes it: whole seconds, never before the time itself."""
    return wire_time(datetime.fromtimestamp(math.ceil(seconds), UTC))
