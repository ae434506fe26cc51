"""Counters of a Workload's status, its PodsReady condition, and when it may be deleted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.bookkeeping import (
    EvictionCount,
    accumulated_past,
    counted,
    deactivated_by_queue,
    expires_at,
    pods_ready_condition,
)
from federation.core.policies import Retention
from federation.core.reasons import Reason, deactivated_due_to
from tests.unit.core.build import FEW

OVER = deactivated_due_to(Reason.MAXIMUM_EXECUTION_TIME_EXCEEDED)


@pytest.mark.parametrize(
    ("past", "admitted_at", "now", "evicted", "expected"),
    [
        (0, 100.0, 160.0, "", 60),
        (40, 100.0, 160.0, Reason.PREEMPTED, 100),
        (40, 100.0, 160.9, Reason.PREEMPTED, 100),
        (40, 100.0, 100.0, Reason.PREEMPTED, 40),
        (40, 100.0, 50.0, Reason.PREEMPTED, 40),
        (40, None, 160.0, Reason.PREEMPTED, 40),
        (40, 100.0, 160.0, OVER, 0),
        (40, 100.0, 160.0, Reason.DEACTIVATED, 100),
        (40, 100.0, 160.0, deactivated_due_to(Reason.ADMISSION_CHECK), 100),
        (-5, 100.0, 160.0, "", 60),
        (2**31 - 1, 100.0, 160.0, "", 2**31 - 1),
    ],
)
def test_execution_time_grows_when_admission_ends(
    past: int, admitted_at: float | None, now: float, evicted: str, expected: int
) -> None:
    assert accumulated_past(past, admitted_at, now, evicted) == expected


@pytest.mark.parametrize(
    ("past", "ran", "idle", "expected"),
    [
        (40, 60.0, 50.0, 50),
        (40, 60.0, 60.0, 40),
        (40, 10.0, 600.0, 40),
    ],
)
def test_what_stood_still_is_no_execution(
    past: int, ran: float, idle: float, expected: int
) -> None:
    assert accumulated_past(past, 100.0, 100.0 + ran, "", idle) == expected


@pytest.mark.parametrize(
    ("admitted", "ready", "before", "expected"),
    [
        (False, False, None, (False, "WaitForStart")),
        (False, True, (True, Reason.STARTED), (False, "WaitForStart")),
        (False, False, (False, Reason.WAIT_FOR_RECOVERY), (False, "WaitForStart")),
        (True, False, None, (False, "WaitForStart")),
        (True, False, (False, Reason.WAIT_FOR_START), (False, "WaitForStart")),
        (True, True, None, (True, "Started")),
        (True, True, (False, Reason.WAIT_FOR_START), (True, "Started")),
        (True, True, (True, Reason.STARTED), (True, "Started")),
        (True, False, (True, Reason.STARTED), (False, "WaitForRecovery")),
        (True, False, (False, Reason.WAIT_FOR_RECOVERY), (False, "WaitForRecovery")),
        (True, True, (False, Reason.WAIT_FOR_RECOVERY), (True, "Recovered")),
        (True, True, (True, Reason.RECOVERED), (True, "Recovered")),
        (True, False, (True, Reason.RECOVERED), (False, "WaitForRecovery")),
    ],
)
def test_pods_ready_condition(
    admitted: bool, ready: bool, before: tuple[bool, str] | None, expected: tuple[bool, str]
) -> None:
    assert pods_ready_condition(admitted, ready, before) == expected


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
@FEW
def test_pods_wait_for_recovery_only_after_they_were_ready(steps: list[tuple[bool, bool]]) -> None:
    condition: tuple[bool, str] | None = None
    were_ready = False
    for admitted, ready in steps:
        were_ready = admitted and (were_ready or ready)
        condition = pods_ready_condition(admitted, ready, condition)
        assert condition[0] == (admitted and ready)
        assert (condition[1] == Reason.WAIT_FOR_RECOVERY) == (were_ready and not ready)


def test_evictions_are_counted_by_reason_and_cause() -> None:
    counts: tuple[EvictionCount, ...] = ()
    for reason, cause in [
        ("Preempted", ""),
        ("PodsReadyTimeout", "WaitForStart"),
        ("PodsReadyTimeout", "WaitForRecovery"),
        ("PodsReadyTimeout", "WaitForStart"),
    ]:
        counts = counted(counts, reason, cause)
    assert counts == (
        EvictionCount("Preempted", "", 1),
        EvictionCount("PodsReadyTimeout", "WaitForStart", 2),
        EvictionCount("PodsReadyTimeout", "WaitForRecovery", 1),
    )


def test_an_eviction_counter_stays_within_int32() -> None:
    full = (EvictionCount("Preempted", "", 2**31 - 1),)
    assert counted(full, "Preempted", "") == full


@pytest.mark.parametrize(
    ("active", "evicted", "expected"),
    [
        (False, OVER, True),
        (True, OVER, False),  # people activated it again
        (False, "Deactivated", False),
        (False, "Preempted", False),
        (False, "", False),
    ],
)
def test_who_deactivated(active: bool, evicted: str, expected: bool) -> None:
    assert deactivated_by_queue(active, evicted) is expected


BOTH = Retention(after_finished_s=100, after_deactivated_s=10)


@pytest.mark.parametrize(
    ("finished", "deactivated", "retention", "expected"),
    [
        (None, None, BOTH, None),
        (1000.0, None, BOTH, 1100.0),
        (None, 1000.0, BOTH, 1010.0),
        (1000.0, 900.0, BOTH, 1100.0),
        (1000.0, None, Retention(after_finished_s=0), 1000.0),
        (1000.0, None, Retention(after_deactivated_s=10), None),
        (None, 1000.0, Retention(after_finished_s=10), None),
        (1000.0, 1000.0, Retention(after_deactivated_s=10), None),
        (1000.0, 1000.0, Retention(), None),
    ],
)
def test_retention(
    finished: float | None,
    deactivated: float | None,
    retention: Retention,
    expected: float | None,
) -> None:
    assert expires_at(finished, deactivated, retention) == expected
