"""Another physical cluster under the name of one where jobs run: they are lost, never gone."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from bench.dst.clock import VirtualLoop
from federation.api.names import FEDQ_NAMESPACE, Lease, Order
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LEASES,
    MULTIKUEUE_CLUSTERS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
)
from manager.app import Manager
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import stop, until
from tests.unit.manager.test_clusters import Lives, play
from tests.unit.manager.virtual import virtually
from tests.unit.worker_agent.support import Worker

Json = dict[str, Any]


def rotate(world: Lives, name: str, text: str) -> None:
    """Other credentials."""
    data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
    world.home.merge(SECRETS, name, {"data": data}, FEDQ_NAMESPACE)


def replace(world: Lives, name: str, by: Worker, text: str = "new") -> Worker:
    """Let another cluster have the name, with its kubeconfig; returns the one before."""
    before = world.workers[name]
    world.workers[name] = by
    world.report(name)
    rotate(world, name, text)
    return before


def notes(world: Lives, name: str) -> Json:
    return dict(world.home.get(LEASES, name, FEDQ_NAMESPACE)["metadata"]["annotations"])


def identity(worker: Worker) -> str:
    return str(worker.fake.get(NAMESPACES, "kube-system")["metadata"]["uid"])


async def noted(world: Lives, name: str) -> None:
    wanted = identity(world.workers[name])
    await world.until(lambda: notes(world, name).get(Lease.IDENTITY.value) == wanted, 20)


def starts(worker: Worker) -> int:
    """How often a copy of `j` was made there."""
    made = {
        change.new["metadata"]["uid"]
        for change in worker.fake.objects.history
        if change.resource == JOBS and change.new
    }
    return len(made)


def test_the_kubeconfig_leads_to_another_cluster() -> None:
    """The old epoch is ended; the job waits until it is certainly stopped, then runs again."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        await noted(world, place)
        began, last = asyncio.get_running_loop().time(), world.renewed[place]
        old = replace(world, place, Worker(4))
        await world.until(lambda: world.epoch(place) == "2", 20)
        await noted(world, place)
        assert notes(world, place)[Lease.OWN_SINCE.value] == "2"
        await world.until(lambda: world.phase(place) == "Ready", 60)
        assert await world.run("k") in world.workers
        while asyncio.get_running_loop().time() < began + 150:
            record = world.record("j")
            assert (record.attempt, record.binding.cluster, record.life.evicted) == (1, place, "")
            await asyncio.sleep(1)  # virtual time
        assert starts(world.workers[place]) <= 1, "nothing but k may be there"
        await world.until(lambda: world.record("j").attempt == 2, 60)
        assert asyncio.get_running_loop().time() - last >= 180
        await world.until(lambda: world.copy("j"))
        found = world.copy("j")
        assert found is not None
        world.start(world.workers[found[0]], "j")
        world.workers[found[0]].run_pods("j")
        await world.until(lambda: world.record("j").admitted)
        world.workers[found[0]].end("j")
        await world.until(lambda: world.record("j").finished)
        assert old.get("j")["spec"]["suspend"] is False, "nobody can reach it"
        world.home.delete(JOBS, "j", "team")
        await world.until(lambda: len(manager.controller.states) == 1)  # k is left

    play(story, "a", "b")


def test_made_anew_for_another_cluster() -> None:
    """The MultiKueueCluster is deleted and created again within T_s, with another kubeconfig."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        await noted(world, place)
        obj = world.object(place)
        world.home.delete(MULTIKUEUE_CLUSTERS, place)
        await asyncio.sleep(10)  # virtual time
        replace(world, place, Worker(4))
        again = {**obj, "metadata": {"name": place}, "status": {}}
        world.home.create(MULTIKUEUE_CLUSTERS, again)
        await world.until(lambda: world.epoch(place) == "2", 30)
        await asyncio.sleep(100)  # virtual time
        assert world.record("j").attempt == 1
        await world.until(lambda: world.record("j").attempt == 2, 120)

    play(story, "a", "b")


def test_other_credentials_for_the_same_cluster() -> None:
    """Nothing moves."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        await noted(world, place)
        link = manager.clusters.links[place]
        rotate(world, place, "rotated")
        await world.until(lambda: manager.clusters.links.get(place) not in (None, link), 10)
        await asyncio.sleep(300)  # virtual time
        assert (world.epoch(place), world.phase(place)) == ("1", "Ready")
        world.workers[place].end("j")
        await world.until(lambda: world.record("j").finished, 20)
        assert world.record("j").attempt == 1

    play(story, "a", "b")


