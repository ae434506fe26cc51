"""Jobs that ask for cards: seats before the start, pins, and what a restart finds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from federation.api.names import Mirror, Pin
from federation.core.devices.ledger.holding import Replica
from federation.core.topology import HOSTNAME
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    WORKER_REPORTS,
)
from federation.jobs.eviction_note import Eviction
from fedq.rig.gpus import REGISTER, cards
from tests.reference.card_watch import CardWatch
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent import support
from tests.unit.worker_agent.support import Worker, job
from worker_agent import device_binding, displaced
from worker_agent.agent import Agent
from worker_agent.binder import Binder
from worker_agent.report import Reporter

GATE = {"name": "fedq.io/devices"}
USE = "nvidia.com/use-gpuuuid"
ALLOCATED = "hami.io/vgpu-devices-allocated"
RANK = "batch.kubernetes.io/job-completion-index"


class Cards(Worker):
    """Nodes with cards of 40960 MiB; the queue has quota for all."""

    def __init__(self, nodes: int = 1, of: int = 2, binder: Binder = Binder.HAMI) -> None:
        super().__init__(1000)
        self.settings = replace(self.settings, binder=binder)
        for index in range(nodes):
            self.node(f"n{index}", of)

    def node(self, name: str, count: int = 2, **labels: str) -> None:
        labels = {HOSTNAME: name, "card": "a100", **labels}
        notes = {REGISTER: json.dumps(cards(name, count))}
        meta = {"name": name, "labels": labels, "annotations": notes}
        self.fake.create(NODES, {"metadata": meta})
        amounts = {"cpu": "16", "pods": "50", "nvidia.com/gpu": str(10 * count)}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        self.fake.merge(NODES, name, {"status": status}, status=True)

    def why(self, name: str) -> str:
        return str(self.agent.waits.get(self.get(name)["metadata"]["uid"], ""))

    def template(self, name: str) -> Any:
        return self.get(name)["spec"]["template"]

    def make_pods(self, name: str, count: int = 0, rank: str = "") -> None:
        """What the Job controller does once a Job is started."""
        body = self.get(name)
        parallelism = body["spec"].get("parallelism", 1)
        for _ in range(count or parallelism):
            template = body["spec"]["template"]
            owner = {"kind": "Job", "uid": body["metadata"]["uid"], "controller": True}
            meta = {
                "generateName": f"{name}-",
                "namespace": "team",
                "annotations": {
                    **(template.get("metadata") or {}).get("annotations", {}),
                    **({RANK: rank} if rank else {}),
                },
                "ownerReferences": [owner],
            }
            self.fake.create(PODS, {"metadata": meta, "spec": template["spec"]})
        self.run_pods(name, parallelism)

    def pods(self, name: str) -> list[Any]:
        uid = self.get(name)["metadata"]["uid"]
        return [p for p in self.fake.items(PODS)
                if p["metadata"].get("ownerReferences", [{}])[0].get("uid") == uid]  # fmt: skip

    def seated(self, name: str) -> bool:
        pods = self.pods(name)
        return bool(pods) and not any(pod["spec"].get("schedulingGates") for pod in pods)

    def pod_ends(self, pod: Any, phase: str = "Succeeded") -> None:
        self.fake.merge(
            PODS, pod["metadata"]["name"], {"status": {"phase": phase}}, "team", status=True
        )

    def bind(self, pod: Any, *, run: bool = True) -> None:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeSelector"][HOSTNAME]
        self.fake.merge(PODS, name, {"spec": {"nodeName": node}}, "team")
        if run:
            self.pod_ends(pod, "Running")


def asks(name: str, pods: int = 1, notes: Any = None, cpu: str = "", **limits: int) -> Any:
    """A Job whose pods ask for `gpu`, `gpumem`, `gpucores`."""
    body = job(name, 0)
    body["spec"] |= {"parallelism": pods, "completions": pods}
    template = body["spec"]["template"]
    template["metadata"] = {"annotations": notes or {}}
    amounts = {f"nvidia.com/{key}": str(value) for key, value in limits.items()}
    resources = {"limits": amounts, "requests": amounts | ({"cpu": cpu} if cpu else {})}
    template["spec"]["containers"][0]["resources"] = resources
    return body


@pytest.fixture(autouse=True)
def _any_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue covers everything that these Jobs ask for."""
    names = ["gpu", "cpu", "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"]
    names += ["nvidia.com/total-gpumem", "nvidia.com/total-gpucores"]

    def queue_objects(fake: Any, nominal: int = 4, **spec: Any) -> None:
        quotas = [{"name": name, "nominalQuota": nominal * 10**6} for name in names]
        group = {
            "coveredResources": names,
            "flavors": [{"name": "f", "resources": quotas}],
        }
        original(fake, nominal, resourceGroups=[group], **spec)

    original = support.queue_objects
    monkeypatch.setattr(support, "queue_objects", queue_objects)


