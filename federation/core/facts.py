"""What is known of one job: on the management cluster, in its Workload, and on the workers.

Facts are replaced whole by what watches deliver and by what our own writes return; a fact with an
older resourceVersion never replaces a newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from federation.core.dispatch import Choice, Refusal
from federation.core.types import Admission, PodSet
from federation.core.why import Explanation


class ObjectKey(NamedTuple):
    """Namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LocalJob:
    """The Job on the management cluster. `created` is in seconds since the epoch.

    `problem` says why Fedq cannot manage it ('' if it can); `started` is whether it has a start
    time; `finished` is '', Complete or Failed.
    """

    uid: str
    key: ObjectKey
    version: int
    queue: str
    priority_class: str
    created: float
    suspended: bool
    terminating: bool = False
    started: bool = False
    finished: str = ""
    problem: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    preemptible: bool | None = None
    """What its own annotation says; None if it says nothing."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The cluster a Workload is bound to. `attempt` grows by one with every offer ever made."""

    cluster: str
    attempt: int
    epoch: int
    bound_at: str


@dataclass(frozen=True, slots=True)
class Record:
    """The Workload on the management cluster: the record of truth for queueing and binding."""

    uid: str
    key: ObjectKey
    version: int
    active: bool = True
    priority: int = 0
    admission: Admission | None = None
    binding: Binding | None = None
    attempt: int = 0
    admitted: bool = False
    finished: bool = False
    reason: str = ""
    message: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A copy of the job on a worker cluster.

    `refused` is the agent's final no to this attempt; `deciding_until` (seconds since the epoch)
    its plea for more time. `gone` marks a copy that was there and is deleted.
    """

    cluster: str
    key: ObjectKey
    uid: str
    version: int
    attempt: int
    suspended: bool
    refused: str = ""
    refused_reason: str = ""
    deciding_until: float = 0.0
    terminating: bool = False
    finished: str = ""
    gone: bool = False
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return not self.suspended and not self.finished


@dataclass(frozen=True, slots=True)
class JobState:
    """All facts of one job, and where its writes stand.

    `remotes` and `refusals` are by cluster. `busy` while effects run: facts still change, nothing
    new is decided. `queued` while the index has the job. `admission` and `choice` are set from the
    decision of the cycle until the binding is in the record. `waits` is (reason, message) of the
    last cycle that had to leave the job, `why` the numbers behind that, `queue_problem` why it
    cannot even be queued. `deadline` is when an unanswered offer is withdrawn, `retry_at` when a
    failed effect is tried again, `waits_written` when a reason was last written: seconds since the
    epoch.
    """

    local: LocalJob | None = None
    record: Record | None = None
    remotes: Mapping[str, RemoteJob] = field(default_factory=dict)
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    admission: Admission | None = None
    choice: Choice | None = None
    busy: bool = False
    queued: bool = False
    was_running: bool = False
    waits: tuple[str, str] = ("", "")
    why: Explanation | None = None
    waits_written: float = 0.0
    queue_problem: str = ""
    deadline: float | None = None
    retry_at: float | None = None
    failures: int = 0
    shown: int | None = None
    """Version of the copy whose status was written last: a server that does not keep all of it
    must not be asked again and again."""

    @property
    def bound(self) -> Binding | None:
        """The binding in the record, if any."""
        return self.record.binding if self.record else None

    @property
    def remote(self) -> RemoteJob | None:
        """The copy that belongs to the binding (its cluster and its attempt), gone or not."""
        bound = self.bound
        copy = self.remotes.get(bound.cluster) if bound else None
        return copy if copy and bound and copy.attempt == bound.attempt else None

    @property
    def forgettable(self) -> bool:
        """Whether nothing of the job exists any more, as far as is known."""
        live = any(not copy.gone for copy in self.remotes.values())
        return self.local is None and self.record is None and not live

    @property
    def attempt(self) -> int:
        """The highest attempt ever seen: the next offer is one more."""
        seen = [copy.attempt for copy in self.remotes.values()]
        return max([self.record.attempt if self.record else 0, *seen])

    @property
    def holds(self) -> Admission | None:
        """The admission charged to the queue's quota now."""
        if self.record is None or self.record.finished:
            return None
        if self.record.binding is not None:
            return self.record.admission
        return self.admission
