"""Redis loses everything, is killed, is full, or refuses writes, with a queue that waits in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fedq.drill.faults import store
from fedq.drill.faults.processes import dead
from fedq.drill.ground import Conditions, Ground
from fedq.drill.jobs import CARDS_OF_A_NODE, CARDS_OF_A_WORKER, Plan
from fedq.drill.timeline import What

OUT_OF_ORDER = 5.0
"""In % of all pairs of a job of low and one of high priority. They are decided on in their order
and bound by writes side by side: on a busy machine that of the one decided on first may take
seconds longer, so that a few change places. Of an order that is lost half of the pairs tell."""
ENDURANCE_S = 120.0
WAITING = 20
"""Jobs of each priority that wait for room."""


async def flushed(ground: Ground) -> None:
    """FLUSHALL, twice: what waits is found again, in its order."""
    blockers = await _queue(ground)
    ground.strike(note="FLUSHALL")
    await store.flush(ground.stack)
    await ground.complete(blockers, 60)
    await store.flush(ground.stack)
    ground.heal("FLUSHALL again, while jobs are dispatched")
    await _drain(ground)


async def killed(ground: Ground) -> None:
    """It is killed and comes back empty, as a volume that is lost; in an endurance run it is away
    for two minutes.
    """
    blockers = await _queue(ground)
    ground.strike(note="Redis killed")
    async with dead(ground.stack.rig, "redis"):
        await ground.complete(blockers, 60)
        await ground.past(away_s(ground.conditions))
    ground.heal("Redis started again, empty")
    await _drain(ground)


def away_s(conditions: Conditions) -> float:
    """For how long Redis is away at least."""
    return ENDURANCE_S if conditions.endurance else 0.0


async def refuses(ground: Ground) -> None:
    """It is full, then read-only: jobs can be submitted and none is dispatched; then all are."""
    blockers = await _queue(ground)
    for name, fault in (("full", store.full), ("read-only", store.read_only)):
        async with _lasting(ground, fault(ground.stack), f"Redis is {name}"):
            late = await ground.submit(Plan(2, 3, prefix=f"while-{name}"))
            await ground.past(15)
            started = ground.timeline.find(What.STARTED, after=ground.fault_at + 2)
            ground.expect.true(
                f"jobs that were submitted while it was {name} wait",
                not {mark.job for mark in started} & set(late),
                "they were started",
            )
    await ground.complete(blockers, 90)
    await _drain(ground)


@asynccontextmanager
async def _lasting(
    ground: Ground, fault: AbstractAsyncContextManager[None], note: str
) -> AsyncIterator[None]:
    async with fault:
        ground.strike(note=note)
        yield
    ground.heal("Redis works again")


async def _queue(ground: Ground) -> list[str]:
    """Fill all workers with jobs that end soon, and let jobs of two priorities wait behind them,
    the low ones submitted first; returns those that run.
    """
    workers = len(ground.stack.rig.workers)
    nodes = workers * CARDS_OF_A_WORKER // CARDS_OF_A_NODE
    blockers = await ground.submit(Plan(nodes, 20, prefix="blocker", cards=CARDS_OF_A_NODE))
    await ground.running(blockers)
    for priority in ("drill-low", "drill-high"):
        await ground.submit(Plan(WAITING, 3, prefix=priority, priority=priority, cards=4))
    await ground.until(
        lambda: len(ground.witness.workloads) >= len(ground.submitted), 30, "all jobs to be queued"
    )
    return blockers


async def _drain(ground: Ground) -> None:
    healed = ground.timeline.find(What.HEALED)[-1].at
    await ground.complete(ground.submitted, 180)
    first = ground.timeline.find(What.STARTED, after=healed)
    ground.expect.at_most(
        "first job dispatched after that", first[0].at - healed if first else None, 30
    )
    low, high = _bound(ground, "drill-low"), _bound(ground, "drill-high")
    pairs = [early < late for early in low for late in high]
    ground.expect.at_most(
        "pairs of jobs bound against their priority",
        100 * sum(pairs) / len(pairs) if pairs else None,
        OUT_OF_ORDER,
        "%",
    )
    for name in ground.submitted:
        ground.expect.equal(f"runs of {name}", len(ground.runs_of(name)), ground.plans[name].pods)


def _bound(ground: Ground, prefix: str) -> list[float]:
    """When each of these jobs was bound for the first time."""
    first: dict[str, float] = {}
    for mark in ground.timeline.find(What.BOUND):
        if mark.job.startswith(prefix):
            first.setdefault(mark.job, mark.at)
    return list(first.values())
