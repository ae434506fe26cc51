"""What the lifecycle asks the shell to do. Every effect is safe to repeat.

Effects of one step run in order; the first that fails ends the step.
"""

from __future__ import annotations

from dataclasses import dataclass

from federation.core.backoff import RequeueState
from federation.core.reasons import Reason
from federation.core.sizes import Counts
from federation.core.types import Admission
from federation.core.why import Explanation

VOID = f"{Reason.WITHDRAWN_FROM_WORKER_CLUSTER}: the job leaves before it was started"
"""The refusal that a void offer carries."""


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Create the Workload of the local job."""


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete the Workload of a job that is gone, or that ended and has been kept long enough."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Put the job into the index of pending workloads."""


@dataclass(frozen=True, slots=True)
class Dequeue:
    """Take the job out of the index."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Record reservation and cluster, with resourceVersion: the commit point of a dispatch."""

    cluster: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Offer:
    """Create the suspended copy on the cluster.

    A `void` one carries its refusal, so that nothing starts it: of a job that leaves and may have
    been offered or not, it makes sure that there is a copy, to be removed.
    """

    cluster: str
    attempt: int
    void: bool = False


@dataclass(frozen=True, slots=True)
class Rebind:
    """Record that the binding goes on in a later epoch of its cluster's Lease: the commit point of
    an adoption, which loses against an eviction.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Adopt:
    """Raise the epoch of a copy to that of its binding: the agent lets it go on."""

    cluster: str
    uid: str
    epoch: int


@dataclass(frozen=True, slots=True)
class RemoveRemote:
    """Delete a copy. A `version` makes it conditional: 409 if the agent wrote meanwhile.

    `wait` deletes in the foreground: the copy stays visible until its pods are gone.
    """

    cluster: str
    uid: str
    version: int | None = None
    wait: bool = False


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Record the priority of the class that the job names now."""


@dataclass(frozen=True, slots=True)
class Prioritize:
    """Write the priority of the record onto a copy: its agent orders by it."""

    cluster: str
    uid: str
    priority: int


@dataclass(frozen=True, slots=True)
class PushLive:
    """Write those fields of the spec of a copy that follow the job's."""

    cluster: str
    uid: str


@dataclass(frozen=True, slots=True)
class Resize:
    """Have a copy run fewer pods: so many, by pod set."""

    cluster: str
    uid: str
    pods: Counts


@dataclass(frozen=True, slots=True)
class AskForMore:
    """Ask the agent to let a copy run so many pods, which are more."""

    cluster: str
    uid: str
    pods: Counts


@dataclass(frozen=True, slots=True)
class WithdrawGrowth:
    """Take away what the agent was asked for, and its answer; or, with `refused`, say no in its
    place: it grows nothing after that.
    """

    cluster: str
    uid: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class EnqueueGrowth:
    """Put so many pods, which a job is to have beside those that run, into the index."""

    pods: Counts


@dataclass(frozen=True, slots=True)
class DequeueGrowth:
    """Take them out of the index."""


@dataclass(frozen=True, slots=True)
class SetPodCounts:
    """Have the spec of the Workload ask for as many pods as the job does."""


@dataclass(frozen=True, slots=True)
class Regrant:
    """Record that a job that runs holds quota for another number of pods."""

    admission: Admission


@dataclass(frozen=True, slots=True)
class SetScaling:
    """Record why a job runs fewer pods than it asks for; '' if it does not."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Admit:
    """Record that the cluster runs it."""

    cluster: str


@dataclass(frozen=True, slots=True)
class SetSuspend:
    """Suspend or start the local job."""

    suspend: bool


@dataclass(frozen=True, slots=True)
class ResetStatus:
    """Write the status of a job that runs nowhere: suspended, nothing active, no start time."""


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Copy the status of the remote copy to the local job, as far as Kubernetes allows."""

    cluster: str


@dataclass(frozen=True, slots=True)
class FinishWorkload:
    """Record the end; the quota is free with it. `reason` is Complete or Failed, `cluster` has the
    copy whose result it is ('': not known).
    """

    reason: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Unbind:
    """Record that the job has left its cluster and its quota is free.

    `reason` and `message` say why it waits now. `evicted` ends an eviction; else it was never
    admitted. It stood still for `idle_s` seconds of its admission, which do not count as execution.
    """

    reason: str
    message: str
    evicted: bool
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FailToStart:
    """Record that the job has ended because it cannot be started as it was admitted."""

    message: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Record that the job leaves; it holds its quota until Unbind. See `controls.Evict`.

    `cause` is what is behind the reason; of Preempted it is the reason of that condition.
    `requeue` is what requeueState becomes. With `unbind` there is nothing to wait for: the same
    write ends the binding, `idle_s` as in Unbind. `target` is the cluster that it leaves for by
    order: if that can never take it, it stays (`CannotMove`).
    """

    reason: str
    message: str
    cause: str
    requeue: RequeueState
    unbind: bool = False
    idle_s: float = 0.0
    target: str = ""


@dataclass(frozen=True, slots=True)
class EndMove:
    """Take away the order to move the job: it is bound where it was to go."""


@dataclass(frozen=True, slots=True)
class SetNote:
    """Record what people have to know of a job that is bound ('': nothing)."""

    message: str


@dataclass(frozen=True, slots=True)
class SetPods:
    """Record what is wrong with the pods ('': nothing any more)."""

    text: str


@dataclass(frozen=True, slots=True)
class Readmit:
    """Record that the job may queue again after an eviction."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SyncChecks:
    """Make the record list exactly the admission checks that the job needs."""


@dataclass(frozen=True, slots=True)
class SetPodsReady:
    """Record whether the pods are ready."""

    ready: bool


@dataclass(frozen=True, slots=True)
class SetTarget:
    """Record why the job is about to be deactivated."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetActive:
    """Set spec.active of the Workload: False holds the job, True releases it."""

    active: bool


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the job itself, whose Workload was deactivated and has been kept long enough."""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write the clusters that the job may be offered to, and when this round began."""

    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetWaiting:
    """Record why the job waits. `why` has the numbers, if there are any."""

    reason: str
    message: str
    why: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the job from memory and index."""


Effect = (
    CreateWorkload
    | DeleteWorkload
    | Enqueue
    | Dequeue
    | Bind
    | Offer
    | Rebind
    | Adopt
    | RemoveRemote
    | SetPriority
    | Prioritize
    | PushLive
    | Resize
    | AskForMore
    | WithdrawGrowth
    | EnqueueGrowth
    | DequeueGrowth
    | SetPodCounts
    | Regrant
    | SetScaling
    | Admit
    | SetSuspend
    | ResetStatus
    | SyncStatus
    | FinishWorkload
    | FailToStart
    | Evict
    | Unbind
    | EndMove
    | SetNote
    | SetPods
    | Readmit
    | SyncChecks
    | SetPodsReady
    | SetTarget
    | SetActive
    | DeleteJob
    | Nominate
    | SetWaiting
    | Forget
)
