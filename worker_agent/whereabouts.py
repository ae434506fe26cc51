"""Whether the agent is where its settings say: on a worker cluster, or beside a manager.

On a management cluster an agent of a worker would let go what the manager sends elsewhere: kinds
that heed no managedBy look the same there.
"""

from __future__ import annotations

import asyncio

import structlog

from federation.api.names import FEDQ_NAMESPACE, ORIGIN_CONFIGMAP
from federation.edge.errors import ApiError, Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import CONFIGMAPS

log = structlog.get_logger(__name__)

RETRY_S = 2.0


class WrongPlaceError(RuntimeError):
    """This agent must not run on this cluster with these settings."""


async def refuse_beside_manager(client: KubeClient) -> None:
    """Raises WrongPlaceError for an agent of a worker on a management cluster."""
    if not await _managed(client):
        return
    raise WrongPlaceError(
        f"this is a management cluster (it has the ConfigMap {FEDQ_NAMESPACE}/{ORIGIN_CONFIGMAP} of"
        " a manager), and the agent was started for a worker cluster: correct FEDQ_KUBECONFIG; or"
        " to run the local queues of the management cluster, set FEDQ_BESIDE_MANAGER=true, and"
        " neither FEDQ_CLUSTER nor FEDQ_MANAGEMENT_KUBECONFIG (docs/local-queues.md). If no manager"
        " works on it any more, delete that ConfigMap"
    )


async def _managed(client: KubeClient) -> bool:
    """Whether a manager has worked on this cluster; where that may not be read, as with a role of
    an earlier version, it has not.
    """
    while True:
        try:
            await client.get(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)
        except (NotFound, Forbidden):
            return False
        except ApiError as error:
            log.warning("agent.whereabouts_unknown", why=str(error))
            await asyncio.sleep(RETRY_S)  # the API server refused, or is away
        else:
            return True
