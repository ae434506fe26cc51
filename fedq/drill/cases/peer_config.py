"""Lines of the comparison about what people configure: E3, E5, C5, C10, C16."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from fedq.drill.cases.common import start_on_one
from fedq.drill.cases.peer_line import PATIENCE_S, expect_told, runs_by_job, story, twice
from fedq.drill.faults.copied_origin import refused_manager
from fedq.drill.faults.twins import twin
from fedq.drill.ground import Ground
from fedq.drill.jobs import Plan, check_objects
from fedq.drill.timeline import What

ENDS_S = 15.0
"""Within which what was deactivated or deleted ends, whatever stands in the config."""
BESIDE_S = 45.0
"""For how long the peer's two managers were watched."""


@asynccontextmanager
async def _checked(ground: Ground) -> AsyncIterator[str]:
    """The queue has a MultiKueue check with a config of all workers while the block runs; yields
    the name of both.
    """
    rig, config = ground.stack.rig, f"{ground.namespace}-config"
    await asyncio.to_thread(ground.stack.apply, rig.management, check_objects(config, rig.workers))
    await _set_checks(ground, [config])
    try:
        yield config
    finally:
        await _set_checks(ground, [])
        await ground.management.delete(ADMISSION_CHECKS, config)
        await ground.management.delete(MULTIKUEUE_CONFIGS, config)


async def _set_checks(ground: Ground, names: list[str]) -> None:
    rules = {"admissionChecks": [{"name": name} for name in names]} if names else None
    body = {"spec": {"admissionChecksStrategy": rules}}
    await ground.management.patch(CLUSTER_QUEUES, ground.namespace, body)


async def e3_left_out(ground: Ground) -> str:
    """A worker is taken out of the MultiKueueConfig while jobs run there."""
    rig = ground.stack.rig
    async with _checked(ground) as config:
        victim, names = await start_on_one(ground, [Plan(4, 40, prefix="left-out")])
        rest = check_objects(config, [worker for worker in rig.workers if worker != victim])
        await asyncio.to_thread(ground.stack.apply, rig.management, rest)
        ground.strike(note=f"{victim} is taken out of the config")
        await ground.complete(names, PATIENCE_S)
    ground.heal("the queue uses all workers again")
    return _ran_once(ground, names)


def _ran_once(ground: Ground, names: list[str]) -> str:
    counts = [len(runs) for runs in runs_by_job(ground, names).values()]
    ground.expect.equal("runs of each job", set(counts), {1})
    return f"{counts.count(1)} of {len(counts)} jobs ran once, where they were"


async def e5_namesake(ground: Ground) -> str:
    """Jobs of the same names, which are nobody's, run on a worker already."""
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
    alone = sum(left.get(name) == uid for name, uid in foreign.items())
    ground.expect.equal("Jobs of others that were left alone", alone, len(foreign))
    first = [runs[0].start for runs in runs_by_job(ground, names).values()]
    last = max(first) - ground.fault_at
    ground.expect.at_most("all started", last, 30)
    for name in foreign:
        await client.delete(JOBS, name, ground.namespace)
    return f"{alone} of 6 foreign Jobs left alone, 6 of 6 jobs ran elsewhere within {last:.1f} s"


async def c5_object_deleted(ground: Ground) -> str:
    """The MultiKueueCluster is deleted while jobs run there."""
    victim, names = await start_on_one(ground, [Plan(2, 60, prefix="orphan")])
    ground.strike(victim, note=f"the MultiKueueCluster {victim} is deleted")
    await ground.management.delete(MULTIKUEUE_CLUSTERS, victim)
    await ground.complete(names, PATIENCE_S)
    took = ground.elapsed()
    both = twice(ground, names)
    ground.expect.equal("jobs that ran twice", both, 0)
    await asyncio.to_thread(ground.stack.install)
    await asyncio.to_thread(ground.stack.wait_active)
    ground.heal("it is there again")
    await ground.settled(victim, 120)
    return f"2 of 2 jobs finished within {took:.0f} s, {both} ran twice, nothing was left there"


async def c10_one_origin(ground: Ground) -> str:
    """A second manager has the origin of the first: of the same management cluster, of a copy."""
    rig = ground.stack.rig
    _, names = await start_on_one(ground, [Plan(4, BESIDE_S + 20, prefix="origin")])
    async with twin(rig, "manager"):
        ground.strike(note="a second manager runs on the same management cluster")
        await asyncio.sleep(BESIDE_S)  # how long both run
    other = ground.other(rig.workers[0])
    ground.note(f"a manager is started on {other}, with a copy of the origin")
    said = await refused_manager(ground.stack, ground.management, ground.clients[other], other)
    ground.expect.true(
        "a manager with a copied origin ends and says why",
        "was copied from another management cluster" in said,
        said[-300:],
    )
    await ground.complete(names, PATIENCE_S)
    ground.heal("it has refused to run")
    found = runs_by_job(ground, names)
    most = max(len(runs) for runs in found.values())
    ground.expect.equal("starts of a job at most", most, 1)
    removed = [m for name in names for m in ground.timeline.find(What.REMOVED, job=name)]
    early = [m for m in removed if not ground.timeline.find(What.FINISHED, job=m.job)]
    ground.expect.equal("copies that were deleted before their job was finished", len(early), 0)
    return (
        f"{most} start and {len(early)} deletions per job beside a replica; a copy refuses to run"
    )


async def c16_config_deleted(ground: Ground) -> str:
    """The MultiKueueConfig is deleted; then a job is deactivated, another one deleted."""
    async with _checked(ground) as config:
        _, names = await start_on_one(ground, [Plan(3, 40, prefix="config")])
        await ground.management.delete(MULTIKUEUE_CONFIGS, config)
        ground.strike(note="the MultiKueueConfig is deleted")
        workload = ground.witness.workloads[names[0]]["metadata"]["name"]
        body = {"spec": {"active": False}}
        await ground.management.patch(WORKLOADS, workload, body, ground.namespace)
        await ground.management.delete(JOBS, names[1], ground.namespace)
        await ground.until(lambda: _ended(ground, names[:2]), 120, "both to end on the worker")
        took = ground.elapsed()
        ground.expect.at_most("the deactivated and the deleted job ended", took, ENDS_S)
        (late,) = await ground.submit(Plan(1, 3, prefix="late"))
        await asyncio.sleep(3)  # a person asks after a while
        expect_told(ground, "what is missing", await story(ground, late), "MultiKueueConfig")
        again = check_objects(config, ground.stack.rig.workers)
        await asyncio.to_thread(ground.stack.apply, ground.stack.rig.management, again)
        ground.heal("it is created again")
        for name in names[:2]:  # they were not to finish
            del ground.submitted[name]
        await ground.complete([names[2], late], PATIENCE_S)
    runs = len(runs_by_job(ground, names[2:])[names[2]])
    ground.expect.equal("runs of the third job", runs, 1)
    return f"both ended {took:.1f} s later, without the config; the third ran on, {runs} run"


def _ended(ground: Ground, names: list[str]) -> bool:
    """Whether no process of these jobs runs."""
    return not any(run.open for runs in runs_by_job(ground, names).values() for run in runs)
