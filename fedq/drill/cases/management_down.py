"""The management API server stands still: no renewal of anybody gets through.

Shorter than the lease it changes nothing. Beyond it every `stop` job stops, none runs elsewhere
(the brake), and all go on with the same attempt afterwards.
"""

from __future__ import annotations

from fedq.drill.cases.common import expect_no_change
from fedq.drill.faults.processes import frozen
from fedq.drill.ground import Conditions, Ground
from fedq.drill.jobs import Plan
from fedq.drill.timeline import What

PARTS = ("kube-apiserver", "etcd")
SHORT_S = 60.0
ENDURANCE_S = 120.0
"""Of an endurance run. The lease of the default profile ends about then."""


async def short(ground: Ground) -> None:
    """60 s, below the lease of the default profile: nothing changes. In an endurance run a lease
    may be over before the end, and what stopped then goes on.
    """
    lasts = short_s(ground.conditions)
    if lasts > ground.timings.lease / 2:
        await _without_reruns(ground, lasts)
        return
    names = await _jobs(ground, lasts + 40)
    await _outage(ground, lasts)
    await ground.complete(names, 180)
    expect_no_change(ground, names)


def short_s(conditions: Conditions) -> float:
    """How long the short outage lasts."""
    return ENDURANCE_S if conditions.endurance else min(SHORT_S, conditions.timings.lease / 2)


async def beyond_lease(ground: Ground) -> None:
    """As long as until a cluster would be given up."""
    lasts = 1.5 * ground.timings.rerun if ground.conditions.endurance else ground.timings.rerun + 20
    for name in await _without_reruns(ground, lasts):
        before = [run for run in ground.runs_of(name) if run.start < ground.fault_at]
        ground.expect.true(
            f"{name} was stopped at the end of the lease",
            bool(before) and not before[0].succeeded,
            "it went on",
        )


async def _without_reruns(ground: Ground, lasts: float) -> list[str]:
    """An outage that is as long as a lease or longer: whatever stops goes on in its attempt, what
    is to be kept never stops. Returns the jobs that may stop.
    """
    names = await _jobs(ground, lasts + 20, "job")
    kept = await _jobs(ground, lasts + 20, "kept", policy="keep")
    await _outage(ground, lasts)
    await ground.complete([*names, *kept], lasts + 240)
    for name in names:
        attempts = {run.subject.attempt for run in ground.runs_of(name)}
        ground.expect.equal(f"attempts of {name}", attempts, {1})
    for name in kept:
        ground.expect.equal(f"runs of {name}, which is to be kept", len(ground.runs_of(name)), 1)
    ground.expect.equal("fences", len(ground.timeline.find(What.FENCED, after=ground.fault_at)), 0)
    return names


async def _jobs(
    ground: Ground, seconds: float, prefix: str = "job", policy: str = "stop"
) -> list[str]:
    """Two on each worker."""
    names = []
    for worker in ground.stack.rig.workers:
        plan = Plan(2, seconds, policy, prefix=f"{prefix}-{worker}", on=worker)
        names += await ground.submit(plan)
    await ground.running(names)
    return names


async def _outage(ground: Ground, lasts: float) -> None:
    rig = ground.stack.rig
    parts = [f"{rig.management}/{part}" for part in PARTS]
    async with frozen(rig, *parts):
        ground.strike(note=f"the management API server and etcd stand still for {lasts:.0f} s")
        await ground.past(lasts)
    ground.heal("they go on")
