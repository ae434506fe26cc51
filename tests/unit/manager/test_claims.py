"""Jobs with claims on the management cluster, where there are templates but no devices."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.policies import Policies
from federation.edge import resources as r
from federation.jobs import batch_job
from tests.unit.jobs.claim_build import device_class, template
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import job
from tests.unit.worker_agent.test_claims import DRA, capacity, claiming, configuration

Json = dict[str, Any]
BY_NUMBER = {"name": "gpu", "deviceClassNames": ["hami-gpu"]}


def federation(*mappings: Json, quota: int = 8) -> Federation:
    policies: Policies = configuration(*mappings)
    world = Federation("a", quota=quota, policies=policies)
    world.home.resources += DRA
    world.home.create(r.DEVICE_CLASSES, device_class())
    return world


def submit(world: Federation, name: str, *templates: str) -> None:
    body = claiming(job(name), *templates)
    body["spec"]["managedBy"] = batch_job.MANAGED_BY
    world.home.create(r.JOBS, body)


def add_template(world: Federation, name: str, count: int, **amounts: str) -> None:
    world.home.create(r.RESOURCE_CLAIM_TEMPLATES, template(name, count, "team", **amounts))


def waits(world: Federation, name: str) -> str:
    for state in world.manager.controller.states.values():
        if state.local is not None and state.local.key.name == name:
            return state.local.problem or " ".join(state.waits)
    return ""


def used(world: Federation) -> int:
    return sum(world.manager.scheduler.snapshot.tree.usage("cq").values())


async def test_the_claims_of_a_job_are_charged_and_the_copy_claims_the_same() -> None:
    world = federation(BY_NUMBER)
    add_template(world, "pair", 2)
    async with world.running():
        submit(world, "j", "pair")
        worker = await world.offered()
        assert used(world) == 2
        claims = worker.get("j")["spec"]["template"]["spec"]["resourceClaims"]
        assert claims == [{"name": "c0", "resourceClaimTemplateName": "pair"}]


@pytest.mark.parametrize("kept", [5000, 0], ids=["in memory", "let go from memory"])
async def test_a_template_that_is_missing_and_then_made_anew(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Job is read again each time, and queued as it is then."""
    monkeypatch.setattr("manager.controller.BODIES_KEPT", kept)
    world = federation(BY_NUMBER, quota=3)
    async with world.running():
        submit(world, "j", "cards")
        await until(lambda: "ResourceClaimTemplate cards: it does not exist" in waits(world, "j"))
        add_template(world, "cards", 4)
        await until(lambda: "insufficient quota for gpu" in waits(world, "j"), "too many")
        world.home.delete(r.RESOURCE_CLAIM_TEMPLATES, "cards", "team")
        await until(lambda: "it does not exist" in waits(world, "j"), "missing again")
        add_template(world, "cards", 3)
        await world.offered()
        assert used(world) == 3


async def test_capacity_is_charged_as_it_is_asked_for() -> None:
    """Devices are on the workers: what a claim does not say cannot be known here."""
    world = federation(capacity("memory", "gpu"))
    add_template(world, "four", 2, memory="2")
    add_template(world, "open", 1)
    async with world.running():
        submit(world, "open", "open")
        await until(lambda: "publishes no devices here" in waits(world, "open"))
        submit(world, "j", "four")
        await world.offered()
        assert used(world) == 4
