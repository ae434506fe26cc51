"""Parts of Ray die: the process of an actor, the raylet, and the head's control store (GCS)."""

from __future__ import annotations

import asyncio

from federation.edge.machine import boottime
from fedq.drill.cases.common import expect_others_well, manager_says, start_on_one
from fedq.drill.faults.processes import running_part, strike
from fedq.drill.ground import Ground, Stuck
from fedq.drill.jobs import Plan

RESUMES_S = 120.0
RETURNS_S = 120.0
"""Ray is tried again after 15 s or 30 s, and takes some 10 s to start, more on a busy machine."""
NOTICED_S = 5.0
"""The manager looks every two seconds."""
PARTS = (
    ("the process of an actor", ("ray::_Actor",)),
    ("the raylet", ("raylet/raylet",)),
    ("the GCS server", ("gcs_server",)),
)


async def parts_killed(ground: Ground) -> None:
    """One after the other; each time new jobs have to run within two minutes, and what runs goes on
    untouched.
    """
    _, running = await start_on_one(ground, [Plan(3, 2 * RESUMES_S)])
    for number, (words, needles) in enumerate(PARTS):
        await _in_use(ground)
        found = await asyncio.to_thread(running_part, ground.stack.rig, "manager", *needles)
        if not found:
            raise Stuck(f"{words} was not found among the processes of the manager")
        ground.strike(note=f"{words} is killed")
        strike(found[0])
        fresh = await _waves(ground, f"part{number}")
        await ground.running(fresh, RESUMES_S + 30)
        first = max(ground.runs_of(name)[0].start for name in fresh) - ground.fault_at
        ground.expect.at_most(f"new jobs run after {words} died", first, RESUMES_S)
        ground.heal("new jobs run")
        await ground.complete(fresh, 60)
    await ground.complete(running, 240)
    for name in ground.submitted:
        ground.expect.equal(f"runs of {name}", len(ground.runs_of(name)), 1)
    expect_others_well(ground)


async def _waves(ground: Ground, prefix: str) -> list[str]:
    """Jobs for each cluster at once, and again when the loss has been noticed: what was killed may
    serve a moment longer by what it left behind.
    """
    names = []
    for wave, moment in enumerate((0.0, NOTICED_S)):
        await ground.past(moment)
        for worker in ground.stack.rig.workers:
            names += await ground.submit(Plan(2, 2, prefix=f"{prefix}-{wave}-{worker}", on=worker))
    return names


async def _in_use(ground: Ground) -> None:
    """Until the workers of the clusters are actors of Ray: what nobody uses cannot be missed."""
    deadline = boottime() + RETURNS_S
    while (said := await manager_says(ground)).get("runtime") != "ray":
        if boottime() > deadline:
            why = said.get("runtimeProblem") or "the manager does not say why"
            raise Stuck(f"Ray was not in use within {RETURNS_S:.0f} s: {why}")
        await asyncio.sleep(1)  # a poll interval inside a bounded wait
    ground.note("the cluster workers are actors of Ray")
