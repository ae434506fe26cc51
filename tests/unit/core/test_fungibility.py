"""Where the search for a flavor stops, and where it goes on next time (§5.7 to §5.10)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from federation.core.assignment import BEST, WORST, Grade, Mode, is_preferred, tries_next
from federation.core.cycle import Fit, run_cycle
from federation.core.nomination import nominate
from federation.core.policies import FlavorFungibility, FlavorPreference, Fungibility
from federation.core.snapshot import Snapshot
from federation.core.types import Holder, Pending
from tests.unit.core.build import ANY, LOWER, cq, evicts, group, holds, item, job, pods, quota
from tests.unit.core.stage import Stage, state, told

STOP, NEXT = Fungibility
BORROW, PREEMPT = FlavorPreference
NO_FIT, NO_CANDIDATES, PREEMPTS, RECLAIMS, FIT = Mode


def rules(
    borrow: Fungibility = STOP, preempt: Fungibility = NEXT, prefer: FlavorPreference = BORROW
) -> FlavorFungibility:
    """whenCanBorrow, whenCanPreempt, preference; the defaults are Kueue's."""
    return FlavorFungibility(borrow, preempt, prefer)


def flavor_of(snapshot: Snapshot, what: Pending) -> str:
    """The flavor that is nominated, with `!` if it needs victims; - if there is none."""
    assignment = nominate(what, snapshot).assignment
    if assignment.mode is Mode.NO_FIT:
        return "-"
    flavor = assignment.admission.pod_sets[0].flavors["gpu"]
    return flavor if assignment.mode is Mode.FIT else f"{flavor}!"


def lent(fungibility: FlavorFungibility, *holders: Holder) -> Snapshot:
    """spot 4 and od 10 of its own, 4 more of each in the cohort; it may evict and reclaim."""
    amounts = group("gpu", spot=(quota(4),), od=(quota(10),))
    queue = cq("q", amounts, cohort="c", preemption=evicts(LOWER, ANY), fungibility=fungibility)
    lender = cq("lender", group("gpu", spot=(quota(4),), od=(quota(4),)), cohort="c")
    return state(queue, lender, *holders)


def full(flavor: str, amount: int) -> list[Holder]:
    """The queue's own workload of low priority takes that much of a flavor."""
    return [holds(f"in-{flavor}", "q", {f"{flavor}/gpu": amount}, priority=-1)]


OD_NEEDS_VICTIMS = [*full("od", 10), holds("out", "lender", {"od/gpu": 4}, 9)]
SPOT_NEEDS_VICTIMS = full("spot", 8)

EXAMPLES = [
    pytest.param(rules(), [], 6, "spot", id="borrowed spot, by default"),
    pytest.param(rules(NEXT), [], 6, "od", id="42: od that needs no borrowing"),
    pytest.param(rules(NEXT), OD_NEEDS_VICTIMS, 6, "spot", id="43: borrowing before preemption"),
    pytest.param(
        rules(NEXT, NEXT, PREEMPT), OD_NEEDS_VICTIMS, 6, "od!", id="42: preemption before borrowing"
    ),
    pytest.param(
        rules(STOP, STOP), SPOT_NEEDS_VICTIMS, 4, "spot!", id="96: stops where it can preempt"
    ),
    pytest.param(rules(), SPOT_NEEDS_VICTIMS, 4, "od", id="96: or looks for one that is free"),
    pytest.param(
        rules(STOP, STOP),
        [holds("firm", "q", {"spot/gpu": 8}, priority=9)],
        4,
        "od",
        id="4: never stops where it would preempt and has no candidates",
    ),
]


@pytest.mark.parametrize(("fungibility", "holders", "amount", "expected"), EXAMPLES)
def test_examples(
    fungibility: FlavorFungibility, holders: list[Holder], amount: int, expected: str
) -> None:
    """The examples after §5.1."""
    assert flavor_of(lent(fungibility, *holders), job("x", "q", amount)) == expected


MODES = {
    "fit": Grade(FIT, 0),
    "borrow": Grade(FIT, 1),
    "reclaim": Grade(RECLAIMS, 0),
    "preempt": Grade(PREEMPTS, 0),
    "preempt and borrow": Grade(PREEMPTS, 1),
    "no candidates": Grade(NO_CANDIDATES, 0),
    "no fit": WORST,
}


@pytest.mark.parametrize(
    ("fungibility", "goes_on"),
    [
        (rules(STOP, STOP), "no candidates|no fit"),
        (rules(STOP, NEXT), "reclaim|preempt|preempt and borrow|no candidates|no fit"),
        (rules(NEXT, STOP), "borrow|preempt and borrow|no candidates|no fit"),
        (rules(NEXT, NEXT), "borrow|reclaim|preempt|preempt and borrow|no candidates|no fit"),
    ],
)
def test_where_the_search_goes_on(fungibility: FlavorFungibility, goes_on: str) -> None:
    """Item 96: whenCanBorrow by whenCanPreempt."""
    found = [name for name, grade in MODES.items() if tries_next(grade, fungibility)]
    assert found == goes_on.split("|")


