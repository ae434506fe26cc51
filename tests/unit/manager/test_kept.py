"""Copies that have ended are kept for a while, for those who read their logs."""

from __future__ import annotations

import asyncio

from federation.api.names import Order
from federation.edge.resources import JOBS, MULTIKUEUE_CLUSTERS
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.manager.test_edited import delete, running_anew
from tests.unit.manager.test_lifecycle import running


async def ended(world: Federation) -> str:
    """A job that has ended; the name of the cluster that has its copy."""
    world.submit()
    worker = await running(world)
    worker.end("j")
    await until(lambda: (r := world.record()) and r.finished, "its result is recorded")
    found = world.copy()
    assert found is not None
    return found[0]


async def test_for_its_time() -> None:
    """Then it goes; nothing is written meanwhile, and it holds no quota."""
    world = Federation("a", quota=1)
    world.keep_finished_s = 2.0  # the record has whole seconds
    async with world.running() as manager:
        await ended(world)
        assert manager.scheduler.snapshot.tree.usage("cq").get(("f", "gpu"), 0) == 0
        before = [entry for entry in world.workers["a"].fake.log if entry[0] != "GET"]
        world.submit("next")
        await until(lambda: world.copy("next"), "the quota is free")
        assert world.copy() is not None
        await until(lambda: world.copy() is None, "it goes")
        writes = [entry for entry in world.workers["a"].fake.log if entry[0] != "GET"]
        assert [method for method, _ in writes[len(before) :]] == ["POST", "DELETE"]


async def test_a_manager_that_starts_meanwhile() -> None:
    """The time counts from the end of the job, whoever looks."""
    world = Federation("a")
    world.keep_finished_s = 600.0
    async with world.running():
        await ended(world)
    async with world.running() as manager:
        await until(lambda: any(s.remotes for s in manager.controller.states.values()), "seen")
        await asyncio.sleep(0.05)  # time for a deletion that must not come
        assert world.copy() is not None
    world.keep_finished_s = 0.5
    await asyncio.sleep(1.0)  # the time itself is what passes
    async with world.running():
        await until(lambda: world.copy() is None, "its time is over")


async def test_deleted_with_its_job() -> None:
    """Whoever deletes the Job wants nothing of it."""
    world = Federation("a")
    world.keep_finished_s = 600.0
    async with world.running():
        await ended(world)
        delete(world, "Background")
        await until(lambda: world.copy() is None, "gone")


async def test_it_gives_way_to_another_one_of_its_name() -> None:
    """At once, also when its own deletion is late."""
    world = Federation("a")
    world.keep_finished_s = 600.0
    async with world.running():
        await ended(world)
        fake = world.workers["a"].fake
        fake.fail(lambda request: request.method == "DELETE", times=1)
        delete(world, "Background")
        start = asyncio.get_running_loop().time()
        new = world.submit()
        worker = await running_anew(world, new)
        assert asyncio.get_running_loop().time() - start < 5
        uid = worker.get("j")["metadata"]["uid"]
        await asyncio.sleep(0.3)  # time for the late deletion
        assert worker.get("j")["metadata"]["uid"] == uid


async def test_a_cluster_that_is_drained_keeps_nothing() -> None:
    """It may be about to leave, and nobody would remove it then."""
    world = Federation("a", "b")
    world.keep_finished_s = 600.0
    async with world.running():
        name = await ended(world)
        notes = {Order.CORDON.value: "new cards", Order.DRAIN.value: "graceful"}
        world.home.merge(MULTIKUEUE_CLUSTERS, name, {"metadata": {"annotations": notes}})
        await until(lambda: world.workers[name].fake.items(JOBS) == [], "it is empty")
