"""Who the manager of this management cluster is: the origin that all its copies carry."""

from __future__ import annotations

import uuid

import structlog

from federation.api.names import FEDQ_NAMESPACE, ORIGIN_CONFIGMAP
from federation.edge.errors import AlreadyExists, Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import CONFIGMAPS, NAMESPACES, Json

IDENTITY_NAMESPACE = "kube-system"
"""Its UID names a physical cluster: it is made with it, and stays."""
log = structlog.get_logger(__name__)


class ForeignOrigin(RuntimeError):
    """This management cluster has the origin of another one: its objects were copied."""


async def ensure_origin(client: KubeClient) -> str:
    """The UUID of this management cluster's manager: made once, kept in a ConfigMap beside the UID
    of its namespace, which no copy of the ConfigMap in another cluster has.

    It marks every copy on every worker. Two managers with one origin would take each other's jobs
    for leftovers and delete them. Raises ForeignOrigin where that could be.
    """
    home = (await client.get(NAMESPACES, FEDQ_NAMESPACE))["metadata"]["uid"]
    found = await _known(client) or await _made(client, home)
    origin, of = str(found["data"]["origin"]), found["data"].get("cluster")
    if of is None:  # of an earlier version
        body = {"data": {"cluster": home}, "metadata": {"uid": found["metadata"]["uid"]}}
        await client.patch(CONFIGMAPS, ORIGIN_CONFIGMAP, body, FEDQ_NAMESPACE)
    elif of != home:
        why = (
            f"ConfigMap {FEDQ_NAMESPACE}/{ORIGIN_CONFIGMAP} was copied from another management"
            f" cluster, with its origin {origin}: beside the manager there this one would delete"
            " its jobs on the workers. Delete the ConfigMap to be a cluster of its own; or, if the"
            f" other one is gone for good, set its data.cluster to {home}"
        )
        log.error("manager.refuses", why=why)
        raise ForeignOrigin(why)
    return origin


async def identity_of(client: KubeClient) -> str:
    """The physical cluster of a client, as `IDENTITY_NAMESPACE` names it; '' if it may not be
    read. Raises ApiError.
    """
    try:
        return str((await client.get(NAMESPACES, IDENTITY_NAMESPACE))["metadata"]["uid"])
    except (NotFound, Forbidden) as error:
        log.warning("cluster.not_identified", cluster=client.cluster, error=str(error))
        return ""


async def _known(client: KubeClient) -> Json | None:
    try:
        return await client.get(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)
    except NotFound:
        return None


async def _made(client: KubeClient, home: str) -> Json:
    body: Json = {
        "metadata": {"name": ORIGIN_CONFIGMAP, "namespace": FEDQ_NAMESPACE},
        "data": {"origin": str(uuid.uuid4()), "cluster": home},
    }
    try:
        return await client.create(CONFIGMAPS, body)
    except AlreadyExists:
        return await client.get(CONFIGMAPS, ORIGIN_CONFIGMAP, FEDQ_NAMESPACE)
