"""Checks, stop policies, unready pods, execution time, deactivation: one verdict at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from federation.core.backoff import RequeueState
from federation.core.checks import AdmissionCheckState, CheckState
from federation.core.controls import (
    Deactivate,
    Evict,
    Life,
    Nothing,
    Readmit,
    Release,
    Verdict,
    Why,
    control,
)
from federation.core.policies import PodsReady, StopPolicy
from federation.core.reasons import Reason

T0 = 1_800_000_000.0
RULES = PodsReady(backoff_limit=2)
NONE, HOLD, DRAIN = StopPolicy
RETRY = AdmissionCheckState("c", CheckState.RETRY, "no room", T0, 90.0)
REJECTED = AdmissionCheckState("d", CheckState.REJECTED, "never")

RUNS = Life(reserved=True, admitted=True, admitted_at=T0, pods_ready=True)
STARTS = replace(RUNS, pods_ready=False)
RESERVED = Life(reserved=True)
WAITS = Life()


def judge(life: Life, now: float = T0 + 1, rules: PodsReady | None = RULES) -> Verdict:
    return control(life, rules, now)


# Nothing to do


@pytest.mark.parametrize("life", [WAITS, RESERVED, RUNS, replace(RUNS, evicted="Preempted")])
def test_a_quiet_life_needs_nothing(life: Life) -> None:
    assert judge(life) == Nothing()


# Unready pods


@pytest.mark.parametrize(
    ("now", "due"),
    [(T0, False), (T0 + 1799.999, False), (T0 + 1800, True), (T0 + 9999, True), (T0 - 9999, False)],
)
def test_pods_have_the_timeout_to_start(now: float, due: bool) -> None:
    verdict = judge(STARTS, now)
    if not due:
        assert verdict == Nothing(T0 + 1800)
        return
    assert isinstance(verdict, Evict)
    assert (verdict.reason, verdict.cause) == ("PodsReadyTimeout", "WaitForStart")
    assert verdict.requeue == RequeueState(1, now + 60)
    assert "1800 s" in verdict.message


@pytest.mark.parametrize(("now", "due"), [(T0 + 5299, False), (T0 + 5300, True)])
def test_pods_have_the_recovery_timeout_to_come_back(now: float, due: bool) -> None:
    rules = PodsReady(recovery_timeout_s=300)
    life = replace(STARTS, pods_were_ready=True, pods_ready_changed_at=T0 + 5000)
    verdict = judge(life, now, rules)
    if not due:
        assert verdict == Nothing(T0 + 5300)
        return
    assert isinstance(verdict, Evict)
    assert verdict.cause == "WaitForRecovery"
    assert "300 s" in verdict.message


def test_pods_that_failed_in_the_second_of_their_admission_wait_for_recovery() -> None:
    life = replace(STARTS, pods_were_ready=True, pods_ready_changed_at=T0)
    assert judge(life, T0, PodsReady(recovery_timeout_s=10)) == Nothing(T0 + 10)


def test_without_a_recovery_timeout_pods_may_stay_away() -> None:
    life = replace(STARTS, pods_were_ready=True, pods_ready_changed_at=T0 + 1)
    assert judge(life, T0 + 1e9, PodsReady(recovery_timeout_s=None)) == Nothing()


@pytest.mark.parametrize("changed", [None, T0 - 1])
def test_readiness_of_an_earlier_admission_does_not_count(changed: float | None) -> None:
    rules = PodsReady(recovery_timeout_s=10)
    life = replace(STARTS, pods_were_ready=True, pods_ready_changed_at=changed)
    assert judge(life, T0 + 60, rules) == Nothing(T0 + 1800)


@pytest.mark.parametrize(
    ("life", "rules"),
    [
        (STARTS, None),
        (RUNS, RULES),
        (replace(STARTS, admitted=False), RULES),
        (replace(STARTS, admitted_at=None), RULES),
        (replace(STARTS, evicted="Preempted"), RULES),
    ],
)
def test_no_timeout_for_what_is_ready_unadmitted_untimed_or_leaving(
    life: Life, rules: PodsReady | None
) -> None:
    assert judge(life, T0 + 1e9, rules) == Nothing()


@pytest.mark.parametrize(("count", "deactivated"), [(0, False), (1, False), (2, True), (9, True)])
def test_more_timeouts_than_the_limit_deactivate(count: int, deactivated: bool) -> None:
    verdict = judge(replace(STARTS, requeue=RequeueState(count)), T0 + 1800)
    assert isinstance(verdict, Deactivate) is deactivated
    assert verdict.reason == ("RequeuingLimitExceeded" if deactivated else "PodsReadyTimeout")


# Execution time


@pytest.mark.parametrize(
    ("past", "now", "due"),
    [(0, 599.9, False), (0, 600, True), (100, 499, False), (100, 500, True), (700, 0, True)],
)
def test_execution_time_counts_over_all_admissions(past: int, now: float, due: bool) -> None:
    life = replace(RUNS, max_execution_s=600, accumulated_past_s=past)
    verdict = judge(life, T0 + now)
    if not due:
        assert verdict == Nothing(T0 + 600 - past)
        return
    assert isinstance(verdict, Deactivate)
    assert verdict.reason == "MaximumExecutionTimeExceeded"
    assert "600 s" in verdict.message


@pytest.mark.parametrize(
    "life", [replace(RUNS, admitted=False), replace(RUNS, admitted_at=None), RESERVED, WAITS]
)
def test_no_execution_time_without_a_known_admission(life: Life) -> None:
    assert judge(replace(life, max_execution_s=1), T0 + 1e9) == Nothing()


def test_what_is_being_evicted_still_runs_out_of_time() -> None:
    life = replace(RUNS, evicted="Preempted", max_execution_s=600)
    assert judge(life, T0 + 599) == Nothing(T0 + 600)
    assert isinstance(judge(life, T0 + 600), Deactivate)


def test_what_is_stopping_for_a_deactivation_is_not_deactivated_again() -> None:
    life = replace(RUNS, evicted="DeactivatedDueToMaximumExecutionTimeExceeded", max_execution_s=1)
    assert judge(life, T0 + 1e9) == Nothing()


def test_the_first_of_two_clocks_wakes() -> None:
    assert judge(replace(STARTS, max_execution_s=3000)) == Nothing(T0 + 1800)
    assert judge(replace(STARTS, max_execution_s=1000)) == Nothing(T0 + 1000)


# Checks


def test_a_check_to_be_retried_evicts_until_its_time() -> None:
    assert judge(replace(RESERVED, checks=(RETRY,), requeue=RequeueState(3))) == Evict(
        "AdmissionCheck",
        'Evicted due to AdmissionCheck in Retry state: "c" (no room)',
        RequeueState(3, T0 + 90),
    )


def test_an_announced_time_to_requeue_at_is_not_moved_earlier() -> None:
    life = replace(RESERVED, checks=(RETRY,), requeue=RequeueState(3, T0 + 500))
    verdict = judge(life)
    assert isinstance(verdict, Evict)
    assert verdict.requeue == RequeueState(3, T0 + 500)


@pytest.mark.parametrize("life", [RESERVED, RUNS])
def test_a_rejected_check_deactivates_also_what_runs(life: Life) -> None:
    assert judge(replace(life, checks=(RETRY, REJECTED))) == Deactivate(
        "AdmissionCheck", 'AdmissionCheck in Rejected state: "d" (never)'
    )


def test_checks_of_what_is_evicted_already_do_not_count() -> None:
    assert judge(replace(RUNS, evicted="Preempted", checks=(RETRY, REJECTED))) == Nothing()


# Stopped queues


@pytest.mark.parametrize(
    ("life", "queues", "verdict"),
    [
        (RUNS, {"local_queue": HOLD}, Nothing()),
        (RUNS, {"cluster_queue": HOLD}, Nothing()),
        (RUNS, {"local_queue": None, "cluster_queue": None}, Nothing()),
        (
            RUNS,
            {"local_queue": DRAIN},
            Evict("LocalQueueStopped", "The LocalQueue is stopped", RequeueState()),
        ),
        (
            RUNS,
            {"cluster_queue": DRAIN},
            Evict("ClusterQueueStopped", "The ClusterQueue is stopped", RequeueState()),
        ),
        (
            RUNS,
            {"local_queue": DRAIN, "cluster_queue": DRAIN},
            Evict("LocalQueueStopped", "The LocalQueue is stopped", RequeueState()),
        ),
        (RESERVED, {"local_queue": HOLD}, Release("Suspended", "The LocalQueue is stopped")),
        (RESERVED, {"cluster_queue": HOLD}, Release("Suspended", "The ClusterQueue is stopped")),
        (RESERVED, {"cluster_queue": DRAIN}, Release("Suspended", "The ClusterQueue is stopped")),
        (
            RESERVED,
            {"local_queue": None},
            Release("Misconfigured", "The LocalQueue is terminating or missing"),
        ),
        (
            RESERVED,
            {"cluster_queue": None},
            Release("Misconfigured", "The ClusterQueue is terminating or missing"),
        ),
        (replace(RUNS, evicted="Preempted"), {"local_queue": DRAIN}, Nothing()),
        (replace(RESERVED, evicted="AdmissionCheck"), {"local_queue": HOLD}, Nothing()),
        (WAITS, {"local_queue": DRAIN, "cluster_queue": DRAIN}, Nothing()),
    ],
)
def test_stopped_queues(life: Life, queues: dict[str, StopPolicy | None], verdict: Verdict) -> None:
    assert judge(replace(life, **queues)) == verdict


def test_a_drained_workload_keeps_its_count_of_timeouts() -> None:
    verdict = judge(replace(RUNS, cluster_queue=DRAIN, requeue=RequeueState(2, T0)))
    assert isinstance(verdict, Evict)
    assert verdict.requeue == RequeueState(2, T0)


# Deactivation


@pytest.mark.parametrize("life", [WAITS, RESERVED, RUNS, replace(RUNS, evicted="Preempted")])
def test_inactive_workloads_are_evicted_whatever_they_do(life: Life) -> None:
    inactive = replace(life, active=False, requeue=RequeueState(4, T0 + 99))
    assert judge(inactive) == Evict("Deactivated", "The workload is deactivated", RequeueState())


def test_a_deactivation_by_the_queue_names_its_cause() -> None:
    target = Why(Reason.MAXIMUM_EXECUTION_TIME_EXCEEDED, "exceeding the maximum execution time")
    assert judge(replace(RUNS, active=False, target=target)) == Evict(
        "DeactivatedDueToMaximumExecutionTimeExceeded",
        "The workload is deactivated due to exceeding the maximum execution time",
        RequeueState(),
        "MaximumExecutionTimeExceeded",
    )


@pytest.mark.parametrize("reason", ["Deactivated", "DeactivatedDueToAdmissionCheck"])
def test_a_deactivated_workload_is_evicted_once(reason: str) -> None:
    assert judge(replace(RUNS, active=False, evicted=reason)) == Nothing()


def test_a_set_target_is_carried_out_before_anything_else() -> None:
    life = replace(STARTS, target=Why("AdmissionCheck", "why"), checks=(RETRY,), local_queue=DRAIN)
    assert judge(life, T0 + 1e9) == Deactivate("AdmissionCheck", "why")


# Precedence


def test_order_of_precedence() -> None:
    """Everything is due at once; take away the first cause each time."""
    life = replace(
        STARTS,
        checks=(RETRY, REJECTED),
        local_queue=DRAIN,
        cluster_queue=DRAIN,
        max_execution_s=1,
    )
    seen = []
    for change in (
        {},
        {"checks": (RETRY,)},
        {"checks": ()},
        {"local_queue": NONE},
        {"cluster_queue": NONE},
        {"pods_ready": True},
        {"max_execution_s": None},
    ):
        life = replace(life, **change)
        verdict = judge(life, T0 + 1e6)
        seen.append((type(verdict), getattr(verdict, "reason", "")))
    assert seen == [
        (Deactivate, "AdmissionCheck"),
        (Evict, "AdmissionCheck"),
        (Evict, "LocalQueueStopped"),
        (Evict, "ClusterQueueStopped"),
        (Evict, "PodsReadyTimeout"),
        (Deactivate, "MaximumExecutionTimeExceeded"),
        (Nothing, ""),
    ]


# Back to the queue


@pytest.mark.parametrize(
    ("requeued", "more", "reason"),
    [
        ("Deactivated", {}, "Reactivated"),
        ("DeactivatedDueToRequeuingLimitExceeded", {}, "Reactivated"),
        ("PodsReadyTimeout", {}, "BackoffFinished"),
        ("AdmissionCheck", {}, "BackoffFinished"),
        ("LocalQueueStopped", {}, "LocalQueueRestarted"),
        ("ClusterQueueStopped", {}, "ClusterQueueRestarted"),
        ("LocalQueueStopped", {"local_queue": HOLD}, None),
        ("LocalQueueStopped", {"local_queue": None}, None),
        ("ClusterQueueStopped", {"cluster_queue": DRAIN}, None),
        ("LocalQueueStopped", {"cluster_queue": HOLD}, "LocalQueueRestarted"),
        ("FromTheFuture", {}, "BackoffFinished"),
        ("", {}, None),
    ],
)
def test_requeueing(requeued: str, more: dict[str, StopPolicy], reason: str | None) -> None:
    verdict = judge(replace(WAITS, requeued=requeued, **more))
    if reason is None:
        assert verdict == Nothing()
    else:
        assert isinstance(verdict, Readmit)
        assert verdict.reason == reason


@pytest.mark.parametrize(
    "requeued", ["PodsReadyTimeout", "AdmissionCheck", "LocalQueueStopped", ""]
)
def test_nothing_queues_before_its_time(requeued: str) -> None:
    life = replace(WAITS, requeued=requeued, requeue=RequeueState(1, T0 + 60))
    assert judge(life, T0 + 59.999) == Nothing(T0 + 60)
    assert isinstance(judge(life, T0 + 60), Readmit if requeued else Nothing)
