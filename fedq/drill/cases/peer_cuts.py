"""Lines of the comparison in which a worker is cut off: E1, E2, E4, E6, E8."""

from __future__ import annotations

import asyncio
import statistics

from federation.edge.resources import JOBS
from fedq.drill.cases import worker_cut
from fedq.drill.cases.common import RERUN_S, start_on_one
from fedq.drill.cases.peer_line import (
    PATIENCE_S,
    expect_told,
    healed_at,
    runs_by_job,
    story,
    twice,
)
from fedq.drill.ground import Ground
from fedq.drill.jobs import CARDS_OF_A_NODE, CARDS_OF_A_WORKER, Plan
from fedq.drill.judge import reruns
from fedq.drill.timeline import What

LAST_THERE_S = 38.3
"""When the peer started its last job of E6."""
OFFERED_S = 1.0
QUIET_S = 190.0
"""For how long nothing at all happened at the peer with its defaults."""


async def e1_partition(ground: Ground) -> str:
    """A worker is cut off for longer than all timers, then joined again."""
    telling = asyncio.create_task(_told_of_loss(ground))
    try:
        await worker_cut.worker_partition(ground)
        text = await asyncio.wait_for(telling, 1)
    finally:
        telling.cancel()
    victim = ground.victims[0]
    expect_told(ground, "that it will run elsewhere, and when", text, victim, "run elsewhere at ")
    names = [name for name in ground.submitted if name.startswith(("polite", "stubborn"))]
    both = twice(ground, names)
    ground.expect.equal("jobs that ran twice", both, 0)
    removed = [
        mark
        for mark in ground.timeline.find(What.REMOVED, after=healed_at(ground))
        if mark.cluster != victim and not ground.timeline.find(What.FINISHED, job=mark.job)
    ]
    ground.expect.equal("healthy runs deleted at the heal", len(removed), 0)
    return f"{both} of {len(names)} jobs ran twice, {len(removed)} healthy runs deleted at the heal"


async def _told_of_loss(ground: Ground) -> str:
    """What a person who asks is told once the cluster is fenced."""
    victim = ground.stack.rig.workers[0]
    await ground.until(
        lambda: victim in ground.victims and ground.shown(victim, "fenced") is not None,
        PATIENCE_S,
        f"{victim} to be fenced",
        every=0.5,
    )
    return await story(ground, "polite-000")


async def e2_in_time(ground: Ground) -> str:
    """How long after that cut the last job ran again."""
    again = [run.start for run in reruns(ground.runs(), ground.victims, ground.fault_at)]
    last = max(again) - ground.fault_at if again else None
    ground.expect.at_most("last job ran again after the cut", last, QUIET_S)
    known = ground.shown(ground.victims[0], "suspect")
    ground.expect.at_most("shown as suspect after the cut", known, 60)
    return f"shown after {known or 0:.0f} s, all ran again after {last or 0:.0f} s"


async def e4_all_back(ground: Ground) -> str:
    """Jobs wait while no worker can take them; they start when the workers are back."""
    first, second = ground.stack.rig.workers[:2]
    async with ground.cut(first, second):
        await ground.until(lambda: _suspect(ground, 2), 60, "both workers to be suspect")
        both = await ground.submit(Plan(5, 3, prefix="both-cut"))
        await ground.past(ground.elapsed() + 5)
        text = await story(ground, both[0])
    expect_told(ground, "which clusters take no work", text, first, second, "no renewal")
    await ground.complete(both, PATIENCE_S)
    all_back = _last_start(ground, both)
    ground.expect.at_most("all start after both are back", all_back, _back_limit(ground))
    return f"5 of 5 started {all_back:.1f} s after the heal"


def _back_limit(ground: Ground) -> float:
    """A cluster gets new work with the next renewal of its agent."""
    return ground.timings.renew + 10


