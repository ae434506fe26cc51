"""What people and clusters may hand to the scheduler: never an exception, never a wedged queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.assignment import Mode
from federation.core.nomination import nominate
from federation.core.policies import Rules
from federation.core.quantity import MAX_AMOUNT, UNLIMITED
from federation.core.queueing import MemoryIndex
from federation.core.quota import QuotaTree
from federation.core.reasons import Reason
from tests.unit.core.build import (
    ANY,
    GPU,
    LOWER,
    NEVER,
    NEWER,
    STRICT,
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
from tests.unit.core.stage import FAIR, Stage, Thing, charged, state

RULES = pytest.mark.parametrize("rules", [Rules(), FAIR], ids=["classical", "fair"])


def consistent(stage: Stage) -> None:
    """The tree has what the holders hold, at every node, and nobody both waits and is charged."""
    scheduler = stage.scheduler
    given = scheduler.snapshot
    tree = QuotaTree(given.queues.values(), stage.cohorts)
    for uid in stage.known:
        if holder := scheduler.holder(uid):
            tree.add(holder.cluster_queue, holder.usage)
    assert charged(given.tree) == charged(tree)


@RULES
async def test_a_cycle_of_cohorts(rules: Rules) -> None:
    """Item 112: while it lasts nothing below it is admitted; once it is broken all goes on."""
    queues = [one("q", 4, "x"), one("p", 4, "y"), one("other", 4)]
    held = holds("h", "q", 2)
    stage = Stage(*queues, co("x", 0, "y"), co("y", 0), held, rules=rules)
    stage.configure(*queues, co("x", 0, "y"), co("y", 0, "x"), rules=rules)
    await stage.submit(job("a", "q", 2), job("b", "p", 4), job("c", "other", 4))
    await stage.later()
    assert stage.running == ["c", "h"]
    await stage.finish("h")
    stage.configure(*queues, co("x", 0, "y"), co("y", 0), rules=rules)
    await stage.later()
    assert stage.running == ["a", "b", "c"]
    consistent(stage)


@RULES
async def test_cohorts_as_deep_as_can_be(rules: Rules) -> None:
    """Decisions walk them all, to admit and to preempt."""
    chain = [co(f"c{n}", 0, f"c{n + 1}") for n in range(199)]
    policy = evicts(NEVER, ANY)
    queues = [one("q", 4, "c0", preemption=policy), one("p", 0, "c5"), one("r", 2, "c199")]
    stage = Stage(*chain, *queues, rules=rules)
    await stage.submit(job("b", "p", 6))
    await stage.rest()
    await stage.submit(job("a", "q", 4))
    await stage.rest()
    assert stage.log == ["admit b", "evict b InCohortReclamation"]
    consistent(stage)


@RULES
async def test_a_flavor_that_vanishes(rules: Rules) -> None:
    """Item 20: its queue admits nothing, what runs keeps its quota; it may come back."""
    queues = [one("q", 4, "c", preemption=evicts(LOWER, ANY)), one("p", 4, "c")]
    stage = Stage(*queues, holds("h", "q", 2), rules=rules)
    stage.configure(*queues, rules=rules, lost=["f"])
    await stage.submit(job("a", "q", 6), job("b", "p", 1))
    await stage.later()
    assert stage.running == ["h"]
    await stage.finish("h")
    await stage.later()
    stage.configure(*queues, rules=rules)
    await stage.later()
    assert stage.running == ["a", "b"]


@RULES
async def test_quota_lowered_below_use(rules: Rules) -> None:
    """Item 115: nobody is evicted for it, nothing is admitted until there is room again."""
    stage = Stage(one("q", 8, "c"), one("p", 4, "c"), rules=rules)
    await stage.submit(*(job(f"a{n}", "q", 4) for n in range(3)))
    await stage.rest()
    assert stage.running == ["a0", "a1", "a2"]
    stage.configure(one("q", 2, "c"), one("p", 4, "c"), rules=rules)
    await stage.submit(job("b", "p", 1), job("d", "q", 1))
    await stage.later()
    assert stage.running == ["a0", "a1", "a2"]
    await stage.finish("a0")
    await stage.later()
    assert stage.waiting == ["b", "d"], "8 are used of 6"
    await stage.finish("a1")
    await stage.later()
    assert stage.running == ["a2", "b", "d"]
    consistent(stage)


@RULES
async def test_a_limit_lowered_below_use(rules: Rules) -> None:
    """The reservation of one that waits in vain is negative then, and leaves no trace (§7.6)."""
    policy = evicts(LOWER, LOWER, borrowing=True)
    stage = Stage(
        one("q", quota(0, bl=8), "c", preemption=policy),
        co("c", 20),
        one("p", 0, "c"),
        holds("h", "q", 8, 9),
        rules=rules,
    )
    stage.configure(
        one("q", quota(0, bl=4), "c", preemption=policy), co("c", 20), one("p", 0, "c"), rules=rules
    )
    await stage.submit(job("a", "q", 1, 1))
    for n in range(3):
        await stage.submit(job(f"p{n}", "p", 4))
        await stage.later()
        consistent(stage)
    assert stage.running == ["h", "p0", "p1", "p2"]
    await stage.finish("h")
    await stage.later()
    assert "a" in stage.running


async def test_amounts_that_overflow() -> None:
    """Item 45: they end at int64, which no finite quota has."""
    stage = Stage(one("q", 8, "c"), one("p", 1, "c"))
    await stage.submit(
        item("huge", "q", pods(2**31, gpu=MAX_AMOUNT)),
        item("both", "p", pods(1, "a", gpu=MAX_AMOUNT), pods(1, "b", gpu=MAX_AMOUNT)),
    )
    await stage.rest()
    assert stage.wait("huge").reason is Reason.EXCEEDS_MAX_QUOTA
    assert f"current podset request ({MAX_AMOUNT})" in stage.wait("huge").message
    assert stage.wait("both").reason is Reason.EXCEEDS_MAX_QUOTA


async def test_amounts_that_overflow_in_an_unlimited_quota() -> None:
    """Item 45: it stays unlimited."""
    stage = Stage(one("q", UNLIMITED, "c"), one("p", UNLIMITED, "c"))
    await stage.submit(*(item(f"u{n}", "q", pods(2**31, gpu=MAX_AMOUNT)) for n in range(4)))
    await stage.submit(job("last", "p", 1))
    await stage.rest()
    assert stage.running == ["last", "u0", "u1", "u2", "u3"]
    await stage.finish("u0", "u1", "u2", "u3", "last")
    assert charged(stage.scheduler.snapshot.tree) == {}


@pytest.mark.parametrize("bad", [pods(gpu=-5), pods(-5, gpu=1), pods(-5, gpu=1, min_count=-7)])
async def test_negative_requests(bad: Any) -> None:
    """They make no room for others."""
    stage = Stage(cq("q", group("gpu pods", f=(quota(4), quota(4)))))
    await stage.submit(item("bad", "q", bad), job("five", "q", 5), job("four", "q", 4))
    await stage.rest()
    assert stage.running == ["bad", "four"]
    assert stage.scheduler.snapshot.tree.usage("q")[GPU] == 4


async def test_a_negative_holder() -> None:
    """It makes no room either, and its release takes none away."""
    stage = Stage(one("q", 4, "c"), one("p", 4, "c"), holds("bad", "q", -5))
    await stage.submit(job("nine", "q", 9), job("eight", "q", 8, -1))
    await stage.rest()
    assert stage.running == ["bad", "eight"]
    await stage.finish("bad", "eight")
    assert charged(stage.scheduler.snapshot.tree) == {}


@RULES
async def test_pod_sets_of_the_same_name(rules: Rules) -> None:
    """Each counts."""
    stage = Stage(one("q", 4), rules=rules)
    await stage.submit(
        item("bad", "q", pods(1, "main", gpu=2), pods(1, "main", gpu=3)), job("good", "q", 4, -1)
    )
    await stage.rest()
    assert stage.wait("bad").reason is Reason.EXCEEDS_MAX_QUOTA
    assert stage.running == ["good"]


async def test_pod_sets_of_the_same_name_that_preempt() -> None:
    """Also where flavors are chosen once more beside the victims of another one."""
    amounts = group("gpu", f=(quota(2),), g=(quota(2),))
    queues = [cq(name, amounts, cohort="c", preemption=evicts(NEVER, ANY)) for name in "xy"]
    lender = cq("z", group("gpu", f=(quota(0),), g=(quota(0),)), cohort="c")
    stage = Stage(*queues, lender, holds("v", "z", {"f/gpu": 4, "g/gpu": 4}))
    for uid, queue in ("ax", "by"):
        await stage.submit(item(uid, queue, pods(1, "p", gpu=2), pods(1, "p", gpu=2)))
    await stage.rest()
    assert stage.log == ["evict v InCohortReclamation"]
    await stage.finish("v")
    await stage.later()
    assert stage.running == ["a", "b"]


async def test_no_pod_sets() -> None:
    """Nothing is asked for, so nothing is charged."""
    stage = Stage(one("q", 1))
    empty = replace(job("empty"), pod_sets=())
    await stage.submit(empty, job("other"))
    await stage.rest()
    assert stage.running == ["empty", "other"]


async def test_huge_counts() -> None:
    """More pods than any integer of the API can say."""
    stage = Stage(cq("q", group("gpu pods", f=(quota(4), quota(9)))))
    await stage.submit(
        item("never", "q", pods(2**80, gpu=1)),
        item("some", "q", pods(2**80, gpu=1, min_count=1)),
        job("extreme", "q", 5, -(2**40)),
    )
    await stage.rest()
    assert stage.running == ["some"]
    assert stage.admissions["some"].pod_sets[0].count == 4


@RULES
async def test_a_queue_is_deleted_and_comes_back(rules: Rules) -> None:
    """With holders and waiting workloads; the cohort lives on without it, and with it again."""
    q, p = one("q", 4, "c"), one("p", 2, "c")
    stage = Stage(q, p, holds("h", "q", 4), rules=rules)
    await stage.submit(job("a", "q", 2), job("b", "p", 2), job("d", "p", 1, -1))
    await stage.rest()
    assert (stage.running, stage.waiting) == (["b", "h"], ["a", "d"])
    stage.configure(p, rules=rules)
    await stage.later()
    assert (stage.running, stage.waiting) == (["b", "h"], ["a", "d"])
    consistent(stage)
    await stage.finish("b")
    await stage.later()
    await stage.submit(job("late", "q", 1, 9))
    await stage.later()
    assert (stage.running, stage.waiting) == (["d", "h"], ["a", "late"])
    stage.configure(q, p, rules=rules)
    await stage.later()
    assert (stage.running, stage.waiting) == (["d", "h", "late"], ["a"])
    consistent(stage)
    await stage.finish("h")
    await stage.later()
    assert stage.running == ["a", "d", "late"]


@RULES
async def test_a_holder_of_an_unknown_queue(rules: Rules) -> None:
    """It is kept in mind, and charged when its queue appears."""
    stage = Stage(one("p", 4, "c"), holds("h", "q", 3), rules=rules)
    await stage.submit(job("a", "q", 2), job("b", "p", 1))
    await stage.later()
    assert stage.running == ["b", "h"]
    stage.configure(one("p", 4, "c"), one("q", 4, "c"), rules=rules)
    await stage.submit(job("large", "p", 5))
    await stage.later()
    assert stage.running == ["a", "b", "h"]
    consistent(stage)
    stage.configure(one("p", 4, "c"), rules=rules)
    await stage.finish("h", "a", "b")
    await stage.later()
    assert charged(stage.scheduler.snapshot.tree) == {}
    assert stage.waiting == ["large"]


async def test_one_workload_submitted_twice() -> None:
    """The last word counts, whatever the queue; it is admitted once."""
    stage = Stage(one("q", 4), one("p", 4))
    await stage.submit(job("a", "q", 2), job("a", "p", 3, generation=1))
    await stage.rest()
    assert stage.log == ["admit a"]
    assert charged(stage.scheduler.snapshot.tree) == {"queue p": {GPU: 3}}
    await stage.finish("a")
    await stage.later()
    assert (stage.running, stage.waiting) == ([], [])


async def test_one_workload_submitted_twice_in_the_same_generation() -> None:
    """As when two objects claim the same UID."""
    stage = Stage(one("q", 4), one("p", 4))
    await stage.submit(job("a", "q", 2), job("a", "p", 3), job("a", "q", 1))
    await stage.rest()
    assert charged(stage.scheduler.snapshot.tree) == {"queue q": {GPU: 1}}


@pytest.mark.parametrize("strict", [True, False])
async def test_what_holds_quota_is_not_admitted_again(strict: bool) -> None:
    """§7.2: it waits until it has released, without hindering those behind it."""
    queue = one("q", 4, **({"strategy": STRICT} if strict else {}))
    stage = Stage(queue, holds("a", "q", 2))
    await stage.submit(job("a", "q", 2), job("b", "q", 1, -1))
    await stage.rest()
    assert stage.log == ["admit b"]
    stage.scheduler.release("a", stage.now)
    await stage.rest()
    assert stage.log == ["admit b", "admit a"], "at once, as after an eviction"
    consistent(stage)


async def test_a_holder_that_moved() -> None:
    """The same workload in another queue: charged once."""
    stage = Stage(one("q", 4), one("p", 4), holds("a", "q", 2))
    stage.hold(holds("a", "p", 3))
    stage.hold(holds("a", "p", 3))
    assert charged(stage.scheduler.snapshot.tree) == {"queue p": {GPU: 3}}


async def test_leaving_twice() -> None:
    """And of what was never there."""
    stage = Stage(one("q", 4), holds("a", "q", 2))
    await stage.submit(job("b", "q", 4))
    for _ in range(2):
        await stage.finish("a", "b", "never")
    assert (stage.running, stage.waiting) == ([], [])
    assert charged(stage.scheduler.snapshot.tree) == {}


@RULES
async def test_a_holder_with_an_unknown_flavor(rules: Rules) -> None:
    """Over-use of what is not there: it is neither free nor in the way of the other flavors."""
    queues = [one("q", 4, "c", preemption=evicts(LOWER, ANY)), one("p", 4, "c")]
    odd = holds("odd", "p", {"gone/gpu": 7, "gone/thing": 1})
    stage = Stage(*queues, odd, rules=rules)
    await stage.submit(job("a", "q", 4), job("b", "p", 4), job("x", "q", 9))
    await stage.later()
    assert stage.running == ["a", "b", "odd"]
    await stage.finish("odd", "a", "b")
    assert charged(stage.scheduler.snapshot.tree) == {}


class Interrupted(MemoryIndex):
    """Something happens while workloads are taken out of it."""

    meanwhile: Callable[[], None]

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        found = await super().claim(entries)
        self.meanwhile()
        return found


async def test_a_preemptor_whose_queue_is_deleted_meanwhile() -> None:
    """While another one is admitted in the same cycle."""
    index = Interrupted()
    q, p = one("q", 4, preemption=evicts(LOWER)), one("p", 4)
    stage = Stage(q, p, holds("v", "q", 4), index=index)
    index.meanwhile = lambda: stage.configure(p)
    await stage.submit(job("a", "q", 4, 1), job("b", "p", 4))
    await stage.cycle()
    assert "admit b" in stage.log
    index.meanwhile = lambda: None
    stage.configure(q, p)
    await stage.finish("v")
    await stage.later()
    assert stage.running == ["a", "b"]


async def test_a_victim_whose_queue_is_deleted() -> None:
    """The preemptor fits as soon as the quota is gone with it."""
    q, p = one("q", 4, "c", preemption=evicts(NEVER, ANY)), one("p", 0, "c")
    stage = Stage(q, p, holds("v", "p", 4))
    await stage.submit(job("a", "q", 4))
    assert await stage.cycle() == {"a": "preempts v"}
    stage.configure(q)
    await stage.rest()
    assert "admit a" in stage.log
    await stage.stopped("v")
    await stage.later()
    assert stage.waiting == ["v"]


def test_a_queue_without_groups() -> None:
    """It has nothing to give, and says so."""
    found = nominate(job("a", "q", 1), state(cq("q"))).assignment
    assert found.mode is Mode.NO_FIT
    assert "resource gpu unavailable in ClusterQueue" in found.explanation()


# Anything, in any order

NAMES = ("q", "p", "r")
PARENTS = ("", "c", "d")
LIMIT = st.none() | st.integers(0, 4)
POLICY = st.sampled_from([NEVER, LOWER, ANY])


@st.composite
def worlds(draw: st.DrawFn) -> list[Thing]:
    """Some of three queues in two cohorts, which may form a cycle; flavor g may be lost."""
    things: list[Thing] = []
    for name in NAMES:
        if draw(st.integers(0, 5)):
            policy = evicts(
                draw(st.sampled_from([NEVER, LOWER, NEWER])),
                draw(POLICY),
                borrowing=draw(st.booleans()),
            )
            amounts = [quota(draw(st.integers(0, 6)), draw(LIMIT), draw(LIMIT)) for _ in "fg"]
            more = {"strategy": STRICT} if draw(st.booleans()) else {}
            things.append(
                cq(
                    name,
                    group("gpu", f=(amounts[0],), g=(amounts[1],)),
                    cohort=draw(st.sampled_from(PARENTS)),
                    preemption=policy,
                    fair_weight=draw(st.sampled_from([0.0, 1.0, 2.0])),
                    usage_based=draw(st.booleans()),
                    **more,
                )
            )
    cohorts = {name: draw(st.sampled_from(PARENTS)) for name in PARENTS[1:]}
    return things + [co(name, draw(st.integers(0, 4)), parent) for name, parent in cohorts.items()]


UIDS = st.sampled_from([f"u{n}" for n in range(6)])
REQUESTS = st.integers(-1, 7)
SUBMIT = st.tuples(
    st.just("submit"), UIDS, st.sampled_from(NAMES), REQUESTS, st.integers(0, 2), st.integers(0, 3)
)
HOLD = st.tuples(st.just("hold"), UIDS, st.sampled_from(NAMES), st.integers(0, 6))
STEPS = st.lists(
    SUBMIT
    | SUBMIT
    | HOLD
    | st.tuples(st.just("finish"), UIDS)
    | st.tuples(st.just("stop"))
    | st.tuples(st.just("stop"))
    | st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 1.0, 60.0]))
    | st.tuples(st.just("wait"), st.just(1.0))
    | st.tuples(st.just("configure"), worlds()),
    max_size=14,
)
ALL_OPEN = [cq(name, group("gpu", f=(quota(99),), g=(quota(99),))) for name in NAMES]


async def play(stage: Stage, step: Any, rules: Rules) -> None:
    """One thing that happens."""
    match step:
        case ("submit", uid, queue, amount, priority, least):
            sets = pods(2, gpu=amount, min_count=least or None)
            generation = len(stage.log) + stage.known.get(uid, job(uid)).generation + 1
            backoff = stage.now + 30.0 if amount == 7 else 0.0
            await stage.submit(
                item(
                    uid,
                    queue,
                    sets,
                    priority=priority,
                    generation=generation,
                    not_before=backoff,
                    created=stage.now,
                )
            )
        case ("hold", uid, queue, amount):
            stage.hold(holds(uid, queue, {"g/gpu": amount}))
        case ("finish", uid):
            await stage.finish(uid)
            stage.known.pop(uid, None)
        case ("stop",):
            await stage.stopped(*stage.evicted)
        case ("wait", seconds):
            await stage.later(seconds)
        case ("configure", things):
            stage.configure(*things, rules=rules)


@settings(max_examples=60, deadline=None)
@given(worlds(), STEPS, st.booleans())
async def test_nothing_gets_lost_or_stuck(first: list[Thing], steps: Any, fair: bool) -> None:
    """Whatever happens: charges are those of the holders, every workload waits or holds, and when
    there is room for all in the end, all are admitted.
    """
    rules = FAIR if fair else Rules()
    stage = Stage(*first, rules=rules)
    for step in steps:
        await play(stage, step, rules)
        consistent(stage)
        held = {uid for uid in stage.known if stage.scheduler.holder(uid)}
        assert held | set(stage.waiting) == set(stage.known)
    await stage.stopped(*stage.evicted)
    stage.configure(*ALL_OPEN)
    await stage.later(60.0)
    await stage.later(60.0)

    assert stage.running == sorted(stage.known)
    assert not stage.scheduler.ready
    assert stage.scheduler.due() is None
