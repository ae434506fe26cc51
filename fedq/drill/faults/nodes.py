"""Nodes of a worker that lose power."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from federation.edge.kube import KubeClient
from federation.edge.resources import NODES, PODS, Json
from fedq.drill.faults.processes import running_part, strike
from fedq.rig.rig import Rig


@asynccontextmanager
async def powered_off(
    rig: Rig, client: KubeClient, cluster: str, nodes: Collection[str]
) -> AsyncIterator[list[Json]]:
    """The processes of all pods on these nodes are killed, and the Node objects are gone while the
    block runs, as a cloud removes them; afterwards the nodes are there again, empty. Yields the
    pods that were on them.
    """
    pods = (await client.list(PODS)).items
    hit = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") in nodes]
    kept = [await client.get(NODES, node) for node in sorted(nodes)]
    for pod in hit:
        uid = pod["metadata"]["uid"]
        for pid in await asyncio.to_thread(running_part, rig, f"pods/{cluster}", uid):
            strike(pid)
    try:
        for node in kept:
            await client.delete(NODES, node["metadata"]["name"])
        yield hit
    finally:
        for node in kept:
            meta = {key: node["metadata"].get(key) for key in ("name", "labels", "annotations")}
            body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": node["status"]}
            await client.create(NODES, body)
