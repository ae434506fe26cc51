"""Elastic Jobs on real API servers: their rules for Jobs and Workloads let the numbers follow."""

from __future__ import annotations

from typing import Any

import pytest

from bench.observer import observing
from federation.edge.resources import JOBS, WORKLOADS
from tests.integration.conftest import Team
from tests.integration.test_dispatch import condition, submit, until, where

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
