"""A Job on the worker as the agent sees it: mirrored from the management cluster, or local."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from federation.api.disconnect import read_wishes
from federation.api.kinds.paths import mapping
from federation.api.names import Label, Mirror, Option
from federation.core.facts import BATCH_JOB, ObjectKey
from federation.core.failover import OnDisconnect
from federation.core.quantity import QuantityError
from federation.core.sizes import NOT_ASKED, Counts
from federation.core.types import Admission, PodSet
from federation.core.wishes import Disconnect, nearest
from federation.edge.resources import Json
from federation.jobs import answers, batch_job, elastic
from federation.jobs.containers import NO_DEFAULTS
from federation.jobs.devices import spelling_problem
from federation.jobs.eviction_note import Eviction, read_eviction
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.kind import Running as Pods
from federation.jobs.kinds.registry import KINDS
from federation.jobs.mirror import mirrored_attempt, mirrored_epoch, mirrored_priority
from federation.jobs.pauses import Pauses, read_pauses
from federation.jobs.pods import PodDefaults
from federation.jobs.template import grace_seconds


class Stage(Enum):
    """Where a Job is between the queue and its end; all of it can be read from the Job."""

    WAITING = auto()
    """Suspended, nothing of it runs: the agent has to decide."""
    RESERVED = auto()
    """Holds quota and has yet to be started: its admission checks are not all Ready."""
    RUNNING = auto()
    """Started by the agent; holds what its note says."""
    STOPPING = auto()
    """Suspended again, its pods are not all gone: it still holds its quota."""
    STOPPED = auto()
    """Its pods are gone; it has yet to be made as it was before the start."""
    HELD = auto()
    """A copy that stands still because the lease ended: suspended, its pods stop or are gone. It
    keeps its quota and its cards, and goes on as it is."""
    STRAY = auto()
    """Runs although nobody admitted it."""
    DRAINING = auto()
    """Was a stray; its pods are not all gone."""
    OVER = auto()
    """Finished, refused, or being deleted with nothing running: nothing to decide."""


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """`admission` is what the agent charged when it started the Job (its own annotation).

    `reservation` is what was charged while it waits for admission checks, `admitted_at` when it was
    started. `max_execution_s` is how long it may run in all, None without a limit.
    `created` orders equals: for a copy it is when the job was queued on the management cluster.
    `pod_sets` are the pods that it asks for, without those of `reclaimable`, by pod set.
    `policy` and `rerun_after` (seconds) say what becomes of a copy when the lease ends, `held` why
    it stands still since ('' if it does not), `pauses` for how long it did, `grace_s` is how long
    its pods may take to end.
    """

    uid: str
    key: ObjectKey
    version: int
    queue: str
    priority_class: str
    pod_class: str
    created: float
    suspended: bool
    pod_sets: tuple[PodSet, ...] = ()
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    at_once: Counts = field(default_factory=dict)
    """Pods that it runs at one time as its spec is now, which anybody may change, by pod set; none
    of kinds whose numbers do not change."""
    asks: Counts = field(default_factory=dict)
    """Pods that its spec asks for."""
    grow_to: Counts = field(default_factory=dict)
    """Of a copy: so many pods the manager wants it to have; none if it asks for no change."""
    grow_refused: str = ""
    problem: str = ""
    mirrored: bool = False
    local_uid: str = ""
    attempt: int = 0
    epoch: int = 0
    priority: int = 0
    preemptible: bool = True
    policy: OnDisconnect = OnDisconnect.STOP
    rerun_after: float | None = None
    held: str = ""
    pauses: Pauses = field(default_factory=Pauses)
    grace_s: int = 30
    admission: Admission | None = None
    reservation: Admission | None = None
    reserved: float | None = None
    admitted_at: float | None = None
    max_execution_s: int | None = None
    eviction: Eviction | None = None
    refused: str = ""
    deciding_until: float = 0.0
    waits_for: str = ""
    """What a copy says that it waits for with its reservation."""
    pods: Pods = field(default_factory=Pods)
    finished: str = ""
    terminating: bool = False
    kind: str = BATCH_JOB

    @property
    def stage(self) -> Stage:
        """See Stage."""
        if self.finished:
            return Stage.OVER
        if self.admission is not None:
            if not self.suspended:
                return Stage.RUNNING
            if self.held and self.eviction is None and not self.terminating:
                return Stage.HELD
            return Stage.STOPPED if self.pods.gone else Stage.STOPPING
        if self.terminating:
            return Stage.OVER
        if not self.suspended:
            return Stage.STRAY
        if not self.pods.gone:
            return Stage.DRAINING
        if self.pods.started:
            return Stage.STOPPED
        if self.refused:
            return Stage.OVER
        return Stage.WAITING if self.reservation is None else Stage.RESERVED

    @property
    def holds(self) -> Admission | None:
        """What is charged while its stage is RESERVED, RUNNING, HELD or STOPPING."""
        return self.admission or self.reservation

    @property
    def pods_ready(self) -> bool:
        """Whether all pods that were admitted are ready or have ended; those that failed count
        until the Job controller has drawn its conclusion.
        """
        if self.admission is None:
            return False
        wanted = sum(pods.count for pods in self.admission.pod_sets)
        pods = self.pods
        return pods.ready + pods.succeeded + pods.uncounted >= wanted


@dataclass(frozen=True, slots=True)
class Asked:
    """What a Job asks for, and what it was given: the part of its facts that is dear to read.

    `counts` has the part of its spec that says how many pods it asks for, `pod_class` is the
    PriorityClass that it names, `grace_s` how long its pods may take to end.
    """

    admission: Admission | None
    pod_sets: tuple[PodSet, ...]
    problem: str
    counts: Json
    pod_class: str = ""
    grace_s: int = 30


def asked(job: Json, defaults: PodDefaults | None = None, kinds: Kinds = KINDS) -> Asked:
    """Read it; `defaults` are those of its namespace. The same for Jobs that are `alike`."""
    meta, kind = job["metadata"], kinds.of(job)
    annotations = meta.get("annotations") or {}
    note = annotations.get(Mirror.ADMISSION.value, "")
    before = kind.original(job)
    rest = {key: text for key, text in annotations.items() if key != Mirror.ADMISSION}
    before = {**before, "metadata": {**meta, "annotations": rest}}  # as it was before its start
    vendors = (defaults or NO_DEFAULTS).rules.vendors
    roles = kind.roles(before)
    problem = kind.problem(before, defaults)
    spelled = (spelling_problem(role.template, vendors) for role in roles)
    problem = problem or next(filter(None, spelled), "")
    try:
        sets = kind.pod_sets(before, defaults)
    except QuantityError as error:
        sets, problem = (), problem or f"a resource request is not valid: {error}"
    spec = mapping(before, ("spec",))
    counts = {key: spec[key] for key in _COUNTS if key in spec}
    grace = max((grace_seconds(role.template) for role in roles), default=30)
    admission = batch_job.decode_admission(note)
    return Asked(admission, sets, problem, counts, kind.pod_class(before), grace)


_COUNTS = ("parallelism", "completions")


def alike(left: Json, right: Json) -> bool:
    """Whether two versions of a Job ask for the same: the generation tells of any change of the
    spec, but not of labels and annotations.
    """
    one, other = left["metadata"], right["metadata"]
    fields = ("generation", "annotations", "labels")
    return "generation" in one and all(one.get(key) == other.get(key) for key in fields)


def worker_job(job: Json, request: Asked | None = None, kinds: Kinds = KINDS) -> WorkerJob | None:
    """Facts of a queue-labelled Job; None if another controller manages it.

    `request` is what it asks for, if that has been read.
    """
    meta, kind = job["metadata"], kinds.of(job)
    if kind.managed_elsewhere(job):
        return None
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    local_uid = annotations.get(Mirror.LOCAL_UID.value, "")
    mirrored = bool(local_uid and labels.get(Label.MULTIKUEUE_ORIGIN.value))
    queued_at = annotations.get(Mirror.QUEUED_AT.value) if mirrored else None
    said = read_wishes(job)
    disconnect = Disconnect() if said.problem else nearest([said])  # the safe one if in doubt
    request = request or asked(job, kinds=kinds)
    growth = elastic.asked(job, kind.sized) if mirrored else NOT_ASKED
    reserved = batch_job.timestamp(annotations.get(Mirror.RESERVED_AT.value)) or None
    admitted_at = batch_job.timestamp(annotations.get(Mirror.ADMITTED_AT.value)) or reserved
    return WorkerJob(
        uid=meta["uid"],
        key=ObjectKey(meta["namespace"], meta["name"]),
        version=int(meta["resourceVersion"]),
        queue=labels.get(Label.QUEUE_NAME.value, ""),
        priority_class=labels.get(Label.PRIORITY_CLASS.value, ""),
        pod_class=request.pod_class,
        created=batch_job.timestamp(queued_at) or batch_job.timestamp(meta["creationTimestamp"]),
        suspended=kind.suspended(job),
        pod_sets=request.pod_sets,
        reclaimable=kind.reclaimable({"spec": request.counts}, job),
        at_once=kind.at_once(job),
        asks={pods.name: pods.count for pods in request.pod_sets},
        grow_to=growth.pods,
        grow_refused=growth.refused,
        problem=request.problem,
        mirrored=mirrored,
        local_uid=local_uid,
        attempt=mirrored_attempt(job),
        epoch=mirrored_epoch(job) if mirrored else 0,
        priority=mirrored_priority(job),
        preemptible=annotations.get(Option.NON_PREEMPTIBLE.value) != "true",
        policy=disconnect.policy,
        rerun_after=disconnect.rerun_after,
        held=annotations.get(Mirror.HELD.value, "") if mirrored else "",
        pauses=read_pauses(annotations),
        grace_s=request.grace_s,
        admission=request.admission,
        reservation=batch_job.decode_admission(annotations.get(Mirror.RESERVATION.value, "")),
        reserved=reserved,
        admitted_at=admitted_at,
        max_execution_s=batch_job.max_execution_seconds(job),
        eviction=read_eviction(job),
        refused=annotations.get(Mirror.REFUSED.value, ""),
        deciding_until=batch_job.timestamp(annotations.get(Mirror.DECIDING.value)),
        waits_for=answers.waits_for(annotations),
        pods=kind.running(job),
        finished=kind.finished(job),
        terminating="deletionTimestamp" in meta,
        kind=kind.name,
    )
