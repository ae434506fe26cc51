"""What must hold once the faults are over and everything had its time."""

from __future__ import annotations

from typing import Any

from bench.dst.cards import Inventory
from bench.dst.records import charged, usage
from bench.dst.world import World
from federation.api import record as records
from federation.api.names import Label, Mirror
from federation.edge.resources import JOBS, WORKER_REPORTS, WORKLOADS
from federation.jobs import batch_job

Json = dict[str, Any]


def at_peace(world: World) -> bool:
    """Whether every job that somebody wants is finished, nothing of it is left on workers, and all
    programs run, one manager as the leader.
    """
    if world.leader is None or any(_open(job) for job in world.home.items(JOBS)):
        return False
    return not any(_copies(world)) and all(p.task is not None for p in world.programs)


def end_checks(world: World) -> None:
    """Violations that show at the end."""
    _check_jobs(world)
    _check_copies(world)
    _check_reports(world)
    manager = world.leader
    if manager is None:
        world.violate("converges", "nobody leads")
        return
    held = usage(world.home, world.truth)
    tree = manager.scheduler.snapshot.tree
    for queue in world.quotas:
        amount = charged(tree.usage(queue))
        if amount != held.get(queue, 0):
            text = f"{amount} charged to {queue}, {held.get(queue, 0)} bound"
            world.violate("usage", text)
    if manager.problem():
        world.violate("converges", f"the manager says: {manager.problem()}")


def _check_jobs(world: World) -> None:
    stored = {obj["metadata"]["uid"]: obj for obj in world.home.items(JOBS)}
    for uid, traits in world.truth.traits.items():
        job = stored.get(uid)
        if traits.gone:
            continue
        if job is None:
            world.violate("lost", f"{traits.name} is not there any more")
        elif _open(job):
            world.violate("lost", f"{traits.name} has not finished: {_why(world, uid)}")
    for obj in world.home.items(WORKLOADS):
        if records.owner_uid(obj) not in stored:
            world.violate("traceable", f"Workload {obj['metadata']['name']} without a Job")


def _check_copies(world: World) -> None:
    stored = {obj["metadata"]["uid"] for obj in world.home.items(JOBS)}
    for cluster, copy in _copies(world):
        notes = copy["metadata"].get("annotations") or {}
        name = copy["metadata"]["name"]
        uid = notes.get(Mirror.LOCAL_UID.value, "")
        if uid not in stored:
            world.violate("traceable", f"copy {name} on {cluster} belongs to no Job")
        elif batch_job.finished(copy.get("status") or {}):
            world.violate("traceable", f"finished copy {name} is left on {cluster}")
    for runs in world.truth.live.values():
        for run in runs:
            name = world.truth.traits[run.local_uid].name
            job = world.people.job(name)
            if job is None or not _open(job):
                world.violate("orphan", f"{name} still runs on {run.cluster}")


def _check_reports(world: World) -> None:
    """Nothing runs any more, so no agent may count anything, and no container has a card."""
    for name, cluster in world.clusters.items():
        for report in cluster.fake.items(WORKER_REPORTS):
            for queue in report["status"]["clusterQueues"]:
                if any(amount["used"] != "0" for amount in queue["resources"]):
                    world.violate("ledger", f"{name} counts for {queue['name']}: {queue}")
            if cluster.inventory is not None and not any(world.truth.live.values()):
                _check_placement(world, name, cluster.inventory, report["status"])
    for card, holders in world.truth.cards.holders.items():
        if holders and not any(world.truth.live.values()):
            world.violate("ledger", f"{card} is held by pods of no job: {sorted(holders)}")


def _check_placement(world: World, name: str, inventory: Inventory, status: Json) -> None:
    """All that its nodes have is free."""
    told = status.get("placement") or {"classes": [], "resources": []}
    nodes = sum(entry.get("count", 1) for entry in told["classes"])
    all_free = dict(zip(told["resources"], map(str, _least(told["classes"])), strict=True))
    busy = [entry["cards"] for entry in told["classes"] if not _idle(entry["cards"])]
    if nodes != len(inventory.nodes) or busy or all_free != inventory.FREE:
        world.violate("ledger", f"{name} tells that it has these nodes: {told}")


def _least(classes: list[Json]) -> list[int]:
    return [min(amounts) for amounts in zip(*(entry["free"] for entry in classes), strict=True)]


def _idle(cards: str) -> bool:
    """Whether these texts tell of nothing that is used (`:`) or shut (`!`)."""
    return ":" not in cards and "!" not in cards


def _copies(world: World) -> list[tuple[str, Json]]:
    return [
        (name, job)
        for name, cluster in world.clusters.items()
        for job in cluster.fake.items(JOBS)
        if Label.MULTIKUEUE_ORIGIN.value in (job["metadata"].get("labels") or {})
    ]


def _open(job: Json) -> bool:
    return not batch_job.finished(job.get("status") or {})


def _why(world: World, uid: str) -> str:
    for obj in world.home.items(WORKLOADS):
        if records.owner_uid(obj) == uid:
            record = records.read_record(obj)
            where = record.binding or "not bound"
            return f"active={record.active} {where} {record.reason}: {record.message}"
    return "it has no Workload"
