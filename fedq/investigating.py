"""Gathering the facts about one job for `fedq why`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from federation.api import record as records
from federation.api.convert import to_local_queue
from federation.api.kinds.row import framework
from federation.api.names import Label
from federation.core.cycle import Requeue
from federation.core.devices.host.board import demands_of
from federation.core.facts import BATCH_JOB
from federation.core.quantity import QuantityError, add, format_quantity, scale
from federation.core.reasons import Reason
from federation.core.types import LocalQueue
from federation.edge.resources import LOCAL_QUEUES, WORKLOADS
from federation.jobs.kinds.pod_groups import group_of
from fedq import cardwhy, reading
from fedq.connect import Cluster
from fedq.jobview import JobState, JobView, job_view, job_views, open_checks
from fedq.objects import all_objects, find
from fedq.refs import Found
from fedq.rig.rig import Rig
from fedq.stack import Stack
from fedq.story import Facts

Json = dict[str, Any]

PATIENCE_S = 10.0
"""Seconds after which a job that nobody has looked at speaks against the manager."""


async def investigate(cluster: Cluster, name: str, namespace: str) -> Facts:
    """All facts about one job. Raises CommandError when it does not exist."""
    client = cluster.client
    job = await find(client, name, namespace)
    jobs, workloads, doors, queues = await asyncio.gather(
        all_objects(client, None),
        client.list(WORKLOADS),
        client.list(LOCAL_QUEUES),
        reading.queues(client),
    )
    uid, labels = job.uid, job.body["metadata"].get("labels") or {}
    workload = next((w for w in workloads.items if records.owner_uid(w) == uid), None)
    view = job_view(job.body, workload, job.kind)
    views = job_views(jobs, workloads.items)
    local = {q.namespace + "/" + q.name: q for q in map(to_local_queue, doors.items)}
    door = local.get(f"{namespace}/{view.queue}")
    queue = next((q for q in queues if door and q.name == door.cluster_queue), None)
    waiting = view.state is JobState.PENDING
    line = [other.uid for other in _line(views, local, queue.name)] if queue else []
    if queue and waiting and (known := await _known_line(cluster.rig, queue.name)):
        line = known if uid in known else line
    now, beside = datetime.now(UTC), labels.get(Label.LOCAL.value) == "true"
    on_worker = beside or await reading.is_worker(client)
    why = _why(workload) if waiting else {}
    cards = await _cards(cluster, job, view, why, on_worker=on_worker) if waiting else ""
    return Facts(
        view=view,
        now=now,
        requests=_requests(job),
        shares=_shares(job),
        holds=[] if view.state.ended else _holds(workload),
        pods=_pods(job),
        incomplete=_incomplete(job, view, jobs),
        queue_problem=_queue_problem(view, door, queue is not None),
        queue=queue,
        ahead=line.index(uid) if uid in line else 0,
        waiting=len(line),
        checks=open_checks(workload or {}),
        trouble=_trouble(workload, view),
        lacks=records.read_record(workload).scaling[1] if workload else "",
        why=why,
        cards=cards,
        clusters=[] if beside else await reading.clusters(client, views),
        manager_problem=_agent_problem(view, now)
        if beside
        else _manager_problem(cluster.rig, view, now),
        local=on_worker,
    )


def _trouble(workload: Json | None, view: JobView) -> str:
    """What is wrong with its pods, of a job that has some."""
    fedq = ((workload or {}).get("status") or {}).get("fedq") or {}
    return str(fedq.get("pods") or "") if view.cluster else ""


async def _cards(cluster: Cluster, job: Found, view: JobView, why: Json, *, on_worker: bool) -> str:
    """What is to be said of cards, if that is what it waits for."""
    if on_worker and view.reason == Reason.WAITING_FOR_CARDS:
        return await cardwhy.here(cluster.client, job, view.queue)
    if not on_worker and why.get("requeue") == Requeue.NO_CLUSTER:
        return await cardwhy.elsewhere(cluster, job, view.queue)
    return ""


def _line(views: list[JobView], doors: dict[str, LocalQueue], queue: str) -> list[JobView]:
    """Jobs that wait in a ClusterQueue, in its order."""
    waiting = []
    for view in views:
        door = doors.get(f"{view.namespace}/{view.queue}")
        if view.state is JobState.PENDING and door and door.cluster_queue == queue:
            waiting.append(view)
    return sorted(waiting, key=_order)


def _order(view: JobView) -> tuple[int, str, str]:
    return -view.priority, view.created, view.uid


async def _known_line(rig: Rig | None, queue: str) -> list[str]:
    """UIDs that wait in a ClusterQueue as the manager of a rig has them; empty if it cannot say."""
    if rig is None:
        return []
    path = f"waiting?queue={quote(queue)}"
    page = await asyncio.to_thread(Stack(rig).page, "manager", path)
    return list(json.loads(page)["waiting"]) if page else []


def _why(workload: Json | None) -> Json:
    status = (workload or {}).get("status") or {}
    return (status.get("fedq") or {}).get("waiting") or {}


def _requests(job: Found) -> dict[str, str]:
    total: dict[str, int] = {}
    try:
        for pods in job.kind.pod_sets(job.body):
            total = add(total, scale(pods.requests, pods.count))
    except QuantityError:
        return {}
    return {name: format_quantity(name, amount) for name, amount in sorted(total.items())}


def _shares(job: Found) -> list[str]:
    try:
        wants = [pods.cards for pods in job.kind.pod_sets(job.body) if pods.cards]
    except QuantityError:
        return []
    return [
        f"container {one.containers[demand.container].name}: {demand.asked}"
        for one in wants
        for demand in demands_of(one)
    ]


def _holds(workload: Json | None) -> list[str]:
    admission = records.read_record(workload).admission if workload else None
    usage = admission.usage() if admission else {}
    return [
        f"{key.flavor}/{key.resource} {format_quantity(key.resource, amount)}"
        for key, amount in sorted(usage.items())
    ]


def _pods(job: Found) -> dict[str, int]:
    """Those of other kinds are only counted where each shows its state: pods."""
    if job.kind.name == BATCH_JOB:
        spec, status = job.body["spec"], job.body.get("status") or {}
        names = ("ready", "active", "succeeded", "failed")
        return {**{n: status.get(n, 0) for n in names}, "wanted": spec.get("parallelism", 1)}
    counts = {"wanted": sum(role.count for role in job.kind.roles(job.body))}
    if not job.kind.bundled:
        return counts
    told = [(pod.get("status") or {}).get("phase") for pod in job.body["spec"]["pods"]]
    ended = {"succeeded": told.count("Succeeded"), "failed": told.count("Failed")}
    return {**counts, **ended, "ready": job.kind.running(job.body).ready}


def _incomplete(job: Found, view: JobView, jobs: list[Found]) -> str:
    """Groups are queued when all of their pods are there; pods beyond those are not."""
    if not job.kind.bundled or view.state is not JobState.NEW:
        return ""
    group = group_of(job.body)
    if group.total == len(job.body["spec"]["pods"]):
        return ""
    for other in (found for found in jobs if found.kind.bundled):
        pods = [pod["metadata"]["name"] for pod in other.body["spec"]["pods"]]
        if group_of(other.body) == group and len(pods) == group.total:
            name = group.name.partition("/")[2]
            return (
                f"group {name} has the {group.total} pods that belong to it without this one"
                f" ({', '.join(pods)}), and none is replaced: delete it"
            )
    return job.kind.problem(job.body)


def _queue_problem(view: JobView, door: LocalQueue | None, found: bool) -> str:
    if not view.queue or found:
        return ""
    if door is None:
        return f"LocalQueue {view.namespace}/{view.queue} does not exist"
    return f"LocalQueue {view.queue} leads to ClusterQueue {door.cluster_queue}, which is missing"


def _manager_problem(rig: Rig | None, view: JobView, now: datetime) -> str:
    """What speaks for a manager that does not work; '' if nothing does."""
    if rig is not None:
        process = rig.process("manager")
        if process is None or not process.running:
            return "The manager of the rig is not running: `fedq rig up` starts it"
    if _untouched(view, now):
        text = "Nobody has looked at the job: the manager seems not to be running"
        group = view.api_version.rpartition("/")[0]
        switch = framework(group, view.kind)
        return f"{text}, or its Configuration does not switch {switch} on"
    return ""


def _agent_problem(view: JobView, now: datetime) -> str:
    """The same of the agent beside the manager."""
    if not _untouched(view, now):
        return ""
    return (
        f"It is to run on this cluster (label {Label.LOCAL}), and nobody has looked at it: the"
        " agent beside the manager seems not to be running (FEDQ_BESIDE_MANAGER, see"
        " docs/local-queues.md)"
    )


def _untouched(view: JobView, now: datetime) -> bool:
    """Whether a job waits for its first look longer than it has to."""
    created = datetime.fromisoformat(view.created)
    untouched = view.state is JobState.NEW or (view.state is JobState.PENDING and not view.reason)
    return untouched and (now - created).total_seconds() > PATIENCE_S
