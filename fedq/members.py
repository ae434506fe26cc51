"""The worker clusters behind a management cluster, and how to reach them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from federation.api.multikueue import MultiKueueCluster
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY, KUEUE_NAMESPACE
from federation.edge.errors import ApiError, ConfigError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import parse_untrusted
from federation.edge.resources import MULTIKUEUE_CLUSTERS, SECRETS
from fedq import connect, reading
from fedq.connect import Cluster, Target
from fedq.errors import CommandError


@dataclass(frozen=True, slots=True)
class Member:
    """A cluster with cards. `target` is an error if its kubeconfig cannot be used. A cluster that
    was asked directly has no name here, and its own connection.
    """

    name: str
    target: Target | KubeClient | ApiError

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        """A connection. Raises ApiError."""
        if isinstance(self.target, ApiError):
            raise self.target
        if isinstance(self.target, KubeClient):
            yield self.target
            return
        async with connect.open_client(self.target) as client:
            yield client


async def of(cluster: Cluster, names: Sequence[str] = ()) -> list[Member]:
    """The workers of a management cluster (some of them, by name); of any other, itself."""
    client = cluster.client
    try:
        found = (await client.list(MULTIKUEUE_CLUSTERS)).items
    except NotFound:
        found = []
    if not found or await reading.is_worker(client):
        if names:
            raise CommandError(
                "this cluster has no worker clusters",
                todo="--cluster is for the management cluster: leave it out, or use --context.",
            )
        return [Member("", client)]
    objects = {obj["metadata"]["name"]: MultiKueueCluster.from_wire(obj) for obj in found}
    if missing := [name for name in names if name not in objects]:
        raise CommandError(
            f"there is no cluster {missing[0]}", todo=f"There are {', '.join(sorted(objects))}."
        )
    wanted = sorted(set(names) or objects)
    return [Member(name, await _target(cluster, name, objects[name])) for name in wanted]


async def _target(cluster: Cluster, name: str, obj: MultiKueueCluster) -> Target | ApiError:
    """As the person asking, where a kubeconfig of theirs has a context of the cluster's name; else
    as the manager, which may not read nodes and pods unless it was allowed to.
    """
    if cluster.rig is not None and name in cluster.rig.workers:
        return Target(parse_untrusted(cluster.rig.kubeconfig(name).read_bytes(), name))
    if (own := connect.of_context(name)) is not None:
        return own
    source = obj.spec.cluster_source
    config = source.kube_config if source else None
    if config is None or config.location_type != "Secret":
        return ConfigError("its kubeconfig is in no Secret that could be read from here")
    try:
        data = await _secret(cluster.client, config.location)
        return Target(parse_untrusted(base64.b64decode(data), name))
    except (ApiError, binascii.Error) as error:
        return error if isinstance(error, ApiError) else ConfigError(str(error))


async def _secret(client: KubeClient, name: str) -> str:
    for namespace in (FEDQ_NAMESPACE, KUEUE_NAMESPACE):
        try:
            found = await client.get(SECRETS, name, namespace)
        except NotFound:
            continue
        return str((found.get("data") or {}).get(KUBECONFIG_KEY) or "")
    raise ConfigError(f"Secret {FEDQ_NAMESPACE}/{name} does not exist")
