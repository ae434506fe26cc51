"""A stand-in for Spark's drivers, whose containers do not run on a rig.

A driver that runs makes its executors with the rights of its own ServiceAccount, and when it stops,
for whatever reason, it deletes them: that is what Spark's scheduler for Kubernetes does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import yaml

from federation.edge.errors import NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, Resource
from fedq.rig.rig import Rig
from tests.integration.kind_objects import until
from tests.integration.spark_submit import PROPERTIES, TEMPLATE, config_map, executor

Json = dict[str, Any]
CONFIG_MAPS = Resource("", "v1", "configmaps")


@asynccontextmanager
async def drivers(
    rig: Rig, cluster: str, client: KubeClient, namespace: str
) -> AsyncIterator[None]:
    """All drivers in a namespace."""
    task = asyncio.create_task(_run(rig, cluster, client, namespace))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _run(rig: Rig, cluster: str, client: KubeClient, namespace: str) -> None:
    running: dict[str, str] = {}
    watch = client.watch(PODS, namespace, label_selector="spark-role=driver")
    async with aclosing(watch) as events:
        async for event in events:
            if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
                continue
            driver = event.object
            uid, phase = driver["metadata"]["uid"], (driver.get("status") or {}).get("phase")
            stops = event.type == "DELETED" or "deletionTimestamp" in driver["metadata"]
            if stops or phase in ("Succeeded", "Failed"):
                if app := running.pop(uid, ""):
                    await _stop(client, namespace, app)
            elif phase == "Running" and uid not in running:
                running[uid] = await _start(rig, cluster, client, driver)


async def _start(rig: Rig, cluster: str, client: KubeClient, driver: Json) -> str:
    """Make its executors; the id of its application."""
    meta = driver["metadata"]
    namespace, name = meta["namespace"], config_map(meta["uid"])
    found = await until(client, CONFIG_MAPS, (namespace, name), bool)
    properties = json.loads(found["data"][PROPERTIES])
    template = yaml.safe_load(found["data"][TEMPLATE])
    count = int(properties.get("spark.executor.instances", "2"))
    if properties.get("spark.dynamicAllocation.enabled") == "true":
        at = "spark.dynamicAllocation"
        count = int(properties.get(f"{at}.initialExecutors", "0"))
    made = [executor(properties, n + 1, driver, template) for n in range(count)]
    account = driver["spec"].get("serviceAccountName", "default")
    await asyncio.to_thread(
        rig.kubectl,
        cluster,
        "create",
        f"--as=system:serviceaccount:{namespace}:{account}",
        "-f",
        "-",
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}),
    )
    return str(properties["spark.app.id"])


async def _stop(client: KubeClient, namespace: str, app: str) -> None:
    selector = f"spark-role=executor,spark-app-selector={app}"
    for found in (await client.list(PODS, namespace, label_selector=selector)).items:
        with suppress(NotFound):
            await client.delete(PODS, found["metadata"]["name"], namespace)


async def finish(client: KubeClient, namespace: str, app: str) -> None:
    """The driver of an application has done its work."""
    of_app = f"spark-role=driver,sparkoperator.k8s.io/app-name={app}"
    (driver,) = (await client.list(PODS, namespace, label_selector=of_app)).items
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    containers = [
        {**told, "ready": False, "started": False, "state": ended}
        for told in driver["status"]["containerStatuses"]
    ]
    status = {"status": {"phase": "Succeeded", "containerStatuses": containers}}
    await client.patch(PODS, driver["metadata"]["name"], status, namespace, subresource="status")
