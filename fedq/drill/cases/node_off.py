"""Nodes of a worker lose power: what ran there runs again, by the Job's own retries where its pods
may go to another node; a job that its cards tie to its node is queued again.
"""

from __future__ import annotations

from collections.abc import Iterable

from federation.core.reasons import Reason
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, Json
from fedq.drill.cases.common import expect_others_well, start_on_one
from fedq.drill.faults.nodes import powered_off
from fedq.drill.ground import Ground
from fedq.drill.jobs import CARDS_OF_A_NODE, Plan
from fedq.drill.timeline import What

SECONDS = 25
GANG = Plan(1, SECONDS, prefix="gang", pods=2, cards=CARDS_OF_A_NODE)
TIED = Plan(1, SECONDS, prefix="tied", cards=CARDS_OF_A_NODE // 2)
PLAIN = Plan(8, SECONDS, prefix="plain", cards=0)


async def power_off(ground: Ground) -> None:
    """Two nodes: one of a gang that takes two, and that of a job whose template names its node. The
    processes of all their pods are killed, and the Node objects go, as a cloud removes them.
    """
    victim, names = await start_on_one(ground, [GANG, TIED, PLAIN])
    client = ground.clients[victim]
    pods = await _pods(client, ground.namespace)
    off = {_nodes(pods, "gang-000")[0], _nodes(pods, "tied-000")[0]}
    ground.strike(victim, note=f"{' and '.join(sorted(off))} lose power")
    async with powered_off(ground.stack.rig, client, victim, off) as hit:
        await ground.past(15)
    ground.heal("they are back")
    await ground.complete(names, 180)
    mine = [pod for pod in hit if pod["metadata"]["namespace"] == ground.namespace]
    _expect(ground, names, [_job(pod) for pod in mine])
    fresh = await ground.submit(Plan(8, 2, prefix="fresh", cards=4, on=victim))
    await ground.complete(fresh, 60)  # all 32 cards of it are free again, each once
    expect_others_well(ground)


def _expect(ground: Ground, names: Iterable[str], hit: list[str]) -> None:
    """What is tied to a node moves, once; the rest is tried again where it is."""
    for name in names:
        runs, tied = ground.runs_of(name), name.startswith(TIED.prefix)
        attempts = {run.subject.attempt for run in runs}
        ground.expect.equal(f"attempts of {name}", attempts, {1, 2} if tied else {1})
        wanted = ground.plans[name].pods + hit.count(name)
        ground.expect.equal(f"runs of {name}", len(runs), wanted)
    moved = [mark.detail for mark in ground.timeline.find(What.EVICTED, after=ground.fault_at)]
    ground.expect.equal("evictions", moved, [Reason.EVICTED_ON_WORKER_CLUSTER.value])
    ended = {mark.detail for mark in ground.timeline.find(What.FINISHED)}
    ground.expect.equal("results", ended, {"Complete"})
    ground.expect.equal("fences", len(ground.timeline.find(What.FENCED, after=ground.fault_at)), 0)


async def _pods(client: KubeClient, namespace: str) -> list[Json]:
    """The pods of the drill that have a node."""
    return [pod for pod in (await client.list(PODS, namespace)).items if _node(pod)]


def _nodes(pods: Iterable[Json], job: str) -> list[str]:
    """The nodes on which a Job has pods, in order of their names."""
    return sorted(_node(pod) for pod in pods if _job(pod) == job)


def _node(pod: Json) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _job(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"])
