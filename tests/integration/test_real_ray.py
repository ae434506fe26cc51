"""Ray's kinds with KubeRay and its CRDs, on management and worker cluster alike. What Ray itself
would say of jobs and applications comes from a stand-in for its dashboards: no container runs here.

Skipped where KubeRay was not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from federation.api.names import Label
from federation.edge.resources import JOBS, PODS, WORKLOADS, resource_of
from fedq.rig.operators import KUBERAY
from fedq.stack import Stack
from tests.integration.kind_objects import create, gone, of, row, template, until
from tests.integration.ray_dashboard import Dashboard, dashboards
from tests.integration.real_rigs import LABEL, WORKER, Place, places, pods, real_rig
from tests.integration.test_kinds import condition

Json = dict[str, Any]
CLUSTERS, RAY_JOBS = resource_of(row("RayCluster")), resource_of(row("RayJob"))
SERVICES = resource_of(row("RayService"))
OF_CLUSTER = "ray.io/cluster"
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def ray() -> Iterator[tuple[Dashboard, str]]:
    with dashboards() as found:
        yield found


@pytest.fixture(scope="module")
def real(ray: tuple[Dashboard, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own, as CRDs that take anything are on that of the session."""
    env = {"HTTP_PROXY": ray[1]}
    with real_rig("ray", (KUBERAY,), tmp_path_factory, env) as stack:
        yield stack


@pytest.fixture
def dashboard(ray: tuple[Dashboard, str]) -> Dashboard:
    return ray[0]


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    async with places(real, f"ray-{uuid.uuid4().hex[:6]}") as found:
        yield found


def pods_of(seconds: float = 600, **notes: str) -> Json:
    """A template whose pod stays, as those of Ray do, until it is deleted."""
    body = template()
    body["spec"]["restartPolicy"] = "Always"
    given = {f"fedq.io/{name.replace('_', '-')}": text for name, text in notes.items()}
    body["metadata"] = {"annotations": {"fedq.io/run-seconds": str(seconds), **given}}
    return body


def cluster(workers: int = 2, **notes: str) -> Json:
    """The spec of a head and so many workers."""
    group = {"groupName": "small", "minReplicas": 0, "maxReplicas": 9, "replicas": workers}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": pods_of(**notes)},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": pods_of(**notes)}],
    }


def job(place: Place, *, seconds: float = 2, **notes: str) -> Json:
    """A RayJob whose submitter takes so long."""
    submitter = template()
    submitter["metadata"] = {"annotations": {"fedq.io/run-seconds": str(seconds)}}
    spec = {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster(**notes),
        "submitterPodTemplate": submitter,
    }
    return of(row("RayJob"), "train", place.name, spec)


def state(wanted: str) -> Any:
    return lambda obj: (obj.get("status") or {}).get("state") == wanted


def selectors(obj: Json) -> list[Json]:
    groups = [obj["spec"]["headGroupSpec"], *obj["spec"]["workerGroupSpecs"]]
    return [group["template"]["spec"].get("nodeSelector", {}) for group in groups]


async def test_a_cluster_runs_on_a_worker_as_a_whole(place: Place) -> None:
    """KubeRay makes its pods on the worker and none at home. Held its quota is free when its pods
    are gone; released it runs anew; deleted it leaves none.
    """
    body = of(row("RayCluster"), "train", place.name, cluster(stop_seconds="2"))
    made = await create(place.home, CLUSTERS, body)
    spec = made["spec"]
    assert (spec["suspend"], spec["managedBy"]) == (True, "kueue.x-k8s.io/multikueue")
    copy = await until(place.worker, CLUSTERS, place.key, state("ready"))
    assert selectors(copy) == [LABEL, LABEL]
    running = await pods(place.worker, place)
    assert len(running) == 3
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in running)
    shown = await until(place.home, CLUSTERS, place.key, state("ready"))
    assert shown["status"]["readyWorkerReplicas"] == 2
    assert selectors(shown) == [{}, {}]

    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]
    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []
    await until(place.home, CLUSTERS, place.key, lambda o: o["spec"]["suspend"] is True)
    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    again = await place.workload(
        lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2
    )
    assert again["status"]["clusterName"] == WORKER
    await until(place.home, CLUSTERS, place.key, state("ready"))
    await place.nothing_at_home(PODS, JOBS)
    await place.home.delete(CLUSTERS, "train", place.name)
    await gone(place.worker, CLUSTERS, place.key)
    assert await pods(place.worker, place) == []
    await gone(place.home, WORKLOADS, (place.name, name))


