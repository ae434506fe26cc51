"""The Workload beside a Job through an eviction, and the configuration of the agent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from federation.api import record as records
from federation.api.names import ConditionType
from federation.core.policies import FairStrategy
from federation.edge.configuration_file import ConfigurationFileError, configured
from federation.edge.resources import JOBS, WORKLOADS
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker, job
from worker_agent import status


@contextlib.asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    """An agent that writes Workloads too."""
    async with worker.running():
        task = asyncio.create_task(worker.workloads.run())
        try:
            yield
        finally:
            await stop([task])


def status_of(worker: Worker, name: str) -> Any:
    for obj in worker.fake.items(WORKLOADS):
        if obj["metadata"]["ownerReferences"][0]["name"] == name:
            return obj.get("status") or {}
    return {}


def says(worker: Worker, name: str, kind: str, status: bool, reason: str) -> bool:
    found = records.find(status_of(worker, name), ConditionType(kind)) or {}
    return (found.get("status"), found.get("reason")) == (str(status), reason)


async def test_the_conditions_of_a_victim() -> None:
    """Evicted and Preempted at once; reservation and admission end with its pods; then both are
    undone when it is admitted again.
    """
    worker = Worker(1, preemption={"withinClusterQueue": "LowerPriority"})
    worker.class_of("high", 10)
    async with running(worker):
        worker.add(job("victim"))
        await until(lambda: says(worker, "victim", "Admitted", True, "Admitted"))
        worker.run_pods("victim")
        await until(lambda: says(worker, "victim", "PodsReady", True, "Started"))
        worker.add(job("urgent", of="high"))
        await until(
            lambda: says(worker, "urgent", "QuotaReserved", False, "WaitingForPreemptedWorkloads")
        )
        await until(lambda: says(worker, "victim", "Evicted", True, "Preempted"))
        status = status_of(worker, "victim")
        text = records.find(status, ConditionType.EVICTED)["message"]  # type: ignore[index]
        assert says(worker, "victim", "Preempted", True, "InClusterQueue")
        assert says(worker, "victim", "QuotaReserved", True, "QuotaReserved")
        assert status["admission"]["clusterQueue"] == "cq"
        assert status["schedulingStats"]["evictions"] == [
            {"reason": "Preempted", "underlyingCause": "", "count": 1}
        ]

        worker.stopping("victim", 0)
        await until(lambda: says(worker, "victim", "Requeued", True, "Preempted"))
        assert says(worker, "victim", "Admitted", False, "NoReservation")
        assert says(worker, "victim", "PodsReady", False, "WaitForStart")
        assert "admission" not in status_of(worker, "victim")
        await until(lambda: says(worker, "victim", "QuotaReserved", False, "WaitingForQuota"))

        worker.end("urgent")
        await until(lambda: says(worker, "victim", "Evicted", False, "QuotaReserved"))
        assert says(worker, "victim", "Preempted", False, "QuotaReserved")
        evicted = records.find(status_of(worker, "victim"), ConditionType.EVICTED)
        assert evicted is not None
        assert evicted["message"] == f"Previously: {text}"
        assert says(worker, "victim", "Admitted", True, "Admitted")


async def test_the_template_in_a_workload() -> None:
    """It is the one that was submitted, not what the start made of it."""
    worker = Worker(1)
    worker.add(job("a"))
    async with worker.running():
        await until(lambda: worker.started("a"))
    async with running(worker):
        await until(lambda: worker.fake.items(WORKLOADS))
        (workload,) = worker.fake.items(WORKLOADS)
        assert "nodeSelector" not in workload["spec"]["podSets"][0]["template"]["spec"]


async def test_a_job_that_cannot_be_started() -> None:
    """Its Workload is Finished, FailedToStart, with the server's words."""
    worker = Worker(1)
    async with running(worker):
        worker.fake.fail(
            lambda r: r.method == "PATCH" and b'"suspend":false' in r.content, status=422
        )
        worker.add(job("bad"))
        await until(lambda: says(worker, "bad", "Finished", True, "FailedToStart"))


async def test_an_admission_that_nobody_saw_end_is_cleared_before_the_next() -> None:
    """The API server lets nobody edit one: what the Workload says of another start ends first."""
    worker = Worker(2)
    async with running(worker):
        worker.add(job("a"))
        await until(lambda: status_of(worker, "a").get("admission"))
        await worker.at_rest()
        (obj,) = worker.fake.items(WORKLOADS)
        facts = next(iter(worker.agent.jobs.values()))
    assert status.changes(facts, records.read_record(obj), None) == {}
    obj["status"]["admission"]["podSetAssignments"][0]["flavors"] = {"gpu": "other"}

    first = status.changes(facts, records.read_record(obj), None)
    assert first["admission"] is None
    assert {c["type"]: c["status"] for c in first["conditions"]} == {
        "QuotaReserved": "False",
        "Admitted": "False",
    }
    kept = records.with_conditions(obj["status"], first["conditions"], "2026-01-01T00:00:00Z")
    obj["status"] = {"conditions": kept}
    then = status.changes(facts, records.read_record(obj), None)
    assert then["admission"]["podSetAssignments"][0]["flavors"] == {"gpu": "f"}
    assert {c["type"]: c["status"] for c in then["conditions"]}["Admitted"] == "True"


async def test_reclaimable_pods_are_never_fewer_while_quota_is_held() -> None:
    """A Job that is made smaller has fewer pods to give back; the Workload may not say so."""
    worker = Worker(8)
    async with running(worker):
        body = job("a")
        body["spec"]["parallelism"] = 4
        worker.add(body)
        await until(lambda: worker.started("a"))
        worker.run_pods("a", 4)
        worker.succeed("a", 3)
        told = [{"name": "main", "count": 3}]
        await until(lambda: status_of(worker, "a").get("reclaimablePods") == told)
        worker.fake.merge(JOBS, "a", {"spec": {"parallelism": 2}}, "team")
        await until(lambda: next(iter(worker.agent.jobs.values())).reclaimable == {"main": 2})
        await worker.at_rest()
        (obj,) = worker.fake.items(WORKLOADS)
        facts = next(iter(worker.agent.jobs.values()))
        assert "reclaimablePods" not in status.changes(facts, records.read_record(obj), None)


def test_the_configuration_of_the_agent(tmp_path: Path) -> None:
    """Rules and resource transformations come from the file; defaults without one."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "fairSharing:\n  preemptionStrategies: [LessThanInitialShare]\n"
        "resources:\n  excludeResourcePrefixes: [example.com]\n"
    )
    settings = configured(path)
    assert settings.rules.fair_strategies == (FairStrategy.INITIAL_SHARE,)
    assert settings.resources.excluded_prefixes == ("example.com",)
    assert not configured(None).rules.fair_sharing
    with pytest.raises(ConfigurationFileError):
        configured(tmp_path / "none.yaml")
