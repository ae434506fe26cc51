"""Leaving a cluster and coming back, on real control planes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.observer import Observer, observing
from federation.edge.errors import NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from fedq.stack import Stack
from tests.integration.conftest import API, Team

Json = dict[str, Any]
Holds = Callable[[Json], object]

CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "waitForPodsReady": {
        "timeout": "4s",
        "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffLimitCount": 1},
    },
    "objectRetentionPolicies": {
        "workloads": {"afterFinished": "15s", "afterDeactivatedByKueue": "10s"}
    },
}


@pytest.fixture(scope="module")
def impatient(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The manager with short times; the others get theirs back with the defaults."""
    path: Path = tmp_path_factory.mktemp("config") / "manager.yaml"
    path.write_text(yaml.safe_dump(CONFIGURATION))
    stack.rig.stop_process("manager")
    stack.start_manager("in-process", path)
    try:
        yield stack
    finally:
        stack.rig.stop_process("manager")
        stack.start_manager()


async def until(client: KubeClient, resource: Resource, team: str, name: str, holds: Holds) -> Json:
    """Watch one object until a condition holds. Of a Workload the name is that of its job."""
    async with aclosing(client.watch(resource, team)) as events:
        async for event in events:
            told = event.type in {"ADDED", "MODIFIED"} and _named(event.object, name)
            if told and holds(event.object):
                return event.object
    raise AssertionError("the watch ended")


