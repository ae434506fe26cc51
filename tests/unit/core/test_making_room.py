"""Nobody is evicted for a workload that no worker cluster takes when its victims have left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any

import pytest

from federation.core.cycle import NoCards
from federation.core.dispatch import Choice, NoCluster
from federation.core.reasons import Reason
from federation.core.tries import FIRST_S, MOST_S
from federation.core.types import Admission, Holder, Pending
from tests.unit.core.build import GPU, LOWER, STRICT, evicts, holds, job, one
from tests.unit.core.stage import Stage


class Fleet:
    """Worker clusters with so much room each; `where` is where workloads run."""

    def __init__(self, **room: int) -> None:
        self.room = room
        self.where: dict[str, str] = {}
        self.kept: dict[tuple[str, int], int] = {}
        self.stage: Stage = None  # type: ignore[assignment]
        self.lies = False
        """Whether it takes everything for possible, if only somebody leaves."""

    def free(self, cluster: str, gone: AbstractSet[str] = frozenset()) -> int:
        scheduler = self.stage.scheduler
        running = [
            found
            for uid, name in self.where.items()
            if name == cluster and uid not in gone and (found := scheduler.holder(uid))
        ]
        return self.room[cluster] - sum(found.usage.get(GPU, 0) for found in running)

    def names(self, item: Pending) -> Sequence[str]:
        return sorted(self.room)

    def choose(
        self, item: Pending, admission: Admission, gone: AbstractSet[str], among: Collection[str]
    ) -> Choice | NoCluster:
        asked = admission.usage()[GPU]
        for name in sorted(among):
            if self.lies or asked <= self.free(name, gone) - self.kept.get(self._now(name), 0):
                return Choice(name, "q", {GPU: asked})
        return NoCluster(dict.fromkeys(among, "too small"))

    def keep(self, item: Pending, choice: Choice, gone: AbstractSet[str]) -> None:
        freed = self.free(choice.cluster, gone) - self.free(choice.cluster)
        more = max(0, choice.usage[GPU] - freed)
        now = self._now(choice.cluster)
        self.kept[now] = self.kept.get(now, 0) + more

    def _now(self, cluster: str) -> tuple[str, int]:
        """What is kept, is for one cycle."""
        return cluster, self.stage.scheduler.cycles

    def __call__(self, item: Pending, admission: Admission) -> Choice | NoCluster | NoCards | None:
        lies, self.lies = self.lies, False
        found = self.choose(item, admission, frozenset(), self.names(item))
        self.lies = lies
        if isinstance(found, Choice):
            self.where[item.uid] = found.cluster
        return found


def stage(fleet: Fleet, *things: Any, **where: str) -> Stage:
    made = Stage(*things, place=fleet, sites=fleet)
    fleet.stage, fleet.where = made, where
    return made


def runs(uid: str, amount: int = 1, priority: int = 0, **more: Any) -> Holder:
    """A workload that runs."""
    return holds(uid, "q", amount, priority, **more)


Q = one("q", 4, preemption=evicts(LOWER))


async def test_nobody_is_evicted_for_what_fits_on_no_cluster() -> None:
    """There would be quota for it; the answer says what the clusters lack, and others go on."""
    fleet = Fleet(a=2, b=2)
    here = stage(fleet, Q, runs("v", 2), runs("w", 2), v="a", w="b")
    await here.submit(job("big", "q", 3, priority=5), job("small", "q", 1, priority=-5))
    assert await here.cycle() == {"big": "NoCluster"}
    wait = here.wait("big")
    assert (wait.reason, here.evicted) == (Reason.WAITING_FOR_QUOTA, [])
    assert "preempting others would not help" in wait.message
    assert "a: too small; b: too small" in wait.message
    await here.finish("v")
    await here.later()
    assert here.running == ["small", "w"]


async def test_the_victims_of_quota_alone_are_kept_where_a_cluster_takes_it() -> None:
    """The decision is then the same as without clusters."""
    things = (Q, runs("old", 2, reserved=10.0), runs("young", 2, reserved=20.0))
    fleet = Fleet(a=4)
    here, plain = stage(fleet, *things, old="a", young="a"), Stage(*things)
    for one_of in (here, plain):
        await one_of.submit(job("p", "q", 2, priority=5))
        assert await one_of.cycle() == {"p": "preempts young"}


async def test_victims_leave_the_cluster_that_is_to_take_it() -> None:
    """Quota alone would take the youngest, one on each cluster."""
    fleet = Fleet(a=2, b=2)
    young = {"a1": 40.0, "b1": 30.0, "a2": 20.0, "b2": 10.0}
    holders = [runs(uid, reserved=at) for uid, at in young.items()]
    here = stage(fleet, Q, *holders, **{uid: uid[0] for uid in young})
    await here.submit(job("p", "q", 2, priority=5))
    assert await here.cycle() == {"p": "preempts a1 a2"}
    assert await here.cycle() == {"p": "preempts a1 a2"}, "and nobody else while they stop"
    await here.stopped("a1", "a2")
    await here.later()
    assert "p" in here.running
    assert fleet.where["p"] == "a"


async def test_the_fewest_victims_over_all_clusters() -> None:
    """However young the others are: quota alone would take a1, that is not enough for a."""
    fleet = Fleet(a=2, b=2)
    many = [runs("a1", reserved=40.0), runs("a2", reserved=30.0)]
    queue = one("q", 5, preemption=evicts(LOWER))
    here = stage(fleet, queue, *many, runs("b1", 2, reserved=5.0), a1="a", a2="a", b1="b")
    await here.submit(job("p", "q", 2, priority=5))
    assert await here.cycle() == {"p": "preempts b1"}


@pytest.mark.parametrize("worth", [{"priority": 1}, {"reserved": 5.0}], ids=["priority", "age"])
async def test_between_clusters_the_least_is_taken(worth: dict[str, Any]) -> None:
    """As many victims on either; that on a has a higher priority, or is older."""
    fleet = Fleet(a=2, b=2, c=1)
    here = stage(
        fleet,
        one("q", 5, preemption=evicts(LOWER)),
        runs("small", 1, -9, reserved=90.0),
        runs("x", 2, **{"reserved": 10.0, **worth}),
        runs("y", 2, reserved=10.0),
        small="c",
        x="a",
        y="b",
    )
    await here.submit(job("p", "q", 2, priority=5))
    assert await here.cycle() == {"p": "preempts y"}


async def test_two_preemptors_do_not_count_on_the_same_room() -> None:
    """What is free beside the victims of one is not there for the other."""
    fleet = Fleet(a=3, b=3)
    lower = evicts(LOWER)
    here = stage(
        fleet,
        one("q", 3, preemption=lower),
        one("r", 3, preemption=lower),
        runs("v", 1, reserved=90.0),
        runs("u", 2, 9),
        holds("w", "r", 1, at=90.0),
        holds("z", "r", 2),
        v="a",
        u="b",
        w="a",
        z="b",
    )
    await here.submit(job("p", "q", 1, priority=5), job("o", "r", 3, priority=4))
    assert await here.cycle() == {"p": "preempts v", "o": "NoCluster"}, "u may not be evicted"
    await here.finish("u")
    assert await here.cycle() == {"p": "admitted"}
    await here.later()
    assert "o" not in here.running


async def test_quota_comes_free_before_the_room_does() -> None:
    """It keeps its quota and its place while the others of its victims stop."""
    fleet = Fleet(a=2, b=2)
    here = stage(
        fleet,
        one("q", 4, preemption=evicts(LOWER)),
        runs("a1", 2, reserved=10.0),
        runs("b1", 1, 9),
        runs("b2", 1, reserved=5.0),
        a1="a",
        b1="b",
        b2="b",
    )
    await here.submit(job("p", "q", 2, priority=5))
    assert await here.cycle() == {"p": "preempts a1"}
    # Something else ends: there is quota, but no cluster with two free.
    await here.finish("b1", "b2")
    fleet.room["b"] = 1
    assert await here.cycle() == {"p": "PendingPreemption"}
    assert here.wait("p").reason is Reason.WAITING_FOR_PREEMPTED_WORKLOADS
    await here.submit(job("late", "q", 1))
    assert await here.cycle() == {"p": "PendingPreemption"}, "it is not overtaken"
    await here.stopped("a1")
    await here.later()
    assert "p" in here.running


@pytest.mark.parametrize("strategy", [{}, {"strategy": STRICT}], ids=["best effort", "strict"])
async def test_room_made_in_vain_is_remembered(strategy: dict[str, Any]) -> None:
    """Of clusters that tell less than is so: it evicts again, but later each time."""
    fleet = Fleet(a=1, b=1)
    fleet.lies = True
    queue = one("q", 2, preemption=evicts(LOWER), **strategy)
    here = stage(fleet, queue, runs("v"), runs("w"), v="a", w="b")
    await here.submit(job("p", "q", 2, priority=5))
    begun, times = here.now, []
    while here.now < begun + 3 * MOST_S:
        await here.later(5.0)
        if here.evicted:
            times.append(here.now)
            for uid in here.evicted:
                here.scheduler.release(uid, here.now)
            await here.later()  # it is tried, and no cluster takes it
            here.hold(runs("v"))
            here.hold(runs("w"))
            here.scheduler.wake("q", here.now)
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == sorted(gaps)
    assert 4 < len(times) < 10


async def test_it_is_told_why_it_evicts_nobody() -> None:
    """And when it may again; it is taken at once when there is room."""
    fleet = Fleet(a=1, b=1)
    fleet.lies = True
    here = stage(fleet, one("q", 2, preemption=evicts(LOWER)), runs("v"), runs("w"), v="a", w="b")
    await here.submit(job("p", "q", 2, priority=5))
    assert await here.cycle() == {"p": "preempts v w"}
    for uid in ("v", "w"):
        here.scheduler.release(uid, here.now)
    await here.later()
    failed = here.now
    here.hold(runs("v"))
    here.scheduler.wake("q", here.now)
    await here.later()
    assert here.evicted == []
    assert here.scheduler.due() == failed + FIRST_S
    assert "others were preempted for it once, and then nothing took it" in here.wait("p").message
    assert "before 1970-01-01T00:33" in here.wait("p").message
    fleet.room["b"] = 2
    await here.finish("v")
    await here.later()
    assert here.running == ["p"]