@pytest.mark.parametrize(
    ("preference", "order"),
    [
        (BORROW, "fit > borrow > reclaim > preempt > preempt and borrow > no candidates > no fit"),
        (PREEMPT, "fit > reclaim > preempt > borrow > preempt and borrow > no candidates > no fit"),
    ],
)
def test_which_is_better(preference: FlavorPreference, order: str) -> None:
    """§5.7: a total order of grades; without candidates is worse than anything but no fit."""
    names = order.split(" > ")
    for (i, left), (j, right) in product(enumerate(names), repeat=2):
        better = is_preferred(MODES[left], MODES[right], preference)
        assert better is (i < j and left != "no fit"), (left, right)
    assert not is_preferred(BEST, BEST, preference)


def test_a_flavor_where_the_search_stops_is_taken_outright() -> None:
    """§5.8: even if an earlier one, at which it went on, is better."""
    queue = cq(
        "q",
        group("gpu", x=(quota(4),), y=(quota(4),)),
        cohort="c",
        preemption=evicts(LOWER),
        fungibility=rules(NEXT, STOP),
    )
    lender = cq("lender", group("gpu", x=(quota(9),)), cohort="c")
    snapshot = state(queue, lender, holds("low", "q", {"y/gpu": 4}, -1))

    assert flavor_of(snapshot, job("big", "q", 5)) == "x", "y cannot hold 5"
    used = holds("mine", "q", {"x/gpu": 1}, 9)
    assert (
        flavor_of(state(queue, lender, used, holds("low", "q", {"y/gpu": 4}, -1)), job("x", "q", 4))
        == "y!"
    )


def test_the_first_of_equals() -> None:
    """§5.8: among flavors that are equally good."""
    queue = cq("q", group("gpu", x=(quota(4),), y=(quota(4),)), preemption=evicts(LOWER))
    held = [holds("a", "q", {"x/gpu": 4}, -1), holds("b", "q", {"y/gpu": 4}, -1)]

    assert flavor_of(state(queue, *held), job("x", "q", 2)) == "x!"


def test_reclaim_is_better_than_own_victims() -> None:
    """§5.7: a flavor whose victims are all in other queues."""
    amounts = group("gpu", x=(quota(4),), y=(quota(4),))
    queue = cq("q", amounts, cohort="c", preemption=evicts(LOWER, ANY))
    other = cq("o", group("gpu", y=(quota(0),)), cohort="c")
    held = [holds("a", "q", {"x/gpu": 4}, -1), holds("b", "o", {"y/gpu": 4}, 9)]

    assert flavor_of(state(queue, other, *held), job("x", "q", 2)) == "y!"


def test_borrowing_is_judged_with_the_victims_gone() -> None:
    """§5.6: own victims may make borrowing needless."""
    amounts = group("gpu", x=(quota(4),), y=(quota(4),))
    queue = cq(
        "q",
        amounts,
        cohort="c",
        preemption=evicts(LOWER, borrowing=True),
        fungibility=rules(NEXT, NEXT, PREEMPT),
    )
    lender = cq("l", group("gpu", x=(quota(0),), y=(quota(4),)), cohort="c")
    held = [holds("a", "q", {"x/gpu": 4}, -1), holds("b", "q", {"y/gpu": 4}, 9)]

    assert flavor_of(state(queue, lender, *held), job("x", "q", 4)) == "x!", "y fits by borrowing"


# Where the next search starts


def three_flavors(**more: Any) -> Any:
    """x 4, y 4, z 4."""
    return cq("q", group("gpu", x=(quota(4),), y=(quota(4),), z=(quota(4),)), **more)


@pytest.mark.parametrize(
    ("used", "start", "flavor", "index"),
    [
        ({}, {}, "x", 0),
        ({"x/gpu": 1}, {}, "y", 1),
        ({"x/gpu": 1, "y/gpu": 1}, {}, "z", -1),
        ({}, {"gpu": 0}, "y", 1),
        ({}, {"gpu": 1}, "z", -1),
        ({}, {"gpu": -1}, "x", 0),
    ],
)
def test_index_of_the_last_flavor_tried(
    used: dict[str, int], start: dict[str, int], flavor: str, index: int
) -> None:
    """§5.9: -1 if that was the last one, and the next search starts behind it."""
    held = [holds("u", "q", used)] if used else []
    assignment = nominate(job("x", "q", 4), state(three_flavors(), *held), (start,)).assignment

    assert assignment.admission.pod_sets[0].flavors == {"gpu": flavor}
    assert assignment.tried == ({"gpu": index},)


def test_nothing_is_noted_of_a_pod_set_that_fits_nowhere() -> None:
    """§5.9: its next search starts at the first flavor; that of the other one does not."""
    wanted = item("x", "q", pods(1, "a", gpu=1), pods(1, "b", gpu=5))
    assignment = nominate(wanted, state(three_flavors())).assignment

    assert assignment.mode is Mode.NO_FIT
    assert assignment.tried == ({"gpu": 0}, {})


