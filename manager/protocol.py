"""Messages between the manager and the worker of one cluster. All are plain and picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from federation.api.kinds.row import Row
from federation.api.names import ActiveReason
from federation.core.facts import BATCH_JOB, ObjectKey, RemoteJob
from federation.edge.resources import Json


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A worker cluster to look after. `kubeconfig` is the text of the Secret: not trusted.
    `identity` is that of the physical cluster which it has to be ('': any one).
    """

    name: str
    kubeconfig: bytes = field(repr=False)
    origin: str
    identity: str = ""
    external: tuple[Row, ...] | None = None
    """Kinds of jobs that the configuration adds to those of the table; None: Jobs alone."""
    off: frozenset[str] = frozenset()
    """Kinds that it switches off, by name."""
    plain: bool = False
    """Whether plain Kueue runs it, without an agent."""
    management: str = ""
    """The physical cluster that the manager works on, which it cannot be ('': not known)."""


@dataclass(frozen=True, slots=True)
class CreateCopy:
    """Create the suspended copy of a job. Plain Kueue gets its Workload, `clone`, first, and the
    copy when that is admitted.
    """

    key: ObjectKey
    local_uid: str
    attempt: int
    body: Json
    clone: Json | None = None


@dataclass(frozen=True, slots=True)
class DeleteCopy:
    """Delete a copy, if it still is the one with this UID (and version, where given).

    `wait` deletes in the foreground: the copy is gone only when its pods are. `local_uid` is that
    of the job: what is left of a group of pods is found by it.
    """

    key: ObjectKey
    uid: str
    version: int | None
    wait: bool
    kind: str = BATCH_JOB
    local_uid: str = ""


@dataclass(frozen=True, slots=True)
class AdoptCopy:
    """Raise the epoch of a copy, if it still is the one with this UID: it may go on."""

    key: ObjectKey
    uid: str
    epoch: int
    kind: str = BATCH_JOB
    local_uid: str = ""


@dataclass(frozen=True, slots=True)
class ChangeCopy:
    """Merge `body` into a copy, if it still is the one with this UID. `size` is what its kind says
    of how many pods it is to have (`JobKind.resized`).
    """

    key: ObjectKey
    uid: str
    body: Json
    kind: str = BATCH_JOB
    local_uid: str = ""
    size: Json | None = None
    added: Json | None = None
    """A bundle of pods to create beside those of the copy, of the same attempt."""


Command = CreateCopy | DeleteCopy | AdoptCopy | ChangeCopy


class Result(StrEnum):
    """How a command ended."""

    OK = "ok"
    ABSENT = "absent"
    """Delete, adopt: it was not there any more."""
    REFUSED = "refused"
    """The cluster cannot take it as things are there; `reason` and `message` say why."""
    RETRY = "retry"
    """Not done, or not known to be done: repeat it."""


class Reply(StrEnum):
    """Whether the API server of the cluster has said anything to a command."""

    GIVEN = "given"
    NONE = "none"
    """No: it may have been carried out, or be carried out later."""
    UNSENT = "unsent"
    """It certainly was not asked."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to one command."""

    result: Result
    reason: str = ""
    message: str = ""
    remote: RemoteJob | None = None
    reply: Reply = Reply.GIVEN


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the cluster can be worked with, by the last probe; reasons are condition reasons.
    `answered` is that its API server is well, and something else is not.
    """

    ok: bool = False
    reason: str = ActiveReason.CONNECTING.value
    message: str = "the first contact is still to come"
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy seen on the cluster."""

    local_uid: str
    remote: RemoteJob


@dataclass(frozen=True, slots=True)
class PodNews:
    """What is wrong with the pods of an attempt of a job; '' for nothing."""

    local_uid: str
    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """A full listing: all local UIDs that have a copy of a kind, as of `version`."""

    version: int
    local_uids: frozenset[str]
    kind: str = BATCH_JOB


@dataclass(frozen=True, slots=True)
class News:
    """What changed since the news acknowledged last. Only the latest state of each object.

    `instance` changes when the worker restarts, and then everything comes again. `requests` are
    those that it has sent so far, by (verb, plural, subresource). `identity` is that of the
    physical cluster: the UID of its namespace kube-system ('': not known). `inventory` is that
    of batch/v1 Jobs, `others` are those of other kinds. `kinds` are the kinds that the cluster
    serves beside it (None: not known).
    """

    instance: str
    pid: int
    seq: int
    health: Health
    copies: tuple[Copy, ...] = ()
    inventory: Inventory | None = None
    report: Json | None = None
    requests: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    identity: str = ""
    pods: tuple[PodNews, ...] = ()
    others: tuple[Inventory, ...] = ()
    kinds: frozenset[str] | None = None


class WorkerUnavailable(Exception):
    """The worker of a cluster died or cannot be reached; what it was told may have been done."""


class WorkerHandle(Protocol):
    """The worker of one cluster, wherever it runs. Every call may raise WorkerUnavailable."""

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        """Carry out commands; an outcome for each, in order."""

    async def poll(self, instance: str, ack: int) -> News:
        """Wait for news after the acknowledged one, some seconds at most."""

    async def stop(self) -> None:
        """End the worker. Copies stay."""


class Runtime(Protocol):
    """Where the workers of clusters run."""

    @property
    def name(self) -> str:
        """What they run as."""

    @property
    def problem(self) -> str:
        """Why they do not run as they should; '' if they do."""

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        """Start the worker of a cluster."""

    async def aclose(self) -> None:
        """Stop all workers and release what the runtime holds."""