async def test_an_elastic_cluster_grows_and_shrinks(place: Place) -> None:
    """KubeRay follows the number of its copy, without a restart of the rest."""
    body = of(row("RayCluster"), "train", place.name, cluster(1))
    body["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    await create(place.home, CLUSTERS, body)
    await until(place.home, CLUSTERS, place.key, state("ready"))
    before = {pod["metadata"]["uid"] for pod in await pods(place.worker, place)}

    for workers in (4, 1):
        patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": workers}]
        await place.home.patch(CLUSTERS, "train", patch, place.name, kind="json")
        await until(
            place.home,
            CLUSTERS,
            place.key,
            lambda o, n=workers: (o.get("status") or {}).get("readyWorkerReplicas") == n,
        )
        counts = {pods["name"]: pods["count"] for pods in await _charged(place, workers)}
        assert counts == {"head": 1, "small": workers}
    assert len(await pods(place.worker, place)) == 2
    heads = [p for p in await pods(place.worker, place) if p["metadata"]["uid"] in before]
    assert any(p["metadata"]["labels"]["ray.io/node-type"] == "head" for p in heads)
    await place.home.delete(CLUSTERS, "train", place.name)
    await gone(place.worker, CLUSTERS, place.key)


async def _charged(place: Place, workers: int) -> list[Json]:
    def small(obj: Json) -> bool:
        given = (obj.get("status") or {}).get("admission") or {}
        told = {one["name"]: one.get("count") for one in given.get("podSetAssignments") or ()}
        return told.get("small") == workers

    found = await place.workload(small)
    return list(found["status"]["admission"]["podSetAssignments"])


async def test_a_cluster_of_the_worker_is_preempted_and_returns(place: Place) -> None:
    """The agent suspends it: its pods go, its templates are as they were; it is started again."""
    await create(place.worker, CLUSTERS, of(row("RayCluster"), "train", place.name, cluster(5)))
    running = await until(place.worker, CLUSTERS, place.key, state("ready"))
    assert selectors(running) == [LABEL, LABEL]
    urgent = of(row("RayCluster"), "urgent", place.name, cluster(2))
    urgent["metadata"]["labels"][Label.PRIORITY_CLASS.value] = "urgent"
    await create(place.worker, CLUSTERS, urgent)

    await until(place.worker, CLUSTERS, place.key, state("suspended"))
    await until(place.worker, CLUSTERS, (place.name, "urgent"), state("ready"))
    stopped = await until(place.worker, CLUSTERS, place.key, lambda o: selectors(o) == [{}, {}])
    assert stopped["spec"]["suspend"] is True
    assert len(await pods(place.worker, place)) == 3
    await place.worker.delete(CLUSTERS, "urgent", place.name)
    again = await until(place.worker, CLUSTERS, place.key, state("ready"))
    assert selectors(again) == [LABEL, LABEL]


async def test_a_job_runs_on_a_worker_and_comes_back(place: Place, dashboard: Dashboard) -> None:
    """Its cluster and its submitter run on the worker, none at home; its end comes back, and its
    cluster goes.
    """
    made = await create(place.home, RAY_JOBS, job(place))
    assert made["spec"]["suspend"] is True
    running = await until(place.home, RAY_JOBS, place.key, deployment("Running"))
    assert running["spec"]["suspend"] is False
    workers = await pods(place.worker, place)
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in workers)
    dashboard.jobs[place.name] = "SUCCEEDED"
    done = await until(place.home, RAY_JOBS, place.key, deployment("Complete"))
    assert done["status"]["jobStatus"] == "SUCCEEDED"
    ended = await place.finished("Succeeded")
    assert not condition("Evicted")(ended)
    await place.nothing_at_home(PODS, JOBS)
    assert (await place.home.list(CLUSTERS, place.name)).items == []
    await gone(place.worker, RAY_JOBS, place.key)


async def test_a_job_that_fails(place: Place, dashboard: Dashboard) -> None:
    """What Ray says of it comes back; it is not tried again."""
    dashboard.jobs[place.name] = "FAILED"
    await create(place.home, RAY_JOBS, job(place))
    await until(place.home, RAY_JOBS, place.key, deployment("Failed"))
    await place.finished("Failed")


async def test_a_job_that_kuberay_finds_invalid_has_failed(place: Place) -> None:
    """It says so once and never looks at it again: nobody waits for it, nothing holds quota."""
    body = job(place)
    body["spec"]["ttlSecondsAfterFinished"] = 0
    body["spec"]["runtimeEnvYAML"] = "{ not: [yaml"
    await create(place.home, RAY_JOBS, body)
    told = await until(place.home, RAY_JOBS, place.key, deployment("ValidationFailed"))
    ended = await place.workload(condition("Finished"))
    finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
    assert finish["reason"] == "Failed"
    assert finish["message"].startswith(told["status"]["message"])


