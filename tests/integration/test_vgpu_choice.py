"""Where a Job with cards goes: to the cluster whose cards take all of its pods, at the first offer.

Quota is the same everywhere and there is plenty of it: what is told of free cards decides.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import JOBS, WORKER_REPORTS, WORKLOADS, Resource
from fedq.stack import Stack
from tests.integration.test_vgpu import KINDS, Fleet, fleet

__all__ = ["fleet"]

Json = dict[str, Any]
Clients = dict[str, KubeClient]


@pytest.fixture
async def clients(stack: Stack) -> AsyncIterator[Clients]:
    """One for each cluster."""
    async with AsyncExitStack() as opened:
        yield {
            cluster: await opened.enter_async_context(
                KubeClient(load_endpoint(stack.rig.kubeconfig(cluster)), user_agent="test")
            )
            for cluster in stack.rig.clusters
        }


async def until(
    client: KubeClient, resource: Resource, holds: Callable[[Json], object], namespace: str = ""
) -> Json:
    """Watch until something holds for one of the objects."""
    while True:
        async with aclosing(client.watch(resource, namespace or None)) as events:
            async for event in events:
                if event.type in {"ADDED", "MODIFIED"} and holds(event.object):
                    return event.object


def of(name: str, holds: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda obj: name in obj["metadata"]["name"] and holds(obj)


def binding(workload: Json) -> Json:
    found: Json = (workload.get("status") or {}).get("fedq") or {}
    return found


def told(report: Json, free: str) -> int:
    """How many cards are told to have so much free."""
    placement = (report.get("status") or {}).get("placement") or {}
    return sum(
        one.get("count", 1) * int(found or 1)
        for one in placement.get("classes", ())
        for found in re.findall(rf"(?:(\d+)\*)?\d+(?:@\d+)?:{free}(?= |$)", one["cards"])
    )


async def fedq(stack: Stack, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("fedq")), *arguments),
        env={**os.environ, "FEDQ_RIG_HOME": str(stack.rig.home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return " ".join(out.decode().split())


@pytest.mark.timeout(180)
async def test_a_gang_goes_where_its_cards_are(
    fleet: Fleet, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large cards of the first worker are in use; then those of the second are as well."""
    monkeypatch.setitem(KINDS, "large", ({"gpu": 1, "gpumem": 30_000}, {}))
    monkeypatch.setitem(KINDS, "larger", ({"gpu": 1, "gpumem": 36_000}, {}))
    rig, space = fleet.stack.rig, fleet.name
    first, second = rig.workers[:2]
    management = clients[rig.management]
    local = fleet.job("local", "large", 4, 600)
    await clients[first].create(JOBS, {**local, "spec": {**local["spec"], "suspend": True}})
    await until(clients[first], WORKER_REPORTS, lambda r: told(r, "10960/100/3") == 4)

    await management.create(JOBS, fleet.job("fits", "larger", 3, 600))
    # Not the first attempt if the manager has yet to read the report: then the agent refuses it.
    await until(
        management, WORKLOADS, of("fits", lambda w: binding(w).get("cluster") == second), space
    )
    await until(
        management, JOBS, of("fits", lambda j: (j.get("status") or {}).get("active") == 3), space
    )
    await until(clients[second], WORKER_REPORTS, lambda r: told(r, "4960/100/3") == 3)

    await management.create(JOBS, fleet.job("waits", "larger", 2, 600))
    waiting = await until(
        management, WORKLOADS, of("waits", lambda w: "waiting" in binding(w)), space
    )
    (condition,) = [c for c in waiting["status"]["conditions"] if c["type"] == "QuotaReserved"]
    assert f"{first}: fits on no card: largest free slice 24,564 MiB" in condition["message"]
    assert f"{second}: of 2 pods 1 find cards at the same time" in condition["message"]
    assert binding(waiting).get("attempt", 0) == 0  # nobody was asked in vain

    said = await fedq(fleet.stack, "why", "waits", "-n", space)
    assert f"It would fit if pod {space}/fits-" in said or f"if pod {space}/local-" in said
    cards = await fedq(fleet.stack, "gpus")
    assert cards.count(f"{space}/local-") == 4
    assert cards.count(f"{space}/fits-") == 3
    assert "30,000/40,960 MiB" in cards
    assert "36,000/40,960 MiB" in cards
