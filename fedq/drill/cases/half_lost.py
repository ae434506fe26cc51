"""Two of four clusters are lost at once, with a thousand jobs between them.

A few of the jobs are real processes, by which the checker judges. The others are simulated pods,
and what is asked of them is seen on the API servers: when they have a new copy, and whether a
cluster was ever given more than it has.
"""

from __future__ import annotations

from dataclasses import replace

from fedq.drill.cases.common import duration, expect_others_well
from fedq.drill.ground import Ground
from fedq.drill.jobs import CARDS_OF_A_WORKER, Plan
from fedq.drill.timeline import What

REAL = 10
"""Jobs of each lost cluster that are processes. The others, a tenth of a core each, are simulated:
half of what was asked for (1,000) is on each of the two clusters.
"""
NEW_COPIES_S = 60.0
"""Within which all have a new copy after the end of the wait."""


async def half_lost(ground: Ground) -> None:
    """The brake does not hold for half of four; all is run again on the other two."""
    lasts = duration(ground) + 60
    lost, well = ground.stack.rig.workers[:2], ground.stack.rig.workers[2:]
    plan = Plan(ground.conditions.jobs // len(lost) - REAL, lasts + 900, cards=0, process=False)
    many, real = [], []
    for cluster in lost:
        many += await ground.submit(replace(plan, prefix=f"many-{cluster}", on=cluster))
        ground.tell(f"  {len(many)} simulated jobs are bound")
    for cluster in lost:  # last, so that they still run when the clusters are lost
        real += await ground.submit(Plan(REAL, 120, prefix=f"real-{cluster}", cards=0, on=cluster))
    await ground.running(real, 120)
    await ground.until(lambda: _started(ground) >= len(many), 180, "all simulated jobs to start")
    async with ground.cut(*lost):
        await ground.past(lasts)
    await ground.complete(real, 240)
    renewed = [ground.timeline.last_before(What.RENEWED, c, ground.fault_at + 5) for c in lost]
    end = max(moment or 0.0 for moment in renewed) + ground.timings.rerun
    offers = [
        mark
        for mark in ground.timeline.find(What.OFFERED, after=ground.fault_at)
        if mark.cluster in well
    ]
    first = {mark.job: mark.at for mark in reversed(offers)}
    ground.expect.equal("jobs with a new copy", len(first), len(many) + len(real))
    last = max(first.values(), default=None)
    if last is not None:
        in_time = sum(at - end <= NEW_COPIES_S for at in first.values())
        rate = len(first) / max(last - end, 0.1)
        ground.expect.remark(
            f"{in_time} of {len(first)} jobs had a new copy within {NEW_COPIES_S:g} s of the end of"
            f" the wait, the last after {last - end:.1f} s: {rate:.1f} a second"
        )
    ground.expect.at_most(
        "last new copy after the end of the wait",
        None if last is None else last - end,
        NEW_COPIES_S,
    )
    for cluster in well:
        ground.expect.at_most(
            f"most cores in use on {cluster}",
            _most_cores(ground, cluster),
            2 * CARDS_OF_A_WORKER,
            "",
        )
    expect_others_well(ground)


def _started(ground: Ground) -> int:
    """How many copies run now, simulated ones and real ones."""
    return sum(not copy["spec"].get("suspend") for copy in ground.witness.copies.values())


def _most_cores(ground: Ground, cluster: str) -> float:
    """The most that ran at once there, in cores: every job of this drill takes a tenth."""
    started = [(m.at, 1) for m in ground.timeline.find(What.STARTED, cluster=cluster)]
    ended = [(m.at, -1) for m in ground.timeline.find(What.REMOVED, cluster=cluster)]
    most = now = 0
    for _, change in sorted(started + ended):
        now += change
        most = max(most, now)
    return most / 10
