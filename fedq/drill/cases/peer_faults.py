"""Faults under which MultiKueue was measured (E1 to E9 and C5), one after the other.

What it does there: after a partition every job runs twice and the healthy run is deleted at the
heal (E1); a cluster taken out of the config gets second copies (E3); jobs that waited for a cluster
are not offered to it when it is back (E4); a namesake on the worker leaves the job stuck (E5); a
silent worker stalls all for 33 s (E6); a killed manager strands jobs (E7); the copy of a job that
was deleted during a cut goes 8 to 22 s after the heal (E8); 0.30 s from submission to start, 2.38 s
to the end of a job of one second (E9); jobs of a cluster whose object was deleted stay there (C5).
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable

from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
)
from fedq.drill.cases import worker_cut
from fedq.drill.cases.common import start_on_one
from fedq.drill.faults.processes import kill
from fedq.drill.ground import Ground
from fedq.drill.jobs import CARDS_OF_A_NODE, CARDS_OF_A_WORKER, Plan, check_objects
from fedq.drill.timeline import What, boottime

PATIENCE_S = 240.0


async def peer_faults(ground: Ground) -> None:
    """All of them."""
    for step in STEPS:
        ground.tell(f"  {(step.__doc__ or '').splitlines()[0]}")
        await step(ground)
    for name in set(ground.submitted):
        attempts = [run.subject.attempt for run in ground.runs_of(name)]
        ground.expect.true(
            f"no attempt of {name} was started twice",
            len(attempts) == len(set(attempts)),
            str(attempts),
        )


async def _e9_latency(ground: Ground) -> None:
    """E9: latency of an idle system, 20 jobs of one second, one after the other."""
    to_start, to_end = [], []
    for number in range(20):
        began = boottime()
        (name,) = await ground.submit(Plan(1, 1, prefix=f"single-{number:02d}"))
        await ground.complete([name], 30)
        to_start.append(ground.timeline.find(What.STARTED, job=name)[0].at - began)
        to_end.append(ground.timeline.find(What.FINISHED, job=name)[0].at - began)
    ground.expect.at_most("E9 median, submitted to started", statistics.median(to_start), 0.30)
    ground.expect.at_most("E9 median, submitted to Complete", statistics.median(to_end), 2.38)


async def _e3_left_out(ground: Ground) -> None:
    """E3: a worker is taken out of the MultiKueueConfig while jobs run there."""
    rig, config = ground.stack.rig, f"{ground.namespace}-config"
    every = check_objects(config, rig.workers)
    await asyncio.to_thread(ground.stack.apply, rig.management, every)
    await _set_checks(ground, [config])
    victim, names = await start_on_one(ground, [Plan(4, 40, prefix="left-out")])
    rest = check_objects(config, [worker for worker in rig.workers if worker != victim])
    await asyncio.to_thread(ground.stack.apply, rig.management, rest)
    ground.strike(note=f"{victim} is taken out of the config")
    await ground.complete(names, PATIENCE_S)
    await _set_checks(ground, [])
    await ground.management.delete(ADMISSION_CHECKS, config)
    await ground.management.delete(MULTIKUEUE_CONFIGS, config)
    ground.heal("the queue uses all workers again")
    found = {name: len(ground.runs_of(name)) for name in names}
    ground.expect.equal("E3 runs of each job", set(found.values()), {1})


async def _set_checks(ground: Ground, names: list[str]) -> None:
    rules = {"admissionChecks": [{"name": name} for name in names]} if names else None
    body = {"spec": {"admissionChecksStrategy": rules}}
    await ground.management.patch(CLUSTER_QUEUES, ground.namespace, body)


async def _e4_waiting(ground: Ground) -> None:
    """E4: jobs wait while no worker can take them; they start when one is back."""
    first, second = ground.stack.rig.workers[:2]
    limit = ground.timings.recover + 10
    async with ground.cut(first, second):
        await ground.until(lambda: _suspect(ground, 2), 60, "both workers to be suspect")
        both = await ground.submit(Plan(5, 3, prefix="both-cut"))
        await ground.past(ground.elapsed() + 5)
    await ground.complete(both, PATIENCE_S)
    ground.expect.at_most("E4 all start after both are back", _last_start(ground, both), limit)

    nodes = CARDS_OF_A_WORKER // CARDS_OF_A_NODE
    full = await ground.submit(Plan(nodes, 75, prefix="filler", cards=CARDS_OF_A_NODE, on=second))
    await ground.running(full)
    async with ground.cut(first):
        await ground.until(lambda: _suspect(ground, 1), 60, f"{first} to be suspect")
        waiting = await ground.submit(Plan(5, 3, prefix="one-cut"))
        await ground.past(ground.elapsed() + 3)
    await ground.running(waiting)
    ground.expect.at_most("E4 all start after one is back", _last_start(ground, waiting), limit)
    await ground.complete([*waiting, *full], PATIENCE_S)


def _suspect(ground: Ground, count: int) -> bool:
    return sum(ground.shown(w, "suspect") is not None for w in ground.stack.rig.workers) >= count


def _last_start(ground: Ground, names: list[str]) -> float:
    healed = ground.timeline.find(What.HEALED)[-1].at
    return max(ground.runs_of(name)[0].start for name in names) - healed


async def _e5_namesake(ground: Ground) -> None:
    """E5: Jobs of the same names, which are nobody's, run on a worker already."""
    where = ground.stack.rig.workers[0]
    client, foreign = ground.clients[where], {}
    for body in Plan(6, 600, prefix="namesake", process=False).manifests(ground.namespace):
        del body["metadata"]["labels"], body["metadata"]["annotations"]
        made = await client.create(JOBS, body)
        foreign[made["metadata"]["name"]] = made["metadata"]["uid"]
    ground.strike(note=f"6 Jobs of the same names stand on {where}")
    names = await ground.submit(Plan(6, 3, prefix="namesake"))
    await ground.complete(names, PATIENCE_S)
    ground.heal("all ran elsewhere")
    listed = (await client.list(JOBS, ground.namespace)).items
    left = {job["metadata"]["name"]: job["metadata"]["uid"] for job in listed}
    ground.expect.equal(
        "E5 Jobs of others that were left alone", foreign.items() <= left.items(), True
    )
    last = max(ground.runs_of(name)[0].start for name in names) - ground.fault_at
    ground.expect.at_most("E5 all started", last, 30)
    for name in foreign:
        await client.delete(JOBS, name, ground.namespace)


