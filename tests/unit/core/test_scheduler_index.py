"""The scheduler over an index that others use too, that is slow, and that may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.dispatch import NoCluster
from federation.core.queueing import Entry, IndexLost, MemoryIndex
from federation.core.types import Pending
from tests.unit.core.build import FEW, LOWER, STRICT, evicts, item, job, one, pods
from tests.unit.core.stage import Stage

Interfere = Callable[[], None]


def nothing() -> None:
    """No interference."""


class Slow(MemoryIndex):
    """Readings take time, in which something happens; and they may find that all is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: dict[str, Interfere] = {}
        self.failing: set[str] = set()
        self.lost = False

    def _reading(self, name: str) -> None:
        self.lost = self.lost or name in self.failing
        self.failing.discard(name)
        if self.lost:
            raise IndexLost("lost")

    def _done(self, name: str) -> None:
        self.meanwhile.pop(name, nothing)()

    async def heads(self, queues: Iterable[str]) -> dict[str, Entry]:
        self._reading("heads")
        found = await super().heads(queues)
        self._done("heads")
        return found

    async def ahead(self, queues: Iterable[str], depth: int) -> dict[str, list[Entry]]:
        self._reading("heads")
        found = await super().ahead(queues, depth)
        self._done("heads")
        return found

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        self._reading("claim")
        found = await super().claim(entries)
        self._done("claim")
        return found

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        self.lost = False
        await super().fill(entries)


def slow(*things: object, **more: object) -> tuple[Stage, Slow]:
    index = Slow()
    return Stage(*things, index=index, **more), index  # type: ignore[arg-type]


async def rest(stage: Stage) -> None:
    """As `Stage.rest`, filling the index when it is lost."""
    for _ in range(200):
        due = stage.scheduler.due()
        if not stage.scheduler.ready and (due is None or due > stage.now):
            return
        try:
            await stage.cycle()
        except IndexLost:
            await stage.scheduler.refill(stage.now)
    raise AssertionError("the scheduler does not come to rest")


# What happens while the index is read


@pytest.mark.parametrize("reading", ["heads", "claim"])
async def test_a_workload_leaves_meanwhile(reading: str) -> None:
    """It is not admitted; the next one is."""
    stage, index = slow(one("q", 1))
    await stage.submit(job("a"), job("b"))
    index.meanwhile[reading] = lambda: stage.scheduler.take_out("a", stage.now)
    await stage.rest()
    assert (stage.running, stage.waiting) == (["b"], [])


@pytest.mark.parametrize("reading", ["heads", "claim"])
async def test_a_workload_changes_meanwhile(reading: str) -> None:
    """What was decided about the old one is void; the new one is looked at."""
    stage, index = slow(one("q", 4))
    bigger = item("a", "q", pods(gpu=3), generation=1)
    await stage.submit(item("a", "q", pods(gpu=2)))
    index.meanwhile[reading] = lambda: stage.scheduler.put(bigger, stage.now)
    await stage.rest()
    assert stage.admissions["a"].usage() == {("f", "gpu"): 3}
    assert stage.waiting == []


@pytest.mark.parametrize("reading", ["heads", "claim"])
async def test_one_of_higher_priority_comes_meanwhile(reading: str) -> None:
    """It is not overlooked; what was claimed already stays so."""
    stage, index = slow(one("q", 2))
    await stage.submit(job("a"), job("b"))
    stage.known["high"] = job("high", priority=9)
    index.meanwhile[reading] = lambda: stage.scheduler.put(stage.known["high"], stage.now)
    await stage.rest()
    assert stage.running == ["a", "high"]
    assert stage.waiting == ["b"]


async def test_a_queue_goes_meanwhile() -> None:
    """Nothing breaks, and it is counted again when the queue is back."""
    stage, index = slow(one("q", 1))
    await stage.submit(job("a"))
    index.meanwhile["claim"] = lambda: stage.configure()
    await stage.rest()
    assert stage.scheduler.holder("a") is not None
    stage.configure(one("q", 1))
    await stage.submit(job("b"))
    await stage.rest()
    assert stage.waiting == ["b"]


async def test_an_entry_that_nobody_knows() -> None:
    """It is dropped and does not stand in the way."""
    stage, index = slow(one("q", 1))
    index.enqueue("q", Entry("ghost", 0, "0" * 20 + "ghost~00000000"))
    await stage.submit(job("a"))
    await stage.rest()
    assert stage.running == ["a"]
    assert await index.waiting("q", 9) == []


async def test_an_index_that_will_not_give_a_workload_out() -> None:
    """It had another idea of it: it is told again, and the workload is admitted once."""
    stage, index = slow(one("q", 2))
    await stage.submit(job("a"))
    index.meanwhile["heads"] = lambda: index.park("a", 0)
    await stage.rest()
    assert (stage.running, stage.log) == (["a"], ["admit a"])


