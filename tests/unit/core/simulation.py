"""A small world for the life of jobs: API servers, agents, people, and a manager that can crash.

The API servers are the fake that tests/contract holds to a real one, so every write is checked as
Kubernetes checks it. The manager is `step` with the shell's duties done one at a time, so that a
test can put anything between any two of them: a crash, a lost answer, another watch's news.
"""

from __future__ import annotations

import copy as copying
import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from federation.api import departure
from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.life import read_check
from federation.api.names import Label, Mirror, Order
from federation.core import effects as do
from federation.core import events as on
from federation.core.checks import CheckState
from federation.core.dispatch import Choice
from federation.core.facts import Binding, JobState, LocalJob, Queues, Record, RemoteJob
from federation.core.failover import OnDisconnect
from federation.core.lifecycle import step, wake_at
from federation.core.policies import AdmissionCheck, PodsReady, Retention, StopPolicy
from federation.core.reasons import Reason
from federation.core.stay import LifeRules, checked
from federation.core.types import ClusterQueue
from federation.core.wishes import Disconnect
from federation.edge.resources import JOBS, WORKLOADS, Resource
from federation.jobs import batch_job
from federation.jobs.eviction_note import Eviction, encode_eviction
from federation.jobs.mirror import Identity, mirrored_attempt
from tests.fakes.kube_api import FakeKube
from tests.fakes.patches import Refused
from tests.unit.core.build import admission
from tests.unit.core.tenures import Tenures

Json = dict[str, Any]
Stream = tuple[str, Resource]

HOME = "home"
NAMESPACE, NAME = "team", "job"
ORIGIN = "origin"
START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
OWN, BUDGET = "own", "budget"
"""Admission checks: the manager's, and that of another controller."""

MOVE_TO = Order.MOVE_TO.value

PODS_READY = PodsReady(60.0, 40.0, backoff_base_s=20, backoff_limit=2)
RETENTION = Retention(500.0, 700.0)


@dataclass(frozen=True)
class Setting:
    """What is configured: waitForPodsReady, retention, a second check, a limit of time, and what
    happens when the cluster of the job is lost.
    """

    pods_ready: bool = False
    retention: bool = False
    checks: bool = False
    max_execution: bool = False
    policy: OnDisconnect = OnDisconnect.STOP

    def rules(self) -> LifeRules:
        """As the step takes it."""
        ready = PODS_READY if self.pods_ready else None
        kept = RETENTION if self.retention else Retention()
        return LifeRules(batch_job.is_behind, ready, kept)


class Again(Exception):
    """The effect failed for now."""

    def __init__(self, after: float) -> None:
        super().__init__(after)
        self.after = after


class Ended(Exception):
    """The step ends with this event."""

    def __init__(self, event: on.Event) -> None:
        super().__init__(event)
        self.event = event


class Lost(Exception):
    """The write took hold, its answer did not arrive."""


@dataclass
class Shell:
    """What a manager has in memory: all of it is gone with a crash."""

    states: dict[str, JobState] = field(default_factory=dict)
    bodies: dict[str, Json] = field(default_factory=dict)
    workloads: dict[str, str] = field(default_factory=dict)
    queue: set[str] = field(default_factory=set)
    running: dict[str, deque[do.Effect]] = field(default_factory=dict)
    decided: dict[str, int] = field(default_factory=dict)
    orphans: deque[tuple[str, RemoteJob]] = field(default_factory=deque)
    synced: set[str] = field(default_factory=set)


