"""What commands about one worker cluster read before they do anything."""

from __future__ import annotations

import asyncio
import difflib
from dataclasses import dataclass
from typing import Any

from federation.api.access import agent_access, cluster_registration, kubeconfig_secret
from federation.api.lease import over_below
from federation.api.multikueue import MultiKueueCluster
from federation.api.names import FEDQ_NAMESPACE
from federation.edge.errors import Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    LEASES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from fedq.errors import CommandError
from fedq.evacuation import AWAY, BoundJob, Order, bound_jobs, phase
from fedq.objects import all_objects

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Situation:
    """A cluster, an order about it, and the jobs that are bound there; `cluster` is None if it has
    left the federation, `clusters` are all, `lease` is None if there is none, `configs` name the
    MultiKueueConfigs that name the cluster.
    """

    name: str
    order: Order
    cluster: Json | None
    clusters: list[Json]
    lease: Json | None
    jobs: list[BoundJob]
    configs: list[str]


async def read_situation(client: KubeClient, name: str, order: Order) -> Situation:
    """Raises CommandError when there is no such cluster, with the names that come close."""
    resources = (MULTIKUEUE_CLUSTERS, WORKLOADS, MULTIKUEUE_CONFIGS)
    jobs, pages = await asyncio.gather(
        all_objects(client, None), asyncio.gather(*map(client.list, resources))
    )
    clusters, workloads, configs = (page.items for page in pages)
    lease = await _lease(client, name)
    left = order is Order.CONFIRM and lease is not None
    cluster = _among(name, clusters) if left else pick(name, clusters)
    bound = bound_jobs(
        name,
        jobs,
        workloads,
        order,
        away=cluster is not None and phase(cluster) in AWAY,
        epoch=over_below(lease) if lease else 0,
    )
    naming = [
        obj["metadata"]["name"] for obj in configs if name in (obj["spec"].get("clusters") or ())
    ]
    return Situation(name, order, cluster, clusters, lease, bound, sorted(naming))


def _among(name: str, clusters: list[Json]) -> Json | None:
    return next((obj for obj in clusters if obj["metadata"]["name"] == name), None)


def pick(name: str, clusters: list[Json]) -> Json:
    """The cluster of that name. Raises CommandError."""
    by_name = {obj["metadata"]["name"]: obj for obj in clusters}
    if name in by_name:
        return by_name[name]
    close = difflib.get_close_matches(name, by_name, n=3)
    known = ", ".join(sorted(by_name)) or "none"
    raise CommandError(
        f"there is no cluster {name}",
        f"did you mean {' or '.join(close)}?" if close else f"there are: {known}",
        "`fedq get clusters` shows what there is.",
    )


async def _lease(client: KubeClient, name: str) -> Json | None:
    try:
        return await client.get(LEASES, name, FEDQ_NAMESPACE)
    except (NotFound, Forbidden):
        return None


def registration(found: Situation) -> list[Json]:
    """The objects that go when the cluster leaves, in order: what joining it has made. A Secret of
    another name stays: somebody else made it. So does the Lease: its epoch must never begin anew.
    """
    assert found.cluster is not None
    made = cluster_registration(found.name, "")
    source = MultiKueueCluster.from_wire(found.cluster).spec.cluster_source
    config = source.kube_config if source else None
    own = config is not None and config.location == kubeconfig_secret(found.name)
    cluster = [obj for obj in made if obj["kind"] == "MultiKueueCluster"]
    secret = [obj for obj in made if obj["kind"] == "Secret" and own]
    return [*cluster, *reversed(agent_access(found.name)), *secret]
