"""Volcano's Job with Volcano's own controllers, scheduler and webhooks, on management and worker
cluster alike.

Skipped where these were not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from federation.api.names import Label
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS as BATCH_JOBS
from federation.edge.resources import NODES, PODS, WORKLOADS, Resource, resource_of
from federation.jobs.kinds.registry import KINDS
from fedq.rig.objects import gpu_node
from fedq.rig.operators import VOLCANO
from fedq.stack import Stack
from tests.integration.kind_objects import create, gone, of, template, until
from tests.integration.real_rigs import LABEL, Place, places, real_rig
from tests.integration.test_kinds import condition, gates

Json = dict[str, Any]
ROW: Any = KINDS["Job.v1alpha1.batch.volcano.sh"].row  # type: ignore[attr-defined]
JOBS = resource_of(ROW)
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")
HOSTNAME = "kubernetes.io/hostname"
GATE = "kueue.x-k8s.io/admission"
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own, as CRDs that take anything are on that of the session. Its management
    cluster has room: without that Volcano makes no pods there.
    """
    with real_rig("volcano", VOLCANO, tmp_path_factory) as stack:
        node = gpu_node("home", 0)
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        stack.apply(stack.rig.management, [node])
        yield stack


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    async with places(real, f"volcano-{uuid.uuid4().hex[:6]}") as found:
        yield found


def task(name: str, replicas: int, *, seconds: float = 3, **more: Any) -> Json:
    """Pods that run so long."""
    notes = {"fedq.io/run-seconds": str(seconds), **more.pop("notes", {})}
    pods = {"metadata": {"annotations": notes}, **template()}
    pods["spec"] |= more.pop("pods", {})
    return {"name": name, "replicas": replicas, "template": pods, **more}


def job(place: Place, *tasks: Json, **spec: Any) -> Json:
    return of(ROW, "train", place.name, {"tasks": list(tasks), **spec})


def phase(*wanted: str) -> Callable[[Json], bool]:
    def holds(obj: Json) -> bool:
        state = (obj.get("status") or {}).get("state") or {}
        return state.get("phase") in wanted

    return holds


async def pods(client: KubeClient, place: Place) -> list[Json]:
    found = await client.list(PODS, place.name, label_selector="volcano.sh/job-name=train")
    return list(found.items)


async def nothing_runs_at_home(place: Place) -> None:
    """Volcano's controllers have made pods there, and none of these goes on."""
    await until(place.home, PODS, (place.name, ""), lambda pod: True)
    for pod in await pods(place.home, place):
        assert gates(pod) == [GATE]
        assert not pod["spec"].get("nodeName")


async def test_one_runs_on_a_worker_and_comes_back(place: Place) -> None:
    """On the nodes of its flavor; at home its pods wait for a gate, until it has ended."""
    made = await create(
        place.home, JOBS, job(place, task("master", 1, seconds=5), task("worker", 2, seconds=5))
    )
    for one in made["spec"]["tasks"]:
        assert one["template"]["spec"]["schedulingGates"] == [{"name": GATE}]
    copy = await until(place.worker, JOBS, place.key, phase("Running"))
    assert copy["spec"]["minAvailable"] == 3
    running = await pods(place.worker, place)
    assert len(running) == 3
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in running)
    await nothing_runs_at_home(place)

    await until(place.home, JOBS, place.key, phase("Completed"))
    ended = await place.finished("Succeeded")
    assert not condition("Evicted")(ended)
    await gone(place.worker, JOBS, place.key)
    await place.home.delete(JOBS, "train", place.name)
    await gone(place.home, JOBS, place.key)


@pytest.mark.parametrize(
    ("action", "ends"), [("", "Failed"), ("AbortJob", "Aborted"), ("TerminateJob", "Terminated")]
)
async def test_one_that_fails(place: Place, action: str, ends: str) -> None:
    """It says so, whatever its policy calls that, and is not tried again."""
    bad = {"fedq.io/exit-code": "1"}
    policies = [{"event": "PodFailed", "action": action}] if action else []
    body = job(place, task("main", 2, seconds=1, notes=bad), policies=policies)
    await create(place.home, JOBS, body)
    await until(place.home, JOBS, place.key, phase(ends))
    await place.finished("Failed")
    await gone(place.worker, JOBS, place.key)


async def test_one_that_is_complete_with_one_of_its_tasks(place: Place) -> None:
    """Its end is told when the others have ended."""
    complete = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    slow = {"fedq.io/stop-seconds": "2"}
    body = job(
        place,
        task("master", 1, seconds=2, policies=complete),
        task("server", 1, seconds=600, notes=slow),
    )
    await create(place.home, JOBS, body)
    await until(place.home, JOBS, place.key, phase("Completed"))
    left = await pods(place.worker, place)
    assert {pod["metadata"]["name"] for pod in left} <= {"train-master-0"}
    await place.finished("Succeeded")


