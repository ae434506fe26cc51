"""Credentials that are not accepted any more, and a second agent under the name of the first."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import yaml

from federation.api.access import kubeconfig_secret
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY
from federation.edge.kube import KubeClient
from federation.edge.resources import SECRETS
from fedq.rig.errors import RigError
from fedq.rig.rig import Rig


@asynccontextmanager
async def bad_token(management: KubeClient, worker: str) -> AsyncIterator[None]:
    """The token in the kubeconfig Secret of a worker is not accepted (401) while the block runs."""
    name = kubeconfig_secret(worker)
    secret = await management.get(SECRETS, name, FEDQ_NAMESPACE)
    good = secret["data"][KUBECONFIG_KEY]
    config = yaml.safe_load(base64.b64decode(good))
    config["users"][0]["user"] = {"token": "expired"}
    bad = base64.b64encode(yaml.safe_dump(config).encode()).decode()
    try:
        await _set(management, name, bad)
        yield
    finally:
        await _set(management, name, good)


async def _set(management: KubeClient, name: str, value: str) -> None:
    body = {"data": {KUBECONFIG_KEY: value}}
    await management.patch(SECRETS, name, body, namespace=FEDQ_NAMESPACE, kind="merge")


@asynccontextmanager
async def twin(rig: Rig, worker: str) -> AsyncIterator[str]:
    """A second agent of the same cluster runs while the block runs; yields its process's name."""
    first = rig.process(f"agent/{worker}")
    if first is None:
        raise RigError(f"agent/{worker} does not run", f"in the rig {rig.home}")
    name = f"agent-twin/{worker}"
    own = {"FEDQ_LISTEN": "127.0.0.1:0", "FEDQ_DEADLINE_FILE": str(rig.data_dir(name) / "deadline")}
    env = {**first.env, **own}
    await asyncio.to_thread(rig.start_process, name, first.argv, env)
    try:
        yield name
    finally:
        await asyncio.to_thread(rig.stop_process, name)
