"""Jobs with cards: offered where they fit, counted from the decision on, given back if it falls."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api import record as records
from federation.api.names import ConditionType
from federation.api.report_placement import placement_to_wire
from federation.core.devices.fleet.types import Room
from federation.edge.resources import JOBS, WORKER_REPORTS
from federation.jobs import batch_job
from tests.unit.core.devices.fleets import host
from tests.unit.core.devices.reports import LIMIT, buckets_of
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import job

GPU = "nvidia.com/gpu"
ROOM = Room({"cpu": 8000, "pods": 20})


class Cards(Federation):
    """Each worker has one node of so many cards with 40960 MiB."""

    def __init__(self, cards: int, *names: str) -> None:
        self.cards = cards
        quota = {"name": GPU, "nominalQuota": 99}
        group = {"coveredResources": [GPU], "flavors": [{"name": "f", "resources": [quota]}]}
        super().__init__(*names, resourceGroups=[group])

    def report(self, name: str, available: int = 4, used: int = 0) -> None:
        super().report(name, available)
        report = self.workers[name].fake.items(WORKER_REPORTS)[0]
        amounts = {"nominal": "99", "used": "0", "available": "99"}
        (queue,) = report["status"]["clusterQueues"]
        queue["resources"] = [{"flavor": "f", "resource": GPU, **amounts}]
        use = host("h", self.cards, {0: (1, used, 0)} if used else None)
        made = buckets_of([(use, ROOM)]).classes(LIMIT)
        status = {"clusterQueues": [queue], "placement": placement_to_wire(made)}
        self.workers[name].fake.merge(WORKER_REPORTS, name, {"status": status}, status=True)

    def ask(self, name: str, pods: int = 1, mib: int = 30_000) -> str:
        body = job(name, 0)
        body["spec"] |= {"parallelism": pods, "completions": pods}
        limits = {GPU: "1", "nvidia.com/gpumem": str(mib)}
        container = body["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": limits}
        body["spec"]["managedBy"] = batch_job.MANAGED_BY
        return str(self.home.create(JOBS, body)["metadata"]["uid"])

    def why(self, name: str) -> str:
        record = self.record(name)
        found = records.find(record.status, ConditionType.QUOTA_RESERVED) if record else None
        return str((found or {}).get("message", ""))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manager.dispatcher.EXPLAIN_S", 0.01)


async def placed(world: Cards, name: str) -> str:
    await world.offered(name)
    found: Any = world.copy(name)
    return str(found[0])


async def test_offers_count_at_once_and_what_fits_nowhere_says_why() -> None:
    world = Cards(1, "a", "b")
    async with world.running():
        for name in ("x", "y"):
            world.ask(name)
        assert {await placed(world, "x"), await placed(world, "y")} == {"a", "b"}
        world.ask("z")
        text = "largest free slice 10,960 MiB"
        await until(lambda: world.why("z").count(text) == 2, "told")
        assert world.copy("z") is None


async def test_a_gang_stays_together() -> None:
    world = Cards(2, "a", "b")
    async with world.running():
        world.ask("one")
        first = await placed(world, "one")
        world.ask("gang", pods=2)
        assert {first, await placed(world, "gang")} == {"a", "b"}


async def test_a_job_deleted_while_it_is_decided_on_gives_its_cards_back() -> None:
    world = Cards(1, "a")
    async with world.running() as manager:
        await until(lambda: manager.dispatcher.fills == 1)
        uid = ""

        def delete(name: str) -> None:
            if name == "claim" and uid in manager.controller.states:
                world.index.before = lambda name: None
                manager.controller.job_deleted(world.local("j"))

        world.index.before = delete
        uid = world.ask("j")
        await until(lambda: world.index.before is not delete, "claimed")
        world.ask("k")
        assert await placed(world, "k") == "a"
        assert world.copy("j") is None


async def test_an_index_that_is_lost_gives_cards_back() -> None:
    world = Cards(1, "a")
    left = 2

    def lose(name: str) -> None:
        nonlocal left
        if name == "claim" and left and world.manager.scheduler.items:
            left -= 1
            world.index.lost = True

    world.index.before = lose
    async with world.running():
        world.ask("j")
        assert await placed(world, "j") == "a"
        assert left == 0


@pytest.mark.parametrize("used", [1000, 20_000])
async def test_a_report_that_comes_between_choice_and_offer(used: int) -> None:
    """The host that was chosen is told of no more; what was chosen counts all the same."""
    world = Cards(2, "a")
    async with world.running() as manager:
        await until(lambda: manager.dispatcher.fills == 1)

        def tell(name: str) -> None:
            if name == "claim" and manager.scheduler.items:
                world.index.before = lambda name: None
                world.report("a", used=used)
                found = world.workers["a"].fake.items(WORKER_REPORTS)[0]
                manager.clusters.links["a"].ledger.report(found)

        world.index.before = tell
        world.ask("j")
        assert await placed(world, "j") == "a"
        assert world.index.before is not tell
        world.ask("k")
        if used == 1000:
            assert await placed(world, "k") == "a"
        else:
            await until(lambda: "largest free slice 20,960 MiB" in world.why("k"), "told")
