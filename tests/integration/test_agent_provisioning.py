"""The agent of a real cluster asks for nodes, with its own rights; the test is the autoscaler."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from federation.api.names import Controller
from federation.edge.errors import NotFound, TooManyRequests
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CRDS,
    POD_TEMPLATES,
    PROVISIONING_CONFIGS,
    PROVISIONING_REQUESTS,
)
from fedq.stack import DEPLOY, Stack
from tests.integration.agents import Place, is_true, place, running
from tests.integration.conftest import API
from tests.integration.test_crds import minimal_crd

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
PROCESS = "agent/worker-1"


@pytest.fixture
async def nodes(agents: Stack, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A queue of four cores whose check asks for nodes."""
    name = f"nodes-{uuid.uuid4().hex[:6]}"
    strategy = {"admissionChecks": [{"name": name}]}
    found = place(agents, 4, admissionChecksStrategy=strategy)
    rights = str(DEPLOY / "kustomize" / "worker" / "provisioning")
    agents.rig.kubectl("worker-1", "apply", "--server-side", "-k", rights)
    async with found.client as client:
        res = PROVISIONING_REQUESTS
        crd = minimal_crd(res.group, res.version, "ProvisioningRequest")
        crd["spec"]["versions"][0]["subresources"] = {"status": {}}
        await client.create(CRDS, crd)
        await served(client)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig"}
        check = {
            "controllerName": Controller.PROVISIONING_REQUEST.value,
            "parameters": parameters | {"name": name},
        }
        meta = {"apiVersion": API, "metadata": {"name": name}}
        config = {"provisioningClassName": "queued", "managedResources": ["cpu"]}
        body = meta | {"kind": "ProvisioningRequestConfig", "spec": config}
        await client.create(PROVISIONING_CONFIGS, body)
        await client.create(ADMISSION_CHECKS, meta | {"kind": "AdmissionCheck", "spec": check})
        agents.rig.stop_process(PROCESS, grace=0)
        monkeypatch.setenv("FEDQ_PROVISIONING", "true")
        agents.start_agent("worker-1")
        await active(client, name)
        yield found
        agents.rig.stop_process(PROCESS, grace=0)
        monkeypatch.delenv("FEDQ_PROVISIONING")
        agents.start_agent("worker-1")
        await client.delete(CRDS, crd["metadata"]["name"])


async def served(client: KubeClient) -> None:
    """Until the API server has made room for the new kind: before, it answers 404, then 429."""
    patience = {"stop": stop_after_delay(30), "wait": wait_fixed(0.1), "reraise": True}
    starts = retry_if_exception_type((NotFound, TooManyRequests))
    async for attempt in AsyncRetrying(retry=starts, **patience):
        with attempt:
            await client.list(PROVISIONING_REQUESTS)


async def active(client: KubeClient, name: str) -> None:
    """Until the agent has said that it answers a check: its ClusterQueue is inactive before."""
    async for attempt in AsyncRetrying(stop=stop_after_delay(30), wait=wait_fixed(0.1)):
        with attempt:
            assert is_true("Active")(await client.get(ADMISSION_CHECKS, name))


async def request(place: Place) -> Json:
    """What it asks for, when it does."""
    async with aclosing(place.client.watch(PROVISIONING_REQUESTS, place.name)) as events:
        async for event in events:
            if event.type == "ADDED":
                return event.object
    raise AssertionError("the watch ended")


async def test_nodes_are_asked_for_and_used(nodes: Place) -> None:
    """For a copy of two pods: a template and a request; it is started when the nodes are there."""
    await nodes.submit(nodes.copy("a", cpu=1, pods=2))
    asked = await request(nodes)
    (pods,) = asked["spec"]["podSets"]
    assert pods["count"] == 2
    assert asked["spec"]["provisioningClassName"] == "queued"
    made = await nodes.client.get(POD_TEMPLATES, pods["podTemplateRef"]["name"], nodes.name)
    assert made["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    waiting = await nodes.workload("a", is_true("QuotaReserved"))
    assert not is_true("Admitted")(waiting)

    done = {"type": "Provisioned", "status": "True", "reason": "Provisioned", "message": "made"}
    done["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    name = asked["metadata"]["name"]
    body = {"status": {"conditions": [done]}}
    await nodes.client.patch(PROVISIONING_REQUESTS, name, body, nodes.name, subresource="status")
    job = await nodes.until("a", running)
    notes = job["spec"]["template"]["metadata"]["annotations"]
    assert notes["autoscaling.x-k8s.io/consume-provisioning-request"] == name
    assert notes["autoscaling.x-k8s.io/provisioning-class-name"] == "queued"
