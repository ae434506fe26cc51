"""A worker that falls silent gets no more offers long before its Lease makes it suspect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

import httpx

from bench.dst.clock import VirtualLoop
from federation.core.exposure import OfferLimits
from federation.edge.resources import JOBS
from manager.app import Manager
from manager.exposure import OpenOffers
from tests.unit.manager.support import stop
from tests.unit.manager.test_clusters import Lives
from tests.unit.manager.test_clusters import play as play_story
from tests.unit.manager.virtual import virtually

JOBS_EACH = 50
play = partial(play_story, offers=OfferLimits())


async def _answers(world: Lives, name: str, times: list[float]) -> None:
    """An agent that starts whatever it is offered, a tenth of a second later."""
    while True:
        await asyncio.sleep(0.1)  # virtual time
        fake = world.workers[name].fake
        if name in world.cut or fake.silent:
            continue
        for job in fake.items(JOBS):
            if job["spec"]["suspend"]:
                world.start(world.workers[name], job["metadata"]["name"])
                world.workers[name].run_pods(job["metadata"]["name"])
                times.append(asyncio.get_running_loop().time())


@contextlib.asynccontextmanager
async def answering(world: Lives, *names: str) -> AsyncIterator[dict[str, list[float]]]:
    times: dict[str, list[float]] = {name: [] for name in names}
    tasks = [asyncio.create_task(_answers(world, name, times[name])) for name in names]
    try:
        yield times
    finally:
        await stop(tasks)


def hangs(request: httpx.Request) -> bool:
    return request.method == "POST"


def bound(world: Lives, cluster: str) -> int:
    found = [world.record(f"j{n}") for n in range(JOBS_EACH)]
    return sum(1 for r in found if r and r.binding and r.binding.cluster == cluster)


def submit(world: Lives) -> None:
    for n in range(JOBS_EACH):
        world.submit(f"j{n}", 0)


def test_its_api_server_stands_still() -> None:
    """E6: one of the jobs is exposed to it, the others start elsewhere at once; it is said why, and
    that one is not offered anywhere else.
    """

    async def story(world: Lives, manager: Manager) -> None:
        world.workers["a"].fake.fail(hangs, times=10**6, how="hang")
        began = asyncio.get_running_loop().time()
        async with answering(world, "b") as times:
            submit(world)
            await world.until(lambda: len(times["b"]) == JOBS_EACH - 1, 10)
            assert times["b"][-1] - began < 6
            assert bound(world, "a") == 1
            await asyncio.sleep(3)  # virtual time
            link = manager.clusters.links["a"]
            assert "has not answered an offer for" in manager.clusters.problem(link)
            await asyncio.sleep(20)  # virtual time
            assert bound(world, "a") == 1
            world.submit("late", 0)
            await world.until(lambda: world.record("late") and world.record("late").admitted, 5)
            assert world.record("late").binding.cluster == "b"

    play(story, "a", "b")


def test_its_agent_stands_still() -> None:
    """The offers are withdrawn after ten seconds; then it is asked with one at a time."""

    async def story(world: Lives, manager: Manager) -> None:
        async with answering(world, "b") as times:
            submit(world)
            await world.until(lambda: len(times["b"]) >= JOBS_EACH - 1, 10)
            await world.until(lambda: len(times["b"]) == JOBS_EACH, 20)
            for n in range(3):
                world.submit(f"late{n}", 0)
            await asyncio.sleep(1)  # virtual time
            there = [job["metadata"]["name"] for job in world.workers["a"].fake.items(JOBS)]
            assert len(there) == 1
            assert there[0].startswith("late")

    play(story, "a", "b")


def test_it_answers_again() -> None:
    """Then it gets offers as before, without anything else happening."""

    async def story(world: Lives, manager: Manager) -> None:
        submit(world)
        await asyncio.sleep(3)  # virtual time
        assert bound(world, "a") == 1
        async with answering(world, "a") as times:
            await world.until(lambda: len(times["a"]) == JOBS_EACH, 20)

    play(story, "a")


def test_one_that_is_back_is_offered_all_that_waits() -> None:
    """Within a second of its being well, as its agent answers."""

    async def story(world: Lives, manager: Manager) -> None:
        world.lose("a")
        await world.until(lambda: world.phase("a") == "Suspect")
        for number in range(20):
            world.submit(f"j{number}", 0)
        await asyncio.sleep(20)  # virtual time
        async with answering(world, "a"):
            world.heal("a")
            await world.until(lambda: world.phase("a") == "Ready")
            await world.until(lambda: all(world.copy(f"j{number}") for number in range(20)), 1)

    play(story, "a")


def test_one_that_answers_is_not_held_up() -> None:
    """One after the other as they come, 25 in a second and more."""

    async def story(world: Lives, manager: Manager) -> None:
        async with answering(world, "a") as times:
            began = asyncio.get_running_loop().time()
            submit(world)
            await world.until(lambda: len(times["a"]) == JOBS_EACH, 20)
            assert times["a"][-1] - began < 2

    play(story, "a")


def test_what_refuses_connections_gets_nothing() -> None:
    """Nothing was sent, so nothing is exposed: all run elsewhere, long before it is suspect."""

    async def story(world: Lives, manager: Manager) -> None:
        world.workers["a"].fake.fail(hangs, times=10**6, how="drop")
        async with answering(world, "b") as times:
            submit(world)
            await world.until(lambda: len(times["b"]) == JOBS_EACH, 10)
            assert bound(world, "a") == 0

    play(story, "a", "b")


def test_the_book() -> None:
    """Times count from when an offer is sent; what the API server answers without having made it
    does not wait.
    """

    async def main(loop: VirtualLoop) -> None:
        offers = OpenOffers(OfferLimits())
        offers.opened("u", made=False)
        await asyncio.sleep(5)  # virtual time
        assert (offers.now().open, offers.now().waited) == (1, 0)
        offers.sent("u")
        await asyncio.sleep(1)  # virtual time
        offers.sent("u")  # again: an older copy was in the way, or no answer came
        assert 1 <= offers.now().waited < 1.1
        offers.not_made("u", unsent=False)
        assert offers.now().waited == 0
        flight = offers.departs()
        await asyncio.sleep(3)  # virtual time
        assert offers.now().silence()
        offers.arrives(flight)
        assert offers.now().waited == 0
        offers.sent("u")
        await asyncio.sleep(2)  # virtual time
        offers.closed("u", replied=False)
        assert offers.now().missed
        offers.opened("v", made=True)
        offers.closed("v", replied=True)
        assert (offers.now().missed, offers.now().answers) == (False, 1)
        await asyncio.sleep(2.5)  # virtual time
        assert offers.now().answers == 0

    virtually(main)