async def test_pods_that_volcano_makes_again_are_let_go(place: Place) -> None:
    """By its policies: it fails when those of the second round have failed, too."""
    bad = {"fedq.io/exit-code": "1"}
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    body = job(place, task("main", 2, seconds=1, notes=bad), policies=policies, maxRetry=2)
    await create(place.home, JOBS, body)
    failed = await until(place.home, JOBS, place.key, phase("Failed"))
    assert failed["status"]["retryCount"] == 2
    await place.finished("Failed")
    await gone(place.worker, JOBS, place.key)


async def test_tasks_with_numbers_of_their_own(place: Place) -> None:
    """What its webhook asks of numbers holds of a copy that waits. A task starts after another."""
    partitions = {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1}
    body = job(
        place,
        task("first", 3, minAvailable=2),
        task("parts", 2, partitionPolicy=partitions),
        task("last", 1, dependsOn={"name": ["first"]}),
        minAvailable=3,
    )
    await create(place.home, JOBS, body)
    copy = await until(place.worker, JOBS, place.key, phase("Running"))
    assert [one["minAvailable"] for one in copy["spec"]["tasks"]] == [2, 1, 1]
    await until(place.home, JOBS, place.key, phase("Completed"))
    await place.finished("Succeeded")


async def test_its_gang_starts_together(place: Place) -> None:
    """Where only one of two pods fits none is bound."""
    label = {"matchLabels": {"volcano.sh/job-name": "train"}}
    apart = [{"labelSelector": label, "topologyKey": HOSTNAME}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    node = (await place.worker.list(NODES)).items[0]["metadata"]["name"]

    def looked_at(pod: Json) -> bool:
        """Volcano's scheduler passes over those that are gated."""
        told = (pod.get("status") or {}).get("conditions") or ()
        mine = [c for c in told if c["type"] == "PodScheduled" and c["status"] == "False"]
        return not gates(pod) and any(c.get("reason") != "SchedulingGated" for c in mine)

    await place.worker.patch(NODES, node, {"spec": {"unschedulable": True}})
    try:
        await create(place.home, JOBS, job(place, task("main", 2, pods={"affinity": affinity})))
        for index in range(2):
            await until(place.worker, PODS, (place.name, f"train-main-{index}"), looked_at)
        assert not any(pod["spec"].get("nodeName") for pod in await pods(place.worker, place))
    finally:
        await place.worker.patch(NODES, node, {"spec": {"unschedulable": None}})
    await until(place.worker, JOBS, place.key, phase("Running"))
    hosts = {pod["spec"]["nodeName"] for pod in await pods(place.worker, place)}
    assert len(hosts) == 2
    await place.finished("Succeeded")


async def test_one_that_is_held_leaves_nothing_behind_and_runs_again(place: Place) -> None:
    """Its quota is free when its pods are gone. Released it runs anew; deleted it goes."""
    slow = {"fedq.io/stop-seconds": "2"}
    await create(place.home, JOBS, job(place, task("main", 3, seconds=600, notes=slow)))
    await until(place.worker, JOBS, place.key, phase("Running"))
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]

    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker, place) == []
    assert (await place.worker.list(POD_GROUPS, place.name)).items == []

    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    await place.workload(lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2)
    await until(place.worker, JOBS, place.key, phase("Running"))
    await nothing_runs_at_home(place)
    await place.home.delete(JOBS, "train", place.name)
    await gone(place.worker, JOBS, place.key)
    assert await pods(place.worker, place) == []
    await gone(place.home, WORKLOADS, (place.name, name))


async def test_a_copy_gives_way_to_one_of_the_worker_and_returns(place: Place) -> None:
    """Its pods are gone before the other one starts, and when it queues again."""
    slow = {"fedq.io/stop-seconds": "2"}
    await create(place.home, JOBS, job(place, task("main", 6, seconds=6, notes=slow)))
    await until(place.worker, JOBS, place.key, phase("Running"))
    labels = {Label.QUEUE_NAME.value: place.name, Label.PRIORITY_CLASS.value: "urgent"}
    urgent = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "urgent", "namespace": place.name, "labels": labels},
        "spec": {
            "suspend": True,
            "parallelism": 4,
            "completions": 4,
            "template": task("", 0, seconds=1)["template"],
        },
    }
    await create(place.worker, BATCH_JOBS, urgent)

    await until(
        place.worker, BATCH_JOBS, (place.name, "urgent"), lambda o: not o["spec"]["suspend"]
    )
    assert await pods(place.worker, place) == []
    await place.workload(condition("Evicted"))
    again = await place.workload(condition("Finished"))
    assert again["status"]["fedq"]["attempt"] == 2
    await until(place.home, JOBS, place.key, phase("Completed"))
