"""Cohorts below cohorts: what may be borrowed, who goes first, and who is evicted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.build import ANY, LOWER, NEVER, co, evicts, holds, job, one, quota
from tests.unit.core.stage import Thing, decide, state, victims

OWN, RECLAIM = "InClusterQueue", "InCohortReclamation"
BORROWING = "InCohortReclaimWhileBorrowing"


def case(name: str, *things: Thing, wants: Any, evicts: dict[str, str]) -> Any:
    """A row of a table: `wants` is looked at among `things`, and evicts these."""
    return pytest.param(things, wants, evicts, id=name)


def two_sides(reclaim: Any = ANY, **more: Any) -> list[Thing]:
    """root{left{a 4, b 4}, right{c 0}}; a reclaims."""
    return [
        *(co("root"), co("left", 0, "root"), co("right", 0, "root")),
        one("a", 4, "left", preemption=evicts(more.pop("within", NEVER), reclaim, **more)),
        *(one("b", 4, "left"), one("c", 0, "right")),
    ]


HIGH_C = [holds(f"c{n}", "c", 2, 5, at=100.0 + n) for n in range(3)]

TREES = [
    case(
        "example, 78: all three of c, although a borrows from b",
        *(*two_sides(), holds("b2", "b", 2), *HIGH_C),
        wants=job("x", "a", 6),
        evicts={"c0": RECLAIM, "c1": RECLAIM, "c2": RECLAIM},
    ),
    case(
        "example, 66: the policy holds for them too",
        *(*two_sides(LOWER), holds("b2", "b", 2), *HIGH_C),
        wants=job("x", "a", 6),
        evicts={},
    ),
    case(
        "example, 59: c is taken first and filled back once b has to go",
        *(*two_sides(), holds("b6", "b", 6, at=1.0), holds("c2", "c", 2, at=2.0)),
        wants=job("x", "a", 4),
        evicts={"b6": RECLAIM},
    ),
    case(
        "79: a cohort within its own quota is safe, though a queue in it borrows",
        *(co("root"), co("left", 0, "root"), co("right", 4, "root")),
        one("a", 4, "left", preemption=evicts(NEVER, ANY)),
        *(one("c", 0, "right"), one("d", 0, "root")),
        *(holds("c4", "c", 4, -9), holds("d4", "d", 4, 9)),
        wants=job("x", "a", 4),
        evicts={"d4": RECLAIM},
    ),
    case(
        "79: and is left once it is back within",
        *(co("root"), co("left", 0, "root"), co("right", 2, "root")),
        one("a", 4, "left", preemption=evicts(NEVER, ANY)),
        *(one("c", 0, "right"), one("d", 0, "root")),
        *(holds("c1", "c", 2, -9, at=2.0), holds("c2", "c", 2, -9, at=1.0), holds("d2", "d", 2, 9)),
        wants=job("x", "a", 4),
        evicts={"c1": RECLAIM, "d2": RECLAIM},
    ),
    case(
        "80: what the cohort has quota for is reclaimed further up as well",
        *(co("root"), co("mid", 0, "root"), co("low", 4, "mid")),
        one("a", 0, "low", preemption=evicts(NEVER, ANY)),
        *(one("far", 0, "root"), holds("far4", "far", 4, 9)),
        wants=job("x", "a", 4),
        evicts={"far4": RECLAIM},
    ),
    case(
        "80: also past a cohort on the way that is over-used",
        *(co("root"), co("mid", 0, "root"), co("low", 4, "mid")),
        one("a", 0, "low", preemption=evicts(NEVER, ANY)),
        *(one("near", 0, "mid"), one("far", 0, "root")),
        *(holds("near2", "near", 2, 9), holds("far2", "far", 2, 9)),
        wants=job("x", "a", 4),
        evicts={"near2": RECLAIM, "far2": RECLAIM},
    ),
    case(
        "81: far below a cohort that borrows",
        *(co("root"), co("r1", 0, "root"), co("r2", 0, "r1"), co("r3", 0, "r2")),
        one("a", 4, "root", preemption=evicts(NEVER, ANY)),
        *(one("deep", 0, "r3"), holds("deep4", "deep", 4, 9)),
        wants=job("x", "a", 4),
        evicts={"deep4": RECLAIM},
    ),
    case(
        "81: past a cohort on the way that does not borrow",
        *(co("root"), co("r1", 4, "root"), co("r2", 0, "r1")),
        one("a", 4, "root", preemption=evicts(NEVER, ANY)),
        *(one("deep", 0, "r2"), one("d", 0, "root")),
        *(holds("deep4", "deep", 4, -9), holds("d4", "d", 4, 9)),
        wants=job("x", "a", 4),
        evicts={"d4": RECLAIM},
    ),
    case(
        "82: the own queue last",
        *(*two_sides(within=LOWER), holds("a2", "a", 2, -9), *HIGH_C),
        wants=job("x", "a", 4, 1),
        evicts={"c1": RECLAIM, "c2": RECLAIM},
    ),
    case(
        "82: but if the others are not enough",
        *(*two_sides(within=LOWER), holds("a4", "a", 4, -9), holds("c2", "c", 2, 5)),
        *(holds("b2", "b", 2, 9),),
        wants=job("x", "a", 4, 1),
        evicts={"a4": OWN},
    ),
    case(
        "78: what is not under quota of the own side needs permission to borrow",
        *(co("root"), co("left", 0, "root"), co("right", 8, "root")),
        one("a", 0, "left", preemption=evicts(NEVER, ANY)),
        *(one("c", 0, "root"), holds("c8", "c", 8, -9)),
        wants=job("x", "a", 4, 1),
        evicts={},
    ),
    case(
        "78: and gets it by borrowWithinCohort",
        *(co("root"), co("left", 0, "root"), co("right", 8, "root")),
        one("a", 0, "left", preemption=evicts(NEVER, ANY, borrowing=True)),
        *(one("c", 0, "root"), holds("c8", "c", 8, -9)),
        wants=job("x", "a", 4, 1),
        evicts={"c8": BORROWING},
    ),
]


@pytest.mark.parametrize(("things", "wants", "expected"), TREES)
def test_preemption(things: tuple[Thing, ...], wants: Any, expected: dict[str, str]) -> None:
    """§6.1: hierarchical advantage, and who is protected."""
    assert victims(state(*things), wants) == expected


@pytest.mark.parametrize(
    ("queue", "amount", "answer"),
    [
        ("q", 20, "admitted"),
        ("q", 21, "NoFit"),
        ("far", 5, "admitted"),
        ("far", 6, "NoFit"),
        ("top", 5, "admitted"),
        ("top", 6, "NoFit"),
    ],
)
def test_lending_limits_across_levels(queue: str, amount: int, answer: str) -> None:
    """Item 16: example E of §4 as decisions."""
    tree: list[Thing] = [
        *(co("root"), co("left", quota(0, ll=5), "root"), co("right", 0, "root")),
        *(one("q", quota(10, ll=5), "left"), one("p", 10, "left")),
        *(one("far", 0, "right"), one("top", 0, "root")),
    ]
    assert decide(state(*tree), job("x", queue, amount)) == {"x": answer}


def test_who_borrows_from_nearer_goes_first() -> None:
    """Item 37: the level counts, before priority."""
    tree: list[Thing] = [
        *(co("root", 6), co("low", 2, "root")),
        *(one("near", 0, "low"), one("far", 0, "low"), one("own", 2, "root")),
    ]
    heads = [job("far", "far", 3, 9), job("near", "near", 2, 1), job("own", "own", 2, 0)]

    assert list(decide(state(*tree), *heads)) == ["own", "near", "far"]


def test_equal_levels_go_by_priority_then_time() -> None:
    """Item 38: all of these borrow from the root, from whatever depth."""
    tree: list[Thing] = [
        co("root", 9),
        co("low", 0, "root"),
        one("a", 0, "low"),
        one("b", 0, "root"),
        one("d", 0, "root"),
    ]
    heads = [job("late", "b", 1, 5, 2.0), job("early", "d", 1, 5, 1.0), job("high", "a", 1, 6, 3.0)]

    assert list(decide(state(*tree), *heads)) == ["high", "early", "late"]
