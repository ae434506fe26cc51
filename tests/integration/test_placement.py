"""Where jobs run, on real API servers: configs of many clusters, pins, labels of clusters."""

from __future__ import annotations

from typing import Any

import pytest

from bench.observer import observing
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from tests.integration.conftest import API, Team
from tests.integration.test_dispatch import condition, submit, until, where

Json = dict[str, Any]


def checked(name: str, clusters: list[str]) -> list[Json]:
    """A MultiKueueConfig of these clusters, and the AdmissionCheck of it."""
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    return [
        {
            "apiVersion": API,
            "kind": "MultiKueueConfig",
            "metadata": {"name": name},
            "spec": {"clusters": clusters},
        },
        {"apiVersion": API, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec},
    ]


@pytest.mark.timeout(180)
async def test_thirty_clusters_in_a_config_and_jobs_that_choose(team: Team) -> None:
    """The order is kept, what is missing is told, and each job runs where it may."""
    stack, name = team.stack, team.name
    workers = list(stack.rig.workers)
    clusters = [*reversed(workers), *(f"planned-{number}" for number in range(30))]
    stack.apply(stack.rig.management, checked(name, clusters))
    async with observing(stack, name) as (observer, clients):
        management = clients["management"]
        names = {"admissionChecks": [{"name": name}]}
        body = {"spec": {"admissionChecksStrategy": names}}
        await management.patch(CLUSTER_QUEUES, name, body)
        shown = await until(management, ADMISSION_CHECKS, "", name, condition("Active"))
        (active,) = shown["status"]["conditions"]
        assert active["reason"] == "SomeActiveClusters"
        assert active["message"].startswith("Missing clusters: [planned-0, planned-1, ")
        config = await management.get(MULTIKUEUE_CONFIGS, name)
        assert config["spec"]["clusters"] == clusters

        label = {"metadata": {"labels": {name: "yes"}}}
        await management.patch(MULTIKUEUE_CLUSTERS, workers[0], label)
        chosen = {
            "pinned": (workers[1], {"fedq.io/clusters": workers[1]}),
            "labelled": (workers[0], {"fedq.io/cluster-selector": f"{name} in (yes)"}),
            "shy": (workers[0], {"fedq.io/avoid-clusters": workers[1]}),
        }
        for job_name, (_, notes) in chosen.items():
            job = team.job(job_name)
            job["metadata"]["annotations"] = notes
            await submit(clients, observer, job)
        lost = team.job("lost")
        lost["metadata"]["annotations"] = {
            "fedq.io/clusters": "planned-7",
            "fedq.io/give-up-after": "15s",
        }
        await submit(clients, observer, lost)
        for job_name, (cluster, _) in chosen.items():
            await until(management, JOBS, name, job_name, condition("Complete"))
            assert where(observer, job_name) == cluster
        given_up = await until(
            management,
            WORKLOADS,
            name,
            "",
            lambda obj: obj["spec"].get("active") is False and condition("Evicted")(obj),
        )
        evicted = next(c for c in given_up["status"]["conditions"] if c["type"] == "Evicted")
        assert evicted["reason"] == "DeactivatedDueToGiveUpTimeExceeded"
        assert "planned-7: there is no MultiKueueCluster" in evicted["message"]
        assert observer.starts.get("lost") in (None, [])
