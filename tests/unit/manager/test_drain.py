"""A cluster is drained: what runs there runs elsewhere, or ends there, and nothing new comes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from federation.api import record as records
from federation.api.names import ConditionType, Option, Order
from federation.api.orders import ClusterOrders
from federation.core.failover import Standing
from federation.edge.resources import JOBS, MULTIKUEUE_CLUSTERS
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters are looked at more often than in earnest."""
    monkeypatch.setattr("manager.drain.TICK_S", 0.02)
    monkeypatch.setattr("manager.drain.REST_S", 0.05)


def order(world: Federation, cluster: str, drain: str | None, reason: str = "new cards") -> None:
    """As `fedq cluster drain` writes it; None takes it back."""
    notes = {Order.DRAIN.value: drain, Order.CORDON.value: reason if drain else None}
    world.home.merge(MULTIKUEUE_CLUSTERS, cluster, {"metadata": {"annotations": notes}})


async def run(world: Federation, name: str, **notes: str) -> str:
    """A job that runs; the cluster that it is on."""
    world.submit(name, 1, **notes)
    world.start(await world.offered(name), name)
    await until(lambda: world.record(name).admitted, f"{name} runs")
    found = world.copy(name)
    assert found is not None
    return found[0]


def evicted(world: Federation, name: str) -> Json:
    return records.find(world.record(name).status, ConditionType.EVICTED) or {}


def other(cluster: str) -> str:
    return {"a": "b", "b": "a"}[cluster]


def has(world: Federation, cluster: str, name: str = "j") -> bool:
    """Whether a cluster has a copy."""
    copies = world.workers[cluster].fake.items(JOBS)
    return any(copy["metadata"]["name"] == name for copy in copies)


def moved(world: Federation, where: str, name: str = "j") -> None:
    """It was bound once more, elsewhere, and it is told why."""
    record = world.record(name)
    assert (record.binding.cluster, record.binding.attempt) == (other(where), 2)
    assert record.status["schedulingStats"]["evictions"] == [
        {"reason": "ClusterDrained", "underlyingCause": "", "count": 1}
    ]
    assert f"cluster {where} is drained (new cards)" in evicted(world, name)["message"]


@pytest.mark.parametrize("policy", ["stop", "keep"])
async def test_now(policy: str) -> None:
    """Whatever its policy says of a loss: stopped, and then started elsewhere as one of its age."""
    world = Federation("a", "b")
    async with world.running() as manager:
        where = await run(world, "j", **{Option.ON_DISCONNECT.value: policy})
        created = world.local()["metadata"]["creationTimestamp"]
        order(world, where, "now")
        await until(lambda: has(world, other(where)), "it moved")
        assert not has(world, where)
        moved(world, where)
        assert world.local()["metadata"]["creationTimestamp"] == created
        assert manager.problem() == ""


async def test_now_where_two_copies_are_allowed() -> None:
    """It starts elsewhere first: the old copy goes when the new one runs."""
    world = Federation("a", "b")
    async with world.running():
        where = await run(world, "j", **{Option.ON_DISCONNECT.value: "duplicate-ok"})
        order(world, where, "now")
        await until(lambda: has(world, other(where)), "it is offered elsewhere")
        assert has(world, where)
        world.start(world.workers[other(where)], "j")
        await until(lambda: not has(world, where), "the old one is gone")
        moved(world, where)


async def test_graceful() -> None:
    """What runs goes on and ends there; what was offered and not started goes elsewhere."""
    world = Federation("a", "b")
    async with world.running():
        where = await run(world, "runs")
        offers = []
        for n in range(3):
            world.submit(f"offer{n}")
            await world.offered(f"offer{n}")
            offers.append(f"offer{n}")
        there = [name for name in offers if world.copy(name)[0] == where]  # type: ignore[index]
        assert there, "one at least was offered to the cluster that is drained"
        order(world, where, "graceful")
        for name in there:
            await until(lambda name=name: has(world, other(where), name), f"{name} moved")  # type: ignore[misc]
        assert world.record("runs").binding.attempt == 1
        assert evicted(world, "runs") == {}
        world.workers[where].end("runs")
        await until(lambda: world.record("runs").finished, "it ended there")


async def test_nothing_new_comes() -> None:
    """A cluster that is drained is cordoned too, until the order is taken back."""
    world = Federation("a")
    async with world.running() as manager:

        def cordoned() -> bool:
            link = manager.clusters.links.get("a")
            return link is not None and "Cordoned" in manager.clusters.problem(link)

        order(world, "a", "graceful")
        await until(cordoned, "cordoned")
        world.submit()
        await until(lambda: world.record() and "new cards" in world.record().message, "it waits")
        assert world.copy() is None
        order(world, "a", None)
        await world.offered()


async def test_what_ended_is_left() -> None:
    """Its result counts, though it is not recorded yet; nobody starts it again."""
    world = Federation("a", "b")
    async with world.running() as manager:
        where = await run(world, "j")
        order(world, where, None)
        (state,) = manager.controller.states.values()
        copy = state.remote
        assert copy is not None
        ended = replace(state, remotes={where: replace(copy, finished="Complete")})
        manager.drain._orders = lambda: {where: ClusterOrders("new cards", "now")}
        assert [manager.drain._leaves(found) for found in (state, ended)] == [True, False]


async def test_a_silent_cluster_is_left_alone() -> None:
    """Nobody knows what runs there: the lease is for that. It is drained when it is back."""
    world = Federation("a", "b")
    async with world.running() as manager:
        where = await run(world, "j")
        stands = Standing(where, suspect=True)
        manager.drain._standing = lambda name: stands
        looks = 0
        leaves = manager.drain._leaves

        def counted(state: Any) -> bool:
            nonlocal looks
            looks += 1
            return leaves(state)

        manager.drain._leaves = counted  # type: ignore[method-assign]
        order(world, where, "now")
        await until(lambda: looks > 2, "looked at")
        assert evicted(world, "j") == {}
        stands = Standing(where)
        await until(lambda: has(world, other(where)), "it moved")


async def test_an_order_taken_back() -> None:
    """What waits for its turn stays; what was stopped already runs elsewhere, once."""
    world = Federation("a", "b")
    async with world.running() as manager:
        where = await run(world, "j")
        evict = manager.drain._queue._go
        held: list[tuple[str, str]] = []
        manager.drain._queue._go = lambda uid, cluster: held.append((uid, cluster))
        order(world, where, "now")
        await until(lambda: held, "it would go")
        order(world, where, None)
        await until(lambda: not manager.clusters.orders()[where].drain, "seen")
        evict(*held[0])
        await asyncio.sleep(0)
        assert not manager.controller.states[held[0][0]].evicting