# Loss


@pytest.mark.parametrize("reading", ["heads", "claim"])
async def test_lost_in_a_cycle(reading: str) -> None:
    """Nothing is decided, nothing is lost, nothing is admitted twice."""
    stage, index = slow(one("q", 2))
    await stage.submit(job("a"), job("b"), job("c"))
    index.failing.add(reading)
    with pytest.raises(IndexLost):
        await stage.cycle()
    assert (stage.running, stage.waiting) == ([], ["a", "b", "c"])
    await stage.scheduler.refill(stage.now)
    await rest(stage)
    assert stage.log == ["admit a", "admit b"]
    assert stage.waiting == ["c"]


async def test_lost_with_much_set_aside() -> None:
    """Shapes and single workloads are tried again, and set aside again."""
    stage, index = slow(one("q", 1), place=lambda item, _: NoCluster({}, retry_at=9e9))
    await stage.submit(job("big", amount=9), job("small"), job("second", amount=9, at=2000.0))
    await rest(stage)
    index.failing.add("heads")
    await stage.submit(job("late", amount=9, at=3000.0))
    await rest(stage)
    wait = stage.scheduler.blocked(stage.known["late"])
    assert wait is not None
    assert stage.waiting == ["big", "late", "second", "small"]
    assert await index.heads(["q"]) == {}


async def test_a_loss_keeps_who_waits_for_its_victims_in_front() -> None:
    """The sticky place is the scheduler's, not the index's."""
    stage, index = slow(one("q", 1, strategy=STRICT))
    await stage.submit(job("first"), job("second", at=2000.0))
    await rest(stage)
    index.failing.add("heads")
    await stage.finish("first")
    await rest(stage)
    assert stage.running == ["second"]


async def test_backoff_survives_a_loss() -> None:
    """What may not be tried yet is not put into the index by a fill."""
    stage, index = slow(one("q", 1))
    await stage.submit(replace(job("a"), not_before=stage.now + 50))
    index.failing.add("heads")
    await stage.submit(job("b", amount=9))
    await rest(stage)
    assert stage.running == []
    await stage.later(50)
    assert stage.running == ["a"]


# The audit


async def test_an_audit_of_what_waits_in_all_ways() -> None:
    """Ready, parked, blocked with its shape, before its time, preempting: all is accounted for."""
    stage, index = slow(one("q", 1), one("gone", 1))
    await stage.submit(job("runs"), job("small"), job("big", amount=9), job("lost", "gone"))
    await stage.submit(replace(job("later"), not_before=stage.now + 50))
    await rest(stage)
    index.park("small", 0)
    stage.configure(one("q", 1))
    await stage.scheduler.audit()
    await stage.later(50)
    await stage.scheduler.audit()
    assert sorted(await index.waiting("q", 9)) == ["big", "later", "small"]


@pytest.mark.parametrize("more", [False, True])
async def test_an_audit_finds_what_is_wrong(more: bool) -> None:
    """A workload that is missing, and one that nobody put there."""
    stage, index = slow(one("q", 1))
    await stage.submit(job("runs"), job("a"), job("b"))
    await rest(stage)
    if more:
        index.enqueue("q", Entry("ghost", 0, "f" * 20 + "ghost~00000000"))
    else:
        index.drop("b")
    with pytest.raises(IndexLost, match=f"{3 if more else 1} instead of 2 workloads in q"):
        await stage.scheduler.audit()
    await stage.scheduler.refill(stage.now)
    await stage.scheduler.audit()


async def test_an_audit_while_jobs_come() -> None:
    """It does not know what was counted, and says nothing."""
    stage, index = slow(one("q", 1))
    await stage.submit(job("a"))
    counts = index.counts

    async def meanwhile(queues: Iterable[str]) -> dict[str, int]:
        found = await counts(queues)
        stage.scheduler.put(job("b"), stage.now)
        return found

    index.counts = meanwhile  # type: ignore[method-assign]
    await stage.scheduler.audit()


STEP = st.tuples(
    st.sampled_from(["submit", "change", "drop", "finish", "lose heads", "lose claim", "later"]),
    st.integers(0, 5),
    st.integers(1, 3),
)


