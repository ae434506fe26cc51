"""Dispatchers and kinds of jobs that a Configuration names, on real API servers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation.api.names import Option
from federation.edge.resources import CLUSTER_QUEUES, JOBS, WORKLOADS, resource_of
from fedq.stack import Stack
from tests.integration.conftest import Team
from tests.integration.kind_objects import (
    crd,
    create,
    job_set,
    of,
    row,
    say,
    says,
    template,
    until,
)
from tests.integration.test_kinds import JOB_SETS, clients, condition, placed
from tests.integration.test_kinds_live import fedq
from tests.integration.test_placement import checked

Json = dict[str, Any]
ROUND_S = 4.0


@contextlib.contextmanager
def configured(stack: Stack, config: Path, **parts: Json) -> Iterator[Path]:
    """The programs with a Configuration, until the end of a test. Without Ray: when that has
    started the clusters are handed over to it, and are away for a moment, which ends a round.
    """
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    config.write_text(yaml.safe_dump({**head, **parts}))
    stack.start(runtime="in-process", config=config)
    try:
        yield config
    finally:
        stack.stop()
        (stack.rig.data_dir("configuration") / "configuration.yaml").unlink()
        stack.start()


@pytest.fixture
def incremental(stack: Stack, tmp_path: Path) -> Iterator[None]:
    """The programs with the incremental dispatcher, one cluster in each round."""
    rounds = {"stepSize": 1, "roundDuration": f"{ROUND_S:g}s"}
    settings = {
        "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-incremental",
        "incrementalDispatcherConfig": rounds,
    }
    with configured(stack, tmp_path / "configuration.yaml", multiKueue=settings):
        yield


@pytest.fixture
def switched(stack: Stack, tmp_path: Path) -> Iterator[Path]:
    """The programs with JobSets alone; all clusters serve PyTorchJobs as well."""
    for cluster in stack.rig.clusters:
        stack.apply(cluster, [crd(row("JobSet")), crd(row("PyTorchJob"))])
    named: Json = {"frameworks": ["jobset.x-k8s.io/jobset"]}
    with configured(stack, tmp_path / "configuration.yaml", integrations=named) as config:
        yield config


@pytest.mark.timeout(240)
async def test_incremental(incremental: None, team: Team) -> None:
    """The clusters of the config one after the other, in its order: the next one when the round is
    over and no nominee had room, at once when the only one never can.
    """
    stack, name = team.stack, team.name
    first, second = reversed(stack.rig.workers)
    stack.apply(stack.rig.management, checked(name, [first, second]))
    names = {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}
    async with clients(stack) as found:
        management = found["management"]

        async def submit(job: str, cpu: int, **options: str) -> None:
            body = team.job(job, seconds=60, cpu=str(cpu))
            body["metadata"]["annotations"] = options
            await management.create(JOBS, body)

        async def workload(job: str, holds: Any) -> Json:
            def of_it(obj: Json) -> bool:
                owner = obj["metadata"]["ownerReferences"][0]["name"]
                return owner == job and holds(obj.get("status") or {})

            return await until(management, WORKLOADS, (name, ""), of_it)

        def nominated(*clusters: str) -> Any:
            return lambda status: status.get("nominatedClusterNames") == list(clusters)

        def runs(status: Json) -> bool:
            return condition("Admitted")({"status": status})

        for cluster in (first, second):  # a queue that the manager has not heard of is no candidate
            await submit(f"on-{cluster}", 1, **{Option.CLUSTERS.value: cluster})
            await workload(f"on-{cluster}", runs)
        await management.patch(CLUSTER_QUEUES, name, {"spec": names})
        await submit("near", 15)  # of the 20 that each has
        assert (await workload("near", runs))["status"]["clusterName"] == first

        await submit("next", 15)
        begun = (await workload("next", nominated(first)))["status"]["fedq"]["nominatedAt"]
        told = await workload("next", nominated(first, second))
        assert _seconds(told["status"]["fedq"]["nominatedAt"]) - _seconds(begun) >= ROUND_S - 1
        assert (await workload("next", runs))["status"]["clusterName"] == second

        smaller = {"spec": _quota(4)}
        await found[first].patch(CLUSTER_QUEUES, name, smaller)
        await management.delete(JOBS, "next", name)
        await submit("large", 16)
        moved = await workload("large", runs)
        assert moved["status"]["clusterName"] == second


@pytest.mark.timeout(240)
async def test_kinds_that_are_switched_on(
    switched: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run; what names a queue and is of another kind is held, and commands say why."""
    name, torch = team.name, resource_of(row("PyTorchJob"))
    replicas = {"pytorchReplicaSpecs": {"Master": {"template": template()}}}
    async with clients(team.stack) as found:
        management, worker = found["management"], found[team.stack.rig.workers[0]]
        held = await management.create(JOBS, team.job("job"))
        await worker.create(JOBS, team.job("local"))
        await create(management, torch, of(row("PyTorchJob"), "torch", name, replicas))
        await create(management, JOB_SETS, job_set("train", name))
        cluster, workload = await placed(found, name)
        assert workload["metadata"]["ownerReferences"][0]["kind"] == "JobSet"
        key = (name, "train")
        await until(found[cluster], JOB_SETS, key, lambda o: o["spec"]["suspend"] is False)
        await say(found[cluster], JOB_SETS, key, {"conditions": [says("Completed")]})
        await until(management, WORKLOADS, (name, ""), condition("Finished"))

        (only,) = (await management.list(WORKLOADS, name)).items
        assert only["metadata"]["uid"] == workload["metadata"]["uid"]
        assert held["spec"]["suspend"] is True
        assert (await worker.get(JOBS, "local", name))["spec"]["suspend"] is True
        monkeypatch.setenv("FEDQ_CONFIG", str(switched))
        for text in ("torch", "job"):
            said = await fedq(team, "why", f"{'pytorchjob' if text == 'torch' else text}/{text}")
            assert said.exit_code == 2
            assert "is switched off" in said.stderr


def _quota(cpu: int) -> Json:
    resource = {"name": "cpu", "nominalQuota": cpu}
    flavors = [{"name": "default", "resources": [resource]}]
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
