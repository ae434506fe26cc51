"""LocalQueues that take turns by what they used: admission fair sharing in the scheduler."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.fair_usage import UsageState
from federation.core.policies import FairUsage
from federation.core.turns import Turns
from federation.core.types import ClusterQueue, Holder, LocalQueue
from federation.core.world import World
from tests.unit.core.build import FEW, LOWER, NEWER, STRICT, evicts, holds, job, one
from tests.unit.core.stage import HALVES, Stage

INTERVAL = HALVES.sampling_s


def door(name: str, queue: str = "q", **more: Any) -> LocalQueue:
    """A LocalQueue of namespace `team`."""
    return LocalQueue("team", name, queue, **more)


def queue(room: int = 1, **more: Any) -> ClusterQueue:
    """ClusterQueue q with so many gpus, which goes by usage."""
    return one("q", room, usage_based=True, **more)


def usage(stage: Stage, name: str) -> float:
    """What a LocalQueue is ordered by."""
    return stage.scheduler.turns.usages["team", name]


async def filled(stage: Stage, *items: Any) -> list[str]:
    """These come in and are tried until nothing changes; what is admitted then, in order."""
    before = len(stage.log)
    await stage.submit(*items)
    await stage.rest()
    return [line.partition(" ")[2] for line in stage.log[before:] if line.startswith("admit")]


# The order


async def test_who_used_less_goes_first_whatever_the_priority() -> None:
    stage = Stage(
        *(queue(2), door("greedy"), door("modest")),
        *(holds("g", amount=1, local_queue="greedy"), holds("m", amount=1, local_queue="modest")),
    )
    stage.hold(holds("g2", amount=3, local_queue="greedy"))
    await stage.later()
    assert (usage(stage, "greedy"), usage(stage, "modest")) == (4.0, 1.0)
    await stage.finish("g", "g2", "m")
    await stage.later(1.5)

    work = [
        job("urgent", local_queue="greedy", priority=9),
        job("plain", local_queue="modest", at=2000.0, amount=2),
    ]
    assert await filled(stage, *work) == ["plain"]
    await stage.finish("plain")
    await stage.later(1.5)
    assert stage.running == ["urgent"]


async def test_one_burst_of_one_queue_does_not_take_everything() -> None:
    """Penalties alone tell the two apart: no sample is taken in between."""
    greedy = [job(f"g{n}", local_queue="greedy") for n in range(6)]
    modest = [job(f"m{n}", local_queue="modest", at=3000.0) for n in range(6)]
    stage = Stage(queue(6), door("greedy"), door("modest"))
    assert await filled(stage, *greedy, *modest) == ["g0", "m0", "g1", "m1", "g2", "m2"]

    plain = Stage(queue(6), door("greedy"), door("modest"), fair_usage=None)
    assert await filled(plain, *greedy, *modest) == [f"g{n}" for n in range(6)]


async def test_a_weight_of_two_gets_twice_as_much() -> None:
    stage = Stage(queue(9), door("a", fair_weight=2.0), door("b"))
    work = [job(f"{name}{n}", local_queue=name) for name in "ab" for n in range(9)]
    admitted = await filled(stage, *work)
    assert sorted(uid[0] for uid in admitted) == ["a"] * 6 + ["b"] * 3


async def test_a_weight_of_zero_is_served_when_nobody_else_waits() -> None:
    stage = Stage(queue(3), door("none", fair_weight=0.0), door("a"))
    work = [job("n0", local_queue="none", priority=9)]
    work += [job(f"a{n}", local_queue="a") for n in range(2)]
    assert await filled(stage, *work) == ["a0", "a1", "n0"]
    assert usage(stage, "none") == math.inf


async def test_a_weight_that_changes_counts_at_once() -> None:
    stage = Stage(queue(4), door("a"), door("b"), holds("x", amount=2, local_queue="a"))
    await stage.later()
    assert usage(stage, "a") == 2.0
    stage.configure(queue(4), door("a", fair_weight=4.0), door("b"))
    assert usage(stage, "a") == 0.5


async def test_weights_of_resources() -> None:
    rules = replace(HALVES, weights={"gpu": 10.0, "cpu": 0.0})
    running = holds("x", amount={"f/gpu": 2, "f/cpu": 9000}, local_queue="a")
    stage = Stage(queue(4), door("a"), running, fair_usage=rules)
    await stage.later()
    assert usage(stage, "a") == 20.0


# Penalties


def held(uid: str = "x", amount: int = 4, **more: Any) -> Holder:
    """A workload of LocalQueue a that has reserved quota and is not admitted."""
    return holds(uid, amount=amount, **{"local_queue": "a", "admitted": False, **more})


async def test_a_penalty_becomes_use_with_the_admission() -> None:
    stage = Stage(queue(9), door("a"))
    await stage.later()
    stage.hold(held())
    assert usage(stage, "a") == 2.0
    assert stage.scheduler.turns.state(("team", "a")) == UsageState({}, stage.now, {"gpu": 4})

    stage.hold(held(admitted=True))
    assert usage(stage, "a") == 2.0
    assert stage.scheduler.turns.state(("team", "a")) == UsageState({"gpu": 2.0}, stage.now)

    await stage.finish("x")
    assert usage(stage, "a") == 2.0, "it was used"


async def test_a_penalty_goes_with_an_admission_that_failed() -> None:
    stage = Stage(queue(9), door("a"))
    await stage.later()
    stage.hold(held())
    stage.hold(held(evicted=True))
    stage.scheduler.release("x", stage.now)
    assert usage(stage, "a") == 0.0


async def test_a_penalty_moves_with_the_workload() -> None:
    stage = Stage(queue(9), door("a"), door("b"))
    stage.hold(held())
    stage.hold(held(local_queue="b"))
    assert (usage(stage, "a"), usage(stage, "b")) == (0.0, 2.0)


async def test_what_is_not_admitted_is_no_use_yet() -> None:
    """A sample counts what is admitted; the penalty stands as it was."""
    stage = Stage(queue(9), door("a"))
    await stage.later()
    stage.hold(held())
    await stage.later(10 * INTERVAL)
    assert usage(stage, "a") == 2.0


# Samples


async def test_past_use_decays_over_hours() -> None:
    """Half-life one hour: what ran for long and ended counts half after each."""
    rules = FairUsage(half_life_s=3600.0, sampling_s=300.0)
    stage = Stage(
        queue(9), door("a"), door("b"), holds("x", amount=8, local_queue="a"), fair_usage=rules
    )
    await stage.later()
    await stage.finish("x")
    found = []
    for step in range(49):  # four hours
        if step % 12 == 0:
            found.append(usage(stage, "a"))
        await stage.later(300.0)
    assert found == [pytest.approx(8.0 / 2**hour) for hour in range(5)]
    assert usage(stage, "b") == 0.0


async def test_use_grows_while_it_lasts() -> None:
    stage = Stage(queue(9), door("a"))
    await stage.later()
    stage.hold(holds("x", amount=8, local_queue="a"))
    found = []
    for _ in range(3):
        await stage.later(INTERVAL)
        found.append(usage(stage, "a"))
    assert found == [4.0, 6.0, 7.0]


async def test_time_asks_for_a_cycle_only_where_something_goes_by_usage() -> None:
    stage = Stage(queue(), door("a"))
    await stage.later()
    assert stage.scheduler.due() == stage.now + INTERVAL
    stage.configure(one("q", 1), door("a"))
    await stage.later(1.5)
    assert stage.scheduler.due() is None

    off = Stage(queue(), door("a"), fair_usage=None)
    await off.later(1.5)
    assert off.scheduler.due() is None


async def test_samples_come_in_time_although_nothing_else_happens() -> None:
    stage = Stage(queue(), door("a"), holds("x", local_queue="a"))
    await stage.later()
    times = []
    for _ in range(3):
        stage.now = stage.scheduler.due() or 0.0
        await stage.later(0.0)
        times.append(stage.now)
        assert not stage.scheduler.ready
    assert [late - early for early, late in pairwise(times)] == [INTERVAL, INTERVAL]


async def test_a_sample_lets_another_head_block_a_strict_queue() -> None:
    """Nothing but time happens: b's workload fits, and is not behind a's any more."""
    big, small = job("big", amount=9, local_queue="a"), job("small", local_queue="b")
    stage = Stage(queue(4, strategy=STRICT), door("a"), door("b"))
    await stage.later()
    stage.hold(holds("x", amount=2, local_queue="b"))
    await stage.later(INTERVAL)
    stage.hold(holds("y", amount=1, local_queue="a"))
    await stage.submit(big, small)
    await stage.rest()
    assert stage.waiting == ["big", "small"], "a used less: its head blocks"
    await stage.finish("x")
    for _ in range(4):
        await stage.later(INTERVAL)
    assert stage.waiting == ["big"]


# Beginning, ending, restarting


async def test_a_restart_goes_on_where_the_status_says() -> None:
    """A day of use is not forgotten; the time that nobody looked counts too."""
    now = Stage().now
    used = UsageState({"gpu": 8.0}, now - INTERVAL)
    stage = Stage(
        *(queue(3), door("a", used=used), door("b")),
        *(holds("x", amount=2, local_queue="a"), job_of_b := holds("y", local_queue="b")),
    )
    await stage.later(0.0)
    assert job_of_b.uid in stage.running
    assert (usage(stage, "a"), usage(stage, "b")) == (8.0 / 2 + 2.0 / 2, 1.0)


async def test_a_restart_between_reservation_and_admission_keeps_the_penalty() -> None:
    stage = Stage(queue(9), door("a"))
    stage.hold(held())
    other = Stage(queue(9), door("a", used=UsageState({}, stage.now)), held())
    assert usage(other, "a") == usage(stage, "a") == 2.0


async def test_the_status_is_read_once() -> None:
    """What this scheduler knows is newer than what it wrote before."""
    stage = Stage(queue(9), door("a"), holds("x", amount=4, local_queue="a"))
    await stage.later()
    stage.configure(queue(9), door("a", used=UsageState({"gpu": 99.0}, stage.now)))
    assert usage(stage, "a") == 4.0


async def test_the_scope_is_switched_on_and_off_while_workloads_wait() -> None:
    plain, doors = one("q", 1), (door("greedy"), door("modest"))
    work = [job(f"g{n}", local_queue="greedy") for n in range(3)]
    work += [job(f"m{n}", local_queue="modest", at=3000.0) for n in range(3)]
    stage = Stage(plain, *doors)
    assert await filled(stage, *work) == ["g0"]

    async def successor() -> list[str]:
        await stage.finish(*stage.running)
        await stage.later(1.5)
        return stage.running

    stage.configure(queue(1), *doors)
    await stage.rest()  # greedy's g0 is what both are measured by
    assert [await successor() for _ in range(2)] == [["m0"], ["m1"]]
    stage.configure(plain, *doors)
    assert await successor() == ["g1"]
    assert stage.scheduler.turns.usages == {}
    stage.configure(queue(1), *doors)
    await stage.rest()
    assert [await successor() for _ in range(2)] == [["m2"], ["g2"]]
    await successor()
    assert stage.waiting == []


@pytest.mark.parametrize("turns", [(True, False), (False, True), (True, True)])
async def test_a_queue_comes_back_with_another_scope(turns: tuple[bool, bool]) -> None:
    """What waited while it was gone waits in the lines of the new one; what does not fit rests."""
    doors = (door("a"), door("b"))
    stage = Stage(one("q", 1, usage_based=turns[0]), *doors, holds("h", amount=1))
    assert await filled(stage, job("a1", local_queue="a"), job("b1", "q", 2, local_queue="b")) == []
    stage.configure(*doors)
    assert await filled(stage, job("a2", local_queue="a")) == []
    await stage.finish("h")
    stage.configure(one("q", 1, usage_based=turns[1]), *doors)
    await stage.rest()
    assert (stage.running, stage.waiting) == (["a1"], ["a2", "b1"])


async def test_a_local_queue_that_is_deleted_is_forgotten() -> None:
    stage = Stage(queue(9), door("a"), door("b"), held())
    stage.configure(queue(9), door("b"))
    assert ("team", "a") not in stage.scheduler.turns.usages
    stage.scheduler.release("x", stage.now)
    stage.configure(queue(9), door("a"), door("b"))
    assert usage(stage, "a") == 0.0


# Victims


@pytest.mark.parametrize(("greedy", "victim"), [("a", "x"), ("b", "y")])
async def test_victims_come_from_the_local_queue_that_used_most(greedy: str, victim: str) -> None:
    """Item 77: although the other one's workload is of lower priority."""
    stage = Stage(
        *(queue(4, preemption=evicts(LOWER)), door("a"), door("b"), door("c")),
        *(holds("x", amount=2, local_queue="a"), holds("y", amount=2, local_queue="b")),
    )
    past = holds("past", amount=6, local_queue=greedy)
    stage.hold(past)
    await stage.later()
    await stage.finish("past")
    await stage.submit(job("urgent", amount=2, priority=9, local_queue="c"))
    await stage.rest()
    assert stage.evicted == [victim]


