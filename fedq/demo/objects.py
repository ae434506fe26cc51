"""The queues and Jobs of the demonstration. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from federation.api.names import Label
from fedq.queue_manifests import priority_class_manifests, queue_manifests

Json = dict[str, Any]

NAMESPACE = "fedq-demo"
QUEUE = "demo"
GPU = "nvidia.com/gpu"

SIZES = {"small": 1, "medium": 2, "large": 4}
"""Name → pods, each with one card."""
_MIX = ("medium", "large", "small", "small", "large", "medium", "small", "medium")
PRIORITIES = {"low": 10, "normal": 100, "high": 1000}
_URGENCY = ("normal", "low", "normal", "high", "normal", "low")
_SECONDS = (2.0, 3.0, 1.5, 2.5, 1.0)
CARDS_OF_A_WORKER = 32


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One Job to submit."""

    name: str
    pods: int
    priority: str
    seconds: float

    def manifest(self) -> Json:
        """The Job as it is sent."""
        limits = {"cpu": "1", "memory": "256Mi", GPU: "1"}
        container = {
            "name": "main",
            "image": "example.invalid/demo",  # never pulled: the rig's pods are simulated
            "resources": {"requests": {"cpu": "1", "memory": "256Mi"}, "limits": limits},
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.name,
                "namespace": NAMESPACE,
                "labels": {
                    Label.QUEUE_NAME.value: QUEUE,
                    Label.PRIORITY_CLASS.value: self.priority,
                },
            },
            "spec": {
                "parallelism": self.pods,
                "completions": self.pods,
                "template": {
                    "metadata": {"annotations": {"fedq.io/run-seconds": str(self.seconds)}},
                    "spec": {"restartPolicy": "Never", "containers": [container]},
                },
            },
        }


def demo_jobs(count: int) -> list[DemoJob]:
    """`count` Jobs of several sizes, priorities and durations; the same ones every time."""
    return [
        DemoJob(
            name=f"{_MIX[i % len(_MIX)]}-{i + 1:02d}",
            pods=SIZES[_MIX[i % len(_MIX)]],
            priority=_URGENCY[i % len(_URGENCY)],
            seconds=_SECONDS[i % len(_SECONDS)],
        )
        for i in range(count)
    ]


def cards_per_worker(jobs: list[DemoJob], workers: int) -> int:
    """Quota of each worker, so that about half of the Jobs find no room at first."""
    half = sum(job.pods for job in jobs) / 2
    largest = max(job.pods for job in jobs)
    return min(CARDS_OF_A_WORKER, max(largest, math.ceil(half / workers)))


def queues(cards: int) -> list[Json]:
    """Namespace, flavor, ClusterQueue and LocalQueue with a quota of `cards` cards."""
    quotas = {"cpu": str(cards), "memory": f"{cards}Gi", GPU: str(cards)}
    return queue_manifests(QUEUE, NAMESPACE, quotas)


def priority_classes() -> list[Json]:
    """The classes that the Jobs name; needed on the management cluster only."""
    return priority_class_manifests(PRIORITIES)
