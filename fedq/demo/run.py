"""Submitting the Jobs of the demonstration and judging what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import parse_untrusted
from federation.edge.resources import JOBS
from fedq.demo.census import Census
from fedq.demo.objects import NAMESPACE, DemoJob
from fedq.following import Wanted, follow, watching
from fedq.jobview import JobState, JobView
from fedq.rig.rig import Rig

CREATORS = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the Jobs.

    Attributes:
        duplicates: Jobs of which more than one copy started.
        unstarted: Jobs of which no copy was seen to start.
        waited: Jobs that started only after another one had ended.
        seconds: from the first submission to the last end.
        longest_wait: seconds from a Job's submission to its start, the longest.
        starts: cluster → copies started there.
    """

    submitted: int
    finished: int
    failed: int
    duplicates: int
    unstarted: int
    waited: int
    seconds: float
    longest_wait: float
    starts: dict[str, int]

    @property
    def exactly_once(self) -> bool:
        """Whether every Job finished and started exactly once."""
        return self.finished == self.submitted and not self.duplicates and not self.unstarted


async def run(
    rig: Rig, jobs: list[DemoJob], show: Callable[[list[JobView]], None], patience: float
) -> Outcome:
    """Submit all and follow them until they have ended, `patience` seconds at most."""
    census = Census()
    async with AsyncExitStack() as stack:
        clients = {name: _client(rig, name) for name in rig.clusters}
        for client in clients.values():
            await stack.enter_async_context(client)
        workers = {name: clients[name] for name in rig.workers}
        watches = await stack.enter_async_context(watching(census.informers(workers)))
        for watch in watches:
            await watch.synced.wait()
        started = time.monotonic()
        created: dict[str, float] = {}
        uids = await _submit(clients[rig.management], jobs, created)
        ends: dict[str, float] = {}

        def note(views: list[JobView]) -> None:
            for view in views:
                if view.state.ended:
                    ends.setdefault(view.name, time.monotonic())
            show(views)

        follower = await follow(clients[rig.management], Wanted(uids), note, patience)
        seconds = time.monotonic() - started
    return _judge(follower.views, census, created, ends, seconds)


def _client(rig: Rig, cluster: str) -> KubeClient:
    config = rig.kubeconfig(cluster).read_bytes()
    return KubeClient(parse_untrusted(config, cluster), user_agent="fedq-demo")


async def _submit(
    client: KubeClient, jobs: list[DemoJob], created: dict[str, float]
) -> dict[tuple[str, str], str]:
    limit = asyncio.Semaphore(CREATORS)

    async def one(job: DemoJob) -> str:
        async with limit:
            created[job.name] = time.monotonic()
            made = await client.create(JOBS, job.manifest())
        return str(made["metadata"]["uid"])

    uids = await asyncio.gather(*(one(job) for job in jobs))
    return {(NAMESPACE, job.name): uid for job, uid in zip(jobs, uids, strict=True)}


def _judge(
    views: list[JobView],
    census: Census,
    created: dict[str, float],
    ends: dict[str, float],
    seconds: float,
) -> Outcome:
    first_end = min(ends.values(), default=float("inf"))
    began = census.started_at
    waits = [began[name] - at for name, at in created.items() if name in began]
    return Outcome(
        submitted=len(created),
        finished=sum(view.state is JobState.COMPLETE for view in views),
        failed=sum(view.state is JobState.FAILED for view in views),
        duplicates=sum(len(copies) > 1 for copies in census.starts.values()),
        unstarted=sum(name not in census.starts for name in created),
        waited=sum(at > first_end for at in began.values()),
        seconds=round(seconds, 2),
        longest_wait=round(max(waits, default=0.0), 2),
        starts=census.clusters(),
    )
