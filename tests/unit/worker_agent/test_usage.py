"""Admission fair sharing on a worker: its own Jobs take turns by what their LocalQueues used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federation.api.names import Label
from federation.core.policies import FairUsage, Policies
from federation.edge.configuration_file import configured
from federation.edge.resources import JOBS, LOCAL_QUEUES
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, custom, job

SCOPE = {"admissionMode": "UsageBasedAdmissionFairSharing"}
RULES = FairUsage(half_life_s=300.0, sampling_s=300.0)


class Clock:
    """Seconds since the epoch, as the test says."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def worker(rules: FairUsage | None = RULES, used: str = "") -> Worker:
    """Room for four; LocalQueues `lq`, whose Jobs are of higher priority, and `modest`."""
    made = Worker(4, admissionScope=SCOPE)
    made.settings = replace(made.settings, policies=Policies(fair_usage=rules), clock=Clock())
    made.class_of("high", 9)
    made.fake.create(LOCAL_QUEUES, custom("LocalQueue", "modest", {"clusterQueue": "cq"}, "team"))
    if used:
        share = {"consumedResources": {"gpu": used}, "lastUpdate": "2027-01-15T08:00:00Z"}
        status = {"fairSharing": {"admissionFairSharingStatus": share}}
        made.fake.merge(LOCAL_QUEUES, "lq", {"status": status}, "team", status=True)
    return made


def add(worker: Worker, *names: str, queue: str = "lq") -> None:
    for name in names:
        body = job(name, of="high" if queue == "lq" else "")
        body["metadata"]["labels"][Label.QUEUE_NAME.value] = queue
        worker.add(body)


def started(worker: Worker) -> str:
    """First letters of the Jobs that run."""
    names = sorted(item["metadata"]["name"] for item in worker.fake.items(JOBS))
    return "".join(name[0] for name in names if worker.started(name))


@pytest.mark.parametrize(
    ("rules", "used", "expected"),
    [(RULES, "", "ggmm"), (RULES, "2", "gmmm"), (None, "2", "gggg")],
    ids=["penalties alone", "past use in the status", "without the rules"],
)
async def test_local_jobs_take_turns(rules: FairUsage | None, used: str, expected: str) -> None:
    made = worker(rules, used)
    add(made, "g0", "g1", "g2", "g3")
    add(made, "m0", "m1", "m2", queue="modest")
    async with made.running():
        await until(lambda: len(started(made)) == 4, "four run")
        await made.at_rest()
        assert started(made) == expected


async def test_what_runs_is_measured_as_time_passes() -> None:
    made = worker()
    clock: Any = made.settings.clock
    async with made.running() as agent:
        add(made, "g0", "g1")
        await until(lambda: started(made) == "gg", "they run")
        await made.at_rest()
        usages = agent.scheduler.turns.usages
        assert usages == {("team", "lq"): 1.0, ("team", "modest"): 0.0}
        clock.now += 300.0
        agent.quotas_changed()  # the loop sleeps by the real time
        await until(lambda: usages["team", "lq"] == 1.5, "half of the past, half of two")


def test_the_configuration_is_read(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "admissionFairSharing:\n  usageHalfLifeTime: 1h\n  usageSamplingInterval: 1m\n"
    )
    assert configured(file).fair_usage == FairUsage(3600.0, 60.0)
    assert configured(None).fair_usage is None
