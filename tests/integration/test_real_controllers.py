"""Kinds with their own controllers, webhooks and CRDs, on management and worker cluster alike.

Skipped where the controllers were not built: `fedq rig binaries --controllers` does it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from federation.api.names import Label
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, PODS, WORKLOADS, Resource, resource_of
from federation.jobs.kinds.registry import KINDS
from fedq.cli import app
from fedq.rig.operators import JOBSET, LWS
from fedq.stack import Stack
from tests.integration.kind_objects import create, gone, job_set, row, template, until
from tests.integration.real_rigs import LABEL, WORKER, places, real_rig
from tests.integration.real_rigs import Place as Team
from tests.integration.test_kinds import condition, gates

Json = dict[str, Any]
JOB_SETS = resource_of(row("JobSet"))
OF_SET = "jobset.sigs.k8s.io/jobset-name"
GROUPS = resource_of(KINDS["LeaderWorkerSet.v1.leaderworkerset.x-k8s.io"])
OF_GROUPS = "leaderworkerset.sigs.k8s.io/name"
pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own, as CRDs that take anything are on that of the session."""
    with real_rig("real", (JOBSET, LWS), tmp_path_factory) as stack:
        yield stack


class Place(Team):
    """A team and its JobSets."""

    def job_set(self, name: str = "train", *, seconds: float = 2, **more: Any) -> Json:
        """A driver and two workers of two pods each, which run so long."""
        body = job_set(name, self.name)
        for job in body["spec"]["replicatedJobs"]:
            template = job["template"]["spec"]["template"]
            notes = {"fedq.io/run-seconds": str(seconds), **more.get("notes", {})}
            template["metadata"] = {"annotations": notes}
        body["spec"] |= more.get("spec", {})
        body["metadata"]["labels"] |= more.get("labels", {})
        return body

    async def jobs(self, name: str = "train") -> list[Json]:
        return await self._of(JOBS, name)

    async def pods(self, name: str = "train") -> list[Json]:
        return await self._of(PODS, name)

    async def _of(self, resource: Resource, name: str) -> list[Json]:
        found = await self.worker.list(resource, self.name, label_selector=f"{OF_SET}={name}")
        return list(found.items)


@pytest.fixture
async def place(real: Stack) -> AsyncIterator[Place]:
    async with places(real, f"real-{uuid.uuid4().hex[:6]}") as found:
        yield Place(found.name, found.home, found.worker)


def counted(obj: Json, field: str) -> int:
    told = (obj.get("status") or {}).get("replicatedJobsStatus") or ()
    return sum(one[field] for one in told)


def templates(obj: Json) -> list[Json]:
    return [job["template"]["spec"]["template"] for job in obj["spec"]["replicatedJobs"]]


def selectors(obj: Json) -> list[Json]:
    return [template["spec"].get("nodeSelector", {}) for template in templates(obj)]


async def test_a_job_set_runs_on_a_worker_and_comes_back(place: Place) -> None:
    """Its controller makes the Jobs on the worker and none at home; its words come back."""
    made = await create(place.home, JOB_SETS, place.job_set(seconds=3))
    assert (made["spec"]["suspend"], made["spec"]["managedBy"]) == (
        True,
        "kueue.x-k8s.io/multikueue",
    )
    copy = await until(place.worker, JOB_SETS, place.key, lambda o: counted(o, "ready") == 3)
    assert selectors(copy) == [LABEL, LABEL]
    jobs, pods = await place.jobs(), await place.pods()
    assert sorted(job["metadata"]["name"] for job in jobs) == [
        "train-driver-0",
        "train-workers-0",
        "train-workers-1",
    ]
    assert len(pods) == 5
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in pods)

    shown = await until(place.home, JOB_SETS, place.key, lambda o: counted(o, "ready") == 3)
    assert shown["spec"]["suspend"] is False
    assert selectors(shown) == [{}, {}]
    done = await until(place.home, JOB_SETS, place.key, condition("Completed"))
    assert done["status"]["terminalState"] == "Completed"
    assert counted(done, "succeeded") == 3
    ended = await place.workload(condition("Finished"))
    finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
    assert finish["reason"] == "Succeeded"
    assert ended["status"]["fedq"]["attempt"] == 1
    await gone(place.worker, JOB_SETS, place.key)
    assert (await place.home.list(JOBS, place.name)).items == []
    await place.home.delete(JOB_SETS, "train", place.name)


