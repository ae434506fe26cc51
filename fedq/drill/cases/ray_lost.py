"""Parts of Ray die: the process of an actor, the raylet, and the head's control store (GCS)."""

from __future__ import annotations

import asyncio
import json

from fedq.drill.cases.common import expect_others_well, start_on_one
from fedq.drill.faults.processes import running_part, strike
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan
from fedq.drill.running import Unsuited

RESUMES_S = 120.0
PARTS = (
    ("the process of an actor", ("ray::ClusterWorker",)),
    ("the raylet", ("raylet/raylet",)),
    ("the GCS server", ("gcs_server",)),
)


async def parts_killed(ground: Ground) -> None:
    """One after the other; each time new jobs have to run within two minutes, and what runs goes on
    untouched.
    """
    _, running = await start_on_one(ground, [Plan(3, 3 * RESUMES_S / 2)])
    for number, (words, needles) in enumerate(PARTS):
        found = await asyncio.to_thread(running_part, ground.stack.rig, "manager", *needles)
        if not found:
            raise Unsuited(f"{words} was not found among the processes of the manager")
        ground.strike(note=f"{words} is killed")
        strike(found[0])
        fresh = await ground.submit(Plan(4, 2, prefix=f"after{number}"))
        await ground.running(fresh, RESUMES_S + 30)
        first = max(ground.runs_of(name)[0].start for name in fresh) - ground.fault_at
        ground.expect.at_most(f"new jobs run after {words} died", first, RESUMES_S)
        ground.heal("new jobs run")
        await ground.complete(fresh, 60)
    await ground.complete(running, 240)
    for name in ground.submitted:
        ground.expect.equal(f"runs of {name}", len(ground.runs_of(name)), 1)
    page = await asyncio.to_thread(ground.stack.page, "manager", "status")
    said = json.loads(page or b"{}")
    ground.note(f"the manager's runtime now: {said.get('runtime', 'not said')}")
    expect_others_well(ground)
