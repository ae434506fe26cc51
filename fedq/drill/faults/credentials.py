"""Credentials that are not accepted any more."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import yaml

from federation.api import yaml_text
from federation.api.access import kubeconfig_secret
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY
from federation.edge.kube import KubeClient
from federation.edge.resources import SECRETS


@asynccontextmanager
async def bad_token(management: KubeClient, worker: str) -> AsyncIterator[None]:
    """The token in the kubeconfig Secret of a worker is not accepted (401) while the block runs."""
    name = kubeconfig_secret(worker)
    secret = await management.get(SECRETS, name, FEDQ_NAMESPACE)
    good = secret["data"][KUBECONFIG_KEY]
    config = yaml.safe_load(base64.b64decode(good))
    config["users"][0]["user"] = {"token": "expired"}
    bad = base64.b64encode(yaml_text.dump(config).encode()).decode()
    try:
        await _set(management, name, bad)
        yield
    finally:
        await _set(management, name, good)


async def _set(management: KubeClient, name: str, value: str) -> None:
    body = {"data": {KUBECONFIG_KEY: value}}
    await management.patch(SECRETS, name, body, namespace=FEDQ_NAMESPACE, kind="merge")
