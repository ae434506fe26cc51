"""A rig with Fedq on it and queues to submit to, for benchmarks; taken down afterwards."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.observer import Observer
from federation.api.names import Label
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS
from fedq.queue_manifests import queue_manifests
from fedq.rig.rig import Rig
from fedq.stack import Stack

Json = dict[str, Any]

NAMESPACE = "bench"
QUEUE = "bench"
CREATORS = 16


@contextmanager
def rigged(workers: int, home: Path | None = None) -> Iterator[Stack]:
    """Fedq on 1 + `workers` clusters. With `home` a rig that is there is used, and left up."""
    with tempfile.TemporaryDirectory(prefix="fedq-bench-") as temp:
        rig = Rig.load(home or Path(temp) / "rig")
        stack = Stack(rig)
        try:
            rig.up(workers, progress=lambda text: print(text, file=sys.stderr))
            stack.install()
            for cluster in rig.clusters:
                stack.apply(cluster, queues())
            stack.start()
            yield stack
        finally:
            if home is None:
                stack.stop()
                rig.down()


async def create_jobs(client: KubeClient, observer: Observer, jobs: Sequence[Json]) -> None:
    """Create Jobs in their order, CREATORS at a time; the observer hears when each was sent."""
    queue = list(reversed(jobs))

    async def creator() -> None:
        while queue:
            body = queue.pop()
            observer.created[body["metadata"]["name"]] = time.monotonic()
            await client.create(JOBS, body)

    await asyncio.gather(*(creator() for _ in range(CREATORS)))


def queues() -> list[Json]:
    """A namespace with one queue; per cluster, so the global budget is that of the workers."""
    return queue_manifests(QUEUE, NAMESPACE, {"cpu": "1000", "nvidia.com/gpu": "32"})


def job(name: str, seconds: float) -> Json:
    """A Job of one pod that requests 1 cpu and runs for `seconds`."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {Label.QUEUE_NAME.value: QUEUE},
        },
        "spec": {
            "suspend": True,
            "parallelism": 1,
            "completions": 1,
            "template": {
                "metadata": {"annotations": {"fedq.io/run-seconds": str(seconds)}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "example.invalid/none",
                            "resources": {"requests": {"cpu": "1"}},
                        }
                    ],
                },
            },
        },
    }
