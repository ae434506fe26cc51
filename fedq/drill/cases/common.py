"""What several drills share: placing jobs, how long a fault lasts, and what has to come of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from federation.core.failover import PROFILES
from fedq.drill.drill import longest
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.judge import SUSPECT, reruns, stopped
from fedq.drill.timeline import What

SLACK_S = 1.0
"""For the steps between a timer and what is seen of it."""
SUSPECT_S = 3.0
"""From when a cluster becomes suspect to when it is shown as such."""
RERUN_S = 10.0
"""From the end of the wait to the last process that runs again."""
ENDURANCE_S = 600.0


async def start_on_one(ground: Ground, plans: list[Plan]) -> tuple[str, list[str]]:
    """Run jobs of these plans, all on the first worker, and see its Lease renewed, from which times
    are counted; returns its name and theirs.
    """
    victim = ground.stack.rig.workers[0]
    placed = [replace(plan, on=victim) for plan in plans]
    names = [name for plan in placed for name in await ground.submit(plan)]
    await ground.running(names)
    # After a drill with another profile its agent renews once more at the period of that.
    longest_period = max(timings.renew for timings in PROFILES.values())
    await ground.until(
        lambda: bool(ground.timeline.find(What.RENEWED, cluster=victim)),
        longest_period + ground.timings.suspect,
        f"the Lease of {victim} to be renewed",
    )
    return victim, names


async def manager_says(ground: Ground) -> dict[str, Any]:
    """What the manager says of itself; {} while it says nothing."""
    page = await asyncio.to_thread(ground.stack.page, "manager", "status")
    return dict(json.loads(page or b"{}"))


def duration(ground: Ground, at_least: float = 0.0) -> float:
    """How long a cut lasts that has to outlive every timer, in seconds."""
    if ground.conditions.endurance:
        return ENDURANCE_S
    return max(longest(ground.timings), at_least)


def long_enough(ground: Ground, lasts: float) -> float:
    """For how many seconds jobs run that a fault of that length stops, and that still run elsewhere
    when it is mended.
    """
    times = ground.timings
    return max(lasts - times.rerun, times.lease + times.kill) + 30


def expect_others_well(ground: Ground) -> None:
    """The clusters that the fault does not touch were never shown as suspect."""
    for worker in ground.stack.rig.workers:
        if worker not in ground.victims:
            shown = ground.shown(worker, *SUSPECT)
            said = "" if shown is None else f"after {shown:.1f} s"
            ground.expect.true(f"{worker} was never suspect", shown is None, said)


def expect_no_change(ground: Ground, names: Iterable[str]) -> None:
    """Each of these jobs ran once, and nobody was fenced or stopped."""
    expect_others_well(ground)
    for name in names:
        ground.expect.equal(f"runs of {name}", len(ground.runs_of(name)), 1)
    after = ground.fault_at
    ground.expect.equal("fences", len(ground.timeline.find(What.FENCED, after=after)), 0)
    stops = ground.timeline.find(What.STOPPED, after=after)
    ground.expect.equal("copies that were stopped", len(stops), 0)


def expect_stop(
    ground: Ground,
    victim: str,
    names: list[str],
    *,
    told: bool = True,
    ordered: bool = True,
    ends: bool = True,
) -> None:
    """All of these jobs stopped on the victim when its lease ended, and then ran again elsewhere.

    `told`: the manager saw no renewal any more from the fault on. `ordered`: it was the agent that
    stopped them, which can be seen on the copies. `ends`: their processes ended by themselves then
    (those of a machine that stands still cannot).
    """
    times, expect, cut = ground.timings, ground.expect, ground.fault_at
    expect_others_well(ground)
    if told:
        shown = ground.shown(victim, *SUSPECT)
        expect.at_most("shown as suspect after the fault", shown, times.suspect + SUSPECT_S)
    if ordered:
        marks = ground.timeline.find(What.STOPPED, cluster=victim, after=cut)
        last = max((mark.at - cut for mark in marks), default=None)
        expect.at_most("last stop ordered after the fault", last, times.lease + SLACK_S)
    if ends:
        _expect_ends(ground, victim, names)
    _expect_reruns(ground, victim, names)
    moved = ground.timeline.find(What.REMOVED, after=cut)
    early = [
        mark
        for mark in moved
        if mark.cluster != victim and not ground.timeline.find(What.FINISHED, job=mark.job)
    ]
    expect.equal("healthy copies elsewhere that were deleted", len(early), 0)


def _expect_ends(ground: Ground, victim: str, names: list[str]) -> None:
    times, cut = ground.timings, ground.fault_at
    stubborn = {ground.submitted[name].uid for name in names if ground.plans[name].stubborn}
    old = stopped(ground.runs(), [victim], cut)
    ground.expect.equal("old runs that were stopped", len(old), len(names))
    polite = [run.end - cut for run in old if run.subject.job not in stubborn]
    killed = [run.end - cut for run in old if run.subject.job in stubborn]
    ground.expect.at_most(
        "last old process gone that ends on SIGTERM", max(polite, default=None), times.lease + 5
    )
    if stubborn:
        ground.expect.at_most(
            "last old process gone that has to be killed",
            max(killed, default=None),
            times.lease + times.tick + times.kill,
        )


def _expect_reruns(ground: Ground, victim: str, names: list[str]) -> None:
    times, cut = ground.timings, ground.fault_at
    again = [run.start for run in reruns(ground.runs(), [victim], cut)]
    ground.expect.equal("jobs that ran again", len(again), len(names))
    renewed = ground.timeline.last_before(What.RENEWED, victim, cut + times.lease)
    if renewed is None or not again:
        return
    ground.expect.at_least(
        "first run elsewhere after the last renewal", min(again) - renewed, times.rerun
    )
    ground.expect.at_most(
        "last run elsewhere after the last renewal or the fault, whichever is later",
        max(again) - max(renewed, cut),
        times.rerun + RERUN_S,
    )
