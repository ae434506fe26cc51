"""A whole manager on virtual time whose clusters come and go: what is shown, and what jobs do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from bench.dst.clock import VirtualLoop
from federation.api.names import (
    FEDQ_NAMESPACE,
    FENCED,
    ConditionType,
    Controller,
    Mirror,
    Order,
)
from federation.api.record import find
from federation.core.exposure import OfferLimits
from federation.edge.resources import (
    ADMISSION_CHECKS,
    JOBS,
    LEASES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    SECRETS,
    WORKER_REPORTS,
)
from manager.app import Manager
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import stop
from tests.unit.manager.virtual import virtually
from tests.unit.worker_agent.support import custom

Json = dict[str, Any]


class Lives(Federation):
    """A federation whose agents renew their Leases while they are not `cut`; so is the network to
    their clusters then.
    """

    def __init__(self, *names: str, **spec: Any) -> None:
        super().__init__(*names, **spec)
        self.cut: set[str] = set()
        self.renewed: dict[str, float] = {}

    @contextlib.asynccontextmanager
    async def alive(self) -> AsyncIterator[Manager]:
        async with self.again() as manager:
            await self.until(lambda: {self.phase(name) for name in self.workers} == {"Ready"})
            yield manager

    @contextlib.asynccontextmanager
    async def again(self) -> AsyncIterator[Manager]:
        """A manager, whatever it finds."""
        agents = [asyncio.create_task(self._agent(name)) for name in self.workers]
        agents.append(asyncio.create_task(self._bookmarks()))
        try:
            async with self.running() as manager:
                yield manager
        finally:
            await stop(agents)

    async def _agent(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if name not in self.cut:
                lease = self.home.get(LEASES, name, FEDQ_NAMESPACE)
                epoch = int(lease["metadata"].get("annotations", {}).get(Mirror.EPOCH.value, 1))
                told = {"status": {"inventoryEpoch": epoch}}
                self.workers[name].fake.merge(WORKER_REPORTS, name, told, status=True)
                spec = {"holderIdentity": name, "renewTime": f"{loop.time()}"}
                self.home.merge(LEASES, name, {"spec": spec}, FEDQ_NAMESPACE)
                self.renewed[name] = loop.time()
            await asyncio.sleep(20 if name not in self.cut else 1)

    async def _bookmarks(self) -> None:
        """As API servers do, so that nobody takes a watch without news for dead."""
        while True:
            await asyncio.sleep(60)
            for fake in [self.home, *(worker.fake for worker in self.workers.values())]:
                fake.bookmark()

    async def until(self, holds: Callable[[], object], most: float = 600) -> float:
        """Wait until something holds; returns how long it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not holds():
            assert loop.time() < began + most, f"not within {most} s"
            await asyncio.sleep(0.25)
        return loop.time() - began

    def object(self, name: str) -> Json:
        return self.home.get(MULTIKUEUE_CLUSTERS, name)

    def shown(self, name: str) -> Json:
        return dict((self.object(name).get("status") or {}).get("fedq") or {})

    def phase(self, name: str) -> str:
        return str(self.shown(name).get("phase"))

    def active(self, name: str) -> tuple[str, str, str]:
        found = find(self.object(name)["status"], ConditionType.ACTIVE)
        assert found is not None
        return found["status"], found["reason"], found["message"]

    def epoch(self, name: str) -> str:
        notes = self.home.get(LEASES, name, FEDQ_NAMESPACE)["metadata"]["annotations"]
        return str(notes[Mirror.EPOCH.value])

    def lose(self, name: str) -> None:
        self.cut.add(name)
        self.workers[name].fake.cut()

    def heal(self, name: str) -> None:
        self.cut.discard(name)
        self.workers[name].fake.heal()

    async def run(self, name: str, gpus: int = 1) -> str:
        """Submit a job and start its copy; returns the cluster."""
        self.submit(name, gpus)
        await self.until(lambda: self.copy(name))
        found = self.copy(name)
        assert found is not None
        self.start(self.workers[found[0]], name)
        self.workers[found[0]].run_pods(name)
        await self.until(lambda: self.record(name).admitted)
        return found[0]


def play(
    story: Callable[[Lives, Manager], Coroutine[Any, Any, None]],
    *names: str,
    offers: OfferLimits | None = None,
) -> None:
    """Run a story. With `offers` agents have to answer, as in `test_exposure`."""

    async def main(loop: VirtualLoop) -> None:
        world = Lives(*names)
        world.offers = offers or world.offers
        async with world.alive() as manager:
            await story(world, manager)

    virtually(main)


def test_the_tier_of_a_cluster_that_has_not_reported_yet() -> None:
    """It is the one that was shown before, not a guess."""

    async def story(world: Lives, manager: Manager) -> None:
        world.home.merge(MULTIKUEUE_CLUSTERS, "a", {"status": {"fedq": {"tier": "B"}}}, status=True)
        world.lose("a")
        await world.until(lambda: world.phase("a") == "Suspect")
        assert world.shown("a")["tier"] == "B"

    play(story, "a")


