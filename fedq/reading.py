"""What commands read from the management cluster, as views."""

from __future__ import annotations

import asyncio
from typing import Any

from federation.api.names import FEDQ_NAMESPACE
from federation.core.quantity import QuantityError
from federation.edge.errors import Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    CLUSTER_QUEUES,
    LEASES,
    MULTIKUEUE_CLUSTERS,
    WORKER_REPORTS,
    WORKLOADS,
    Resource,
)
from fedq.clusterview import ClusterView, cluster_views
from fedq.errors import FAILED, CommandError
from fedq.jobview import JobView, job_views
from fedq.objects import all_objects
from fedq.queueview import QueueView, queue_view

Json = dict[str, Any]


async def jobs(client: KubeClient, namespace: str | None) -> list[JobView]:
    """The jobs of one namespace, or of all (None)."""
    found, workloads = await asyncio.gather(
        all_objects(client, namespace), client.list(WORKLOADS, namespace)
    )
    return job_views(found, workloads.items)


async def queues(client: KubeClient) -> list[QueueView]:
    """All ClusterQueues. Raises CommandError when one cannot be read."""
    found = await client.list(CLUSTER_QUEUES)
    views = []
    for obj in found.items:
        try:
            views.append(queue_view(obj))
        except (QuantityError, ValueError) as error:
            name = obj["metadata"]["name"]
            raise CommandError(f"ClusterQueue {name} cannot be read", str(error)) from error
    return sorted(views, key=lambda view: view.name)


async def clusters(client: KubeClient, jobs: list[JobView]) -> list[ClusterView]:
    """All worker clusters; Leases that may not be read are left out."""
    found, leases = await asyncio.gather(client.list(MULTIKUEUE_CLUSTERS), _leases(client))
    return cluster_views(found.items, leases, jobs)


async def is_worker(client: KubeClient) -> bool:
    """Whether an agent works on this cluster: it publishes a WorkerReport there."""
    try:
        return bool((await client.list(WORKER_REPORTS)).items)
    except (Forbidden, NotFound):
        return False


async def _leases(client: KubeClient) -> list[Json]:
    try:
        return (await client.list(LEASES, FEDQ_NAMESPACE)).items
    except Forbidden:
        return []


async def find(client: KubeClient, resource: Resource, name: str, namespace: str = "") -> Json:
    """One object. Raises CommandError, naming where else one of that name is."""
    try:
        return await client.get(resource, name, namespace or None)
    except NotFound as error:
        if "page not found" in str(error):
            raise
        raise await _not_found(client, resource, name, namespace) from error


async def _not_found(
    client: KubeClient, resource: Resource, name: str, namespace: str
) -> CommandError:
    try:
        field = f"metadata.name={name}"
        others = (await client.list(resource, field_selector=field)).items if namespace else []
    except Forbidden:
        others = []
    spaces = [obj["metadata"]["namespace"] for obj in others]
    where = f" in namespace {namespace}" if namespace else ""
    todo = f"There is one in {', '.join(spaces)}: use -n {spaces[0]}." if spaces else ""
    kind = {"clusterqueues": "queue", "multikueueclusters": "cluster"}.get(
        resource.plural, resource.plural.removesuffix("s")
    )
    listing = {"queue": "queues", "cluster": "clusters", "job": "jobs", "workload": "workloads"}
    hint = f"`fedq get {listing.get(kind, kind)}` shows what there is."
    return CommandError(f"there is no {kind} {name}{where}", todo=todo or hint, code=FAILED)
