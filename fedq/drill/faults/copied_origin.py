"""A manager on a management cluster that was copied, with the origin of the first one."""

from __future__ import annotations

import asyncio
import sys

from federation.api.names import FEDQ_NAMESPACE, ORIGIN_CONFIGMAP
from federation.edge.kube import KubeClient
from federation.edge.resources import CONFIGMAPS
from fedq.rig.errors import RigError
from fedq.rig.waiting import wait_until
from fedq.stack import Stack

NAME = "copied-manager"
PATIENCE_S = 60.0


async def refused_manager(
    stack: Stack, management: KubeClient, other: KubeClient, cluster: str
) -> str:
    """Copy the origin to another cluster and start a manager there; what it logged until it ended.

    Raises RigError if it does not end, and stops it.
    """
    origin = await management.get(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)
    meta = {"name": ORIGIN_CONFIGMAP, "namespace": FEDQ_NAMESPACE}
    await other.create(CONFIGMAPS, {"metadata": meta, "data": origin["data"]})
    try:
        return await asyncio.to_thread(_run, stack, cluster)
    finally:
        await other.delete(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)


def _run(stack: Stack, cluster: str) -> str:
    rig, folder = stack.rig, stack.state_dir / "copied"
    folder.mkdir(mode=0o700, exist_ok=True)
    env = {
        "FEDQ_KUBECONFIG": str(rig.kubeconfig(cluster)),
        "FEDQ_LISTEN": "127.0.0.1:0",
        "FEDQ_RUNTIME": "in-process",
        "FEDQ_STATE_DIR": str(folder),
        "REDIS_URL": stack.redis_url,
    }
    process = rig.start_process(NAME, [sys.executable, "-m", "manager"], env, cluster=cluster)
    try:
        if not wait_until(lambda: not process.running, PATIENCE_S):
            raise RigError(f"a manager with a copied origin runs on {cluster}", process.tail())
        return process.log.read_text(errors="replace")
    finally:
        rig.stop_process(NAME)
