"""Why a Job waits or is stopped, in words for people and for the manager."""

from __future__ import annotations

from typing import NamedTuple

from federation.core.cycle import Preempt, Wait
from federation.core.policies import QueueingStrategy, StopPolicy
from federation.core.quota import QuotaTree
from federation.core.reasons import Reason
from federation.core.scheduler import Scheduler
from federation.core.types import Pending
from federation.core.victims import Victim
from worker_agent.facts import WorkerJob


class Waiting(NamedTuple):
    """Reason and message of QuotaReserved=False."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


def of(decision: Wait | Preempt) -> Waiting:
    """What a decision says."""
    return Waiting(decision.reason.value, decision.message)


def not_tried(scheduler: Scheduler, item: Pending) -> Waiting:
    """Why a workload was not even looked at: another of its shape was, or another is ahead."""
    if (blocked := scheduler.blocked(item)) is not None:
        return of(blocked)
    snapshot, name = scheduler.snapshot, item.cluster_queue
    queue = snapshot.queues.get(name)
    if queue is None:
        text = f"ClusterQueue {name} does not exist"
        return Waiting(Reason.MISCONFIGURED.value, text)
    if queue.stop is not StopPolicy.NONE:
        text = f"ClusterQueue {name} is stopped ({queue.stop})"
        return Waiting(Reason.SUSPENDED.value, text)
    if name in snapshot.tree.cyclic:
        text = f"the cohorts above {name} form a cycle: break it"
        return Waiting(Reason.SUSPENDED.value, text)
    flavors = {f.flavor for group in queue.groups for f in group.flavors}
    if missing := sorted(flavors - snapshot.flavors.keys()):
        text = f"ClusterQueue {name} is inactive: there is no ResourceFlavor {', '.join(missing)}"
        return Waiting(Reason.SUSPENDED.value, text)
    if queue.strategy is QueueingStrategy.STRICT_FIFO:
        text = f"ClusterQueue {name} is blocked by the head of its line (StrictFIFO)"
    else:
        text = f"a workload ahead in ClusterQueue {name} waits for those that it preempts"
    return Waiting(Reason.WAITING_FOR_QUOTA.value, text)


_WHY = {
    Reason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    Reason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    Reason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    Reason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def preempted(victim: Victim, preemptor: Pending, workload_uid: str, tree: QuotaTree) -> str:
    """Kueue's message of the conditions Evicted and Preempted."""
    return (
        f"Preempted to accommodate a workload (UID: {workload_uid or 'UNKNOWN'}, JobUID:"
        f" {preemptor.uid}) due to {_WHY.get(victim.reason, victim.reason)}; preemptor path:"
        f" {_path(tree, preemptor.cluster_queue)}; preemptee path:"
        f" {_path(tree, victim.holder.cluster_queue)}"
    )


def _path(tree: QuotaTree, queue: str) -> str:
    leaf = tree.queues.get(queue)
    names = [queue, *(node.name for node in leaf.ancestors())] if leaf else [queue]
    return "/" + "/".join(reversed(names))


def overdue(seconds: float) -> Waiting:
    """Of a copy whose victims did not stop in time."""
    text = f"the workloads that it preempts did not stop within {seconds:.0f} s"
    return Waiting(Reason.WAITING_FOR_PREEMPTED_WORKLOADS.value, text)


def superseded(job: WorkerJob) -> Waiting:
    """Of a copy of which a later attempt is here."""
    return Waiting(Reason.MISCONFIGURED.value, f"attempt {job.attempt} is superseded")


def old_epoch(job: WorkerJob, epoch: int) -> Waiting:
    """Of a copy that was offered before its cluster was fenced."""
    text = f"epoch {job.epoch} is over; this cluster is in epoch {epoch}"
    return Waiting(Reason.MISCONFIGURED.value, text)


def no_priority(kind: str, name: str) -> Waiting:
    """Of a Job that names a priority class that is not there."""
    text = f"{kind} {name} does not exist: create it, or name another one"
    return Waiting(Reason.MISCONFIGURED.value, text)
