"""What the lifecycle asks the shell to do. Every effect is safe to repeat.

Effects of one step run in order; the first that fails ends the step.
"""

from __future__ import annotations

from dataclasses import dataclass

from federation.core.why import Explanation


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Create the Workload of the local job."""


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete the Workload of a job that is gone."""


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
    """Create the suspended copy on the cluster."""

    cluster: str
    attempt: int


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
    """Record the end; the quota is free with it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unbind:
    """Record that the job is back in the queue. `evicted` if it had been admitted."""

    reason: str
    message: str
    evicted: bool


@dataclass(frozen=True, slots=True)
class SetActive:
    """Set spec.active of the Workload: False holds the job, True releases it."""

    active: bool


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
    | RemoveRemote
    | Admit
    | SetSuspend
    | ResetStatus
    | SyncStatus
    | FinishWorkload
    | Unbind
    | SetActive
    | SetWaiting
    | Forget
)
