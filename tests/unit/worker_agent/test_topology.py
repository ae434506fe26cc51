"""Jobs on nodes that are arranged in a topology: places, gates, and nodes that are lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.topology import HOSTNAME
from federation.edge.resources import NODES, PODS, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS
from federation.jobs.eviction_note import read_eviction
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker, custom, job

RACK = "rack"
REQUIRED = {"kueue.x-k8s.io/podset-required-topology": RACK}
PREFERRED = {"kueue.x-k8s.io/podset-preferred-topology": RACK}
ONE_HOST = {"kueue.x-k8s.io/podset-required-topology": HOSTNAME}
GATE = {"name": "kueue.x-k8s.io/topology"}


class Racks(Worker):
    """Two racks of two nodes with two gpus each."""

    def __init__(self, racks: int = 2, **spec: Any) -> None:
        super().__init__(100, **spec)
        levels = [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]
        self.fake.create(TOPOLOGIES, custom("Topology", "racks", {"levels": levels}))
        self.fake.merge(RESOURCE_FLAVORS, "f", {"spec": {"topologyName": "racks"}})
        for rack in range(racks):
            for index in range(2):
                self.node(f"r{rack}n{index}", f"r{rack}")

    def node(self, name: str, rack: str, gpus: int = 2) -> None:
        labels = {HOSTNAME: name, RACK: rack, "card": "a100"}
        self.fake.create(NODES, {"metadata": {"name": name, "labels": labels}})
        status = {"allocatable": {"gpu": str(gpus), "pods": "50"}}
        self.fake.merge(NODES, name, {"status": status}, status=True)
        self.ready(name, True)

    def ready(self, name: str, value: bool) -> None:
        status = {"conditions": [{"type": "Ready", "status": str(value)}]}
        self.fake.merge(NODES, name, {"status": status}, status=True)

    def make_pods(self, name: str, *ranks: int) -> None:
        """What the Job controller does once a Job is started."""
        parallelism = self.get(name)["spec"]["parallelism"]
        for number in ranks or range(parallelism):
            rank = {"batch.kubernetes.io/job-completion-index": str(number)} if ranks else {}
            self.make_pod(name, rank)
        self.run_pods(name, parallelism)

    def make_pod(self, name: str, labels: Any = None) -> None:
        body = self.get(name)
        template = body["spec"]["template"]
        owner = {"kind": "Job", "uid": body["metadata"]["uid"], "controller": True}
        meta = {
            "generateName": f"{name}-",
            "namespace": "team",
            "labels": {**template["metadata"].get("labels", {}), **(labels or {})},
            "ownerReferences": [owner],
        }
        self.fake.create(PODS, {"metadata": meta, "spec": template["spec"]})

    def pods(self, name: str) -> list[Any]:
        uid = self.get(name)["metadata"]["uid"]
        return [p for p in self.fake.items(PODS)
                if p["metadata"].get("ownerReferences", [{}])[0].get("uid") == uid]  # fmt: skip

    def schedule(self, name: str) -> None:
        """kube-scheduler: pods without a gate go to the node that they select."""
        for pod in self.pods(name):
            if not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName"):
                node = {"spec": {"nodeName": pod["spec"]["nodeSelector"][HOSTNAME]}}
                self.fake.merge(PODS, pod["metadata"]["name"], node, "team")

    def let_go(self, name: str) -> bool:
        return not any(pod["spec"].get("schedulingGates") for pod in self.pods(name))

    def hosts(self, name: str) -> Counter[str]:
        return Counter(pod["spec"].get("nodeSelector", {}).get(HOSTNAME) for pod in self.pods(name))

    def why(self, name: str) -> str:
        return str(self.agent.waits.get(self.get(name)["metadata"]["uid"], ""))


def placed(name: str, pods: int, asks: dict[str, str], gpus: int = 1) -> Any:
    body = job(name, gpus)
    body["spec"] |= {"parallelism": pods, "completions": pods}
    body["spec"]["template"]["metadata"] = {"annotations": asks}
    return body


async def test_pods_are_let_go_to_their_domains() -> None:
    """Gated by the template, then one write for each pod; a second Job gets the other rack."""
    worker = Racks()
    async with worker.running():
        worker.add(placed("a", 3, REQUIRED))
        await until(lambda: worker.started("a"))
        assert worker.get("a")["spec"]["template"]["spec"]["schedulingGates"] == [GATE]
        worker.make_pods("a")
        before = worker.writes(what="/pods/")
        await until(lambda: worker.let_go("a"))
        assert worker.hosts("a") == {"r0n0": 2, "r0n1": 1}
        assert worker.writes(what="/pods/") == before + 3
        worker.add(placed("b", 4, REQUIRED))
        await until(lambda: worker.started("b"))
        worker.make_pods("b")
        await until(lambda: worker.let_go("b"))
        assert worker.hosts("b") == {"r1n0": 2, "r1n1": 2}
        worker.add(placed("c", 2, REQUIRED))
        await until(lambda: "allows to fit only 1 out of 2 pod(s)" in worker.why("c"))
        worker.end("b")
        await until(lambda: worker.started("c"))


async def test_pods_that_come_one_by_one_and_by_rank() -> None:
    """Each rank to its place, whenever its pod appears, also with another agent."""
    worker = Racks()
    async with worker.running():
        worker.add(placed("a", 4, REQUIRED))
        await until(lambda: worker.started("a"))
        worker.make_pods("a", 3, 0)
        await until(lambda: worker.let_go("a"))
        assert sum(worker.hosts("a").values()) == 2
    async with worker.running():
        worker.make_pods("a", 2, 1)
        await until(lambda: worker.let_go("a"))
    ranks = {
        int(p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): p
        for p in worker.pods("a")
    }
    hosts = [ranks[rank]["spec"]["nodeSelector"][HOSTNAME] for rank in range(4)]
    assert hosts == ["r0n0", "r0n0", "r0n1", "r0n1"]


async def test_places_in_the_workload() -> None:
    """In the compressed form, and written again when they change."""
    worker = Racks()
    async with worker.running():
        task = asyncio.create_task(worker.workloads.run())
        try:
            await running(worker, placed("a", 3, PREFERRED))
            await until(lambda: places(worker) == [{
                "levels": [HOSTNAME],
                "slices": [{
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"roots": ["r0n0", "r0n1"]}}],
                    "podCounts": {"individual": [2, 1]},
                }],
            }])  # fmt: skip
            worker.fake.delete(NODES, "r0n1")
            await until(lambda: "r1n" in str(places(worker)))
        finally:
            await stop([task])


def places(worker: Racks) -> list[Any]:
    return [
        pods.get("topologyAssignment")
        for workload in worker.fake.items(WORKLOADS)
        for pods in workload.get("status", {}).get("admission", {}).get("podSetAssignments", ())
    ]


async def test_one_domain_is_named_in_the_template() -> None:
    """No gate, no writes to pods."""
    worker = Racks()
    async with worker.running():
        worker.add(placed("a", 2, ONE_HOST))
        await until(lambda: worker.started("a"))
        template = worker.get("a")["spec"]["template"]["spec"]
        assert template["nodeSelector"] == {"card": "a100", HOSTNAME: "r0n0"}
        assert not template.get("schedulingGates")


async def test_pods_of_others_take_room() -> None:
    """Counted from when they are bound until they have ended."""
    worker = Racks(1)
    async with worker.running():
        container = {"name": "c", "resources": {"requests": {"gpu": "1"}}}
        spec = {"nodeName": "r0n0", "containers": [container]}
        worker.fake.create(PODS, {"metadata": {"name": "x", "namespace": "team"}, "spec": spec})
        worker.add(placed("a", 4, REQUIRED))
        await until(lambda: "TopologyPlacementFailed" in worker.why("a"))
        worker.fake.merge(PODS, "x", {"status": {"phase": "Succeeded"}}, "team", status=True)
        await until(lambda: worker.started("a"))


async def test_a_topology_that_is_missing_or_appears() -> None:
    """The queue is inactive, and says why; more nodes let in what waits."""
    worker = Racks(1)
    body = worker.fake.get(TOPOLOGIES, "racks")
    worker.fake.delete(TOPOLOGIES, "racks")
    async with worker.running():
        worker.add(placed("a", 4, REQUIRED))
        worker.add(placed("b", 4, REQUIRED))
        await until(lambda: "Topology racks of ResourceFlavor f does not exist" in worker.why("a"))
        assert not worker.agent.active("cq")
        worker.fake.create(TOPOLOGIES, body)
        await until(lambda: worker.started("a") or worker.started("b"))
        assert worker.agent.active("cq")
        await worker.at_rest()
        assert not (worker.started("a") and worker.started("b"))
        worker.node("r1n0", "r1")
        worker.node("r1n1", "r1")
        await until(lambda: worker.started("a") and worker.started("b"))


async def test_without_topologies_no_pod_is_watched() -> None:
    """Memory and watches are spent only where a flavor asks for them."""
    worker = Worker()
    async with worker.running():
        worker.add(job("a"))
        await until(lambda: worker.started("a"))
    assert not any("/pods" in path or "/nodes" in path for _, path in worker.fake.log)


async def running(worker: Racks, body: Any) -> str:
    name = str(body["metadata"]["name"])
    worker.add(body)
    await until(lambda: worker.started(name))
    worker.make_pods(name)
    await until(lambda: worker.let_go(name))
    worker.schedule(name)
    await worker.at_rest()
    return name


async def test_a_node_that_vanishes_is_replaced() -> None:
    """The Job goes on; only pods that come anew go to the new place."""
    worker = Racks()
    async with worker.running():
        await running(worker, placed("a", 3, PREFERRED))
        assert worker.hosts("a") == {"r0n0": 2, "r0n1": 1}
        worker.fake.delete(NODES, "r0n1")
        await until(lambda: "r1n" in worker.note_of("a", Mirror.ADMISSION))
        (lost,) = (p for p in worker.pods("a") if p["spec"]["nodeName"] == "r0n1")
        worker.fake.delete(PODS, lost["metadata"]["name"], "team")
        worker.make_pod("a")
        await until(lambda: worker.let_go("a"))
        assert worker.hosts("a") in ({"r0n0": 2, "r1n0": 1}, {"r0n0": 2, "r1n1": 1})
        assert worker.started("a")
        assert read_eviction(worker.get("a")) is None


async def test_a_node_that_vanishes_without_a_replacement() -> None:
    """Required in one rack that has no other node: evicted, and started elsewhere."""
    worker = Racks()
    async with worker.running():
        await running(worker, placed("a", 4, REQUIRED))
        worker.fake.delete(NODES, "r0n1")
        await until(lambda: not worker.started("a"))
        eviction = read_eviction(worker.get("a"))
        assert eviction is not None
        assert eviction.reason == "NodeFailures"
        assert "r0n1" in eviction.message
        for pod in worker.pods("a"):
            worker.fake.delete(PODS, pod["metadata"]["name"], "team")
        worker.stopping("a", 0)
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: worker.let_go("a"))
        assert worker.hosts("a") == {"r1n0": 2, "r1n1": 2}


@pytest.mark.parametrize("deserted", [False, True])
async def test_a_node_that_is_not_ready(deserted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given time to come back, unless the pods on it are being deleted already."""
    monkeypatch.setattr("worker_agent.failures.UNREADY_S", 1000.0 if deserted else 0.3)
    worker = Racks()
    async with worker.running():
        await running(worker, placed("a", 4, REQUIRED))
        worker.ready("r0n0", False)
        await worker.at_rest()
        assert worker.started("a")
        if deserted:
            for pod in worker.pods("a"):
                if pod["spec"]["nodeName"] == "r0n0":
                    worker.fake.delete(PODS, pod["metadata"]["name"], "team")
        await until(lambda: not worker.started("a"))


