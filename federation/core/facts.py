"""What is known of one job: on the management cluster, in its Workload, and on the workers.

Facts are replaced whole by what watches deliver and by what our own writes return; a fact with an
older resourceVersion never replaces a newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from federation.core.checks import required
from federation.core.controls import Life
from federation.core.dispatch import Choice, Refusal
from federation.core.dispatchers import NOT_NOMINATED, Nomination
from federation.core.failover import OnDisconnect, Standing
from federation.core.policies import StopPolicy
from federation.core.reasons import Reason
from federation.core.sizes import NOT_ASKED, Asked, Counts, Growing, Size
from federation.core.types import Admission, ClusterQueue, PodSet
from federation.core.why import Explanation
from federation.core.wishes import NO_WISHES, Wishes

BATCH_JOB = "Job.v1.batch"
"""The name of the kind that jobs are of if nothing else is said."""


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
    time; `finished` is '', Complete or Failed. `max_execution_s` is how long it may run in all.
    `kind` names its kind: Kind.version.group.
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
    max_execution_s: int | None = None
    pod_sets: tuple[PodSet, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    preemptible: bool | None = None
    """What its own annotation says; None if it says nothing."""
    wishes: Wishes = NO_WISHES
    """What its own annotations say of the loss of its cluster."""
    grace_s: int = 30
    """How long its pods may take to end when they are told to."""
    kind: str = BATCH_JOB
    elastic: bool = False
    """Whether its number of pods may change while it runs."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """Of the sets whose number may change only by several pods at once: by how many."""
    live: str = ""
    """Stands for the fields of its spec that a copy follows while it runs; '' if there are none."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The cluster a Workload is bound to. `attempt` grows by one with every offer ever made.

    `policy` says what happens when the cluster is lost, `rerun_after` for how long it has to be
    silent at least before the job runs elsewhere (seconds; None: as the protocol needs). Both are
    fixed when it is bound. `held_before` is for how many seconds its copy was held before it was
    admitted.
    """

    cluster: str
    attempt: int
    epoch: int
    bound_at: str
    policy: OnDisconnect = OnDisconnect.STOP
    rerun_after: float | None = None
    held_before: int = 0


class Eviction(NamedTuple):
    """That a job has to give its quota back. `reason` and `message` are those of Evicted, `cause`
    is the reason of Preempted ('' unless it is that).
    """

    reason: str
    message: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of a job, as far as they concern one that is in them.

    `local` is the stop policy of its LocalQueue, None when there is none; `cluster` the
    ClusterQueue whose quota it holds, or would. `own_check` names the admission check that the
    manager itself decides, by having a cluster start the job; '' if the queue has none.
    """

    local: StopPolicy | None = StopPolicy.NONE
    cluster: ClusterQueue | None = None
    own_check: str = ""
    give_up_after: float | None = None
    """Seconds, if they say so."""

    def checks(self, admission: Admission | None) -> tuple[str, ...]:
        """Names of the checks that a job needs, sorted."""
        return () if self.cluster is None else required(self.cluster, admission)


