"""The few drills that are fit for a real cluster: what happens to every installation now and then.

Only Fedq's own pods are touched, and only in the namespace `fedq-system`. The verdict comes from
the jobs that run there anyway: none of them may stop, move or start again meanwhile. (Their
processes do not write records; so this is weaker than on a rig, and the report says so.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from federation.api.names import FEDQ_NAMESPACE, Order
from federation.edge.errors import ApiError
from federation.edge.kube import KubeClient
from federation.edge.resources import MULTIKUEUE_CLUSTERS, PODS
from fedq import reading
from fedq.connect import Cluster
from fedq.drill.inventory import Inventory, compare, take
from fedq.drill.result import Expectations, Outcome, Result
from fedq.drill.timeline import Timeline, What
from fedq.errors import CommandError

COMPONENT = "app.kubernetes.io/component"
WATCHED_S = 60.0
"""What runs is looked at again so long after the successors are ready, or after a cordon began."""
BACK_S = 60.0
"""Within which a pod that was deleted has a successor that is ready."""


@dataclass(frozen=True, slots=True)
class RealDrill:
    """What is done to a real cluster. `component` is the one whose pods are deleted; empty: a
    cluster is cordoned instead.
    """

    name: str
    shows: str
    component: str = ""


REAL = (
    RealDrill("manager-killed", "The manager's pods are deleted: running jobs go on", "manager"),
    RealDrill("agent-killed", "The agent's pods are deleted: running jobs go on", "agent"),
    RealDrill("cordon", "A worker is cordoned for a minute: what runs there goes on"),
)


def refusal(name: str) -> str:
    """Why a drill must not run on a real cluster; empty when it may."""
    if any(drill.name == name for drill in REAL):
        return ""
    allowed = ", ".join(drill.name for drill in REAL)
    return f"{name} would destroy something there, or needs a rig; on real clusters: {allowed}"


async def foresee(drill: RealDrill, cluster: Cluster, worker: str) -> list[str]:
    """What `run_real` would do, line by line; changes nothing. Raises CommandError or ApiError if
    it could not be done.
    """
    if drill.component:
        if not (names := await _pods(cluster.client, drill.component)):
            raise CommandError(f"no pod would be deleted: {_unlabelled(drill)}")
        todo = [f"delete pod {name} in {FEDQ_NAMESPACE}" for name in names.values()]
        todo.append(f"wait up to {BACK_S:.0f} s for as many that are ready")
    else:
        notes = await _notes(cluster.client, worker)
        after = (
            "put the cordon back that is there" if Order.CORDON.value in notes else "uncordon it"
        )
        todo = [f"cordon {worker}, and {after} after {WATCHED_S:.0f} s"]
    there = await _take(drill, cluster)
    return [*todo, f"see that what runs now is untouched {WATCHED_S:.0f} s later: {there}"]


async def run_real(
    drill: RealDrill, cluster: Cluster, worker: str, tell: Callable[[str], None]
) -> Result:
    """Do it to a cluster. `worker` is the one to cordon. Raises CommandError before anything is
    done if it cannot be seen what runs.

    For an agent the cluster is its worker, where no Workload of ours says which attempt runs: its
    pods are judged by themselves.
    """
    timeline, expect = Timeline(), Expectations()
    before = await _take(drill, cluster)
    tell(f"  {before} are running")
    began = timeline.mark(What.FAULT, worker, "", drill.shows).at
    try:
        if drill.component:
            await _replace_pods(drill, cluster.client, timeline, expect, tell)
        else:
            await _cordoned(cluster.client, worker, tell)
    except ApiError as error:
        expect.true(drill.shows, False, str(error))
    timeline.mark(What.HEALED, worker)
    try:
        compare(before, await _take(drill, cluster), expect)
    except (ApiError, CommandError) as error:
        expect.true("what runs can be seen afterwards", False, str(error))
    return Result(
        drill.name,
        "",
        drill.shows,
        Outcome.FAILED if expect.broken else Outcome.PASSED,
        reasons=expect.broken,
        findings=expect.findings,
        remarks=expect.remarks,
        marks=timeline.marks,
        fault_at=began,
        how="a real cluster: judged by the attempts of its jobs, and by UIDs and restarts of their"
        " pods on the worker clusters, not by records of their processes",
    )


async def _take(drill: RealDrill, cluster: Cluster) -> Inventory:
    alone = drill.component == "agent" and await reading.is_worker(cluster.client)
    return await take(cluster, behind=not alone)


def _unlabelled(drill: RealDrill) -> str:
    return (
        f"none was found in {FEDQ_NAMESPACE} with the label {COMPONENT}={drill.component}. How the"
        f" {drill.component} is deployed is yours to say; give its pods that label, in that"
        " namespace, and let something (a Deployment) replace what is deleted"
    )


async def _replace_pods(
    drill: RealDrill,
    client: KubeClient,
    timeline: Timeline,
    expect: Expectations,
    tell: Callable[[str], None],
) -> None:
    old = await _pods(client, drill.component)
    expect.true("there are pods to delete", bool(old), _unlabelled(drill))
    if not old:
        return
    for name in old.values():
        await client.delete(PODS, name, FEDQ_NAMESPACE)
        timeline.mark(What.NOTE, detail=f"pod {name} deleted")
    back = None
    for _ in range(int(BACK_S)):
        ready = await _pods(client, drill.component, ready=True)
        if len(ready.keys() - old.keys()) >= len(old):
            back = timeline.mark(What.NOTE, detail="its successor is ready").at
            break
        await asyncio.sleep(1)  # a poll interval inside a bounded wait
    begun = timeline.marks[0].at
    expect.at_most("its successor is ready", None if back is None else back - begun, BACK_S)
    tell(f"  what runs is watched for {WATCHED_S:.0f} s")
    await asyncio.sleep(WATCHED_S)  # how long that is


async def _pods(client: KubeClient, component: str, *, ready: bool = False) -> dict[str, str]:
    """UID → name: the successor of a pod may have its name."""
    selector = f"{COMPONENT}={component}"
    page = await client.list(PODS, FEDQ_NAMESPACE, label_selector=selector)
    return {
        pod["metadata"]["uid"]: pod["metadata"]["name"]
        for pod in page.items
        if not ready
        or any(
            c["type"] == "Ready" and c["status"] == "True"
            for c in (pod.get("status") or {}).get("conditions") or ()
        )
    }


async def _notes(client: KubeClient, cluster: str) -> dict[str, str]:
    """Annotations of a MultiKueueCluster."""
    shown = await client.get(MULTIKUEUE_CLUSTERS, cluster)
    return dict(shown["metadata"].get("annotations") or {})


async def _cordoned(client: KubeClient, cluster: str, tell: Callable[[str], None]) -> None:
    async def note(value: str | None) -> None:
        body = {"metadata": {"annotations": {Order.CORDON.value: value}}}
        await client.patch(MULTIKUEUE_CLUSTERS, cluster, body)

    before = (await _notes(client, cluster)).get(Order.CORDON.value)
    tell(f"  {cluster} is cordoned for {WATCHED_S:.0f} s")
    try:
        await note("a drill")
        await asyncio.sleep(WATCHED_S)  # how long the cordon lasts
    finally:
        try:
            await note(before)
        except ApiError:
            tell(f"  {cluster} may still be cordoned: `fedq cluster uncordon {cluster}` ends that")
            raise
