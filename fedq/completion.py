"""Names for shell completion: quick, and silent when the cluster does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from federation.edge.resources import (
    CLUSTER_QUEUES,
    MULTIKUEUE_CLUSTERS,
    WORKLOADS,
    Resource,
)
from fedq import connect
from fedq.connect import Cluster
from fedq.objects import all_objects
from fedq.refs import shown

LIMIT_S = 1.5
"""Seconds after which a person would rather type the name."""


def job_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Jobs of all kinds in the namespace of the command line, as commands take them."""

    async def listed(cluster: Cluster) -> list[str]:
        namespace = ctx.params.get("namespace") or cluster.namespace
        found = await all_objects(cluster.client, namespace)
        return [shown(one.kind, one.body["metadata"]["name"]) for one in found]

    return _quick(ctx, listed, incomplete)


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
    async def listed(cluster: Cluster) -> list[str]:
        space = ctx.params.get("namespace") or cluster.namespace
        page = await cluster.client.list(resource, space if resource.namespaced else None)
        return [str(obj["metadata"]["name"]) for obj in page.items]

    return _quick(ctx, listed, incomplete)


def _quick(
    ctx: typer.Context, read: Callable[[Cluster], Awaitable[list[str]]], incomplete: str
) -> list[str]:
    async def names(cluster: Cluster) -> list[str]:
        async with asyncio.timeout(LIMIT_S):
            return sorted(name for name in await read(cluster) if name.startswith(incomplete))

    # Whatever goes wrong here must not be seen in the middle of a command line.
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception):
        kubeconfig = ctx.params.get("kubeconfig")
        path = Path(kubeconfig) if kubeconfig else None
        return connect.run(connect.choose(path, ctx.params.get("context")), names)
    return []


JobArgument = Annotated[
    str, typer.Argument(help="Name of the job: NAME or KIND/NAME.", autocompletion=job_names)
]