@FEW
@given(st.lists(STEP, max_size=30), st.booleans(), st.sampled_from([1, 4]))
def test_whatever_is_lost_when(steps: list[tuple[str, int, int]], strict: bool, depth: int) -> None:
    """Each workload waits or holds quota, once; and in the end nothing more could be admitted."""

    async def run() -> None:
        more = {"strategy": STRICT} if strict else {}
        stage, index = slow(one("q", 4, "c", **more), one("r", 2, "c"), depth=depth)
        alive: dict[str, Pending] = {}
        for number, (what, which, size) in enumerate(steps):
            uid = f"w{which}"
            queue = "q" if which % 2 else "r"
            if what in ("submit", "change") and stage.scheduler.holder(uid) is None:
                alive[uid] = replace(job(uid, queue, size), generation=number)
                await stage.submit(alive[uid])
            elif what in ("drop", "finish"):
                alive.pop(uid, None)
                await stage.finish(uid)
            elif what == "later":
                stage.now += 1.0
            elif what.startswith("lose"):
                index.failing.add(what.split()[1])
            await rest(stage)
            assert sorted([*stage.running, *stage.waiting]) == sorted(alive)
            await stage.scheduler.audit()
        stage.now += 1.0
        stage.scheduler.wake_all(stage.now - 9)
        await rest(stage)
        await stage_is_at_rest(stage)

    asyncio.run(run())


# Several cycles between two looks into the index


async def test_cycles_follow_each_other_without_the_index() -> None:
    """All that is admitted in order; what is not is tried in a cycle of its own."""
    stage, _ = slow(one("q", 3), depth=16)
    await stage.submit(*(job(f"j{n}", at=float(n)) for n in range(5)))
    assert await stage.cycle() == {f"j{n}": "admitted" for n in range(3)}
    assert await stage.cycle() == {"j3": "PreemptionNoCandidates"}
    assert stage.running == ["j0", "j1", "j2"]


async def test_what_the_index_does_not_give_out_is_charged_to_nobody() -> None:
    """Others took it there meanwhile."""
    stage, index = slow(one("q", 9), depth=16)
    await stage.submit(*(job(f"j{n}", at=float(n)) for n in range(3)))
    index.meanwhile["heads"] = lambda: index.park("j1", 0)
    assert await stage.cycle() == {"j0": "admitted", "j2": "admitted"}
    assert stage.running == ["j0", "j2"]
    await stage.later()
    assert stage.running == ["j0", "j1", "j2"]


async def test_a_workload_that_is_being_claimed_holds_nothing_yet() -> None:
    """Who asks meanwhile, and takes it out, leaves no charge behind."""
    stage, index = slow(one("q", 9), depth=16)
    await stage.submit(job("a", at=1.0), job("b", at=2.0))

    def meanwhile() -> None:
        assert stage.scheduler.holder("a") is None
        stage.scheduler.release("a", stage.now)
        stage.scheduler.take_out("a", stage.now)

    index.meanwhile["claim"] = meanwhile
    await stage.rest()
    assert (stage.running, stage.waiting) == (["b"], [])


async def test_a_claim_that_is_lost_leaves_no_charge() -> None:
    """Nothing was decided."""
    stage, index = slow(one("q", 9), depth=16)
    await stage.submit(job("a", at=1.0), job("b", at=2.0))
    index.failing.add("claim")
    with pytest.raises(IndexLost):
        await stage.cycle()
    assert stage.running == []
    await stage.scheduler.refill(stage.now)
    await stage.rest()
    assert stage.running == ["a", "b"]


@FEW
@given(st.lists(STEP, max_size=30), st.booleans(), st.booleans())
def test_the_same_is_decided_in_the_same_order(
    steps: list[tuple[str, int, int]], strict: bool, evicting: bool
) -> None:
    """However many cycles follow each other."""

    async def run(depth: int) -> list[str]:
        more: dict[str, Any] = {"strategy": STRICT} if strict else {}
        if evicting:
            more["preemption"] = evicts(LOWER)
        stage = Stage(one("q", 4, "c", **more), one("r", 3, "c"), depth=depth)
        for number, (what, which, size) in enumerate(steps):
            uid, queue = f"w{which}", "q" if which % 2 else "r"
            if what in ("submit", "change") and stage.scheduler.holder(uid) is None:
                submitted = job(uid, queue, size, priority=which % 3, at=float(which))
                await stage.submit(replace(submitted, generation=number))
            elif what in ("drop", "finish"):
                await stage.finish(uid)
            elif what == "later":
                await stage.later()
        await stage.rest()
        return [*stage.log, "waiting", *stage.waiting]

    assert asyncio.run(run(16)) == asyncio.run(run(1))


async def stage_is_at_rest(stage: Stage) -> None:
    """A new scheduler with the same state admits nothing either."""
    other = Stage(one("q", 4, "c"), one("r", 2, "c"))
    other.scheduler.configure(stage.scheduler._world, stage.now)
    for uid in stage.running:
        holder = stage.scheduler.holder(uid)
        assert holder is not None
        other.scheduler.hold(holder)
    for held in stage.scheduler.items.values():
        other.scheduler.put(held, stage.now)
    await other.rest()
    assert [line for line in other.log if line.startswith("admit")] == []
