"""Records, orders and stores that somebody changed by hand: no job is lost, none runs twice."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from federation.api.names import Mirror, Order
from federation.edge.resources import JOBS, NAMESPACES, WORKLOADS
from manager.app import Manager
from tests.unit.manager.test_clusters import Lives, left, play

Json = dict[str, Any]


def change(world: Lives, patch: Json, *, status: bool = False) -> None:
    """Somebody writes to the Workload of job j."""
    world.home.merge(WORKLOADS, world.record("j").key.name, patch, "team", status=status)


def record_writes(world: Lives) -> int:
    return sum(method == "PATCH" and "/workloads/" in path for method, path in world.home.log)


async def agents(world: Lives, most: list[int]) -> None:
    """Start what is offered; `most` gets how many copies of job j ran at a time."""
    while True:
        runs = 0
        for worker in world.workers.values():
            job = worker.fake.objects.data.get(JOBS, {}).get(("team", "j"))
            if job is None:
                continue
            if (
                job["spec"]["suspend"]
                and Mirror.REFUSED.value not in job["metadata"]["annotations"]
            ):
                world.start(worker, "j")
                worker.run_pods("j")
            runs += not worker.get("j")["spec"]["suspend"]
        most[0] = max(most[0], runs)
        await asyncio.sleep(0.5)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"attempt": 0}, id="attempt 0"),
        pytest.param({"attempt": 7}, id="a later attempt"),
        pytest.param({"cluster": "other"}, id="another cluster"),
        pytest.param({"cluster": "nowhere"}, id="a cluster that does not exist"),
        pytest.param({"epoch": -3}, id="a negative epoch"),
        pytest.param({"epoch": 2**31 - 1}, id="the highest epoch"),
        pytest.param({"policy": "whatever"}, id="an unknown policy"),
    ],
)
def test_a_binding_that_was_edited(edit: Json) -> None:
    """In the end the job runs where its record says, once; never were there two copies."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        told = dict(edit)
        if told.get("cluster") == "other":
            told["cluster"] = "b" if place == "a" else "a"
        change(world, {"status": {"fedq": told}}, status=True)
        most = [1]
        task = asyncio.create_task(agents(world, most))
        await asyncio.sleep(500)
        task.cancel()
        record = world.record("j")
        found = world.workers[record.binding.cluster].get("j")
        notes = found["metadata"]["annotations"]
        assert record.admitted
        assert not found["spec"]["suspend"]
        assert notes[Mirror.ATTEMPT.value] == str(record.binding.attempt)
        assert notes[Mirror.EPOCH.value] == str(record.binding.epoch)
        assert most == [1]

    play(story, "a", "b")


def test_an_order_that_is_too_long_to_be_told() -> None:
    """What is told is compared with what was told: it has to be the same."""

    async def story(world: Lives, manager: Manager) -> None:
        await world.run("j")
        before = record_writes(world)
        change(world, {"metadata": {"annotations": {Order.MOVE_TO.value: "x" * 40_000}}})
        for _ in range(60):
            await asyncio.sleep(0.5)
            assert record_writes(world) - before <= 1
        assert "no such cluster" in world.record("j").note

    play(story, "a", "b")


def test_the_store_of_a_cluster_was_restored_from_a_backup() -> None:
    """Its versions go back: a copy that is there again goes, one that is missing is made anew."""

    async def story(world: Lives, manager: Manager) -> None:
        await world.run("old")
        fake = world.workers["a"].fake
        objects = fake.objects
        saved = copy.deepcopy(objects.data), objects.version
        world.workers["a"].end("old")
        await world.until(lambda: not left(world, "a"))
        await world.run("j")
        for number in range(50):
            fake.merge(NAMESPACES, "team", {"metadata": {"labels": {"n": str(number)}}})

        objects.data, objects.version = saved
        assert list(left(world, "a")) == [("team", "old")]
        objects.history.clear()
        objects.oldest = 10**9  # as the API server does: no watch goes on from what is to come
        fake.drop_watches()
        await asyncio.sleep(1)
        objects.oldest = objects.version

        await world.until(lambda: list(left(world, "a")) == [("team", "j")], 30)
        assert world.record("j").attempt == 2

    play(story, "a")


def test_a_copy_that_is_forged_in_another_namespace() -> None:
    """Neither it nor its end is taken for the copy, and it is left alone."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        fake = world.workers[place].fake
        forged = copy.deepcopy(world.workers[place].get("j"))
        uid = forged["metadata"]["annotations"][Mirror.LOCAL_UID.value]
        own = manager.controller.states[uid].remotes[place].uid
        forged["metadata"] |= {"namespace": "other", "name": "x"}
        for field in ("uid", "resourceVersion"):
            del forged["metadata"][field]
        fake.create(NAMESPACES, {"metadata": {"name": "other"}})
        fake.create(JOBS, forged)
        await asyncio.sleep(30)  # virtual time
        assert fake.get(JOBS, "x", "other")
        fake.delete(JOBS, "x", "other")
        await asyncio.sleep(30)  # virtual time
        seen = manager.controller.states[uid].remotes[place]
        assert (seen.uid, seen.gone) == (own, False)
        assert world.record("j").attempt == 1

    play(story, "a", "b")