@dataclass(frozen=True, slots=True)
class Record:
    """The Workload on the management cluster: the record of truth for queueing and binding.

    `reason` and `message` say why it waits. `evicted_message` is that of Evicted=True; the times
    are when Evicted, Finished and QuotaReserved turned True (seconds since the epoch), None if
    they are not.
    """

    uid: str
    key: ObjectKey
    version: int
    life: Life = field(default_factory=Life)
    priority: int = 0
    admission: Admission | None = None
    binding: Binding | None = None
    attempt: int = 0
    finished: bool = False
    reason: str = ""
    message: str = ""
    evicted_message: str = ""
    move_to: str = ""
    """The cluster that it is to run on by order; '' without one."""
    pods_note: str = ""
    """What is written of the pods of the attempt."""
    note: str = ""
    """What is written of the binding, or of how the last one ended."""
    nomination: Nomination = NOT_NOMINATED
    waiting_since: float | None = None
    """When it began to wait for quota (seconds since the epoch), while it has none."""
    evicted_at: float | None = None
    finished_at: float | None = None
    reserved_at: float | None = None
    kind: str = BATCH_JOB
    """That of its owner."""
    queue: str = ""
    """The LocalQueue that it names."""
    priority_class: str = ""
    """The WorkloadPriorityClass that its priority comes from; '' for none."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The pods that it asks for, by pod set."""
    pods: str = ""
    """What its pods ask for (`federation.api.pod_shape`)."""
    elastic: bool = False
    """Whether the Workload says that its numbers may change while it holds quota."""
    scaling: tuple[str, str] = ("", "")
    """Reason and message of why it runs fewer pods than it asks for, while it does."""
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether people want it to run."""
        return self.life.active

    @property
    def admitted(self) -> bool:
        """Whether a cluster was seen to run it: one that it still is bound to."""
        return self.binding is not None and self.life.admitted


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A copy of the job on a worker cluster.

    `refused` is the agent's final no to this attempt; `deciding_until` (seconds since the epoch)
    its plea for more time; `evicted` why its queue stopped it there, None if none did. `ready` is
    whether all its pods are, or have done their work; `reclaimable` counts those that need no quota
    any more, by pod set. `gone` marks a copy that was there and is deleted. `epoch` is the one that
    it was offered or adopted in, `policy` and `rerun_after` are those of its binding; `held` says
    why it stands still though it was not evicted: the agent's lease ended ('' if it does not).
    `held_s` is for how long it did before, `ran_s` for how long it had run in all when it was held
    or failed (seconds; None while it runs, and if that is not known).
    `doubtful` marks a failure that became known while the lease of its cluster may have ended.
    `breaks` is how often that had been when it was started, or was seen to run last (0: that is not
    known). `granted` is that plain Kueue has admitted its Workload, and the job has yet to follow.
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
    waits_for: str = ""
    """The admission checks of its cluster that it waits for with its quota; '' if it does not."""
    retry_after: float | None = None
    """For how many seconds after its refusal or eviction it is of no use to offer the job to that
    cluster (FOR_GOOD: ever); None if that is not said."""
    evicted: Eviction | None = None
    ready: bool = False
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    terminating: bool = False
    finished: str = ""
    gone: bool = False
    epoch: int = 0
    held: str = ""
    held_s: int = 0
    ran_s: int | None = None
    policy: OnDisconnect = OnDisconnect.STOP
    rerun_after: float | None = None
    doubtful: bool = False
    breaks: int = 0
    priority: int | None = None
    """The priority that stands on it; None if that is not known."""
    size: Size | None = None
    """How many pods it has; None of kinds that do not change it."""
    growth: Asked = NOT_ASKED
    live: str = ""
    """What stood for those fields that follow the job's when they were written last."""
    status: Mapping[str, Any] = field(default_factory=dict)
    kind: str = BATCH_JOB
    busy: bool = False
    """Whether pods may be there though it is suspended, where the status of a Job would not say."""
    ending: str = ""
    """What it says of its end, where the status of a Job would not."""
    lacking: bool = False
    """Whether nothing of it runs any more, as pods have failed in whose place others may come."""
    torn: bool = False
    """Whether somebody deleted pods of it there, and nothing else of it runs."""
    granted: bool = False

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return not self.suspended and not self.finished


class PodTrouble(NamedTuple):
    """What is wrong with the pods of an attempt ('': nothing), and since when that is known (in
    seconds since the epoch).
    """

    attempt: int
    text: str
    since: float