async def test_one_pod_is_pinned_in_the_template() -> None:
    """Node and card in the patch that starts it; the plan is noted; no pod needs a write."""
    worker = Cards()
    async with worker.running():
        worker.add(asks("a", gpu=1, gpumem=10000, gpucores=30))
        await until(lambda: worker.started("a"))
        template = worker.template("a")
        assert template["spec"]["nodeSelector"] == {HOSTNAME: "n0", "card": "a100"}
        assert template["metadata"]["annotations"] == {USE: "GPU-n0-0"}
        assert "schedulingGates" not in template["spec"]
        assert Pin.DEVICES.value in worker.get("a")["metadata"]["annotations"]
        before = worker.writes(what="/pods/")
        worker.make_pods("a")
        await worker.at_rest()
        assert worker.writes(what="/pods/") == before


async def test_a_gang_is_gated_and_each_pod_gets_its_own_cards() -> None:
    worker = Cards(nodes=2, of=2)
    async with worker.running():
        worker.add(asks("a", pods=4, gpu=1))
        await until(lambda: worker.started("a"))
        assert worker.template("a")["spec"]["schedulingGates"] == [GATE]
        worker.make_pods("a")
        before = worker.writes(what="/pods/")
        await until(lambda: worker.seated("a"))
        assert worker.writes(what="/pods/") == before + 4
        places = {
            (pod["spec"]["nodeSelector"][HOSTNAME], pod["metadata"]["annotations"][USE])
            for pod in worker.pods("a")
        }
        assert places == {(n, f"GPU-{n}-{i}") for n in ("n0", "n1") for i in (0, 1)}


async def test_it_waits_with_numbers_and_is_looked_at_when_something_is_free() -> None:
    worker = Cards(of=1)
    async with worker.running():
        worker.add(asks("a", gpu=1, gpumem=30000))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        worker.add(asks("b", gpu=1, gpumem=20000))
        await until(lambda: "fits on no card" in worker.why("b"))
        assert "largest free slice 10,960 MiB on n0/GPU-n0-0" in worker.why("b")
        (pod,) = worker.pods("a")
        worker.pod_ends(pod)
        worker.end("a")
        await until(lambda: worker.started("b"))


async def test_a_new_node_and_a_card_that_is_sound_again() -> None:
    worker = Cards(nodes=0)
    worker.node("n0", 1)
    async with worker.running():
        worker.add(asks("a", gpu=1), asks("b", gpu=1))
        await until(lambda: worker.started("a") or worker.started("b"))
        await until(lambda: "fits on no card" in worker.why("a") + worker.why("b"))
        worker.node("n1", 1)
        await until(lambda: worker.started("a") and worker.started("b"))


async def test_cpu_of_the_node_counts_with_the_cards() -> None:
    worker = Cards(nodes=1, of=2)
    async with worker.running():
        worker.add(asks("a", pods=2, cpu="9", gpu=1, gpumem=1000))
        await until(lambda: "without enough CPU" in worker.why("a"))
        assert "of 2 pods 1 find cards" in worker.why("a")


async def test_pods_that_end_give_way_and_seats_stay_for_those_that_replace_them() -> None:
    """Four completions one after the other, in one seat; nobody gets in between."""
    worker = Cards(of=1)
    async with worker.running() as agent:
        body = asks("a", gpu=1)
        body["spec"] |= {"parallelism": 1, "completions": 4}
        worker.add(body)
        await until(lambda: worker.started("a"))
        worker.add(asks("b", gpu=1, gpumem=1000))
        await until(lambda: "fits on no card" in worker.why("b"))
        for _ in range(3):
            worker.make_pods("a")
            for pod in worker.pods("a"):
                worker.pod_ends(pod)
            await worker.at_rest()
            await asyncio.sleep(0.05)  # time enough to get in between
            assert not worker.started("b")
        assert len(list(agent.devices.ledger.holdings())) == 1


