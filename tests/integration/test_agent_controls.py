"""The rules of a local Job's life on a real worker cluster, with small times in a configuration."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.edge.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, WORKLOADS
from federation.jobs.eviction_note import read_eviction
from fedq.stack import Stack
from tests.integration.agents import Place, is_true, place, running
from tests.integration.conftest import API

pytestmark = pytest.mark.timeout(180)

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 4s
  requeuingStrategy: {backoffBaseSeconds: 2, backoffLimitCount: 1}
"""


@dataclass
class Configured:
    """The agent of worker-1 with the configuration of this file."""

    stack: Stack
    path: Path

    def start(self) -> None:
        self.stack.start_agent("worker-1", self.path)

    def kill(self) -> None:
        self.stack.rig.stop_process("agent/worker-1", grace=0)


@pytest.fixture(scope="module")
def configured(agents: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    path = tmp_path_factory.mktemp("agent") / "configuration.yaml"
    path.write_text(CONFIGURATION)
    found = Configured(agents, path)
    found.kill()
    found.start()
    yield found
    found.kill()
    agents.start_agent("worker-1")


@pytest.fixture
async def queue(configured: Configured) -> AsyncIterator[Place]:
    """A queue of four cores."""
    found = place(configured.stack, 4)
    async with found.client:
        yield found


async def stop_policy(queue: Place, policy: str) -> None:
    await queue.client.patch(CLUSTER_QUEUES, queue.name, {"spec": {"stopPolicy": policy}})


async def switch(queue: Place, job: str, active: bool) -> None:
    found = await queue.workload(job, lambda obj: True)
    body = {"spec": {"active": active}}
    await queue.client.patch(WORKLOADS, found["metadata"]["name"], body, queue.name)


def requeues(number: int) -> Any:
    """Whether requeueState counts so many evictions."""
    return lambda obj: (obj["status"].get("requeueState") or {}).get("count") == number


async def test_pods_that_are_not_ready(queue: Place, configured: Configured) -> None:
    """Evicted and counted, admitted again after the backoff, then once too often: deactivated.
    The agent is killed in between.
    """
    body = queue.job("slow")
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
    await queue.submit(body)
    evicted = await queue.workload("slow", is_true("Evicted", "PodsReadyTimeout"))
    assert requeues(1)(evicted)
    configured.kill()
    configured.start()
    await queue.workload("slow", is_true("Requeued", "BackoffFinished"))
    again = await queue.workload("slow", is_true("Evicted", "QuotaReserved", "False"))
    assert requeues(1)(again)
    configured.kill()
    configured.start()
    cause = "DeactivatedDueToRequeuingLimitExceeded"
    await queue.workload("slow", is_true("Evicted", cause))
    over = await queue.workload("slow", is_true("QuotaReserved", "Deactivated", "False"))
    assert over["spec"]["active"] is False
    assert "requeueState" not in over["status"]
    assert is_true("Requeued", cause, "False")(over)


async def test_a_switch_and_a_drain(queue: Place) -> None:
    """spec.active and HoldAndDrain stop a Job; it runs again when they are taken back."""
    await queue.submit(queue.job("a", cpu=4, stop=1))
    await queue.until("a", running)
    await queue.workload("a", is_true("PodsReady"))
    await switch(queue, "a", False)
    await queue.workload("a", is_true("Evicted", "Deactivated"))
    await queue.workload("a", is_true("QuotaReserved", "Deactivated", "False"))
    await switch(queue, "a", True)
    await queue.workload("a", is_true("Requeued", "Reactivated"))
    await queue.until("a", running)

    await stop_policy(queue, "HoldAndDrain")
    stopped = await queue.workload("a", is_true("Requeued", "ClusterQueueStopped", "False"))
    assert is_true("Evicted", "ClusterQueueStopped")(stopped)
    assert "admission" not in stopped["status"]
    await stop_policy(queue, "None")
    await queue.until("a", running)
    await queue.workload("a", is_true("Requeued", "ClusterQueueRestarted"))


async def test_a_copy_in_a_drained_queue(queue: Place) -> None:
    """Stopped, with the reason for its manager."""
    await queue.submit(queue.copy("copy"))
    await queue.until("copy", running)
    await stop_policy(queue, "HoldAndDrain")
    stopped = await queue.until("copy", lambda job: job["spec"]["suspend"])
    eviction = read_eviction(stopped)
    assert eviction is not None
    assert eviction.reason == "ClusterQueueStopped"


def active_check(name: str) -> list[Any]:
    """An AdmissionCheck whose controller is there, and its status."""
    check = {
        "apiVersion": API, "kind": "AdmissionCheck", "metadata": {"name": name},
        "spec": {"controllerName": "test.example/check"},
    }  # fmt: skip
    active = {
        "type": "Active", "status": "True", "reason": "Active", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return [check, {"status": {"conditions": [active]}}]


async def test_an_admission_check(configured: Configured) -> None:
    """A queue without its check is inactive. Quota is reserved, and the Job is started when the
    check is Ready, with what that adds.
    """
    name = f"check-{uuid.uuid4().hex[:6]}"
    strategy = {"admissionChecks": [{"name": name}]}
    queue = place(configured.stack, 4, admissionChecksStrategy=strategy)
    async with queue.client as client:
        await queue.submit(queue.job("a"))
        await queue.workload("a", is_true("QuotaReserved", "Suspended", "False"))
        check, active = active_check(name)
        await client.create(ADMISSION_CHECKS, check)
        await client.patch(ADMISSION_CHECKS, name, active, subresource="status")
        reserved = await queue.workload("a", is_true("QuotaReserved"))
        assert is_true("Admitted", "UnsatisfiedAdmissionChecks", "False")(reserved)
        (said,) = reserved["status"]["admissionChecks"]
        assert said["state"] == "Pending"
        held = await client.get(JOBS, "a", queue.name)
        assert held["spec"]["suspend"]
        assert Mirror.RESERVATION.value in held["metadata"]["annotations"]

        updates = [{"name": "main", "annotations": {"from": "check"}}]
        said |= {"state": "Ready", "message": "yes", "podSetUpdates": updates}
        body = {"status": {"admissionChecks": [said]}}
        workload = reserved["metadata"]["name"]
        await client.patch(WORKLOADS, workload, body, queue.name, subresource="status")
        started = await queue.until("a", running)
        assert started["spec"]["template"]["metadata"]["annotations"]["from"] == "check"
        await queue.workload("a", is_true("Admitted"))
