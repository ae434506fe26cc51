"""Links that flap, credentials that are refused, watches that hang, two agents of one cluster."""

from __future__ import annotations

import asyncio

from federation.core.failover import Timings
from fedq.drill.cases.common import (
    RERUN_S,
    SUSPECT_S,
    duration,
    expect_no_change,
    expect_others_well,
    start_on_one,
)
from fedq.drill.faults.credentials import bad_token
from fedq.drill.faults.link import partition
from fedq.drill.faults.proxied import ProxiedLink
from fedq.drill.faults.twins import twin
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.judge import reruns
from fedq.drill.timeline import What
from fedq.drill.witness import phase

FLAP_S = 15.0
DUPLICATE_S = 45.0
"""Within which a job that may run twice runs elsewhere, if its cluster is suspect before that."""


async def flapping(ground: Ground) -> None:
    """15 s off, 15 s on, again and again: renewals come through now and then, so hardly anything is
    given up.
    """
    lasts = duration(ground)
    victim, names = await start_on_one(ground, [Plan(3, lasts)])
    ground.strike(victim, note=f"the link of {victim} flaps")
    while ground.elapsed() < lasts:
        async with partition(ground.link, victim):
            await asyncio.sleep(FLAP_S)  # how long the link is off
        await asyncio.sleep(FLAP_S)  # how long it is on
    ground.heal("it is steady again")
    await ground.complete(names, 180)
    expect_others_well(ground)
    moves = [run.subject.job for run in reruns(ground.runs(), [victim], ground.fault_at)]
    ground.expect.at_most("times that a job was moved", float(len(moves)), 3, "")
    attempts = {run.subject.attempt for run in ground.runs()}
    ground.expect.at_most("highest attempt", float(max(attempts)), 2, "")


async def duplicate_ok(ground: Ground) -> None:
    """A job that may run twice runs elsewhere as soon as its cluster is suspect."""
    lasts, goal = duration(ground), duplicate_goal(ground.timings)
    victim, names = await start_on_one(ground, [Plan(4, goal + 15, policy="duplicate-ok")])
    async with ground.cut(victim):
        await ground.past(lasts)
    await ground.complete(names, 120)
    await ground.settled(victim, 60)
    again = [r.start - ground.fault_at for r in reruns(ground.runs(), [victim], ground.fault_at)]
    ground.expect.equal("jobs that ran again", len(again), len(names))
    ground.expect.at_most("last one runs elsewhere", max(again, default=None), goal)
    expect_others_well(ground)


def duplicate_goal(timings: Timings) -> float:
    """In seconds after the cut. With longer timings than those of `fast` it takes what it takes
    until the cluster is suspect, and as long after that as any re-run may.
    """
    return max(DUPLICATE_S, timings.suspect + SUSPECT_S + RERUN_S)


async def expired_kubeconfig(ground: Ground) -> None:
    """The manager's token for a worker is refused: that is shown, and moves nothing."""
    lasts = duration(ground)
    victim, names = await start_on_one(ground, [Plan(3, lasts + 30)])
    async with bad_token(ground.management, victim):
        ground.strike(victim, note=f"the token for {victim} is not accepted any more")
        await ground.past(lasts)
        shown = ground.witness.clusters.get(victim) or {}
    ground.heal("the token is good again")
    await ground.complete(names, 120)
    expect_no_change(ground, names)
    text = str((shown.get("status") or {}).get("conditions"))
    ground.expect.true(
        "the cluster is shown with what is wrong",
        any(word in text for word in ("credentials", "401", "Unauthorized", "token")),
        f"phase {phase(shown)}, conditions {text}",
    )


async def stale_watch(ground: Ground) -> None:
    """The manager's open connections to the management API fall silent; new ones work."""
    assert isinstance(ground.link, ProxiedLink)
    lasts = 90.0 if not ground.conditions.endurance else 300.0
    victim, names = await start_on_one(ground, [Plan(3, lasts)])
    await ground.link.order("manager", do="cut", ways=["in"], new=False)
    ground.strike(victim, note="the manager's watches hang")
    await ground.past(lasts)
    await ground.link.order("manager", do="mend")
    ground.heal("they go on")
    await ground.complete(names, 120)
    expect_no_change(ground, names)


async def two_agents(ground: Ground) -> None:
    """A second agent with the same cluster and credentials: jobs are started once all the same."""
    lasts = min(60.0, duration(ground))
    victim, names = await start_on_one(ground, [Plan(3, lasts)])
    async with twin(ground.stack.rig, f"agent/{victim}"):
        ground.strike(victim, note=f"a second agent of {victim} runs")
        for number in range(5):
            names += await ground.submit(Plan(2, 5, prefix=f"new{number}", on=victim))
            await ground.past(lasts * (number + 1) / 5)
    ground.heal("it is gone")
    await ground.complete(names, 120)
    for name in names:
        attempts = {run.subject.attempt for run in ground.runs_of(name)}
        ground.expect.equal(f"attempts of {name}", attempts, {1})
    ground.expect.equal("fences", len(ground.timeline.find(What.FENCED, after=ground.fault_at)), 0)
