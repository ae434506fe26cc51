"""The queues and Jobs of drills. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from federation.api.names import KUEUE_API, Label, Option

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
        on: cluster on which they start; empty: any. Later they may go anywhere.
        stubborn: whether its process ignores SIGTERM, and has to be killed after GRACE.
        priority: one of PRIORITIES; empty: none.
        options: further annotations.
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
    options: tuple[tuple[str, str], ...] = ()

    def manifests(self, namespace: str) -> list[Json]:
        """The Jobs as they are sent."""
        return [self._manifest(namespace, f"{self.prefix}-{i:03d}") for i in range(self.count)]

    def _manifest(self, namespace: str, name: str) -> Json:
        notes = {Option.ON_DISCONNECT.value: self.policy, **dict(self.options)}
        labels = {Label.QUEUE_NAME.value: namespace}
        if self.priority:
            labels[Label.PRIORITY_CLASS.value] = self.priority
        amounts = {"cpu": "1", "memory": "64Mi"}
        container = {
            "name": "main",
            "image": "example.invalid/drill",  # never pulled: a small process stands in for it
            "resources": {"requests": amounts, "limits": {**amounts, GPU: str(self.cards)}},
        }
        pod = {
            "metadata": {
                "annotations": {
                    "fedq.io/process": "true",
                    "fedq.io/run-seconds": f"{self.seconds:g}",
                    "fedq.io/ignore-sigterm": str(self.stubborn).lower(),
                }
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
                "backoffLimit": 3,
                "template": pod,
            },
        }


def priority_classes() -> list[Json]:
    """The classes that jobs may name; needed on the management cluster only."""
    return [
        {
            "apiVersion": KUEUE_API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in PRIORITIES.items()
    ]


def queues(name: str, cards: int) -> list[Json]:
    """Namespace, flavor, ClusterQueue and LocalQueue called `name`, with `cards` cards."""
    amounts = {"cpu": cards, "memory": f"{cards}Gi", GPU: cards}
    quotas = [{"name": key, "nominalQuota": str(amount)} for key, amount in amounts.items()]
    group = {
        "coveredResources": list(amounts),
        "flavors": [{"name": "default", "resources": quotas}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {"apiVersion": KUEUE_API, "kind": "ResourceFlavor", "metadata": {"name": "default"}},
        {
            "apiVersion": KUEUE_API,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": KUEUE_API,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": name},
            "spec": {"clusterQueue": name},
        },
    ]
