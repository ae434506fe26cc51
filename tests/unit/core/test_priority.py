"""Effective priority: base and boost."""

from __future__ import annotations

import pytest

from federation.core.priority import BoostError, effective_priority, parse_boost


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("0", 0), ("100", 100), ("+7", 7), ("-5", -5), ("007", 7), ("-2147483648", -(2**31))],
)
def test_boosts_are_whole_numbers(text: str, expected: int) -> None:
    assert parse_boost(text) == expected


@pytest.mark.parametrize(
    "text",
    [" 1", "1 ", "1.5", "high", "1_000", "2147483648", "-2147483649", "٣", "9" * 5000, "--1"],
)
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(BoostError, match="write for example 100 or -5"):
        parse_boost(text)


@pytest.mark.parametrize(
    ("priority", "boost", "expected"),
    [
        (10, 0, 10),
        (10, 5, 15),
        (10, -20, -10),
        (2**31 - 1, 1, 2**31 - 1),
        (-(2**31), -1, -(2**31)),
    ],
)
def test_effective_priority_stays_within_int32(priority: int, boost: int, expected: int) -> None:
    assert effective_priority(priority, boost) == expected