async def test_within_a_local_queue_victims_come_in_the_usual_order() -> None:
    stage = Stage(
        *(queue(4, preemption=evicts(NEWER)), door("a"), door("b")),
        holds("x", amount=2, local_queue="a"),
        holds("y", amount=2, priority=-1, local_queue="a"),
    )
    await stage.later()
    await stage.submit(job("urgent", amount=2, priority=9, local_queue="b"))
    await stage.rest()
    assert stage.evicted == ["y"]


# Whatever happens

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "admit", "release", "move", "sample", "off", "on"]),
        st.sampled_from("xyz"),
        st.sampled_from("ab"),
    ),
    max_size=30,
)


@given(_STEPS)
@FEW
def test_penalties_are_those_of_what_is_held_and_not_admitted(steps: list[Any]) -> None:
    """Whatever comes in whatever order: nothing is counted twice, nothing stays behind."""
    turns, now, held_now = Turns(), 1000.0, dict[str, Holder]()
    doors = {("team", name): door(name) for name in "ab"}
    on = World({"q": queue(9)}, fair_usage=HALVES, local_queues=doors)
    off = World({"q": one("q", 9)}, fair_usage=HALVES, local_queues=doors)
    turns.configure(on, {})
    world = on
    for what, uid, name in steps:
        now += 100.0
        if what == "hold":
            known = held_now.get(uid)
            held_now[uid] = known or held(uid, local_queue=name)
            turns.hold(held_now[uid])
        elif what in ("admit", "move") and uid in held_now:
            change = {"admitted": True} if what == "admit" else {"local_queue": name}
            held_now[uid] = replace(held_now[uid], **change)
            turns.hold(held_now[uid])
        elif what == "release":
            held_now.pop(uid, None)
            turns.release(uid)
        elif what == "sample":
            turns.sample(now, {"q": held_now})
        elif what in ("on", "off"):
            world = on if what == "on" else off
            turns.configure(world, {"q": held_now})
    for at in doors if world is on else ():
        waiting = [h for h in held_now.values() if (h.namespace, h.local_queue) == at]
        expected = sum(4 for h in waiting if not h.admitted)
        state = turns.state(at)
        assert state is not None
        assert state.assumed == ({"gpu": expected} if expected else {})
    if world is off:
        assert turns.usages == {}
        assert turns.due() is None
