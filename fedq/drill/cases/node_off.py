"""A node of a worker loses power: its pods are gone, and the Jobs try again there, as their
backoffLimit says, in the same attempt.
"""

from __future__ import annotations

import asyncio

from federation.edge.kube import KubeClient
from federation.edge.resources import NODES, PODS
from fedq.drill.cases.common import expect_others_well, start_on_one
from fedq.drill.faults.processes import running_part, strike
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.timeline import What


async def power_off(ground: Ground) -> None:
    """The processes of all its pods are killed, and the Node object goes, as a cloud removes it."""
    victim, names = await start_on_one(ground, [Plan(6, 25, cards=4)])
    client, rig = ground.clients[victim], ground.stack.rig
    node, pods = await _busiest(client, ground.namespace)
    kept = await client.get(NODES, node)
    ground.strike(victim, note=f"{node} loses power")
    for uid in pods:
        for pid in await asyncio.to_thread(running_part, rig, f"pods/{victim}", uid):
            strike(pid)
    await client.delete(NODES, node)
    hit = len(pods)
    await ground.past(15)
    meta = {key: kept["metadata"].get(key) for key in ("name", "labels", "annotations")}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": kept["status"]}
    await client.create(NODES, body)
    ground.heal(f"{node} is back")
    await ground.complete(names, 180)
    attempts = {run.subject.attempt for run in ground.runs()}
    ground.expect.equal("attempts", attempts, {1})
    ground.expect.equal("runs", len(ground.runs()), len(names) + hit)
    ground.expect.equal("fences", len(ground.timeline.find(What.FENCED, after=ground.fault_at)), 0)
    fresh = await ground.submit(Plan(8, 2, prefix="fresh", cards=4, on=victim))
    await ground.complete(fresh, 60)  # all 32 cards of it are free again, each once
    expect_others_well(ground)


async def _busiest(client: KubeClient, namespace: str) -> tuple[str, list[str]]:
    """The node with most pods of the drill, and the UIDs of those."""
    found: dict[str, list[str]] = {}
    for pod in (await client.list(PODS, namespace)).items:
        if node := pod["spec"].get("nodeName"):
            found.setdefault(node, []).append(pod["metadata"]["uid"])
    return max(found.items(), key=lambda item: (len(item[1]), item[0]))