async def _e6_silent(ground: Ground) -> None:
    """E6: 50 jobs of a second are submitted at the moment at which a worker falls silent."""
    victim = ground.stack.rig.workers[0]
    async with ground.cut(victim):
        names = await ground.submit(Plan(50, 1, prefix="silent"))
        await ground.past(ground.timings.rerun + 20)
    await ground.complete(names, PATIENCE_S)
    starts = sorted(ground.runs_of(name)[0].start - ground.fault_at for name in names)
    ground.expect.at_most("E6 first job started", starts[0], 5)
    ground.expect.at_most("E6 median job started", statistics.median(starts), 15)
    await ground.settled(victim, 60)


async def _e7_manager_killed(ground: Ground) -> None:
    """E7: the manager is killed among 50 jobs of 3 s, and started 5 s later; three times."""
    rig = ground.stack.rig
    for number, moment in enumerate((1.0, 3.0, 6.0)):
        burst = asyncio.create_task(ground.submit(Plan(50, 3, prefix=f"killed{number}")))
        await asyncio.sleep(moment)  # when it is killed is what differs between the runs
        ground.strike(note=f"the manager is killed after {moment:g} s")
        await kill(rig, "manager")
        await ground.past(5)
        await asyncio.to_thread(rig.restart, "manager")
        ground.heal("it is started again")
        names = await burst
        await ground.complete(names, PATIENCE_S)
        counts = {len(ground.runs_of(name)) for name in names}
        ground.expect.equal(f"E7 runs of each job, killed after {moment:g} s", counts, {1})


async def _e8_deleted(ground: Ground) -> None:
    """E8: a job is deleted while its worker is cut off."""
    victim, names = await start_on_one(ground, [Plan(3, 120, prefix="deleted")])
    async with ground.cut(victim):
        await ground.past(5)
        await ground.management.delete(JOBS, names[0], ground.namespace)
        await ground.past(ground.timings.lease * 2 / 3)
    healed = ground.timeline.find(What.HEALED)[-1].at

    def gone() -> bool:
        return bool(ground.timeline.find(What.REMOVED, job=names[0], after=ground.fault_at))

    await ground.until(gone, 60, "the copy of the deleted job to go")
    at = ground.timeline.find(What.REMOVED, job=names[0], after=ground.fault_at)[0].at
    ground.expect.at_most("E8 copy removed after the heal", at - healed, 8.2)
    del ground.submitted[names[0]]  # it was not to finish
    await ground.complete(names[1:], PATIENCE_S)


async def _c5_object_deleted(ground: Ground) -> None:
    """C5: the MultiKueueCluster is deleted while jobs run there."""
    victim, names = await start_on_one(ground, [Plan(2, 60, prefix="orphan")])
    ground.strike(victim, note=f"the MultiKueueCluster {victim} is deleted")
    await ground.management.delete(MULTIKUEUE_CLUSTERS, victim)
    await ground.complete(names, PATIENCE_S)
    await asyncio.to_thread(ground.stack.install)
    await asyncio.to_thread(ground.stack.wait_active)
    ground.heal("it is there again")
    await ground.settled(victim, 120)


STEPS: tuple[Callable[[Ground], Awaitable[None]], ...] = (
    _e9_latency,
    worker_cut.worker_partition,
    worker_cut.short_cut,
    _e3_left_out,
    _e4_waiting,
    _e5_namesake,
    _e6_silent,
    _e7_manager_killed,
    _e8_deleted,
    _c5_object_deleted,
)
