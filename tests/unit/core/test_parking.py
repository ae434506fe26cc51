"""What is tried when: heads, parking, waking, and who stands in front (§3, items 102 to 111)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.dispatch import Choice, NoCluster
from federation.core.policies import Rules, StopPolicy
from federation.core.reasons import Reason
from federation.core.types import Admission, LabelSelector, Pending, ResourceFlavor, Taint
from tests.unit.core.build import (
    ANY,
    LOWER,
    NEVER,
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
from tests.unit.core.stage import Stage, Thing, world


async def order(stage: Stage, *items: Pending) -> list[str]:
    """The order in which workloads of one gpu come out of a queue that admits one at a time."""
    found = []
    await stage.submit(*items)
    for _ in items:
        await stage.cycle()
        found += stage.running
        await stage.finish(*stage.running)
    return found


async def test_priority_then_time_then_uid() -> None:
    """Item 102."""
    work = [job("c"), job("a"), job("old", at=1.0), job("high", priority=5, at=9000.0)]
    assert await order(Stage(one("q", 1)), *work) == ["high", "old", "a", "c"]


async def test_the_queue_timestamp_is_what_counts() -> None:
    """Item 103: an evicted workload is as old as its eviction, if that is how it is submitted."""
    stage = Stage(one("q", 1))
    assert await order(stage, job("evicted", at=500.0), job("other", at=400.0)) == [
        "other",
        "evicted",
    ]


# The timeline of §3: 10 gpus, 6 used; X wants 8, Y wants 3.

X, Y = job("X", amount=8, at=1.0), job("Y", amount=3, at=2.0)


async def test_strict_fifo_blocks() -> None:
    """Timeline: X is tried again and again, Y waits as long as X is unfit."""
    stage = Stage(one("q", 10, strategy=STRICT), holds("six", amount=6))
    await stage.submit(X, Y)

    assert await stage.cycle() == {"X": "PreemptionNoCandidates"}
    await stage.later(60.0)
    assert stage.waiting == ["X", "Y"]
    await stage.finish("six")
    assert await stage.cycle() == {"X": "admitted"}, "at once, since it was never parked"
    await stage.rest()
    assert stage.waiting == ["Y"]


async def test_best_effort_steps_aside() -> None:
    """Timeline: Y is admitted in the second cycle; X comes back when the other one ends."""
    stage = Stage(one("q", 10), holds("six", amount=6))
    await stage.submit(X, Y)

    assert await stage.cycle() == {"X": "PreemptionNoCandidates"}
    assert await stage.cycle() == {"Y": "admitted"}
    await stage.finish("six")
    await stage.rest()
    assert stage.running == ["Y"], "parked until a second later"
    await stage.finish("Y")
    await stage.later(0.9)
    assert stage.running == []
    await stage.later(0.2)
    assert stage.running == ["X"], "a second after the first event"


async def test_a_preemptor_keeps_its_place() -> None:
    """Item 107 and timeline: X preempts, so nothing is considered before it, not even above it."""
    stage = Stage(one("q", 10, preemption=evicts(LOWER)), holds("six", amount=6, priority=-1))
    await stage.submit(replace(X, preemptible=False), Y)
    assert await stage.cycle() == {"X": "preempts six"}
    await stage.submit(job("Z", amount=3, priority=9))
    assert await stage.cycle() == {"X": "preempts six"}
    assert not stage.scheduler.ready

    await stage.stopped("six")
    await stage.rest()
    assert stage.log == ["evict six InClusterQueue", "admit X"]
    await stage.later()
    assert stage.running == ["X"]


async def test_a_strict_preemptor_has_no_other_place_than_its_order() -> None:
    """Item 107: only in BestEffortFIFO; here the higher priority goes first."""
    queue = one("q", 10, strategy=STRICT, preemption=evicts(LOWER))
    stage = Stage(queue, holds("six", amount=6, priority=-1))
    await stage.submit(X)
    assert await stage.cycle() == {"X": "preempts six"}
    await stage.submit(job("Z", amount=3, priority=9))

    assert await stage.cycle() == {"Z": "admitted"}


async def test_a_preemptor_that_changes_keeps_its_place() -> None:
    """Item 107: until it is admitted, deleted, or another one preempts."""
    stage = Stage(one("q", 10, preemption=evicts(LOWER)), holds("six", amount=6, priority=-1))
    await stage.submit(X)
    await stage.rest()
    await stage.submit(job("Z", amount=3, priority=9), replace(X, generation=7))

    assert await stage.cycle() == {"X": "preempts six"}


async def test_the_place_of_a_preemptor_ends_with_it() -> None:
    """Item 107: once it is deleted the order is as ever."""
    stage = Stage(one("q", 10, preemption=evicts(LOWER)), holds("six", amount=6, priority=-1))
    await stage.submit(X, Y)
    await stage.rest()
    await stage.finish("X")

    assert await stage.cycle() == {"Y": "admitted"}


async def test_usage_counts_before_the_place_of_a_preemptor() -> None:
    """§3, order key: first the usage of the LocalQueue, then who is sticky."""
    queue = one("q", 10, preemption=evicts(LOWER), usage_based=True)
    stage = Stage(queue, holds("six", amount=6, priority=-1))
    greedy = job("X", amount=7, at=1.0, local_queue="greedy")
    await stage.submit(greedy)
    stage.uses(greedy=5.0)
    assert await stage.cycle() == {"X": "preempts six"}
    await stage.submit(job("modest", amount=3, at=3.0, local_queue="modest"))

    assert await stage.cycle() == {"modest": "admitted"}
    assert await stage.cycle() == {"X": "preempts six"}


async def test_of_equal_usage_a_preemptor_keeps_its_place() -> None:
    """§3, order key: sticky comes before priority."""
    queue = one("q", 10, preemption=evicts(LOWER), usage_based=True)
    stage = Stage(queue, holds("six", amount=6, priority=-1))
    await stage.submit(replace(X, local_queue="one"))
    assert await stage.cycle() == {"X": "preempts six"}
    await stage.submit(job("Z", amount=3, priority=9, local_queue="two"))

    assert await stage.cycle() == {"X": "preempts six"}


async def test_local_queues_take_turns() -> None:
    """§3: in a queue that goes by usage, before priority; within a LocalQueue as ever."""
    stage = Stage(one("q", 1, usage_based=True))
    work = [
        job("g1", local_queue="greedy", priority=9),
        job("m1", local_queue="modest", at=2.0),
        job("m0", local_queue="modest", at=1.0),
    ]
    stage.uses(greedy=5.0, modest=1.0)

    assert await order(stage, *work) == ["m0", "m1", "g1"]


async def test_taking_turns_can_begin_and_end() -> None:
    """Workloads stand in other lines then; none of them gets lost."""
    things = one("q", 1), one("q", 1, usage_based=True)
    stage = Stage(things[0], holds("h"))
    await stage.submit(job("a", local_queue="greedy"), job("b", local_queue="modest"))
    await stage.rest()
    for turn, thing in enumerate([things[1], things[0], things[1]]):
        stage.configure(thing)
        stage.uses(greedy=5.0, modest=1.0)
        await stage.submit(job(f"more{turn}", local_queue="modest", at=9000.0))
        await stage.later()
    assert stage.waiting == ["a", "b", "more0", "more1", "more2"]
    found = []
    for _ in range(5):
        await stage.finish(*stage.running)
        await stage.later()
        found += stage.running
    assert found == ["b", "more0", "more1", "more2", "a"]


# What wakes


async def parked(*things: Any, **more: Any) -> Stage:
    """A stage on which `x` wanted 4 gpus of queue q and was parked."""
    stage = Stage(*things, **more)
    await stage.submit(job("x", "q", 4))
    await stage.later()
    await stage.later()
    assert stage.waiting == ["x"]
    assert not stage.scheduler.ready
    assert stage.scheduler.due() is None, "nothing but an event can help"
    return stage


FULL: list[Thing] = [one("q", 4), holds("h", "q", 1)]
SHARED: list[Thing] = [one("q", 0, "c"), one("p", 4, "c"), holds("h", "p", 4)]


async def test_an_end_in_the_queue_wakes() -> None:
    """§3: a workload finished."""
    stage = await parked(*FULL)
    await stage.finish("h")
    await stage.later()
    assert stage.running == ["x"]


async def test_an_end_in_the_tree_wakes() -> None:
    """§3: the whole tree, also from deep below."""
    tree = [co("r", 0), co("l", 0, "r"), one("q", 0, "l"), one("p", 4, "r"), holds("h", "p", 4)]
    stage = await parked(*tree)
    await stage.finish("h")
    await stage.later()
    assert stage.running == ["x"]


async def test_an_end_elsewhere_does_not() -> None:
    """§3: another tree is none of its business."""
    stage = await parked(*FULL, one("other", 4), holds("o", "other", 4))
    await stage.finish("o")
    assert await stage.cycle() == {}
    await stage.later()
    assert stage.waiting == ["x"]


async def test_a_pending_workload_deleted_wakes() -> None:
    """§3: pending ones too."""
    stage = await parked(*FULL)
    await stage.submit(job("y", "q", 1, at=5000.0))
    await stage.finish("y")
    stage.now += 1.0
    assert await stage.cycle() == {"x": "PreemptionNoCandidates"}


async def test_new_work_does_not_wake() -> None:
    """§3: nor does an admission; what is parked is not even looked at."""
    stage = await parked(*FULL)
    await stage.submit(job("y", "q", 1, priority=-1))
    assert await stage.cycle() == {"y": "admitted"}
    stage.now += 10.0
    assert await stage.cycle() == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(FULL, [one("q", 5)], id="quota raised"),
        pytest.param(SHARED, [one("q", 4, "c"), one("p", 4, "c")], id="quota in the cohort"),
        pytest.param(SHARED, [*SHARED[:2], co("c", 4)], id="109: the cohort gets quota"),
        pytest.param(SHARED, [*SHARED[:2], co("c", 0, "r"), co("r", 4)], id="109: a parent"),
        pytest.param(
            SHARED, [one("q", 0, "d"), one("p", 4, "c"), co("d", 4)], id="109: moved to another"
        ),
        pytest.param(
            [one("q", 0, "c"), one("p", 0, "c"), co("c", 4), holds("h", "p", 4)],
            [one("q", 0, "c"), one("p", 4, "d"), co("c", 4)],
            id="109: a borrower moved away",
        ),
        pytest.param(
            [one("q", 0, "c"), one("p", 0, "c"), co("c", 4), holds("h", "p", 4)],
            [one("q", 0, "c"), co("c", 4)],
            id="109: a borrower is deleted",
        ),
        pytest.param(
            [one("q", 4, namespace_selector=LabelSelector((("kind", "test"),)))],
            [one("q", 4)],
            id="7: its namespace is selected",
        ),
    ],
)
async def test_a_change_of_queues_wakes(before: list[Any], after: list[Any]) -> None:
    """Item 109 and §3: specs of queues and cohorts, a second later."""
    stage = await parked(*before)
    stage.configure(*after)
    await stage.later(0.5)
    assert stage.running == [uid for uid in stage.running if uid != "x"]
    await stage.later(0.6)
    assert "x" in stage.running


async def test_labels_of_a_namespace_wake() -> None:
    """§3: its labels are selected now."""
    queue = one("q", 4, namespace_selector=LabelSelector((("kind", "test"),)))
    stage = await parked(queue)
    assert stage.wait("x").reason is Reason.MISCONFIGURED
    changed = replace(world(queue), namespaces={"team": {"kind": "test"}})
    stage.scheduler.configure(changed, stage.now)
    await stage.later()
    assert stage.running == ["x"]


async def test_a_flavor_wakes() -> None:
    """§3: its taints are gone."""
    stage = await parked(one("q", 4), ResourceFlavor("f", taints=(Taint("k"),)))
    stage.configure(one("q", 4), ResourceFlavor("f"))
    await stage.later()
    assert stage.running == ["x"]


async def test_the_same_objects_again_do_not_wake() -> None:
    """§3: a status that changed is no event."""
    stage = await parked(*FULL)
    stage.configure(*FULL[:1])
    stage.now += 5.0
    assert await stage.cycle() == {}
    assert stage.scheduler.due() is None


async def test_a_shared_root_wakes_once() -> None:
    """Item 110: however many of its queues something happens to."""
    stage = await parked(*SHARED, holds("h2", "q", 0), one("z", 0, "c"))
    stage.scheduler.wake("q", stage.now)
    stage.now += 0.5
    stage.scheduler.wake("p", stage.now)
    stage.scheduler.wake("z", stage.now)
    assert stage.scheduler.due() == stage.now + 0.5
    stage.now += 0.5
    assert await stage.cycle() == {"x": "NoFit"}
    assert stage.scheduler.due() is None


async def test_a_foreign_namespace_is_not_woken_by_quota() -> None:
    """§3: reactivation needs a namespace that is selected."""
    queue = one("q", 4, namespace_selector=LabelSelector((("kind", "test"),)))
    stage = await parked(queue, holds("h", "q", 1))
    await stage.finish("h")
    stage.now += 1.0
    assert await stage.cycle() == {}


async def test_an_update_that_changes_nothing_stays_parked() -> None:
    """Item 111."""
    stage = await parked(*FULL)
    await stage.submit(job("x", "q", 4))
    assert not stage.scheduler.ready


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(job("x", "q", 4, 1, generation=1), id="priority"),
        pytest.param(job("x", "q", 3, generation=1), id="requests"),
        pytest.param(job("x", "q", 4, generation=1, preemption_gated=True), id="gate"),
    ],
)
async def test_a_relevant_update_is_looked_at(changed: Pending) -> None:
    """Item 111: spec, reclaimable pods, gates."""
    stage = await parked(*FULL)
    await stage.submit(changed)
    assert list(await stage.cycle()) == ["x"] or changed.pod_sets == job("x", "q", 4).pod_sets
    await stage.finish("h")
    await stage.later()
    assert stage.running == ["x"]


async def test_an_event_during_the_cycle() -> None:
    """Item 104: what was freed while the cycle ran brings back what the cycle parks."""
    stage = Stage(*FULL)

    def place(what: Pending, fit: Admission) -> NoCluster:
        stage.scheduler.release("h", stage.now)
        return NoCluster({})

    await stage.submit(job("small", "q", 3, 1, at=1.0), job("x", "q", 4))
    await stage.scheduler.cycle(stage.now, place)
    assert await stage.cycle() == {"x": "admitted"}


# Backoff


async def test_backoff() -> None:
    """Items 56 and 105: it does not take part until its time has come, whatever happens."""
    stage = Stage(one("q", 4), holds("h", "q", 4))
    await stage.later()
    await stage.submit(job("x", "q", 4, not_before=stage.now + 60.0))
    assert stage.scheduler.due() == stage.now + 60.0
    await stage.finish("h")
    await stage.later(59.0)
    assert stage.running == []
    await stage.later(1.0)
    assert stage.running == ["x"]


async def test_backoff_lets_others_pass() -> None:
    """Item 56: also in StrictFIFO."""
    stage = Stage(one("q", 4, strategy=STRICT))
    await stage.submit(job("x", "q", 4, 9, not_before=stage.now + 60.0), job("y", "q", 1))
    await stage.rest()
    assert stage.running == ["y"]


async def test_backoff_can_be_shortened() -> None:
    """An update counts, and the old time does no harm."""
    stage = Stage(one("q", 4))
    await stage.submit(job("x", "q", 4, not_before=stage.now + 60.0))
    await stage.submit(job("x", "q", 4, not_before=stage.now + 5.0, generation=1))
    await stage.later(5.0)
    assert stage.running == ["x"]
    await stage.later(60.0)
    assert (stage.running, stage.waiting) == (["x"], [])


async def test_backoff_can_be_prolonged() -> None:
    """And the earlier time does not bring it back."""
    stage = Stage(one("q", 4))
    await stage.submit(job("x", "q", 4, not_before=stage.now + 5.0))
    await stage.submit(job("x", "q", 4, not_before=stage.now + 60.0, generation=1))
    await stage.later(10.0)
    assert stage.running == []
    await stage.later(50.0)
    assert stage.running == ["x"]


@pytest.mark.parametrize("strict", [True, False])
async def test_no_cluster_until_a_time(strict: bool) -> None:
    """Where a worker cluster has to be waited for, it is tried again at that time."""
    free_at = 2030.0

    def place(what: Pending, fit: Admission) -> Choice | NoCluster:
        if stage.now < free_at:
            return NoCluster({"a": "refused"}, free_at)
        return Choice("a", "wq", fit.usage())

    queue = one("q", 4, **({"strategy": STRICT} if strict else {}))
    stage = Stage(queue, place=place)
    await stage.later()
    await stage.submit(job("x", "q", 4))
    await stage.rest()
    assert stage.wait("x").retry_at == free_at
    assert stage.scheduler.due() == free_at
    await stage.later(free_at - stage.now)
    assert stage.running == ["x"]


# Equal shapes


async def test_all_of_a_shape_are_parked_together() -> None:
    """Item 106: one answer for twins, those that come later too; another shape is looked at."""
    stage = Stage(one("q", 4), holds("h", "q", 1))
    await stage.submit(*(job(f"twin{n}", "q", 4) for n in range(5)), job("small", "q", 1, -1))
    assert await stage.cycle() == {"twin0": "PreemptionNoCandidates"}
    assert await stage.cycle() == {"small": "admitted"}
    await stage.submit(job("late", "q", 4, at=9000.0))
    assert await stage.cycle() == {}
    assert stage.wait("late").reason is Reason.WAITING_FOR_QUOTA
    await stage.finish("h", "small")
    await stage.later()
    assert stage.running == ["twin0"], "cleared by the reactivation"


async def test_equal_shapes_are_not_neutral() -> None:
    """Example of §3: D makes victims of E's queue, yet A's twin stays parked."""
    stage = Stage(
        one("a", 4, "root", preemption=evicts(NEVER, ANY, borrowing=True)),
        *(one("b", 4, "root"), co("root", 2), holds("E", "b", 4, -10)),
    )
    await stage.submit(job("A", "a", 7, 10, 1.0), job("B", "a", 7, 10, 2.0), job("D", "b", 2, 0))

    assert await stage.cycle() == {"A": "PreemptionNoCandidates", "D": "admitted"}
    assert await stage.cycle() == {}
    assert stage.log == ["admit D"]


async def test_strict_fifo_has_no_shapes() -> None:
    """Item 106: its head is tried itself."""
    stage = Stage(one("q", 4, strategy=STRICT), holds("h", "q", 1))
    await stage.submit(job("one", "q", 4, at=1.0), job("two", "q", 4, at=2.0))
    await stage.rest()
    await stage.finish("one")
    assert await stage.cycle() == {"two": "PreemptionNoCandidates"}


async def test_partial_admission_is_another_shape() -> None:
    """Item 106: a minimum makes a difference to the answer."""
    stage = Stage(one("q", 4))
    await stage.submit(
        item("all", "q", pods(8, gpu=1), created=1.0),
        item("some", "q", pods(8, gpu=1, min_count=2), created=2.0),
    )
    await stage.rest()
    assert stage.running == ["some"]


# Who takes part


@pytest.mark.parametrize("policy", [StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN])
async def test_a_stopped_queue_has_no_heads(policy: StopPolicy) -> None:
    """Item 108: until it goes on."""
    stage = Stage(one("q", 4, stop=policy), one("p", 4))
    await stage.submit(job("x", "q"), job("y", "p"))
    assert await stage.cycle() == {"y": "admitted"}
    assert await stage.cycle() == {}
    stage.configure(one("q", 4), one("p", 4))
    await stage.rest()
    assert stage.running == ["x", "y"]


async def test_a_queue_that_is_not_there() -> None:
    """Item 5: it waits, and is admitted when the queue comes."""
    stage = Stage(one("p", 4))
    await stage.submit(job("x", "q"))
    await stage.later()
    assert stage.waiting == ["x"]
    stage.configure(one("p", 4), one("q", 4))
    await stage.later()
    assert stage.running == ["x"]


async def test_a_mismatch_does_not_block_a_strict_queue() -> None:
    """Item 7: a namespace that is not selected is set aside even in StrictFIFO."""
    selector = LabelSelector((("kind", "prod"),))
    stage = Stage(one("q", 10, strategy=STRICT, namespace_selector=selector))
    await stage.submit(job("alien", at=0.5, namespace="elsewhere"), job("ours"))
    assert await stage.cycle() == {"alien": "NamespaceMismatch"}
    assert await stage.cycle() == {"ours": "admitted"}


async def test_a_misconfigured_head() -> None:
    """Items 35 and 36: it blocks a StrictFIFO queue, and steps aside in the other kind."""
    bad, good = job("bad", at=0.5, problem="requests must not exceed limits"), job("good")
    strict, other = Stage(one("q", 10, strategy=STRICT)), Stage(one("q", 10))
    for stage in (strict, other):
        await stage.submit(bad, good)
        await stage.rest()
    assert strict.running == []
    assert other.running == ["good"]
    await strict.submit(replace(bad, problem="", generation=1))
    await strict.rest()
    assert strict.running == ["bad", "good"]


async def test_an_admission_that_cannot_be_written() -> None:
    """Item 48: its quota is given back and it stands where it stood."""
    stage = Stage(one("q", 4))
    await stage.submit(job("x", "q", 4, 1), job("y", "q", 4))
    await stage.cycle()
    stage.scheduler.release("x", stage.now)
    await stage.submit(job("x", "q", 4, 1))
    assert await stage.cycle() == {"x": "admitted"}
    assert stage.waiting == ["y"]


async def test_pods_get_ready_one_after_the_other() -> None:
    """Item 117: the next is admitted when the pods of the last one are ready."""
    stage = Stage(one("q", 4), one("p", 4), rules=Rules(block_admission=True))
    await stage.submit(job("x", "q", at=1.0), job("y", "p", at=2.0))
    await stage.rest()
    assert stage.running == ["x"]
    assert stage.wait("y").reason is Reason.WAITING_FOR_PODS_READY
    holder = stage.scheduler.holder("x")
    assert holder is not None
    stage.scheduler.hold(replace(holder, pods_ready=True))
    await stage.rest()
    assert stage.running == ["x", "y"]


async def test_skipped_workloads_do_not_turn_in_circles() -> None:
    """§3: one that is skipped on every flavor goes back at once, and rests until an event."""
    amounts = group("gpu", f=(quota(4),), g=(quota(4),))
    strong = cq("a", amounts, cohort="c", preemption=evicts(NEVER, ANY))
    weak = [cq(name, group("gpu", f=(quota(0),), g=(quota(0),)), cohort="c") for name in "bd"]
    held = holds("v", "d", {"f/gpu": 2, "g/gpu": 2})
    stage = Stage(strong, *weak, held)
    await stage.submit(
        item("P", "a", pods(1, "one", gpu=4), pods(1, "two", gpu=4), priority=5),
        job("s", "b", 2),
    )
    await stage.rest()
    assert stage.log == ["evict v InCohortReclamation"]
    await stage.stopped("v")
    await stage.rest()
    assert stage.running == ["P"]