async def test_a_restart_knows_what_is_held_and_pins_what_was_not() -> None:
    worker = Cards(nodes=2, of=1)
    async with worker.running():
        worker.add(asks("a", pods=2, gpu=1))
        await until(lambda: worker.started("a"))
    worker.make_pods("a")
    worker.add(asks("b", gpu=1, gpumem=1000))
    async with worker.running() as agent:
        await until(lambda: worker.seated("a"))
        await until(lambda: "fits on no card" in worker.why("b"))
        assert {str(h.owner) for h in agent.devices.ledger.holdings()} == {
            pod["metadata"]["uid"] for pod in worker.pods("a")
        }
        assert len({pod["metadata"]["annotations"][USE] for pod in worker.pods("a")}) == 2


async def test_a_job_that_is_stopped_is_as_it_was() -> None:
    """Gate, node and plan go with the admission; its cards are free for others."""
    worker = Cards(of=1)
    worker.class_of("high", 10)
    async with worker.running() as agent:
        worker.add(asks("a", gpu=1))
        before = worker.template("a")
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        uid = worker.get("a")["metadata"]["uid"]
        agent.state.evict(uid, Eviction("Preempted", "test", "2026-01-01T00:00:00Z"))
        await until(lambda: not worker.started("a"))
        worker.fake.delete(PODS, worker.pods("a")[0]["metadata"]["name"], "team")
        worker.stopping("a", 0)
        await until(lambda: worker.template("a") == before)
        assert Pin.DEVICES.value not in worker.get("a")["metadata"]["annotations"]


async def test_pods_of_others_count_by_their_annotations() -> None:
    worker = Cards(of=1)
    other = {
        "metadata": {
            "name": "other",
            "namespace": "team",
            "annotations": {
                "hami.io/vgpu-node": "n0",
                ALLOCATED: "GPU-n0-0,NVIDIA,30000,0:;",
                "hami.io/vgpu-time": "1",
            },
        },
        "spec": {
            "nodeName": "n0",
            "containers": [
                {
                    "name": "c",
                    "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "30000"}},
                }
            ],
        },
    }
    worker.fake.create(PODS, other)
    async with worker.running():
        worker.add(asks("a", gpu=1, gpumem=20000))
        await until(lambda: "largest free slice 10,960 MiB" in worker.why("a"))
        worker.fake.delete(PODS, "other", "team")
        await until(lambda: worker.started("a"))


async def test_without_hami_the_agent_writes_what_its_plugin_reads() -> None:
    """One pod at a time per node: the next goes when the last one runs."""
    worker = Cards(nodes=1, of=2, binder=Binder.AGENT)
    async with worker.running():
        worker.add(asks("a", pods=2, gpu=1, gpumem=5000, gpucores=20))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")

        def gone() -> list[Any]:
            return [p for p in worker.pods("a") if not p["spec"].get("schedulingGates")]

        await until(lambda: len(gone()) == 1)
        await worker.at_rest()
        assert len(gone()) == 1
        (pod,) = gone()
        notes = pod["metadata"]["annotations"]
        assert notes["hami.io/bind-phase"] == "allocating"
        assert notes["hami.io/vgpu-node"] == pod["metadata"]["labels"]["hami.io/vgpu-node"] == "n0"
        assert notes[ALLOCATED] == notes["hami.io/vgpu-devices-to-allocate"]
        worker.bind(pod)
        await until(lambda: worker.seated("a"))
        watch = CardWatch()
        watch.nodes(worker.fake.items(NODES))
        for one in worker.pods("a"):
            watch.event("ADDED", one)
        assert watch.problems == []
        assert len(watch.granted) == 2


async def test_pods_are_looked_at_again_when_a_node_is_seen() -> None:
    """An agent that has just started may look at them before it has read the nodes."""
    worker = Cards(nodes=1, of=2, binder=Binder.AGENT)
    async with worker.running() as agent:
        worker.add(asks("a", pods=2, gpu=1, gpumem=5000))
        await until(lambda: worker.started("a"))
        await worker.at_rest()
        looked: list[str] = []
        agent.devices.on_pods = looked.append
        worker.node("n1", 2)
        await until(lambda: worker.get("a")["metadata"]["uid"] in looked)