async def e4_one_back(ground: Ground) -> str:
    """Jobs wait for the only worker that has room, which is cut off; they start when it is back."""
    first, second = ground.stack.rig.workers[:2]
    nodes = CARDS_OF_A_WORKER // CARDS_OF_A_NODE
    full = await ground.submit(Plan(nodes, 75, prefix="filler", cards=CARDS_OF_A_NODE, on=second))
    await ground.running(full)
    async with ground.cut(first):
        await ground.until(lambda: _suspect(ground, 1), 60, f"{first} to be suspect")
        waiting = await ground.submit(Plan(5, 3, prefix="one-cut"))
        await ground.past(ground.elapsed() + 3)
        text = await story(ground, waiting[0])
    expect_told(ground, "which cluster takes no work", text, first, "no renewal")
    await ground.running(waiting)
    one_back = _last_start(ground, waiting)
    ground.expect.at_most("all start after one is back", one_back, _back_limit(ground))
    offered = await _offered_after_ready(ground, first, waiting)
    ground.expect.at_most("last offer after it was shown as Ready again", offered, OFFERED_S)
    await ground.complete([*waiting, *full], PATIENCE_S)
    return (
        f"5 of 5 started there {one_back:.1f} s after the heal, the last was offered"
        f" {offered:.2f} s after the cluster was Ready"
    )


def _suspect(ground: Ground, count: int) -> bool:
    return sum(ground.shown(w, "suspect") is not None for w in ground.stack.rig.workers) >= count


async def _offered_after_ready(ground: Ground, cluster: str, names: list[str]) -> float:
    """Seconds from when the manager showed the cluster as Ready after the heal to the last offer;
    less than 0 if that came first.
    """
    offers = ground.timeline.find(What.OFFERED, cluster=cluster, after=healed_at(ground))
    last = max(mark.at for mark in offers if mark.job in names)
    await ground.until(
        lambda: bool(_ready_at(ground, cluster)), PATIENCE_S, f"{cluster} to be Ready"
    )
    return last - _ready_at(ground, cluster)[0]


def _ready_at(ground: Ground, cluster: str) -> list[float]:
    after = healed_at(ground)
    found = ground.timeline.find(What.PHASE, cluster=cluster, detail="Ready", after=after)
    return [mark.at for mark in found]


def _last_start(ground: Ground, names: list[str]) -> float:
    first = [found[0].start for found in runs_by_job(ground, names).values()]
    return max(first) - healed_at(ground)


async def e6_silent(ground: Ground) -> tuple[str, str]:
    """50 jobs of a second are submitted at the moment at which a worker falls silent."""
    victim = ground.stack.rig.workers[0]
    async with ground.cut(victim):
        names = await ground.submit(Plan(50, 1, prefix="silent"))
        await ground.past(ground.timings.rerun + 20)
    await ground.complete(names, PATIENCE_S)
    found = runs_by_job(ground, names).values()
    starts = sorted(runs[0].start - ground.fault_at for runs in found)
    ground.expect.at_most("first job started", starts[0], 5)
    ground.expect.at_most("median job started", statistics.median(starts), 15)
    ground.expect.at_most("last job started", starts[-1], ground.timings.rerun + RERUN_S)
    await ground.settled(victim, 60)
    prompt = sum(start < 15 for start in starts)
    text = (
        f"first of 50 started after {starts[0]:.1f} s, median {statistics.median(starts):.1f} s,"
        f" {prompt} within 15 s, last {starts[-1]:.1f} s"
    )
    return text, slower_than_there(starts[-1])


def slower_than_there(last: float) -> str:
    """Why the last job may start later than the peer's; empty if it did not. In seconds."""
    if last <= LAST_THERE_S:
        return ""
    return (
        "what may have been offered to the silent worker waits until that is fenced and L_M is over"
    )


async def e8_deleted(ground: Ground) -> str:
    """A job is deleted while its worker is cut off."""
    victim, names = await start_on_one(ground, [Plan(3, 60, prefix="deleted")])
    async with ground.cut(victim):
        await ground.past(5)
        await ground.management.delete(JOBS, names[0], ground.namespace)
        await ground.past(ground.timings.lease * 2 / 3)
    del ground.submitted[names[0]]  # it was not to finish

    def gone() -> bool:
        return bool(ground.timeline.find(What.REMOVED, job=names[0], after=ground.fault_at))

    await ground.until(gone, 60, "the copy of the deleted job to go")
    at = ground.timeline.find(What.REMOVED, job=names[0], after=ground.fault_at)[0].at
    took = at - healed_at(ground)
    ground.expect.at_most("copy removed after the heal", took, 8.2)
    await ground.complete(names[1:], PATIENCE_S)
    once = sum(len(runs) == 1 for runs in runs_by_job(ground, names[1:]).values())
    ground.expect.equal("other jobs there that ran on", once, 2)
    return f"copy gone {took:.1f} s after the heal, the two others ran on there"
