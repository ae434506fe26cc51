"""Admission checks of worker clusters, and a controller that answers them: late, or not at all.

It wants most of what it is asked, some of it later. What it is asked by a Workload, it answers in
that Workload; a copy that is started before is a violation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bench.dst.clock import EPOCH, VirtualLoop
from bench.dst.people import NAMESPACE, QUEUES, custom
from federation.api import record as records
from federation.api.meta import wire_time
from federation.api.names import ConditionType, Label
from federation.edge.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, WORKLOADS
from tests.fakes.kube_api import FakeKube

Json = dict[str, Any]

WITH_CHECKS = 0.3
"""Of the seeds, how many have checks on some of their clusters."""
SOME = 0.7
WAIT_S = 90.0
"""How long the agents of such clusters let copies wait."""
NAME = "nodes"
_ANSWERS = ("Ready",) * 7 + ("Retry",) * 2 + ("",)
_CONTROLLERS = ("bench.example/check", "kueue.x-k8s.io/provisioning-request")


class CheckController:
    """Of one cluster. `violate` hears of a rule that is broken, and how; `answered` counts."""

    def __init__(
        self,
        name: str,
        fake: FakeKube,
        loop: VirtualLoop,
        rng: random.Random,
        violate: Callable[[str, str], None],
    ) -> None:
        self._name, self._fake, self._loop, self._rng = name, fake, loop, rng
        self._violate = violate
        self.answered = 0
        self._asked: set[str] = set()
        self._started: set[str] = set()
        spec = {"controllerName": rng.choice(_CONTROLLERS)}
        fake.create(ADMISSION_CHECKS, custom("AdmissionCheck", NAME, spec))
        active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        fake.merge(ADMISSION_CHECKS, NAME, {"status": {"conditions": [active]}}, status=True)
        for queue in QUEUES:
            strategy = {"admissionChecks": [{"name": NAME}]}
            fake.merge(CLUSTER_QUEUES, queue, {"spec": {"admissionChecksStrategy": strategy}})
        fake.objects.listeners.append(self._changed)

    def _changed(self) -> None:
        for workload in self._fake.items(WORKLOADS):
            uid = workload["metadata"]["uid"]
            if uid not in self._asked and _pending(workload):
                self._asked.add(uid)
                delay = self._rng.choice((self._rng.uniform(0, 2), self._rng.uniform(2, 60)))
                self._loop.later(delay, self._answer, workload["metadata"]["name"], uid)
        for job in self._fake.items(JOBS):
            uid = job["metadata"]["uid"]
            copy = Label.MULTIKUEUE_ORIGIN.value in (job["metadata"].get("labels") or {})
            if copy and not job["spec"].get("suspend") and uid not in self._started:
                self._started.add(uid)
                if not self._ready(uid):
                    name = job["metadata"]["name"]
                    self._violate("checks", f"{name} starts on {self._name}: not Ready")

    def _ready(self, job: str) -> bool:
        return any(
            check["state"] == "Ready"
            for workload in self._fake.items(WORKLOADS)
            if records.owner_uid(workload) == job
            for check in (workload.get("status") or {}).get("admissionChecks") or ()
        )

    def _answer(self, name: str, uid: str) -> None:
        found = [w for w in self._fake.items(WORKLOADS) if w["metadata"]["uid"] == uid]
        state = self._rng.choice(_ANSWERS)
        if not state or not found or not _pending(found[0]):
            return
        self.answered += 1
        (check,) = found[0]["status"]["admissionChecks"]
        at = wire_time(datetime.fromtimestamp(EPOCH + self._loop.now, UTC))
        said = check | {"state": state, "message": "drawn", "lastTransitionTime": at}
        if state == "Retry":
            said["requeueAfterSeconds"] = self._rng.choice((0, 5, 40))
        else:
            label = {"name": "main", "labels": {"bench/checked": "yes"}}
            said["podSetUpdates"] = [label]
        body = {"status": {"admissionChecks": [said]}}
        self._fake.merge(WORKLOADS, name, body, NAMESPACE, status=True)


def _pending(workload: Json) -> bool:
    """Whether it has quota, and asks."""
    status = workload.get("status") or {}
    checks = status.get("admissionChecks") or [{"state": ""}]
    reserved = records.is_true(status, ConditionType.QUOTA_RESERVED)
    return reserved and bool(checks[0]["state"] == "Pending")
