"""Somebody sets the clock: ten minutes forward or back, on a worker and on the manager."""

from __future__ import annotations

from fedq.drill.cases.common import expect_no_change, start_on_one
from fedq.drill.faults.clocks import skewed
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan

JUMP_S = 600.0


async def clock_jump(ground: Ground) -> None:
    """The agent's clock, then the manager's, each way. All times are counted by other clocks."""
    each = max(20.0, ground.timings.lease / 2)
    victim, names = await start_on_one(ground, [Plan(3, 4 * each + 60)])
    rig = ground.stack.rig
    ground.strike(victim, note="clocks jump")
    for process in (f"agent/{victim}", "manager"):
        for jump in (JUMP_S, -JUMP_S):
            began = ground.elapsed()
            async with skewed(rig, process, jump):
                ground.note(f"the clock of {process} is {jump:+.0f} s off")
                await ground.past(began + each)
    ground.heal("clocks are right again")
    later = await ground.submit(Plan(2, 3, prefix="later"))
    await ground.complete([*names, *later], 180)
    expect_no_change(ground, [*names, *later])