async def test_a_job_set_that_fails(place: Place) -> None:
    """It says why, and is not tried again."""
    body = place.job_set(seconds=1, notes={"fedq.io/exit-code": "1"})
    for job in body["spec"]["replicatedJobs"]:
        job["template"]["spec"]["backoffLimit"] = 0
    await create(place.home, JOB_SETS, body)
    failed = await until(place.home, JOB_SETS, place.key, condition("Failed"))
    assert failed["status"]["terminalState"] == "Failed"
    ended = await place.workload(condition("Finished"))
    finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
    assert finish["reason"] == "Failed"
    assert ended["status"]["fedq"]["attempt"] == 1


async def events(stack: Stack, place: Place) -> list[Json]:
    """What `fedq events` tells of the JobSet."""
    config = str(stack.rig.kubeconfig(stack.rig.management))
    args = ["events", "jobset/train", "-n", place.name, "--kubeconfig", config, "-o", "json"]
    said = await asyncio.to_thread(CliRunner().invoke, app, args)
    assert said.exit_code == 0, said.output
    return list(json.loads(said.stdout))


async def test_one_that_is_held_leaves_nothing_behind_and_runs_again(
    real: Stack, place: Place
) -> None:
    """Its quota is free when its Jobs and pods are gone. Released it runs anew; deleted it goes.
    Events of the pods that its Jobs make are found.
    """
    notes = {"fedq.io/stop-seconds": "2"}
    await create(place.home, JOB_SETS, place.job_set(seconds=600, notes=notes))
    await until(place.home, JOB_SETS, place.key, lambda o: counted(o, "ready") == 3)
    held = await place.workload(condition("Admitted"))
    name = held["metadata"]["name"]
    assert "Scheduled" in {event["reason"] for event in await events(real, place)}

    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert (await place.jobs(), await place.pods()) == ([], [])
    home = await until(place.home, JOB_SETS, place.key, lambda o: o["spec"]["suspend"] is True)
    assert not home.get("status") or not counted(home, "ready")

    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    again = await place.workload(
        lambda o: condition("Admitted")(o) and o["status"]["fedq"]["attempt"] == 2
    )
    assert again["status"]["clusterName"] == WORKER
    await until(place.home, JOB_SETS, place.key, lambda o: counted(o, "ready") == 3)
    await place.home.delete(JOB_SETS, "train", place.name)
    await gone(place.worker, JOB_SETS, place.key)
    assert (await place.jobs(), await place.pods()) == ([], [])
    await gone(place.home, WORKLOADS, (place.name, name))


async def test_one_of_the_worker_is_preempted_and_returns(place: Place) -> None:
    """The agent suspends it: its Jobs stay, suspended, its templates are as they were, and it is
    started again.
    """
    await create(place.worker, JOB_SETS, place.job_set(seconds=600))
    running = await until(place.worker, JOB_SETS, place.key, lambda o: counted(o, "ready") == 3)
    assert selectors(running) == [LABEL, LABEL]
    of = {Label.PRIORITY_CLASS.value: "urgent"}
    await create(place.worker, JOB_SETS, place.job_set("urgent", seconds=4, labels=of))

    def stopped(obj: Json) -> bool:
        return bool(obj["spec"]["suspend"]) and selectors(obj) == [{}, {}]

    await until(place.worker, JOB_SETS, place.key, stopped)
    urgent = (place.name, "urgent")
    await until(place.worker, JOB_SETS, urgent, lambda o: counted(o, "active") == 3)
    assert all(job["spec"]["suspend"] for job in await place.jobs())
    assert await place.pods() == []
    await until(place.worker, JOB_SETS, urgent, condition("Completed"))
    again = await until(place.worker, JOB_SETS, place.key, lambda o: counted(o, "ready") == 3)
    assert selectors(again) == [LABEL, LABEL]
    assert len(await place.pods()) == 5


