"""Every kind of the table on real API servers: queued, started as a whole, followed, ended. The
tests play the kinds' controllers, and their CRDs take anything.
"""

from __future__ import annotations

import asyncio
import uuid
from copy import deepcopy
from typing import Any

import pytest

from federation.api.kinds.row import Row
from federation.api.kinds.table import ROWS, SCALED
from federation.edge.kube import KubeClient
from federation.edge.resources import WORKLOADS, resource_of
from federation.jobs.kinds.registry import KINDS
from fedq.stack import Stack
from tests.integration.conftest import queue_objects
from tests.integration.kind_objects import crd, create, gone, of, say, until
from tests.integration.test_kinds import clients, condition
from tests.unit.jobs.kinds import samples, test_scaled

Json = dict[str, Any]
DEFINED = [*ROWS, *(row for row in SCALED if row.group != "apps")]


def spec_of(row: Row) -> Json:
    found = test_scaled.SPECS if row in SCALED else samples.SPECS
    return deepcopy(found[row.kind])


def pod_sets(row: Row) -> dict[str, int]:
    found = test_scaled.POD_SETS if row in SCALED else samples.POD_SETS
    return {name.replace("j-", f"{name_of(row)}-"): n for name, n in found[row.kind].items()}


def ending(row: Row) -> Json:
    """What its controller says at its end; {} of one that never ends."""
    if row in SCALED:
        return {"state": {"phase": "Completed"}} if row.complete else {}
    return samples.STATUSES[row.kind].get("Complete", {})


def name_of(row: Row) -> str:
    return "volcano" if row.group == "batch.volcano.sh" else row.kind.lower()


@pytest.fixture
def place(stack: Stack) -> str:
    """A team with room for all of them, on all clusters."""
    name = f"every-{uuid.uuid4().hex[:6]}"
    for cluster in stack.rig.clusters:
        objects = queue_objects(name, 1000)
        queue = next(obj for obj in objects if obj["kind"] == "ClusterQueue")
        (group,) = queue["spec"]["resourceGroups"]
        group["coveredResources"].append("memory")
        memory = {"name": "memory", "nominalQuota": "4Ti"}
        group["flavors"][0]["resources"].append(memory)
        stack.apply(cluster, [*map(crd, DEFINED), *objects])
    return name


@pytest.mark.timeout(580)
async def test_every_kind_runs_on_one_worker(stack: Stack, place: str) -> None:
    """Held at home, one Workload with its pod sets, its copy started with all of them on one
    cluster, its status back, and its end; one that never ends is stopped by deletion.
    """
    async with clients(stack) as found:
        for row in DEFINED:
            body = of(row, name_of(row), place, spec_of(row))
            await create(found["management"], resource_of(row), body)
        await asyncio.gather(*(_runs(found, row, place) for row in DEFINED))


async def _runs(found: dict[str, KubeClient], row: Row, place: str) -> None:
    management, resource, kind = found["management"], resource_of(row), KINDS[row.name]
    key = (place, name_of(row))

    def of_it(obj: Json, holds: Any) -> bool:
        owner = obj["metadata"]["ownerReferences"][0]
        same = (owner["apiVersion"], owner["kind"]) == (row.api_version, row.kind)
        return same and bool(holds(obj))

    async def workload(holds: Any) -> Json:
        return await until(management, WORKLOADS, (place, ""), lambda o: of_it(o, holds))

    admitted = await workload(condition("Admitted"))
    sets = {pods["name"]: pods["count"] for pods in admitted["spec"]["podSets"]}
    assert sets == pod_sets(row), row.name
    worker = found[admitted["status"]["clusterName"]]
    copy = await until(worker, resource, key, lambda o: not kind.suspended(o))
    started = {role.name: role.count for role in kind.roles(copy)}
    assert started == pod_sets(row), row.name
    if status := ending(row):
        await say(worker, resource, key, status)
        shown = await until(management, resource, key, lambda o: o.get("status"))
        await workload(condition("Finished"))
        assert shown["status"] == status, row.name
    else:
        await management.delete(resource, key[1], place)
    await gone(worker, resource, key)