def test_lost_and_back() -> None:
    """People see every step with its time, and the job runs elsewhere when it is due."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        other = "b" if place == "a" else "a"
        world.lose(place)
        last = world.renewed[place]
        await world.until(lambda: world.phase(place) == "Suspect")
        suspect = world.shown(place)
        assert suspect["next"] == "it is fenced"
        assert suspect["nextAt"] > suspect["since"]
        assert world.active(place)[:2] == ("False", "AgentSilent")
        assert suspect["nextAt"] in world.active(place)[2]
        await world.until(lambda: world.phase(place) == "Fenced")
        assert world.record("j").attempt == 1
        await world.until(lambda: world.record("j").attempt == 2)
        assert 180 <= asyncio.get_running_loop().time() - last <= 190
        assert world.record("j").binding.cluster == other
        await world.until(lambda: world.phase(place) == "Lost", 5)
        assert world.shown(place)["epoch"] == 2
        world.heal(place)
        await world.until(lambda: world.phase(place) == "Ready")
        assert world.shown(place).keys() == {"phase", "since", "tier", "epoch"}
        await world.until(lambda: ("team", "j") not in left(world, place))  # the old copy

    play(story, "a", "b")


def left(world: Lives, cluster: str) -> Json:
    return dict(world.workers[cluster].fake.objects.data.get(JOBS, {}))


def test_names_and_statuses_that_make_no_sense() -> None:
    """One is shown with the reason, the other written anew; no other cluster is touched by them."""

    async def story(world: Lives, manager: Manager) -> None:
        source = {"clusterSource": {"kubeConfig": {"location": "a", "locationType": "Secret"}}}
        world.home.create(MULTIKUEUE_CLUSTERS, custom("MultiKueueCluster", "fedq-manager", source))
        year0 = {"type": "Active", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}
        told = {"conditions": [year0], "fedq": {"phase": "?", "epoch": -5, "since": "0000"}}
        world.home.merge(MULTIKUEUE_CLUSTERS, "b", {"status": told}, status=True)
        await world.until(lambda: "fedq" in (world.object("fedq-manager").get("status") or {}))
        await world.until(lambda: world.phase("b") == "Ready")
        assert world.active("fedq-manager")[:2] == ("False", "ReservedName")
        assert "fedq-manager" not in manager.clusters.links
        assert await world.run("j") in ("a", "b")

    play(story, "a", "b")


def test_a_secret_is_rotated() -> None:
    """It is missing for 20 s: shown, and nothing moves."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        secret = world.home.get(SECRETS, place, FEDQ_NAMESPACE)
        world.home.delete(SECRETS, place, FEDQ_NAMESPACE)
        await world.until(lambda: world.phase(place) == "Unusable", 5)
        assert world.active(place)[:2] == ("False", "BadKubeConfig")
        await asyncio.sleep(20)
        world.home.create(
            SECRETS, {**secret, "metadata": {"name": place, "namespace": FEDQ_NAMESPACE}}
        )
        await world.until(lambda: world.phase(place) == "Ready", 20)
        world.workers[place].end("j")
        await world.until(lambda: world.record("j").finished, 20)

        assert world.record("j").attempt == 1
        assert world.shown(place)["epoch"] == 1

    play(story, "a", "b")


def test_its_api_is_away_for_longer_than_any_time() -> None:
    """The agent renews: nothing is fenced, the job is where it is."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        world.workers[place].fake.cut()
        await world.until(lambda: world.phase(place) == "Unusable", 60)
        await asyncio.sleep(900)
        assert world.shown(place)["epoch"] == 1
        world.workers[place].fake.heal()
        world.workers[place].end("j")
        await world.until(lambda: world.record("j").finished, 120)

        assert world.record("j").attempt == 1

    play(story, "a", "b")


def test_a_cluster_is_taken_out_of_the_federation() -> None:
    """Its MultiKueueCluster is deleted while a job runs there, and its agent is cut off with it."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        world.home.delete(MULTIKUEUE_CLUSTERS, place)
        await world.until(lambda: world.epoch(place) == "2")
        world.cut.add(place)
        last = world.renewed[place]
        await world.until(lambda: world.record("j").attempt == 2)

        assert world.record("j").binding.cluster != place
        assert asyncio.get_running_loop().time() - last >= 179

    play(story, "a", "b")


def test_cordoned() -> None:
    """It gets no new work, and that is all."""

    async def story(world: Lives, manager: Manager) -> None:
        note = {"metadata": {"annotations": {Order.CORDON.value: "new cooling"}}}
        world.home.merge(MULTIKUEUE_CLUSTERS, "a", note)
        await world.until(lambda: manager.clusters.problem(manager.clusters.links["a"]))
        assert manager.clusters.problem(manager.clusters.links["a"]) == "Cordoned: new cooling"
        assert await world.run("j") == "b"
        assert world.phase("a") == "Ready"
        assert world.active("a")[0] == "True"

    play(story, "a", "b")


