"""Following jobs by watches until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from federation.api.names import Label
from federation.api.record import owner_uid
from federation.core.facts import BATCH_JOB
from federation.edge.bundles import Bundles
from federation.edge.informer import Handler, Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.resources import WORKLOADS, resource_of
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.registry import KINDS
from fedq.jobview import JobView, job_view

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace, and NAME of a Job, or KIND/NAME; of a group of pods the name of the group."""
JOB = KINDS[BATCH_JOB]

LOOK_S = 0.25
"""Seconds between two looks at what the watches brought: people see no more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Jobs to follow, with their UIDs: one of another UID is another job. `kinds` are those of
    other kinds than batch/v1 Job.
    """

    uids: dict[Key, str]
    kinds: dict[Key, JobKind] = field(default_factory=dict)

    @property
    def namespaces(self) -> list[str]:
        """Namespaces to watch."""
        return sorted({namespace for namespace, _ in self.uids})

    def kind(self, key: Key) -> JobKind:
        """The kind of a job."""
        return self.kinds.get(key, JOB)

    def watched(self, namespace: str) -> list[JobKind]:
        """The kinds to watch in a namespace."""
        found = {kind.name: kind for kind in map(self.kind, self.uids)}
        there = {self.kind(key).name for key in self.uids if key[0] == namespace}
        return [kind for name, kind in found.items() if name in there]


class Follower:
    """What is known of the wanted jobs; `gone` are those that were deleted before they ended."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.gone: set[Key] = set()
        self._jobs: dict[Key, Json] = {}
        self._workloads: dict[str, Json] = {}
        self._keys = {uid: key for key, uid in wanted.uids.items()}

    def _key(self, obj: Json) -> Key | None:
        """Which of the wanted jobs it is. A group of pods is known by any of them."""
        pods = obj["spec"].get("pods") or () if "spec" in obj else ()
        uids = [obj["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in pods)]
        key = next((self._keys[uid] for uid in uids if uid in self._keys), None)
        if key is not None:
            self._keys.setdefault(uids[0], key)
        return key

    def see_job(self, type: str, job: Json) -> None:
        """An object as a watch brought it."""
        key = self._key(job)
        if key is None:
            return
        if type == "DELETED" and not self._ended(key):
            self.gone.add(key)
        if type != "DELETED" or key not in self.gone:
            self._jobs[key] = job

    def jobs_listed(self, namespace: str, items: Sequence[Json], kind: JobKind = JOB) -> None:
        """A full listing of one kind and namespace: what is not in it is gone."""
        present = set(map(self._key, items))
        for key in self.wanted.uids:
            mine = key[0] == namespace and self.wanted.kind(key).name == kind.name
            if mine and key not in present and not self._ended(key):
                self.gone.add(key)
        for item in items:
            self.see_job("ADDED", item)

    def see_workload(self, type: str, workload: Json) -> None:
        """A Workload as a watch brought it."""
        if type != "DELETED":
            self._workloads[owner_uid(workload)] = workload

    def _ended(self, key: Key) -> bool:
        job = self._jobs.get(key)
        return job is not None and bool(self.wanted.kind(key).finished(job))

    def _view(self, key: Key) -> JobView:
        job = self._jobs[key]
        workload = self._workloads.get(job["metadata"]["uid"])
        return job_view(job, workload, self.wanted.kind(key))

    @property
    def views(self) -> list[JobView]:
        """The jobs as they are, in the order in which they were asked for."""
        return [self._view(key) for key in self.wanted.uids if key in self._jobs]

    @property
    def left(self) -> list[JobView]:
        """Those that have neither ended nor gone."""
        keys = [key for key in self._jobs if key not in self.gone and not self._ended(key)]
        return [self._view(key) for key in keys]

    @property
    def done(self) -> bool:
        """Whether every job has ended or is gone."""
        return all(key in self.gone or self._ended(key) for key in self.wanted.uids)


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
        for kind in follower.wanted.watched(namespace):
            listed = partial(follower.jobs_listed, namespace, kind=kind)
            jobs: Handler = _Handler(listed, follower.see_job)
            queued = "" if kind.name == BATCH_JOB else Label.QUEUE_NAME.value
            if kind.bundled:
                jobs = Bundles(jobs, partial=True)
            yield Informer(client, resource_of(kind), jobs, select=Select(namespace, queued))
        workloads = _Handler(see_all, follower.see_workload)
        yield Informer(client, WORKLOADS, workloads, select=Select(namespace))


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