async def test_its_jobs_start_one_after_the_other(place: Place) -> None:
    """While it starts, its controller says that it is suspended: nobody takes it for stopped."""
    spec = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    await create(place.home, JOB_SETS, place.job_set(seconds=3, spec=spec))
    done = await until(place.home, JOB_SETS, place.key, condition("Completed"))
    assert counted(done, "succeeded") == 3
    ended = await place.workload(condition("Finished"))
    assert ended["status"]["fedq"]["attempt"] == 1
    assert not condition("Evicted")(ended)


async def test_a_copy_that_is_preempted_has_stopped_when_it_queues_again(
    real: Stack, place: Place
) -> None:
    """Its controller says Suspended, and counts no active Job, before its pods have ended."""
    slow = {"fedq.io/stop-seconds": "8"}
    await create(place.home, JOB_SETS, place.job_set(seconds=600, notes=slow))
    await until(place.home, JOB_SETS, place.key, lambda o: counted(o, "ready") == 3)
    of = {Label.PRIORITY_CLASS.value: "urgent"}
    manager = real.rig.process("manager")
    assert manager is not None

    def says_it_is_gone(copy: Json) -> bool:
        return condition("Suspended")(copy) and counted(copy, "active") == 0

    os.kill(manager.pid, signal.SIGSTOP)
    try:
        await create(place.worker, JOB_SETS, place.job_set("urgent", seconds=1, labels=of))
        await until(place.worker, JOB_SETS, place.key, says_it_is_gone)
        assert len(await place.pods()) == 5
    finally:
        os.kill(manager.pid, signal.SIGCONT)
    evicted = await place.workload(
        lambda o: condition("Evicted")(o) and condition("QuotaReserved", "False")(o)
    )
    assert await place.pods() == []
    assert evicted["status"]["fedq"]["attempt"] == 1
    await place.home.delete(JOB_SETS, "train", place.name)
    await gone(place.home, JOB_SETS, place.key)


def groups_of(name: str, team: str) -> Json:
    """Two groups of a leader and two workers."""
    pods = template()
    pods["spec"]["restartPolicy"] = "Always"
    each = {"size": 3, "leaderTemplate": pods, "workerTemplate": pods}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": name,
            "namespace": team,
            "labels": {Label.QUEUE_NAME.value: team},
        },
        "spec": {"replicas": 2, "leaderWorkerTemplate": each},
    }


async def test_a_leader_worker_set_runs_as_a_whole(place: Place) -> None:
    """At home its leaders wait for a gate, on the worker all its pods run; held and deleted it
    leaves none behind.
    """
    key = (place.name, "serve")

    async def pods(client: KubeClient) -> list[Json]:
        found = await client.list(PODS, place.name, label_selector=f"{OF_GROUPS}=serve")
        return list(found.items)

    def ready(obj: Json) -> bool:
        return bool((obj.get("status") or {}).get("readyReplicas") == 2)

    await create(place.home, GROUPS, groups_of("serve", place.name))
    admitted = await place.workload(condition("Admitted"))
    sets = {one["name"]: one["count"] for one in admitted["spec"]["podSets"]}
    assert sets == {"leader": 2, "worker": 4}
    await until(place.worker, GROUPS, key, ready)
    running = await pods(place.worker)
    assert len(running) == 6
    assert all(LABEL.items() <= pod["spec"]["nodeSelector"].items() for pod in running)
    await until(place.home, PODS, (place.name, ""), lambda pod: True)
    at_home = await pods(place.home)
    assert all(gates(pod) == ["kueue.x-k8s.io/admission"] for pod in at_home)
    assert not any(pod["spec"].get("nodeName") for pod in at_home)

    name = admitted["metadata"]["name"]
    await place.home.patch(WORKLOADS, name, {"spec": {"active": False}}, place.name)
    await place.workload(condition("QuotaReserved", "False"))
    assert await pods(place.worker) == []
    await place.home.patch(WORKLOADS, name, {"spec": {"active": True}}, place.name)
    await until(place.worker, GROUPS, key, ready)
    await place.home.delete(GROUPS, "serve", place.name)
    await gone(place.worker, GROUPS, key)
    assert await pods(place.worker) == []