def test_restarted_beside_a_fenced_cluster() -> None:
    """The next manager goes on from the Lease; `since` is kept."""

    async def main(loop: VirtualLoop) -> None:
        world = Lives("a", "b")
        async with world.alive():
            place = await world.run("j")
            world.lose(place)
            await world.until(lambda: world.phase(place) == "Fenced")
        shown = world.shown(place)
        agents = asyncio.create_task(world._agent("b" if place == "a" else "a"))
        try:
            async with world.running():
                took = await world.until(lambda: world.record("j").attempt == 2)
                assert (
                    world.home.get(LEASES, place, FEDQ_NAMESPACE)["spec"]["holderIdentity"]
                    == FENCED
                )
                await world.until(lambda: world.phase(place) == "Lost", 5)
        finally:
            await stop([agents])

        assert 55 <= took <= 75
        assert shown["since"] < world.shown(place)["since"]  # it is Lost now
        assert world.shown(place)["epoch"] == 2

    virtually(main)


@pytest.mark.parametrize("silent", ["a", "b"])
def test_one_of_two(silent: str) -> None:
    """It is given up; the other one goes on."""

    async def story(world: Lives, manager: Manager) -> None:
        world.lose(silent)
        await world.until(lambda: world.phase(silent) == "Lost")

        assert await world.run("j") != silent

    play(story, "a", "b")


def test_a_cluster_is_taken_out_of_a_multikueueconfig() -> None:
    """Alone that moves nothing: what runs there ends there, new jobs go elsewhere."""

    async def main(loop: VirtualLoop) -> None:
        world = Lives("a", "b", admissionChecksStrategy={"admissionChecks": [{"name": "m"}]})
        config = custom("MultiKueueConfig", "all", {"clusters": ["a", "b"]})
        world.home.create(MULTIKUEUE_CONFIGS, config)
        named = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        spec = {"controllerName": Controller.MULTIKUEUE.value, "parameters": named}
        world.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", "m", spec))
        async with world.alive():
            place = await world.run("j")
            other = "b" if place == "a" else "a"
            world.home.merge(MULTIKUEUE_CONFIGS, "all", {"spec": {"clusters": [other]}})
            assert await world.run("k") == other
            await asyncio.sleep(400)
            world.workers[place].end("j")
            await world.until(lambda: world.record("j").finished, 20)

            assert world.record("j").attempt == 1
            assert world.shown(place)["epoch"] == 1

    virtually(main)


def test_a_multikueueconfig_gets_another_cluster() -> None:
    """What waits is offered there within a second."""

    async def main(loop: VirtualLoop) -> None:
        world = Lives("a", "b", admissionChecksStrategy={"admissionChecks": [{"name": "m"}]})
        world.home.create(
            MULTIKUEUE_CONFIGS, custom("MultiKueueConfig", "all", {"clusters": ["a"]})
        )
        named = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        spec = {"controllerName": Controller.MULTIKUEUE.value, "parameters": named}
        world.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", "m", spec))
        world.report("a", 0)
        async with world.alive():
            world.submit("j")
            await asyncio.sleep(30)  # virtual time
            assert world.copy("j") is None
            world.home.merge(MULTIKUEUE_CONFIGS, "all", {"spec": {"clusters": ["a", "b"]}})
            assert await world.until(lambda: world.copy("j"), 10) <= 1.0

    virtually(main)


def test_all_clusters_are_away_and_one_is_back() -> None:
    """All that was submitted meanwhile is offered to it within a second of its being well."""

    async def story(world: Lives, manager: Manager) -> None:
        for name in ("a", "b"):
            world.lose(name)
        await world.until(lambda: {world.phase(n) for n in "ab"} == {"Suspect"})
        for number in range(4):
            world.submit(f"j{number}")
        await asyncio.sleep(20)  # virtual time
        world.heal("b")
        await world.until(lambda: world.phase("b") == "Ready")
        await world.until(lambda: all(world.copy(f"j{number}") for number in range(4)), 1)

    play(story, "a", "b")


def test_deleted_while_its_cluster_was_away() -> None:
    """The copy goes when the cluster is back; those of others stay."""

    async def story(world: Lives, manager: Manager) -> None:
        await world.run("j")
        await world.run("k")
        world.workers["a"].fake.cut()
        await world.until(lambda: world.phase("a") == "Unusable", 60)
        world.home.delete(JOBS, "j", "team")
        await asyncio.sleep(60)  # virtual time
        assert ("team", "j") in left(world, "a")
        world.workers["a"].fake.heal()
        await world.until(lambda: ("team", "j") not in left(world, "a"), 30)
        assert ("team", "k") in left(world, "a")
        assert world.record("k").attempt == 1

    play(story, "a")
