"""One Job's way through the real system, and what people do to it on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from bench.observer import Observer, observing
from federation.edge.errors import NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS, Resource
from tests.integration.conftest import Team

Json = dict[str, Any]


async def until(
    client: KubeClient, resource: Resource, team: str, name: str, holds: Callable[[Json], bool]
) -> Json:
    """Watch one object until a condition holds; the time limit is the test's."""
    selector = f"metadata.name={name}" if name else ""
    async with aclosing(client.watch(resource, team, field_selector=selector)) as events:
        async for event in events:
            if event.type in {"ADDED", "MODIFIED"} and holds(event.object):
                return event.object
    raise AssertionError("the watch ended")


def condition(kind: str, status: str = "True") -> Callable[[Json], bool]:
    return lambda obj: any(
        c["type"] == kind and c["status"] == status
        for c in (obj.get("status") or {}).get("conditions") or ()
    )


async def gone(client: KubeClient, team: str, name: str, of: Resource = JOBS) -> None:
    """Wait until a Job, or an object of another type, is deleted."""
    try:
        found = await client.get(of, name, team)
    except NotFound:
        return
    version = found["metadata"]["resourceVersion"]
    watch = client.watch(of, team, field_selector=f"metadata.name={name}", resource_version=version)
    async with aclosing(watch) as events:
        async for event in events:
            if event.type == "DELETED":
                return


async def submit(clients: dict[str, KubeClient], observer: Observer, job: Json) -> None:
    observer.created[job["metadata"]["name"]] = asyncio.get_running_loop().time()
    await clients["management"].create(JOBS, job)


def where(observer: Observer, name: str) -> str:
    """The only cluster on which a job was started."""
    (start,) = observer.starts[name]
    return start.partition("/")[0]


@pytest.mark.timeout(120)
async def test_a_job_runs_on_a_worker_and_comes_back(team: Team) -> None:
    """Created unsuspended on the management cluster; ends Complete there, ran once elsewhere."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        await submit(clients, observer, team.job("hello", pods=3))
        done = await until(management, JOBS, team.name, "hello", condition("Complete"))
        workload = await until(management, WORKLOADS, team.name, "", condition("Finished"))

        assert done["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
        assert done["status"]["succeeded"] == 3
        assert done["status"]["startTime"] <= done["status"]["completionTime"]
        assert workload["status"]["clusterName"] == where(observer, "hello")
        assert workload["status"]["fedq"]["attempt"] == 1
        await gone(clients[where(observer, "hello")], team.name, "hello")


@pytest.mark.timeout(120)
async def test_what_does_not_fit_waits_and_is_admitted_by_priority_then_age(team: Team) -> None:
    """Four jobs of 20 cores on 2 x 20: two run at once, the others follow."""
    async with observing(team.stack, team.name) as (observer, clients):
        for name in ("a", "b", "c", "d"):
            await submit(clients, observer, team.job(name, cpu="20", seconds=4))
        await observer.wait("running", 2)
        waiting = await until(
            clients["management"], WORKLOADS, team.name, "", condition("QuotaReserved", "False")
        )
        await observer.wait("complete", 4)

        reserved = next(c for c in waiting["status"]["conditions"] if c["type"] == "QuotaReserved")
        assert reserved["reason"] == "WaitingForQuota"
        assert "20" in reserved["message"]
        told = waiting["status"]["fedq"]["waiting"]
        assert told["reason"] == "WaitingForQuota"
        assert reserved["message"].endswith(told["hint"])
        for short in told["shortages"]:
            assert (short["resource"], short["needed"], short["flavor"]) == ("cpu", "20", "default")
        assert all(len(starts) == 1 for starts in observer.starts.values())


@pytest.mark.timeout(120)
async def test_a_failed_job_is_failed_and_not_tried_elsewhere(team: Team) -> None:
    """The exit code of the pod decides; the Workload says Failed."""
    async with observing(team.stack, team.name) as (observer, clients):
        job = team.job("bad")
        job["spec"]["template"]["metadata"]["annotations"]["fedq.io/exit-code"] = "1"
        await submit(clients, observer, job)
        await until(clients["management"], JOBS, team.name, "bad", condition("Failed"))
        workload = await until(
            clients["management"], WORKLOADS, team.name, "", condition("Finished")
        )

        finished = next(c for c in workload["status"]["conditions"] if c["type"] == "Finished")
        assert finished["reason"] == "Failed"
        assert len(observer.starts["bad"]) == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_a_deleted_job_stops_on_its_worker(team: Team, propagation: str) -> None:
    """Whatever the propagation policy: the copy goes, and so does the Workload."""
    async with observing(team.stack, team.name) as (observer, clients):
        await submit(clients, observer, team.job("long", seconds=600))
        await observer.wait("running", 1)
        await clients["management"].delete(JOBS, "long", team.name, propagation=propagation)

        await gone(clients[where(observer, "long")], team.name, "long")
        async for attempt in AsyncRetrying(wait=wait_fixed(0.1), stop=stop_after_delay(60)):
            with attempt:  # deleted by the garbage collector or by the manager
                assert not (await clients["management"].list(WORKLOADS, team.name)).items


@pytest.mark.timeout(120)
async def test_a_suspended_job_stops_and_is_held_until_it_is_resumed(team: Team) -> None:
    """Suspending a running Job holds it; unsuspending queues it again, with the next attempt."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        await submit(clients, observer, team.job("long", seconds=5))
        await until(
            management, JOBS, team.name, "long", lambda j: bool(j["status"].get("startTime"))
        )
        first = where(observer, "long")
        await management.patch(JOBS, "long", {"spec": {"suspend": True}}, team.name)
        await gone(clients[first], team.name, "long")
        held = await until(
            management,
            WORKLOADS,
            team.name,
            "",
            lambda w: not w["spec"].get("active", True) and condition("QuotaReserved", "False")(w),
        )
        assert condition("Evicted")(held)
        assert "clusterName" not in held["status"]

        await management.patch(JOBS, "long", {"spec": {"suspend": False}}, team.name)
        await observer.wait("complete", 1)
        (workload,) = (await management.list(WORKLOADS, team.name)).items
        assert workload["status"]["fedq"]["attempt"] == 2


