"""Jobs whose pods claim devices: counted on a worker as its objects are, and again when they
change.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from federation.api.configuration import read, to_policies
from federation.core.devices.claims.claims import DeviceRules
from federation.core.topology import HOSTNAME
from federation.core.types import FlavorResource
from federation.edge import resources as r
from tests.unit.jobs.claim_build import (
    DRIVER,
    allocated,
    device,
    device_class,
    resource_slice,
    result,
    template,
)
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, custom, job, mirrored

Json = dict[str, Any]
DRA = (r.RESOURCE_CLAIM_TEMPLATES, r.RESOURCE_CLAIMS, r.DEVICE_CLASSES, r.RESOURCE_SLICES)
GI = 2**30


def capacity(name: str, resource: str) -> Json:
    source = {"capacity": {"name": name, "driver": DRIVER}}
    return {"name": resource, "deviceClassNames": ["hami-gpu"], "sources": [source]}


def configuration(*mappings: Json) -> Any:
    found = read({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "resources": {"deviceClassMappings": list(mappings)},
    })  # fmt: skip
    return to_policies(found.configuration)


def quotas(**amounts: str) -> list[Json]:
    names = [name.replace("_", "-") for name in amounts]
    given = zip(names, amounts.values(), strict=True)
    flavor = {"name": "f", "resources": [{"name": n, "nominalQuota": a} for n, a in given]}
    return [{"coveredResources": names, "flavors": [flavor]}]


def claiming(body: Json, *templates: str) -> Json:
    """The same Job with claims instead of its requests."""
    spec = body["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"claims": [{"name": "c0"}]}
    spec["resourceClaims"] = [
        {"name": f"c{n}", "resourceClaimTemplateName": name} for n, name in enumerate(templates)
    ]
    return body


def publish(worker: Worker, *numbers: int, node: str = "n1") -> None:
    body = resource_slice(node, node, *(device(number) for number in numbers))
    worker.fake.create(r.RESOURCE_SLICES, body)


def cluster(*, served: bool = True, cards: bool = True) -> Worker:
    """A worker with 20 GiB and 150 percent of compute in its queue."""
    groups = quotas(gpu_memory="20Gi", gpu_cores="150")
    worker = Worker(resourceGroups=groups)
    mappings = capacity("memory", "gpu-memory"), capacity("cores", "gpu-cores")
    worker.settings = replace(worker.settings, policies=configuration(*mappings))
    if served:
        worker.fake.resources += DRA
        worker.fake.create(r.DEVICE_CLASSES, device_class())
        if cards:
            publish(worker, 0, 1)
    return worker


def add_template(worker: Worker, name: str, count: int = 1, **amounts: str) -> None:
    body = template(name, count, "team", **amounts)
    worker.fake.create(r.RESOURCE_CLAIM_TEMPLATES, body)


def used(worker: Worker) -> dict[str, int]:
    usage = worker.agent.tree.usage("cq")
    return {name: usage.get(FlavorResource("f", name), 0) for name in ("gpu-memory", "gpu-cores")}


def why(worker: Worker, name: str) -> str:
    uid = worker.get(name)["metadata"]["uid"]
    return str(worker.agent.waits[uid]) if uid in worker.agent.waits else ""


async def test_memory_and_compute_of_a_claim_are_charged_once_for_each_pod() -> None:
    worker = cluster()
    add_template(worker, "share", 2, memory="4Gi", cores="30")
    worker.add(claiming(job("a"), "share"))
    async with worker.running():
        await until(lambda: worker.started("a"))
        assert used(worker) == {"gpu-memory": 8 * GI, "gpu-cores": 60}


async def test_what_does_not_fit_waits() -> None:
    worker = cluster()
    add_template(worker, "share", 1, memory="12Gi", cores="10")
    worker.add(claiming(job("a"), "share"))
    async with worker.running():
        await until(lambda: worker.started("a"))
        worker.add(claiming(job("b"), "share"))
        await until(lambda: "insufficient unused quota for gpu-memory" in why(worker, "b"))
        assert not worker.started("b")


async def test_a_missing_template_is_waited_for() -> None:
    worker = cluster()
    worker.add(claiming(job("a"), "share"))
    async with worker.running():
        await until(lambda: "ResourceClaimTemplate share: it does not exist" in why(worker, "a"))
        assert why(worker, "a").startswith("Misconfigured")
        add_template(worker, "share", memory="1Gi", cores="1")
        await until(lambda: worker.started("a"))


async def test_a_template_that_is_made_anew_counts_as_it_is_then() -> None:
    worker = cluster()
    add_template(worker, "share", memory="30Gi", cores="1")
    worker.add(claiming(job("a"), "share"))
    async with worker.running():
        await until(lambda: "gpu-memory" in why(worker, "a"))
        worker.fake.delete(r.RESOURCE_CLAIM_TEMPLATES, "share", "team")
        await until(lambda: "does not exist" in why(worker, "a"))
        add_template(worker, "share", memory="20Gi", cores="1")
        await until(lambda: worker.started("a"))
        assert used(worker)["gpu-memory"] == 20 * GI


async def test_a_started_job_keeps_what_it_was_charged() -> None:
    worker = cluster()
    add_template(worker, "share", memory="4Gi", cores="1")
    worker.add(claiming(job("a"), "share"))
    async with worker.running() as agent:
        await until(lambda: worker.started("a"))
        worker.fake.delete(r.RESOURCE_CLAIM_TEMPLATES, "share", "team")
        worker.fake.delete(r.RESOURCE_SLICES, "n1")
        claims = agent.state.catalog.claims
        await until(lambda: not claims.hosts and not claims.of("team", DeviceRules()).templates)
        worker.add(claiming(job("b"), "share"))
        await until(lambda: "does not exist" in why(worker, "b"))
        assert used(worker)["gpu-memory"] == 4 * GI
        assert worker.started("a")


async def test_devices_that_are_published_later() -> None:
    worker = cluster(cards=False)
    add_template(worker, "share", memory="4Gi", cores="1")
    worker.add(claiming(job("a"), "share"))
    async with worker.running() as agent:
        await until(lambda: "0 device(s) match" in why(worker, "a"))
        publish(worker, 0)
        await until(lambda: worker.started("a"))
        (card,) = agent.state.catalog.claims.hosts["n1"].cards
        assert (card.uuid, card.memory_mib) == ("GPU-0", 40960)


async def test_a_pool_that_is_published_in_part_is_waited_for() -> None:
    worker = cluster(cards=False)
    add_template(worker, "share", memory="4Gi", cores="1")
    first = resource_slice("s0", "n1", device(0), resourceSliceCount=2)
    worker.fake.create(r.RESOURCE_SLICES, first)
    worker.add(claiming(job("a"), "share"))
    async with worker.running():
        await until(lambda: "0 device(s) match" in why(worker, "a"))
        second = resource_slice("s1", "n1", device(1), resourceSliceCount=2)
        worker.fake.create(r.RESOURCE_SLICES, second)
        await until(lambda: worker.started("a"))


async def test_a_copy_whose_template_is_missing_is_refused_with_the_name() -> None:
    worker = cluster()
    worker.add(claiming(mirrored("a"), "share"))
    async with worker.running():
        await until(lambda: worker.answered("a"))
        assert "ResourceClaimTemplate share" in worker.refused("a")


async def test_a_cluster_that_does_not_serve_the_group_works_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("federation.edge.claim_catalog.ASK_AGAIN_S", 0.01)
    worker = cluster(served=False)
    plain = job("plain")
    plain["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    worker.add(plain, claiming(job("a"), "share"))
    async with worker.running() as agent:
        await until(lambda: worker.started("plain"))
        await until(lambda: "does not serve resource.k8s.io/v1" in why(worker, "a"))
        assert agent.state.catalog.claims.errors() == []
        worker.fake.resources += DRA
        worker.fake.create(r.DEVICE_CLASSES, device_class())
        publish(worker, 0)
        add_template(worker, "share", memory="1Gi", cores="1")
        await until(lambda: worker.started("a"))


async def test_without_mappings_claims_wait_and_nothing_is_watched() -> None:
    worker = Worker()
    worker.add(claiming(job("a"), "share"))
    async with worker.running():
        await until(lambda: "no resources.deviceClassMappings" in why(worker, "a"))
        assert not worker.writes("GET", "resource.k8s.io")


async def test_an_unreadable_slice_hides_its_pool_only() -> None:
    worker = cluster(cards=False)
    bad = resource_slice("bad", "n2", device(9, capacity={"memory": {"value": "much"}}))
    worker.fake.create(r.RESOURCE_SLICES, bad)
    publish(worker, 0)
    add_template(worker, "share", memory="1Gi", cores="1")
    worker.add(claiming(job("a"), "share"))
    async with worker.running() as agent:
        await until(lambda: worker.started("a"))
        assert set(agent.state.catalog.claims.hosts) == {"n1"}


def cards_in_both_worlds() -> Worker:
    """GPU-0 is registered and published, GPU-1 published only; both by node n1."""
    worker = cluster(cards=False)
    worker.fake.create(r.NAMESPACES, {"metadata": {"name": "ns"}})
    card = {"id": "GPU-0", "count": 10, "devmem": 40960, "devcore": 100, "type": "NVIDIA A100",
            "mode": "hami-core", "health": True}  # fmt: skip
    notes = {"hami.io/node-nvidia-register": json.dumps([card])}
    worker.fake.create(r.NODES, {"metadata": {"name": "n1", "annotations": notes}})
    publish(worker, 0, 1)
    return worker


def share(claim: str, number: int, *pods: str) -> Json:
    taken = result(number, consumedCapacity={"memory": "4Gi", "cores": "30"})
    return allocated(claim, taken, pods=pods)


def amounts(worker: Worker) -> dict[str, tuple[int, int]]:
    use = worker.agent.devices.ledger.use("n1")
    found = {card.uuid: use.use(card.uuid).amount for card in use.host.cards} if use else {}
    return {uuid: (amount.memory_mib, amount.cores) for uuid, amount in found.items()}


async def test_claims_are_counted_in_the_ledger_of_all_cards() -> None:
    worker = cards_in_both_worlds()
    worker.fake.create(r.RESOURCE_CLAIMS, share("c1", 0, "pod-1"))
    async with worker.running() as agent:
        agent.nodes.want()
        await until(lambda: amounts(worker) == {"GPU-0": (4096, 30), "GPU-1": (0, 0)})
        use = agent.devices.ledger.use("n1")
        assert use is not None
        assert "for resource claims only" in use.use("GPU-1").fence
        assert not use.use("GPU-0").fence
        worker.fake.create(r.RESOURCE_CLAIMS, share("c2", 0, "pod-2", "pod-3"))
        worker.fake.create(r.RESOURCE_CLAIMS, share("c3", 1))
        await until(lambda: amounts(worker) == {"GPU-0": (8192, 60), "GPU-1": (4096, 30)})
        worker.fake.drop_watches()
        worker.fake.delete(r.RESOURCE_CLAIMS, "c1", "ns")
        await until(lambda: amounts(worker) == {"GPU-0": (4096, 30), "GPU-1": (4096, 30)})


async def test_a_claim_that_is_allocated_again_counts_again() -> None:
    worker = cards_in_both_worlds()
    worker.fake.create(r.RESOURCE_CLAIMS, share("c1", 0))
    async with worker.running() as agent:
        agent.nodes.want()
        await until(lambda: amounts(worker).get("GPU-0") == (4096, 30))
        gone = {"status": {"allocation": None}}
        worker.fake.merge(r.RESOURCE_CLAIMS, "c1", gone, "ns")
        await until(lambda: amounts(worker)["GPU-0"] == (0, 0))
        again = {"status": share("c1", 1)["status"]}
        worker.fake.merge(r.RESOURCE_CLAIMS, "c1", again, "ns")
        await until(lambda: amounts(worker) == {"GPU-0": (0, 0), "GPU-1": (4096, 30)})


async def test_a_pod_with_annotations_and_a_claim_for_one_card_is_charged_once() -> None:
    worker = cards_in_both_worlds()
    async with worker.running() as agent:
        agent.nodes.want()
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "50"}
        pod = worker.fake.create(r.PODS, {
            "metadata": {
                "name": "p", "namespace": "team",
                "annotations": {
                    "hami.io/vgpu-node": "n1",
                    "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,1000,50:;",
                },
            },
            "spec": {
                "nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}],
            },
        })  # fmt: skip
        await until(lambda: amounts(worker).get("GPU-0") == (1000, 50))
        uid = pod["metadata"]["uid"]
        worker.fake.create(r.RESOURCE_CLAIMS, share("c1", 0, uid))
        await until(lambda: amounts(worker)["GPU-0"] == (4096, 30))
        worker.fake.delete(r.PODS, "p", "team")
        await until(lambda: amounts(worker)["GPU-0"] == (4096, 30))


async def test_a_node_that_publishes_its_cards_no_more() -> None:
    worker = cards_in_both_worlds()
    async with worker.running() as agent:
        agent.nodes.want()
        await until(lambda: set(amounts(worker)) == {"GPU-0", "GPU-1"})
        worker.fake.delete(r.RESOURCE_SLICES, "n1")
        await until(lambda: set(amounts(worker)) == {"GPU-0"})
        publish(worker, 1)
        await until(lambda: set(amounts(worker)) == {"GPU-0", "GPU-1"})


async def test_nodes_say_nothing_of_what_claims_ask_for() -> None:
    """A Job with claims is placed in a topology by what nodes do have."""
    worker = cluster()
    add_template(worker, "share", memory="4Gi", cores="10")
    levels = [{"nodeLabel": HOSTNAME}]
    worker.fake.create(r.TOPOLOGIES, custom("Topology", "hosts", {"levels": levels}))
    worker.fake.merge(r.RESOURCE_FLAVORS, "f", {"spec": {"topologyName": "hosts"}})
    labels = {HOSTNAME: "n1", "card": "a100"}
    worker.fake.create(r.NODES, {"metadata": {"name": "n1", "labels": labels}})
    status = {
        "allocatable": {"pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}],
    }  # fmt: skip
    worker.fake.merge(r.NODES, "n1", {"status": status}, status=True)
    body = claiming(job("a"), "share")
    notes = {"kueue.x-k8s.io/podset-required-topology": HOSTNAME}
    body["spec"]["template"]["metadata"] = {"annotations": notes}
    worker.add(body)
    async with worker.running():
        await until(lambda: worker.started("a"))
        assert used(worker)["gpu-memory"] == 4 * GI
