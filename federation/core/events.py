"""What happens to a job: facts that arrived, decisions of the cycle, outcomes of effects."""

from __future__ import annotations

from dataclasses import dataclass

from federation.core.dispatch import Choice
from federation.core.facts import LocalJob, Queues, Record, RemoteJob
from federation.core.failover import Standing
from federation.core.reasons import Reason
from federation.core.types import Admission
from federation.core.why import Explanation


@dataclass(frozen=True, slots=True)
class LocalSeen:
    """The local Job as it is now; None when it is deleted."""

    local: LocalJob | None


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """The Workload as it is now; None when it is deleted."""

    record: Record | None


@dataclass(frozen=True, slots=True)
class RemoteSeen:
    """A copy on a worker as it is now (possibly `gone`)."""

    remote: RemoteJob


@dataclass(frozen=True, slots=True)
class RemoteAbsent:
    """A full listing of a cluster, taken at `version`, does not have a copy of this job."""

    cluster: str
    version: int


@dataclass(frozen=True, slots=True)
class ClusterReplaced:
    """A cluster is reached by another kubeconfig now: it may be another one of the same name."""

    cluster: str


@dataclass(frozen=True, slots=True)
class ClusterStood:
    """How a cluster stands now, where this job is bound or has copies."""

    standing: Standing


@dataclass(frozen=True, slots=True)
class CannotReach:
    """The effect was not done: nothing can be done on the cluster before there is news of it."""

    standing: Standing


@dataclass(frozen=True, slots=True)
class Placed:
    """The cycle admitted the job and chose a cluster; the claim in the index holds."""

    admission: Admission
    choice: Choice


@dataclass(frozen=True, slots=True)
class Nominated:
    """The job may be offered to these clusters from now on; it goes on waiting."""

    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """The cycle looked at the job and it has to wait. `why` has the numbers, if there are any."""

    reason: str
    message: str
    why: Explanation | None = None


@dataclass(frozen=True, slots=True)
class GrowthPlaced:
    """The cycle gave more pods to a job that runs; the claim in the index holds."""

    admission: Admission


@dataclass(frozen=True, slots=True)
class GrowthNotPlaced:
    """The cycle looked at the pods that a job is to have beside those that run: they wait."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GrowthLost:
    """They are out of the index, and were not placed."""


@dataclass(frozen=True, slots=True)
class Evict:
    """The job has to give its quota back; it is held until its pods are gone.

    `reason` is that of the condition Evicted, `cause` that of Preempted ('' unless it is that).
    One that may run twice runs elsewhere before its copy is gone, if its cluster is drained or it
    is to be moved.
    """

    reason: str
    message: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class QueuesSeen:
    """The queues of the job as they are now."""

    queues: Queues


@dataclass(frozen=True, slots=True)
class PrioritySeen:
    """The WorkloadPriorityClass that the job's priority comes from, which exists; '' for none."""

    priority_class: str


@dataclass(frozen=True, slots=True)
class QueueMoved:
    """The job's LocalQueue leads to another ClusterQueue: it has to be queued there."""


@dataclass(frozen=True, slots=True)
class QueueProblem:
    """The job's queue is missing or stopped, or the two contradict each other ('' when it is in
    order again). `reason` is that of waiting.
    """

    message: str
    reason: str = Reason.INADMISSIBLE


@dataclass(frozen=True, slots=True)
class PodsSeen:
    """What is wrong with the pods of an attempt; '' for nothing."""

    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class LetGo:
    """A copy that has ended is not to be kept any longer: its cluster is being emptied."""


@dataclass(frozen=True, slots=True)
class Done:
    """All effects of the last step succeeded."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An effect failed for now; facts may have changed. Tried again `after` seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class OfferRefused:
    """The cluster cannot take the copy at all (no such namespace, foreign job of that name, …)."""

    cluster: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CannotStart:
    """No copy can be made of the job as it was admitted: two sources want different pods."""

    message: str


@dataclass(frozen=True, slots=True)
class CannotMove:
    """The cluster that an order names could not take the job even if nothing ran there."""

    cluster: str
    message: str


@dataclass(frozen=True, slots=True)
class BindLost:
    """The record changed before the binding could be written: the decision is void."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed a deadline of this job, or somebody wants its plan made again: no new fact."""


Event = (
    LocalSeen
    | RecordSeen
    | RemoteSeen
    | RemoteAbsent
    | ClusterReplaced
    | ClusterStood
    | CannotReach
    | Placed
    | Nominated
    | NotPlaced
    | GrowthPlaced
    | GrowthNotPlaced
    | GrowthLost
    | Evict
    | QueuesSeen
    | PrioritySeen
    | QueueMoved
    | QueueProblem
    | PodsSeen
    | LetGo
    | Done
    | Failed
    | OfferRefused
    | CannotStart
    | CannotMove
    | BindLost
    | Tick
)
