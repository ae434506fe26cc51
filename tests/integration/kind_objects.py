"""Minimal CRDs of kinds of jobs, objects of them, and a hand that plays their controllers."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from federation.api.kinds.row import Row
from federation.api.kinds.table import ROWS
from federation.edge.errors import ServerError
from federation.edge.kube import KubeClient
from federation.edge.resources import Resource

Json = dict[str, Any]
_ANY: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def row(kind: str) -> Row:
    """The row of the table."""
    return next(found for found in ROWS if found.kind == kind)


def crd(row: Row) -> Json:
    """A CRD that takes anything, with a status subresource as the real one has."""
    schema = {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}
    version = {
        "name": row.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{row.plural}.{row.group}",
            # What belongs to the groups of the project asks for this; the others may have it too.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests only"},
        },
        "spec": {
            "group": row.group,
            "scope": "Namespaced",
            "names": {"kind": row.kind, "plural": row.plural, "singular": row.kind.lower()},
            "versions": [version],
        },
    }


def template(cpu: str = "1") -> Json:
    """A pod template."""
    container = {
        "name": "main",
        "image": "example.invalid/none",
        "resources": {"requests": {"cpu": cpu}},
    }
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def of(row: Row, name: str, team: str, spec: Json) -> Json:
    """An object in the queue of a team."""
    return {
        "apiVersion": row.api_version,
        "kind": row.kind,
        "metadata": {
            "name": name,
            "namespace": team,
            "labels": {"kueue.x-k8s.io/queue-name": team},
        },
        "spec": spec,
    }


def job_set(name: str, team: str, *, cpu: str = "1") -> Json:
    """A JobSet of a driver and two workers of two pods each."""
    jobs = [
        {"name": "driver", "template": {"spec": {"template": template(cpu)}}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {"spec": {"parallelism": 2, "completions": 2, "template": template(cpu)}},
        },
    ]
    return of(row("JobSet"), name, team, {"replicatedJobs": jobs})


async def until(client: KubeClient, resource: Resource, key: tuple[str, str], holds: Any) -> Json:
    """Watch an object until something holds; the time limit is the test's."""
    namespace, name = key
    selector = f"metadata.name={name}" if name else ""
    async with aclosing(client.watch(resource, namespace, field_selector=selector)) as events:
        async for event in events:
            if event.type in {"ADDED", "MODIFIED"} and holds(event.object):
                return event.object
    raise AssertionError("the watch ended")


async def gone(client: KubeClient, resource: Resource, key: tuple[str, str]) -> None:
    """Wait until an object is deleted."""
    namespace, name = key
    found = await client.list(resource, namespace)
    if not any(item["metadata"]["name"] == name for item in found.items):
        return
    watch = client.watch(
        resource,
        namespace,
        field_selector=f"metadata.name={name}",
        resource_version=found.resource_version,
    )
    async with aclosing(watch) as events:
        async for event in events:
            if event.type == "DELETED":
                return


async def say(client: KubeClient, resource: Resource, key: tuple[str, str], status: Json) -> Json:
    """Write a status, as the controller of the kind does."""
    namespace, name = key
    patch = [{"op": "add", "path": "/status", "value": status}]
    return await client.patch(resource, name, patch, namespace, kind="json", subresource="status")


def says(kind: str, status: str = "True") -> Json:
    """A condition."""
    return {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": f"{kind} it is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def create(client: KubeClient, resource: Resource, body: Json) -> Json:
    """Create an object of a kind whose CRD may be new: for some seconds API servers answer 503,
    until their admission policies know the kind.
    """
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(ServerError),
        wait=wait_fixed(0.5),
        stop=stop_after_delay(60),
        reraise=True,
    ):
        with attempt:
            return await client.create(resource, body)
    raise AssertionError("not created")
