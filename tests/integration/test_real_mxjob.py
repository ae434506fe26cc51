"""MXJob with the last of Kubeflow's training operators that knows it, and its CRD, on management
and worker cluster alike. It heeds no managedBy.

Skipped where it was not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from federation.edge.resources import PODS, WORKLOADS
from fedq.rig.operators import MXJOB
from fedq.stack import Stack
from tests.integration.kind_objects import create, gone, until
from tests.integration.real_rigs import LABEL, WORKER, Place, places, real_rig
from tests.integration.test_kinds import condition
from tests.integration.test_real_kubeflow import SERVICES, Kind, pods, policy

Json = dict[str, Any]
MX = Kind(
    "MXJob",
    "mxReplicaSpecs",
    "mxnet",
    (("Scheduler", 1), ("Server", 1), ("Worker", 2)),
    heeds=False,
)
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own: a newer training operator is on that of the other kinds."""
    with real_rig("mxjob", (MXJOB,), tmp_path_factory) as stack:
        yield stack


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    async with places(real, f"mxjob-{uuid.uuid4().hex[:6]}") as found:
        yield found


def body(place: Place, *, seconds: float, **notes: str) -> Json:
    """A job whose pods run so long."""
    made = MX.body(place.name, seconds=seconds, **notes)
    made["spec"]["jobMode"] = "MXTrain"
    return made


async def test_one_runs_on_a_worker_and_its_end_comes_back(place: Place) -> None:
    """At home it stays suspended, and its operator there makes nothing of it."""
    made = await create(place.home, MX.resource, body(place, seconds=4))
    assert policy(made) == {"suspend": True}
    await until(place.worker, MX.resource, place.key, condition("Running"))
    running = await pods(place.worker, place)
    assert len(running) == MX.pods
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in running)
    done = await until(place.home, MX.resource, place.key, condition("Succeeded"))
    assert policy(done)["suspend"]
    ended = await place.finished("Succeeded")
    assert not condition("Evicted")(ended)
    await place.nothing_at_home(PODS, SERVICES)
    await gone(place.worker, MX.resource, place.key)


async def test_one_that_is_held_leaves_nothing_behind_and_runs_again(place: Place) -> None:
    """Its quota is free when its pods are gone. Released it runs anew; deleted it goes."""
    await create(place.home, MX.resource, body(place, seconds=600, stop_seconds="2"))
    await until(place.worker, MX.resource, place.key, condition("Running"))
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]
    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []

    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    again = await place.workload(
        lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2
    )
    assert again["status"]["clusterName"] == WORKER
    await until(place.worker, MX.resource, place.key, condition("Running"))
    await place.nothing_at_home(PODS, SERVICES)
    await place.home.delete(MX.resource, "train", place.name)
    await gone(place.worker, MX.resource, place.key)
    assert await pods(place.worker, place) == []
    await gone(place.home, WORKLOADS, (place.name, name))
