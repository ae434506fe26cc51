"""AppWrapper with its own controller, webhook and CRD, on management and worker cluster alike, and
JobSet with its own as one of the kinds that it wraps.

Skipped where these were not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from federation.api.names import Label
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, PODS, WORKLOADS, Resource, resource_of
from fedq.rig.operators import APPWRAPPER, JOBSET
from fedq.stack import Stack
from tests.integration.conftest import flavor
from tests.integration.kind_objects import create, gone, of, row, template, until
from tests.integration.real_rigs import LABEL, WORKER, Place, places, real_rig
from tests.integration.test_kinds import condition

Json = dict[str, Any]
WRAPPERS, JOB_SETS = resource_of(row("AppWrapper")), resource_of(row("JobSet"))
SERVICES = Resource("", "v1", "services")
NOTES = "workload.codeflare.dev.appwrapper"
TOLERATION = {"key": "team", "operator": "Exists"}
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own, as CRDs that take anything are on that of the session."""
    with real_rig("appwrapper", (JOBSET, APPWRAPPER), tmp_path_factory) as stack:
        spec = {"nodeLabels": LABEL, "tolerations": [TOLERATION]}
        stack.apply(WORKER, [flavor() | {"spec": spec}])
        yield stack


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    async with places(real, f"appwrapper-{uuid.uuid4().hex[:6]}") as found:
        yield found


def pods_of(seconds: float, **notes: str) -> Json:
    """A template whose pods run so long."""
    body = template()
    given = {f"fedq.io/{name.replace('_', '-')}": text for name, text in notes.items()}
    body["metadata"] = {"annotations": {"fedq.io/run-seconds": str(seconds), **given}}
    return body


def job(name: str, pods: int, seconds: float, **notes: str) -> Json:
    """A component: a Job of so many pods, which has failed when one of them has."""
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0}
    return {
        "template": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {**spec, "template": pods_of(seconds, **notes)},
        }
    }


