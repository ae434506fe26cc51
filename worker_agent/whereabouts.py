"""Whether the agent is where its settings say: on a worker cluster, or beside a manager.

On a management cluster an agent of a worker would let go what the manager sends elsewhere: kinds
that heed no managedBy look the same there.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from federation.api.names import FEDQ_NAMESPACE, ORIGIN_CONFIGMAP
from federation.edge.errors import ApiError, Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import CONFIGMAPS

log = structlog.get_logger(__name__)

RETRY_S = 2.0
FIRST_S = 3.0
"""For so long the first answer is waited for."""


class WrongPlaceError(RuntimeError):
    """This agent must not run on this cluster with these settings."""


async def refuse_at_once(client: KubeClient) -> None:
    """Raises WrongPlaceError for an agent of a worker on a management cluster, before it takes the
    Lease of a cluster from the agent that is there. An API server that does not answer now is asked
    again (`refuse_beside_manager`): that is no reason to let the lease end.
    """
    with suppress(TimeoutError, ApiError):
        async with asyncio.timeout(FIRST_S):
            await _refuse(client)


async def refuse_beside_manager(client: KubeClient) -> None:
    """The same, however long it takes to get an answer."""
    while True:
        try:
            return await _refuse(client)
        except ApiError as error:
            log.warning("agent.whereabouts_unknown", why=str(error))
            await asyncio.sleep(RETRY_S)  # the API server refused, or is away


async def _refuse(client: KubeClient) -> None:
    try:
        await client.get(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)
    except (NotFound, Forbidden):
        return  # no manager has worked here, or a role of an earlier version may not read it
    raise WrongPlaceError(
        f"this is a management cluster (it has the ConfigMap {FEDQ_NAMESPACE}/{ORIGIN_CONFIGMAP} of"
        " a manager), and the agent was started for a worker cluster: correct FEDQ_KUBECONFIG; or"
        " to run the local queues of the management cluster, set FEDQ_BESIDE_MANAGER=true, and"
        " neither FEDQ_CLUSTER nor FEDQ_MANAGEMENT_KUBECONFIG (docs/local-queues.md). If no manager"
        " works on it any more, delete that ConfigMap"
    )
