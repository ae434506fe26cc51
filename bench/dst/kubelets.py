"""Pod objects of Jobs that ask for cards: scheduler and kubelets of one cluster.

Nobody here looks whether a card has room: a pod goes where it was let go to, once it has no gate.
HAMi's scheduler would hold it back, and hide what the agent does wrong.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.dst.card_truth import Ask, CardTruth, Pin
from bench.dst.cards import Inventory
from bench.dst.clock import EPOCH, VirtualLoop
from federation.core.topology import HOSTNAME
from federation.edge.resources import PODS
from tests.fakes.kube_api import FakeKube
from worker_agent.binder import Binder

Json = dict[str, Any]

USE = "nvidia.com/use-gpuuuid"
NODE = "hami.io/vgpu-node"
TIME = "hami.io/vgpu-time"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer by which the Job controller sees every pod end."""
BIND_S = ((0.05, 0.5), (1.0, 20.0), (5.0, 40.0))
"""How long the scheduler takes, or one that has much to do."""
COLLECTED_S = (1.0, 20.0)
"""When the pods of a node that is gone are removed."""
AGAIN_S = 3.0
"""After how long what cannot go on is tried again."""


@dataclass
class Pod:
    """`live` while its container runs, `bound` once it has a node."""

    uid: str
    name: str
    namespace: str
    job: str
    ask: Ask
    pin: Pin | None = None
    bound: bool = False
    live: bool = False
    leaving: bool = False