@dataclass(frozen=True, slots=True)
class JobState:
    """All facts of one job, and where its writes stand.

    `remotes` and `refusals` are by cluster. `busy` while effects run: facts still change, nothing
    new is decided. `queued` while the index has the job. `admission` and `choice` are set from the
    decision of the cycle until the binding is in the record. `waits` is (reason, message) of the
    last cycle that had to leave the job, `why` the numbers behind that, `queue_problem` why it
    cannot even be queued, with the reason `queue_reason`; `queues` is None until they are known.
    `eviction` is one that was asked for and is not in the record yet, `cannot_start` why no copy
    can be made, `barred` the no of the cluster that it was ordered to. `deadline` is when an
    unanswered offer is withdrawn, `due` when time alone asks for a plan, `retry_at` when a failed
    effect is tried again, `waits_written` when a reason was last written: seconds since the epoch.
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
    queue_reason: str = Reason.INADMISSIBLE
    queues: Queues | None = None
    priority_class: str | None = None
    """The WorkloadPriorityClass that counts for it, '' for none; None while that is not known."""
    eviction: Eviction | None = None
    cannot_start: str = ""
    barred: Refusal | None = None
    deadline: float | None = None
    due: float | None = None
    retry_at: float | None = None
    failures: int = 0
    nominate: tuple[str, ...] = ()
    """Clusters that it is to be nominated for, beside those that it is already."""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    """What is known of the clusters where this job is bound or has copies, by name."""
    pods: PodTrouble | None = None
    pods_written: float = 0.0
    """When that was written last, in seconds since the epoch."""
    keep: bool = True
    """Whether a copy that has ended may be kept for a while: its cluster is not being emptied."""
    granting: int | None = None
    """Version of the record which a write that is on its way gives quota to."""
    growing: Growing | None = None
    """The pods beside those that run for which the index has the job."""
    grown: Admission | None = None
    """What a cycle gave to them, until it is in the record."""
    growth_due: float | None = None
    """When the agent that was asked for them has to have answered (seconds since the epoch)."""
    growth_waits: tuple[str, str] = ("", "")
    """(reason, message) of the last cycle that had to leave them."""
    shown: int | None = None
    """Version of the copy whose status was written last: a server that does not keep all of it
    must not be asked again and again."""

    @property
    def kind(self) -> str:
        """Of which kind the job is, as far as anything of it tells."""
        if self.local is not None:
            return self.local.kind
        if self.record is not None:
            return self.record.kind
        return next((copy.kind for copy in self.remotes.values()), BATCH_JOB)

    @property
    def being_granted(self) -> bool:
        """Whether what was decided on may be in the record at any moment: nobody else gets it."""
        version = self.record.version if self.record else None
        return self.busy and self.granting is not None and self.granting == version

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
    def places(self) -> set[str]:
        """The clusters whose standing matters: where it is bound, has copies, or is to go."""
        found = {name for name, copy in self.remotes.items() if not copy.gone}
        if self.record is not None:
            found |= {self.record.move_to} - {""}
            found |= {self.record.binding.cluster} if self.record.binding else set()
        return found

    @property
    def evicting(self) -> bool:
        """Whether it holds quota that it is about to give back."""
        stopping = self.bound is not None and self.record is not None and self.record.life.evicted
        return self.eviction is not None or bool(stopping)

    @property
    def pods_ready(self) -> bool:
        """Whether its pods are ready, as far as is known: a copy tells sooner than the record."""
        copy = self.remote
        if copy is not None and not copy.gone and not copy.held:
            return copy.ready
        return self.record is not None and self.record.life.pods_ready

    @property
    def reclaimable(self) -> Mapping[str, int]:
        """Pods that need no quota any more, by pod set."""
        copy = self.remote
        return copy.reclaimable if copy is not None else {}

    @property
    def there(self) -> Counts | None:
        """How many pods its copy has or may yet make, if its kind tells."""
        copy = self.remote
        return copy.size.there if copy is not None and copy.size is not None else None

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


def nothing_there(bound: Binding, version: int, refused: str = "") -> RemoteJob:
    """In place of the copy of a binding where there is none, as of a version of the cluster."""
    return RemoteJob(
        bound.cluster,
        ObjectKey("", ""),
        "",
        version,
        bound.attempt,
        suspended=True,
        refused=refused,
        gone=True,
    )
