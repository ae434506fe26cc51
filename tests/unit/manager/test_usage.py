"""Admission fair sharing in the whole manager: turns, what the status says, restarts, switching."""

from __future__ import annotations

import time
from typing import Any

import pytest

from federation.api.names import Label
from federation.core.policies import FairUsage, Policies
from federation.edge.configuration_file import configured
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    WORKER_REPORTS,
    WORKLOAD_PRIORITY_CLASSES,
)
from federation.jobs import batch_job
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import custom, job

SCOPE = {"admissionMode": "UsageBasedAdmissionFairSharing"}
RULES = FairUsage(half_life_s=300.0, sampling_s=300.0)
"""A penalty is half of what is asked for."""


def federation(rules: FairUsage | None = RULES, **spec: Any) -> Federation:
    """LocalQueues `lq` and `modest` of one ClusterQueue, and a worker that serves both. What goes
    to `lq` is of higher priority.
    """
    world = Federation("a", quota=4, policies=Policies(fair_usage=rules), **spec)
    world.home.create(LOCAL_QUEUES, custom("LocalQueue", "modest", {"clusterQueue": "cq"}, "team"))
    names = [{"namespace": "team", "name": n, "clusterQueue": "cq"} for n in ("lq", "modest")]
    report = {"status": {"localQueues": names}}
    world.home.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 9})
    world.workers["a"].fake.merge(WORKER_REPORTS, "a", report, status=True)
    return world


def submit(world: Federation, *names: str, queue: str = "lq", gpus: int = 1) -> None:
    for name in names:
        body = job(name, gpus, of="high" if queue == "lq" else "")
        body["metadata"]["labels"][Label.QUEUE_NAME.value] = queue
        body["spec"]["managedBy"] = batch_job.MANAGED_BY
        world.home.create(JOBS, body)


def offers(world: Federation) -> list[str]:
    """Names of the jobs that have a copy."""
    return sorted(item["metadata"]["name"] for item in world.workers["a"].fake.items(JOBS))


def initials(world: Federation) -> str:
    """Of those jobs: the first letters."""
    return "".join(name[0] for name in offers(world))


def fair(world: Federation, name: str) -> Any:
    """`status.fairSharing` of a LocalQueue."""
    status = world.home.get(LOCAL_QUEUES, name, "team").get("status") or {}
    return status.get("fairSharing")


def consumed(world: Federation, name: str) -> Any:
    used = (fair(world, name) or {}).get("admissionFairSharingStatus") or {}
    return used.get("consumedResources")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [(RULES, "ggmm"), (None, "gggg")],
)
async def test_a_burst_does_not_take_everything(rules: FairUsage | None, expected: str) -> None:
    """The greedy queue's jobs come first by priority. The scope says nothing without the rules."""
    world = federation(rules, admissionScope=SCOPE)
    submit(world, "g0", "g1", "g2", "g3")
    submit(world, "m0", "m1", "m2", queue="modest")
    async with world.running() as manager:
        await until(lambda: len(offers(world)) == 4, "four offers")
        await until(lambda: len(manager.scheduler.items) == 3, "the others wait")
        assert initials(world) == expected


async def test_a_penalty_becomes_use_when_the_job_is_admitted() -> None:
    """Refused attempts leave nothing behind; what was admitted stands in the status."""
    world = federation(admissionScope=SCOPE)
    async with world.running() as manager:
        await until(lambda: fair(world, "modest"), "the status says what was used")
        assert fair(world, "lq")["weightedShare"] == 0
        submit(world, "g0")
        worker = await world.offered("g0")
        usages = manager.scheduler.turns.usages
        assert usages["team", "lq"] == 0.5
        world.refuse(worker, "g0")
        await until(lambda: usages["team", "lq"] == 0.0, "the penalty goes")

        submit(world, "g1")
        world.start(await world.offered("g1"), "g1")
        await until(lambda: consumed(world, "lq") == {"gpu": "500m"}, "use")
        assert fair(world, "lq")["weightedShare"] == 1
        assert consumed(world, "modest") == {}


async def test_a_restart_goes_on_with_what_the_status_says() -> None:
    """The manager that comes sees greedy's use, although nothing of greedy's runs any more."""
    world = federation(admissionScope=SCOPE)
    async with world.running():
        submit(world, "g0", gpus=4)
        world.start(await world.offered("g0"), "g0")
        await until(lambda: consumed(world, "lq") == {"gpu": "2"}, "use")
        world.workers["a"].end("g0")
        await until(lambda: world.copy("g0") is None, "removed")
        written = fair(world, "lq")
    submit(world, "g1", "g2", "g3", "g4")
    submit(world, "m1", "m2", "m3", queue="modest")
    async with world.running() as manager:
        await until(lambda: len(offers(world)) == 4, "four offers")
        assert initials(world) == "gmmm"
        state = manager.scheduler.turns.state(("team", "lq"))
        assert state is not None
        assert state.consumed == {"gpu": 2.0}
        assert state.sampled_at == pytest.approx(time.time(), abs=60)
        assert (
            written["admissionFairSharingStatus"] == fair(world, "lq")["admissionFairSharingStatus"]
        )


async def test_the_scope_is_switched_on_and_off() -> None:
    """The waiting jobs stay queued, and take turns only in between; so does the status."""
    world = federation()
    async with world.running() as manager:
        submit(world, "g0", "g1", "g2", "g3", "g4", "g5")
        submit(world, "m0", "m1", queue="modest")
        await until(lambda: len(offers(world)) == 4, "four offers")
        await until(lambda: len(manager.scheduler.items) == 4, "the others wait")
        worker = world.workers["a"]
        for name in offers(world):
            world.start(worker, name)
            await until(lambda name=name: world.record(name).admitted, "admitted")
        assert fair(world, "lq") is None

        world.home.merge(CLUSTER_QUEUES, "cq", {"spec": {"admissionScope": SCOPE}})
        await until(lambda: consumed(world, "lq") == {"gpu": "4"}, "greedy's use is measured")
        worker.end(offers(world)[0])
        await until(lambda: initials(world) == "gggm", "modest is first")

        world.home.merge(CLUSTER_QUEUES, "cq", {"spec": {"admissionScope": None}})
        await until(lambda: fair(world, "lq") is None, "the status is taken away")
        worker.end(offers(world)[0])
        await until(lambda: len(manager.scheduler.items) == 2, "another one")
        await until(lambda: initials(world) == "gggm", "the highest priority is first")


def test_the_configuration_is_read(tmp_path: Any) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "admissionFairSharing:\n  usageHalfLifeTime: 1h\n  usageSamplingInterval: 1m\n"
        "  resourceWeights: {gpu: 4}\n"
    )
    assert configured(file).fair_usage == FairUsage(3600.0, 60.0, {"gpu": 4.0})
    assert configured(None).fair_usage is None
