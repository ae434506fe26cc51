"""Waiting until a cluster is empty, and taking out what stands for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from federation.api.names import FEDQ_NAMESPACE, Lease, Order
from federation.edge.errors import Conflict, NotFound
from federation.edge.informer import Informer, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import LEASES, WORKLOADS, Resource
from fedq.clusterdata import Situation
from fedq.errors import CommandError
from fedq.evacuation import binding_on

Json = dict[str, Any]
Progress = Callable[[int], None]
"""Hears how many jobs are left, whenever that changes."""


async def until_empty(
    client: KubeClient, cluster: str, limit: float | None, progress: Progress
) -> None:
    """Until no Workload is bound to the cluster; for `limit` seconds at most, if there is one.
    Raises CommandError when that is too short.
    """
    changed = asyncio.Event()

    def bound(workload: Json) -> str | None:
        found = binding_on(cluster, workload)
        return workload["metadata"]["uid"] if found else None

    left: Store[str] = Store(bound, lambda key, old, new: changed.set())
    informer = Informer(client, WORKLOADS, left)
    running = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(limit):
            await informer.synced.wait()
            told = -1
            while left.items:
                changed.clear()
                if told != (told := len(left.items)):
                    progress(told)
                await changed.wait()
    except TimeoutError as error:
        raise CommandError(
            f"{len(left.items)} jobs are still bound to cluster {cluster}",
            f"they had {limit:g} s; the order stands, and they go on leaving",
            f"Wait again: `fedq cluster drain {cluster} --wait`, with --now if you gave it; see"
            " them: `fedq get jobs -A`.",
        ) from error
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def note_on_lease(client: KubeClient, found: Situation, epoch: int, evidence: str) -> None:
    """Say on the Lease of a cluster that all below an epoch is dead, as a manager does that follows
    such an order. Raises CommandError if the Lease was written since it was read.
    """
    assert found.lease is not None
    notes = {Lease.CONFIRMED_BELOW.value: str(epoch), Order.FENCE_EVIDENCE.value: evidence or None}
    version = found.lease["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version, "annotations": notes}}
    try:
        await client.patch(LEASES, found.name, body, FEDQ_NAMESPACE, field_manager="fedq-cli")
    except Conflict:
        raise CommandError(
            f"the Lease of {found.name} was written meanwhile",
            "its agent may be back, so nothing there was called dead",
            f"`fedq get clusters {found.name}` shows how it stands; then try again.",
        ) from None


async def remove_all(client: KubeClient, objects: list[Json]) -> None:
    """Delete objects in order; those that are gone already do not matter."""
    for obj in objects:
        meta = obj["metadata"]
        try:
            await client.delete(_resource(obj), meta["name"], meta.get("namespace"))
        except NotFound:
            continue


def _resource(obj: Json) -> Resource:
    """Where an object of these few kinds is served."""
    group, _, version = obj["apiVersion"].rpartition("/")
    return Resource(group, version, f"{obj['kind'].lower()}s", "namespace" in obj["metadata"])
