"""A worker cluster is cut off: for longer than all timers, and for less than its lease."""

from __future__ import annotations

from fedq.drill.cases.common import (
    duration,
    expect_no_change,
    expect_stop,
    long_enough,
    start_on_one,
)
from fedq.drill.faults.link import Way
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.timeline import What

PARTITION_S = 150.0
"""A cut by which others are compared lasts that long at least."""


async def worker_partition(ground: Ground) -> None:
    """Cut both ways; policy stop."""
    await _cut_with_stop(ground, Way.BOTH, PARTITION_S)


async def one_way_cut(ground: Ground) -> None:
    """Renewals arrive and their answers are lost."""
    await _cut_with_stop(ground, Way.TO_WORKER)


async def _cut_with_stop(ground: Ground, way: Way, at_least: float = 0.0) -> None:
    lasts = duration(ground, at_least)
    runs_for = long_enough(ground, lasts)
    plans = [
        Plan(4, runs_for, prefix="polite"),
        Plan(2, runs_for, prefix="stubborn", stubborn=True),
    ]
    victim, names = await start_on_one(ground, plans)
    control = await ground.submit(Plan(2, runs_for, prefix="control", on=ground.other(victim)))
    await ground.running(control)
    async with ground.cut(victim, way=way):
        await ground.past(lasts)
    await ground.complete([*names, *control], runs_for + 120)
    await ground.settled(victim, 60)
    expect_stop(ground, victim, names, told=way is Way.BOTH)
    for name in control:
        ground.expect.equal(f"runs of {name}, which was elsewhere", len(ground.runs_of(name)), 1)


async def short_cut(ground: Ground) -> None:
    """A cut that is shorter than the lease changes nothing."""
    lasts = min(20.0, ground.timings.lease * 2 / 3)
    victim, names = await start_on_one(ground, [Plan(4, lasts + 40)])
    async with ground.cut(victim):
        await ground.past(lasts)
    await ground.complete(names, 120)
    expect_no_change(ground, names)
    warned = ground.timeline.find(What.WARNED, after=ground.fault_at)
    ground.expect.at_most("warnings", float(len(warned)), 1, "")


async def keep(ground: Ground) -> None:
    """Policy keep: nothing stops, nothing runs again, and the same attempt is taken up again."""
    lasts = duration(ground)
    victim, names = await start_on_one(ground, [Plan(4, lasts + 60, policy="keep")])
    early = await ground.submit(Plan(1, 20, policy="keep", prefix="early", on=victim))
    await ground.running(early)
    async with ground.cut(victim):
        await ground.past(lasts)
    back = ground.timeline.find(What.HEALED)[-1].at
    await ground.complete([*names, *early], 180)
    for name in [*names, *early]:
        ground.expect.equal(f"runs of {name}", len(ground.runs_of(name)), 1)
    stops = ground.timeline.find(What.STOPPED, after=ground.fault_at)
    ground.expect.equal("copies that were stopped", len(stops), 0)
    adopted = ground.timeline.find(What.ADOPTED, cluster=victim, after=back)
    ground.expect.equal(
        "copies that were adopted", len({m.job for m in adopted if m.job in names}), len(names)
    )
    moments = [mark.at - back for mark in adopted]
    ground.expect.at_most("last adoption after the link was mended", max(moments, default=None), 10)
