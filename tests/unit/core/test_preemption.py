"""Whom a workload evicts, without fair sharing (§6.1, items 57 to 77)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import preemption
from federation.core.types import FlavorResource
from federation.core.victims import Need
from tests.unit.core.build import (
    ANY,
    LOWER,
    NEVER,
    NEWER,
    co,
    cq,
    evicts,
    group,
    holds,
    item,
    job,
    one,
    pods,
    quota,
)
from tests.unit.core.stage import Thing, state, victims

OWN, RECLAIM = "InClusterQueue", "InCohortReclamation"
BORROWING = "InCohortReclaimWhileBorrowing"


def case(name: str, *things: Thing, wants: Any, evicts: dict[str, str]) -> Any:
    """A row of a table: `wants` is looked at among `things`, and evicts these."""
    return pytest.param(things, wants, evicts, id=name)


def alone(policy: Any = LOWER, amount: int = 6) -> Any:
    """A queue without cohort."""
    return one("q", amount, preemption=evicts(policy))


IN_ONE_QUEUE = [
    case(
        "57: lowest priority first",
        alone(),
        *(holds("low", amount=2, priority=-1), holds("mid", amount=2), holds("mid2", amount=2)),
        wants=job("x", amount=2, priority=1),
        evicts={"low": OWN},
    ),
    case(
        "58: several when one is not enough",
        alone(),
        *(
            holds("low", amount=2, priority=-1),
            holds("mid", amount=2),
            holds("high", amount=2, priority=5),
        ),
        wants=job("x", amount=3, priority=1),
        evicts={"low": OWN, "mid": OWN},
    ),
    case(
        "29: what is free already needs no victim",
        alone(),
        *(holds("low", amount=2, priority=-1), holds("mid", amount=2)),
        wants=job("x", amount=4, priority=1),
        evicts={"low": OWN},
    ),
    case(
        "59: a small victim of low priority is spared if a larger one has to go anyway",
        alone(),
        *(holds("small", amount=1, priority=-1), holds("large", amount=5)),
        wants=job("x", amount=5, priority=1),
        evicts={"large": OWN},
    ),
    case(
        "60: nobody when all of them are not enough",
        alone(),
        *(holds("low", amount=2, priority=-1), holds("high", amount=4, priority=5)),
        wants=job("x", amount=3, priority=1),
        evicts={},
    ),
    case(
        "57: an equal or higher priority is no victim",
        alone(),
        holds("equal", amount=6, priority=1, at=9000.0),
        wants=job("x", amount=1, priority=1),
        evicts={},
    ),
    case(
        "67: of equal priority only the newer, by queue timestamp",
        alone(NEWER),
        *(holds("older", amount=3, at=999.0), holds("newer", amount=3, at=1001.0)),
        wants=job("x", amount=3, at=1000.0),
        evicts={"newer": OWN},
    ),
    case(
        "67: not of the same time",
        alone(NEWER),
        holds("same", amount=6, at=1000.0),
        wants=job("x", amount=3, at=1000.0),
        evicts={},
    ),
    case(
        "67: lower priority whenever it came",
        alone(NEWER),
        *(holds("low", amount=3, priority=-1, at=1.0), holds("newer", amount=3, at=1001.0)),
        wants=job("x", amount=3),
        evicts={"low": OWN},
    ),
    case(
        "74: who is evicted already is chosen first",
        alone(),
        *(holds("low", amount=3, priority=-9), holds("gone", amount=3, evicted=True)),
        wants=job("x", amount=3, priority=1),
        evicts={"gone": OWN},
    ),
    case(
        "75: among equals who reserved last",
        alone(),
        *(holds("a", amount=3, at=2.0, reserved=40.0), holds("b", amount=3, at=1.0, reserved=50.0)),
        wants=job("x", amount=3, priority=1),
        evicts={"b": OWN},
    ),
    case(
        "75: a reservation that is not written yet is the latest",
        alone(),
        *(holds("a", amount=3, reserved=9999.0), holds("b", amount=3, reserved=None)),
        wants=job("x", amount=3, priority=1),
        evicts={"b": OWN},
    ),
    case(
        "76: and finally by UID",
        alone(),
        *(holds("b", amount=3), holds("a", amount=3)),
        wants=job("x", amount=3, priority=1),
        evicts={"a": OWN},
    ),
    case(
        "Never evicts nobody",
        alone(NEVER),
        holds("low", amount=6, priority=-9),
        wants=job("x", amount=1, priority=9),
        evicts={},
    ),
    case(
        "what may not be preempted is passed over",
        alone(),
        *(holds("kept", amount=3, priority=-9, preemptible=False), holds("low", amount=3)),
        wants=job("x", amount=3, priority=1),
        evicts={"low": OWN},
    ),
]


@pytest.mark.parametrize(("things", "wants", "expected"), IN_ONE_QUEUE)
def test_within_the_queue(things: tuple[Thing, ...], wants: Any, expected: dict[str, str]) -> None:
    """withinClusterQueue, the order of candidates, and the least set of them."""
    assert victims(state(*things), wants) == expected


def pair(reclaim: Any, a: int = 4, b: int = 4, **more: Any) -> list[Thing]:
    """Queues a and b of one cohort; a reclaims."""
    within = more.pop("within", NEVER)
    return [one("a", a, "c", preemption=evicts(within, reclaim, **more)), one("b", b, "c")]


FOUR_OF_TWO = [holds(f"b{n}", "b", 2, at=100.0 + n) for n in range(4)]

IN_THE_COHORT = [
    case(
        "own example: the two newest of the borrower",
        *(*pair(ANY), *FOUR_OF_TWO),
        wants=job("x", "a", 4),
        evicts={"b2": RECLAIM, "b3": RECLAIM},
    ),
    case(
        "own example, 65 and 69: beyond nominal nobody, for b is safe once at nominal",
        *(*pair(ANY), *FOUR_OF_TWO),
        wants=job("x", "a", 5),
        evicts={},
    ),
    case(
        "64: a queue within its nominal quota is safe",
        *(*pair(ANY, a=2), holds("low", "a", 2, -9), holds("own", "b", 4, -9)),
        wants=job("x", "a", 2, 9),
        evicts={},
    ),
    case(
        "63: a request of zero reclaims nothing, even at nominal",
        *(*pair(ANY), holds("mine", "a", 4), holds("b1", "b", 4)),
        wants=job("x", "a", 0),
        evicts={},
    ),
    case(
        "66: LowerPriority leaves equal and higher alone",
        *(*pair(LOWER), holds("equal", "b", 4, 1), holds("low", "b", 4, 0)),
        wants=job("x", "a", 4, 1),
        evicts={"low": RECLAIM},
    ),
    case(
        "66: LowerPriority, and none is lower",
        *(*pair(LOWER), holds("equal", "b", 4, 1), holds("high", "b", 4, 2)),
        wants=job("x", "a", 4, 1),
        evicts={},
    ),
    case(
        "66: Any takes even a higher priority",
        *(*pair(ANY), holds("high", "b", 8, 9)),
        wants=job("x", "a", 4, 1),
        evicts={"high": RECLAIM},
    ),
    case(
        "68: within Never, reclaim Any: the own queue is left alone",
        *(*pair(ANY, a=6), holds("mine", "a", 2, -9), *FOUR_OF_TWO[:3], holds("b3", "b", 2, 5)),
        wants=job("x", "a", 2, 1),
        evicts={"b2": RECLAIM},
    ),
    case(
        "21: from the own queue and from the cohort",
        *(*pair(ANY, within=LOWER), holds("mine", "a", 2, -1), holds("b1", "b", 6, 0)),
        wants=job("x", "a", 4, 1),
        evicts={"b1": RECLAIM, "mine": OWN},
    ),
    case(
        "82: the own queue is spared if what others borrow suffices",
        *pair(ANY, within=LOWER),
        *(holds("mine", "a", 2, -9), holds("b1", "b", 4, at=1.0), holds("b2", "b", 2)),
        wants=job("x", "a", 2, 1),
        evicts={"b2": RECLAIM},
    ),
    case(
        "69: without borrowing first, though with it fewer would do",
        *(*pair(ANY, within=LOWER), co("c", 3)),
        *(holds("m1", "a", 1, -9), holds("m2", "a", 1, -9), holds("b6", "b", 6)),
        wants=job("x", "a", 4, 1),
        evicts={"m1": OWN, "m2": OWN},
    ),
    case(
        "21: and no more of the cohort than it borrows",
        *pair(ANY, within=LOWER),
        *(holds("mine", "a", 3, -1), holds("b1", "b", 4, 0, at=1.0), holds("b2", "b", 1, 0)),
        wants=job("x", "a", 4, 1),
        evicts={"mine": OWN, "b2": RECLAIM},
    ),
    case(
        "74: evicted in the own queue before others in the cohort",
        *pair(ANY, within=LOWER),
        *(holds("mine", "a", 4, -1, evicted=True), holds("b1", "b", 4)),
        wants=job("x", "a", 4, 1),
        evicts={"mine": OWN},
    ),
    case(
        "reclaim Never evicts nobody in the cohort",
        *(*pair(NEVER), holds("b1", "b", 8, -9)),
        wants=job("x", "a", 4, 9),
        evicts={},
    ),
    case(
        "73: quota that a lender keeps back cannot be reclaimed from it",
        one("a", 4, "c", preemption=evicts(NEVER, ANY)),
        *(one("b", quota(4, ll=0), "c"), one("d", 0, "c")),
        *(holds("own", "b", 4, -9), holds("d1", "d", 4, -9)),
        wants=job("x", "a", 4, 1),
        evicts={"d1": RECLAIM},
    ),
    case(
        "69: above its own quota a queue reclaims nothing",
        *(*pair(ANY), holds("mine", "a", 4), holds("b1", "b", 4)),
        wants=job("x", "a", 1, 9),
        evicts={},
    ),
]


@pytest.mark.parametrize(("things", "wants", "expected"), IN_THE_COHORT)
def test_reclaim(things: tuple[Thing, ...], wants: Any, expected: dict[str, str]) -> None:
    """reclaimWithinCohort without borrowWithinCohort."""
    assert victims(state(*things), wants) == expected


SHARED: list[Thing] = [
    one(
        "a_std", quota(1, bl=12), "c", preemption=evicts(NEVER, LOWER, borrowing=True, threshold=0)
    ),
    one("b_std", quota(1, bl=12), "c", preemption=evicts(LOWER, ANY, borrowing=True, threshold=0)),
    one("a_be", quota(1, bl=12), "c"),
    one("b_be", quota(0, bl=13), "c"),
    one("shared", 10, "c"),
]
"""The cohort of §6.1, 13 gpus in all."""

WHILE_BORROWING = [
    case(
        "example, 70 and 59: one below the threshold; the one that is not needed is filled back",
        *(*SHARED, holds("a10", "a_be", 10, -1), holds("b1", "b_be", 1, -1)),
        wants=job("x", "a_std", 10, 0),
        evicts={"a10": BORROWING},
    ),
    case(
        "example, 71: none above the threshold when it would borrow",
        *(*SHARED, holds("b10", "b_std", 10, 1)),
        wants=job("x", "a_std", 10, 2),
        evicts={},
    ),
    case(
        "example, 72: above the threshold within the own quota",
        *(*SHARED, holds("b13", "b_std", 13, 1)),
        wants=job("x", "a_std", 1, 2),
        evicts={"b13": RECLAIM},
    ),
    case(
        "example, 70: others of low priority and the own queue together",
        *SHARED,
        *(holds("b10", "b_std", 10, 2), holds("b1", "b_std", 1, 1)),
        *(holds("a1", "a_be", 1, -1), holds("a2", "a_be", 1, -2)),
        wants=job("x", "b_std", 2, 2),
        evicts={"a2": BORROWING, "b1": OWN},
    ),
    case(
        "70: at the threshold",
        one("a", 0, "c", preemption=evicts(NEVER, ANY, borrowing=True, threshold=3)),
        *(one("b", 0, "c"), co("c", 4), holds("b2", "b", 2, 3), holds("b3", "b", 2, 4)),
        wants=job("x", "a", 2, 9),
        evicts={"b2": BORROWING},
    ),
    case(
        "72: without borrowing when borrowing leads to nothing",
        *pair(ANY, within=LOWER, borrowing=True, threshold=0),
        *(holds("mine", "a", 2, -9), holds("b4", "b", 4, 5, at=1.0), holds("b2", "b", 2, 5)),
        wants=job("x", "a", 3, 9),
        evicts={"mine": OWN, "b2": RECLAIM},
    ),
    case(
        "71: equal priority is never evicted to borrow, although reclaim is Any",
        one("a", 0, "c", preemption=evicts(NEVER, ANY, borrowing=True)),
        *(one("b", 0, "c"), co("c", 4), holds("b1", "b", 4, 1)),
        wants=job("x", "a", 4, 1),
        evicts={},
    ),
    case(
        "70: without a threshold any lower priority is",
        one("a", 0, "c", preemption=evicts(NEVER, ANY, borrowing=True)),
        *(one("b", 0, "c"), co("c", 4), holds("b1", "b", 4, 1)),
        wants=job("x", "a", 4, 2),
        evicts={"b1": BORROWING},
    ),
    case(
        "70: but not from who does not borrow",
        one("a", 0, "c", preemption=evicts(NEVER, ANY, borrowing=True)),
        *(one("b", 4, "c"), holds("b1", "b", 4, -5)),
        wants=job("x", "a", 4, 2),
        evicts={},
    ),
    case(
        "17: borrowing while preempting ends at the borrowing limit",
        one("a", quota(0, bl=3), "c", preemption=evicts(NEVER, ANY, borrowing=True)),
        *(one("b", 0, "c"), co("c", 4), holds("b1", "b", 4, -5)),
        wants=job("x", "a", 4, 2),
        evicts={},
    ),
]


@pytest.mark.parametrize(("things", "wants", "expected"), WHILE_BORROWING)
def test_borrowing_while_preempting(
    things: tuple[Thing, ...], wants: Any, expected: dict[str, str]
) -> None:
    """borrowWithinCohort and its threshold."""
    assert victims(state(*things), wants) == expected


TWO_FLAVORS = group("gpu", f=(quota(4),), g=(quota(4),))


def test_only_who_holds_the_needed_flavor() -> None:
    """Item 61: the low priority on the other flavor would not help."""
    queue = cq(
        "q", group("gpu", f=(quota(4),)), group("cpu", g=(quota(4),)), preemption=evicts(LOWER)
    )
    held = [holds("idle", "q", {"g/cpu": 4}, -9), holds("busy", "q", {"f/gpu": 4})]

    assert victims(state(queue, *held), job("x", amount={"gpu": 1}, priority=1)) == {"busy": OWN}


def test_two_pod_sets_in_different_flavors() -> None:
    """Item 62: victims are sought in both."""
    queue = cq("q", TWO_FLAVORS, preemption=evicts(LOWER))
    held = [holds("f4", "q", {"f/gpu": 4}), holds("g4", "q", {"g/gpu": 4})]
    wants = item("x", "q", pods(1, "one", gpu=3), pods(1, "two", gpu=3), priority=1)

    assert victims(state(queue, *held), wants) == {"f4": OWN, "g4": OWN}


def test_usage_of_local_queues() -> None:
    """Item 77: in a queue that goes by usage, who belongs to the LocalQueue that used most."""
    queue = one("q", 6, preemption=evicts(LOWER), usage_based=True)
    held = [
        holds("modest", amount=3, priority=-9, local_queue="modest"),
        holds("greedy", amount=3, local_queue="greedy"),
    ]
    usages = {("team", "greedy"): 9.0, ("team", "modest"): 1.0}
    wants = job("x", amount=3, priority=1)

    assert victims(state(queue, *held, usages=usages), wants) == {"greedy": OWN}
    plain = replace(queue, usage_based=False)
    assert victims(state(plain, *held, usages=usages), wants) == {"modest": OWN}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [({"f/gpu": 3}, ["f4"]), ({"f/gpu": 3, "g/gpu": 1}, ["f4", "g4"]), ({"f/gpu": 5}, [])],
)
def test_all_requests_have_to_fit(requests: dict[str, int], expected: list[str]) -> None:
    """§6: candidates hold what is scarce, but in the end everything has to fit."""
    queue = cq("q", TWO_FLAVORS, preemption=evicts(LOWER))
    held = [holds("f4", "q", {"f/gpu": 4}), holds("g4", "q", {"g/gpu": 4})]
    snapshot = state(queue, *held)
    amounts = {FlavorResource(*key.split("/")): n for key, n in requests.items()}
    need = Need(job("x", priority=1), snapshot.tree.queues["q"], frozenset(amounts), amounts)

    found = preemption.find_victims(snapshot, need)
    assert sorted(victim.holder.uid for victim in found) == expected
