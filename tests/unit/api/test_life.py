"""What a Workload says of its life, read from any writer's status."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.life import moment, read_life, wire_moment, write_checks
from federation.core.backoff import RequeueState
from federation.core.checks import AdmissionCheckState, CheckState
from federation.core.controls import Life, Why
from federation.core.types import Toleration

T = "2026-01-01T00:00:00Z"
AT = 1767225600.0


def condition(kind: str, status: str, reason: str = "R", **more: str) -> dict[str, Any]:
    fields = {"type": kind, "status": status, "reason": reason, "message": "m"}
    return {**fields, "lastTransitionTime": T, **more}


def test_nothing_said() -> None:
    """A new Workload is active and has no history."""
    assert read_life({}, {}) == Life()


@pytest.mark.parametrize(
    ("wire", "field", "expected"),
    [
        (condition("QuotaReserved", "True"), "reserved", True),
        (condition("QuotaReserved", "False"), "reserved", False),
        (condition("Admitted", "True"), "admitted", True),
        (condition("Admitted", "True"), "admitted_at", AT),
        (condition("Admitted", "False"), "admitted_at", None),
        (condition("Evicted", "True", "Preempted"), "evicted", "Preempted"),
        (condition("Evicted", "False", "QuotaReserved"), "evicted", ""),
        (condition("Requeued", "False", "PodsReadyTimeout"), "requeued", "PodsReadyTimeout"),
        (condition("Requeued", "True", "BackoffFinished"), "requeued", ""),
        (condition("DeactivationTarget", "True", "X"), "target", Why("X", "m")),
        (condition("DeactivationTarget", "False", "X"), "target", None),
        (condition("PodsReady", "True", "Started"), "pods_ready", True),
        (condition("PodsReady", "True", "Started"), "pods_ready_changed_at", AT),
        (condition("PodsReady", "True", "Recovered"), "pods_were_ready", False),
        (condition("PodsReady", "False", "WaitForStart"), "pods_were_ready", False),
        (condition("PodsReady", "False", "WaitForRecovery"), "pods_were_ready", True),
    ],
)
def test_conditions(wire: dict[str, Any], field: str, expected: object) -> None:
    """Each says one thing; one that is False says another or nothing."""
    assert getattr(read_life({}, {"conditions": [wire]}), field) == expected


def test_spec_and_counters() -> None:
    """The limits and what has been used of them."""
    life = read_life(
        {"active": False, "maximumExecutionTimeSeconds": 60},
        {
            "requeueState": {"count": 2, "requeueAt": T},
            "accumulatedPastExecutionTimeSeconds": 7,
        },
    )
    assert (life.active, life.max_execution_s, life.accumulated_past_s) == (False, 60, 7)
    assert life.requeue == RequeueState(2, AT)


def test_checks() -> None:
    """With what they want added to pods; a state that nobody knows decides nothing."""
    update = {
        "name": "main",
        "nodeSelector": {"pool": "x"},
        "tolerations": [{"key": "k", "effect": "NoSchedule"}],
    }
    wire = [
        {"name": "a", "state": "Retry", "requeueAfterSeconds": 5, "lastTransitionTime": T},
        {"name": "b", "state": "Ready", "podSetUpdates": [update]},
        {"name": "c", "state": "Perhaps"},
    ]
    first, second, third = read_life({}, {"admissionChecks": wire}).checks
    assert first == AdmissionCheckState("a", CheckState.RETRY, "", AT, 5)
    assert second.updates[0].node_selector == {"pool": "x"}
    assert second.updates[0].tolerations == (Toleration("k", "Equal", "", "NoSchedule"),)
    assert third.state is CheckState.PENDING


def test_what_is_not_changed_is_written_as_it_was() -> None:
    """Fields that the core does not know survive; a changed entry is written anew."""
    wire = [{"name": "a", "state": "Ready", "mine": 1}, {"name": "b", "state": "Ready"}]
    states = read_life({}, {"admissionChecks": wire}).checks
    changed = (states[0], AdmissionCheckState("b", CheckState.PENDING, "x", AT, 3, 1))
    assert write_checks(wire, changed) == [
        wire[0],
        {
            "name": "b",
            "state": "Pending",
            "message": "x",
            "lastTransitionTime": T,
            "requeueAfterSeconds": 3,
            "retryCount": 1,
        },
    ]


@pytest.mark.parametrize("text", ["", None, "yesterday", "2026-13-01T00:00:00Z"])
def test_times_that_are_none(text: str | None) -> None:
    """By what is not known no limit passes."""
    assert moment(text) is None


def test_times_are_rounded_up() -> None:
    """The API has whole seconds; nothing that waits for a time may come too early."""
    assert wire_moment(AT) == T
    assert wire_moment(AT + 0.01) == "2026-01-01T00:00:01Z"
