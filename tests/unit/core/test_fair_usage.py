"""Admission fair sharing: use that ages, penalties at entry, and the order they give."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.fair_usage import (
    UsageState,
    admitted,
    aging,
    assumed,
    dropped,
    sample_at,
    sampled,
    weighted_usage,
)
from federation.core.policies import FairUsage
from tests.unit.core.build import FEW

T0 = 1_800_000_000.0
HOURLY = FairUsage(half_life_s=3600.0, sampling_s=300.0)
QUICK = FairUsage(half_life_s=300.0, sampling_s=300.0)
"""A sampling interval of one half-life: each sample halves the past, a penalty is half the ask."""


@pytest.mark.parametrize(
    ("elapsed", "half_life", "expected"),
    [
        (3600, 3600, 0.5),
        (7200, 3600, 0.75),
        (0, 3600, 0.0),
        (-60, 3600, 0.0),
        (1e12, 3600, 1.0),
        (300, 0, 0.0),
    ],
)
def test_aging_by_half_lives(elapsed: float, half_life: float, expected: float) -> None:
    assert aging(elapsed, FairUsage(half_life_s=half_life)) == expected


def test_past_use_halves_and_present_use_fills_in() -> None:
    state = UsageState({"cpu": 8000.0, "gpu": 2.0}, T0)
    after = sampled(state, {"cpu": 4000, "memory": 100}, T0 + 300, QUICK)
    assert after == UsageState({"cpu": 6000.0, "gpu": 1.0, "memory": 50.0}, T0 + 300)


def test_constant_use_is_where_it_settles() -> None:
    state = UsageState(sampled_at=T0)
    for step in range(1, 60):
        state = sampled(state, {"gpu": 4}, T0 + 300 * step, QUICK)
    assert state.consumed["gpu"] == pytest.approx(4.0)


def test_the_first_sample_takes_present_use_for_past() -> None:
    assert sample_at(UsageState(), HOURLY) is None
    assert sampled(UsageState(), {"gpu": 3}, T0, HOURLY) == UsageState({"gpu": 3.0}, T0)


@pytest.mark.parametrize(("now", "due"), [(T0 + 299.9, False), (T0 + 300, True), (T0 + 900, True)])
def test_samples_are_taken_once_per_interval(now: float, due: bool) -> None:
    state = UsageState({"gpu": 4.0}, T0)
    after = sampled(state, {}, now, HOURLY)
    assert (after != state) is due
    assert sample_at(state, HOURLY) == T0 + 300


def test_a_long_gap_decays_by_the_time_that_passed() -> None:
    after = sampled(UsageState({"gpu": 4.0}, T0), {}, T0 + 7200, HOURLY)
    assert after.consumed["gpu"] == pytest.approx(1.0)


def test_a_clock_that_went_back_decays_nothing_and_starts_anew() -> None:
    state = UsageState({"gpu": 4.0}, T0)
    after = sampled(state, {"gpu": 100}, T0 - 5000, HOURLY)
    assert after == UsageState({"gpu": 4.0}, T0 - 5000)
    assert sampled(after, {"gpu": 100}, T0 - 4700, HOURLY).consumed["gpu"] > 4.0


def test_without_a_half_life_nothing_is_remembered() -> None:
    rules = FairUsage(half_life_s=0)
    state = assumed(UsageState({"gpu": 4.0}, T0), {"gpu": 8})
    assert weighted_usage(state, 1, rules) == 4.0
    assert sampled(state, {"gpu": 8}, T0 + 1, rules).consumed == {"gpu": 0.0}


def test_a_penalty_counts_from_the_reservation_and_becomes_use() -> None:
    asked = {"gpu": 8, "cpu": 2000}
    waiting = assumed(UsageState({"gpu": 1.0}, T0), asked)
    assert weighted_usage(waiting, 1, QUICK) == 1 + 4 + 1

    assert admitted(waiting, asked, QUICK) == UsageState({"gpu": 5.0, "cpu": 1000.0}, T0)


def test_a_penalty_is_dropped_with_its_workload_only() -> None:
    both = assumed(assumed(UsageState({}, T0), {"gpu": 8, "cpu": 1}), {"gpu": 2})
    after = dropped(both, {"gpu": 8, "cpu": 1})
    assert after == UsageState({}, T0, {"gpu": 2})
    assert weighted_usage(after, 1, QUICK) == 1.0


def test_penalties_do_not_age() -> None:
    state = assumed(UsageState({}, T0), {"gpu": 8})
    assert weighted_usage(sampled(state, {}, T0 + 3000, QUICK), 1, QUICK) == 4.0


@pytest.mark.parametrize(
    ("consumed", "weight", "weights", "expected"),
    [
        ({"cpu": 3500.0}, 1.0, {}, 3.5),
        ({"cpu": 3500.0}, 2.0, {}, 1.75),
        ({"cpu": 1000.0, "gpu": 2.0}, 1.0, {"gpu": 10.0}, 21.0),
        ({"cpu": 1000.0, "gpu": 2.0}, 1.0, {"cpu": 0.0, "gpu": 0.5}, 1.0),
        ({}, 1.0, {}, 0.0),
        ({}, 0.0, {}, math.inf),
        ({"gpu": 1.0}, -1.0, {}, math.inf),
    ],
)
def test_weighted_usage(
    consumed: dict[str, float], weight: float, weights: dict[str, float], expected: float
) -> None:
    rules = FairUsage(half_life_s=3600, weights=weights)
    assert weighted_usage(UsageState(consumed, T0), weight, rules) == expected


_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 10**12))


@given(_AMOUNTS, _AMOUNTS, st.floats(300, 1e9))
@FEW
def test_a_sample_lies_between_past_and_present(
    past: dict[str, int], present: dict[str, int], elapsed: float
) -> None:
    state = UsageState({name: float(amount) for name, amount in past.items()}, T0)
    after = sampled(state, present, T0 + elapsed, HOURLY)
    for name in past.keys() | present.keys():
        low, high = sorted((past.get(name, 0), present.get(name, 0)))
        assert low * (1 - 1e-9) <= after.consumed[name] <= high * (1 + 1e-9)


@given(st.lists(st.integers(0, 10**6), max_size=6))
@FEW
def test_admission_moves_penalties_and_loses_nothing(asks: list[int]) -> None:
    state = UsageState({}, T0)
    for amount in asks:
        state = assumed(state, {"gpu": amount})
    before = weighted_usage(state, 1, QUICK)
    for amount in asks:
        state = admitted(state, {"gpu": amount}, QUICK)
    assert state.assumed == {}
    assert weighted_usage(state, 1, QUICK) == pytest.approx(before)
