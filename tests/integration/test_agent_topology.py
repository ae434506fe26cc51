"""Topology-aware scheduling on a real worker cluster: where pods run, and what lost nodes do."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.edge.errors import NotFound
from federation.edge.resources import JOBS, NODES, PODS
from federation.jobs.eviction_note import read_eviction
from fedq.stack import Stack
from tests.integration.agents import Place, is_true, place, running
from tests.integration.conftest import API

pytestmark = pytest.mark.timeout(120)

RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"


class Racks:
    """Three racks of two nodes with four cores each, for one test alone."""

    def __init__(self, agents: Stack, cluster: str = "worker-1") -> None:
        self.id = uuid.uuid4().hex[:6]
        self.nodes = [self._node(rack, index) for rack in range(3) for index in range(2)]
        self.flavor = f"racks-{self.id}"
        label = {"example.com/racks": self.id}
        levels = [{"nodeLabel": RACK}, {"nodeLabel": HOST}]
        objects = [
            {"kind": "Topology", "spec": {"levels": levels}},
            {"kind": "ResourceFlavor", "spec": {"nodeLabels": label, "topologyName": self.flavor}},
        ]
        meta = {"apiVersion": API, "metadata": {"name": self.flavor}}
        agents.apply(cluster, [*self.nodes, *(meta | o for o in objects)])
        quotas = {"name": self.flavor, "resources": [{"name": "cpu", "nominalQuota": 24}]}
        group = {"coveredResources": ["cpu"], "flavors": [quotas]}
        self.place = place(agents, 0, worker=cluster, resourceGroups=[group])

    def _node(self, rack: int, index: int) -> Any:
        name = f"rack{rack}-{index}-{self.id}"
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    HOST: name,
                    RACK: f"rack{rack}-{self.id}",
                    "example.com/racks": self.id,
                    "type": "kwok",
                },
            },
            "status": {
                "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "50"},
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "50"},
            },
        }


@pytest.fixture
async def racks(agents: Stack) -> AsyncIterator[Racks]:
    found = Racks(agents)
    async with found.place.client:
        try:
            yield found
        finally:
            for node in found.nodes:
                with suppress(NotFound):
                    await found.place.client.delete(NODES, node["metadata"]["name"])


def asks(mode: str, level: str) -> dict[str, str]:
    return {f"kueue.x-k8s.io/podset-{mode}-topology": level}


async def nodes_of(where: Place, job: str, pods: int, without: str = "") -> Counter[str]:
    """Which nodes the pods of a Job run on, when so many run that are not being deleted, none of
    them on `without`.
    """

    def nodes(found: list[Any]) -> Counter[str]:
        stay = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
        return Counter(p["spec"]["nodeName"] for p in stay if p["status"]["phase"] == "Running")

    found = await where.until_pods(
        job, lambda found: nodes(found).total() == pods and without not in nodes(found)
    )
    return nodes(found)


def racks_of(nodes: Counter[str]) -> set[str]:
    return {name.partition("-")[0] for name in nodes}


async def test_required_and_what_others_leave(racks: Racks) -> None:
    """Each Job in one rack; the third has none for itself left, and waits with the reason."""
    where = racks.place
    for name in ("a", "b"):
        await where.submit(where.job(name, pods=6, template=asks("required", RACK)))
    first, second = await nodes_of(where, "a", 6), await nodes_of(where, "b", 6)
    assert len(racks_of(first)) == len(racks_of(second)) == 1
    assert racks_of(first) != racks_of(second)
    assert sorted(first.values()) == [2, 4]
    workload = await where.workload("a", is_true("Admitted"))
    (pods,) = workload["status"]["admission"]["podSetAssignments"]
    (piece,) = pods["topologyAssignment"]["slices"]
    assert dict(zip(
        piece["valuesPerLevel"][0]["individual"]["roots"],
        piece["podCounts"]["individual"],
        strict=True,
    )) == first  # fmt: skip

    await where.submit(where.job("c", pods=8, template=asks("required", RACK), seconds=2))
    assert len(racks_of(await nodes_of(where, "c", 8))) == 1
    await where.submit(where.job("d", pods=9, template=asks("required", RACK)))
    await where.workload("d", is_true("QuotaReserved", "TopologyPlacementFailed", "False"))


async def test_ranks_are_neighbours_and_one_node_is_named_in_the_template(racks: Racks) -> None:
    """An Indexed Job over two nodes in order of rank; a small one is not gated at all."""
    where = racks.place
    body = where.job("ranks", pods=8, mode="Indexed", template=asks("preferred", RACK))
    await where.submit(body)
    await nodes_of(where, "ranks", 8)
    by_rank = {
        int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod
        for pod in await where.pods("ranks")
    }
    nodes = [by_rank[rank]["spec"]["nodeName"] for rank in range(8)]
    assert nodes == sorted(nodes)
    assert len(set(nodes)) == 2
    await where.submit(where.job("small", pods=2, template=asks("required", HOST)))
    assert len(await nodes_of(where, "small", 2)) == 1
    job = await where.client.get(JOBS, "small", where.name)
    assert "schedulingGates" not in job["spec"]["template"]["spec"]


async def test_pods_of_others_count(racks: Racks) -> None:
    """A pod that nobody queued takes three cores of a node: no rack has room for eight."""
    where = racks.place
    for node in racks.nodes[::2]:
        pod = {
            "metadata": {"name": node["metadata"]["name"], "namespace": where.name},
            "spec": {
                "nodeName": node["metadata"]["name"],
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
                ],
            },
        }
        await where.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
    for node in racks.nodes[::2]:
        name = node["metadata"]["name"]
        await where.until(name, lambda pod: pod["status"]["phase"] == "Running", PODS)
    await where.submit(where.job("wide", pods=6, template=asks("required", RACK)))
    await where.workload("wide", is_true("QuotaReserved", "TopologyPlacementFailed", "False"))
    await where.client.delete(PODS, racks.nodes[0]["metadata"]["name"], where.name)
    assert racks_of(await nodes_of(where, "wide", 6)) == {"rack0"}


async def test_a_node_that_is_deleted_is_replaced(racks: Racks) -> None:
    """Its pods come back on another node of the rack; the others stay where they are."""
    where = racks.place
    await where.submit(where.job("wide", pods=5, retries=6, template=asks("preferred", RACK)))
    before = await nodes_of(where, "wide", 5)
    assert len(before) == 2
    lost = min(before, key=lambda name: before[name])
    await where.client.delete(NODES, lost)
    moved = await where.until("wide", lambda job: lost not in note(job))
    assert not moved["spec"]["suspend"]
    for pod in await where.pods("wide"):
        if pod["spec"]["nodeName"] == lost:
            await where.client.delete(PODS, pod["metadata"]["name"], where.name)
    after = await nodes_of(where, "wide", 5, without=lost)
    assert set(before) - {lost} <= set(after)


async def test_a_lost_node_without_a_replacement_evicts(racks: Racks, agents: Stack) -> None:
    """Required in one rack, and the rack has no other node: NodeFailures, and it starts anew."""
    where = racks.place
    await where.submit(where.job("wide", pods=8, template=asks("required", RACK)))
    before = await nodes_of(where, "wide", 8)
    await where.client.delete(NODES, min(before))
    evicted = await where.until("wide", lambda job: job["spec"]["suspend"])
    eviction = read_eviction(evicted)
    assert eviction is not None
    assert eviction.reason == "NodeFailures"
    assert min(before) in eviction.message
    # What the garbage collection of pods does about a minute later:
    agents.rig.kubectl(
        "worker-1", "delete", "pod", "-n", where.name, "-l", "job-name=wide", "--force",
        "--grace-period=0", "--wait=false",
    )  # fmt: skip
    await where.until("wide", lambda job: running(job) and not read_eviction(job))
    after = await nodes_of(where, "wide", 8)
    assert racks_of(after).isdisjoint(racks_of(before))


async def test_an_agent_that_restarts_lets_pods_go(racks: Racks, agents: Stack) -> None:
    """The assignment is on the Job: the next agent knows where the gated pods go."""
    where = racks.place
    agents.rig.stop_process("agent/worker-1", grace=0)
    await where.submit(where.job("wide", pods=8, template=asks("required", RACK)))
    agents.start_agent("worker-1")
    await where.until("wide", lambda job: not job["spec"]["suspend"])
    agents.rig.stop_process("agent/worker-1", grace=0)
    agents.start_agent("worker-1")
    assert len(racks_of(await nodes_of(where, "wide", 8))) == 1


def note(job: Any) -> str:
    return str((job["metadata"].get("annotations") or {}).get(Mirror.ADMISSION.value, ""))