async def test_a_pod_with_gates_of_its_own_keeps_no_node_for_itself() -> None:
    """Without HAMi one pod at a time is allocated on a node; who cannot start has no turn yet."""
    worker = Cards(nodes=1, of=2, binder=Binder.AGENT)
    async with worker.running():
        for name in ("held", "free"):
            worker.add(asks(name, gpu=1, gpumem=5000))
            await until(lambda name=name: worker.started(name))
        worker.make_pods("held")
        (held,) = worker.pods("held")
        own = {"name": "example.com/own"}
        gates = {"spec": {"schedulingGates": [GATE, own]}}
        worker.fake.merge(PODS, held["metadata"]["name"], gates, "team")
        worker.make_pods("free")
        await until(lambda: worker.seated("free"))
        assert worker.pods("held")[0]["spec"]["schedulingGates"] == [GATE, own]
        worker.bind(worker.pods("free")[0])
        gates = {"spec": {"schedulingGates": [GATE]}}
        worker.fake.merge(PODS, held["metadata"]["name"], gates, "team")
        await until(lambda: worker.seated("held"))


@pytest.mark.parametrize("status", [403, 404, 409, 500])
async def test_pods_that_cannot_be_written_do_not_call_each_other(status: int) -> None:
    """Both wait for the same node, which is free again as soon as one of them has failed."""
    worker = Cards(nodes=1, of=2, binder=Binder.AGENT)
    tried = 0

    def pinned(request: httpx.Request) -> bool:
        nonlocal tried
        found = request.method == "PATCH" and "/pods/" in request.url.path
        tried += found
        return found

    worker.fake.fail(pinned, times=1_000_000, status=status)
    async with worker.running():
        worker.add(asks("a", pods=2, gpu=1, gpumem=5000))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: tried >= 2)
        for _ in range(1000):
            await asyncio.sleep(0)  # many turns of the loop, and less than a second
        assert tried <= 4


@pytest.mark.parametrize("bind_time", ["99999999999", "now"])
async def test_made_up_notes_of_a_pod_keep_no_node(bind_time: str) -> None:
    """A pod that nobody bound, and one that began in the future, are not being allocated."""
    worker = Cards(nodes=1, of=2, binder=Binder.AGENT)
    now = str(int(worker.settings.clock()))
    notes = {
        "hami.io/vgpu-node": "n0",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": now if bind_time == "now" else bind_time,
    }
    spec: Any = {"containers": [{"name": "c"}]}
    if bind_time != "now":
        spec["nodeName"] = "n0"
    meta = {"name": "made-up", "namespace": "team", "annotations": notes}
    worker.fake.create(PODS, {"metadata": meta, "spec": spec})
    async with worker.running():
        worker.add(asks("a", gpu=1, gpumem=5000))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))