@pytest.mark.timeout(120)
async def test_a_copy_that_is_deleted_on_its_worker_runs_again(team: Team) -> None:
    """Nobody loses a job because somebody cleaned up a worker; the attempt goes up."""
    async with observing(team.stack, team.name) as (observer, clients):
        await submit(clients, observer, team.job("victim", seconds=4))
        await observer.wait("running", 1)
        await clients[where(observer, "victim")].delete(JOBS, "victim", team.name)
        await observer.wait("complete", 1)

        (workload,) = (await clients["management"].list(WORKLOADS, team.name)).items
        assert workload["status"]["fedq"]["attempt"] == 2


@pytest.mark.timeout(120)
async def test_a_job_created_again_at_once_under_its_name_is_another_job(team: Team) -> None:
    """Delete and create within moments: the new Job has its own run and its own status."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        await submit(clients, observer, team.job("twin", seconds=600))
        await observer.wait("running", 1)
        await management.delete(JOBS, "twin", team.name)
        created = await management.create(JOBS, team.job("twin", seconds=1))
        done = await until(management, JOBS, team.name, "twin", condition("Complete"))

        assert done["metadata"]["uid"] == created["metadata"]["uid"]
        assert len(observer.starts["twin"]) == 2


@pytest.mark.timeout(120)
async def test_a_worker_local_job_is_admitted_by_the_agent(team: Team) -> None:
    """Submitted straight to a worker it waits in that worker's queue, and its Workload says so."""
    async with observing(team.stack, team.name) as (_, clients):
        worker = clients["worker-1"]
        await worker.create(JOBS, team.job("first", cpu="15", seconds=5))
        await until(worker, JOBS, team.name, "first", lambda job: not job["spec"]["suspend"])
        await worker.create(JOBS, team.job("second", cpu="15"))
        waiting = await until(worker, WORKLOADS, team.name, "", condition("QuotaReserved", "False"))
        assert "second" in waiting["metadata"]["name"]
        for name in ("first", "second"):
            await until(worker, JOBS, team.name, name, condition("Complete"))


# Bad input: a clear condition, other Jobs go on, nothing is retried hot.


def reserved_message(workload: Json) -> str:
    return next(
        (
            c["message"]
            for c in (workload.get("status") or {}).get("conditions") or ()
            if c["type"] == "QuotaReserved" and c["status"] == "False"
        ),
        "",
    )


