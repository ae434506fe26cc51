"""Watches all clusters and notes what became of each job, apart from what Fedq says of it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from federation.edge.informer import Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import JOBS, WORKLOADS
from fedq.stack import Stack

Json = dict[str, Any]


class Observer:
    """Notes when each job reached each stage: admitted, running, complete (seconds)."""

    def __init__(self) -> None:
        self.created: dict[str, float] = {}
        self.reached: dict[str, dict[str, float]] = defaultdict(dict)
        self.starts: defaultdict[str, set[str]] = defaultdict(set)
        self.said: defaultdict[str, list[str]] = defaultdict(list)
        self.changed = asyncio.Event()

    def note(self, stage: str, name: str) -> None:
        """The first time a job is seen in a stage counts."""
        if name in self.created and name not in self.reached[stage]:
            self.reached[stage][name] = time.monotonic()
            self.changed.set()

    def local(self, obj: Json) -> None:
        """A Job of the management cluster."""
        if _is_true(obj, "Complete"):
            self.note("complete", obj["metadata"]["name"])

    def workload(self, obj: Json) -> None:
        """A Workload of the management cluster; `said` is what its conditions told."""
        owners = obj["metadata"].get("ownerReferences") or [{"name": ""}]
        name = owners[0]["name"]
        if _is_true(obj, "Admitted"):
            self.note("admitted", name)
        for condition in (obj.get("status") or {}).get("conditions") or ():
            told = "{type}={status} {reason}: {message}".format_map(condition)
            if told not in self.said[name]:
                self.said[name].append(told)

    def remote(self, cluster: str, obj: Json) -> None:
        """A Job of a worker cluster. `starts` counts distinct copies that got a start time."""
        meta = obj["metadata"]
        if not obj["spec"].get("suspend"):
            self.note("unsuspended", meta["name"])
        if (obj.get("status") or {}).get("startTime"):
            self.starts[meta["name"]].add(f"{cluster}/{meta['uid']}")
            self.note("running", meta["name"])

    async def wait(self, stage: str, count: int) -> None:
        """Until `count` jobs reached a stage."""
        while len(self.reached[stage]) < count:
            self.changed.clear()
            await self.changed.wait()

    def since_create(self, stage: str) -> list[float]:
        """Seconds from create to a stage, of each job that reached it."""
        return [at - self.created[name] for name, at in self.reached[stage].items()]


class Each:
    """Informer handler that hands every object on."""

    def __init__(self, take: Callable[[Json], None]) -> None:
        self._take = take

    def on_list(self, items: Any, resource_version: str) -> None:
        for item in items:
            self._take(item)

    def on_event(self, type: str, obj: Json) -> None:
        if type != "DELETED":
            self._take(obj)


def _is_true(obj: Json, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


@asynccontextmanager
async def observing(
    stack: Stack, namespace: str
) -> AsyncIterator[tuple[Observer, dict[str, KubeClient]]]:
    """An observer of one namespace on all clusters, and admin clients by cluster."""
    clients = {
        name: KubeClient(load_endpoint(stack.rig.kubeconfig(name)), user_agent="fedq-observer")
        for name in stack.rig.clusters
    }
    observer, select = Observer(), Select(namespace=namespace)
    management = clients[stack.rig.management]
    informers = [
        Informer(management, JOBS, Each(observer.local), select=select),
        Informer(management, WORKLOADS, Each(observer.workload), select=select),
    ]
    for worker in stack.rig.workers:
        take = Each(partial(observer.remote, worker))
        informers.append(Informer(clients[worker], JOBS, take, select=select))
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        for informer in informers:
            await informer.synced.wait()
        yield observer, clients
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients.values():
            await client.aclose()