async def test_a_pod_that_does_not_get_on_gives_way_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is heard of it: the next pod goes by the clock alone."""
    monkeypatch.setattr(device_binding, "STALLED_S", 2.0)
    worker = Cards(nodes=1, of=2, binder=Binder.AGENT)
    async with worker.running():
        worker.add(asks("a", pods=2, gpu=1, gpumem=5000))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        assert not any(pod["spec"].get("nodeName") for pod in worker.pods("a"))


async def test_the_reason_is_told_when_it_is_not_the_memory() -> None:
    """The largest free slice alone would say that it fits."""
    worker = Cards(nodes=2, of=2)
    async with worker.running():
        worker.add(asks("a", gpu=3, gpumem=1000))
        await until(lambda: "2 cards of this kind, container c asks for 3" in worker.why("a"))
        worker.add(asks("b", gpu=1, gpumem=41000))
        await until(lambda: "largest free slice 40,960 MiB on n0/GPU-n0-0; 2" in worker.why("b"))


async def test_the_last_pods_get_the_seats_that_are_kept() -> None:
    """Rank 0 is done before rank 1 has a seat: one seat is kept, and not that of rank 1."""
    worker = Cards(nodes=1, of=2, binder=Binder.AGENT)
    async with worker.running() as agent:
        body = asks("a", pods=2, gpu=1, gpumem=5000)
        body["spec"]["completionMode"] = "Indexed"
        worker.add(body)
        await until(lambda: worker.started("a"))
        plan = worker.get("a")["metadata"]["annotations"][Pin.DEVICES.value]
        worker.make_pods("a", 1)
        await until(lambda: worker.seated("a"))
        (first,) = worker.pods("a")
        worker.bind(first)
        worker.pod_ends(first)
        worker.succeed("a", 1)
        uid = worker.get("a")["metadata"]["uid"]
        await until(lambda: agent.devices.ledger.holding(Replica(uid, 1)) is None)
        worker.make_pods("a", 1, rank="1")
        await until(lambda: worker.seated("a"))
        assert worker.get("a")["metadata"]["annotations"][Pin.DEVICES.value] == plan


def whole_cards_only(worker: Cards) -> None:
    """The quota of the queue is on cards by number, as it may be without HAMi."""
    names = ("gpu", "cpu", "nvidia.com/gpu")
    resources = [{"name": name, "nominalQuota": 100_000} for name in names]
    group = {"coveredResources": [*names], "flavors": [{"name": "f", "resources": resources}]}
    worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": [group]}})


async def test_cards_that_no_node_ever_had_are_not_counted() -> None:
    worker = Cards(nodes=0)
    whole_cards_only(worker)
    async with worker.running():
        worker.add(asks("a", gpu=1))
        await until(lambda: worker.started("a"))
        assert Pin.DEVICES.value not in worker.get("a")["metadata"]["annotations"]


async def test_shares_of_cards_in_the_quota_are_counted_before_there_are_any() -> None:
    """Nobody but HAMi hands them out: a Job waits for a node, a copy is refused."""
    worker = Cards(nodes=0)
    async with worker.running():
        copy = asks("copy", gpu=1, gpumem=1000)
        copy["metadata"] = support.mirrored("copy", 0)["metadata"]
        worker.add(asks("a", gpu=1, gpumem=1000), copy)
        await until(lambda: "no node of this cluster shows any NVIDIA card" in worker.why("a"))
        await until(lambda: "NVIDIA card now" in worker.note_of("copy", Mirror.REFUSED))
        assert not worker.started("a")
        worker.node("n0", 2)
        await until(lambda: worker.started("a"))
        assert worker.template("a")["spec"]["nodeSelector"][HOSTNAME] == "n0"


@contextlib.asynccontextmanager
async def reporting(worker: Cards) -> AsyncIterator[None]:
    """An agent that reports, as the program starts it."""
    client = KubeClient(Endpoint("https://fake", name="a"), transport=worker.fake)
    reporter: Reporter | None = None

    async def recall(agent: Agent) -> None:
        nonlocal reporter
        reporter = Reporter(client, agent.state.catalog, agent, "a")
        await reporter.recall()

    async with worker.running(recall):
        assert reporter is not None
        task = asyncio.create_task(reporter.run())
        try:
            yield
            assert not task.done(), task
        finally:
            await stop([task])


def card_vendors(worker: Cards) -> list[str]:
    reports = worker.fake.items(WORKER_REPORTS)
    return list(reports[0].get("status", {}).get("cardVendors", [])) if reports else []


async def test_an_agent_that_starts_while_its_only_node_is_away() -> None:
    """What one before it reported tells that cards are given out here one by one."""
    worker = Cards()
    whole_cards_only(worker)
    async with reporting(worker):
        await until(lambda: card_vendors(worker) == ["NVIDIA"])
    worker.fake.delete(NODES, "n0")
    async with reporting(worker):
        worker.add(asks("a", gpu=1))
        await until(lambda: "no node of this cluster shows any NVIDIA card" in worker.why("a"))
        assert not worker.started("a")
        assert card_vendors(worker) == ["NVIDIA"]
        worker.node("n0", 2)
        await until(lambda: worker.started("a"))
        assert worker.template("a")["spec"]["nodeSelector"][HOSTNAME] == "n0"


async def test_a_plan_that_is_noted_tells_of_cards_too() -> None:
    worker = Cards()
    whole_cards_only(worker)
    async with worker.running():
        worker.add(asks("a", gpu=1))
        await until(lambda: worker.started("a"))
    worker.fake.delete(NODES, "n0")
    async with worker.running():
        worker.add(asks("b", gpu=1))
        await until(lambda: "no node of this cluster shows any" in worker.why("b"))
        assert not worker.started("b")


async def test_an_agent_that_finds_only_what_it_cannot_read() -> None:
    worker = Cards()
    whole_cards_only(worker)
    worker.fake.merge(NODES, "n0", {"metadata": {"annotations": {REGISTER: "[{"}}})
    async with worker.running():
        worker.add(asks("a", gpu=1))
        await until(lambda: "no node of this cluster shows any" in worker.why("a"))
        assert not worker.started("a")


async def test_a_pod_whose_node_is_gone_gets_another_seat() -> None:
    """The plan on the Job is changed first; the pod that replaces the lost one is pinned by it."""
    worker = Cards(nodes=3, of=1)
    async with worker.running():
        worker.add(asks("a", pods=2, gpu=1))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        for pod in worker.pods("a"):
            worker.bind(pod)
        used = {pod["spec"]["nodeSelector"][HOSTNAME]: pod for pod in worker.pods("a")}
        lost, pod = next(iter(used.items()))
        worker.fake.delete(NODES, lost)
        worker.fake.delete(PODS, pod["metadata"]["name"], "team")
        worker.make_pods("a", 1)
        await until(lambda: worker.seated("a"))
        hosts = {pod["spec"]["nodeSelector"][HOSTNAME] for pod in worker.pods("a")}
        assert hosts == {"n0", "n1", "n2"} - {lost}
        assert lost not in worker.get("a")["metadata"]["annotations"][Pin.DEVICES.value]


async def test_a_job_pinned_to_a_lost_node_starts_over() -> None:
    worker = Cards(nodes=2, of=1)
    async with worker.running():
        worker.add(asks("a", gpu=1))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        lost = worker.template("a")["spec"]["nodeSelector"][HOSTNAME]
        worker.fake.delete(NODES, lost)
        await until(lambda: not worker.started("a"))
        assert "NodeFailures" in worker.note_of("a", Mirror.EVICTED)
        worker.fake.delete(PODS, worker.pods("a")[0]["metadata"]["name"], "team")
        worker.stopping("a", 0)
        await until(lambda: worker.started("a"))
        assert worker.template("a")["spec"]["nodeSelector"][HOSTNAME] != lost


def foreign(worker: Cards, card: str, memory: int) -> None:
    """A pod that is not ours: HAMi's scheduler has bound it to a card of n0."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    notes = {ALLOCATED: f"{card},NVIDIA,{memory},0:;", "hami.io/vgpu-node": "n0"}
    container = {"name": "c", "resources": {"limits": limits}}
    meta = {"name": "foreign", "namespace": "team", "annotations": notes}
    worker.fake.create(
        PODS, {"metadata": meta, "spec": {"containers": [container], "nodeName": "n0"}}
    )


