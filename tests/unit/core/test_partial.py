"""Partial admission: fewer pods where not all fit (§2.4, items 30 to 34)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.assignment import Mode
from federation.core.nomination import nominate
from federation.core.partial import minimum, search
from federation.core.policies import Rules
from federation.core.types import PodSet
from tests.unit.core.build import FEW, LOWER, cq, evicts, group, holds, item, one, pods, quota
from tests.unit.core.stage import Thing, decide, state


def counts(*things: Thing, sets: list[PodSet], rules: Rules | None = None, **more: Any) -> Any:
    """How many pods of each set are admitted; with `!` behind them if only after preemption."""
    entry = nominate(item("x", "q", *sets, **more), state(*things, rules=rules))
    if entry.assignment.mode is Mode.NO_FIT:
        return None
    found = [pods.count for pods in entry.assignment.admission.pod_sets]
    return found if entry.assignment.mode is Mode.FIT else [*found, "!"]


@pytest.mark.parametrize(
    ("room", "expected"), [(10, [10]), (9, [9]), (7, [7]), (3, [3]), (2, [2]), (1, None)]
)
def test_as_many_as_there_is_room_for(room: int, expected: list[int] | None) -> None:
    """Item 30, and the example: of ten pods with a minimum of two, those that fit."""
    assert counts(one("q", room), sets=[pods(10, gpu=1, min_count=2)]) == expected


def test_the_example_step_by_step() -> None:
    """§2.4: T = 8, with room for 7 the steps 4, 2 and 3 are tried."""
    tried = []

    def attempt(sizes: tuple[int, ...]) -> tuple[int, ...] | None:
        tried.append(sizes[0])
        return sizes if sizes[0] <= 7 else None

    assert search([pods(10, min_count=2)], attempt) == (7,)
    assert tried == [6, 8, 7]


def test_all_sets_or_none() -> None:
    """Item 33: the others keep their number."""
    sets = [pods(1, "driver", gpu=2), pods(8, "workers", gpu=1, min_count=1)]

    assert counts(one("q", 6), sets=sets) == [1, 4]
    assert counts(one("q", 3), sets=sets) == [1, 1]
    assert counts(one("q", 2), sets=sets) is None


def test_two_that_can_be_reduced() -> None:
    """In proportion to what each can spare: step i of T takes the part i/T of it, rounded down."""
    sets = [pods(10, "a", gpu=1, min_count=2), pods(4, "b", gpu=1, min_count=2)]

    assert counts(one("q", 9), sets=sets) == [6, 3]
    assert counts(one("q", 4), sets=sets) == [2, 2]


def test_the_whole_with_victims_before_a_part_without() -> None:
    """Item 31."""
    queue = one("q", 10, preemption=evicts(LOWER))
    low = holds("low", "q", 4, -1)

    assert counts(queue, low, sets=[pods(10, gpu=1, min_count=2)]) == [10, "!"]


def test_a_part_with_victims() -> None:
    """Item 32: the whole would not fit even without the low one, the part does."""
    queue = one("q", 10, preemption=evicts(LOWER))
    held = [holds("low", "q", 5, -1), holds("high", "q", 4, 9)]
    wanted = pods(10, gpu=1, min_count=2)

    assert counts(queue, *held, sets=[wanted]) == [6, "!"]
    assert decide(state(queue, *held), item("x", "q", wanted)) == {"x": "preempts low"}


def test_switched_off() -> None:
    """Item 34."""
    rules = Rules(partial_admission=False)
    wanted = pods(10, gpu=1, min_count=2)

    assert counts(one("q", 9), sets=[wanted], rules=rules) is None
    assert counts(one("q", 10), sets=[wanted], rules=rules) == [10]


def test_usage_is_that_of_the_admitted_pods() -> None:
    """Also where pods themselves have quota."""
    queue = cq("q", group("gpu pods", f=(quota(100), quota(3))))
    entry = nominate(item("x", "q", pods(5, gpu=2, min_count=1)), state(queue))

    (admitted,) = entry.assignment.admission.pod_sets
    assert (admitted.count, admitted.usage) == (3, {"gpu": 6, "pods": 3})
    assert {fr.resource: n for fr, n in entry.usage.items()} == {"gpu": 6, "pods": 3}


def test_a_set_without_a_minimum_is_not_reduced() -> None:
    """Nor one whose minimum is no less than its count."""
    assert minimum(pods(5)) == 5
    assert counts(one("q", 4), sets=[pods(5, gpu=1)]) is None
    assert counts(one("q", 4), sets=[pods(5, gpu=1, min_count=7)]) is None


def test_huge_counts() -> None:
    """More pods than any integer of the API can say: still a few dozen attempts."""
    assert counts(one("q", 5), sets=[pods(2**70, gpu=1, min_count=1)]) == [5]


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3),
    st.integers(0, 30),
)
def test_no_larger_step_fits(sizes: list[tuple[int, int]], room: int) -> None:
    """Where fewer always fit: the first step of the way from all to the least pods that does."""
    sets = [
        pods(count, str(n), min_count=min(least, count)) for n, (count, least) in enumerate(sizes)
    ]
    total = sum(p.count - minimum(p) for p in sets)
    steps = [
        tuple(p.count - (p.count - minimum(p)) * step // total for p in sets)
        for step in range(total + 1)
        if total
    ]
    expected = next((step for step in steps if sum(step) <= room), None)

    assert search(sets, lambda found: found if sum(found) <= room else None) == expected
