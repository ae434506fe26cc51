"""Jobs and queues on one worker cluster, for tests of the agent alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from federation.api.names import Label, Mirror
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import JOBS, PODS, WORKLOADS, Resource
from fedq.stack import Stack
from tests.integration.conftest import API, queue_objects

Json = dict[str, Any]
Holds = Callable[[Json], object]


@dataclass
class Place:
    """A team on worker-1 whose queue has rules of its own."""

    client: KubeClient
    name: str

    def job(self, name: str, *, cpu: int = 1, pods: int = 1, of: str = "", **more: Any) -> Json:
        """A Job in this team's queue; `seconds` it runs, `stop` seconds it takes to stop."""
        steer = {
            "fedq.io/run-seconds": str(more.get("seconds", 600)),
            "fedq.io/stop-seconds": str(more.get("stop", 0)),
        }
        container = {
            "name": "main",
            "image": "example.invalid/none",
            "resources": {"requests": {"cpu": str(cpu)}},
        }
        labels = {Label.QUEUE_NAME.value: self.name}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": self.name,
                "labels": labels | ({Label.PRIORITY_CLASS.value: of} if of else {}),
                "annotations": more.get("annotations", {}),
            },
            "spec": {
                "suspend": True,
                "parallelism": pods,
                "completions": more.get("completions", pods),
                "completionMode": more.get("mode", "NonIndexed"),
                "backoffLimit": more.get("retries", 0),
                "template": {
                    "metadata": {"annotations": steer | more.get("template", {})},
                    "spec": {"restartPolicy": "Never", "containers": [container]},
                },
            },
        }

    def copy(self, name: str, *, priority: int = 0, **more: Any) -> Json:
        """A copy as a manager offers it."""
        body = self.job(name, **more)
        body["metadata"]["labels"][Label.MULTIKUEUE_ORIGIN.value] = "test"
        body["metadata"]["annotations"] |= {
            Mirror.LOCAL_UID.value: str(uuid.uuid4()),
            Mirror.ATTEMPT.value: "1",
            Mirror.EPOCH.value: "1",
            Mirror.QUEUED_AT.value: "2026-01-01T00:00:00Z",
            Mirror.PRIORITY.value: str(priority),
        }
        return body

    async def submit(self, body: Json) -> Json:
        """Create a Job."""
        return await self.client.create(JOBS, body)

    async def until(self, name: str, holds: Holds, resource: Resource = JOBS) -> Json:
        """Watch an object until something holds; the time limit is the test's."""
        events = self.client.watch(resource, self.name, field_selector=f"metadata.name={name}")
        async with aclosing(events):
            async for event in events:
                if event.type in {"ADDED", "MODIFIED"} and holds(event.object):
                    return event.object
        raise AssertionError("the watch ended")

    async def workload(self, job: str, holds: Holds) -> Json:
        """The same for the Workload of a Job."""
        async with aclosing(self.client.watch(WORKLOADS, self.name)) as events:
            async for event in events:
                owners = event.object["metadata"].get("ownerReferences") or [{"name": ""}]
                found = event.type in {"ADDED", "MODIFIED"} and owners[0]["name"] == job
                if found and holds(event.object):
                    return event.object
        raise AssertionError("the watch ended")

    async def until_pods(self, job: str, holds: Callable[[list[Json]], object]) -> list[Json]:
        """Watch the pods of a Job until something holds for those that there are."""
        found: dict[str, Json] = {}
        events = self.client.watch(PODS, self.name, label_selector=f"job-name={job}")
        async with aclosing(events):
            async for event in events:
                name = event.object["metadata"].get("name", "")
                if event.type in {"ADDED", "MODIFIED"}:
                    found[name] = event.object
                elif event.type == "DELETED":
                    found.pop(name, None)
                if holds(list(found.values())):
                    return list(found.values())
        raise AssertionError("the watch ended")

    async def pods(self, job: str) -> list[Json]:
        """The pods of a Job as they are."""
        selector = f"job-name={job}"
        return list((await self.client.list(PODS, self.name, label_selector=selector)).items)


def place(stack: Stack, cpu: int, *, worker: str = "worker-1", **rules: Any) -> Place:
    """A namespace with a LocalQueue and a ClusterQueue of `cpu` cores and more `rules`."""
    name = f"place-{uuid.uuid4().hex[:6]}"
    objects = queue_objects(name, cpu)
    next(o for o in objects if o["kind"] == "ClusterQueue")["spec"] |= rules
    stack.apply(worker, objects)
    client = KubeClient(load_endpoint(stack.rig.kubeconfig(worker)), user_agent="test")
    return Place(client, name)


def priority_class(name: str, value: int) -> Json:
    """A WorkloadPriorityClass."""
    return {
        "apiVersion": API,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def running(job: Json) -> bool:
    """Its pods are there."""
    status = job.get("status") or {}
    return not job["spec"]["suspend"] and bool(status.get("active"))


def is_true(kind: str, reason: str = "", status: str = "True") -> Holds:
    """Whether a condition holds, with a reason."""
    return lambda obj: any(
        c["type"] == kind and c["status"] == status and reason in ("", c["reason"])
        for c in (obj.get("status") or {}).get("conditions") or ()
    )
