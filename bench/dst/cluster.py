"""One worker cluster: a fake API server, with the Job controller, scheduler and kubelet of it.

The controller works on what its own watch told it, some time ago, and writes statuses that the
API server accepts (tests.fakes.job_rules). Nobody's clock but true time is used.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bench.dst.card_truth import Ask
from bench.dst.cards import Inventory, register
from bench.dst.clock import EPOCH, VirtualLoop
from bench.dst.kubelets import Kubelets
from bench.dst.truth import Run, Traits, Truth
from federation.api.names import FEDQ_NAMESPACE, Mirror
from federation.api.policies.jobs import EPOCH_CONFIG_MAP
from federation.edge.resources import (
    CONFIGMAPS,
    JOBS,
    NAMESPACES,
    WORKER_REPORTS,
    WORKLOADS,
    Resource,
)
from federation.jobs import batch_job
from federation.jobs.mirror import mirrored_epoch
from tests.fakes.kube_api import FakeKube
from tests.fakes.objects import FOREGROUND
from tests.fakes.patches import Refused
from worker_agent.binder import Binder

Json = dict[str, Any]
Key = tuple[str, str]
AGAIN_S = 2.0
"""After how long a node is asked again that does not answer."""

IDENTITY = "kube-system"
"""The namespace whose UID tells one physical cluster from another."""


@dataclass
class Pods:
    """The pods of one Job, which start and end together; those with cards (`ask`) start one by one.
    `run` is set while containers run, `killed` when it is not the Job controller that ends them,
    `lost` when their node is gone.
    """

    key: Key
    local: str
    count: int
    ask: Ask | None = None
    run: Run | None = None
    stopping: bool = False
    killed: bool = False
    lost: bool = False
    done: str = ""


class Cluster:
    """`guard` says whether containers of such a job have to be dead now (the node guard)."""

    def __init__(self, name: str, loop: VirtualLoop, truth: Truth, rng: random.Random) -> None:
        self.name, self.loop, self.truth, self.rng = name, loop, truth, rng
        self.fake = FakeKube(
            clock=lambda: datetime.fromtimestamp(EPOCH + loop.now, UTC),
            namespaces=("default", IDENTITY, FEDQ_NAMESPACE),
        )
        self.fake.objects.followers.setdefault(JOBS, []).append(self._changed)
        self.fake.objects.blocked = self._has_pods
        self.fake.admit = self._epoch_fence
        self.lag = (0.02, 0.3)
        """Of the controller's watch, in seconds."""
        self.start_lag = (0.5, 2.0)
        """How long pods take to start: longer than the controller is behind, so that what was
        deleted before it made pods starts nothing."""
        self.guard: Callable[[Traits], bool] = lambda traits: False
        self.on_grown: Callable[[str, Json], None] = lambda name, job: None
        """Hears of copies that get more pods, when that is written."""
        self._seen = 0
        self._heard = 0.0
        self.held = self.resumed = 0
        """How often an agent made a copy stand still, and let one go on."""
        self._cache: dict[Key, Json] = {}
        self._pods: dict[str, Pods] = {}
        self.inventory: Inventory | None = None
        self.nodes_lost = 0
        self._kubelets: Kubelets | None = None

    def furnish(self, inventory: Inventory, binder: Binder) -> None:
        """Give it nodes with cards."""
        register(self.truth.cards, self.name, inventory)
        self.inventory = inventory
        self._kubelets = kubelets = Kubelets(
            self.name, self.fake, self.loop, self.truth.cards, inventory, self.rng, binder
        )
        kubelets.on_start, kubelets.on_lost = self._container, self._lost
        kubelets.may_start = self._may_start

    @property
    def binder(self) -> Binder:
        """Who binds pods that have cards."""
        return self._kubelets.binder if self._kubelets is not None else Binder.HAMI

    def _epoch_fence(self, res: Resource, old: Json | None, new: Json) -> None:
        """The policy fedq-epoch: no copy is made or renewed under an epoch that is over."""
        key = (FEDQ_NAMESPACE, EPOCH_CONFIG_MAP)
        param = self.fake.objects.data.get(CONFIGMAPS, {}).get(key)
        if res != JOBS or param is None:
            return
        written, before = mirrored_epoch(new), mirrored_epoch(old) if old else 0
        if written and written != before and written < int(param["data"]["epoch"]):
            raise Refused(403, "Forbidden", f"the epoch {written} is over on this cluster")

    # The controller's watch

    def _changed(self) -> None:
        history = self.fake.objects.history
        for change in history[self._seen :]:
            if change.resource == JOBS:
                if change.old and change.new and _count(change.new) > _count(change.old):
                    self.on_grown(self.name, change.new)
                due = self.loop.now + self.rng.uniform(*self.lag)
                self._heard = max(due, self._heard + 1e-6)  # a watch keeps the order
                delay = self._heard - self.loop.now
                self.loop.later(delay, self._learn, change.old, change.new)
        self._seen = len(history)

    def _learn(self, old: Json | None, new: Json | None) -> None:
        meta = (new or old or {})["metadata"]
        held, was = _held(new), _held(old)
        self.held += held and not was
        self.resumed += was and not held and new is not None
        key = (meta["namespace"], meta["name"])
        known = self._cache.get(key)
        if known is not None and _version(known) > int(meta["resourceVersion"]):
            return  # it has read on already
        if new is None:
            if known is not None and known["metadata"]["uid"] == meta["uid"]:
                del self._cache[key]
            self._stop(meta["uid"])
            return
        if known is not None and known["metadata"]["uid"] != meta["uid"]:
            self._stop(known["metadata"]["uid"])
        self._cache[key] = new
        self._sync(key)

    # The controller

    def _sync(self, key: Key) -> None:
        job = self._cache.get(key)
        if job is None or batch_job.finished(job.get("status") or {}):
            return
        meta, uid = job["metadata"], job["metadata"]["uid"]
        pods = self._pods.get(uid)
        if meta.get("deletionTimestamp"):
            self._stop(uid)
            if uid not in self._pods:
                self._finalize(key, job)
        elif job["spec"].get("suspend"):
            if pods is not None and not pods.done:
                self._stop(uid)
            self._show(key, job)
        else:
            if pods is None:
                pods = self._pods[uid] = self._new_pods(key, job)
                if pods.ask is None:
                    self.loop.later(self.rng.uniform(*self.start_lag), self._start, key, uid)
            if pods.ask is None and not pods.stopping and not pods.done:
                self._resize(pods, _count(job))
            if self._kubelets is not None and not pods.stopping and not pods.done:
                self._kubelets.make(job, pods.ask, pods.count)
            self._show(key, job)

    def _resize(self, pods: Pods, count: int) -> None:
        """Its number of pods was changed: new ones start at once, others stop."""
        if count == pods.count:
            return
        pods.count = count
        if pods.run is not None and pods.run.end is None:
            self.truth.resize(pods.run, count * self.truth.traits[pods.local].amount)

    def _new_pods(self, key: Key, job: Json) -> Pods:
        notes, uid = job["metadata"].get("annotations") or {}, job["metadata"]["uid"]
        local = notes.get(Mirror.LOCAL_UID.value, uid)
        return Pods(key, local, _count(job), self.truth.traits[local].ask)

    def _show(self, key: Key, job: Json) -> None:
        """Write the status, unless the Job is not any more what it was decided on: then the news of
        that is on its way.
        """
        status, now = job.get("status") or {}, self._stamp()
        pods, suspended = self._pods.get(job["metadata"]["uid"]), bool(job["spec"].get("suspend"))
        running = pods is not None and not pods.stopping and not pods.done
        new: Json = {
            "active": pods.count if pods and running else None,
            "ready": self._live(job["metadata"]["uid"], pods) if pods and running else 0,
            "terminating": pods.count if pods and pods.stopping else 0,
        }
        if (not suspended or (pods and pods.done)) and not status.get("startTime"):
            new["startTime"] = now
        said = {c["type"]: c for c in status.get("conditions") or ()}
        if suspended or "Suspended" in said:
            said["Suspended"] = _condition("Suspended", suspended, said.get("Suspended"), now)
        if pods is not None and pods.done:
            first = "SuccessCriteriaMet" if pods.done == "Complete" else "FailureTarget"
            for kind in (first, pods.done):
                said[kind] = _condition(kind, True, None, now)
            new["active"] = None
            counter = "succeeded" if pods.done == "Complete" else "failed"
            new[counter] = pods.count
            if pods.done == "Complete":
                new["completionTime"] = now
        new["conditions"] = list(said.values())
        if any(status.get(k) != v for k, v in new.items() if v or status.get(k)):
            self._write(key, job, {"status": new})

    def _live(self, uid: str, pods: Pods) -> int:
        if pods.ask is not None and self._kubelets is not None:
            return self._kubelets.live(uid)
        return pods.count if pods.run else 0

    def _write(self, key: Key, job: Json, patch: Json) -> None:
        stored = self.fake.objects.data.get(JOBS, {}).get(key)
        if stored is None or _version(stored) != _version(job):
            return
        self._cache[key] = self.fake.merge(JOBS, key[1], patch, key[0], status=True)

    def _finalize(self, key: Key, job: Json) -> None:
        stored = self.fake.objects.data.get(JOBS, {}).get(key)
        if stored is None or stored["metadata"]["uid"] != job["metadata"]["uid"]:
            return
        held = stored["metadata"].get("finalizers") or []
        if FOREGROUND in held:
            left = [name for name in held if name != FOREGROUND] or None
            self.fake.merge(JOBS, key[1], {"metadata": {"finalizers": left}}, key[0])

    def _has_pods(self, res: Any, obj: Json) -> bool:
        return res == JOBS and obj["metadata"]["uid"] in self._pods

    # Scheduler and kubelet

    def _start(self, key: Key, uid: str) -> None:
        pods = self._pods.get(uid)
        if pods is None or pods.run is not None or pods.stopping or pods.done:
            return  # also when earlier pods of the Job had been waiting for the guard
        job = self._cache[key]
        notes = job["metadata"].get("annotations") or {}
        traits = self.truth.traits[pods.local]
        if self.guard(traits):
            self.loop.later(1.0, self._start, key, uid)  # the guard lets nothing live
            return
        attempt = int(notes.get(Mirror.ATTEMPT.value, "0"))
        amount = pods.count * traits.amount
        pods.run = Run(pods.local, attempt, self.name, uid, amount, self.loop.now)
        self.truth.begin(pods.run)
        self.loop.later(traits.duration, self._done, key, uid, pods.run)
        self._sync(key)

    def _may_start(self, uid: str) -> bool:
        return uid in self._pods and not self.guard(self.truth.traits[self._pods[uid].local])

    def _container(self, uid: str) -> None:
        """A container with cards has started."""
        pods = self._pods[uid]
        if pods.run is None:
            self._start(pods.key, uid)
        else:
            self._sync(pods.key)

    def _lost(self, uid: str) -> None:
        """A pod is gone with its node."""
        pods = self._pods.get(uid)
        if pods is None or pods.stopping or pods.done:
            return
        if self.truth.traits[pods.local].retries:
            self._sync(pods.key)
        else:
            pods.killed = pods.lost = True
            self._stop(uid)

    def _done(self, key: Key, uid: str, run: Run) -> None:
        pods = self._pods.get(uid)
        if pods is None or pods.run is not run or pods.stopping:
            return
        if self._live(uid, pods) < pods.count:
            self.loop.later(5.0, self._done, key, uid, run)
            return
        pods.done = self.truth.traits[run.local_uid].outcome
        self.truth.end(run, self.loop.now, pods.done)
        if self._kubelets is not None:
            self._kubelets.end(uid)
        self.loop.later(self.rng.uniform(*self.lag), self._after, key, uid)

    def _after(self, key: Key, uid: str) -> None:
        """The controller has heard of the end of pods."""
        job = self._cache.get(key)
        pods = self._pods.get(uid)
        if self._kubelets is not None and pods is not None and pods.done:
            if self._kubelets.silent(uid):
                self.loop.later(AGAIN_S, self._after, key, uid)
                return
            ended = "Succeeded" if pods.done == "Complete" else pods.done
            self._kubelets.finish(uid, ended)
        if job is None or job["metadata"]["uid"] != uid:
            self._pods.pop(uid, None)
        elif pods is not None and pods.done and not job["metadata"].get("deletionTimestamp"):
            self._show(key, job)
            stored = self._cache[key]
            if batch_job.finished(stored.get("status") or {}):
                del self._pods[uid]
            else:  # it was changed meanwhile
                self.loop.later(self.rng.uniform(*self.lag), self._after, key, uid)
        else:
            self._pods.pop(uid, None)
            self._sync(key)

    def _stop(self, uid: str) -> None:
        """Delete the pods: SIGTERM, and they end."""
        pods = self._pods.get(uid)
        if pods is None or pods.stopping:
            return
        pods.stopping = True
        if self._kubelets is not None:
            self._kubelets.delete(uid)
        if pods.run is None or pods.done:
            self.loop.later(0.0, self._gone, uid)
            return
        self.loop.later(self.truth.traits[pods.run.local_uid].exits, self._gone, uid)

    def _gone(self, uid: str) -> None:
        pods = self._pods.get(uid)
        if pods is None:  # they perished meanwhile
            return
        unheard = self._kubelets is not None and self._kubelets.silent(uid)
        if not unheard or pods.killed:
            self._end(uid, pods)
        if unheard:
            self.loop.later(AGAIN_S, self._gone, uid)
            return
        del self._pods[uid]
        if self._kubelets is not None:
            self._kubelets.forget(uid)
        for key, job in self._cache.items():
            if job["metadata"]["uid"] != uid:
                continue
            delay = self.rng.uniform(*self.lag)
            if pods.run is not None and pods.killed and self._fails(job, pods.run):
                self._pods[uid] = replace(pods, stopping=False, done="Failed")
                self.loop.later(delay, self._after, key, uid)
            else:
                self.loop.later(delay, self._sync, key)

    def _end(self, uid: str, pods: Pods) -> None:
        """Its containers are gone."""
        if pods.run is not None and not pods.done and pods.run.end is None:
            job = self._cache.get(pods.key)
            fails = pods.lost and job is not None and self._fails(job, pods.run)
            self.truth.end(pods.run, self.loop.now, "Failed" if fails else "")
        if self._kubelets is not None:
            self._kubelets.end(uid)

    def _fails(self, job: Json, run: Run) -> bool:
        """Whether the Job has failed because its pods were killed: if it has no retries, and pods
        of it are not being deleted anyway, which is no failure.
        """
        leaves = job["spec"].get("suspend") or job["metadata"].get("deletionTimestamp")
        return not (leaves or self.truth.traits[run.local_uid].retries)

    def kill(self, doomed: Callable[[Traits], bool]) -> None:
        """The containers of some jobs are killed; they have their grace."""
        for uid, pods in self._pods.items():
            live = not pods.done and not pods.killed and pods.run is not None
            if not live or not doomed(self.truth.traits[pods.local]):
                continue
            if not pods.stopping:
                pods.killed = True
                self._stop(uid)
            elif self._kubelets is not None and self._kubelets.silent(uid):
                pods.killed = True
                self.loop.later(self.truth.traits[pods.local].exits, self._gone, uid)

    def lose_node(self, node: str) -> None:
        """A machine is gone."""
        assert self._kubelets is not None
        self.nodes_lost += 1
        self._kubelets.lose(node)

    def perish(self) -> None:
        """All machines are gone, and what was stored of the work; another one is set up in place
        of the cluster.
        """
        for pods in self._pods.values():
            if pods.run is not None and not pods.done and pods.run.end is None:
                self.truth.end(pods.run, self.loop.now)
        self._pods.clear()
        if self._kubelets is not None:
            self._kubelets.perish()
        for resource in (JOBS, WORKLOADS, WORKER_REPORTS, CONFIGMAPS):
            for namespace, name in list(self.fake.objects.data.get(resource, {})):
                body = {"metadata": {"finalizers": None}}
                self.fake.merge(resource, name, body, namespace)
                if (namespace, name) in self.fake.objects.data[resource]:
                    self.fake.delete(resource, name, namespace)
        self.fake.delete(NAMESPACES, IDENTITY)
        self.fake.create(NAMESPACES, {"metadata": {"name": IDENTITY}})
        self.fake.compact()
        self.fake.drop_watches()

    def _stamp(self) -> str:
        moment = datetime.fromtimestamp(EPOCH + self.loop.now, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(kind: str, true: bool, old: Json | None, now: str) -> Json:
    status = str(true)
    if old is not None and old["status"] == status:
        return old
    return {"type": kind, "status": status, "reason": "", "message": "", "lastTransitionTime": now}


def _held(job: Json | None) -> bool:
    return job is not None and Mirror.HELD.value in (job["metadata"].get("annotations") or {})


def _count(job: Json) -> int:
    return int(job["spec"].get("parallelism", 1))


def _version(job: Json) -> int:
    return int(job["metadata"]["resourceVersion"])
