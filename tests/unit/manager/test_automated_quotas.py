"""quotaManagement Automated, with the whole manager: the quota follows what clusters report."""

from __future__ import annotations

import asyncio
from typing import Any

from federation.api.names import ConditionType, Controller
from federation.api.record import find
from federation.core.types import FlavorResource
from federation.edge.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CONFIGS
from tests.unit.manager.test_clusters import Lives
from tests.unit.manager.virtual import virtually
from tests.unit.worker_agent.support import custom

GPU = FlavorResource("f", "gpu")
CONDITION = ConditionType.MULTIKUEUE_MANAGER_QUOTA_AUTOMATION


def world_of(management: str) -> Lives:
    """Two clusters of 4 cards each; the ClusterQueue itself names 1."""
    world = Lives("a", "b", quota=1, admissionChecksStrategy={"admissionChecks": [{"name": "m"}]})
    spec = {"clusters": ["a", "b"], "quotaManagement": management}
    world.home.create(MULTIKUEUE_CONFIGS, custom("MultiKueueConfig", "all", spec))
    named = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    check = {"controllerName": Controller.MULTIKUEUE.value, "parameters": named}
    world.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", "m", check))
    return world


def nominal(world: Lives) -> int:
    """The quota that the scheduler goes by."""
    return world.manager.scheduler.snapshot.tree.queues["cq"].quotas[GPU].nominal


def told(world: Lives) -> str:
    """What the status says of it; '' if nothing."""
    found = find(world.home.get(CLUSTER_QUEUES, "cq").get("status") or {}, CONDITION)
    return str(found["message"]) if found else ""


def test_the_sum_of_what_clusters_report() -> None:
    async def main(loop: Any) -> None:
        world = world_of("Automated")
        async with world.alive():
            await world.until(lambda: nominal(world) == 8, 10)
            await world.until(lambda: told(world) == "gpu in f: 8 (a 4, b 4)", 10)
            world.report("a", 6, 6)
            await world.until(lambda: nominal(world) == 10, 10)
            assert world.home.get(CLUSTER_QUEUES, "cq")["spec"]["resourceGroups"][0]["flavors"]

    virtually(main)


def test_a_cluster_that_is_away_counts_with_what_is_bound_there() -> None:
    """Nothing is evicted by that."""

    async def main(loop: Any) -> None:
        world = world_of("Automated")
        async with world.alive():
            await world.until(lambda: nominal(world) == 8, 10)
            place = await world.run("j")
            world.lose(place)
            await world.until(lambda: world.phase(place) == "Suspect", 100)
            await world.until(lambda: nominal(world) == 5, 10)
            await asyncio.sleep(10)  # virtual time
            assert "only what is bound counts" in told(world)
            assert not world.record("j").life.evicted

    virtually(main)


def test_a_manual_quota_is_its_own() -> None:
    async def main(loop: Any) -> None:
        world = world_of("Manual")
        async with world.alive():
            await asyncio.sleep(10)  # virtual time
            assert (nominal(world), told(world)) == (1, "")

    virtually(main)


def test_it_is_switched_on_and_off() -> None:
    """The ClusterQueue's own quota counts again, and that is told."""

    async def main(loop: Any) -> None:
        world = world_of("Manual")
        async with world.alive():
            switch = {"spec": {"quotaManagement": "Automated"}}
            world.home.merge(MULTIKUEUE_CONFIGS, "all", switch)
            await world.until(lambda: nominal(world) == 8, 10)
            await world.until(lambda: told(world), 10)
            world.home.merge(MULTIKUEUE_CONFIGS, "all", {"spec": {"quotaManagement": "Manual"}})
            await world.until(lambda: nominal(world) == 1, 10)
            await world.until(lambda: told(world) == "the quota of the ClusterQueue counts", 10)

    virtually(main)
