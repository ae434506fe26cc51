"""From waiting to admitted over several cycles: reservation, two-phase eviction, flavors."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from federation.core.checks import AdmissionCheckState, CheckState, required, standing
from federation.core.policies import AdmissionCheck
from federation.core.types import Admission, FlavorResource
from tests.unit.core.build import (
    ANY,
    GPU,
    LOWER,
    NEVER,
    STRICT,
    co,
    cq,
    evicts,
    group,
    holds,
    job,
    one,
    quota,
)
from tests.unit.core.stage import FAIR, Stage, charged, decide, state


async def test_what_fits_is_charged() -> None:
    """Item 1: reserved at once, and what is charged is what was admitted."""
    stage = Stage(one("q", 4))
    await stage.submit(job("a", "q", 3))

    assert await stage.cycle() == {"a": "admitted"}
    assert charged(stage.scheduler.snapshot.tree) == {"queue q": {GPU: 3}}
    holder = stage.scheduler.holder("a")
    assert holder is not None
    assert holder.admission == stage.admissions["a"]
    assert holder.usage == {GPU: 3}


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        pytest.param([], CheckState.PENDING, id="2: nothing said yet"),
        pytest.param([CheckState.PENDING], CheckState.PENDING, id="2: pending"),
        pytest.param([CheckState.READY], CheckState.READY, id="3: ready already"),
    ],
)
async def test_reserved_and_admitted(said: list[CheckState], outcome: CheckState) -> None:
    """Items 2 and 3: quota is reserved either way; admitted it is when its checks are ready."""
    queue = one("q", 4, checks=(AdmissionCheck("budget"),))
    stage = Stage(queue)
    await stage.submit(job("a"))
    await stage.rest()
    assert stage.running == ["a"]

    states = [AdmissionCheckState("budget", each) for each in said]
    assert standing(states, required(queue, stage.admissions["a"])) is outcome


async def test_one_head_per_cycle() -> None:
    """§7.1: of each queue, in order."""
    stage = Stage(one("x", 9), one("y", 9))
    await stage.submit(*(job(f"{q}{n}", q, at=float(n)) for q in "xy" for n in range(3)))

    assert [sorted(await stage.cycle()) for _ in range(4)] == [
        ["x0", "y0"],
        ["x1", "y1"],
        ["x2", "y2"],
        [],
    ]


def test_two_borrowers_of_different_resources() -> None:
    """Item 12: they do not get into each other's way."""
    amounts = group("cpu gpu", f=(quota(0), quota(0)))
    lender = cq("l", group("cpu gpu", f=(quota(4), quota(4))), cohort="c")
    snapshot = state(cq("x", amounts, cohort="c"), cq("y", amounts, cohort="c"), lender)
    heads = [job("a", "x", {"cpu": 4}), job("b", "y", {"gpu": 4})]

    assert decide(snapshot, *heads) == {"a": "admitted", "b": "admitted"}


def test_the_order_in_which_things_are_given_does_not_matter() -> None:
    """Decisions depend on names and ages, not on the order of dicts."""
    queues = [one(name, 2, "c", preemption=evicts(LOWER, ANY)) for name in "xyz"]
    held = [holds("v", "z", 3), holds("w", "z", 2)]
    heads = [job("a", "x", 2), job("b", "y", 2), job("d", "z", 1, 5)]
    for rules in (None, FAIR):
        answers = {
            tuple(decide(state(*things, *held[::way], rules=rules), *order).items())
            for things in permutations(queues)
            for order in permutations(heads)
            for way in (1, -1)
        }
        assert len(answers) == 1


async def test_quota_is_held_until_the_victim_has_stopped() -> None:
    """§2.2: meanwhile the preemptor finds the same victims, and others park."""
    queue = one("q", 4, "c", preemption=evicts(NEVER, ANY))
    stage = Stage(queue, one("p", 4, "c"), holds("v", "p", 8))
    await stage.submit(job("x", "q", 4))
    assert await stage.cycle() == {"x": "preempts v"}
    await stage.submit(job("other", "p", 4))
    for _ in range(3):
        await stage.cycle()
    assert stage.log == ["evict v InCohortReclamation"], "once"
    assert stage.waiting == ["other", "x"]

    await stage.stopped("v")
    assert await stage.cycle() == {"x": "admitted", "v": "FailedAfterNomination"}
    await stage.later()
    assert stage.running == ["other", "x"]


async def test_victims_stop_one_by_one() -> None:
    """§2.2: each frees its quota on its own; the preemptor waits for the last of them."""
    stage = Stage(one("q", 4, preemption=evicts(LOWER)), holds("v", "q", 2), holds("w", "q", 2))
    await stage.submit(job("x", "q", 4, 1))
    await stage.rest()
    assert stage.evicted == ["v", "w"]
    await stage.finish("v")
    assert await stage.cycle() == {"x": "preempts w"}
    await stage.finish("w")
    assert await stage.cycle() == {"x": "admitted"}
    assert stage.log == ["evict v InClusterQueue", "evict w InClusterQueue", "admit x"]


