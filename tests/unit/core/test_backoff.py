"""When evicted workloads queue again: doubled delays, limits, and their place in the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.backoff import (
    SPREAD,
    RequeueState,
    after_unready_pods,
    delay,
    later,
    queue_timestamp,
    spread,
)
from federation.core.policies import PodsReady, RequeueTimestamp
from federation.core.reasons import Reason, deactivated_due_to
from tests.unit.core.build import FEW

NOW = 1_800_000_000.0
DEFAULT = PodsReady()


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 60), (2, 120), (3, 240), (4, 480), (5, 960), (6, 1920), (7, 3600), (8, 3600)],
)
def test_delays_double_up_to_the_greatest(count: int, expected: float) -> None:
    assert delay(count, 60, 3600) == expected


@pytest.mark.parametrize("count", [-(10**30), -1, 0])
def test_a_count_that_cannot_be_is_the_first(count: int) -> None:
    assert delay(count, 60, 3600) == 60


@pytest.mark.parametrize(
    ("count", "base", "most", "expected"),
    [
        (10**18, 60, 3600, 3600),
        (2**31, 1, 2**31 - 1, 2**31 - 1),
        (10**18, 0, 3600, 0),
        (1, 7200, 3600, 3600),
        (5, 60, 0, 0),
    ],
)
def test_huge_counts_and_odd_settings_give_a_delay(
    count: int, base: float, most: float, expected: float
) -> None:
    assert delay(count, base, most) == expected


@given(st.integers(1, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
@FEW
def test_a_later_try_never_waits_less(count: int, base: int, most: int) -> None:
    assert delay(count, base, most) <= delay(count + 1, base, most) <= most


@pytest.mark.parametrize(
    ("current", "other", "expected"),
    [(None, None, None), (1.0, None, 1.0), (None, 1.0, 1.0), (1.0, 2.0, 2.0), (2.0, 1.0, 2.0)],
)
def test_the_later_of_two_times_that_may_be_missing(
    current: float | None, other: float | None, expected: float | None
) -> None:
    assert later(current, other) == expected


def test_each_eviction_counts_and_waits_twice_as_long() -> None:
    requeue = RequeueState()
    waits = []
    now = NOW
    for _ in range(8):
        after = after_unready_pods(requeue, DEFAULT, now, 0.0)
        assert after is not None
        assert after.at is not None
        waits.append(after.at - now)
        requeue, now = after, after.at + 1800

    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert requeue.count == 8


@pytest.mark.parametrize(
    ("limit", "count", "allowed"),
    [
        (2, 0, True),
        (2, 1, True),
        (2, 2, False),
        (2, 99, False),
        (0, 0, False),
        (None, 10**9, True),
    ],
)
def test_the_limit_counts_evictions(limit: int | None, count: int, allowed: bool) -> None:
    rules = PodsReady(backoff_limit=limit)
    assert (after_unready_pods(RequeueState(count), rules, NOW, 0.0) is not None) is allowed


def test_the_counter_stays_within_int32() -> None:
    after = after_unready_pods(RequeueState(2**31 - 1), DEFAULT, NOW, 0.0)
    assert after == RequeueState(2**31 - 1, NOW + 3600)


@pytest.mark.parametrize("random", [-0.1, 1.0, float("nan"), float("inf")])
def test_a_random_number_out_of_range_is_an_error(random: float) -> None:
    with pytest.raises(ValueError, match="random number"):
        after_unready_pods(RequeueState(), DEFAULT, NOW, random)


def test_randomness_spreads_by_a_ten_thousandth_at_most() -> None:
    after = after_unready_pods(RequeueState(), DEFAULT, 0.0, 0.5)
    assert after == RequeueState(1, 60 * 1.00005)


def test_spread_is_even_reproducible_and_less_than_one() -> None:
    drawn = [spread(f"uid-{i}", count) for i in range(100) for count in range(5)]
    assert drawn == [spread(f"uid-{i}", count) for i in range(100) for count in range(5)]
    assert len(set(drawn)) == len(drawn)
    assert 0 <= min(drawn) < 0.05
    assert 0.95 < max(drawn) < 1


@given(
    st.integers(0, 2**31),
    st.one_of(st.none(), st.floats(0, 2e9)),
    st.floats(0, 2e9),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 7200),
)
@FEW
def test_requeue_times_never_move_earlier_and_stay_bounded(
    count: int, at: float | None, now: float, random: float, most: int
) -> None:
    rules = PodsReady(backoff_max_s=most)
    after = after_unready_pods(RequeueState(count, at), rules, now, random)

    assert after is not None
    assert after.at is not None
    assert after.at >= now
    assert at is None or after.at >= at
    bound = now + most * (1 + SPREAD)
    assert after.at <= max(bound, at or 0.0)


@pytest.mark.parametrize(
    ("at", "now", "over"),
    [(None, NOW, True), (NOW, NOW, True), (NOW, NOW - 0.001, False), (NOW, NOW + 1, True)],
)
def test_a_backoff_is_over_exactly_at_its_time(at: float | None, now: float, over: bool) -> None:
    assert RequeueState(1, at).over(now) is over


EVICTION, CREATION = RequeueTimestamp.EVICTION, RequeueTimestamp.CREATION


@pytest.mark.parametrize(
    ("reason", "timestamp", "expected"),
    [
        ("", EVICTION, 10.0),
        (Reason.PODS_READY_TIMEOUT, EVICTION, 99.0),
        (Reason.PODS_READY_TIMEOUT, CREATION, 10.0),
        (Reason.ADMISSION_CHECK, EVICTION, 99.0),
        (Reason.ADMISSION_CHECK, CREATION, 99.0),
        (Reason.PREEMPTED, EVICTION, 10.0),
        (Reason.NODE_FAILURES, EVICTION, 10.0),
        (Reason.CLUSTER_QUEUE_STOPPED, EVICTION, 10.0),
        (Reason.DEACTIVATED, EVICTION, 10.0),
        (deactivated_due_to(Reason.ADMISSION_CHECK), EVICTION, 10.0),
        ("PodsReadyTimeout", EVICTION, 99.0),
    ],
)
def test_queue_timestamp(reason: str, timestamp: RequeueTimestamp, expected: float) -> None:
    assert queue_timestamp(10.0, reason, 99.0, timestamp) == expected


def test_queue_timestamp_without_a_time_of_eviction_is_creation() -> None:
    assert queue_timestamp(10.0, Reason.ADMISSION_CHECK, None, EVICTION) == 10.0