async def test_a_job_that_is_held_leaves_nothing_behind_and_runs_again(place: Place) -> None:
    """Its quota is free when the pods of its cluster and its submitter are gone."""
    await create(place.home, RAY_JOBS, job(place, seconds=600, stop_seconds="2"))
    await until(place.home, RAY_JOBS, place.key, deployment("Running"))
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]
    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []
    assert (await place.worker.list(CLUSTERS, place.name)).items == []
    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    await place.workload(lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2)
    await until(place.home, RAY_JOBS, place.key, deployment("Running"))
    await place.nothing_at_home(PODS, JOBS)
    await place.home.delete(RAY_JOBS, "train", place.name)
    await gone(place.worker, RAY_JOBS, place.key)
    assert await pods(place.worker, place) == []


def deployment(wanted: str) -> Any:
    return lambda obj: (obj.get("status") or {}).get("jobDeploymentStatus") == wanted


async def test_a_service_is_stopped_by_deleting_its_copy(
    place: Place, dashboard: Dashboard
) -> None:
    """KubeRay would go on with one that is suspended while it serves. Held it leaves no pods, and
    released it serves again.
    """
    config = "applications:\n- name: text\n  import_path: text:app\n"
    spec = {"serveConfigV2": config, "rayClusterConfig": cluster(stop_seconds="2")}
    made = await create(place.home, SERVICES, of(row("RayService"), "train", place.name, spec))
    assert made["spec"]["rayClusterConfig"]["suspend"] is True
    await until(place.home, SERVICES, place.key, serves)
    assert dashboard.served[place.name] == [{"name": "text", "import_path": "text:app"}]
    assert await shared(place) == {("head", 1), ("worker", 2)}

    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]
    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []
    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    await place.workload(lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2)
    await until(place.worker, SERVICES, place.key, serves)
    await place.nothing_at_home(PODS, JOBS)
    await place.home.delete(SERVICES, "train", place.name)
    await gone(place.worker, SERVICES, place.key)
    assert await pods(place.worker, place) == []


async def test_a_service_that_is_preempted_on_its_worker(place: Place) -> None:
    """The agent deletes the copy: what is preempted for starts when its pods are gone."""
    spec = {"serveConfigV2": "applications: []", "rayClusterConfig": cluster(4)}
    await create(place.home, SERVICES, of(row("RayService"), "train", place.name, spec))
    running = await place.workload(condition("Admitted"))
    await until(place.worker, CLUSTERS, (place.name, ""), state("ready"))
    urgent = of(row("RayCluster"), "urgent", place.name, cluster(4))
    urgent["metadata"]["labels"][Label.PRIORITY_CLASS.value] = "urgent"
    await create(place.worker, CLUSTERS, urgent)
    await until(place.worker, CLUSTERS, (place.name, "urgent"), state("ready"))
    evicted = await place.workload(condition("QuotaReserved", "False"))
    assert evicted["metadata"]["name"] == running["metadata"]["name"]
    assert {pod["metadata"]["labels"][OF_CLUSTER] for pod in await pods(place.worker, place)} == {
        "urgent"
    }
    await place.home.delete(SERVICES, "train", place.name)


async def test_a_service_that_waited_starts(place: Place, dashboard: Dashboard) -> None:
    """KubeRay has made a cluster for it by then, which is suspended, and which it does not resume:
    the agent deletes that.
    """
    await create(place.worker, CLUSTERS, of(row("RayCluster"), "big", place.name, cluster(4)))
    await until(place.worker, CLUSTERS, (place.name, "big"), state("ready"))
    config = "applications:\n- name: text\n  import_path: text:app\n"
    spec = {"serveConfigV2": config, "rayClusterConfig": cluster(4)}
    await create(place.worker, SERVICES, of(row("RayService"), "train", place.name, spec))
    early = await until(
        place.worker,
        CLUSTERS,
        (place.name, ""),
        lambda o: o["metadata"]["name"] != "big" and state("suspended")(o),
    )
    await place.worker.delete(CLUSTERS, "big", place.name)
    await until(place.worker, SERVICES, place.key, serves)
    found = await place.worker.list(CLUSTERS, place.name)
    assert early["metadata"]["uid"] not in {item["metadata"]["uid"] for item in found.items}
    await place.worker.delete(SERVICES, "train", place.name)


def serves(obj: Json) -> bool:
    """Whether its cluster is up, and its application, by KubeRay's word."""
    status = obj.get("status") or {}
    active, pending = (
        status.get(part) or {} for part in ("activeServiceStatus", "pendingServiceStatus")
    )
    told = [*_applications(active), *_applications(pending)]
    return told == ["RUNNING"]


def _applications(part: Json) -> list[str]:
    return [one["status"] for one in (part.get("applicationStatuses") or {}).values()]


async def shared(place: Place) -> set[tuple[str, int]]:
    """How many pods of each sort run on the worker."""
    found = [
        pod["metadata"]["labels"]["ray.io/node-type"] for pod in await pods(place.worker, place)
    ]
    return {(sort, found.count(sort)) for sort in found}
