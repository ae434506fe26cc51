"""Faults of drills that take a real API server, or a real manager, to be what they say."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator

import pytest

from federation.api.access import kubeconfig_secret
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY, ORIGIN_CONFIGMAP
from federation.edge.errors import NotFound, Unauthorized
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint, parse_untrusted
from federation.edge.resources import CONFIGMAPS, JOBS, SECRETS
from fedq.drill.faults.copied_origin import NAME, refused_manager
from fedq.drill.faults.credentials import bad_token
from fedq.rig.rig import Rig
from fedq.stack import Stack

WORKER = "worker-1"


def admin(rig: Rig, cluster: str) -> KubeClient:
    """As the drills look at a cluster."""
    return KubeClient(load_endpoint(rig.kubeconfig(cluster)))


@contextlib.asynccontextmanager
async def as_manager(home: KubeClient) -> AsyncIterator[KubeClient]:
    """With what the kubeconfig Secret of the worker says now."""
    secret = await home.get(SECRETS, kubeconfig_secret(WORKER), FEDQ_NAMESPACE)
    text = base64.b64decode(secret["data"][KUBECONFIG_KEY])
    async with KubeClient(parse_untrusted(text, WORKER)) as client:
        yield client


async def test_a_bad_token_is_refused_by_the_worker_and_good_again(agents: Stack) -> None:
    """401, and no trouble of the network; before and after it the manager may do its work."""
    async with admin(agents.rig, agents.rig.management) as home:
        async with as_manager(home) as client:
            await client.list(JOBS)
        async with bad_token(home, WORKER), as_manager(home) as client:
            with pytest.raises(Unauthorized):
                await client.list(JOBS)
        async with as_manager(home) as client:
            await client.list(JOBS)


@pytest.mark.timeout(240)
async def test_a_manager_on_a_copy_of_the_management_cluster_refuses_to_run(stack: Stack) -> None:
    """It ends and says why; neither it nor the copied origin is there afterwards."""
    rig = stack.rig
    async with admin(rig, rig.management) as home, admin(rig, WORKER) as other:
        said = await refused_manager(stack, home, other, WORKER)
        assert "was copied from another management cluster" in said
        assert rig.process(NAME) is None
        with pytest.raises(NotFound):
            await other.get(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)
