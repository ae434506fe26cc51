"""Where jobs are offered, and who decides it: whole managers on fake clusters and virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from bench.dst.clock import VirtualLoop
from federation.api.names import ConditionType
from federation.api.record import find
from federation.core.dispatchers import Dispatcher, Dispatching
from federation.core.policies import Policies
from federation.core.scoring import BUILT_IN
from federation.edge.resources import (
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    WORKLOADS,
)
from manager.app import Manager
from manager.score_terms import load_terms
from tests.unit.manager.test_clusters import Lives
from tests.unit.manager.virtual import virtually

Json = dict[str, Any]
Story = Callable[["World", Manager], Coroutine[Any, Any, None]]


class World(Lives):
    """What is told of a job. Objects are created at the time that the manager reads."""

    def __init__(self, *names: str, **spec: Any) -> None:
        super().__init__(*names, **spec)
        self.home.objects._clock = lambda: datetime.fromtimestamp(time.time(), UTC)

    def status(self, name: str) -> Json:
        record = self.record(name)
        return dict(record.status) if record else {}

    def nominated(self, name: str) -> list[str]:
        return list(self.status(name).get("nominatedClusterNames") or [])

    def waits(self, name: str) -> str:
        found = find(self.status(name), ConditionType.QUOTA_RESERVED) or {}
        return str(found.get("message", "")) if found.get("status") == "False" else ""

    def place(self, name: str) -> str:
        found = self.copy(name)
        return found[0] if found else ""

    def nominate(self, name: str, *clusters: str) -> None:
        """As an external dispatcher does."""
        key = self.record(name).key
        body = {"status": {"nominatedClusterNames": list(clusters) or None}}
        self.home.merge(WORKLOADS, key.name, body, key.namespace, status=True)


def play(story: Story, *names: str, dispatching: Dispatching | None = None, **more: Any) -> None:
    async def main(loop: VirtualLoop) -> None:
        policies = Policies(dispatching=dispatching or Dispatching())
        world = World(*names, policies=policies, **more)
        async with world.alive() as manager:
            await story(world, manager)

    virtually(main)


# Placement rules


def test_what_fits_nowhere_holds_no_quota() -> None:
    """Jobs of 7, 7, 6 and 3 on two clusters of 10, with 20 in the queue: the 3 runs."""

    async def story(world: World, manager: Manager) -> None:
        for name in ("a", "b"):
            world.report(name, 10, 10)
        await asyncio.sleep(1)  # virtual time
        places = {await world.run("first", 7), await world.run("second", 7)}
        assert places == {"a", "b"}
        world.submit("large", 6)
        await asyncio.sleep(1)  # virtual time
        await world.run("small", 3)
        await world.until(lambda: "a: gpu: " in world.waits("large"), 30)
        assert "b: gpu: " in world.waits("large")
        assert world.waits("large").count("6 needed") == 2
        assert world.place("large") == ""
        uid = world.local("large")["metadata"]["uid"]
        assert manager.scheduler.holder(uid) is None

    play(story, "a", "b", quota=20)


def test_pinned_and_avoided() -> None:
    """By annotations of the job; where none is left it says which rule shuts each one out."""

    async def story(world: World, manager: Manager) -> None:
        world.submit("pinned", **{"fedq.io/clusters": "b"})
        world.submit("shy", **{"fedq.io/avoid-clusters": "a,b"})
        world.submit("lost", **{"fedq.io/clusters": "z"})
        await world.until(lambda: world.place("pinned") and world.place("shy"))
        assert (world.place("pinned"), world.place("shy")) == ("b", "c")
        await world.until(lambda: "fedq.io/clusters allows z only" in world.waits("lost"), 30)

    play(story, "a", "b", "c")


def test_by_labels_of_clusters() -> None:
    """As soon as a cluster has them."""

    async def story(world: World, manager: Manager) -> None:
        world.submit("j", **{"fedq.io/cluster-selector": "tier in (gold),!spot"})
        await world.until(lambda: "do not match fedq.io/cluster-selector" in world.waits("j"), 30)
        assert world.place("j") == ""
        world.home.merge(MULTIKUEUE_CLUSTERS, "b", {"metadata": {"labels": {"tier": "gold"}}})
        await world.until(lambda: world.place("j"), 5)
        assert world.place("j") == "b"

    play(story, "a", "b")


def test_rules_of_a_queue() -> None:
    """They hold for what waits in it, from when they are written."""

    async def story(world: World, manager: Manager) -> None:
        note = {"metadata": {"annotations": {"fedq.io/clusters": "z"}}}
        world.home.merge(LOCAL_QUEUES, "lq", note, "team")
        await asyncio.sleep(1)  # virtual time
        world.submit("j")
        await world.until(lambda: "allows z only" in world.waits("j"), 30)
        note["metadata"]["annotations"]["fedq.io/clusters"] = "b"
        world.home.merge(LOCAL_QUEUES, "lq", note, "team")
        await world.until(lambda: world.place("j"), 5)
        assert world.place("j") == "b"

    play(story, "a", "b")


def test_rules_that_are_edited_while_it_waits() -> None:
    """The new ones hold."""

    async def story(world: World, manager: Manager) -> None:
        world.submit("j", **{"fedq.io/clusters": "z"})
        await world.until(lambda: "allows z only" in world.waits("j"), 30)
        note = {"metadata": {"annotations": {"fedq.io/clusters": "a"}}}
        world.home.merge(JOBS, "j", note, "team")
        await world.until(lambda: world.place("j"), 5)
        assert world.place("j") == "a"

    play(story, "a", "b")


def test_rules_that_cannot_be_understood() -> None:
    """It is not placed anywhere before they are corrected."""

    async def story(world: World, manager: Manager) -> None:
        world.submit("j", **{"fedq.io/cluster-selector": "tier in gold"})
        await world.until(lambda: "fedq.io/cluster-selector: " in world.waits("j"), 30)
        assert world.place("j") == ""
        note = {"metadata": {"annotations": {"fedq.io/cluster-selector": None}}}
        world.home.merge(JOBS, "j", note, "team")
        await world.until(lambda: world.place("j"), 5)

    play(story, "a")


def test_prices_of_clusters() -> None:
    """The cheaper one of two that are alike."""

    async def story(world: World, manager: Manager) -> None:
        for name, price in (("a", "4"), ("b", "1.5")):
            note = {"metadata": {"annotations": {"fedq.io/cost-per-hour": f"f/gpu={price}"}}}
            world.home.merge(MULTIKUEUE_CLUSTERS, name, note)
        await asyncio.sleep(1)  # virtual time
        assert await world.run("j") == "b"

    play(story, "a", "b")


# Giving up


def test_given_up() -> None:
    """With the time and the last reason; people resume it, and then it waits as long again."""

    async def story(world: World, manager: Manager) -> None:
        world.submit("j", 6, **{"fedq.io/give-up-after": "10m"})
        took = await world.until(lambda: world.record("j") and not world.record("j").active, 700)
        assert 595 <= took <= 605
        await world.until(lambda: world.record("j").life.evicted, 5)
        assert world.record("j").life.evicted == "DeactivatedDueToGiveUpTimeExceeded"
        told = find(world.status("j"), ConditionType.EVICTED) or {}
        assert "no place within 600 s (fedq.io/give-up-after); at last: " in told["message"]
        assert "a: gpu: 4 free, 6 needed" in told["message"]
        await asyncio.sleep(900)  # virtual time
        assert world.local("j")["spec"]["suspend"] is True
        world.report("a", 8, 8)
        await asyncio.sleep(60)  # virtual time
        assert world.place("j") == ""
        world.home.merge(JOBS, "j", {"spec": {"suspend": False}}, "team")
        await world.until(lambda: world.place("j"), 5)
        assert world.record("j").active

    play(story, "a")


def test_not_given_up_once_it_has_a_place() -> None:
    """However long it runs; the clock begins anew when it is evicted. Queues can say it, too."""

    async def story(world: World, manager: Manager) -> None:
        note = {"metadata": {"annotations": {"fedq.io/give-up-after": "300"}}}
        world.home.merge(LOCAL_QUEUES, "lq", note, "team")
        await asyncio.sleep(1)  # virtual time
        place = await world.run("j")
        await asyncio.sleep(1000)  # virtual time
        assert world.record("j").active
        world.report(place, 0)
        world.workers[place].fake.merge(JOBS, "j", {"spec": {"suspend": True}}, "team")
        await world.until(lambda: world.record("j").binding is None, 30)
        took = await world.until(lambda: not world.record("j").active, 700)
        assert 290 <= took <= 330

    play(story, "a")


# Dispatchers

INCREMENTAL = Dispatching(Dispatcher.INCREMENTAL, step=1, round_s=300.0)


def full(world: World, *names: str) -> None:
    for name in names:
        world.report(name, 0)


def test_incremental() -> None:
    """A cluster more every five minutes, in order; the first that has room gets the offer."""

    async def story(world: World, manager: Manager) -> None:
        full(world, "a", "b")
        await asyncio.sleep(1)  # virtual time
        world.submit("j")
        await world.until(lambda: world.nominated("j") == ["a"], 10)
        took = await world.until(lambda: world.nominated("j") == ["a", "b"], 400)
        assert 298 <= took <= 303
        assert "c: it is nominated later" in world.waits("j")
        await world.until(lambda: world.place("j"), 400)
        assert world.place("j") == "c"
        world.start(world.workers["c"], "j")
        await world.until(lambda: world.record("j").admitted, 10)
        assert (world.nominated("j"), world.status("j")["clusterName"]) == ([], "c")

    play(story, "a", "b", "c", dispatching=INCREMENTAL)


def test_a_nominee_gets_room_meanwhile() -> None:
    """It is offered to that one at once, and no further one is asked."""

    async def story(world: World, manager: Manager) -> None:
        full(world, "a")
        await asyncio.sleep(1)  # virtual time
        world.submit("j")
        await world.until(lambda: world.nominated("j") == ["a"], 10)
        await asyncio.sleep(100)  # virtual time
        world.report("a", 4)
        await world.until(lambda: world.place("j"), 5)
        assert (world.place("j"), world.nominated("j")) == ("a", ["a"])

    play(story, "a", "b", dispatching=INCREMENTAL)


def test_no_round_for_who_can_never_take_it() -> None:
    """The next one begins at once; after the last nothing is tried without a reason."""

    async def story(world: World, manager: Manager) -> None:
        world.report("c", 8, 8)
        await asyncio.sleep(1)  # virtual time
        world.submit("j", 6)
        await world.until(lambda: world.place("j"), 10)
        assert world.place("j") == "c"
        world.start(world.workers["c"], "j")
        world.workers["c"].run_pods("j")
        world.submit("huge", 8)
        await world.until(lambda: world.nominated("huge") == ["a", "b", "c"], 10)
        await asyncio.sleep(60)  # virtual time
        cycles = manager.scheduler.cycles
        await asyncio.sleep(400)  # virtual time
        assert world.place("huge") == ""
        assert manager.scheduler.cycles - cycles < 150  # two for each report of an agent

    play(story, "a", "b", "c", quota=20, dispatching=INCREMENTAL)


def test_no_round_for_a_cluster_that_is_away() -> None:
    """Its turn comes when it is back."""

    async def story(world: World, manager: Manager) -> None:
        full(world, "b", "c")
        world.lose("a")
        await world.until(lambda: world.phase("a") == "Suspect")
        world.submit("j")
        await world.until(lambda: world.nominated("j") == ["b"], 10)
        await world.until(lambda: world.nominated("j") == ["b", "c"], 400)
        world.heal("a")
        await world.until(lambda: world.place("j"), 600)
        assert world.place("j") == "a"

    play(story, "a", "b", "c", dispatching=INCREMENTAL)


def test_a_restart_begins_no_round_anew() -> None:
    """The clock is in the Workload."""

    async def main(loop: VirtualLoop) -> None:
        world = World("a", "b", policies=Policies(dispatching=INCREMENTAL))
        full(world, "a", "b")
        async with world.alive():
            world.submit("j")
            await world.until(lambda: world.nominated("j") == ["a"], 10)
            await asyncio.sleep(100)  # virtual time
        began = asyncio.get_running_loop().time()
        async with world.alive():
            await world.until(lambda: world.nominated("j") == ["a", "b"], 400)
            took = asyncio.get_running_loop().time() - began
        assert 180 <= took <= 205

    virtually(main)


def test_all_at_once() -> None:
    """All that can be reached are told to be nominated; the offer still goes to one."""

    async def story(world: World, manager: Manager) -> None:
        world.lose("a")
        await world.until(lambda: world.phase("a") == "Suspect")
        world.submit("j")
        await world.until(lambda: world.place("j"), 10)
        assert world.nominated("j") == ["b", "c"]
        assert sum(bool(w.fake.items(JOBS)) for w in world.workers.values()) == 1
        world.start(world.workers[world.place("j")], "j")
        await world.until(lambda: world.record("j").admitted, 10)
        assert world.nominated("j") == []

    play(story, "a", "b", "c", dispatching=Dispatching(Dispatcher.ALL_AT_ONCE))


EXTERNAL = Dispatching(Dispatcher.EXTERNAL, "example.com/mine")


def test_an_external_dispatcher() -> None:
    """Nothing is offered before it nominates; what it takes back is withdrawn."""

    async def story(world: World, manager: Manager) -> None:
        world.submit("j")
        text = "example.com/mine has nominated no cluster"
        await world.until(lambda: text in world.waits("j"), 30)
        assert world.place("j") == ""
        world.nominate("j", "b")
        await world.until(lambda: world.place("j") == "b", 5)
        world.nominate("j", "c")
        await world.until(lambda: world.place("j") == "c", 10)
        assert world.workers["b"].fake.items(JOBS) == []
        world.nominate("j")
        await world.until(lambda: world.place("j") == "", 10)
        assert text in world.waits("j") or world.record("j").binding is None
        world.nominate("j", "a", "b")
        await world.until(lambda: world.place("j") in ("a", "b"), 10)
        world.start(world.workers[world.place("j")], "j")
        await world.until(lambda: world.record("j").admitted, 10)
        place = world.place("j")
        await asyncio.sleep(30)  # virtual time
        assert (world.nominated("j"), world.place("j")) == ([], place)

    play(story, "a", "b", "c", dispatching=EXTERNAL)


def test_a_nominee_that_the_queue_may_not_use() -> None:
    """A nomination gives no more rights than the job has."""

    async def story(world: World, manager: Manager) -> None:
        world.submit("j", **{"fedq.io/avoid-clusters": "a"})
        await world.until(lambda: world.waits("j"), 30)
        world.nominate("j", "a", "nowhere")
        await asyncio.sleep(60)  # virtual time
        assert world.place("j") == ""
        world.nominate("j", "a", "b")
        await world.until(lambda: world.place("j") == "b", 10)

    play(story, "a", "b", dispatching=EXTERNAL)


# Terms of others


def broken(item: Any, cluster: Any, choice: Any) -> float:
    raise RuntimeError("oh no")


def negative(item: Any, cluster: Any, choice: Any) -> float:
    return -1.0


def to_b(item: Any, cluster: Any, choice: Any) -> float:
    return 0.0 if cluster.name == "b" else 1.0


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, f"tests.unit.manager.test_placement:{value}", "fedq.score_terms")


def test_terms_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be loaded is left out, one that fails counts nothing: jobs are placed."""
    points = [
        point("broken", "broken"),
        point("negative", "negative"),
        point("gone", "gone"),
        point("none", "EXTERNAL"),
        point("cost", "broken"),
        point("toB", "to_b"),
    ]
    found = load_terms({"toB": 3.0, "typo": 1.0}, points)
    assert {term.name for term in found} == {*BUILT_IN, "broken", "negative", "toB"}
    monkeypatch.setattr("manager.dispatcher.load_terms", lambda weights: found)

    async def story(world: World, manager: Manager) -> None:
        assert await world.run("j") == "b"
        assert await world.run("k") == "b"

    play(story, "a", "b")
