"""A cluster that plain Kueue runs is lost, and comes back: two copies are possible, one result."""

from __future__ import annotations

import pytest

from federation.api.names import ActiveReason, Option, Order
from federation.edge.resources import JOBS, MULTIKUEUE_CLUSTERS
from manager import cluster_worker
from tests.unit.manager import plain
from tests.unit.manager.federation import writes
from tests.unit.manager.plain import PlainFederation, clone
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker


@pytest.fixture(autouse=True)
def _probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_worker, "PROBE_S", 1.0)


def phase(world: PlainFederation, name: str = "k") -> str:
    found = world.home.get(MULTIKUEUE_CLUSTERS, name).get("status") or {}
    return str((found.get("fedq") or {}).get("phase"))


async def lost(world: PlainFederation, worker: Worker) -> None:
    """Cut a cluster off until its job is bound elsewhere: not before the time is over."""
    worker.fake.cut()
    await until(lambda: phase(world) == "Suspect", "no contact is shown")
    assert world.record().binding.cluster == "k"
    expire(world)
    await until(lambda: (b := world.record().binding) and b.cluster == "z", "bound elsewhere")


def expire(world: PlainFederation) -> None:
    """The time without contact is over."""
    world.manager.clusters.watcher.worker_lost_s = 0.0


async def test_lost_and_back() -> None:
    """It runs elsewhere after the time, in another attempt; the older copy goes when it is back."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "k"})
        worker = await plain.run(world)
        await lost(world, worker)
        assert world.record().attempt == 2
        other = world.workers["z"]
        await until(lambda: other.fake.items(JOBS), "an offer")
        world.start(other)
        await until(lambda: world.record().admitted, "it runs there")
        assert not worker.get("j")["spec"]["suspend"], "nobody stops the other one"
        worker.fake.heal()
        await until(lambda: not worker.fake.items(JOBS), "the older one is removed")
        await until(lambda: clone(worker) is None, "with its Workload")
        assert world.record().binding.cluster == "z"
        other.end("j")
        await until(lambda: world.record().finished, "finished")
    assert writes(other.fake)["POST jobs"] == 1


async def test_back_in_time() -> None:
    """A short silence changes nothing."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "k"})
        worker = await plain.run(world)
        worker.fake.cut()
        await until(lambda: phase(world) == "Suspect", "no contact is shown")
        worker.fake.heal()
        await until(lambda: phase(world) == "Ready", "contact again")
        worker.end("j")
        await until(lambda: world.record().finished, "finished")
        assert world.record().attempt == 1


async def test_completed_while_it_was_lost() -> None:
    """Work that was completed counts, though another attempt runs: that one goes."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "k"})
        worker = await plain.run(world)
        await lost(world, worker)
        other = world.workers["z"]
        await until(lambda: other.fake.items(JOBS), "an offer")
        world.start(other)
        await until(lambda: world.record().admitted, "it runs there")
        worker.end("j")
        worker.fake.heal()
        await until(lambda: world.record().finished, "its result counts")
        await until(lambda: not other.fake.items(JOBS), "the other one is removed")
        await until(lambda: not worker.fake.items(JOBS), "and so is this one")


async def test_what_is_to_be_kept_waits() -> None:
    """With the policy keep it never runs elsewhere."""
    world = PlainFederation("k", "z")
    async with world.running():
        notes = {Option.PREFER_CLUSTERS.value: "k", Option.ON_DISCONNECT.value: "keep"}
        world.submit(**notes)
        worker = await plain.run(world)
        worker.fake.cut()
        await until(lambda: phase(world) == "Suspect", "no contact is shown")
        expire(world)
        await until(lambda: phase(world) == "Lost", "the cluster is lost")
        assert world.record().binding.cluster == "k"
        worker.fake.heal()
        await until(lambda: phase(world) == "Ready", "contact again")
        worker.end("j")
        await until(lambda: world.record().finished, "finished")


async def test_what_is_told() -> None:
    """What comes next, before it does."""
    world = PlainFederation("k", "z")
    async with world.running():
        await until(lambda: phase(world) == "Ready", "well")
        world.workers["k"].fake.cut()
        await until(lambda: phase(world) == "Suspect", "no contact is shown")
        found = world.home.get(MULTIKUEUE_CLUSTERS, "k")["status"]["fedq"]
        assert (found["tier"], found["epoch"]) == ("none", 1)
        assert "two copies are possible" in found["next"]


async def test_a_drain_stops_first() -> None:
    """Nobody asked for two copies: while the cluster is reached there are none."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "k"})
        worker, other = await plain.run(world), world.workers["z"]
        both: list[bool] = []
        other.fake.objects.listeners.append(
            lambda: both.append(bool(worker.fake.items(JOBS) and other.fake.items(JOBS)))
        )
        notes = {"metadata": {"annotations": {Order.DRAIN.value: "now"}}}
        world.home.merge(MULTIKUEUE_CLUSTERS, "k", notes)
        await until(lambda: other.fake.items(JOBS), "it is offered to the other one")
    assert not any(both)


async def test_a_refused_login_is_no_silence() -> None:
    """Its API server answers, be it with a no: it is a matter of configuration, nothing moves."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "k"})
        worker = await plain.run(world)
        worker.fake.fail(lambda request: True, times=10**6, status=401)
        await until(lambda: phase(world) == "Unusable", "it is shown")
        expire(world)
        world.manager.clusters.watcher.look()
        verdict = world.manager.clusters.watcher.verdict("k")
        assert (verdict.phase.value, verdict.standing.suspect) == ("Unusable", False)
        assert world.record().binding.cluster == "k"


async def test_workloads_that_cannot_be_read_are_no_silence() -> None:
    """Kueue's conversion webhook is away: its API server answers, and the jobs there run on."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "k"})
        worker = await plain.run(world)
        worker.fake.fail(lambda request: "/workloads" in request.url.path, times=10**6, status=500)
        worker.fake.drop_watches()
        manager = world.manager
        await until(lambda: not manager.clusters.usable("k"), "it gets no work")
        health = manager.clusters.links["k"].health
        assert health.reason == ActiveReason.CLIENT_CONNECTION_FAILED
        expire(world)
        manager.clusters.watcher.look()
        assert not manager.clusters.watcher.verdict("k").standing.suspect
        assert world.record().binding.cluster == "k"


async def test_an_offer_that_was_not_answered() -> None:
    """Admitted while it was lost: the job is not made there any more, and the Workload goes."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "k"})
        worker = world.workers["k"]
        await until(lambda: clone(worker), "an offer")
        await lost(world, worker)
        plain.admit(worker)
        worker.fake.heal()
        await until(lambda: clone(worker) is None, "it is removed")
        assert world.record().binding.cluster == "z"
    assert writes(worker.fake)["POST jobs"] == 0