async def test_a_node_that_comes_back_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing happens."""
    monkeypatch.setattr("worker_agent.failures.UNREADY_S", 0.2)
    worker = Racks()
    async with worker.running() as agent:
        await running(worker, placed("a", 4, REQUIRED))
        worker.ready("r0n0", False)
        await until(lambda: agent._repair_at is not None)
        worker.ready("r0n0", True)
        await until(lambda: agent._repair_at is None)
        assert worker.started("a")


async def test_an_agent_that_starts_after_a_node_was_lost() -> None:
    """It finds out from the Job's own record."""
    worker = Racks()
    async with worker.running():
        await running(worker, placed("a", 4, REQUIRED))
    worker.fake.delete(NODES, "r0n0")
    async with worker.running():
        await until(lambda: not worker.started("a"))


@pytest.mark.parametrize("how", ["drop", "lost", "status"])
async def test_a_pod_that_cannot_be_written(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again; no place is given twice."""
    monkeypatch.setattr("worker_agent.gates.RETRY_S", 0.001)
    worker = Racks()
    async with worker.running():
        worker.add(placed("a", 4, REQUIRED))
        await until(lambda: worker.started("a"))
        worker.fake.fail(lambda r: r.method == "PATCH" and "/pods/" in r.url.path, how=how, times=3)
        worker.make_pods("a")
        await until(lambda: worker.let_go("a"))
        assert worker.hosts("a") == {"r0n0": 2, "r0n1": 2}
