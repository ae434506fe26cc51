"""LimitRanges: what several of them say together, what they add, and what breaks them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from federation.core.limit_range import (
    LimitItem,
    Wants,
    defaulted,
    excess,
    summarize,
    violations,
)
from federation.core.quantity import exact_quantity

Texts = dict[str, str]


def exact(values: Texts) -> dict[str, Fraction]:
    return {name: exact_quantity(text) for name, text in values.items()}


def wants(requests: Texts | None = None, limits: Texts | None = None) -> Wants:
    return Wants(exact(requests or {}), exact(limits or {}))


def item(kind: str = "Container", **amounts: Texts) -> LimitItem:
    return LimitItem(kind, **{name: exact(values) for name, values in amounts.items()})


def test_the_strictest_of_several_counts() -> None:
    """Lowest max and ratio, highest min, first default; kinds stay apart."""
    found = summarize(
        [
            item(maximum={"cpu": "4"}, minimum={"cpu": "1"}, default={"cpu": "2"}),
            item("Pod", maximum={"cpu": "9"}),
            item(
                maximum={"cpu": "3", "memory": "1Gi"},
                minimum={"cpu": "500m"},
                default={"cpu": "1", "memory": "1Mi"},
                default_request={"cpu": "1"},
                max_ratio={"cpu": "3"},
            ),
            item(max_ratio={"cpu": "2"}),
        ]
    )
    assert found == {
        "Container": item(
            maximum={"cpu": "3", "memory": "1Gi"},
            minimum={"cpu": "1"},
            default={"cpu": "2", "memory": "1Mi"},
            default_request={"cpu": "1"},
            max_ratio={"cpu": "2"},
        ),
        "Pod": item("Pod", maximum={"cpu": "9"}),
    }
    assert summarize([]) == {}


DEFAULT = item(default={"cpu": "2", "memory": "2Gi"}, default_request={"cpu": "1"})
DEFAULTS: dict[str, tuple[Wants, LimitItem | None, Wants]] = {
    "nothing given": (wants(), DEFAULT, wants({"cpu": "1"}, {"cpu": "2", "memory": "2Gi"})),
    "what is given stays": (
        wants({"cpu": "3"}, {"cpu": "5"}),
        DEFAULT,
        wants({"cpu": "3"}, {"cpu": "5", "memory": "2Gi"}),
    ),
    "a limit is the request, before any default": (
        wants(limits={"cpu": "3"}),
        DEFAULT,
        wants({"cpu": "3"}, {"cpu": "3", "memory": "2Gi"}),
    ),
    "without a LimitRange too": (
        wants({"gpu": "1"}, {"cpu": "3"}),
        None,
        wants({"cpu": "3", "gpu": "1"}, {"cpu": "3"}),
    ),
    "zero is given": (
        wants({"cpu": "0"}),
        DEFAULT,
        wants({"cpu": "0"}, {"cpu": "2", "memory": "2Gi"}),
    ),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name: str) -> None:
    """What a container really gets."""
    given, limits, expected = DEFAULTS[name]
    assert defaulted(given, limits) == expected


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (wants({"cpu": "1"}, {"cpu": "1"}), ""),
        (wants({"cpu": "1"}), ""),
        (wants({"cpu": "1000m", "gpu": "2"}, {"cpu": "1"}), ""),
        (wants({"cpu": "1001m"}, {"cpu": "1"}), "requests must not exceed limits: cpu 1001m > 1"),
        (
            wants({"memory": "2Gi", "cpu": "2"}, {"cpu": "1", "memory": "1Gi"}),
            "requests must not exceed limits: cpu 2 > 1, memory 2Gi > 1Gi",
        ),
    ],
)
def test_requests_above_limits(given: Wants, text: str) -> None:
    """kueue-admission.md §10 item 35; a request without a limit is free."""
    assert excess(given) == text


BOUNDS = item(
    maximum={"cpu": "4", "memory": "1Gi"}, minimum={"cpu": "500m"}, max_ratio={"cpu": "2"}
)
VIOLATIONS: dict[str, tuple[Wants, str]] = {
    "within": (wants({"cpu": "2"}, {"cpu": "4"}), ""),
    "nothing named": (wants({"gpu": "100"}), ""),
    "exactly the bounds": (wants({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1"}), ""),
    "a request above the max": (
        wants({"memory": "2Gi"}),
        "requests must not be above the LimitRange's max: memory 2Gi > 1Gi",
    ),
    "a limit above the max": (
        wants({"memory": "1Mi"}, {"memory": "2Gi"}),
        "requests must not be above the LimitRange's max: memory 2Gi > 1Gi",
    ),
    "a request below the min": (
        wants({"cpu": "400m"}, {"cpu": "500m"}),
        "requests must not be below the LimitRange's min: cpu 400m < 500m",
    ),
    "too much more limit than request": (
        wants({"cpu": "1"}, {"cpu": "2500m"}),
        "limits must not be more times the requests than the LimitRange's maxLimitRequestRatio:"
        " cpu 2.5 > 2",
    ),
    "no ratio to nothing": (
        wants({"cpu": "0"}, {"cpu": "1"}),
        "requests must not be below the LimitRange's min: cpu 0 < 500m",
    ),
    "several at once": (
        wants({"cpu": "1", "memory": "3Gi"}, {"cpu": "5"}),
        "requests must not be above the LimitRange's max: cpu 5 > 4, memory 3Gi > 1Gi; limits must"
        " not be more times the requests than the LimitRange's maxLimitRequestRatio: cpu 5 > 2",
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_violations(name: str) -> None:
    """kueue-admission.md §10 item 36; only what both sides name is compared."""
    given, text = VIOLATIONS[name]
    assert violations(given, BOUNDS) == text
    assert violations(given, None) == ""


def test_amounts_beyond_all_measure() -> None:
    """Are told about, not stumbled over."""
    huge = Wants({"cpu": Fraction(1, 10**300)}, {"cpu": Fraction(10**300)})
    assert "maxLimitRequestRatio" in violations(huge, BOUNDS)
