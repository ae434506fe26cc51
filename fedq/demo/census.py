"""Counting starts where they happen: by a watch on every worker, never from our own statuses."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from federation.edge.informer import Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS
from fedq.demo.objects import NAMESPACE

Json = dict[str, Any]


class Census:
    """Per Job the copies that got a start time: (cluster, UID of the copy)."""

    def __init__(self) -> None:
        self.starts: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self.started_at: dict[str, float] = {}
        """Job → monotonic time at which its first start was seen."""

    def see(self, cluster: str, job: Json) -> None:
        """A Job on a worker, as a watch brought it."""
        if (job.get("status") or {}).get("startTime"):
            meta = job["metadata"]
            self.starts[meta["name"]].add((cluster, meta["uid"]))
            self.started_at.setdefault(meta["name"], time.monotonic())

    def informers(self, workers: dict[str, KubeClient]) -> Iterable[Informer]:
        """A watch on each worker, to be run by the caller."""
        for name, client in workers.items():
            yield Informer(client, JOBS, _Watch(self, name), select=Select(NAMESPACE))

    def clusters(self) -> dict[str, int]:
        """Cluster → starts there."""
        counts: defaultdict[str, int] = defaultdict(int)
        for copies in self.starts.values():
            for cluster, _ in copies:
                counts[cluster] += 1
        return dict(sorted(counts.items()))


class _Watch:
    def __init__(self, census: Census, cluster: str) -> None:
        self._census, self._cluster = census, cluster

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        for item in items:
            self._census.see(self._cluster, item)

    def on_event(self, type: str, obj: Json) -> None:
        self._census.see(self._cluster, obj)