def _named(obj: Json, name: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return name in (obj["metadata"]["name"], *(owner["name"] for owner in owners))


async def gone(client: KubeClient, resource: Resource, team: str) -> None:
    """Wait until a namespace has none of a kind any more."""
    listed = await client.list(resource, team)
    left = {item["metadata"]["uid"] for item in listed.items}
    if not left:
        return
    watch = client.watch(resource, team, resource_version=listed.resource_version)
    async with aclosing(watch) as events:
        async for event in events:
            uid = event.object["metadata"]["uid"]
            (left.discard if event.type == "DELETED" else left.add)(uid)
            if not left:
                return


def says(kind: str, status: str = "True", reason: str = "") -> Holds:
    """Whether a condition stands so."""
    return lambda obj: any(
        c["type"] == kind and c["status"] == status and reason in ("", c["reason"])
        for c in (obj.get("status") or {}).get("conditions") or ()
    )


async def submit(
    clients: dict[str, KubeClient], observer: Observer, job: Json, **labels: str
) -> None:
    for key, value in labels.items():
        job["metadata"]["labels"][f"kueue.x-k8s.io/{key.replace('_', '-')}"] = value
    observer.created[job["metadata"]["name"]] = asyncio.get_running_loop().time()
    await clients["management"].create(JOBS, job)


async def set_active(client: KubeClient, workload: Json, active: bool) -> None:
    meta = workload["metadata"]
    await client.patch(WORKLOADS, meta["name"], {"spec": {"active": active}}, meta["namespace"])


@pytest.mark.timeout(180)
async def test_a_job_of_higher_priority_gets_the_quota_of_another_cluster(
    impatient: Stack, team: Team
) -> None:
    """The global quota of 20 is what is short, each worker has 20. The victim's quota is given
    away only when its last pod is gone; it runs again, elsewhere or there, and completes.
    """
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        await _shrink(management, team.name)
        for name, value in (("low", 1), ("high", 9)):
            await _priority(management, name, value)
        slow = team.job("slow", cpu="20", seconds=8)
        slow["spec"]["template"]["metadata"]["annotations"]["fedq.io/stop-seconds"] = "3"
        await submit(clients, observer, slow, priority_class="fedq-test-low")
        await observer.wait("running", 1)
        (start,) = observer.starts["slow"]
        worker = clients[start.partition("/")[0]]
        urgent = team.job("urgent", cpu="20", seconds=3)
        await submit(clients, observer, urgent, priority_class="fedq-test-high")

        leaving = await until(management, WORKLOADS, team.name, "slow", says("Evicted"))
        assert says("QuotaReserved")(leaving)
        assert says("Preempted", reason="InClusterQueue")(leaving)
        bound = asyncio.create_task(
            until(management, WORKLOADS, team.name, "urgent", says("QuotaReserved"))
        )
        await gone(worker, PODS, team.name)
        await bound
        freed = await until(
            management, WORKLOADS, team.name, "slow", says("QuotaReserved", "False")
        )
        assert says("Requeued", reason="Preempted")(freed)
        await observer.wait("complete", 2)
        assert observer.reached["complete"]["urgent"] < observer.reached["complete"]["slow"]
        assert len(observer.starts["slow"]) == 2


async def _shrink(client: KubeClient, team: str) -> None:
    """One worker's worth of quota for all, and leave to preempt."""
    quota = {"name": "cpu", "nominalQuota": 20}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    body = {"spec": {"resourceGroups": [group], "preemption": preemption}}
    await client.patch(CLUSTER_QUEUES, team, body)


async def _priority(client: KubeClient, name: str, value: int) -> None:
    body = {
        "apiVersion": API,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": f"fedq-test-{name}"},
        "value": value,
    }
    try:
        await client.get(WORKLOAD_PRIORITY_CLASSES, f"fedq-test-{name}")
    except NotFound:
        await client.create(WORKLOAD_PRIORITY_CLASSES, body)


@pytest.mark.timeout(180)
async def test_pods_that_never_start_are_given_up(impatient: Stack, team: Team) -> None:
    """Evicted after 4 s, tried once more after the backoff, then deactivated; and after 10 s more
    the job is deleted.
    """
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        job = team.job("never")
        job["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
        await submit(clients, observer, job)
        again = await until(
            management, WORKLOADS, team.name, "never",
            lambda w: (w.get("status") or {}).get("fedq", {}).get("attempt") == 2,
        )  # fmt: skip
        assert again["status"]["requeueState"]["count"] == 1
        counts = again["status"]["schedulingStats"]["evictions"]
        assert [(c["reason"], c["underlyingCause"]) for c in counts] == [
            ("PodsReadyTimeout", "WaitForStart")
        ]
        held = await until(
            management, WORKLOADS, team.name, "never",
            says("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded"),
        )  # fmt: skip
        assert held["spec"]["active"] is False
        for resource in (JOBS, WORKLOADS):
            await gone(management, resource, team.name)
        for worker in team.stack.rig.workers:
            await gone(clients[worker], PODS, team.name)


@pytest.mark.timeout(120)
async def test_a_job_whose_time_is_over_is_stopped_and_held(impatient: Stack, team: Team) -> None:
    """Three seconds of execution, then deactivated; its pods are gone and it does not run again."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        await submit(clients, observer, team.job("long", seconds=600), max_exec_time_seconds="3")
        over = "DeactivatedDueToMaximumExecutionTimeExceeded"
        held = await until(
            management, WORKLOADS, team.name, "long",
            lambda w: says("Evicted", reason=over)(w) and says("QuotaReserved", "False")(w),
        )  # fmt: skip
        assert held["spec"]["maximumExecutionTimeSeconds"] == 3
        for worker in team.stack.rig.workers:
            await gone(clients[worker], JOBS, team.name)
        job = await management.get(JOBS, "long", team.name)
        assert job["spec"]["suspend"]
        assert len(observer.starts["long"]) == 1


@pytest.mark.timeout(120)
async def test_a_drained_queue_stops_its_jobs_until_it_goes_on(
    impatient: Stack, team: Team
) -> None:
    """HoldAndDrain evicts what runs; with None it runs again as the next attempt."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        await submit(clients, observer, team.job("long", seconds=5))
        await observer.wait("running", 1)
        drain = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await management.patch(CLUSTER_QUEUES, team.name, drain)
        await until(
            management, WORKLOADS, team.name, "long",
            lambda w: says("Evicted", reason="ClusterQueueStopped")(w)
            and says("Requeued", "False", "ClusterQueueStopped")(w),
        )  # fmt: skip
        for worker in team.stack.rig.workers:
            await gone(clients[worker], JOBS, team.name)
        await management.patch(CLUSTER_QUEUES, team.name, {"spec": {"stopPolicy": "None"}})
        await observer.wait("complete", 1)
        assert len(observer.starts["long"]) == 2


@pytest.mark.timeout(120)
async def test_a_workload_that_is_deactivated_and_activated(impatient: Stack, team: Team) -> None:
    """`active: false` stops the job, `true` queues it again; the finished Workload goes later."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        await submit(clients, observer, team.job("long", seconds=5))
        await observer.wait("running", 1)
        workload = await until(management, WORKLOADS, team.name, "long", says("Admitted"))
        await set_active(management, workload, False)
        await until(
            management, WORKLOADS, team.name, "long",
            lambda w: says("Evicted", reason="Deactivated")(w)
            and says("QuotaReserved", "False", "Deactivated")(w),
        )  # fmt: skip
        await set_active(management, workload, True)
        await until(
            management, WORKLOADS, team.name, "long", says("Requeued", reason="Reactivated")
        )
        await observer.wait("complete", 1)
        assert len(observer.starts["long"]) == 2
        await gone(management, WORKLOADS, team.name)
        assert says("Complete")(await management.get(JOBS, "long", team.name))