async def test_a_pod_whose_card_another_scheduler_gave_away_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HAMi knows no seats: a card is taken before our pod is bound; its Job gets another one."""
    monkeypatch.setattr(displaced, "PATIENCE_S", 0.2)
    worker = Cards(nodes=1, of=2)
    async with worker.running():
        worker.add(asks("a", gpu=1))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await worker.at_rest()
        foreign(worker, "GPU-n0-0", 1000)
        await until(lambda: not worker.started("a"))
        note = worker.note_of("a", Mirror.EVICTED)
        assert "NodeFailures" in note
        assert "were given to other pods" in note
        worker.fake.delete(PODS, worker.pods("a")[0]["metadata"]["name"], "team")
        worker.stopping("a", 0)
        await until(lambda: worker.started("a"))
        assert worker.template("a")["metadata"]["annotations"] == {USE: "GPU-n0-1"}


async def test_a_pod_beside_which_others_get_what_is_left_is_let_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bound or not, as long as its cards are there for it."""
    monkeypatch.setattr(displaced, "PATIENCE_S", 0.0)
    worker = Cards(nodes=1, of=1)
    async with worker.running() as agent:
        worker.add(asks("a", gpu=1, gpumem=30000))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        foreign(worker, "GPU-n0-0", 10000)
        await until(lambda: len(list(agent.devices.ledger.holdings())) == 2)
        await worker.at_rest()
        assert worker.started("a")
        worker.fake.delete(PODS, "foreign", "team")
        worker.bind(worker.pods("a")[0])
        foreign(worker, "GPU-n0-0", 40000)
        await until(lambda: len(list(agent.devices.ledger.holdings())) == 2)
        await worker.at_rest()
        assert worker.started("a")


