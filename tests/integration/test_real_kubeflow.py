"""Kubeflow's kinds with their own operators, webhooks and CRDs, on management and worker cluster
alike: the training operator's, and MPIJob of the MPI operator.

Skipped where these were not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from federation.api.names import Label
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, WORKLOADS, Resource, resource_of
from fedq.rig.operators import MPI, TRAINING
from fedq.stack import Stack
from tests.integration.kind_objects import create, gone, of, row, until
from tests.integration.real_rigs import LABEL, WORKER, Place, places, real_rig
from tests.integration.test_kinds import condition

Json = dict[str, Any]
SERVICES = Resource("", "v1", "services")
OF_JOB = "training.kubeflow.org/job-name"
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own, as CRDs that take anything are on that of the session."""
    with real_rig("kubeflow", (TRAINING, MPI), tmp_path_factory) as stack:
        yield stack


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    async with places(real, f"kubeflow-{uuid.uuid4().hex[:6]}") as found:
        yield found


@dataclass(frozen=True)
class Kind:
    """A kind: where its replicas are described, what its container has to be called, how many."""

    kind: str
    field: str
    container: str
    roles: tuple[tuple[str, int], ...]
    heeds: bool = True
    """Whether its operator lets alone what somebody else manages."""

    @property
    def resource(self) -> Resource:
        return resource_of(row(self.kind))

    @property
    def pods(self) -> int:
        return sum(count for _, count in self.roles)

    def body(self, team: str, name: str = "train", *, seconds: float = 3, **notes: str) -> Json:
        """An object whose pods run so long."""
        spec: Json = {"runPolicy": {}}
        spec[self.field] = {role: self._replicas(n, seconds, notes) for role, n in self.roles}
        return of(row(self.kind), name, team, spec)

    def _replicas(self, count: int, seconds: float, notes: dict[str, str]) -> Json:
        container = {
            "name": self.container,
            "image": "example.invalid/none",
            "resources": {"requests": {"cpu": "1"}},
        }
        given = {f"fedq.io/{name.replace('_', '-')}": text for name, text in notes.items()}
        annotations = {"fedq.io/run-seconds": str(seconds), **given}
        pods = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
        return {"replicas": count, "restartPolicy": "Never", "template": pods}


PYTORCH = Kind("PyTorchJob", "pytorchReplicaSpecs", "pytorch", (("Master", 1), ("Worker", 2)))
MPIJOB = Kind("MPIJob", "mpiReplicaSpecs", "mpi", (("Launcher", 1), ("Worker", 2)))
KINDS = (
    PYTORCH,
    Kind("TFJob", "tfReplicaSpecs", "tensorflow", (("Chief", 1), ("PS", 1), ("Worker", 2))),
    Kind("XGBoostJob", "xgbReplicaSpecs", "xgboost", (("Master", 1), ("Worker", 2))),
    Kind("PaddleJob", "paddleReplicaSpecs", "paddle", (("Master", 1), ("Worker", 2))),
    Kind("JAXJob", "jaxReplicaSpecs", "jax", (("Worker", 3),), heeds=False),
    MPIJOB,
)
each = pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.kind)
both = pytest.mark.parametrize("kind", [PYTORCH, MPIJOB], ids=lambda one: one.kind)


async def pods(client: KubeClient, place: Place, name: str = "train") -> list[Json]:
    found = await client.list(PODS, place.name, label_selector=f"{OF_JOB}={name}")
    return list(found.items)


def policy(obj: Json) -> Json:
    return dict(obj["spec"]["runPolicy"])


@each
async def test_one_runs_on_a_worker_and_comes_back(place: Place, kind: Kind) -> None:
    """Its operator makes its pods on the worker and none at home; its words come back."""
    made = await create(place.home, kind.resource, kind.body(place.name, seconds=4))
    given = {"managedBy": "kueue.x-k8s.io/multikueue"} if kind.heeds else {}
    assert policy(made) == {"suspend": True, **given}
    await until(place.worker, kind.resource, place.key, condition("Running"))
    running = await pods(place.worker, place)
    assert len(running) == kind.pods
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in running)

    if kind.heeds:
        shown = await until(place.home, kind.resource, place.key, condition("Running"))
        assert policy(shown)["suspend"] is False
    done = await until(place.home, kind.resource, place.key, condition("Succeeded"))
    assert kind.heeds or policy(done)["suspend"]
    ended = await place.finished("Succeeded")
    assert not condition("Evicted")(ended)
    await place.nothing_at_home(PODS, SERVICES)
    await gone(place.worker, kind.resource, place.key)
    await place.home.delete(kind.resource, "train", place.name)


@each
async def test_one_that_fails(place: Place, kind: Kind) -> None:
    """It says so, and is not tried again."""
    body = kind.body(place.name, seconds=1, exit_code="1")
    body["spec"]["runPolicy"]["backoffLimit"] = 0
    await create(place.home, kind.resource, body)
    await until(place.home, kind.resource, place.key, condition("Failed"))
    await place.finished("Failed")
    await gone(place.worker, kind.resource, place.key)


@both
async def test_one_that_is_held_leaves_nothing_behind_and_runs_again(
    place: Place, kind: Kind
) -> None:
    """Its quota is free when its pods are gone. Released it runs anew; deleted it goes."""
    await create(place.home, kind.resource, kind.body(place.name, seconds=600, stop_seconds="2"))
    await until(place.home, kind.resource, place.key, condition("Running"))
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]

    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []
    home = await until(place.home, kind.resource, place.key, lambda o: policy(o)["suspend"] is True)
    assert not condition("Running")(home)

    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    again = await place.workload(
        lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2
    )
    assert again["status"]["clusterName"] == WORKER
    await until(place.home, kind.resource, place.key, condition("Running"))
    await place.nothing_at_home(PODS, SERVICES)
    await place.home.delete(kind.resource, "train", place.name)
    await gone(place.worker, kind.resource, place.key)
    assert await pods(place.worker, place) == []
    await gone(place.home, WORKLOADS, (place.name, name))


@both
async def test_one_of_the_worker_is_preempted_and_returns(place: Place, kind: Kind) -> None:
    """The agent suspends it: its pods go, its templates are as they were; it is started again."""

    def selectors(obj: Json) -> list[Json]:
        return [
            replicas["template"]["spec"].get("nodeSelector", {})
            for replicas in obj["spec"][kind.field].values()
        ]

    def stopped(obj: Json) -> bool:
        return bool(policy(obj)["suspend"]) and selectors(obj) == [{}, {}]

    body = kind.body(place.name, seconds=600)
    body["spec"][kind.field]["Worker"]["replicas"] = 5
    await create(place.worker, kind.resource, body)
    running = await until(place.worker, kind.resource, place.key, condition("Running"))
    assert selectors(running) == [LABEL, LABEL]
    urgent = kind.body(place.name, "urgent", seconds=4)
    urgent["metadata"]["labels"][Label.PRIORITY_CLASS.value] = "urgent"
    await create(place.worker, kind.resource, urgent)

    await until(place.worker, kind.resource, place.key, stopped)
    await until(place.worker, kind.resource, (place.name, "urgent"), condition("Running"))
    assert await pods(place.worker, place) == []
    await until(place.worker, kind.resource, (place.name, "urgent"), condition("Succeeded"))
    again = await until(
        place.worker,
        kind.resource,
        place.key,
        lambda o: condition("Running")(o) and not policy(o)["suspend"],
    )
    assert selectors(again) == [LABEL, LABEL]
    assert len(await pods(place.worker, place)) == 6
