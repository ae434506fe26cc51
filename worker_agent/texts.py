"""Why a Job waits or is stopped, in words for people and for the manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from federation.api.names import Label
from federation.core.cycle import Preempt, Wait
from federation.core.policies import QueueingStrategy
from federation.core.reasons import Reason
from federation.core.snapshot import Snapshot
from federation.core.types import ClusterQueue, LocalQueue
from federation.core.why import Explainer, standstill

MARGIN_S = 5.0
"""The manager is told a later time, so that it hears the answer before it gives up waiting."""


class Waiting(NamedTuple):
    """Reason and message of QuotaReserved=False."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


def of(decision: Wait | Preempt, explainer: Explainer) -> Waiting:
    """What a decision says, with numbers and advice."""
    found = explainer.explain(decision)
    return Waiting(found.reason, found.message)


def idle(queue: str, snapshot: Snapshot, inactive: Mapping[str, str]) -> Waiting | None:
    """Why nothing in a queue is looked at; None if its heads are. `inactive` are queues that are
    not for reasons that the snapshot does not show.
    """
    text = standstill(queue, snapshot, inactive)
    return Waiting(Reason.SUSPENDED.value, text) if text else None


def behind(queue: str, snapshot: Snapshot, preemptor: str) -> Waiting:
    """Of a workload that others keep from being looked at. `preemptor` is the one in front that
    waits for its victims ('' if there is none), as namespace/name.
    """
    found = snapshot.queues.get(queue)
    if found is not None and found.strategy is QueueingStrategy.STRICT_FIFO:
        text = f"ClusterQueue {queue} is blocked by the head of its line (StrictFIFO)"
    elif preemptor:
        text = f"{preemptor} is ahead in ClusterQueue {queue}, and waits for those that it preempts"
    else:
        text = f"it has yet to be looked at in ClusterQueue {queue}"
        return Waiting(Reason.PENDING_EVALUATION.value, text)
    return Waiting(Reason.WAITING_FOR_QUOTA.value, text)


def overdue(seconds: float) -> Waiting:
    """Of a copy whose victims did not stop in time."""
    text = f"the workloads that it preempts did not stop within {seconds:.0f} s"
    return Waiting(Reason.WAITING_FOR_PREEMPTED_WORKLOADS.value, text)


def dispatched(queue: ClusterQueue) -> str:
    """Of a job of the management cluster itself whose queue is the manager's by now."""
    return (
        f"ClusterQueue {queue.name} has a MultiKueue check by now, so its jobs are sent to worker"
        f" clusters, and this one was made to run on this cluster (label {Label.LOCAL}): create it"
        " again to have it sent, or take the check out of the ClusterQueue to run it here"
    )


def not_local(door: LocalQueue) -> str:
    """The same where the manager does not say that its jobs run there."""
    return (
        f"LocalQueue {door.namespace}/{door.name} has no label {Label.LOCAL}, which the manager"
        " sets where jobs run on this cluster: FEDQ_LOCAL_QUEUES=true has to be set for it, and"
        f" ClusterQueue {door.cluster_queue} must have no MultiKueue check; or create the job again"
        " without that label, to have it sent to a worker cluster"
    )
