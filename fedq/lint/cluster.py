"""The objects of a cluster that the files are checked against."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from federation.edge import resources as r
from federation.edge.errors import Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import Resource
from fedq.lint.finding import Json, Thing

KINDS: Final[tuple[tuple[str, Resource], ...]] = (
    ("Node", r.NODES),
    ("Namespace", r.NAMESPACES),
    ("PriorityClass", r.PRIORITY_CLASSES),
    ("ResourceFlavor", r.RESOURCE_FLAVORS),
    ("ClusterQueue", r.CLUSTER_QUEUES),
    ("Cohort", r.COHORTS),
    ("LocalQueue", r.LOCAL_QUEUES),
    ("WorkloadPriorityClass", r.WORKLOAD_PRIORITY_CLASSES),
    ("AdmissionCheck", r.ADMISSION_CHECKS),
    ("Topology", r.TOPOLOGIES),
    ("MultiKueueConfig", r.MULTIKUEUE_CONFIGS),
    ("MultiKueueCluster", r.MULTIKUEUE_CLUSTERS),
)


@dataclass(slots=True)
class ClusterThings:
    """What was read: all objects of `kinds`. `unread` are kinds with the reason."""

    things: list[Thing] = field(default_factory=list)
    kinds: frozenset[str] = frozenset()
    unread: dict[str, str] = field(default_factory=dict)


async def look(client: KubeClient) -> ClusterThings:
    """Read all kinds. One that may not be read, or is not served, is left out; other errors of the
    API are raised.
    """
    found = ClusterThings()
    answers = await asyncio.gather(*(_list(client, resource) for _, resource in KINDS))
    for (kind, resource), answer in zip(KINDS, answers, strict=True):
        if isinstance(answer, str):
            found.unread[kind] = answer
            continue
        found.kinds |= {kind}
        version = f"{resource.group}/{resource.version}".lstrip("/")
        found.things += (
            Thing(body | {"apiVersion": version, "kind": kind}, client.cluster, raw=body)
            for body in answer
        )
    return found


async def _list(client: KubeClient, resource: Resource) -> list[Json] | str:
    try:
        return (await client.list(resource)).items
    except (Forbidden, NotFound) as error:
        return error.message
