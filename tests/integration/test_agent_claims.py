"""A Job that claims devices on a real worker cluster: counted by memory and compute at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from federation.edge.resources import (
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
)
from fedq.stack import Stack
from tests.integration.agents import Place, is_true, place
from tests.unit.jobs.claim_build import DRIVER, device, device_class, resource_slice, template

pytestmark = pytest.mark.timeout(180)

CONFIGURATION = f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
resources:
  deviceClassMappings:
  - name: gpu-cards
    deviceClassNames: [hami-gpu]
  - name: gpu-memory
    deviceClassNames: [hami-gpu]
    sources: [{{capacity: {{name: {DRIVER}/memory, driver: {DRIVER}}}}}]
  - name: gpu-cores
    deviceClassNames: [hami-gpu]
    sources: [{{capacity: {{name: {DRIVER}/cores, driver: {DRIVER}}}}}]
"""
QUOTAS = {"cpu": 4, "gpu-cards": 8, "gpu-memory": "8Gi", "gpu-cores": 100}
GROUP = {
    "coveredResources": list(QUOTAS),
    "flavors": [
        {
            "name": "default",
            "resources": [{"name": n, "nominalQuota": q} for n, q in QUOTAS.items()],
        }
    ],
}


@pytest.fixture
def configured(agents: Stack, tmp_path: Path) -> Iterator[Stack]:
    """The agent of worker-1 counts claims."""
    path = tmp_path / "configuration.yaml"
    path.write_text(CONFIGURATION)
    agents.rig.stop_process("agent/worker-1", grace=0)
    agents.start_agent("worker-1", path)
    yield agents
    agents.rig.stop_process("agent/worker-1", grace=0)
    agents.start_agent("worker-1")


async def submit(queue: Place, name: str, claim: str) -> None:
    body = queue.job(name)
    spec = body["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": claim}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    await queue.submit(body)


async def test_claims_are_counted_as_the_cluster_defines_them(configured: Stack) -> None:
    """The template comes after the Job, a second Job finds no memory left. The API server takes
    all of the objects as they are, and fills in its defaults.
    """
    queue = place(configured, 4, resourceGroups=[GROUP])
    async with queue.client as client:
        created = [
            (DEVICE_CLASSES, device_class()),
            (RESOURCE_SLICES, resource_slice("n1", "n1", device(0), device(1))),
        ]
        for resource, body in created:
            await client.create(resource, body)
        try:
            await submit(queue, "a", "pair")
            waiting = await queue.workload("a", is_true("QuotaReserved", "Misconfigured", "False"))
            said = str(waiting["status"]["conditions"])
            assert "ResourceClaimTemplate pair: it does not exist" in said

            body = template("pair", 2, queue.name, memory="3Gi", cores="30")
            await client.create(RESOURCE_CLAIM_TEMPLATES, body)
            admitted = await queue.workload("a", is_true("Admitted"))
            (assigned,) = admitted["status"]["admission"]["podSetAssignments"]
            usage = {name: str(amount) for name, amount in assigned["resourceUsage"].items()}
            assert usage == {
                "cpu": "1", "gpu-cards": "2", "gpu-memory": str(6 * 2**30), "gpu-cores": "60",
            }  # fmt: skip

            await submit(queue, "b", "pair")
            waiting = await queue.workload("b", is_true("QuotaReserved", status="False"))
            assert "gpu-memory" in str(waiting["status"]["conditions"])
        finally:
            for resource, body in created:
                await client.delete(resource, body["metadata"]["name"])
