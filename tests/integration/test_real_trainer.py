"""TrainJob with Kubeflow's trainer, which makes JobSets, and JobSet's own controller, on management
and worker cluster alike.

Skipped where these were not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from federation.api.names import Label
from federation.edge.resources import PODS, WORKLOADS, resource_of
from fedq.rig import controllers
from fedq.rig.operators import JOBSET, TRAINER
from fedq.stack import Stack
from tests.integration.kind_objects import create, gone, of, row, until
from tests.integration.real_rigs import LABEL, WORKER, Place, places, pods, real_rig
from tests.integration.test_kinds import condition

Json = dict[str, Any]
TRAIN_JOBS = resource_of(row("TrainJob"))
RUNTIME = "base/runtimes/torch_distributed.yaml"
_LIMIT = "/spec/template/spec/replicatedJobs/0/template/spec/backoffLimit"
AT_ONCE = (
    "clustertrainingruntime",
    "torch-distributed",
    "--type=json",
    "-p",
    json.dumps([{"op": "add", "path": _LIMIT, "value": 0}]),
)
"""Its Jobs have failed when a pod has, not after minutes."""
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own, with the trainer's runtime for PyTorch on both clusters."""
    with real_rig("trainer", (JOBSET, TRAINER), tmp_path_factory) as stack:
        for cluster in stack.rig.clusters:
            file = str(controllers.manifests(TRAINER) / RUNTIME)
            stack.rig.kubectl(cluster, "apply", "--server-side", "-f", file)
            stack.rig.kubectl(cluster, "patch", *AT_ONCE)
        yield stack


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    async with places(real, f"trainer-{uuid.uuid4().hex[:6]}") as found:
        yield found


def train_job(place: Place, name: str = "train", *, nodes: int = 3, **notes: str) -> Json:
    """A job of so many pods, with notes for these in a patch of its own runtime."""
    given = {f"fedq.io/{name.replace('_', '-')}": text for name, text in notes.items()}
    pods = {"template": {"spec": {"template": {"metadata": {"annotations": given}}}}}
    jobs = {"template": {"spec": {"replicatedJobs": [{"name": "node", **pods}]}}}
    spec = {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {
            "image": "example.invalid/none",
            "numNodes": nodes,
            "resourcesPerNode": {"requests": {"cpu": "1"}},
        },
        "runtimePatches": [{"manager": "example.com/team", "trainingRuntimeSpec": jobs}],
    }
    return of(row("TrainJob"), name, place.name, spec)


async def no_pods(place: Place) -> None:
    """Wait until its pods are gone: of a TrainJob that may be later than it is, and its Job makes
    others until it goes.
    """
    while there := await pods(place.worker, place):
        for pod in there:
            await gone(place.worker, PODS, (place.name, pod["metadata"]["name"]))


def managers(obj: Json) -> list[str]:
    return [patch["manager"] for patch in obj["spec"].get("runtimePatches") or ()]


def ready(obj: Json) -> bool:
    told = (obj.get("status") or {}).get("jobsStatus") or ()
    return sum(one.get("ready", 0) for one in told) == 1


async def test_one_runs_on_a_worker_and_comes_back(place: Place) -> None:
    """The trainer makes its JobSet on the worker and none at home; its words come back."""
    made = await create(place.home, TRAIN_JOBS, train_job(place, run_seconds="4"))
    assert made["spec"]["suspend"] is True
    copy = await until(place.worker, TRAIN_JOBS, place.key, ready)
    assert managers(copy) == ["example.com/team", "kueue.x-k8s.io/manager"]
    running = await pods(place.worker, place)
    assert len(running) == 3
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in running)
    shown = await until(place.home, TRAIN_JOBS, place.key, condition("Complete"))
    assert shown["spec"]["suspend"] is True
    assert managers(shown) == ["example.com/team"]
    ended = await place.finished("Succeeded")
    assert not condition("Evicted")(ended)
    await place.nothing_at_home(PODS)  # a JobSet is made there, suspended
    await gone(place.worker, TRAIN_JOBS, place.key)


async def test_one_that_fails(place: Place) -> None:
    """It says so, and is not tried again."""
    body = train_job(place, run_seconds="1", exit_code="1")
    await create(place.home, TRAIN_JOBS, body)
    await until(place.home, TRAIN_JOBS, place.key, condition("Failed"))
    await place.finished("Failed")


async def test_one_that_is_held_leaves_nothing_behind_and_runs_again(place: Place) -> None:
    """Its copy and its pods go before its quota is free, also those of a JobSet that the trainer
    has made anew meanwhile. Released it runs anew; deleted it goes.
    """
    await create(place.home, TRAIN_JOBS, train_job(place, run_seconds="600", stop_seconds="2"))
    await until(place.worker, TRAIN_JOBS, place.key, ready)
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]
    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    left = await place.worker.list(PODS, place.name)
    assert {pod["status"]["phase"] for pod in left.items} <= {"Succeeded", "Failed"}

    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    again = await place.workload(
        lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2
    )
    assert again["status"]["clusterName"] == WORKER
    await until(place.worker, TRAIN_JOBS, place.key, ready)
    await place.nothing_at_home(PODS)
    await place.home.delete(TRAIN_JOBS, "train", place.name)
    await gone(place.worker, TRAIN_JOBS, place.key)
    await no_pods(place)
    await gone(place.home, WORKLOADS, (place.name, name))


async def test_one_of_the_worker_is_preempted_and_returns(place: Place) -> None:
    """The agent suspends it and takes its patch away: its pods go; it is started again."""
    await create(place.worker, TRAIN_JOBS, train_job(place, nodes=6, run_seconds="600"))
    running = await until(place.worker, TRAIN_JOBS, place.key, ready)
    assert managers(running) == ["example.com/team", "kueue.x-k8s.io/manager"]
    urgent = train_job(place, "urgent", run_seconds="4")
    urgent["metadata"]["labels"][Label.PRIORITY_CLASS.value] = "urgent"
    await create(place.worker, TRAIN_JOBS, urgent)

    def stopped(obj: Json) -> bool:
        return bool(obj["spec"]["suspend"]) and managers(obj) == ["example.com/team"]

    await until(place.worker, TRAIN_JOBS, place.key, stopped)
    await until(place.worker, TRAIN_JOBS, (place.name, "urgent"), ready)
    assert len(await pods(place.worker, place)) == 3
    await until(place.worker, TRAIN_JOBS, (place.name, "urgent"), condition("Complete"))
    await until(
        place.worker,
        TRAIN_JOBS,
        place.key,
        lambda o: ready(o) and not o["spec"]["suspend"],
    )
