"""Somebody sets the clock: ten minutes forward or back, on a worker and on the manager."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime

from federation.api.names import FEDQ_NAMESPACE
from federation.edge.machine import boottime
from federation.edge.resources import LEASES
from fedq.drill.cases.common import expect_no_change, manager_says, start_on_one
from fedq.drill.faults.clocks import settable
from fedq.drill.ground import Ground, Stuck
from fedq.drill.jobs import Plan
from fedq.drill.witness import MANAGER_LEASE

JUMP_S = 600.0
READY_S = 120.0


async def clock_jump(ground: Ground) -> None:
    """The agent's clock, then the manager's, each way, while both run. All times are counted by
    other clocks. What they write into their Leases shows that the clocks were off.
    """
    rig, agent = ground.stack.rig, f"agent/{ground.stack.rig.workers[0]}"
    each = max(20.0, ground.timings.lease / 2)
    async with settable(rig, agent, "manager") as clocks:
        await _ready(ground)
        victim, names = await start_on_one(ground, [Plan(3, 4 * each + 30)])
        started = {name: rig.process(name) for name in clocks}
        ground.strike(victim, note="clocks jump")
        for (name, clock), lease in zip(clocks.items(), (victim, MANAGER_LEASE), strict=True):
            for jump in (JUMP_S, -JUMP_S):
                began = ground.elapsed()
                clock.set(jump)
                ground.note(f"the clock of {name} jumps to {jump:+.0f} s")
                await ground.past(began + each)
                wrong = abs(await _off(ground, lease) - jump)
                what = f"error of the time in a Lease by {name} beside {jump:+.0f} s"
                ground.expect.at_most(what, wrong, ground.timings.suspect)
            clock.set(0)
        ground.heal("clocks are right again")
        later = await ground.submit(Plan(2, 3, prefix="later"))
        await ground.complete([*names, *later], 180)
        expect_no_change(ground, [*names, *later])
        for name, process in started.items():
            same = process is not None and process == rig.process(name) and process.running
            ground.expect.true(f"{name} ran on", same, "it ended")


async def _ready(ground: Ground) -> None:
    """Until the manager that was started anew is."""
    deadline = boottime() + READY_S
    while not (await manager_says(ground)).get("ready"):
        if boottime() > deadline:
            raise Stuck(f"the manager was not ready within {READY_S:.0f} s")
        await asyncio.sleep(1)  # a poll interval inside a bounded wait
    await asyncio.to_thread(ground.stack.wait_active)


async def _off(ground: Ground, lease: str) -> float:
    """How far the time of the last renewal lies ahead of ours, in seconds."""
    found = await ground.management.get(LEASES, lease, FEDQ_NAMESPACE)
    return datetime.fromisoformat(found["spec"]["renewTime"]).timestamp() - time.time()