def waiting(name: str) -> Json:
    """A component: a Job whose pod finds no node. Its controller looks every five seconds at what
    is not ready, and every minute at what is.
    """
    body = job(name, 1, 600)
    body["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"fedq.io/no": "node"}
    return body


def pod(name: str, seconds: float, queue: str) -> Json:
    """A component: a pod that names a queue itself, declared by its path."""
    body = pods_of(seconds)
    body["metadata"] |= {"name": name, "labels": {Label.QUEUE_NAME.value: queue}}
    wrapped = {"apiVersion": "v1", "kind": "Pod", **body}
    return {"podSets": [{"path": "template"}], "template": wrapped}


def job_set(name: str, seconds: float, queue: str) -> Json:
    """A component: a JobSet of two pods that names a queue itself."""
    spec = job(name, 2, seconds)["template"]["spec"]
    jobs = [{"name": "one", "template": {"spec": spec}}]
    return {"template": of(row("JobSet"), name, queue, {"replicatedJobs": jobs})}


def wrapper(place: Place, *components: Json, name: str = "train", **notes: str) -> Json:
    """An AppWrapper with notes for its controller."""
    body = of(row("AppWrapper"), name, place.name, {"components": list(components)})
    body["metadata"]["annotations"] = {f"{NOTES}/{key}": text for key, text in notes.items()}
    return body


async def pods(client: KubeClient, place: Place, name: str = "train") -> list[Json]:
    selector = f"workload.codeflare.dev/appwrapper={name}"
    return list((await client.list(PODS, place.name, label_selector=selector)).items)


def phase(*wanted: str) -> Any:
    return lambda obj: (obj.get("status") or {}).get("phase") in wanted


def infos(obj: Json) -> list[Any]:
    """What is added to the pods of each component."""
    return [component.get("podSetInfos") for component in obj["spec"]["components"]]


async def test_one_runs_on_a_worker_and_comes_back(place: Place) -> None:
    """What it wraps is made on the worker, placed as its flavor says, and not queued once more."""
    queue = place.name
    body = wrapper(place, job("a", 2, 4), pod("b", 4, queue), job_set("c", 4, queue))
    made = await create(place.home, WRAPPERS, body)
    assert made["spec"]["suspend"] is True
    assert made["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    copy = await until(place.worker, WRAPPERS, place.key, condition("PodsReady"))
    running = await pods(place.worker, place)
    assert len(running) == 5
    assert all(LABEL.items() <= one["spec"]["nodeSelector"].items() for one in running)
    assert all(TOLERATION in one["spec"]["tolerations"] for one in running)
    assert infos(copy) == [[{"nodeSelector": LABEL, "tolerations": [TOLERATION]}]] * 3
    assert copy["metadata"]["labels"]["workload.codeflare.dev/user"].endswith("_fedq-mirror")

    shown = await until(place.home, WRAPPERS, place.key, condition("PodsReady"))
    assert shown["spec"]["suspend"] is False
    assert infos(shown) == [None] * 3
    await until(place.home, WRAPPERS, place.key, phase("Succeeded"))
    ended = await place.finished("Succeeded")
    sets = {one["name"]: one["count"] for one in ended["spec"]["podSets"]}
    assert sets == {"train-0": 2, "train-1": 1, "train-2": 2}
    assert not condition("Evicted")(ended)
    await place.nothing_at_home(PODS, JOBS, JOB_SETS)
    await gone(place.worker, WRAPPERS, place.key)
    assert (await place.worker.list(JOBS, place.name)).items == []
    assert await pods(place.worker, place) == []


async def test_one_that_fails_has_been_tried_as_often_as_it_says(place: Place) -> None:
    """By its controller, on the same worker: that is one attempt. Its pods are gone at the end."""
    notes = {"retryLimit": "1", "retryPausePeriodDuration": "1s"}
    whole = [job("a", 1, 1, exit_code="1"), waiting("b")]
    await create(place.home, WRAPPERS, wrapper(place, *whole, **notes))
    await until(place.home, WRAPPERS, place.key, phase("Resetting"))
    failed = await until(place.home, WRAPPERS, place.key, phase("Failed"))
    assert failed["status"]["resettingCount"] == 1
    ended = await place.finished("Failed")
    said = next(one for one in ended["status"]["conditions"] if one["type"] == "Finished")
    assert "FailedComponent" in said["message"]
    await gone(place.worker, WRAPPERS, place.key)


async def test_one_that_failed_is_charged_while_it_has_pods(place: Place) -> None:
    """It may keep them for a time, for people to look at."""
    notes = {"retryLimit": "0", "deletionOnFailureGracePeriodDuration": "8s"}
    whole = [job("a", 1, 1, exit_code="1"), job("b", 3, 600), waiting("c")]
    await create(place.home, WRAPPERS, wrapper(place, *whole, **notes))
    await until(place.home, WRAPPERS, place.key, phase("Failed"))
    charged = await place.workload(condition("Admitted"))
    assert not condition("Finished")(charged)
    assert len(await pods(place.worker, place)) == 5
    await place.finished("Failed")
    assert await pods(place.worker, place) == []


async def test_one_that_is_held_leaves_nothing_behind_and_runs_again(place: Place) -> None:
    """Its quota is free when its pods are gone. Released it runs anew; deleted it goes."""
    body = wrapper(place, job("a", 3, 600, stop_seconds="2"))
    body["spec"]["managedBy"] = row("AppWrapper").controller
    made = await create(place.home, WRAPPERS, body)
    assert made["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    await until(place.home, WRAPPERS, place.key, condition("PodsReady"))
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]

    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []
    assert (await place.worker.list(JOBS, place.name)).items == []
    await until(place.home, WRAPPERS, place.key, lambda o: o["spec"]["suspend"] is True)

    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    again = await place.workload(
        lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2
    )
    assert again["status"]["clusterName"] == WORKER
    await until(place.home, WRAPPERS, place.key, condition("PodsReady"))
    await place.nothing_at_home(PODS, JOBS, JOB_SETS)
    await place.home.delete(WRAPPERS, "train", place.name)
    await gone(place.worker, WRAPPERS, place.key)
    assert await pods(place.worker, place) == []
    assert (await place.worker.list(JOBS, place.name)).items == []
    await gone(place.home, WORKLOADS, (place.name, name))


async def test_one_of_the_worker_is_preempted_and_returns(place: Place) -> None:
    """The agent suspends it: its pods go, nothing is added to them any more; it starts again."""
    made = await create(place.worker, WRAPPERS, wrapper(place, job("a", 6, 600)))
    await until(place.worker, WRAPPERS, place.key, condition("PodsReady"))
    urgent = wrapper(place, job("u", 3, 4), name="urgent")
    urgent["metadata"]["labels"][Label.PRIORITY_CLASS.value] = "urgent"
    await create(place.worker, WRAPPERS, urgent)

    def stopped(obj: Json) -> bool:
        return phase("Suspended")(obj) and infos(obj) == [None]

    back = await until(place.worker, WRAPPERS, place.key, stopped)
    assert back["spec"] == made["spec"]
    await until(place.worker, WRAPPERS, (place.name, "urgent"), condition("PodsReady"))
    assert await pods(place.worker, place) == []
    await until(place.worker, WRAPPERS, (place.name, "urgent"), phase("Succeeded"))
    await until(place.worker, WRAPPERS, place.key, condition("PodsReady"))
    assert len(await pods(place.worker, place)) == 6


async def test_what_the_mirror_may_not_create_is_told(place: Place) -> None:
    """The worker's webhook asks whether who creates the copy may create what it wraps."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}]},
    }
    await create(place.home, WRAPPERS, wrapper(place, job("a", 1, 1), {"template": service}))

    def refused(workload: Json) -> bool:
        return "not authorized to create services" in str(workload.get("status"))

    await place.workload(refused)
    assert (await place.worker.list(WRAPPERS, place.name)).items == []