async def test_a_seat_on_a_card_that_is_cordoned_moves_before_its_pod_comes() -> None:
    worker = Cards(nodes=1, of=3)
    async with worker.running():
        worker.add(asks("a", pods=2, gpu=1))
        await until(lambda: worker.started("a"))
        note = worker.get("a")["metadata"]["annotations"][Pin.DEVICES.value]
        first = next(f"GPU-n0-{i}" for i in range(3) if f"GPU-n0-{i}" in note)
        cordon = {"metadata": {"annotations": {"hami.io/device-cordon": first}}}
        worker.fake.merge(NODES, "n0", cordon)
        await worker.at_rest()
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        assert {pod["metadata"]["annotations"][USE] for pod in worker.pods("a")} == {
            f"GPU-n0-{i}" for i in range(3)
        } - {first}


async def test_a_gang_that_stops_gives_back_card_by_card() -> None:
    """What pods still hold counts until they are gone; what no pod has is free at once."""
    worker = Cards(nodes=1, of=2)
    async with worker.running() as agent:
        worker.add(asks("a", pods=2, gpu=1))
        await until(lambda: worker.started("a"))
        worker.make_pods("a", 1)
        await until(lambda: worker.seated("a"))
        worker.bind(worker.pods("a")[0])
        uid = worker.get("a")["metadata"]["uid"]
        agent.state.evict(uid, Eviction("Preempted", "test", "2026-01-01T00:00:00Z"))
        await until(lambda: not worker.started("a"))
        worker.stopping("a")
        await until(lambda: len(list(agent.devices.ledger.holdings())) == 1)
        worker.add(asks("b", gpu=1))
        await until(lambda: worker.started("b"))


# The report


async def test_the_report_tells_of_nodes_with_cards() -> None:
    """As soon as a queue gives cards, before any Job asks for some."""
    worker = Cards(3)
    worker.node("odd", 4, zone="b")
    async with worker.running() as agent:
        client = KubeClient(Endpoint("https://fake", name="a"), transport=worker.fake)
        task = asyncio.create_task(Reporter(client, agent.state.catalog, agent, "a").run())
        try:
            await until(lambda: len(told(worker)) == 2, "two classes")
            assert told(worker) == {(1, "2*0 2*0@1"), (3, "0 0@1")}
            worker.add(asks("a", pods=2, gpu=1, gpumem=30_000, cpu="2"))
            await until(lambda: worker.started("a"))
            await until(lambda: len(told(worker)) > 2, "a card in use")
        finally:
            await stop([task])
    placement = worker.fake.items(WORKER_REPORTS)[0]["status"]["placement"]
    assert sum(count for count, _ in told(worker)) == 4
    assert placement["omittedLabels"] == [HOSTNAME]
    assert [card["model"] for card in placement["cards"]] == ["NVIDIA A100-SXM4-40GB"]
    used = [one for one in placement["classes"] if ":" in one["cards"]]
    cpu = placement["resources"].index("cpu")
    assert sum(one.get("count", 1) * (16_000 - one["free"][cpu]) for one in used) == 4000
    assert sum(one["cards"].count(":10960/100/9") for one in used) == 2


def told(worker: Cards) -> set[tuple[int, str]]:
    """Number and cards of each class of nodes."""
    reports = worker.fake.items(WORKER_REPORTS)
    placement = (reports[0].get("status") or {}).get("placement") if reports else None
    return {(one.get("count", 1), one["cards"]) for one in (placement or {}).get("classes", ())}


async def test_what_hami_did_counts_even_if_it_is_something_else() -> None:
    """Another card than the seat's: the ledger follows the pod, and the seat's card is free."""
    worker = Cards(nodes=1, of=2)
    async with worker.running() as agent:
        worker.add(asks("a", gpu=1, gpumem=30000))
        await until(lambda: worker.started("a"))
        planned = worker.template("a")["metadata"]["annotations"][USE]
        other = next(f"GPU-n0-{i}" for i in (0, 1) if f"GPU-n0-{i}" != planned)
        worker.make_pods("a")
        (pod,) = worker.pods("a")
        hami(worker, pod, f"{other},NVIDIA,30000,0:;")
        worker.bind(pod)
        ledger = agent.devices.ledger
        await until(lambda: [g.uuid for h in ledger.holdings() for g in h.allocation[0]] == [other])
        worker.add(asks("b", gpu=1))
        await until(lambda: worker.started("b"))
        assert worker.template("b")["metadata"]["annotations"][USE] == planned


