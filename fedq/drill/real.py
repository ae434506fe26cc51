"""The few drills that are fit for a real cluster: what happens to every installation now and then.

Only Fedq's own pods are touched, and only in the namespace `fedq-system`. The verdict comes from
the jobs that run there anyway: none of them may move or start again meanwhile. (Their processes do
not write records; so this is weaker than on a rig, and the report says so.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from federation.api.names import FEDQ_NAMESPACE, Order
from federation.edge.errors import ApiError
from federation.edge.kube import KubeClient
from federation.edge.resources import MULTIKUEUE_CLUSTERS, PODS, WORKLOADS
from fedq.drill.result import Expectations, Outcome, Result
from fedq.drill.timeline import Timeline, What
from fedq.drill.witness import Json, bound

COMPONENT = "app.kubernetes.io/component"
WATCHED_S = 60.0
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


async def run_real(
    drill: RealDrill, client: KubeClient, cluster: str, tell: Callable[[str], None]
) -> Result:
    """Do it to the cluster of `client`. `cluster` is the worker to cordon.

    For the agent `client` is that of its worker, where no Workload of ours says which attempt runs;
    there only the return of the agent is checked.
    """
    timeline, expect = Timeline(), Expectations()
    before = await _attempts(client)
    began = timeline.mark(What.FAULT, cluster, "", drill.shows).at
    try:
        if drill.component:
            await _replace_pods(drill, client, timeline, expect)
        else:
            await _cordoned(client, cluster, tell)
    except ApiError as error:
        expect.true(drill.shows, False, str(error))
    timeline.mark(What.HEALED, cluster)
    after = await _attempts(client)
    for name, attempt in before.items():
        if name in after:
            expect.equal(f"cluster and attempt of {name}", after[name], attempt)
    outcome = Outcome.FAILED if expect.broken else Outcome.PASSED
    return Result(
        drill.name,
        "",
        drill.shows,
        outcome,
        reasons=expect.broken,
        findings=expect.findings,
        marks=timeline.marks,
        fault_at=began,
        how="a real cluster: judged by the attempts of its jobs, not by records of their processes",
    )


async def _attempts(client: KubeClient) -> dict[str, str]:
    """Bound jobs that have not finished: name → cluster and attempt."""
    found = {}
    for workload in (await client.list(WORKLOADS)).items:
        meta = workload["metadata"]
        if (where := bound(workload)) is not None and not _over(workload):
            found[f"{meta['namespace']}/{meta['name']}"] = f"{where[0]}, attempt {where[1]}"
    return found


def _over(workload: Json) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)


async def _replace_pods(
    drill: RealDrill, client: KubeClient, timeline: Timeline, expect: Expectations
) -> None:
    old = await _pods(client, drill.component)
    label = f"{COMPONENT}={drill.component}"
    expect.true(
        f"pods in {FEDQ_NAMESPACE} have the label {label}",
        bool(old),
        f"none was found. How the {drill.component} is deployed is yours to say; give its pods that"
        " label, in that namespace, and let something (a Deployment) replace what is deleted",
    )
    if not old:
        return
    for name in old:
        await client.delete(PODS, name, FEDQ_NAMESPACE)
        timeline.mark(What.NOTE, detail=f"pod {name} deleted")
    back = None
    for _ in range(int(BACK_S)):
        ready = await _pods(client, drill.component, ready=True)
        if len(set(ready) - set(old)) >= len(old) > 0:
            back = timeline.mark(What.NOTE, detail="its successor is ready").at
            break
        await asyncio.sleep(1)  # a poll interval inside a bounded wait
    begun = timeline.marks[0].at
    expect.at_most("its successor is ready", None if back is None else back - begun, BACK_S)


async def _pods(client: KubeClient, component: str, *, ready: bool = False) -> list[str]:
    selector = f"{COMPONENT}={component}"
    page = await client.list(PODS, FEDQ_NAMESPACE, label_selector=selector)
    return [
        pod["metadata"]["name"]
        for pod in page.items
        if not ready
        or any(
            c["type"] == "Ready" and c["status"] == "True"
            for c in (pod.get("status") or {}).get("conditions") or ()
        )
    ]


async def _cordoned(client: KubeClient, cluster: str, tell: Callable[[str], None]) -> None:
    async def note(value: str | None) -> None:
        body = {"metadata": {"annotations": {Order.CORDON.value: value}}}
        await client.patch(MULTIKUEUE_CLUSTERS, cluster, body)

    shown = await client.get(MULTIKUEUE_CLUSTERS, cluster)
    notes = shown["metadata"].get("annotations") or {}
    tell(f"  {cluster} is cordoned for {WATCHED_S:.0f} s")
    await note("a drill")
    try:
        await asyncio.sleep(WATCHED_S)  # how long the cordon lasts
    finally:
        await note(notes.get(Order.CORDON.value))