async def test_a_victim_comes_back_in_its_old_place() -> None:
    """§3: preempted workloads keep their creation time, so they go before younger ones."""
    stage = Stage(one("q", 4, preemption=evicts(LOWER)), holds("v", "q", 4, at=1.0))
    await stage.submit(job("x", "q", 4, 1), job("young", "q", 4, at=500.0))
    await stage.rest()
    await stage.stopped("v")
    await stage.rest()
    await stage.finish("x")
    await stage.later()
    assert stage.running == ["v"]


async def test_who_would_fit_beside_victims_waits_for_them() -> None:
    """Item 24 over time: it is in front when they have gone, and evicts nobody itself."""
    queues = [one(name, 2, "c", preemption=evicts(NEVER, ANY)) for name in "xy"]
    stage = Stage(*queues, one("z", 0, "c"), holds("v", "z", 4))
    await stage.submit(job("a", "x", 2), job("b", "y", 2))
    assert await stage.cycle() == {"a": "preempts v", "b": "PendingPreemption"}
    await stage.submit(job("b2", "y", 2, 9))
    await stage.rest()
    await stage.finish("v")
    assert await stage.cycle() == {"a": "admitted", "b": "admitted"}
    assert stage.log == ["evict v InCohortReclamation", "admit a", "admit b"]


async def test_several_preempt_in_turn() -> None:
    """Items 22 and 23 over time: everyone gets victims of its own, and in the end its quota."""
    queues = [one(name, 2, "c", preemption=evicts(NEVER, ANY)) for name in "wxy"]
    stage = Stage(*queues, one("z", 0, "c"), *(holds(f"v{n}", "z", 2) for n in range(3)))
    await stage.submit(job("a", "w", 2), job("b", "x", 2), job("d", "y", 2))
    assert await stage.cycle() == {"a": "preempts v0", "b": "preempts v1", "d": "preempts v2"}
    await stage.finish("v0", "v1", "v2")
    await stage.rest()
    assert stage.running == ["a", "b", "d"]


async def test_the_closed_gate_of_a_preemptor_opens() -> None:
    """Item 44: parked until then."""
    stage = Stage(one("q", 4, preemption=evicts(LOWER)), holds("v", "q", 4))
    gated = job("x", "q", 4, 1, preemption_gated=True)
    await stage.submit(gated)
    await stage.rest()
    assert stage.log == []
    await stage.submit(replace(gated, preemption_gated=False, generation=1))
    assert await stage.cycle() == {"x": "preempts v"}


async def test_a_cohort_object_comes_and_goes() -> None:
    """Item 113: without it the cohort is there by its name, only its own quota is gone."""
    queues = [one("x", 1, "c"), one("y", 1, "c")]
    stage = Stage(*queues)
    await stage.submit(job("a", "x", 2), job("b", "y", 3))
    await stage.later()
    assert stage.running == ["a"], "they lend to each other"
    stage.configure(*queues, co("c", 3))
    await stage.later()
    assert stage.running == ["a", "b"]
    stage.configure(*queues)
    await stage.submit(job("d", "x", 1))
    await stage.later()
    assert stage.running == ["a", "b"], "what runs is left alone"
    await stage.finish("b")
    await stage.later()
    assert stage.running == ["a"]
    await stage.finish("a")
    await stage.later()
    assert stage.running == ["d"]


async def test_a_strict_head_reserves_its_quota() -> None:
    """Item 26 over time: whom it waits for may end, and others cannot have its quota meanwhile."""
    owner = one("x", 4, "c", strategy=STRICT, preemption=evicts(LOWER, LOWER))
    stage = Stage(owner, one("y", 0, "c"), holds("h", "x", 2, 9))
    await stage.submit(job("a", "x", 4, 1))
    for n in range(3):
        await stage.submit(job(f"b{n}", "y", 1))
        await stage.later()
    assert stage.running == ["h"]
    await stage.finish("h")
    await stage.rest()
    assert stage.running == ["a"]


def test_a_cycle_touches_nothing() -> None:
    """Item 118: charges, holders and victims are what they were, whatever was decided."""
    queues = [one(name, 2, "c", preemption=evicts(LOWER, ANY)) for name in "xy"]
    snapshot = state(*queues, one("z", 0, "c"), co("c", 1), holds("v", "z", 3), holds("w", "z", 2))
    holders = {name: dict(held) for name, held in snapshot.holders.items()}
    usage = charged(snapshot.tree)
    heads = [job("a", "x", 2), job("b", "y", 3), job("d", "z", 1)]
    first = decide(snapshot, *heads)

    assert decide(snapshot, *heads) == first
    assert {name: dict(held) for name, held in snapshot.holders.items()} == holders
    assert charged(snapshot.tree) == usage
    assert snapshot.gone == set()


def test_usage_of_an_admission() -> None:
    """Amounts add up over pod sets, per flavor and resource."""
    found = holds("h", "q", {"f/gpu": 2, "g/gpu": 3, "f/cpu": 1}).admission
    assert isinstance(found, Admission)
    assert found.usage() == {
        FlavorResource("f", "gpu"): 2,
        FlavorResource("g", "gpu"): 3,
        FlavorResource("f", "cpu"): 1,
    }
