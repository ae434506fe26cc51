"""What an order about a cluster means for each job that is bound there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from federation.api import record as records
from federation.api.names import ConditionType
from federation.api.orders import cluster_orders
from federation.core.facts import BATCH_JOB, Binding
from federation.core.failover import OnDisconnect
from federation.core.health import Phase
from fedq.jobview import JobState, job_view
from fedq.refs import Found

Json = dict[str, Any]

AWAY = (Phase.SUSPECT, Phase.FENCED, Phase.LOST)
"""Phases of a cluster whose agent does not renew its Lease."""


_TAKEN_BACK = "its offer is taken back; it queues again"


class Order(StrEnum):
    """What can be ordered of a cluster."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    GRACEFUL = "drain --graceful"
    NOW = "drain --now"
    CONFIRM = "fence confirm"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class BoundJob:
    """A job on a cluster, and what becomes of it. `name` is KIND/NAME of other kinds than Job,
    `policy` that of its binding.
    """

    namespace: str
    name: str
    state: JobState
    attempt: int
    policy: str
    becomes: str = ""
    waits: bool = False
    """Whether it waits for a word about its cluster, if that is silent or gone."""


def bound_jobs(
    cluster: str,
    jobs: Iterable[Found],
    workloads: Iterable[Json],
    order: Order,
    *,
    away: bool = False,
    epoch: int = 0,
) -> list[BoundJob]:
    """The jobs that are bound to a cluster, by namespace and name, and what an order means for
    them. `away` is whether the cluster cannot be reached, `epoch` what a confirmation would name.

    Of kinds that this person may not list, or this command does not know, the Workloads tell.
    """
    by_uid = {job.uid: job for job in jobs}
    found = []
    for workload in workloads:
        binding = binding_on(cluster, workload)
        job = by_uid.get(records.owner_uid(workload))
        if binding is None:
            continue
        if job is not None:
            view = job_view(job.body, workload, job.kind)
            ref, state = view.ref, view.state
        elif records.owner_kind(workload) != BATCH_JOB:
            ref, state = _of_record(workload)
        else:
            continue
        if state.ended:
            continue
        becomes = _becomes(order, state, binding, away=away, epoch=epoch)
        entry = (workload["metadata"]["namespace"], ref, state, binding.attempt)
        waits = binding.policy is OnDisconnect.KEEP and binding.rerun_after is None
        found.append(BoundJob(*entry, binding.policy.value, becomes, waits))
    return sorted(found, key=lambda job: (job.namespace, job.name))


def _of_record(workload: Json) -> tuple[str, JobState]:
    """What a Workload says of a job that was not read."""
    owner = next(o for o in workload["metadata"]["ownerReferences"] if o.get("controller"))
    life = records.read_record(workload).life
    state = JobState.ADMITTED if life.admitted else JobState.OFFERED
    return f"{owner['kind'].lower()}/{owner['name']}", JobState.LEAVING if life.evicted else state


def binding_on(cluster: str, workload: Json) -> Binding | None:
    """The binding of a Workload to a cluster, unless it is finished."""
    record = records.read_record(workload)
    bound = record.binding
    return bound if bound and bound.cluster == cluster and not record.finished else None


def _becomes(order: Order, state: JobState, bound: Binding, *, away: bool, epoch: int) -> str:
    started = state in (JobState.ADMITTED, JobState.RUNNING, JobState.LEAVING)
    match order:
        case Order.CORDON | Order.UNCORDON:
            return "stays"
        case Order.GRACEFUL | Order.NOW if away:
            return "not touched while the cluster is silent; its policy says what follows"
        case Order.GRACEFUL:
            return "runs to its end there" if started else _TAKEN_BACK
        case Order.NOW:
            return _drained_now(bound.policy) if started else _TAKEN_BACK
        case Order.CONFIRM:
            return _confirmed(bound, epoch)
        case Order.LEAVE:
            return _left(bound, away=away)


def _drained_now(policy: OnDisconnect) -> str:
    if policy is OnDisconnect.DUPLICATE_OK:
        return "starts elsewhere first, is stopped there then"
    stopped = "is stopped there, queues again, runs elsewhere"
    if policy is OnDisconnect.KEEP:
        return f"{stopped} (`keep` is about silence; this is your order)"
    return stopped


def _confirmed(bound: Binding, epoch: int) -> str:
    if bound.epoch < epoch:
        return f"runs again elsewhere, as attempt {bound.attempt + 1}"
    return "stays: it was bound after the fence"


def _left(bound: Binding, *, away: bool) -> str:
    """The cluster is deleted with the job on it."""
    if bound.policy is OnDisconnect.KEEP and bound.rerun_after is None:
        return "waits until it is confirmed that nothing runs there (`fedq cluster fence confirm`)"
    when = "when the fence holds" if away else "when its agent has certainly stopped it"
    return f"runs again elsewhere {when}; what it did since its last checkpoint is lost"


def destinations(cluster: str, clusters: Iterable[Json]) -> list[str]:
    """The other clusters that take new work now, by name. Whether there is room, and whether a
    job's queue may use them, is decided when its turn comes.
    """
    found = []
    for obj in clusters:
        name, active = obj["metadata"]["name"], records.is_true(_status(obj), ConditionType.ACTIVE)
        if name != cluster and active and not cluster_orders(obj).cordon:
            found.append(name)
    return sorted(found)


def no_new_work(cluster: Json) -> str:
    """Why a cluster takes no new work now; '' if it does."""
    if cordon := cluster_orders(cluster).cordon:
        return f"it is cordoned: {cordon}"
    active = records.find(_status(cluster), ConditionType.ACTIVE)
    if active is None:
        return "no manager has looked at it yet"
    return "" if active["status"] == "True" else f"{active['reason']}: {active['message']}"


def phase(cluster: Json) -> str:
    """Where the manager saw it last; '' if none has."""
    return str((_status(cluster).get("fedq") or {}).get("phase", ""))


def _status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("status") or {}
