"""Pods that are created in the place of others of their group that have failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from federation.api.names import FEDQ_NAMESPACE, Mirror
from federation.edge.resources import LEASES, PODS, WORKLOADS
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.manager.test_kinds import GATE, copies, give, phase, pod, serving, started
from tests.unit.manager.test_lifecycle import checked_queue, decide

Json = dict[str, Any]


def group(*names: str) -> Federation:
    """A group of two on one cluster."""
    world = serving()
    for name in names:
        give(world, name)
    return world


async def begins(world: Federation, head: str = "p0") -> None:
    """Its agent starts it, and notes on the head what is charged."""
    await started(world, head)
    notes = {"metadata": {"annotations": {Mirror.ADMISSION.value: "{}"}}}
    world.workers["a"].fake.merge(PODS, head, notes, "team")


async def fails(world: Federation, name: str) -> None:
    """Its copy does, which is shown; then some time passes."""
    told(world, name, "Failed")
    await until(lambda: phase(world, name) == "Failed", f"the failure of {name} is shown")
    world.now += timedelta(seconds=5)


def told(world: Federation, name: str, phase: str) -> None:
    fake = world.workers["a"].fake
    fake.merge(PODS, name, {"status": {"phase": phase}}, "team", status=True)


def renewed(world: Federation, at: int) -> None:
    """Its agent is there, so that what fails has failed by itself."""
    spec = {"renewTime": f"2026-01-01T00:00:{at:02}Z"}
    world.home.merge(LEASES, "a", {"spec": spec}, FEDQ_NAMESPACE)


def at(world: Federation, name: str) -> Json:
    """The copy of a pod."""
    return world.workers["a"].fake.get(PODS, name, "team")


async def takes_its_place(world: Federation, name: str) -> None:
    """It is made where the group runs, and its agent lets it go."""
    give(world, name)
    await until(lambda: name in copies(world), f"{name} is made")
    assert at(world, name)["spec"]["schedulingGates"] == [GATE]
    world.workers["a"].fake.merge(PODS, name, {"spec": {"schedulingGates": []}}, "team")
    told(world, name, "Running")
    await until(lambda: phase(world, name) == "Running", f"{name} is shown")


@pytest.mark.parametrize(("failed", "fresh"), [("p1", "p2"), ("p1", "a"), ("p0", "p2")])
async def test_another_pod_takes_the_place_of_one_that_failed(failed: str, fresh: str) -> None:
    """It is created where the group runs, in the same attempt, and waits there for the agent; the
    group goes on, whole again, also when the pod that failed was its head.
    """
    world, other = group("p0", "p1"), "p1" if failed == "p0" else "p0"
    async with world.running() as manager:
        await begins(world)
        await fails(world, failed)
        assert not world.record("p0").finished
        await takes_its_place(world, fresh)
        made, old = (at(world, n)["metadata"]["annotations"] for n in (fresh, failed))
        for note in (Mirror.LOCAL_UID, Mirror.ATTEMPT, Mirror.EPOCH):
            assert made[note.value] == old[note.value]
        holder = manager.scheduler.holder(world.home.get(PODS, "p0", "team")["metadata"]["uid"])
        assert holder is not None
        assert sum(holder.usage.values()) == 2
        give(world, "p3")
        if failed != "p0":  # nobody misses it
            world.home.delete(PODS, failed, "team")
        for name in (other, fresh):
            told(world, name, "Succeeded")
        await until(lambda: world.record("p0").finished, "it has ended")
        assert world.record("p0").attempt == 1
        assert [phase(world, name) for name in (other, fresh)] == ["Succeeded", "Succeeded"]
        assert world.home.get(PODS, "p3", "team")["spec"]["schedulingGates"] == [GATE]
    log = world.workers["a"].fake.log
    assert sum(m == "POST" and path.endswith("/pods") for m, path in log) == 3


async def test_one_that_asks_for_something_else_takes_no_place() -> None:
    """The next one that does not does."""
    world = group("p0", "p1")
    async with world.running():
        await begins(world)
        await fails(world, "p1")
        give(world, "large", gpus=2)
        world.now += timedelta(seconds=5)
        await takes_its_place(world, "p2")
        assert "large" not in copies(world)


async def test_another_manager_goes_on() -> None:
    """Whatever it finds: a pod that is to be made, one that runs already, one that failed again."""
    world = group("p5", "p6")
    async with world.running():
        await begins(world, "p5")
        await fails(world, "p6")
    give(world, "a")
    async with world.running():
        await until(lambda: "a" in copies(world), "it is made")
        world.workers["a"].fake.merge(PODS, "a", {"spec": {"schedulingGates": []}}, "team")
        told(world, "a", "Running")
        await until(lambda: phase(world, "a") == "Running", "it is shown")
    world.home.delete(PODS, "p6", "team")
    async with world.running():
        await fails(world, "a")
        await takes_its_place(world, "b")
        assert world.record("p5").attempt == 1
        assert len(world.home.items(WORKLOADS)) == 1


async def test_a_group_that_left_its_cluster_is_offered_as_it_is_now() -> None:
    """With the pod that took the place of another; a head that was replaced begins anew."""
    world = group("p0", "p1")
    async with world.running():
        await begins(world)
        await fails(world, "p1")
        await takes_its_place(world, "p2")
        await fails(world, "p0")
        await takes_its_place(world, "p3")
        name = world.record("p0").key.name
        world.home.merge(WORKLOADS, name, {"spec": {"active": False}}, "team")
        await until(lambda: not copies(world), "all of it stops")
        await until(lambda: world.record("p0").binding is None, "it has left")
        await until(lambda: phase(world, "p0") == "Pending", "and is as it was")
        world.home.merge(WORKLOADS, name, {"spec": {"active": True}}, "team")
        await until(lambda: copies(world) == ["p0", "p2"], "offered")
        assert world.record("p0").attempt == 2


async def test_a_copy_that_goes_gets_no_more_pods() -> None:
    """What cannot be written is not written later either, when the copy is gone."""
    world = group("p0", "p1")
    fake = world.workers["a"].fake
    async with world.running():
        await begins(world)
        await fails(world, "p1")
        fake.fail(lambda request: request.method == "POST", times=10**6, how="lost")
        give(world, "p2")
        name = world.record("p0").key.name
        world.home.merge(WORKLOADS, name, {"spec": {"active": False}}, "team")
        await until(lambda: not copies(world), "it stops")
        fake.heal()
        await until(lambda: world.record("p0").binding is None, "it has left")
        assert copies(world) == []


@pytest.mark.parametrize(("lost", "left"), [("p0", "p1"), ("p1", "p0")])
@pytest.mark.parametrize("retriable", ["true", "false"])
async def test_a_group_that_lost_a_pod_there_has_not_succeeded(
    retriable: str, lost: str, left: str
) -> None:
    """A node was drained, or the group is being stopped: what is left of it says nothing of the
    pods that are gone. It runs again as a whole.
    """
    world, note = group("p0", "p1"), {"kueue.x-k8s.io/retriable-in-group": retriable}
    for name in ("p0", "p1"):
        world.home.merge(PODS, name, {"metadata": {"annotations": note}}, "team")
    async with world.running():
        await begins(world)
        told(world, left, "Running")
        await until(lambda: phase(world, left) == "Running", "it runs")
        world.workers["a"].fake.delete(PODS, lost, "team")
        told(world, left, "Succeeded")
        await until(lambda: world.record("p0").attempt == 2, "it runs again")
        assert not world.record("p0").finished
        await until(lambda: copies(world) == ["p0", "p1"], "offered")


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
async def test_a_group_whose_head_was_replaced_and_that_lost_another_pod(end: str) -> None:
    """There are as many pods as belong to it, and one failed: but that has been replaced, and the
    one that is gone never ends. It runs again as a whole.
    """
    world = group("p0", "p1")
    async with world.running():
        await begins(world)
        await fails(world, "p0")
        await takes_its_place(world, "p2")
        told(world, "p1", "Running")
        await until(lambda: phase(world, "p1") == "Running", "it runs")
        world.workers["a"].fake.delete(PODS, "p1", "team")
        renewed(world, 1)
        told(world, "p2", end)
        await until(lambda: world.record("p0").attempt == 2, "it runs again")
        assert not world.record("p0").finished
        await until(lambda: len(copies(world)) == 2, "offered")


async def test_another_manager_finds_a_group_that_lost_a_pod_in_place_of_another() -> None:
    """That one is there, as it failed, and as many pods as belong to the group."""
    world = group("p0", "p1")
    async with world.running():
        await begins(world)
        await fails(world, "p1")
        await takes_its_place(world, "p2")
        told(world, "p0", "Running")
        await until(lambda: phase(world, "p0") == "Running", "it runs")
    world.workers["a"].fake.delete(PODS, "p2", "team")
    async with world.running() as manager:
        await until(lambda: manager.clusters.usable("a"), "it is read")
        renewed(world, 1)
        told(world, "p0", "Succeeded")
        await until(lambda: world.record("p0").attempt == 2, "it runs again")
        await until(lambda: len(copies(world)) == 2, "offered")


async def test_one_with_another_label_than_a_check_adds_takes_its_place() -> None:
    """Its own word stands. The group runs already: it is not asked again whether it can start."""
    world = serving(world=checked_queue())
    for name in ("p0", "p1"):
        give(world, name)
    async with world.running():
        await until(lambda: (r := world.record("p0")) and r.binding, "bound")
        (pods,) = world.record("p0").admission.pod_sets
        updates = [{"name": pods.name, "labels": {"tier": "x"}}]
        decide(world, "Ready", "p0", podSetUpdates=updates)
        await begins(world)
        await fails(world, "p1")
        other = {"metadata": {**pod("p2")["metadata"], "name": "p2"}}
        other["metadata"]["labels"] |= {"tier": "y"}
        world.home.create(PODS, {**pod("p2"), **other, "status": {"phase": "Pending"}})
        await until(lambda: "p2" in copies(world), "it is made")
        assert at(world, "p2")["metadata"]["labels"]["tier"] == "y"
