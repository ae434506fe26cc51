"""The agent dies, its API server dies, or the whole machine stands still."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fedq.drill.cases.common import (
    duration,
    expect_no_change,
    expect_stop,
    long_enough,
    start_on_one,
)
from fedq.drill.faults.processes import dead, frozen, kill, of_cluster
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.judge import expect_refused
from fedq.drill.timeline import What


async def agent_killed(ground: Ground) -> None:
    """It comes back at once, finds what runs, and goes on."""
    victim, names = await start_on_one(ground, [Plan(4, 45)])
    rig = ground.stack.rig
    ground.strike(victim, note=f"agent of {victim} killed")
    await kill(rig, f"agent/{victim}")
    await asyncio.to_thread(rig.restart, f"agent/{victim}")
    ground.heal("agent started again")
    later = await ground.submit(Plan(2, 5, prefix="later", on=victim))
    await ground.running(later)
    await ground.complete([*names, *later], 120)
    await ground.settled(victim, 30)
    expect_no_change(ground, [*names, *later])


async def agent_down(ground: Ground) -> None:
    """It stays away for longer than its lease while the pods live: the node guard ends them."""
    lasts = duration(ground)
    victim, names = await start_on_one(ground, _plans(ground, lasts))
    async with dead(ground.stack.rig, f"agent/{victim}"):
        ground.strike(victim, note=f"agent of {victim} killed, and not started again")
        await ground.past(lasts)
    ground.heal("agent started again")
    await _finish(ground, victim, names, lasts)


async def api_server_down(ground: Ground) -> None:
    """The API server of the worker dies and the cluster is cut off: only the node guard can stop
    anything there. When it is back, the Job controller may make new pods before the agent has
    suspended the Jobs: the hook of the guard lets none of them start.
    """
    lasts = duration(ground)
    victim, names = await start_on_one(ground, _plans(ground, lasts))
    async with dead(ground.stack.rig, f"{victim}/kube-apiserver"), ground.cut(victim):
        await ground.past(lasts)
    await _finish(ground, victim, names, lasts)


async def machine_paused(ground: Ground) -> None:
    """All processes of the worker stand still, those of the pods too, and go on later.

    The guard wakes first, as the one with the highest priority on a node, and has one tick to end
    what it finds. What runs in that tick is the overlap that tier B cannot exclude when a kernel
    stands still. It has no effect (tier C): the store of their checkpoints refuses the old attempt.
    """
    ground.unseen_s = ground.timings.tick
    lasts, rig = duration(ground), ground.stack.rig
    store = str(rig.data_dir("checkpoints"))
    plans = [replace(plan, checkpoints=store) for plan in _plans(ground, lasts)]
    victim, names = await start_on_one(ground, plans)
    own = of_cluster(rig, victim)
    guard = f"guard/{victim}"
    order = [name for name in own if name == guard] + [name for name in own if name != guard]
    async with frozen(rig, *order):
        ground.strike(victim, note=f"everything on {victim} stands still")
        await ground.past(lasts)
    ground.heal("it goes on")
    await _finish(ground, victim, names, lasts, woken=True)
    expect_refused(ground)


def _plans(ground: Ground, lasts: float) -> list[Plan]:
    runs_for = long_enough(ground, lasts)
    return [
        Plan(4, runs_for, prefix="polite"),
        Plan(2, runs_for, prefix="stubborn", stubborn=True),
        Plan(2, runs_for, prefix="once", retries=0),  # what the guard kills has failed at once
    ]


async def _finish(
    ground: Ground, victim: str, names: list[str], lasts: float, *, woken: bool = False
) -> None:
    await ground.complete(names, lasts + 120)
    await ground.settled(victim, 90)
    expect_stop(ground, victim, names, ordered=False, ends=not woken)
    ended = {mark.detail for mark in ground.timeline.find(What.FINISHED)}
    ground.expect.equal("results", ended, {"Complete"})