def test_flavors_before_the_start_give_no_reason() -> None:
    """§2.1: only what was looked at is told."""
    held = holds("u", "q", {"x/gpu": 4, "y/gpu": 4, "z/gpu": 4}, 9)
    assignment = nominate(job("x", "q", 4), state(three_flavors(), held), ({"gpu": 1},)).assignment

    assert {lack.flavor for _, lack in assignment.lacks} == {"z"}


async def test_a_skipped_workload_goes_on_behind_the_flavor_it_had() -> None:
    """Item 46 and §5.10: what was taken by another one is not tried again in the next cycle."""
    amounts = group("gpu", x=(quota(4),), y=(quota(4),))
    stage = Stage(cq("a", amounts, cohort="c"), cq("b", amounts, cohort="c"))
    await stage.submit(job("first", "a", 8, at=1.0), job("second", "b", 8, at=2.0))

    assert await stage.cycle() == {"first": "admitted", "second": "FailedAfterNomination"}
    assert await stage.cycle() == {"second": "admitted"}
    assert stage.admissions["first"].pod_sets[0].flavors == {"gpu": "x"}
    assert stage.admissions["second"].pod_sets[0].flavors == {"gpu": "y"}


HALVES = group("gpu", x=(quota(4),), y=(quota(4),))
FIRST, SECOND = job("first", "a", 8, at=1.0), job("second", "b", 8, at=2.0)


async def skipped(*more: Pending) -> Stage:
    """`second` was to have x, which `first` got; then `more` come, and one cycle goes by."""
    stage = Stage(cq("a", HALVES, cohort="c"), cq("b", HALVES, cohort="c"))
    await stage.submit(FIRST, SECOND)
    assert await stage.cycle() == {"first": "admitted", "second": "FailedAfterNomination"}
    await stage.submit(*more)
    if more:
        assert await stage.cycle() == {"ahead": "NoFit"}
    return stage


async def flavor_of_second(stage: Stage) -> str:
    """Where it is admitted in the next cycle."""
    assert await stage.cycle() == {"second": "admitted"}
    return stage.admissions["second"].pod_sets[0].flavors["gpu"]


AHEAD = job("ahead", "b", 99, 9)
MORE_X = group("gpu", x=(quota(12),), y=(quota(4),))


@pytest.mark.parametrize(
    ("more", "edited", "expected"),
    [
        pytest.param([], False, "y", id="46: it goes on"),
        pytest.param([AHEAD], False, "y", id="46: also if another one came in between"),
        pytest.param([], True, "y", id="47: quota changed, but the search is of the last cycle"),
        pytest.param([AHEAD], True, "x", id="47: quota changed, and the search is older"),
    ],
)
async def test_a_search_is_void_once_quota_has_changed(
    more: list[Pending], edited: bool, expected: str
) -> None:
    """§5.10: if it is older than one cycle."""
    stage = await skipped(*more)
    if edited:
        stage.configure(cq("a", MORE_X, cohort="c"), cq("b", HALVES, cohort="c"))
    assert await flavor_of_second(stage) == expected


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        pytest.param(replace(SECOND, generation=1), "y", id="46: the same shape"),
        pytest.param(job("second", "b", 7, at=2.0, generation=1), "x", id="47: another shape"),
    ],
)
async def test_a_search_is_void_for_another_shape(update: Pending, expected: str) -> None:
    """§5.10: x is free again, and looked at if the workload asks for something else now."""
    stage = await skipped()
    await stage.finish("first")
    await stage.submit(update)
    assert await flavor_of_second(stage) == expected


async def test_what_is_skipped_is_looked_at_again_without_an_event() -> None:
    """§5.10: in the next cycle, in the next flavor, while another one waits for its victims."""
    owner = cq("a", group("gpu", f=(quota(4),)), cohort="c", preemption=evicts(reclaim=ANY))
    guest = cq("z", group("gpu", f=(quota(0),)), cohort="c")
    queue = cq("b", group("gpu", f=(quota(0),), g=(quota(4),)), cohort="c")
    stage = Stage(owner, guest, queue, holds("v", "z", 2))
    await stage.submit(job("P", "a", 4))
    await stage.rest()
    assert stage.evicted == ["v"]

    await stage.submit(job("s", "b", 2))
    await stage.rest()
    assert stage.admissions["s"].pod_sets[0].flavors == {"gpu": "g"}


def test_whole_cycles_take_the_start_too() -> None:
    """§5.10 through run_cycle: the decision says where the next search starts."""
    (decision,) = run_cycle([job("x", "q", 4)], state(three_flavors()), None, {"x": ({"gpu": 0},)})

    assert isinstance(decision, Fit), told(decision)
    assert decision.admission.pod_sets[0].flavors == {"gpu": "y"}
    assert decision.tried == ({"gpu": 1},)
