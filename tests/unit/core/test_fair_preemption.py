"""Whom a workload evicts under fair sharing (§6.3, items 83 to 90)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.policies import FairStrategy, Rules
from federation.core.types import Holder
from tests.unit.core.build import ANY, LOWER, NEVER, co, evicts, holds, job, one
from tests.unit.core.stage import FAIR, Thing, state, victims

OWN, RECLAIM, FAIRLY = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"
FINAL = Rules(fair_strategies=(FairStrategy.FINAL_SHARE,))
INITIAL = Rules(fair_strategies=(FairStrategy.INITIAL_SHARE,))


def case(name: str, *things: Thing, wants: Any, evicts: dict[str, str], rules: Rules = FAIR) -> Any:
    """A row of a table: `wants` is looked at among `things`, and evicts these."""
    return pytest.param(things, rules, wants, evicts, id=name)


def fair(name: str, nominal: int, cohort: str = "c", **more: Any) -> Any:
    """A queue that preempts lower priority in itself, and whom it may in the cohort."""
    return one(name, nominal, cohort, preemption=evicts(LOWER, ANY), **more)


def three(nominal: int = 3, **weights: float) -> list[Thing]:
    """Queues a, b, c of the same nominal quota."""
    return [fair(name, nominal, fair_weight=weights.get(name, 1.0)) for name in "abc"]


def jobs(queue: str, *amounts: int) -> list[Holder]:
    """One workload after the other: `b1` is the first of queue b, and the newest."""
    return [
        holds(f"{queue}{n}", queue, amount, at=500.0 - n) for n, amount in enumerate(amounts, 1)
    ]


A3_B5_C1 = [*three(), *jobs("a", 1, 1, 1), *jobs("b", 1, 1, 1, 1, 1), *jobs("c", 1)]

EXAMPLES = [
    case(
        "83: within the nominal quota, whatever the shares are",
        *A3_B5_C1,
        wants=job("x", "c", 1),
        evicts={"b1": RECLAIM},
    ),
    case(
        "84: until the shares are equal (111 and 111)",
        *A3_B5_C1,
        wants=job("x", "a", 1),
        evicts={"b1": FAIRLY},
    ),
    case(
        "84: equal is enough for the final share",
        *A3_B5_C1,
        wants=job("x", "a", 1),
        evicts={"b1": FAIRLY},
        rules=FINAL,
    ),
    case(
        "84: and not enough for the initial one",
        *(*three(), *jobs("a", 1, 1, 1), *jobs("b", 1, 1, 1, 1), *jobs("c", 1, 1)),
        wants=job("x", "a", 1),
        evicts={},
        rules=INITIAL,
    ),
    case(
        "84: not beyond (222 and 111; 222 and 222)",
        *A3_B5_C1,
        wants=job("x", "a", 2),
        evicts={},
    ),
    case(
        "84: the workload whose leaving keeps b above a",
        *(*three(30), *jobs("b", 20, 10, 20), *jobs("c", 10)),
        wants=job("x", "a", 35),
        evicts={"b2": FAIRLY},
    ),
    case(
        "84: the second strategy takes one from each",
        *(*three(30), *jobs("b", 20, 25), *jobs("c", 20, 25)),
        wants=job("x", "a", 35),
        evicts={"b1": FAIRLY, "c1": FAIRLY},
    ),
    case(
        "84: by the initial share alone the lowest priority goes, however large",
        *(*three(), *jobs("a", 1, 1, 1), holds("b5", "b", 5, 0), holds("b1", "b", 1, 1)),
        wants=job("x", "a", 1),
        evicts={"b5": FAIRLY},
        rules=INITIAL,
    ),
    case(
        "84: by the final share alone who leaves enough behind",
        *(*three(), *jobs("a", 1, 1, 1), holds("b5", "b", 5, 0), holds("b1", "b", 1, 1)),
        wants=job("x", "a", 1),
        evicts={"b1": FAIRLY},
        rules=FINAL,
    ),
    case(
        "51: a weight of two counts use half",
        *(*three(a=2.0), *jobs("a", 1, 1, 1), *jobs("b", 1, 1, 1, 1, 1, 1)),
        wants=job("x", "a", 2),
        evicts={"b1": FAIRLY, "b2": FAIRLY},
    ),
    case(
        "85: who has no weight goes first",
        *(*three(b=0.0), *jobs("a", 1, 1, 1), *jobs("b", 1, 1, 1, 1), *jobs("c", 1, 1)),
        wants=job("x", "c", 1),
        evicts={"b1": RECLAIM},
    ),
    case(
        "85: without weight a queue with a finite share is not touched",
        *(*three(a=0.0), *jobs("a", 1, 1, 1), *jobs("b", 1, 1, 1, 1, 1, 1)),
        wants=job("x", "a", 1),
        evicts={},
    ),
    case(
        "85: two without weight compare by what they use",
        *(*three(a=0.0, b=0.0), *jobs("a", 1, 1, 1), *jobs("b", 1, 1, 1, 1, 1, 1)),
        wants=job("x", "a", 1),
        evicts={"b1": FAIRLY},
    ),
    case(
        "86: the own queue when its own share is the largest",
        *three(),
        *(holds("mine", "a", 5, -1), holds("b4", "b", 4)),
        wants=job("x", "a", 4, 1),
        evicts={"mine": OWN},
    ),
    case(
        "86: its priority does not count in other queues, within it does",
        *three(),
        *(holds("mine", "a", 5, 1), holds("b4", "b", 4)),
        wants=job("x", "a", 4, 1),
        evicts={},
    ),
    case(
        "88: without a cohort as ever",
        fair("a", 4, ""),
        *(holds("low", "a", 2, -2), holds("mid", "a", 2, -1), fair("b", 4, ""), *jobs("b", 4)),
        wants=job("x", "a", 2),
        evicts={"low": OWN},
    ),
    case(
        "89: who is evicted already",
        *(*three(), *jobs("b", 3, 3)[:1], holds("gone", "b", 3, 9, evicted=True), *jobs("c", 3)),
        wants=job("x", "a", 3),
        evicts={"gone": RECLAIM},
    ),
    case(
        "89: then by priority in its queue",
        *(*three(), holds("high", "b", 3, 9), holds("low", "b", 3, 8), *jobs("c", 3)),
        wants=job("x", "a", 3),
        evicts={"low": RECLAIM},
    ),
    case(
        "59: spared again if a later victim suffices",
        *(*three(), holds("small", "b", 1, -1), holds("large", "b", 5, 0), *jobs("c", 3)),
        wants=job("x", "a", 3),
        evicts={"large": RECLAIM},
    ),
    case(
        "60: nobody when it does not suffice",
        *(*three(), *jobs("a", 1, 1), *jobs("b", 1, 1, 1, 1), *jobs("c", 1, 1, 1)),
        wants=job("x", "a", 3),
        evicts={},
    ),
]


@pytest.mark.parametrize(("things", "rules", "wants", "expected"), EXAMPLES)
def test_one_cohort(
    things: tuple[Thing, ...], rules: Rules, wants: Any, expected: dict[str, str]
) -> None:
    """Shares of queues side by side."""
    assert victims(state(*things, rules=rules), wants) == expected


def sides(left: int = 0, right: int = 0) -> list[Thing]:
    """root{left{a, b}, right{c, d}, e}, with quota in the queues unless the cohorts have some."""
    return [
        *(co("root"), co("left", left, "root"), co("right", right, "root")),
        *(fair("a", 2, "left"), fair("b", 2, "left")),
        *(fair("c", 2, "right"), fair("d", 2, "right"), fair("e", 4, "root")),
    ]


TREES = [
    case(
        "87: a cohort that does not borrow is safe, though a queue in it does",
        *(*sides(), *jobs("a", 2), *jobs("b", 2), *jobs("c", 1, 1, 1, 1), *jobs("e", 4)),
        wants=job("x", "a", 1),
        evicts={},
    ),
    case(
        "87: but the own side is not",
        *(*sides(), *jobs("b", 1, 1, 1, 1), *jobs("c", 2), *jobs("d", 2), *jobs("e", 4)),
        wants=job("x", "a", 1),
        evicts={"b1": RECLAIM},
    ),
    case(
        "90: shares are compared below the common cohort, so the fair side keeps its greedy queue",
        *(*sides(), *jobs("a", 2, 2), *jobs("b", 1), *jobs("c", 1, 1, 1, 1, 1), *jobs("e", 2)),
        wants=job("x", "b", 2),
        evicts={"a1": FAIRLY},
    ),
    case(
        "53 and 90: of the sides, then of the queues, the one with the largest share",
        *(*sides(), *jobs("c", 1, 1, 1), *jobs("d", 1, 1, 1, 1), *jobs("e", 1, 1, 1, 1, 1)),
        wants=job("x", "a", 2),
        evicts={"c1": RECLAIM, "d1": RECLAIM},
    ),
    case(
        "53: of a cohort and a queue with the same share, the cohort",
        *(co("root"), co("left", 0, "root"), fair("a", 2, "root")),
        *(fair("b", 2, "left"), fair("e", 2, "root")),
        *(holds("b3", "b", 3, 9), holds("e3", "e", 3, 1)),
        wants=job("x", "a", 1),
        evicts={"b3": RECLAIM},
    ),
]


@pytest.mark.parametrize(("things", "rules", "wants", "expected"), TREES)
def test_cohorts_below_cohorts(
    things: tuple[Thing, ...], rules: Rules, wants: Any, expected: dict[str, str]
) -> None:
    """Shares are those of the children of the lowest common cohort."""
    assert victims(state(*things, rules=rules), wants) == expected


def test_policies_hold_under_fair_sharing() -> None:
    """Nobody is evicted whom reclaimWithinCohort protects."""
    careful = replace(fair("a", 3), preemption=evicts(LOWER, LOWER))
    never = replace(fair("a", 3), preemption=evicts(LOWER, NEVER))
    others = [fair("b", 3), fair("c", 3), *jobs("b", 3, 3, 3)]

    assert victims(state(careful, *others, rules=FAIR), job("x", "a", 3, 0)) == {}
    assert victims(state(careful, *others, rules=FAIR), job("x", "a", 3, 1)) == {"b1": RECLAIM}
    assert victims(state(never, *others, rules=FAIR), job("x", "a", 3, 1)) == {}
