"""Two replicas of the manager: the leader is killed at each step of a dispatch, or stands still.

The steps are seen from outside: a Job was created, its Workload bound, its copy offered, its copy
started. At the first such mark of a burst of jobs the leader is struck.
"""

from __future__ import annotations

import asyncio

from federation.edge.machine import boottime
from fedq.drill.cases.common import expect_others_well
from fedq.drill.faults.processes import frozen, kill
from fedq.drill.faults.twins import twin
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.timeline import What

BURST = 24
FOLLOWS_S = 20.0
"""Within which another replica leads."""
STEPS = (What.OFFERED, What.BOUND, What.STARTED)


async def leader_killed(ground: Ground) -> None:
    """Four bursts; the leader dies right after they are created, and at each further step."""
    rig = ground.stack.rig
    async with twin(rig, "manager") as second:
        leader, follower = "manager", second
        for number, step in enumerate((None, *STEPS)):
            plan = Plan(BURST, 2, prefix=f"burst{number}")
            moment = boottime()
            burst = asyncio.create_task(ground.submit(plan))
            if step is not None:
                await _first(ground, step, moment)
            ground.strike(note=f"the leader is killed at {step.value if step else 'the creation'}")
            await kill(rig, leader)
            names = await burst
            await ground.until(lambda: _led(ground), FOLLOWS_S + 30, "another leader")
            taken = ground.since(What.LEADER)
            ground.expect.at_most(f"another leader after kill {number + 1}", taken, FOLLOWS_S)
            ground.heal("another replica leads")
            await asyncio.to_thread(rig.restart, leader)
            leader, follower = follower, leader
            await ground.complete(names, 120)
        # Whoever leads now is not to be the one that goes away with this block.
        if leader == second:
            await kill(rig, leader)
            await ground.until(lambda: _led(ground), FOLLOWS_S + 30, "the first replica to lead")
            await asyncio.to_thread(rig.restart, leader)
    _once(ground)


async def leader_stands_still(ground: Ground) -> None:
    """It wakes up when another one leads, and believes for a moment that it still does."""
    rig = ground.stack.rig
    async with twin(rig, "manager"):
        moment = boottime()
        burst = asyncio.create_task(ground.submit(Plan(BURST * 2, 3)))
        await _first(ground, What.BOUND, moment)
        async with frozen(rig, "manager"):
            ground.strike(note="the leader stands still")
            names = await burst
            await ground.until(lambda: _led(ground), FOLLOWS_S + 30, "another leader")
            ground.expect.at_most("another leader", ground.since(What.LEADER), FOLLOWS_S)
            later = await ground.submit(Plan(BURST, 3, prefix="later"))
        ground.heal("it goes on")
        await ground.complete([*names, *later], 180)
        await asyncio.to_thread(rig.restart, "manager")
    _once(ground)


async def _first(ground: Ground, step: What, moment: float) -> None:
    await ground.until(
        lambda: bool(ground.timeline.find(step, after=moment)),
        60,
        f"a job to be {step.value}",
        0.01,
    )


def _led(ground: Ground) -> bool:
    return ground.since(What.LEADER) is not None


def _once(ground: Ground) -> None:
    for name in ground.submitted:
        ground.expect.equal(f"runs of {name}", len(ground.runs_of(name)), 1)
    expect_others_well(ground)