class Kubelets:
    """`on_start` and `on_lost` hear of a Job (by UID) of which a container has started, and of one
    whose pod is gone with its node; `may_start` says whether containers of a Job may.
    """

    def __init__(
        self,
        cluster: str,
        fake: FakeKube,
        loop: VirtualLoop,
        truth: CardTruth,
        inventory: Inventory,
        rng: random.Random,
        binder: Binder,
    ) -> None:
        self.cluster, self.fake, self.loop, self.truth = cluster, fake, loop, truth
        self.inventory, self.rng, self.binder = inventory, rng, binder
        self.lag = (0.02, 0.3)
        self.start_lag = (0.5, 2.0)
        self.on_start: Callable[[str], None] = lambda job: None
        self.on_lost: Callable[[str], None] = lambda job: None
        self.may_start: Callable[[str], bool] = lambda job: True
        self._pods: dict[str, Pod] = {}
        self._numbers = itertools.count()
        self._seen = 0
        self._heard = 0.0
        fake.objects.followers.setdefault(PODS, []).append(self._changed)

    # What the Job controller does

    def make(self, job: Json, ask: Ask | None, count: int) -> None:
        """Create the pods that are missing of a Job that asks for cards."""
        if ask is None:
            return
        meta, template = job["metadata"], job["spec"]["template"]
        owner = {"kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        for _ in range(count - len(self.of_job(meta["uid"]))):
            body = {
                "metadata": {
                    **(template.get("metadata") or {}),
                    "name": f"{meta['name']}-{next(self._numbers)}",
                    "namespace": meta["namespace"],
                    "ownerReferences": [{"apiVersion": "batch/v1", **owner}],
                    "finalizers": [TRACKING],
                },
                "spec": template["spec"],
            }
            self._create(body, meta["uid"], ask)

    def _create(self, body: Json, job: str, ask: Ask) -> None:
        made = self.fake.objects.create(PODS, body["metadata"]["namespace"], body)
        meta = made["metadata"]
        self._pods[meta["uid"]] = Pod(meta["uid"], meta["name"], meta["namespace"], job, ask)
        self._inspect(made)
        self.loop.later(self.rng.uniform(*self.lag), self._learn, made)

    def of_job(self, job: str) -> list[Pod]:
        """Its pods that have not ended."""
        return [pod for pod in self._pods.values() if pod.job == job]

    def live(self, job: str) -> int:
        """How many of its containers run."""
        return sum(pod.live for pod in self.of_job(job))

    def delete(self, job: str) -> None:
        """Have its pods end: SIGTERM."""
        for pod in self.of_job(job):
            if not pod.leaving:
                pod.leaving = True
                self.fake.delete(PODS, pod.name, pod.namespace)

    def end(self, job: str) -> None:
        """Its containers are gone, whatever the API server shows."""
        for pod in self.of_job(job):
            pod.live = False
            self.truth.end(pod.uid)

    def forget(self, job: str) -> None:
        """Its pods are gone for good."""
        self.end(job)
        self.delete(job)
        for pod in self.of_job(job):
            self._untrack(pod)

    def finish(self, job: str, phase: str) -> None:
        """Its pods have ended by themselves, and stay to be seen."""
        self.end(job)
        for pod in self.of_job(job):
            self._merge(pod, {"status": {"phase": phase}}, status=True)
            self._untrack(pod)

    def silent(self, job: str) -> bool:
        """Whether it has containers on nodes of which nothing is heard."""
        away = self.inventory.away
        return any(pod.pin and pod.bound and pod.pin.node in away for pod in self.of_job(job))

    def lose(self, node: str) -> None:
        """A node is gone with all that runs there; its pods are removed some time after that."""
        self.inventory.remove(node)
        for pod in list(self._pods.values()):
            if pod.bound and pod.pin is not None and pod.pin.node == node:
                pod.live = False
                self.truth.end(pod.uid)
                self.loop.later(self.rng.uniform(*COLLECTED_S), self._collect, pod)

    def _collect(self, pod: Pod) -> None:
        if self._pods.get(pod.uid) is pod:
            self._merge(pod, {"status": {"phase": "Failed"}}, status=True)
            self.fake.delete(PODS, pod.name, pod.namespace)
            self._untrack(pod)
            self.on_lost(pod.job)

    def perish(self) -> None:
        """All machines and all pods are gone."""
        for uid in self._pods:
            self.truth.end(uid)
        self._pods.clear()
        for namespace, name in list(self.fake.objects.data.get(PODS, {})):
            self.fake.merge(PODS, name, {"metadata": {"finalizers": None}}, namespace)
            if (namespace, name) in self.fake.objects.data[PODS]:
                self.fake.delete(PODS, name, namespace)

    def _untrack(self, pod: Pod) -> None:
        del self._pods[pod.uid]
        self._merge(pod, {"metadata": {"finalizers": None}})

    def _merge(self, pod: Pod, patch: Json, *, status: bool = False) -> None:
        stored = self.fake.objects.data.get(PODS, {}).get((pod.namespace, pod.name))
        if stored is not None and stored["metadata"]["uid"] == pod.uid:
            self.fake.merge(PODS, pod.name, patch, pod.namespace, status=status)

    # The scheduler's watch

    def _changed(self) -> None:
        history = self.fake.objects.history
        for change in history[self._seen :]:
            if change.resource == PODS and change.new is not None and change.old is not None:
                self._inspect(change.new)
                due = self.loop.now + self.rng.uniform(*self.lag)
                self._heard = max(due, self._heard + 1e-6)
                self.loop.later(self._heard - self.loop.now, self._learn, change.new)
        self._seen = len(history)

    def _inspect(self, stored: Json) -> None:
        """What is on a pod at this moment."""
        pod = self._pods.get(stored["metadata"]["uid"])
        if pod is not None and not stored["spec"].get("schedulingGates"):
            self.truth.pinned(pod.uid, pod.name, pod.ask, self._pin(stored))

    def _learn(self, stored: Json) -> None:
        pod = self._pods.get(stored["metadata"]["uid"])
        if pod is None or pod.leaving or pod.pin or stored["spec"].get("schedulingGates"):
            return
        pod.pin = self._pin(stored)
        if pod.pin is not None:
            delay = self.rng.uniform(*self.rng.choice(BIND_S))
            self.loop.later(delay, self._bind, pod)

    def _pin(self, stored: Json) -> Pin | None:
        notes = stored["metadata"].get("annotations") or {}
        node = (stored["spec"].get("nodeSelector") or {}).get(HOSTNAME, "")
        if self.binder is Binder.HAMI:
            uuids = [uuid for uuid in notes.get(USE, "").split(",") if uuid]
            return Pin(node, tuple(sorted(uuids))) if node and uuids else None
        text = notes.get(TO_ALLOCATE, "").strip(";:")
        entries = [entry.split(",") for entry in text.split(":") if entry]
        if not entries or node != notes.get(NODE):
            return None
        return Pin(node, tuple(sorted(entry[0] for entry in entries)))

    # Scheduler and kubelets

    def _there(self, pod: Pod) -> bool:
        return self._pods.get(pod.uid) is pod and not pod.leaving

    def _bind(self, pod: Pod) -> None:
        if not self._there(pod) or pod.pin is None:
            return
        if not self.inventory.sound(pod.pin.node, pod.pin.cards):
            self.loop.later(AGAIN_S, self._bind, pod)
            return
        pod.bound = True
        notes = self._allocation(pod, pod.pin) if self.binder is Binder.HAMI else {}
        node = {"metadata": {"annotations": notes}, "spec": {"nodeName": pod.pin.node}}
        self._merge(pod, node)
        self.loop.later(self.rng.uniform(*self.start_lag), self._start, pod)

    def _allocation(self, pod: Pod, pin: Pin) -> dict[str, str]:
        """What HAMi's scheduler writes."""
        each = f"NVIDIA,{pod.ask.memory},{pod.ask.cores}"
        text = "".join(f"{uuid},{each}:" for uuid in pin.cards) + ";"
        now = str(int(EPOCH + self.loop.now))
        return {NODE: pin.node, TIME: now, TO_ALLOCATE: text, ALLOCATED: text}

    def _start(self, pod: Pod) -> None:
        if not self._there(pod) or pod.pin is None:
            return
        if pod.pin.node in self.inventory.away or not self.may_start(pod.job):
            self.loop.later(1.0, self._start, pod)
            return
        pod.live = True
        self.truth.begin(self.cluster, pod.uid, pod.name, pod.ask, pod.pin)
        self._merge(pod, {"status": {"phase": "Running"}}, status=True)
        self.on_start(pod.job)