async def test_what_cannot_be_read_closes_the_node() -> None:
    worker = Cards(nodes=1, of=2)
    async with worker.running() as agent:
        worker.add(asks("a", gpu=1, gpumem=1000))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        (pod,) = worker.pods("a")
        hami(worker, pod, "GPU-n0-0,NVIDIA,lots,0:;")
        worker.bind(pod)
        ledger = agent.devices.ledger
        await until(lambda: (use := ledger.use("n0")) and "memory is 'lots'" in use.fence)
        worker.add(asks("b", gpu=1, gpumem=1000))
        await until(lambda: "fits on no card" in worker.why("b"))
        hami(worker, pod, "GPU-n0-0,NVIDIA,1000,0:;")
        await until(lambda: worker.started("b"))


def hami(worker: Cards, pod: Any, text: str) -> None:
    """HAMi's scheduler has chosen."""
    notes = {"hami.io/vgpu-node": "n0", ALLOCATED: text, "hami.io/vgpu-time": "1"}
    worker.fake.merge(PODS, pod["metadata"]["name"], {"metadata": {"annotations": notes}}, "team")


async def test_notes_of_schedulers_in_a_template_are_not_taken() -> None:
    worker = Cards(nodes=1, of=1)
    async with worker.running():
        made_up = {ALLOCATED: "GPU-n0-0,NVIDIA,1,0:;", "fedq.io/seat": "7", "mine": "stays"}
        worker.add(asks("a", gpu=1, notes=made_up))
        await until(lambda: worker.started("a"))
        notes = worker.template("a")["metadata"]["annotations"]
        assert notes == {"mine": "stays", USE: "GPU-n0-0"}


async def test_the_answer_to_a_write_that_comes_after_the_end_brings_no_pod_back() -> None:
    worker = Cards(nodes=1, of=1)
    async with worker.running() as agent:
        worker.add(asks("a", gpu=1))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        (pod,) = worker.pods("a")
        await until(lambda: agent.devices.pods.keys)
        worker.fake.delete(PODS, pod["metadata"]["name"], "team")
        await until(lambda: not agent.devices.pods.keys)
        agent.devices.pods.on_event("MODIFIED", pod)
        assert not agent.devices.pods.keys
        worker.end("a")
        await until(lambda: not list(agent.devices.ledger.holdings()))


async def test_the_next_flavor_is_tried_for_cards() -> None:
    """Quota is there in both, cards only in the second."""
    worker = Cards(nodes=1, of=1)
    worker.node("t0", 1, card="t4")
    flavor = support.custom("ResourceFlavor", "g", {"nodeLabels": {"card": "t4"}})
    worker.fake.create(RESOURCE_FLAVORS, flavor)
    quotas = [{"name": "nvidia.com/gpu", "nominalQuota": 10}]
    group = {
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": name, "resources": quotas} for name in ("f", "g")],
    }
    worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": [group]}})
    async with worker.running():
        for name in ("a", "b", "c"):
            worker.add(asks(name, gpu=1))
            await worker.at_rest()
        await until(lambda: worker.started("a") and worker.started("b"))
        hosts = {worker.template(n)["spec"]["nodeSelector"][HOSTNAME] for n in ("a", "b")}
        assert hosts == {"n0", "t0"}
        await until(lambda: "fits on no card" in worker.why("c"))


async def test_seats_are_kept_while_checks_are_awaited() -> None:
    """Reserved with the quota, noted on the Job, and used by the start."""
    worker = Cards(nodes=1, of=1)
    check = support.custom("AdmissionCheck", "chk", {"controllerName": "example.com/c"})
    worker.fake.create(ADMISSION_CHECKS, check)
    active = {"status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active"}]}}
    worker.fake.merge(ADMISSION_CHECKS, "chk", active, status=True)
    worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"admissionChecks": ["chk"]}})
    async with worker.running() as agent:
        worker.add(asks("a", gpu=1))
        await until(lambda: worker.note_of("a", Mirror.RESERVATION))
        assert Pin.DEVICES.value in worker.get("a")["metadata"]["annotations"]
        worker.add(asks("b", gpu=1))
        await until(lambda: "fits on no card" in worker.why("b"))
        assert not worker.started("a")
        assert len(list(agent.devices.ledger.holdings())) == 1
    async with worker.running() as agent:
        await until(lambda: len(list(agent.devices.ledger.holdings())) == 1)
        await until(lambda: "fits on no card" in worker.why("b"))
