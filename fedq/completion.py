"""Names for shell completion: quick, and silent when the cluster does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import io
from pathlib import Path

import typer

from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    WORKLOADS,
    Resource,
)
from fedq import connect
from fedq.connect import Cluster

LIMIT_S = 1.5
"""Seconds after which a person would rather type the name."""


def job_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Jobs in the namespace of the command line."""
    return _names(ctx, JOBS, incomplete)


def workload_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of Workloads in the namespace of the command line."""
    return _names(ctx, WORKLOADS, incomplete)


def queue_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of ClusterQueues."""
    return _names(ctx, CLUSTER_QUEUES, incomplete)


def cluster_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of worker clusters."""
    return _names(ctx, MULTIKUEUE_CLUSTERS, incomplete)


def _names(ctx: typer.Context, resource: Resource, incomplete: str) -> list[str]:
    given = ctx.params
    kubeconfig = given.get("kubeconfig")

    async def listed(cluster: Cluster) -> list[str]:
        namespace = (given.get("namespace") or cluster.namespace) if resource.namespaced else None
        async with asyncio.timeout(LIMIT_S):
            page = await cluster.client.list(resource, namespace)
        names = (str(obj["metadata"]["name"]) for obj in page.items)
        return sorted(name for name in names if name.startswith(incomplete))

    # Whatever goes wrong here must not be seen in the middle of a command line.
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception):
        path = Path(kubeconfig) if kubeconfig else None
        return connect.run(connect.choose(path, given.get("context")), listed)
    return []
