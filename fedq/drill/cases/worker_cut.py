"""A worker cluster is cut off: for longer than all timers, and for less than its lease."""

from __future__ import annotations

from fedq.drill.drill import longest
from fedq.drill.faults.link import Way
from fedq.drill.ground import Ground
from fedq.drill.jobs import GRACE, Plan
from fedq.drill.judge import SUSPECT, reruns, stopped
from fedq.drill.timeline import What

STUBBORN_S = GRACE + 20.0
"""What a process takes to end that does not care about SIGTERM."""
SLACK_S = 1.0
"""For the steps between a timer and what is seen of it."""
ENDURANCE_S = 600.0


async def start_on_one(ground: Ground, plans: list[Plan]) -> tuple[str, list[str]]:
    """Run jobs of these plans all on worker-1, and a control of each kind on another worker;
    returns worker-1 and all names.

    The other workers are cordoned meanwhile, so that the jobs themselves may go anywhere later.
    """
    victim, *others = ground.stack.rig.workers
    async with ground.cordoned(*others):
        names = [name for plan in plans for name in await ground.submit(plan)]
        await ground.running(names)
    return victim, names


def duration(ground: Ground) -> float:
    """How long a cut lasts that has to outlive every timer."""
    if ground.conditions.endurance:
        return ENDURANCE_S
    return max(longest(ground.timings), 150.0 if ground.conditions.profile == "fast" else 0.0)


async def worker_partition(ground: Ground) -> None:
    """Cut both ways; policy stop."""
    await _cut_with_stop(ground, Way.BOTH)


async def one_way_cut(ground: Ground) -> None:
    """Renewals arrive and their answers are lost."""
    await _cut_with_stop(ground, Way.TO_WORKER)


async def _cut_with_stop(ground: Ground, way: Way) -> None:
    times, lasts = ground.timings, duration(ground)
    runs_for = lasts - times.rerun + 30  # what runs again still runs when the link is mended
    plans = [
        Plan(4, runs_for, prefix="polite"),
        Plan(2, runs_for, prefix="stubborn", stop_s=STUBBORN_S),
    ]
    victim, names = await start_on_one(ground, plans)
    control = await ground.submit(Plan(2, runs_for, prefix="control", on=ground.other(victim)))
    await ground.running(control)
    async with ground.cut(victim, way=way):
        await ground.past(lasts)
    await ground.complete([*names, *control], runs_for + 120)
    await ground.settled(victim, 60)
    _expect_stop(ground, victim, names, way)
    for name in control:
        ground.expect.equal(f"runs of {name}, which was elsewhere", len(ground.runs_of(name)), 1)


def _expect_stop(ground: Ground, victim: str, names: list[str], way: Way) -> None:
    times, expect = ground.timings, ground.expect
    found, cut = ground.runs(), ground.fault_at
    polite = {ground.submitted[name].uid for name in names if name.startswith("polite")}
    old = stopped(found, [victim], cut)
    ended = {
        uid: [r.end - cut for r in old if (r.subject.job in polite) == uid] for uid in (True, False)
    }
    again = [run.start for run in reruns(found, [victim], cut)]
    if way is Way.BOTH:
        expect.at_most(
            "shown as suspect after the cut", ground.shown(victim, *SUSPECT), times.suspect + 3
        )
    ordered = [
        mark.at - cut for mark in ground.timeline.find(What.STOPPED, cluster=victim, after=cut)
    ]
    expect.at_most(
        "last stop ordered after the cut", max(ordered, default=None), times.lease + SLACK_S
    )
    expect.equal("old runs that were stopped", len(old), len(names))
    expect.at_most(
        "last old process gone that ends on SIGTERM",
        max(ended[True], default=None),
        times.lease + 5,
    )
    expect.at_most(
        "last old process gone that has to be killed",
        max(ended[False], default=None),
        times.lease + times.tick + times.kill,
    )
    renewed = ground.timeline.last_before(What.RENEWED, victim, cut + times.lease)
    expect.equal("jobs that ran again", len(again), len(names))
    expect.at_least(
        "first run elsewhere after the last renewal",
        None if renewed is None else min(again, default=renewed) - renewed,
        times.rerun,
    )
    expect.at_most(
        "last run elsewhere after the last renewal or the cut, whichever is later",
        None if renewed is None or not again else max(again) - max(renewed, cut),
        times.rerun + 10,
    )
    moved = [
        mark for mark in ground.timeline.find(What.REMOVED, after=cut) if mark.cluster != victim
    ]
    early = [m for m in moved if not ground.timeline.find(What.FINISHED, job=m.job)]
    expect.equal("healthy copies elsewhere that were deleted", len(early), 0)


async def short_cut(ground: Ground) -> None:
    """A cut that is shorter than the lease changes nothing."""
    lasts = min(20.0, ground.timings.lease * 2 / 3)
    victim, names = await start_on_one(ground, [Plan(4, lasts + 40)])
    async with ground.cut(victim):
        await ground.past(lasts)
    await ground.complete(names, 120)
    for name in names:
        ground.expect.equal(f"runs of {name}", len(ground.runs_of(name)), 1)
    ground.expect.equal("fences", len(ground.timeline.find(What.FENCED, after=ground.fault_at)), 0)
    stops = ground.timeline.find(What.STOPPED, after=ground.fault_at)
    ground.expect.equal("copies that were stopped", len(stops), 0)
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