class World:
    """Everything. Methods without an underscore are what can happen."""

    def __init__(
        self, workers: tuple[str, ...] = ("a", "b"), setting: Setting | None = None
    ) -> None:
        self._uids = mock.patch(
            "tests.fakes.objects.uuid.uuid4", side_effect=map(_uuid, itertools.count(1))
        )
        self._uids.start()  # the same choices give the same world
        self.now = START
        self.setting = setting or Setting()
        self.rules = self.setting.rules()
        self.workers = workers
        self.kubes = {name: FakeKube(clock=self._clock, namespaces=(NAMESPACE,)) for name in
                      (HOME, *workers)}  # fmt: skip
        self.streams: list[Stream] = [(HOME, JOBS), (HOME, WORKLOADS)]
        self.streams += [(name, JOBS) for name in workers]
        self.positions = dict.fromkeys(self.streams, 0)
        self.pods: dict[str, tuple[str, str]] = {}
        """UID of a copy whose pods run or are stopping, to (cluster, local UID)."""
        self.attempts: dict[str, int] = {}
        self.offered: set[str] = set()
        self.offers: dict[str, tuple[int, str]] = {}
        self.squatters: set[str] = set()
        self.workload_deleted = False
        self.submitted = 0
        self.stops = {"local": StopPolicy.NONE, "cluster": StopPolicy.NONE}
        self.held_by_people = False
        self.charged: dict[str, int] = {}
        self.tenures = Tenures(self)
        self.shell = Shell()
        self.restart()

    def close(self) -> None:
        """Give randomness back to the fakes."""
        self._uids.stop()

    def _clock(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)

    def _stamp(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    # People

    def submit(self) -> str:
        """Create the job; the admission policy has suspended it."""
        self.submitted += 1
        self.held_by_people = False
        labels = {Label.QUEUE_NAME.value: "lq"}
        if self.setting.max_execution:
            labels[Label.MAX_EXEC_TIME_SECONDS.value] = "300"
        template: Json = {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "resources": {"requests": {"gpu": "1"}}}],
            }
        }
        body: Json = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
            "spec": {"suspend": True, "managedBy": batch_job.MANAGED_BY, "template": template},
        }
        return str(self.kubes[HOME].create(JOBS, body)["metadata"]["uid"])

    def job(self) -> Json | None:
        """The local Job."""
        return self._find(HOME)

    def workload(self) -> Json | None:
        """Its Workload; without it that of a job that is gone."""
        job = self.job()
        uid = job["metadata"]["uid"] if job else ""
        found = self.kubes[HOME].items(WORKLOADS)
        return next((obj for obj in found if records.owner_uid(obj) == uid), None) or next(
            iter(found), None
        )

    def _find(self, cluster: str) -> Json | None:
        return self.kubes[cluster].objects.data.get(JOBS, {}).get((NAMESPACE, NAME))

    def copies(self) -> Iterator[tuple[str, Json]]:
        """All copies on workers."""
        for name in self.workers:
            found = self._find(name)
            if found is not None and _local_uid(found):
                yield name, found

    def set_suspend(self, suspend: bool) -> None:
        """A person suspends or resumes the local Job."""
        self.held_by_people |= suspend
        self.kubes[HOME].merge(JOBS, NAME, {"spec": {"suspend": suspend}}, NAMESPACE)

    def set_active(self, active: bool) -> None:
        """A person holds or releases the Workload."""
        self.held_by_people |= not active
        found = self.workload()
        assert found is not None
        patch = {"spec": {"active": active}}
        self.kubes[HOME].merge(WORKLOADS, found["metadata"]["name"], patch, NAMESPACE)

    def delete(self, *, foreground: bool = False) -> None:
        """A person deletes the local Job."""
        self._delete(HOME, foreground=foreground)

    def reap_home(self) -> None:
        """A foreground deletion of the local Job ends."""
        self._drop_finalizers(HOME)

    def stop_queue(self, which: str, policy: StopPolicy) -> None:
        """The `local` or the `cluster` queue is stopped or started."""
        self.stops[which] = policy
        for uid in list(self.shell.states):
            self._check_queue(uid)

    def preemptable(self) -> list[str]:
        """Jobs that hold quota, as the cycle sees them."""
        return [uid for uid, s in self.shell.states.items() if s.holds and not s.evicting]

    def preempt(self, uid: str) -> None:
        """The cycle wants the quota of a job for another one."""
        reason, cause = Reason.PREEMPTED, Reason.IN_CLUSTER_QUEUE
        self.feed(uid, on.Evict(reason, "Preempted to accommodate a workload", cause))

    def budget(self) -> Json | None:
        """The Workload, if the other controller has something to say of it."""
        found = self.workload()
        status = (found or {}).get("status") or {}
        listed = any(c["name"] == BUDGET for c in status.get("admissionChecks") or ())
        reserved = records.is_true(status, records.ConditionType.QUOTA_RESERVED)
        ended = records.is_true(status, records.ConditionType.FINISHED)
        return found if listed and reserved and not ended else None

    def decide_budget(self, state: CheckState) -> None:
        """The other controller says something about its check."""
        found = self.budget()
        assert found is not None
        checks = copying.deepcopy(found["status"]["admissionChecks"])
        for check in checks:
            if check["name"] == BUDGET:
                check.update(state=state.value, lastTransitionTime=self._stamp())
                check["requeueAfterSeconds"] = 30
                if state is CheckState.READY:
                    check["podSetUpdates"] = [{"name": "main", "labels": {"budget": "yes"}}]
        patch = {"status": {"admissionChecks": checks}}
        name = found["metadata"]["name"]
        self.kubes[HOME].merge(WORKLOADS, name, patch, NAMESPACE, status=True)

    def order_move(self, cluster: str) -> None:
        """A person orders the job to another cluster, or takes the order back ('')."""
        found = self.workload()
        assert found is not None
        notes = {"metadata": {"annotations": {MOVE_TO: cluster or None}}}
        self.kubes[HOME].merge(WORKLOADS, found["metadata"]["name"], notes, NAMESPACE)

    def drain(self, uid: str) -> None:
        """A person empties the cluster where the job is bound."""
        self.feed(uid, on.Evict(Reason.CLUSTER_DRAINED, "the cluster is drained"))

    def delete_workload(self) -> None:
        """A person deletes the Workload of a living job."""
        found = self.workload()
        assert found is not None
        self.workload_deleted = True
        self.kubes[HOME].delete(WORKLOADS, found["metadata"]["name"], NAMESPACE)

    def squat(self, cluster: str) -> None:
        """Somebody creates a Job of the same name on a worker."""
        template = {"spec": {"restartPolicy": "Never", "containers": []}}
        meta = {"name": NAME, "namespace": NAMESPACE}
        self.kubes[cluster].create(JOBS, {"metadata": meta, "spec": {"template": template}})
        self.squatters.add(cluster)

    def unsquat(self, cluster: str) -> None:
        """And deletes it."""
        self.squatters.discard(cluster)
        self.kubes[cluster].delete(JOBS, NAME, NAMESPACE)

    # Agents and the Job controllers of the workers

    def start(self, cluster: str) -> None:
        """The agent admits the copy: one patch, with its UID as the only precondition."""
        self._annotate(cluster, Mirror.ADMISSION, "{}", {"spec": {"suspend": False}})

    def refuse(self, cluster: str) -> None:
        """The agent refuses the copy for good."""
        self._annotate(cluster, Mirror.REFUSED, "WaitingForQuota: no room")

    def deliberate(self, cluster: str) -> None:
        """The agent asks for 60 s more."""
        until = datetime.fromtimestamp(self.now + 60, UTC).isoformat()
        self._annotate(cluster, Mirror.DECIDING, until)

    def _annotate(self, cluster: str, key: Mirror, value: str, more: Json | None = None) -> None:
        patch = {"metadata": {"annotations": {key.value: value}}, **(more or {})}
        self.kubes[cluster].merge(JOBS, NAME, patch, NAMESPACE)

    def undecided(self) -> list[str]:
        """Clusters whose agent has a copy to answer."""
        return [
            name
            for name, job in self._unanswered()
            if not self.tenures.of[name].over and not self.tenures.stale(name, job)
        ]

    def outdated(self) -> list[str]:
        """Clusters whose agent has to refuse a copy of an epoch that is over."""
        return [name for name, job in self._unanswered() if self.tenures.stale(name, job)]

    def _unanswered(self) -> list[tuple[str, Json]]:
        return [
            (name, job)
            for name, job in self.copies()
            if job["spec"]["suspend"]
            and "deletionTimestamp" not in job["metadata"]
            and not {Mirror.REFUSED.value, Mirror.ADMISSION.value}
            & job["metadata"]["annotations"].keys()
        ]

    def live(self) -> list[str]:
        """Clusters with a copy that is started and has not ended."""
        return [
            name
            for name, job in self.copies()
            if not job["spec"]["suspend"]
            and not batch_job.finished(job["status"])
            and "deletionTimestamp" not in job["metadata"]
        ]

    def run_pods(self, cluster: str, how: str) -> None:
        """The worker's Job controller: `up` or `unready`, then `ended` or `failed`, `conclude`."""
        job = self._find(cluster)
        assert job is not None
        status = copying.deepcopy(job["status"])
        uid, stamp = job["metadata"]["uid"], self._stamp()
        if how in ("up", "unready") or not status.get("startTime"):
            status.setdefault("startTime", stamp)
            status.update(active=1, ready=0 if how == "unready" else 1)
            self.pods[uid] = (cluster, _local_uid(job))
        elif how in ("ended", "failed"):
            kind = "succeeded" if how == "ended" else "failed"
            status.update(active=0, ready=0, uncountedTerminatedPods={kind: ["pod"]})
            self.pods.pop(uid, None)
        else:
            self._conclude(status, stamp)
            self.pods.pop(uid, None)
        self._put_status(cluster, job, status)

    @staticmethod
    def _conclude(status: Json, stamp: str) -> None:
        uncounted = status.pop("uncountedTerminatedPods", None) or {"succeeded": ["pod"]}
        well = "succeeded" in uncounted
        status.update(active=0, ready=0, **{"succeeded" if well else "failed": 1})
        kinds = ("SuccessCriteriaMet", "Complete") if well else ("FailureTarget", "Failed")
        status["conditions"] = [
            {"type": kind, "status": "True", "lastTransitionTime": stamp} for kind in kinds
        ]
        if well:
            status["completionTime"] = stamp

    def halt(self, cluster: str) -> None:
        """Somebody suspends a started copy on the worker; its pods still stop."""
        self.kubes[cluster].merge(JOBS, NAME, {"spec": {"suspend": True}}, NAMESPACE)

    def evict_there(self, cluster: str) -> None:
        """The worker's own queue does, and notes why."""
        note = encode_eviction(Eviction("Preempted", "for a local job", self._stamp()))
        self._annotate(cluster, Mirror.EVICTED, note, {"spec": {"suspend": True}})

    def lose(self, cluster: str) -> None:
        """Somebody deletes the copy on the worker, and its pods are killed with it."""
        job = self._find(cluster)
        assert job is not None
        self.pods.pop(job["metadata"]["uid"], None)
        self._delete(cluster)
        self._drop_finalizers(cluster)

    def reap(self, uid: str) -> None:
        """Pods of a copy that is suspended, terminating or deleted are gone at last."""
        cluster, _ = self.pods.pop(uid)
        job = self._find(cluster)
        if job is None or job["metadata"]["uid"] != uid:
            return
        if "deletionTimestamp" not in job["metadata"]:
            status = {k: v for k, v in job["status"].items() if k not in ("startTime", "active")}
            self._put_status(cluster, job, {**status, "ready": 0})

    def stopping(self) -> list[str]:
        """UIDs of copies whose pods are told to stop."""
        found = {job["metadata"]["uid"]: job for _, job in self.copies()}
        return [
            uid
            for uid in self.pods
            if uid not in found
            or found[uid]["spec"]["suspend"]
            or "deletionTimestamp" in found[uid]["metadata"]
        ]

    def collectable(self) -> list[str]:
        """Clusters whose copy is deleted in the foreground and has no pods any more."""
        return [
            name
            for name, job in self.copies()
            if "deletionTimestamp" in job["metadata"] and job["metadata"]["uid"] not in self.pods
        ]

    def collect(self, cluster: str) -> None:
        """The garbage collector ends a foreground deletion."""
        self._drop_finalizers(cluster)

    def _put_status(self, cluster: str, job: Json, status: Json) -> None:
        body = {**copying.deepcopy(job), "status": status}
        self.kubes[cluster].objects.update(JOBS, (NAMESPACE, NAME), body, status=True)

    def _delete(self, cluster: str, options: Json | None = None, foreground: bool = False) -> None:
        kube = self.kubes[cluster]
        if foreground:  # what the API server does, in two versions instead of one
            version = (options or {}).get("preconditions", {}).pop("resourceVersion", None)
            job = kube.get(JOBS, NAME, NAMESPACE)
            if version not in (None, job["metadata"]["resourceVersion"]):
                raise Refused(409, "Conflict", "the version in the precondition does not match")
            if (options or {}).get("preconditions", {}).get("uid") in (
                None,
                job["metadata"]["uid"],
            ):
                kube.merge(
                    JOBS, NAME, {"metadata": {"finalizers": ["foregroundDeletion"]}}, NAMESPACE
                )
        kube.objects.delete(JOBS, (NAMESPACE, NAME), options or {})

    def _drop_finalizers(self, cluster: str) -> None:
        if self._find(cluster) is not None:
            self.kubes[cluster].merge(JOBS, NAME, {"metadata": {"finalizers": None}}, NAMESPACE)

    # Watches

    def unread(self) -> list[Stream]:
        """Watches that have something to deliver."""
        return [
            s
            for s in self.streams
            if (s[0] not in self.shell.synced or self._next(s) is not None) and not self._cut(s[0])
        ]

    def reached(self) -> list[Stream]:
        """Watches of what is not cut off."""
        return [stream for stream in self.streams if not self._cut(stream[0])]

    def _cut(self, name: str) -> bool:
        return name != HOME and self.tenures.of[name].cut

    def _next(self, stream: Stream) -> int | None:
        history = self.kubes[stream[0]].objects.history
        later = range(self.positions[stream], len(history))
        return next((n for n in later if history[n].resource == stream[1]), None)

    def deliver(self, stream: Stream) -> None:
        """The next change of one watch arrives; after a crash first a full listing."""
        name, res = stream
        if name not in self.shell.synced:
            self.relist(stream)
            return
        position = self._next(stream)
        assert position is not None
        self.positions[stream] = position + 1
        change = self.kubes[name].objects.history[position]
        obj = change.new or change.gone
        assert obj is not None
        gone = change.new is None
        if name != HOME:
            if _local_uid(obj):  # watched by the label of the origin
                self._see_copy(name, obj, gone=gone)
        elif res == JOBS and gone:
            self._job_gone(obj["metadata"]["uid"])
        elif res == JOBS:
            self._see_job(obj)
        elif gone:
            self._workload_gone(obj["metadata"]["name"])
        else:
            self._see_workload(obj)

    def relist(self, stream: Stream) -> None:
        """A watch broke: everything comes again, deletions are only to be inferred."""
        name, res = stream
        objects = self.kubes[name].objects
        items = self.kubes[name].items(res)
        self.positions[stream] = len(objects.history)
        self.shell.synced.add(name)
        if name != HOME:
            items = [obj for obj in items if _local_uid(obj)]
            for obj in items:
                self._see_copy(name, obj)
            self._inventory(name, {_local_uid(obj) for obj in items}, objects.version)
        elif res == JOBS:
            for uid in self.shell.bodies.keys() - {obj["metadata"]["uid"] for obj in items}:
                self._job_gone(uid)
            for obj in items:
                self._see_job(obj)
        else:
            present = {obj["metadata"]["name"] for obj in items}
            for gone in self.shell.workloads.keys() - present:
                self._workload_gone(gone)
            for obj in items:
                self._see_workload(obj)

    def _inventory(self, cluster: str, present: set[str], version: int) -> None:
        for uid, state in list(self.shell.states.items()):
            concerned = cluster in state.remotes or (state.bound and state.bound.cluster == cluster)
            if concerned and uid not in present:
                self.feed(uid, on.RemoteAbsent(cluster, version))

    # The manager's shell

    def restart(self, *, held: bool = False) -> None:
        """The manager crashes and starts again; `held`: the write under way still takes hold."""
        if held:
            for uid, effects in self.shell.running.items():
                if effects:
                    self._attempt(uid, effects[0])
        self.shell = Shell()
        self.tenures.begin_anew()
        self.charged = {}
        uids = [obj["metadata"]["uid"] for obj in self.kubes[HOME].items(JOBS)]
        uids += [records.owner_uid(obj) for obj in self.kubes[HOME].items(WORKLOADS)]
        self.shell.states = {uid: JobState(busy=True) for uid in uids}
        for stream in self.streams[:2]:
            self.relist(stream)
        for uid in list(self.shell.states):
            self._check_queue(uid)
            self.feed(uid, on.Done())

    def _attempt(self, uid: str, effect: do.Effect) -> None:
        try:
            self._perform(uid, effect)
        except (Again, Ended, Refused):
            return

    def feed(self, uid: str, event: on.Event) -> None:
        """Step one job."""
        known = self.shell.states.get(uid)
        if known is None and not isinstance(event, on.LocalSeen | on.RecordSeen):
            return
        before = known or JobState()
        after, effects = step(before, event, self.now, self.rules)
        assert not (effects and before.busy and after.busy and uid in self.shell.running), (
            "a step was planned while effects of the last one run"
        )
        self.shell.states[uid] = after
        self._charge(uid, after)
        if effects:
            self.shell.running[uid] = deque(effects)
            self.shell.decided[uid] = after.record.version if after.record else 0
        self.tenures.tell_new(uid)

    def _charge(self, uid: str, state: JobState) -> None:
        self.charged[uid] = sum(state.holds.usage().values()) if state.holds else 0

    def work(self, uid: str, outcome: str = "ok") -> None:
        """The next effect of a job: `ok`, lost `before` it was sent, or its answer lost `after`."""
        effects = self.shell.running[uid]
        effect = effects.popleft()
        event: on.Event | None = None
        try:
            if outcome == "before":
                raise Again(1.0)
            self._perform(uid, effect, lost=outcome == "after")
        except Ended as ended:
            event = ended.event
        except Again as again:
            event = on.Failed(again.after)
        except Refused as refused:
            _must(refused.code in (404, 409), f"{effect} was invalid: {refused.message}")
            event = on.Failed(0.05 if refused.code == 409 else 5.0)
        except Lost:
            event = on.Failed(1.0)
        if event is None and effects:
            return
        if self.shell.running.get(uid) is effects:
            del self.shell.running[uid]
        if uid in self.shell.states:
            self.feed(uid, event or on.Done())

    def _perform(self, uid: str, effect: do.Effect, *, lost: bool = False) -> None:
        state = self.shell.states.get(uid) or JobState()
        if state.record and self.shell.decided[uid] not in (0, state.record.version):
            raise Again(0.05)
        answers: list[Callable[[], None]] = []
        match effect:
            case do.Forget():
                self.shell.queue.discard(uid)
                if state.forgettable:
                    self.shell.states.pop(uid, None)
                    self.charged.pop(uid, None)
            case do.Dequeue():
                self.shell.queue.discard(uid)
            case do.Enqueue():
                self.shell.queue.add(uid)
            case do.Offer():
                answers = self._offer(uid, state, effect)
            case do.Adopt():
                answers = self._adopt(uid, state, effect)
            case do.RemoveRemote():
                answers = self._remove(uid, state, effect)
            case do.Bind(cluster, attempt):
                answers = [self._bind(uid, state, cluster, attempt)]
            case do.DeleteWorkload():
                answers = [self._delete_workload(state)]
            case _:
                answers = [self._write(uid, state, effect)]
        if lost:
            raise Lost
        for answer in answers:
            answer()

    def _offer(self, uid: str, state: JobState, effect: do.Offer) -> list[Callable[[], None]]:
        cluster, attempt = effect.cluster, effect.attempt
        _, record = _facts(state)
        self.tenures.check_link(uid, cluster)
        if not effect.void and not checked(state, record):
            raise Again(0.05)
        job = self.shell.bodies[uid]
        epoch = record.binding.epoch if record.binding else 0
        since, disconnect = job["metadata"]["creationTimestamp"], Disconnect(self.setting.policy)
        identity = Identity(ORIGIN, uid, attempt, epoch, since, 0, disconnect)
        if epoch < self.tenures.of[cluster].agent:
            raise Ended(on.OfferRefused(cluster, "Forbidden", "the epoch is over"))
        body = batch_job.remote_manifest(job, identity)
        if effect.void:
            body["metadata"]["annotations"][Mirror.REFUSED.value] = do.VOID
        assert record.binding is None or record.binding.attempt == attempt
        _must(effect.void or not record.life.evicted, "a job that leaves was offered")
        if self.setting.checks and not effect.void and record.binding is not None:
            said = {check.name: check.state for check in record.life.checks}
            _must(said[BUDGET] is CheckState.READY, f"offered although budget is {said[BUDGET]}")
        try:
            made = self.kubes[cluster].create(JOBS, body)
        except Refused as refused:
            _must(refused.reason == "AlreadyExists", refused.message)
            made = self._claim(uid, cluster, attempt)
        remote = batch_job.remote_job(cluster, made)
        return [lambda: self.feed(uid, on.RemoteSeen(remote))]

    def _claim(self, uid: str, cluster: str, attempt: int) -> Json:
        job = self.kubes[cluster].get(JOBS, NAME, NAMESPACE)
        meta = job["metadata"]
        if (meta.get("labels") or {}).get(Label.MULTIKUEUE_ORIGIN.value) != ORIGIN:
            raise Ended(on.OfferRefused(cluster, "NameTaken", "a foreign job is there"))
        if _local_uid(job) == uid and mirrored_attempt(job) == attempt:
            return job
        if _local_uid(job) == uid and mirrored_attempt(job) > attempt:
            raise Ended(on.OfferRefused(cluster, "Superseded", "a later attempt is there"))
        running = not job["spec"]["suspend"] and not batch_job.finished(job["status"])
        self._delete(cluster, {"preconditions": {"uid": meta["uid"]}}, foreground=running)
        raise Again(1.0)

    def _adopt(self, uid: str, state: JobState, effect: do.Adopt) -> list[Callable[[], None]]:
        known = state.remotes[effect.cluster]
        found = self.tenures.adopt(uid, effect)
        if found is None:
            return [lambda: self.feed(uid, on.RemoteAbsent(effect.cluster, known.version))]
        remote = batch_job.remote_job(effect.cluster, found)
        return [lambda: self.feed(uid, on.RemoteSeen(remote))]

    def _remove(
        self, uid: str, state: JobState, effect: do.RemoveRemote
    ) -> list[Callable[[], None]]:
        known = state.remotes[effect.cluster]
        self.tenures.check_link(uid, effect.cluster)
        wanted = {"uid": effect.uid}
        if effect.version:
            wanted["resourceVersion"] = str(effect.version)
        absent = [lambda: self.feed(uid, on.RemoteAbsent(effect.cluster, known.version))]
        try:
            self._delete(effect.cluster, {"preconditions": wanted}, foreground=effect.wait)
        except Refused as refused:
            found = self._find(effect.cluster)
            if refused.code == 404 or found is None or found["metadata"]["uid"] != effect.uid:
                return absent
            remote = batch_job.remote_job(effect.cluster, found)
            self.feed(uid, on.RemoteSeen(remote))
            raise Again(1.0) from None
        left = self._find(effect.cluster)
        if left is None:
            return absent
        remote = batch_job.remote_job(effect.cluster, left)
        return [lambda: self.feed(uid, on.RemoteSeen(remote))]

    def _bind(self, uid: str, state: JobState, cluster: str, attempt: int) -> Callable[[], None]:
        _, record = _facts(state)
        if state.admission is None:
            raise Ended(on.BindLost())
        epoch = self.tenures.of[cluster].epoch
        binding = Binding(cluster, attempt, epoch, self._stamp(), self.setting.policy)
        body = patches.bind_patch(record, state.admission, binding, self._queues())
        try:
            answer = self._patch_workload(record, body)
        except Refused:
            raise Ended(on.BindLost()) from None

        def heard() -> None:
            answer()
            self.shell.queue.discard(uid)

        return heard

    def _delete_workload(self, state: JobState) -> Callable[[], None]:
        if state.record is None:
            return _nothing
        name = state.record.key.name
        found = self.kubes[HOME].objects.data.get(WORKLOADS, {}).get((NAMESPACE, name))
        if found is not None and found["metadata"]["uid"] == state.record.uid:
            self.kubes[HOME].delete(WORKLOADS, name, NAMESPACE)
        return lambda: self._workload_gone(name)

    def _write(self, uid: str, state: JobState, effect: do.Effect) -> Callable[[], None]:
        if state.local is None:
            raise Again(0.05)
        local = state.local
        match effect:
            case do.CreateWorkload():
                return self._create_workload(uid, local)
            case do.SetSuspend(suspend):
                return self._patch_job(local, {"spec": {"suspend": suspend}})
            case do.SyncStatus(cluster):
                remote = state.remotes[cluster]
                return self._replace_status(
                    local, batch_job.merge_status(local.status, remote.status)
                )
            case do.ResetStatus():
                if not local.suspended or local.finished:
                    raise Again(0.05)
                return self._replace_status(
                    local, batch_job.reset_status(local.status, self._stamp())
                )
            case do.DeleteJob():
                return self._delete_job(local)
        _, record = _facts(state)
        if isinstance(effect, do.SetActive):
            return self._patch_workload(record, {"spec": {"active": effect.active}}, status=False)
        if isinstance(effect, do.EndMove):
            notes = {"resourceVersion": str(record.version), "annotations": {MOVE_TO: None}}
            return self._patch_workload(record, {"metadata": notes}, status=False)
        return self._patch_workload(record, self._status_of(record, state, effect))

    def _status_of(self, record: Record, state: JobState, effect: do.Effect) -> Json:
        now = self._stamp()
        waits = self.rules.pods_ready is not None
        match effect:
            case do.SetNote(message):
                return patches.note_patch(record, message)
            case do.Rebind(epoch):
                return patches.rebind_patch(record, epoch)
            case do.Admit(cluster):
                ready = state.pods_ready if waits else None
                own = self._queues().own_check
                return patches.admit_patch(record, cluster, own, ready, now)
            case do.FinishWorkload(reason, _):
                ready = waits and reason == "Complete"
                return patches.finish_patch(record, reason, "", now, pods_ready=ready)
            case do.Evict():
                return departure.evict_patch(record, effect, now)
            case do.Unbind():
                return departure.unbind_patch(record, effect, now)
            case do.Readmit(reason, message):
                return departure.readmit_patch(record, reason, message, now)
            case do.SetTarget(reason, message):
                return departure.target_patch(record, reason, message, now)
            case do.SyncChecks():
                return departure.checks_patch(record, self._queues(), now)
            case do.SetPodsReady(ready):
                return departure.pods_ready_patch(record, ready, now)
            case do.SetWaiting(reason, message):
                return patches.waiting_patch(record, reason, message, now)
        raise AssertionError(effect)

    def _delete_job(self, local: LocalJob) -> Callable[[], None]:
        self.kubes[HOME].objects.delete(
            JOBS, (NAMESPACE, NAME), {"preconditions": {"uid": local.uid}}
        )
        return lambda: self._job_gone(local.uid)

    def _create_workload(self, uid: str, local: LocalJob) -> Callable[[], None]:
        body = records.manifest(self.shell.bodies[uid], local, "Job", 0, None)
        try:
            made = self.kubes[HOME].create(WORKLOADS, body)
        except Refused as refused:
            _must(refused.reason == "AlreadyExists", refused.message)
            made = self.kubes[HOME].get(WORKLOADS, body["metadata"]["name"], NAMESPACE)
        return lambda: self._see_workload(made)

    def _patch_workload(
        self, record: Record, body: Json, *, status: bool = True
    ) -> Callable[[], None]:
        written = self.kubes[HOME].merge(WORKLOADS, record.key.name, body, NAMESPACE, status=status)
        self.shell.decided[records.owner_uid(written)] = int(written["metadata"]["resourceVersion"])
        return lambda: self._see_workload(written)

    def _patch_job(self, local: LocalJob, body: Json) -> Callable[[], None]:
        self._check_uid(local)
        body = {**body, "metadata": {"resourceVersion": str(local.version)}}
        written = self.kubes[HOME].merge(JOBS, NAME, body, NAMESPACE)
        return lambda: self._see_job(written)

    def _replace_status(self, local: LocalJob, status: Json) -> Callable[[], None]:
        self._check_uid(local)
        job = copying.deepcopy(self.kubes[HOME].get(JOBS, NAME, NAMESPACE))
        job["metadata"]["resourceVersion"] = str(local.version)
        job["status"] = copying.deepcopy(status)
        written = self.kubes[HOME].objects.update(JOBS, (NAMESPACE, NAME), job, status=True)
        return lambda: self._see_job(written)

    def _check_uid(self, local: LocalJob) -> None:
        if self.kubes[HOME].get(JOBS, NAME, NAMESPACE)["metadata"]["uid"] != local.uid:
            raise Refused(409, "Conflict", "another job has the name")

    # What the manager is told

    def _see_job(self, obj: Json) -> None:
        local = batch_job.local_job(obj)
        for uid in list(self.shell.bodies):
            if uid != local.uid:
                self._job_gone(uid)
        self.shell.bodies[local.uid] = obj
        self.feed(local.uid, on.LocalSeen(local))
        self._check_queue(local.uid)

    def _queues(self) -> Queues:
        checks = (AdmissionCheck(OWN), AdmissionCheck(BUDGET)) if self.setting.checks else ()
        cluster = ClusterQueue("q", stop=self.stops["cluster"], checks=checks)
        return Queues(self.stops["local"], cluster, OWN if checks else "")

    def _check_queue(self, uid: str) -> None:
        state = self.shell.states.get(uid)
        if state is None or state.local is None:
            return
        if state.queues != (queues := self._queues()):
            self.feed(uid, on.QueuesSeen(queues))
        stopped = self.stops["local"] is not StopPolicy.NONE
        problem = "the LocalQueue is stopped" if stopped else ""
        state = self.shell.states[uid]
        if state.bound is None and state.queue_problem != problem:
            self.feed(uid, on.QueueProblem(problem))

    def _job_gone(self, uid: str) -> None:
        self.shell.bodies.pop(uid, None)
        if uid in self.shell.states:
            self.feed(uid, on.LocalSeen(None))

    def _see_workload(self, obj: Json) -> None:
        uid = records.owner_uid(obj)
        self.shell.workloads[obj["metadata"]["name"]] = uid
        self.feed(uid, on.RecordSeen(records.read_record(obj)))
        self._check_queue(uid)

    def _workload_gone(self, name: str) -> None:
        uid = self.shell.workloads.pop(name, "")
        state = self.shell.states.get(uid)
        if state and state.record and state.record.key.name == name:
            self.feed(uid, on.RecordSeen(None))

    def _see_copy(self, cluster: str, obj: Json, *, gone: bool = False) -> None:
        uid, remote = _local_uid(obj), batch_job.remote_job(cluster, obj, gone=gone)
        if uid in self.shell.states:
            self.feed(uid, on.RemoteSeen(remote))
        elif not gone and not remote.terminating:
            self.shell.orphans.append((cluster, remote))

    def remove_orphan(self) -> None:
        """Delete a copy whose job is not known."""
        cluster, remote = self.shell.orphans.popleft()
        if self.tenures.of[cluster].cut:
            self.shell.orphans.append((cluster, remote))
            return
        found = self._find(cluster)
        if found is None or found["metadata"]["uid"] != remote.uid:
            return
        wait = not remote.suspended and not remote.finished
        self._delete(cluster, {"preconditions": {"uid": remote.uid}}, foreground=wait)

    # The dispatcher and the clock

    def placeable(self) -> list[tuple[str, str]]:
        """What the cycle may decide now: (uid, cluster)."""
        found: list[tuple[str, str]] = []
        if self.stops["cluster"] is not StopPolicy.NONE:
            return found
        for uid, state in self.shell.states.items():
            if uid not in self.shell.queue or not state.queued or state.choice is not None:
                continue
            for name in self.workers:
                refusal = state.refusals.get(name)
                if state.record and state.record.move_to not in ("", name):
                    continue
                if self.tenures.of[name].noticed or self.tenures.of[name].fenced:
                    continue
                if refusal is None or refusal.until <= self.now:
                    found.append((uid, name))
        return found

    def place(self, uid: str, cluster: str) -> None:
        """The cycle admits the job and chooses a cluster."""
        self.feed(uid, on.Placed(admission(), Choice(cluster, "q", {})))

    def explain(self, uid: str) -> None:
        """The cycle says that the job has to wait."""
        self.feed(uid, on.NotPlaced("WaitingForQuota", "gpu: 0 free, 1 needed"))

    def pass_time(self, seconds: float) -> None:
        """Time goes by; what is due is ticked."""
        self.now += seconds
        for uid, state in list(self.shell.states.items()):
            due = wake_at(state)
            if due is not None and due <= self.now and not state.busy:
                self.feed(uid, on.Tick())

    def due(self) -> list[float]:
        """Deadlines of all jobs, those of refusals included."""
        times = [at for s in self.shell.states.values() if (at := wake_at(s)) is not None]
        for uid, state in self.shell.states.items():
            if uid in self.shell.queue:
                times += [r.until for r in state.refusals.values() if r.until > self.now]
        return times

    def pass_to_deadline(self) -> None:
        """Time goes by until the next of them."""
        self.pass_time(max(0.0, min(self.due()) - self.now) + 0.001)

    # Truths

    def check(self) -> None:
        """What must hold at every moment."""
        if self.setting.policy is not OnDisconnect.DUPLICATE_OK:
            self._check_one_runs()
        for cluster in self.squatters:
            found = self._find(cluster)
            assert found is not None, "a foreign job was touched"
            assert not _local_uid(found), "a foreign job was replaced"
        self._check_attempts()
        self._check_record()

    def _check_one_runs(self) -> None:
        """Never two copies of a job that run: started and not ended, or with pods."""
        alive: dict[str, set[tuple[str, str]]] = {}
        for cluster, job in self.copies():
            done = batch_job.finished(job["status"]) or "deletionTimestamp" in job["metadata"]
            if not job["spec"]["suspend"] and not done:
                alive.setdefault(_local_uid(job), set()).add((cluster, job["metadata"]["uid"]))
        for uid, (cluster, local_uid) in self.pods.items():
            alive.setdefault(local_uid, set()).add((cluster, uid))
        for local_uid, found in alive.items():
            assert len(found) == 1, f"job {local_uid} runs more than once: {sorted(found)}"

    def _check_attempts(self) -> None:
        """In the record they only grow; each copy has one that no other cluster had."""
        for found in self.kubes[HOME].items(WORKLOADS):
            uid, attempt = found["metadata"]["uid"], records.read_record(found).attempt
            assert attempt >= self.attempts.get(uid, 0), "the attempt went back"
            self.attempts[uid] = attempt
        for cluster, job in self.copies():
            uid, offer = job["metadata"]["uid"], (mirrored_attempt(job), cluster)
            if uid in self.offered:
                continue
            self.offered.add(uid)
            last = self.offers.get(_local_uid(job), (0, ""))
            new = offer == last or offer[0] > last[0] or self.workload_deleted
            assert new, f"offer {offer} after {last}"
            self.offers[_local_uid(job)] = offer

    def _check_record(self) -> None:
        """A copy that runs, or whose pods still stop, is bound in the record: its quota is not
        given away.
        """
        found, current = self.workload(), self.job()
        if self.workload_deleted or found is None or current is None:
            return
        record, owner = records.read_record(found), records.owner_uid(found)
        if owner != current["metadata"]["uid"] or record.finished:
            return
        if self.setting.policy is OnDisconnect.DUPLICATE_OK:
            return
        for cluster, local_uid in self.pods.values():
            if local_uid == owner:
                assert record.binding is not None, f"pods on {cluster}, and the quota is free"
                assert record.binding.cluster == cluster
                assert self.charged.get(owner), "pods run, and the manager charges nothing"
        for cluster in self.live():
            job = self.kubes[cluster].get(JOBS, NAME, NAMESPACE)
            if _local_uid(job) != owner:
                continue
            bound = record.binding
            assert bound is not None, f"a copy runs on {cluster} and the record is not bound"
            assert (bound.cluster, bound.attempt) == (cluster, mirrored_attempt(job))

    # The end

    def bring_up(self) -> None:
        """Have the job run with its pods up, as it does when nothing goes wrong."""
        while not self.pods:
            assert self._advance(), "the job does not start"

    def settle(self, limit: int = 600) -> None:
        """Faults stop, agents admit, pods succeed: drive everything until nothing is left to do."""
        for _ in range(limit):
            if not self._advance():
                return
            self.check()
        raise AssertionError(f"no rest after {limit} steps: {self.shell.states}")

    def _advance(self) -> bool:
        shell = self.shell
        stopped = [which for which, stop in self.stops.items() if stop is not StopPolicy.NONE]
        found = self.workload()
        if found is not None and MOVE_TO in (found["metadata"].get("annotations") or {}):
            self.order_move("")
        elif cut := [name for name, found in self.tenures.of.items() if found.cut]:
            self.tenures.heal(cut[0])
        elif stopped:
            self.stop_queue(stopped[0], StopPolicy.NONE)
        elif self.squatters:
            self.unsquat(min(self.squatters))
        elif self._reap_one():
            pass
        elif shell.running:
            self.work(next(iter(shell.running)))
        elif shell.orphans:
            self.remove_orphan()
        elif unread := self.unread():
            self.deliver(unread[0])
        elif places := self.placeable():
            self.place(*places[0])
        elif outdated := self.outdated():
            self.refuse(outdated[0])
        elif ending := self.tenures.ending():
            self.run_pods(ending[0], "conclude")
        elif resumable := self.tenures.resumable():
            self.tenures.resume(resumable[0])
        elif undecided := self.undecided():
            self.start(undecided[0])
        elif live := self.live():
            self._finish_pods(live[0])
        elif self._undecided_budget():
            self.decide_budget(CheckState.READY)
        else:
            return self._wait()
        return True

    def _undecided_budget(self) -> bool:
        found = self.budget()
        checks = map(read_check, found["status"]["admissionChecks"] if found else ())
        return any(c.name == BUDGET and c.state is CheckState.PENDING for c in checks)

    def _reap_one(self) -> bool:
        if stopping := self.stopping():
            self.reap(stopping[0])
        elif collectable := self.collectable():
            self.collect(collectable[0])
        else:
            job = self.job()
            if job is None or "deletionTimestamp" not in job["metadata"]:
                return False
            self.reap_home()
        return True

    def _finish_pods(self, cluster: str) -> None:
        job = self._find(cluster)
        assert job is not None
        self.run_pods(cluster, "conclude" if job["status"].get("startTime") else "up")

    def _wait(self) -> bool:
        """Nothing happens by itself: let time pass to the next deadline, if there is one."""
        if not self.due():
            return False
        self.pass_to_deadline()
        return True

    def check_end(self) -> None:
        """What must hold when everything is at rest."""
        assert not self.pods, "pods are left"
        assert list(self.copies()) == [], "copies are left on workers"
        job, found = self.job(), self.workload()
        if job is None:
            assert found is None, "the Workload of a deleted job is left"
            assert self.shell.states == {}, "a deleted job is remembered"
            assert self.charged == {}, "a deleted job holds quota"
            return
        if found is None:
            assert self.workload_deleted or self.setting.retention, "the Workload is missing"
            assert batch_job.finished(job["status"]), "a job without Workload is stuck"
            return
        record = records.read_record(found)
        assert sum(self.charged.values()) == 0, "quota is held at the end"
        if not record.active and not record.finished:
            assert job["spec"]["suspend"], "a held job is not suspended"
            assert record.binding is None, "a held job is bound"
            by_queue = record.life.evicted.startswith("DeactivatedDueTo")
            assert by_queue or self.held_by_people, "nobody wanted the job to be held"
            return
        ended = batch_job.finished(job["status"])
        assert ended, f"the job is stuck: {self.shell.states}"
        assert record.finished, "the record has not ended"
        assert not job["status"].get("active"), "an ended job shows pods"


def _facts(state: JobState) -> tuple[LocalJob, Record]:
    if state.local is None or state.record is None:
        raise Again(0.05)
    return state.local, state.record


def _local_uid(job: Json) -> str:
    return str((job["metadata"].get("annotations") or {}).get(Mirror.LOCAL_UID.value, ""))


def _nothing() -> None:
    return


def _must(holds: bool, otherwise: str) -> None:
    assert holds, otherwise


def _uuid(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)
