"""Elastic jobs on real API servers: their rules for Jobs and Workloads let the numbers follow."""

from __future__ import annotations

from typing import Any

import pytest

from bench.observer import observing
from federation.edge.resources import JOBS, WORKLOADS
from tests.integration import kind_objects as kinds
from tests.integration.conftest import Team
from tests.integration.test_dispatch import condition, submit, until, where
from tests.integration.test_kinds import clients as admins
from tests.integration.test_kinds import define, placed

Json = dict[str, Any]
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


def sized(asked: int, given: int) -> Any:
    """Of a Workload: pods in its spec, and in its admission."""

    def holds(workload: Json) -> bool:
        found = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments")
        counts = [pods["count"] for pods in workload["spec"]["podSets"]]
        return bool(found) and (counts, found[0]["count"]) == ([asked], given)

    return holds


@pytest.mark.timeout(180)
async def test_up_and_down(team: Team) -> None:
    """Larger while there is room, larger when others have left, smaller: one run, one Workload."""
    async with observing(team.stack, team.name) as (observer, clients):
        management = clients["management"]
        job = team.job("train", cpu="5", pods=2, seconds=600)
        job["metadata"]["annotations"] = dict(ELASTIC)
        job["spec"]["completions"] = 50
        await submit(clients, observer, job)
        await observer.wait("running", 1)
        cluster = where(observer, "train")

        async def scale(pods: int) -> None:
            body = {"spec": {"parallelism": pods}}
            await management.patch(JOBS, "train", body, team.name)

        async def runs(pods: int) -> None:
            await until(
                clients[cluster], JOBS, team.name, "train",
                lambda copy: copy["status"].get("ready") == pods,
            )  # fmt: skip

        await scale(3)
        await runs(3)
        await until(management, WORKLOADS, team.name, "", sized(3, 3))
        other = team.job("other", cpu="5", seconds=600)
        other["metadata"]["annotations"] = {"fedq.io/clusters": cluster}
        await submit(clients, observer, other)
        await observer.wait("running", 2)

        await scale(4)
        waiting = await until(
            management, WORKLOADS, team.name, "", condition("fedq.io/Scaled", "False")
        )
        assert sized(4, 3)(waiting)
        assert condition("Admitted")(waiting)
        await management.delete(JOBS, "other", team.name)
        await runs(4)
        await until(management, WORKLOADS, team.name, "", condition("fedq.io/Scaled"))

        await scale(1)
        await until(management, WORKLOADS, team.name, "", sized(1, 1))
        await runs(1)
        (workload,) = (await management.list(WORKLOADS, team.name)).items
        assert workload["status"]["fedq"]["attempt"] == 1
        assert len(observer.starts["train"]) == 1


def ray_cluster(team: str, small: int, big: int) -> Json:
    """A RayCluster of a head and two groups of workers; one of the second has two hosts."""
    groups = [
        {"groupName": "small", "replicas": small, "template": kinds.template("2")},
        {
            "groupName": "big",
            "replicas": big,
            "numOfHosts": 2,
            "maxReplicas": 2,
            "template": kinds.template("1"),
        },
    ]
    head = {"template": kinds.template("1"), "rayStartParams": {}}
    spec = {"headGroupSpec": head, "workerGroupSpecs": groups}
    body = kinds.of(kinds.row("RayCluster"), "ray", team, spec)
    body["metadata"]["annotations"] = dict(ELASTIC)
    return body


def groups_of(obj: Json) -> dict[str, int]:
    return {group["groupName"]: group["replicas"] for group in obj["spec"]["workerGroupSpecs"]}


def admitted(workload: Json) -> dict[str, int]:
    found = (workload.get("status") or {}).get("admission", {}).get("podSetAssignments", ())
    return {pods["name"]: pods["count"] for pods in found}


@pytest.mark.timeout(240)
async def test_worker_groups_of_a_ray_cluster(team: Team) -> None:
    """Each follows its number: larger while there is room, larger when others have left, one larger
    and one smaller at once: one copy, one Workload, one attempt, never suspended.
    """
    resource = define(team.stack, "RayCluster")
    async with admins(team.stack) as found:
        management, key = found["management"], (team.name, "ray")
        await kinds.create(management, resource, ray_cluster(team.name, 1, 1))
        cluster, workload = await placed(found, team.name)
        worker, name = found[cluster], workload["metadata"]["name"]
        assert admitted(workload) == {"head": 1, "small": 1, "big": 2}
        copy = await kinds.until(worker, resource, key, lambda o: not o["spec"]["suspend"])
        await kinds.say(worker, resource, key, {"state": "ready"})

        async def scale(small: int, big: int, most: int = 2) -> None:
            groups = ray_cluster(team.name, small, big)["spec"]["workerGroupSpecs"]
            groups[1]["maxReplicas"] = most
            await management.patch(
                resource, "ray", {"spec": {"workerGroupSpecs": groups}}, team.name
            )

        async def runs(small: int, big: int) -> Json:
            wanted = {"small": small, "big": big}
            made = await kinds.until(worker, resource, key, lambda o: groups_of(o) == wanted)
            given = {"head": 1, "small": small, "big": 2 * big}
            await kinds.until(
                management, WORKLOADS, (team.name, name), lambda w: admitted(w) == given
            )
            return made

        await scale(2, 3, most=5)
        made = await runs(2, 3)
        assert made["spec"]["workerGroupSpecs"][1]["maxReplicas"] == 5
        other = team.job("other", cpu="8", seconds=600)
        other["metadata"]["annotations"] = {"fedq.io/clusters": cluster}
        await management.create(JOBS, other)
        await until(found[cluster], JOBS, team.name, "other", lambda o: not o["spec"]["suspend"])

        await scale(5, 3)
        waiting = await kinds.until(
            management, WORKLOADS, (team.name, name), condition("fedq.io/Scaled", "False")
        )
        (said,) = (c for c in waiting["status"]["conditions"] if c["type"] == "fedq.io/Scaled")
        assert "(small: 2 of 5)" in said["message"]
        assert admitted(waiting)["small"] == 2
        await management.delete(JOBS, "other", team.name)
        await runs(5, 3)

        await scale(6, 1)
        made = await runs(6, 1)
        assert made["metadata"]["uid"] == copy["metadata"]["uid"]
        assert not made["spec"]["suspend"]
        last = await management.get(WORKLOADS, name, team.name)
        assert last["status"]["fedq"]["attempt"] == 1
        assert last["metadata"]["uid"] == workload["metadata"]["uid"]
        await management.delete(resource, "ray", team.name)
        await kinds.gone(worker, resource, key)