def test_by_mistake_and_back() -> None:
    """What runs on the first one goes on there, in its attempt."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        await noted(world, place)
        old = replace(world, place, Worker(4))
        await world.until(lambda: world.epoch(place) == "2", 20)
        await asyncio.sleep(30)  # virtual time
        replace(world, place, old, "x")
        await world.until(lambda: world.epoch(place) == "3", 20)
        await world.until(lambda: world.record("j").binding.epoch == 3, 60)
        await asyncio.sleep(300)  # virtual time
        world.workers[place].end("j")
        await world.until(lambda: world.record("j").finished, 20)
        assert world.record("j").attempt == 1

    play(story, "a", "b")


def test_the_manager_is_restarted_in_between() -> None:
    """The Lease says which cluster an epoch is of."""

    async def main(loop: VirtualLoop) -> None:
        world = Lives("a", "b")
        async with world.alive():
            place = await world.run("j")
            await noted(world, place)
        replace(world, place, Worker(4))
        agents = [asyncio.create_task(world._agent(name)) for name in world.workers]
        agents.append(asyncio.create_task(world._bookmarks()))
        last = world.renewed[place]
        try:
            async with world.running():
                await world.until(lambda: world.epoch(place) == "2", 30)
                await asyncio.sleep(30)  # virtual time
            async with world.running():
                await world.until(lambda: world.phase(place) == "Ready", 60)
                await asyncio.sleep(30)  # virtual time
                assert world.record("j").attempt == 1
                await world.until(lambda: world.record("j").attempt == 2, 300)
        finally:
            await stop(agents)
        assert loop.time() - last >= 180

    virtually(main)


@pytest.mark.parametrize(
    ("policy", "least", "most"), [("duplicate-ok", 0, 30), ("keep", 600, None)]
)
def test_policies(policy: str, least: float, most: float | None) -> None:
    """What may run twice does at once; what is kept waits for somebody's word."""

    async def story(world: Lives, manager: Manager) -> None:
        note = {"metadata": {"annotations": {"fedq.io/on-disconnect": policy}}}
        world.home.merge(CLUSTER_QUEUES, "cq", note)
        place = await world.run("j")
        await noted(world, place)
        replace(world, place, Worker(4))
        await asyncio.sleep(least)  # virtual time
        assert world.record("j").attempt == 1
        if most is None:
            order = {"metadata": {"annotations": {Order.FENCE_CONFIRMED.value: "2"}}}
            world.home.merge(MULTIKUEUE_CLUSTERS, place, order)
        await world.until(lambda: world.record("j").attempt == 2, most or 30)

    play(story, "a", "b")


def test_it_is_held_meanwhile() -> None:
    """That the new cluster has no such copy does not say that it is gone."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        await noted(world, place)
        replace(world, place, Worker(4))
        await world.until(lambda: world.epoch(place) == "2", 20)
        name = world.home.items(WORKLOADS)[0]["metadata"]["name"]
        world.home.merge(WORKLOADS, name, {"spec": {"active": False}}, "team")
        await asyncio.sleep(100)  # virtual time
        assert world.record("j").binding is not None, "its copy may run for a while yet"
        await world.until(lambda: world.record("j").binding is None, 120)

    play(story, "a", "b")


async def test_the_management_cluster_registered_as_a_worker() -> None:
    """It is refused, with what to do instead; its Jobs are told of to nobody, and not copied."""
    world = Federation("a", "b")
    made = world.home.create(NAMESPACES, {"metadata": {"name": "kube-system"}})
    world.identity = made["metadata"]["uid"]
    world.workers["a"].fake = world.home
    world.report("a")
    async with world.running() as manager:
        world.submit()
        await until(lambda: world.workers["b"].fake.items(JOBS), "an offer")
        world.start(world.workers["b"])
        await until(lambda: world.record().admitted)
        assert world.record().binding.cluster == "b"

        def active() -> Json:
            found = world.home.get(MULTIKUEUE_CLUSTERS, "a").get("status", {})
            return next((c for c in found.get("conditions", ()) if c["type"] == "Active"), {})

        await until(lambda: active().get("reason") == "ManagementCluster")
        assert active()["status"] == "False"
        for said in ("management cluster itself", "kube-system", "agent beside the manager"):
            assert said in active()["message"]
        assert manager.clusters.links["a"].identity == ""
        assert len(world.home.items(JOBS)) == 1
