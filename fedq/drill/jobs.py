"""The queues and Jobs of drills. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from federation.api.names import KUEUE_API, KUEUE_GROUP, Controller, Label, Option
from fedq.queue_manifests import priority_class_manifests, queue_manifests
from fedq.rig.pods.plan import PROCESS

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
CARDS_OF_A_NODE = 8
CARDS_OF_A_WORKER = 32
"""Four nodes."""
PRIORITIES = {"drill-low": 10, "drill-high": 1000}
GRACE = 30
"""Seconds of termination grace of the Jobs: the kill bound K of both profiles has room for it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Jobs that are alike.

    Attributes:
        seconds: how long each runs.
        policy: `stop`, `keep` or `duplicate-ok`.
        cards: of each pod; 0: the pod asks for a tenth of a core only.
        process: whether a real process stands for each pod. Without one the checker knows nothing
            of the job, and only what stands on the API servers can be judged.
        on: cluster on which they start; empty: any. Later they may go anywhere.
        stubborn: whether its process ignores SIGTERM, and has to be killed after GRACE.
        priority: one of PRIORITIES; empty: none.
        options: further annotations.
        retries: its backoffLimit.
        checkpoints: folder in which its process commits to the token of the job (tier C).
    """

    count: int
    seconds: float
    policy: str = "stop"
    prefix: str = "job"
    on: str = ""
    stubborn: bool = False
    cards: int = 1
    pods: int = 1
    priority: str = ""
    process: bool = True
    options: tuple[tuple[str, str], ...] = ()
    checkpoints: str = ""
    retries: int = 3

    def manifests(self, namespace: str) -> list[Json]:
        """The Jobs as they are sent."""
        return [self._manifest(namespace, f"{self.prefix}-{i:03d}") for i in range(self.count)]

    def _manifest(self, namespace: str, name: str) -> Json:
        notes = {Option.ON_DISCONNECT.value: self.policy, **dict(self.options)}
        labels = {Label.QUEUE_NAME.value: namespace}
        if self.priority:
            labels[Label.PRIORITY_CLASS.value] = self.priority
        amounts = {"cpu": "1" if self.cards else "100m", "memory": "64Mi"}
        limits = {**amounts, GPU: str(self.cards)} if self.cards else amounts
        container: Json = {
            "name": "main",
            "image": "example.invalid/drill",  # never pulled: a small process stands in for it
            "resources": {"requests": amounts, "limits": limits},
        }
        if self.checkpoints:
            container["env"] = [{"name": "FEDQ_CHECKPOINTS", "value": self.checkpoints}]
        pod = {
            "metadata": {
                "labels": {PROCESS: str(self.process).lower()},
                "annotations": {
                    "fedq.io/run-seconds": f"{self.seconds:g}",
                    "fedq.io/ignore-sigterm": str(self.stubborn).lower(),
                },
            },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": GRACE,
                "containers": [container],
            },
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": labels,
                "annotations": notes,
            },
            "spec": {
                "parallelism": self.pods,
                "completions": self.pods,
                "backoffLimit": self.retries,
                "template": pod,
            },
        }


def priority_classes() -> list[Json]:
    """The classes that jobs may name; needed on the management cluster only."""
    return priority_class_manifests(PRIORITIES)


def check_objects(name: str, clusters: list[str]) -> list[Json]:
    """A MultiKueueConfig of these clusters and the AdmissionCheck that uses it, called `name`."""
    reference = {"apiGroup": KUEUE_GROUP, "kind": "MultiKueueConfig", "name": name}
    return [
        {
            "apiVersion": KUEUE_API,
            "kind": "MultiKueueConfig",
            "metadata": {"name": name},
            "spec": {"clusters": clusters},
        },
        {
            "apiVersion": KUEUE_API,
            "kind": "AdmissionCheck",
            "metadata": {"name": name},
            "spec": {"controllerName": Controller.MULTIKUEUE.value, "parameters": reference},
        },
    ]


def queues(name: str, cards: int) -> list[Json]:
    """Namespace, flavor, ClusterQueue and LocalQueue called `name`, with `cards` cards, and with
    twice as many cores.
    """
    quotas = {"cpu": str(2 * cards), "memory": f"{2 * cards}Gi", GPU: str(cards)}
    # By which the order can be judged: BestEffortFIFO lets one pass that fits just then.
    return queue_manifests(name, name, quotas, queueingStrategy="StrictFIFO")