@pytest.mark.timeout(120)
async def test_an_unknown_local_queue_is_named_and_its_creation_heals(team: Team) -> None:
    """The condition says which queue is missing; creating it lets the job run."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        job = team.job("lost")
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "late"
        await submit(clients, observer, job)
        await until(
            management, WORKLOADS, team.name, "",
            lambda w: f"LocalQueue {team.name}/late does not exist" in reserved_message(w),
        )  # fmt: skip
        late = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "late", "namespace": team.name},
            "spec": {"clusterQueue": team.name},
        }
        for client in clients.values():
            await client.create(LOCAL_QUEUES, late)
        await observer.wait("complete", 1)


@pytest.mark.timeout(120)
async def test_a_foreign_job_of_the_same_name_is_left_alone(team: Team) -> None:
    """Its cluster is passed over with a reason, the other one takes the job."""
    async with observing(team.stack, team.name) as (observer, clients):
        foreign = {}
        for worker in ("worker-1", "worker-2"):
            job = team.job("same", seconds=600)
            del job["metadata"]["labels"]
            foreign[worker] = await clients[worker].create(JOBS, job)
        await submit(clients, observer, team.job("same"))
        await until(
            clients["management"], WORKLOADS, team.name, "",
            lambda w: "worker-1" in reserved_message(w) and "worker-2" in reserved_message(w)
            and "not ours" in reserved_message(w),
        )  # fmt: skip
        await clients["worker-2"].delete(JOBS, "same", team.name)
        await observer.wait("complete", 1)

        kept = await clients["worker-1"].get(JOBS, "same", team.name)
        assert kept["metadata"]["uid"] == foreign["worker-1"]["metadata"]["uid"]
        assert "fedq.io/attempt" not in (kept["metadata"].get("annotations") or {})


@pytest.mark.timeout(120)
async def test_a_namespace_missing_on_one_worker_is_passed_over(team: Team) -> None:
    """Only the other worker gets the jobs; where neither has it, the message says so."""
    async with observing(team.stack, team.name) as (observer, clients):
        await clients["worker-1"].delete(NAMESPACES, team.name)
        for index in range(4):
            await submit(clients, observer, team.job(f"job-{index}"))
        await observer.wait("complete", 4)

        assert {where(observer, name) for name in observer.created} == {"worker-2"}


@pytest.mark.timeout(120)
async def test_a_job_that_runs_under_another_controller_is_named(team: Team) -> None:
    """managedBy of somebody else: Fedq leaves it alone and says what to do."""
    async with observing(team.stack, team.name) as (observer, clients):
        job = team.job("theirs")
        job["spec"]["managedBy"] = "example.com/other"
        await clients["management"].create(JOBS, job)
        await submit(clients, observer, team.job("ours"))
        await observer.wait("complete", 1)
        await until(
            clients["management"], WORKLOADS, team.name, "",
            lambda w: "example.com/other" in reserved_message(w),
        )  # fmt: skip


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("kubeconfig", "reason"),
    [
        ("not: [valid", "BadKubeConfig"),
        ("wrong-server", "ClientConnectionFailed"),
        ("expired-token", "BadKubeConfig"),
        ("insecure", "InsecureKubeConfig"),
    ],
)
async def test_a_bad_kubeconfig_is_shown_and_harms_nobody(
    team: Team, kubeconfig: str, reason: str
) -> None:
    """The cluster is not Active, with the reason; jobs go on elsewhere."""
    import base64

    import yaml

    rig = team.stack.rig
    good = yaml.safe_load(rig.kubeconfig("worker-1").read_text())
    if kubeconfig == "wrong-server":
        good["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        kubeconfig = yaml.safe_dump(good)
    elif kubeconfig == "expired-token":
        good["users"][0]["user"] = {"token": "expired"}
        kubeconfig = yaml.safe_dump(good)
    elif kubeconfig == "insecure":
        good["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
        kubeconfig = yaml.safe_dump(good)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "broken-kubeconfig", "namespace": "fedq-system"},
        "data": {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()},
    }
    cluster = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "MultiKueueCluster",
        "metadata": {"name": "broken"},
        "spec": {"clusterSource": {"kubeConfig": {"location": "broken-kubeconfig"}}},
    }
    team.stack.apply("management", [secret, cluster])
    try:
        async with observing(team.stack, team.name) as (observer, clients):
            await submit(clients, observer, team.job("other"))
            await observer.wait("complete", 1)
        rig.kubectl(
            "management", "wait", "multikueueclusters.kueue.x-k8s.io/broken", "--timeout=60s",
            f'--for=jsonpath={{.status.conditions[?(@.type=="Active")].reason}}={reason}',
        )  # fmt: skip
        status = json.loads(team.stack.page("manager", "status") or b"{}")
        assert status["clusters"]["worker-1"]["health"] == "Active"
    finally:
        rig.kubectl("management", "delete", "multikueueclusters.kueue.x-k8s.io", "broken")
        rig.kubectl("management", "delete", "secret", "broken-kubeconfig", "-n", "fedq-system")
