"""From exact requests of a pod to what quota is asked for, and how many pods count."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.policies import ResourceRules, Transformation, TransformationStrategy
from federation.core.quantity import MAX_AMOUNT, exact_quantity
from federation.core.requests import (
    chargeable,
    charged,
    effective_count,
    remaining,
    shrink,
    to_amount,
)
from federation.core.types import Admission, PodSet, PodSetAssignment
from tests.unit.core.build import FEW

Texts = dict[str, str]
RETAIN, REPLACE = TransformationStrategy.RETAIN, TransformationStrategy.REPLACE


def exact(values: Texts) -> dict[str, Fraction]:
    return {name: exact_quantity(text) for name, text in values.items()}


def rule(
    input: str,
    outputs: Texts,
    strategy: TransformationStrategy = RETAIN,
    multiply_by: str = "",
) -> Transformation:
    return Transformation(input, strategy, multiply_by, exact(outputs))


MIG = rule("mig-1g", {"gpu-mem": "5Gi", "credits": "10"}, REPLACE)
MEM = rule("gpu-mem", {"total-mem": "1"}, REPLACE, "gpu")

TRANSFORMED: dict[str, tuple[Texts, list[Transformation], dict[str, int]]] = {
    "nothing to transform": ({"cpu": "1"}, [MIG], {"cpu": 1000}),
    "Replace takes the input away": (
        {"cpu": "1", "mig-1g": "2"},
        [MIG],
        {"cpu": 1000, "gpu-mem": 10 * 2**30, "credits": 20},
    ),
    "Retain keeps it": (
        {"mig-1g": "2"},
        [rule("mig-1g", {"credits": "10"})],
        {"mig-1g": 2, "credits": 20},
    ),
    "outputs of several rules are summed": (
        {"mig-1g": "2", "mig-2g": "1"},
        [MIG, rule("mig-2g", {"credits": "15"}, REPLACE)],
        {"gpu-mem": 10 * 2**30, "credits": 35},
    ),
    "an output adds to what was requested under its name": (
        {"mig-1g": "1", "credits": "3"},
        [MIG],
        {"gpu-mem": 5 * 2**30, "credits": 13},
    ),
    "an output is not transformed again": (
        {"a": "1"},
        [rule("a", {"b": "2"}, REPLACE), rule("b", {"c": "2"}, REPLACE)],
        {"b": 2},
    ),
    "an input may be its own output": ({"a": "3"}, [rule("a", {"a": "2"}, REPLACE)], {"a": 6}),
    "Replace without outputs drops the input": (
        {"a": "3", "cpu": "1"},
        [rule("a", {}, REPLACE)],
        {"cpu": 1000},
    ),
    "multiplyBy scales by another resource": (
        {"gpu-mem": "1000", "gpu": "3"},
        [MEM],
        {"gpu": 3, "total-mem": 3000},
    ),
    "what Retain keeps is not multiplied": (
        {"gpu-mem": "1000", "gpu": "3"},
        [rule("gpu-mem", {"total-mem": "1"}, RETAIN, "gpu")],
        {"gpu": 3, "gpu-mem": 1000, "total-mem": 3000},
    ),
    "a multiplyBy that is not requested multiplies by nothing": (
        {"gpu-mem": "1000"},
        [MEM],
        {"total-mem": 1000},
    ),
    "a multiplyBy of zero gives zero": (
        {"gpu-mem": "1000", "gpu": "0"},
        [MEM],
        {"gpu": 0, "total-mem": 0},
    ),
    "multiplyBy reads the request, not what became of it": (
        {"gpu-mem": "10", "gpu": "2"},
        [MEM, rule("gpu", {"gpu": "100"}, REPLACE)],
        {"gpu": 200, "total-mem": 20},
    ),
    "cpu is scaled exactly": (
        {"cpu": "1500m"},
        [rule("cpu", {"credits": "4"})],
        {"cpu": 1500, "credits": 6},
    ),
    "by cpu as well": (
        {"hours": "4", "cpu": "250m"},
        [rule("hours", {"credits": "1"}, REPLACE, "cpu")],
        {"cpu": 250, "credits": 1},
    ),
    "cpu as an output is in cores": (
        {"gpu": "3"},
        [rule("gpu", {"cpu": "500m"})],
        {"gpu": 3, "cpu": 1500},
    ),
    "fractions round up, once": (
        {"a": "1", "b": "1"},
        [rule("a", {"c": "250m"}, REPLACE), rule("b", {"c": "250m"}, REPLACE)],
        {"c": 1},
    ),
    "a negative output lowers what is requested": (
        {"a": "1", "credits": "10"},
        [rule("a", {"credits": "-4"}, REPLACE)],
        {"credits": 6},
    ),
    "and is floored at zero": (
        {"a": "5", "credits": "10"},
        [rule("a", {"credits": "-4"}, REPLACE)],
        {"credits": 0},
    ),
    "an overflow stops at the largest amount": (
        {"a": "4E", "b": "4E"},
        [rule("a", {"c": "4E"}, REPLACE, "b")],
        {"b": 4 * 10**18, "c": MAX_AMOUNT},
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations(name: str) -> None:
    """kueue-admission.md §2.4 and §10 item 121."""
    requests, rules, expected = TRANSFORMED[name]
    for order in (rules, rules[::-1]):
        assert chargeable(exact(requests), ResourceRules((), tuple(order))) == expected


def test_excluded_prefixes() -> None:
    """Dropped first: a rule neither transforms nor multiplies by what is excluded."""
    rules = ResourceRules(
        ("example.com/", "hidden"),
        (
            rule("example.com/a", {"credits": "1"}),
            rule("gpu", {"mem": "2"}, RETAIN, "hidden"),
        ),
    )
    requests = exact({"example.com/a": "1", "hidden": "7", "gpu": "3", "example.org/a": "1"})
    assert chargeable(requests, rules) == {"gpu": 3, "mem": 6, "example.org/a": 1}


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "1", 1000),
        ("cpu", "1500u", 2),
        ("cpu", "-1", 0),
        ("memory", "1.5", 2),
        ("memory", "9E", 9 * 10**18),
        ("memory", "10E", MAX_AMOUNT),
        ("cpu", "10P", MAX_AMOUNT),
    ],
)
def test_amounts(resource: str, text: str, amount: int) -> None:
    """Rounded up, never negative, never beyond 64 bits."""
    assert to_amount(resource, exact_quantity(text)) == amount


FRACTIONS = st.fractions(min_value=-(10**20), max_value=10**20)
NAMES = st.sampled_from(["cpu", "memory", "gpu", "x.io/a", "x.io/b"])
AMOUNTS = st.dictionaries(NAMES, FRACTIONS, max_size=4)
RULES = st.builds(
    ResourceRules,
    st.lists(st.sampled_from(["x.io/", "gpu"]), max_size=2).map(tuple),
    st.lists(
        st.builds(
            Transformation,
            NAMES,
            st.sampled_from(TransformationStrategy),
            st.one_of(st.just(""), NAMES),
            AMOUNTS,
        ),
        max_size=3,
    ).map(tuple),
)


@FEW
@given(AMOUNTS, RULES)
def test_any_rules_give_amounts(requests: dict[str, Fraction], rules: ResourceRules) -> None:
    """Whatever is configured: whole numbers from 0 to 2^63-1, whatever the order of the rules."""
    result = chargeable(requests, rules)
    assert all(type(n) is int and 0 <= n <= MAX_AMOUNT for n in result.values())
    turned = ResourceRules(rules.excluded_prefixes, rules.transformations[::-1])
    assert chargeable(dict(reversed(requests.items())), turned) == result


def pods(count: int, min_count: int | None = None, name: str = "main") -> PodSet:
    return PodSet(name, count, {"gpu": 2}, min_count=min_count)


@pytest.mark.parametrize(
    ("count", "reclaimable", "left"), [(5, 0, 5), (5, 2, 3), (5, 5, 0), (5, 9, 0), (5, -3, 5)]
)
def test_effective_count(count: int, reclaimable: int, left: int) -> None:
    """Reclaimable pods do not count, and there are never fewer than none."""
    assert effective_count(pods(count), reclaimable) == left


def test_pending_requests_shrink_by_what_is_reclaimable() -> None:
    """kueue-admission.md §10 item 98; other pod sets stay."""
    sets = (pods(5), pods(3, name="other"))
    assert remaining(sets, {"main": 2}) == (pods(3), pods(3, name="other"))
    assert remaining(sets, {}) == sets


@pytest.mark.parametrize(
    ("reclaimable", "count", "min_count"), [(1, 4, 3), (2, 3, None), (4, 1, None), (0, 5, 3)]
)
def test_partial_admission_of_what_is_left(
    reclaimable: int, count: int, min_count: int | None
) -> None:
    """Fewer pods than the minimum are left: all of them are needed."""
    (left,) = remaining((pods(5, 3),), {"main": reclaimable})
    assert (left.count, left.min_count) == (count, min_count)


ASSIGNED = PodSetAssignment("main", 7, {"gpu": "f", "pods": "f"}, {"gpu": 14, "pods": 7})


@pytest.mark.parametrize(
    ("count", "asked", "reclaimable", "held"),
    [
        (7, 10, 0, 7),  # partially admitted: nothing to give back
        (7, 10, 2, 7),  # 8 are still wanted, 7 were given
        (7, 10, 3, 7),
        (7, 10, 4, 6),
        (7, 7, 5, 2),
        (7, 7, 9, 0),
    ],
)
def test_admitted_usage(count: int, asked: int, reclaimable: int, held: int) -> None:
    """An assignment shrinks only below what was assigned, at its own price per pod."""
    before = Admission("cq", (ASSIGNED,))
    after = charged(before, (pods(asked),), {"main": reclaimable})
    assert after.pod_sets[0].count == held
    assert after.pod_sets[0].usage == {"gpu": 2 * held, "pods": held}
    if held == count:
        assert after is before


def test_a_pod_set_that_is_not_known_keeps_its_usage() -> None:
    """An admission may be older than the pod sets."""
    before = Admission("cq", (ASSIGNED,))
    assert charged(before, (pods(2, name="other"),), {"main": 7}) == before


@FEW
@given(st.integers(0, 50), st.integers(1, 50), st.integers(0, 2**60))
def test_shrinking_is_monotone(count: int, assigned: int, each: int) -> None:
    """Fewer pods never hold more; nothing is ever negative; shrinking twice is shrinking once."""
    before = PodSetAssignment("main", assigned, {"gpu": "f"}, {"gpu": each * assigned})
    after = shrink(before, count)
    assert after.usage["gpu"] == each * min(count, assigned)
    assert shrink(after, count) == after
