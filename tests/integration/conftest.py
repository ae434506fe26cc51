"""Fedq on the session's rig: installed and started once, with a fresh queue for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from federation.api.names import FEDQ_NAMESPACE, Lease, Mirror
from federation.core.failover import DEFAULT
from fedq.rig.rig import Rig
from fedq.stack import Stack

Json = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="session")
def agents(rig: Rig) -> Iterator[Stack]:
    """The bases on the session's rig, and the agents of its workers: all that a worker needs."""
    found = Stack(rig)
    found.install()
    for cluster in rig.clusters:
        found.apply(cluster, [flavor()])
    found.apply(rig.management, [lease(worker) for worker in rig.workers])
    for worker in rig.workers:
        found.start_agent(worker)
    try:
        yield found
    finally:
        found.stop()


@contextmanager
def own_rig(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A rig for the tests of one module; kept where that of the session is."""
    kept = os.environ.get("FEDQ_TEST_RIG_HOME")
    found = Rig.load(Path(f"{kept}-{name}") if kept else tmp_path_factory.mktemp(name))
    try:
        yield found
    finally:
        if not kept:
            found.down()


@pytest.fixture(scope="session")
def stack(agents: Stack) -> Stack:
    """Redis and the manager with Ray actors beside them."""
    agents.start()
    return agents


def lease(cluster: str) -> Json:
    """The Lease of a cluster as a manager makes it: without one an agent starts no copy."""
    notes = {
        Mirror.EPOCH.value: "1",
        Lease.RENEW_SECONDS.value: f"{DEFAULT.renew:g}",
        Lease.KILL_SECONDS.value: f"{DEFAULT.kill:g}",
    }
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": cluster, "namespace": FEDQ_NAMESPACE, "annotations": notes},
        "spec": {"leaseDurationSeconds": int(DEFAULT.lease)},
    }


@dataclass
class Team:
    """A namespace with one LocalQueue and one ClusterQueue of its own, on all clusters."""

    stack: Stack
    name: str

    def job(self, name: str, *, seconds: float = 1.0, cpu: str = "1", pods: int = 1) -> Json:
        """A Job in this team's queue."""
        container = {
            "name": "main",
            "image": "example.invalid/none",
            "resources": {"requests": {"cpu": cpu}},
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": self.name,
                "labels": {"kueue.x-k8s.io/queue-name": self.name},
            },
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "backoffLimit": 0,
                "template": {
                    "metadata": {"annotations": {"fedq.io/run-seconds": str(seconds)}},
                    "spec": {"restartPolicy": "Never", "containers": [container]},
                },
            },
        }


def flavor(name: str = "default") -> Json:
    """A ResourceFlavor that any node matches."""
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}}


def queue_objects(team: str, cpu: int) -> list[Json]:
    """Namespace, ClusterQueue with `cpu` cores, and LocalQueue, all called `team`."""
    quota = {"name": "cpu", "nominalQuota": cpu}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
        {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": team},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": team, "namespace": team},
            "spec": {"clusterQueue": team},
        },
    ]


@pytest.fixture
def team(stack: Stack) -> Team:
    """A team with 20 cores on each worker and 40 on the management cluster."""
    name = f"team-{uuid.uuid4().hex[:6]}"
    for cluster in stack.rig.clusters:
        stack.apply(cluster, queue_objects(name, 40 if cluster == stack.rig.management else 20))
    return Team(stack, name)
