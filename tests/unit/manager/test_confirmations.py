"""Orders that confirm a fence: followed for the fence that they are given for, and for no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bench.dst.clock import VirtualLoop
from federation.api.names import FEDQ_NAMESPACE, Lease, Order
from federation.edge.resources import CLUSTER_QUEUES, LEASES, MULTIKUEUE_CLUSTERS
from manager.app import Manager
from tests.unit.manager.test_clusters import Lives, play
from tests.unit.manager.virtual import virtually

Story = Callable[[Lives], Coroutine[Any, Any, None]]


def order(world: Lives, name: str, text: str) -> None:
    """As `kubectl annotate` does."""
    notes = {Order.FENCE_CONFIRMED.value: text, Order.FENCE_EVIDENCE.value: "ticket 7"}
    world.home.merge(MULTIKUEUE_CLUSTERS, name, {"metadata": {"annotations": notes}})


def ordered(world: Lives, name: str) -> str | None:
    found: str | None = (world.object(name)["metadata"].get("annotations") or {}).get(
        Order.FENCE_CONFIRMED.value
    )
    return found


def confirmed(world: Lives, name: str) -> str | None:
    """What stands on the Lease."""
    lease = world.home.get(LEASES, name, FEDQ_NAMESPACE)
    found: str | None = lease["metadata"]["annotations"].get(Lease.CONFIRMED_BELOW.value)
    return found


def refused(world: Lives, name: str) -> str:
    return str(world.shown(name).get("order", ""))


async def kept_job(world: Lives) -> str:
    """A job with policy keep; where it runs."""
    note = {"metadata": {"annotations": {"fedq.io/on-disconnect": "keep"}}}
    world.home.merge(CLUSTER_QUEUES, "cq", note)
    return await world.run("j")


def lives(*stories: Story) -> None:
    """One manager after the other, and what happens while none is there."""

    async def main(loop: VirtualLoop) -> None:
        world = Lives("a", "b")
        for number, story in enumerate(stories):
            if number % 2:
                await story(world)
            elif number:
                async with world.again():
                    await story(world)
            else:
                async with world.alive():
                    await story(world)

    virtually(main)


def test_an_order_that_comes_too_early_is_taken_away() -> None:
    """Its cluster lives: when that is lost later, somebody has to say so then."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await kept_job(world)
        order(world, place, "2")
        await world.until(lambda: ordered(world, place) is None, 20)
        await world.until(lambda: refused(world, place), 20)
        assert "fence-confirmed=2 was not followed" in refused(world, place)
        assert "renews its Lease in epoch 1" in refused(world, place)
        world.lose(place)
        await world.until(lambda: world.phase(place) == "Lost")
        await asyncio.sleep(300)  # virtual time
        assert world.record("j").attempt == 1
        order(world, place, "2")
        await world.until(lambda: world.record("j").attempt == 2, 30)
        assert (ordered(world, place), confirmed(world, place)) == ("2", "2")
        await world.until(lambda: not refused(world, place), 20)

    play(story, "a", "b")


def test_an_order_that_cannot_be_taken_away_is_not_followed_later() -> None:
    """The manager may not write to clusters, by permissions that are older than it is."""

    def forbidden(request: Any) -> bool:
        path = request.url.raw_path.decode().partition("?")[0]
        return bool(request.method == "PATCH" and path.endswith(("/a", "/b")))

    async def story(world: Lives, manager: Manager) -> None:
        world.home.fail(forbidden, times=10**6, status=403)
        place = await kept_job(world)
        order(world, place, "2")
        await world.until(lambda: refused(world, place), 20)
        world.lose(place)
        await world.until(lambda: world.phase(place) == "Lost")
        await asyncio.sleep(60)  # virtual time
        assert (world.record("j").attempt, confirmed(world, place)) == (1, None)
        assert ordered(world, place) == "2"
        assert "was not followed" in refused(world, place)
        order(world, place, "02")
        await world.until(lambda: world.record("j").attempt == 2, 30)

    play(story, "a", "b")


def test_a_new_cluster_is_told_nothing_of_the_orders_of_an_old_one() -> None:
    async def story(world: Lives, manager: Manager) -> None:
        order(world, "a", "2")
        await world.until(lambda: refused(world, "a"), 20)
        body = world.object("a")
        meta = {"name": "a", "annotations": body["metadata"].get("annotations")}
        world.home.delete(MULTIKUEUE_CLUSTERS, "a")
        await asyncio.sleep(5)  # virtual time
        world.home.create(MULTIKUEUE_CLUSTERS, {"metadata": meta, "spec": body["spec"]})
        await world.until(lambda: world.phase("a") == "Ready")
        assert not refused(world, "a")

    play(story, "a", "b")


def test_an_order_without_an_epoch_is_for_the_fence_that_stands() -> None:
    """And for no later one."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await kept_job(world)
        world.lose(place)
        await world.until(lambda: world.phase(place) == "Fenced")
        order(world, place, "yes, powered off")
        await world.until(lambda: world.record("j").attempt == 2, 30)
        assert (ordered(world, place), confirmed(world, place)) == ("2", "2")
        world.heal(place)
        await world.until(lambda: world.phase(place) == "Ready")
        world.lose(place)
        await world.until(lambda: world.phase(place) == "Lost")
        assert (world.epoch(place), confirmed(world, place)) == ("3", "2")
        assert ordered(world, place) == "2"

    play(story, "a", "b")


def test_an_order_from_before_the_manager_and_the_silence() -> None:
    """Whether it was meant for this silence nobody knows: it is not followed."""
    place = ""

    async def first(world: Lives) -> None:
        nonlocal place
        place = await kept_job(world)

    async def between(world: Lives) -> None:
        order(world, place, "2")
        world.lose(place)

    async def then(world: Lives) -> None:
        await world.until(lambda: ordered(world, place) is None)
        await world.until(lambda: world.phase(place) == "Lost")
        await asyncio.sleep(300)  # virtual time
        assert world.record("j").attempt == 1
        assert confirmed(world, place) is None
        assert "not fenced yet" in refused(world, place)

    lives(first, between, then)


def test_an_order_that_was_refused_is_not_found_by_the_next_manager() -> None:
    place = ""

    async def first(world: Lives) -> None:
        nonlocal place
        place = await kept_job(world)
        order(world, place, "2")
        await world.until(lambda: refused(world, place), 20)

    async def between(world: Lives) -> None:
        world.lose(place)

    async def then(world: Lives) -> None:
        assert "was not followed" in refused(world, place)
        await world.until(lambda: world.phase(place) == "Lost")
        await asyncio.sleep(60)  # virtual time
        assert world.record("j").attempt == 1
        assert "was not followed" in refused(world, place), "people may read it later"

    lives(first, between, then)


def test_an_order_that_was_followed_holds_for_the_next_manager() -> None:
    """It stands on the Lease, also when its cluster is gone from the federation."""
    place = ""

    async def first(world: Lives) -> None:
        nonlocal place
        place = await kept_job(world)
        world.lose(place)
        await world.until(lambda: world.phase(place) == "Fenced")
        world.home.delete(MULTIKUEUE_CLUSTERS, place)
        await asyncio.sleep(300)  # virtual time
        assert world.record("j").attempt == 1

    async def between(world: Lives) -> None:
        notes = {Lease.CONFIRMED_BELOW.value: world.epoch(place)}
        world.home.merge(LEASES, place, {"metadata": {"annotations": notes}}, FEDQ_NAMESPACE)

    async def then(world: Lives) -> None:
        await world.until(lambda: world.record("j").attempt == 2)

    lives(first, between, then)
