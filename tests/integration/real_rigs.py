"""Rigs on which kinds of jobs have their own controllers, and a team's place on one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import PODS, WORKLOADS, Resource
from fedq.rig import controllers
from fedq.rig.operators import Controller
from fedq.stack import Stack
from tests.integration.agents import priority_class
from tests.integration.conftest import flavor, own_rig, queue_objects
from tests.integration.kind_objects import until
from tests.integration.test_kinds import condition

Json = dict[str, Any]
WORKER = "worker-1"
LABEL = {"fedq.io/rig": "real"}
"""Of all nodes of the worker, and of its flavor."""


@contextmanager
def real_rig(
    name: str,
    wanted: Sequence[Controller],
    tmp_path_factory: pytest.TempPathFactory,
    env: Mapping[str, str] | None = None,
) -> Iterator[Stack]:
    """Fedq on a rig with one worker and these controllers, with more in their environment."""
    if not all(map(controllers.is_built, wanted)):
        pytest.skip("the controllers were not built: run `fedq rig binaries --controllers`")
    with own_rig(name, tmp_path_factory) as found:
        found.up(workers=1, nodes=2)
        stack = Stack(found)
        stack.install()
        for cluster in found.clusters:
            stack.apply(cluster, [flavor(), priority_class("urgent", 100)])
            for controller in wanted:
                # On a rig that is kept it may run with another environment.
                found.stop_process(f"{controller.name}/{cluster}")
                controllers.run(found, cluster, controller, env)
        found.kubectl(WORKER, "label", "nodes", "--all", "--overwrite", "fedq.io/rig=real")
        stack.apply(WORKER, [flavor() | {"spec": {"nodeLabels": LABEL}}])
        stack.start(runtime="in-process")
        yield stack
        stack.stop()


@dataclass
class Place:
    """A team with eight cores on each cluster."""

    name: str
    home: KubeClient
    worker: KubeClient

    @property
    def key(self) -> tuple[str, str]:
        """Of its job."""
        return self.name, "train"

    async def nothing_at_home(self, *resources: Resource) -> None:
        """The controllers of the management cluster have made none of these of what is bound
        elsewhere.
        """
        for resource in resources:
            assert (await self.home.list(resource, self.name)).items == []

    async def workload(self, holds: Callable[[Json], object]) -> Json:
        """Wait until something holds of its one Workload."""
        return await until(self.home, WORKLOADS, (self.name, ""), holds)

    async def finished(self, reason: str) -> Json:
        """Wait until its one Workload has finished, for that reason and in its first attempt."""
        ended = await self.workload(condition("Finished"))
        finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
        assert finish["reason"] == reason
        assert ended["status"]["fedq"]["attempt"] == 1
        return ended


@asynccontextmanager
async def places(
    stack: Stack, name: str, more: Mapping[str, str] | None = None
) -> AsyncIterator[Place]:
    """A new team, with clients for both clusters, and with quota for more than cores."""
    for cluster in stack.rig.clusters:
        objects = queue_objects(name, 8)
        queue = next(one for one in objects if one["kind"] == "ClusterQueue")
        for resource, amount in (more or {}).items():
            group = queue["spec"]["resourceGroups"][0]
            group["coveredResources"].append(resource)
            quota = {"name": resource, "nominalQuota": amount}
            group["flavors"][0]["resources"].append(quota)
        queue["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
        stack.apply(cluster, objects)
    async with AsyncExitStack() as opened:
        clients = [
            await opened.enter_async_context(KubeClient(load_endpoint(stack.rig.kubeconfig(one))))
            for one in (stack.rig.management, WORKER)
        ]
        yield Place(name, *clients)


async def pods(client: KubeClient, place: Place, selector: str = "") -> list[Json]:
    """The pods of a team; without a selector all, where nothing else makes any."""
    return list((await client.list(PODS, place.name, label_selector=selector)).items)
