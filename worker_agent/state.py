"""What the parts of the agent share: the Jobs, the scheduler, and what is under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from federation.api.meta import wire_time
from federation.core.policies import FairUsage, RequeueTimestamp, ResourceRules, Rules
from federation.core.queueing import MemoryIndex
from federation.core.scheduler import REACTIVATION_S, Scheduler
from federation.edge.catalog import Catalog
from federation.edge.kube import KubeClient
from federation.jobs.eviction_note import Eviction
from worker_agent.book import Book
from worker_agent.facts import WorkerJob
from worker_agent.standing import Standings
from worker_agent.texts import Waiting
from worker_agent.writes import Jobs, Queue


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says, and where time comes from (seconds since the epoch)."""

    rules: Rules = field(default_factory=Rules)
    resources: ResourceRules = field(default_factory=ResourceRules)
    timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION
    fair_usage: FairUsage | None = None
    reactivation_s: float = REACTIVATION_S
    clock: Callable[[], float] = time.time


class State:
    """`waits` says why local Jobs wait, `evicting` which Jobs are to be stopped and do not say so
    yet; both by UID. `touch` has a Job looked at before the next decision.
    """

    def __init__(
        self, client: KubeClient, catalog: Catalog, epoch: Callable[[], int], settings: Settings
    ) -> None:
        self.settings, self.catalog = settings, catalog
        self.book = Book(
            self.touch, lambda namespace: catalog.pod_defaults(namespace, settings.resources)
        )
        self.scheduler = Scheduler(MemoryIndex(), settings.reactivation_s)
        self.standings = Standings(catalog, self.book, epoch, settings.timestamp)
        self.waits: dict[str, Waiting] = {}
        self.evicting: dict[str, Eviction] = {}
        self.dirty: dict[str, None] = {}
        self.wake = asyncio.Event()
        self.on_change: Callable[[str], None] = lambda uid: None
        self.workload_uid: Callable[[str], str] = lambda uid: ""
        self.tasks: asyncio.TaskGroup | None = None
        self.api = Jobs(client, self.book.see)
        self._writes = Queue(self.touch)

    @property
    def jobs(self) -> dict[str, WorkerJob]:
        """All queue-labelled Jobs, by UID."""
        return self.book.jobs

    def touch(self, uid: str) -> None:
        """There is news of a Job."""
        self.dirty[uid] = None
        self._writes.heard(uid)
        self.wake.set()
        self.on_change(uid)

    def busy(self, uid: str) -> bool:
        """Whether a write about a Job is under way: it is looked at again when that is done."""
        return self._writes.busy(uid)

    def write(self, job: WorkerJob, write: Callable[[WorkerJob], Awaitable[None]]) -> None:
        """Have something written about a Job, as it is when its turn comes."""

        async def run() -> None:
            current = self.jobs.get(job.uid)
            if current is not None:
                await write(current)

        assert self.tasks is not None
        self._writes.add(self.tasks, job, run)

    def refuse(self, job: WorkerJob, why: Waiting) -> None:
        """The final no to a copy, or to a Job that cannot be started as it was admitted."""
        self.write(job, lambda job: self.api.refuse(job, str(why)))

    def set_aside(self, job: WorkerJob, why: Waiting) -> None:
        """A Job is not admitted now: a copy is refused, a local one waits and says why."""
        if job.mirrored:
            self.refuse(job, why)
        elif self.waits.get(job.uid) != why:
            self.waits[job.uid] = why
            self.on_change(job.uid)

    def evict(self, uid: str, eviction: Eviction) -> None:
        """Have a Job that holds quota stopped; until it is, it counts as evicted already."""
        held = self.scheduler.holder(uid)
        if held is None or held.evicted:
            return
        self.evicting[uid] = eviction
        self.scheduler.hold(replace(held, evicted=True))
        self.touch(uid)


def stamp(moment: float) -> str:
    """Seconds since the epoch as the API writes a time."""
    return wire_time(datetime.fromtimestamp(moment, UTC))
