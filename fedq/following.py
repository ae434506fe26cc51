"""Following jobs by watches until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from federation.api.record import owner_uid
from federation.edge.informer import Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, WORKLOADS
from fedq.jobview import JobView, job_view

Json = dict[str, Any]
Key = tuple[str, str]

LOOK_S = 0.25
"""Seconds between two looks at what the watches brought: people see no more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Jobs to follow: namespace and name → UID. A Job of another UID is another job."""

    uids: dict[Key, str]

    @property
    def namespaces(self) -> list[str]:
        """Namespaces to watch."""
        return sorted({namespace for namespace, _ in self.uids})


class Follower:
    """What is known of the wanted jobs; `gone` are those that were deleted before they ended."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.gone: set[Key] = set()
        self._jobs: dict[Key, Json] = {}
        self._workloads: dict[str, Json] = {}
        self._uids = set(wanted.uids.values())

    def see_job(self, type: str, job: Json) -> None:
        """A Job as a watch brought it."""
        meta = job["metadata"]
        key = (meta["namespace"], meta["name"])
        if self.wanted.uids.get(key) != meta["uid"]:
            return
        if type == "DELETED" and not self._ended(key):
            self.gone.add(key)
        if type != "DELETED" or key not in self.gone:
            self._jobs[key] = job

    def jobs_listed(self, namespace: str, items: Sequence[Json]) -> None:
        """A full listing of one namespace: what is not in it is gone."""
        present = {item["metadata"]["uid"] for item in items}
        for key, uid in self.wanted.uids.items():
            if key[0] == namespace and uid not in present and not self._ended(key):
                self.gone.add(key)
        for item in items:
            self.see_job("ADDED", item)

    def see_workload(self, type: str, workload: Json) -> None:
        """A Workload as a watch brought it."""
        uid = owner_uid(workload)
        if uid in self._uids and type != "DELETED":
            self._workloads[uid] = workload

    def _ended(self, key: Key) -> bool:
        job = self._jobs.get(key)
        return job is not None and job_view(job, None).state.ended

    @property
    def views(self) -> list[JobView]:
        """The jobs as they are, in the order in which they were asked for."""
        found = ((self._jobs.get(key), uid) for key, uid in self.wanted.uids.items())
        return [job_view(job, self._workloads.get(uid)) for job, uid in found if job]

    @property
    def done(self) -> bool:
        """Whether every job has ended or is gone."""
        ended = {view.key for view in self.views if view.state.ended}
        return not self.wanted.uids.keys() - ended - self.gone


class _Handler:
    """Informer handler that hands each object on."""

    def __init__(
        self, listed: Callable[[Sequence[Json]], None], event: Callable[[str, Json], None]
    ) -> None:
        self._listed, self._event = listed, event

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        self._listed(items)

    def on_event(self, type: str, obj: Json) -> None:
        self._event(type, obj)


def _informers(client: KubeClient, follower: Follower) -> Iterable[Informer]:
    def see_all(items: Sequence[Json]) -> None:
        for item in items:
            follower.see_workload("ADDED", item)

    for namespace in follower.wanted.namespaces:
        select = Select(namespace)
        jobs = _Handler(partial(follower.jobs_listed, namespace), follower.see_job)
        yield Informer(client, JOBS, jobs, select=select)
        workloads = _Handler(see_all, follower.see_workload)
        yield Informer(client, WORKLOADS, workloads, select=select)


@asynccontextmanager
async def watching(informers: Iterable[Informer]) -> AsyncIterator[list[Informer]]:
    """Run informers in the background until the block is left."""
    running = list(informers)
    tasks = [asyncio.create_task(informer.run()) for informer in running]
    try:
        yield running
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def follow(
    client: KubeClient,
    wanted: Wanted,
    show: Callable[[list[JobView]], None],
    patience: float | None = None,
) -> Follower:
    """Call `show` with the jobs now and then until all have ended, or `patience` seconds passed.

    Raises the ApiError that makes watching hopeless (credentials, roles); waits out the others.
    """
    follower = Follower(wanted)
    loop = asyncio.get_running_loop()
    deadline = None if patience is None else loop.time() + patience
    async with watching(_informers(client, follower)) as informers:
        while True:
            show(follower.views)
            if follower.done or (deadline is not None and loop.time() > deadline):
                return follower
            for informer in informers:
                if informer.error is not None and not informer.error.retryable:
                    raise informer.error
            await asyncio.sleep(LOOK_S)  # the rate at which a person is shown news
