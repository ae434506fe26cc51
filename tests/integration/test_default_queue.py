"""Jobs without a queue name, in namespaces with and without a queue called `default`."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import JOBS
from fedq.stack import Stack
from tests.integration.conftest import API

if TYPE_CHECKING:
    from fedq.rig.rig import Rig

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"


def job(name: str, **metadata: Any) -> Json:
    container = {"name": "main", "image": "example.invalid/none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    meta = {"name": name, **metadata}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        # Never to run where no manager looks after it.
        "spec": {"parallelism": 0, "template": template},
    }


def queue(namespace: str) -> Json:
    meta = {"name": "default", "namespace": namespace}
    return {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": meta,
        "spec": {"clusterQueue": "x"},
    }


@pytest.fixture
async def management(rig: Rig) -> AsyncIterator[KubeClient]:
    Stack(rig).install()
    endpoint = load_endpoint(rig.kubeconfig(rig.management), None)
    async with KubeClient(endpoint, user_agent="tests") as client:
        yield client


def namespace(rig: Rig, *objects: Json) -> str:
    """A new namespace, with objects made for it."""
    name = f"default-{uuid.uuid4().hex[:6]}"
    meta = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    Stack(rig).apply(
        rig.management,
        [meta, *({**o, "metadata": {**o["metadata"], "namespace": name}} for o in objects)],
    )
    return name


async def until_taken(client: KubeClient, team: str, body: Json) -> Json:
    """Create Jobs until the policy knows the queue: the API server reads its parameters late."""
    async for attempt in AsyncRetrying(wait=wait_fixed(0.2), stop=stop_after_delay(30)):
        with attempt:
            made = await client.create(
                JOBS,
                {**body, "metadata": {**body["metadata"], "name": f"j-{uuid.uuid4().hex[:6]}"}},
                team,
            )
            assert made["spec"]["suspend"], made
    return made


@pytest.mark.timeout(120)
async def test_a_default_queue_takes_jobs_that_name_none(rig: Rig, management: KubeClient) -> None:
    """Labelled, suspended and taken over, with and without labels of their own."""
    team = namespace(rig, queue(""))
    for labels in ({"mine": "kept"}, {}):
        made = await until_taken(management, team, job("j", labels=labels))
        assert made["metadata"]["labels"][QUEUE] == "default"
        assert made["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
        assert labels.items() <= made["metadata"]["labels"].items()


@pytest.mark.timeout(120)
async def test_what_it_leaves_alone(rig: Rig, management: KubeClient) -> None:
    """Jobs that name a queue, that are part of something larger, or of another manager."""
    team = namespace(rig, queue(""))
    await until_taken(management, team, job("first"))
    owner = {"apiVersion": "x/v1", "kind": "JobSet", "name": "s", "uid": "u", "controller": True}
    parts = await management.create(JOBS, job("part", ownerReferences=[owner]), team)
    assert QUEUE not in parts["metadata"].get("labels", {})
    assert not parts["spec"]["suspend"]
    cron = {**owner, "apiVersion": "batch/v1", "kind": "CronJob"}
    made = await management.create(JOBS, job("cron", ownerReferences=[cron]), team)
    assert made["metadata"]["labels"][QUEUE] == "default"
    named = await management.create(JOBS, job("named", labels={QUEUE: "other"}), team)
    assert named["metadata"]["labels"][QUEUE] == "other"
    body = job("foreign")
    body["spec"]["managedBy"] = "example.com/else"
    foreign = await management.create(JOBS, body, team)
    assert QUEUE not in foreign["metadata"].get("labels", {})


@pytest.mark.timeout(120)
async def test_a_namespace_without_one_is_not_touched(rig: Rig, management: KubeClient) -> None:
    """The queue of another namespace is not its."""
    await until_taken(management, namespace(rig, queue("")), job("elsewhere"))
    made = await management.create(JOBS, job("j"), namespace(rig))
    assert QUEUE not in made["metadata"].get("labels", {})
    assert not made["spec"]["suspend"]
