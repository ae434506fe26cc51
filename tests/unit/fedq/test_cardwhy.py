"""`fedq why` of a job that waits for cards: the largest free slice, and who would have to leave."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from federation.edge import resources as r
from federation.edge.kube import KubeClient
from fedq import connect
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import Fedq, condition, give_cluster, job
from tests.unit.fedq.test_gpus import give_node, give_pod, kubeconfig
from tests.unit.fedq.test_why import give_report
from tests.unit.worker_agent.support import custom

Json = dict[str, Any]


def ask(name: str, mib: int, pods: int = 1) -> Json:
    body = job(name)
    body["spec"] |= {"parallelism": pods, "completions": pods}
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    return body


def give_waiting(kube: FakeKube, body: Json, reason: str, requeue: str) -> None:
    """A Job whose Workload says why it waits."""
    made = kube.create(r.JOBS, body)
    name = body["metadata"]["name"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    meta = {"name": f"job-{name}", "namespace": "default", "ownerReferences": [owner]}
    kube.create(r.WORKLOADS, {"metadata": meta, "spec": {"queueName": "q"}})
    status = {
        "conditions": [condition("QuotaReserved", "False", reason, "as was said")],
        "fedq": {"waiting": {"reason": reason, "requeue": requeue}},
    }
    kube.merge(r.WORKLOADS, f"job-{name}", {"status": status}, "default", status=True)


def give_queues(kube: FakeKube, *flavors: str, resource: str = "nvidia.com/gpu") -> None:
    """LocalQueue q with cards in these flavors; each chooses nodes by label."""
    quota = [{"name": resource, "nominalQuota": "99"}]
    group = {
        "coveredResources": [resource],
        "flavors": [{"name": name, "resources": quota} for name in flavors],
    }
    spec = {"resourceGroups": [group]}
    kube.create(r.CLUSTER_QUEUES, custom("ClusterQueue", "cq", spec))
    door = custom("LocalQueue", "q", {"clusterQueue": "cq"})
    door["metadata"]["namespace"] = "default"
    kube.create(r.LOCAL_QUEUES, door)
    for name in flavors:
        spec = {"nodeLabels": {"kubernetes.io/hostname": name}}
        kube.create(r.RESOURCE_FLAVORS, custom("ResourceFlavor", name, spec))


def fill(kube: FakeKube, node: str, card: int, *sizes: int) -> None:
    for number, mib in enumerate(sizes):
        note = f"GPU-{node}-{card},NVIDIA,{mib},0:;"
        give_pod(kube, f"{node}-{card}-{number}", node, note, gpu="1", gpumem=str(mib))


def test_on_a_worker_the_smallest_set_that_makes_room(fedq: Fedq, kube: FakeKube) -> None:
    give_report(kube)
    give_node(kube, "n0", 2)
    fill(kube, "n0", 0, 20_000, 15_000)
    fill(kube, "n0", 1, 28_672)
    give_queues(kube, "n0")
    give_waiting(kube, ask("a", 24_000), "WaitingForCards", "NoCards")

    said = " ".join(fedq("why", "a").stdout.split())

    assert "WaitingForCards: as was said." in said
    assert "(each pod: container m: 1 card with 24000 MiB)" in said
    assert "It would fit if pod team/n0-0-0 (20,000 MiB on n0/GPU-n0-0) left" in said
    assert "no smaller set does." in said


@pytest.mark.parametrize(
    ("mib", "pods", "said"),
    [
        (41_000, 1, "It would not fit even if all that hold cards here left"),
        (40_000, 1, "None of up to 3 moves helps: more would have to leave than that."),
        (6_000, 1, "By now there are cards for its pod."),
    ],
)
def test_when_no_few_moves_help(fedq: Fedq, kube: FakeKube, mib: int, pods: int, said: str) -> None:
    give_report(kube)
    give_node(kube, "n0", 1)
    fill(kube, "n0", 0, *[8_000] * 4)
    give_queues(kube, "n0")
    give_waiting(kube, ask("a", mib, pods), "WaitingForCards", "NoCards")
    result = fedq("why", "a")
    assert said in " ".join(result.stdout.split()), result.output


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/total-gpumem"])
def test_the_flavor_that_needs_the_fewest_counts(fedq: Fedq, kube: FakeKube, resource: str) -> None:
    give_report(kube)
    for name, sizes in (("n0", [9_000] * 4), ("n1", [30_000]), ("n2", [10_000])):
        give_node(kube, name, 1)
        fill(kube, name, 0, *sizes)
    give_queues(kube, "n0", "n1", resource=resource)  # n2 belongs to none
    give_waiting(kube, ask("a", 31_000), "WaitingForCards", "NoCards")
    assert "if pod team/n1-0-0 (30,000 MiB on n1/GPU-n1-0) left" in fedq("why", "a").stdout


def test_on_the_management_cluster_all_workers_are_asked(
    fedq: Fedq, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = {name: FakeKube(namespaces=("team", "default")) for name in ("east", "west")}
    for name, sizes in (("east", [14_000, 14_000]), ("west", [28_672])):
        give_node(workers[name], name, 1)
        fill(workers[name], name, 0, *sizes)
        give_cluster(kube, name, status="True")
        spec = {"spec": {"clusterSource": {"kubeConfig": {"location": name}}}}
        kube.merge(r.MULTIKUEUE_CLUSTERS, name, spec)
        meta = {"name": name, "namespace": "fedq-system"}
        text = base64.b64encode(kubeconfig(name)).decode()
        kube.create(r.SECRETS, {"metadata": meta, "data": {"kubeconfig": text}})
    give_cluster(kube, "gone", status="False")

    def client(target: connect.Target) -> KubeClient:
        return KubeClient(target.endpoint, transport=workers.get(target.endpoint.name, kube))

    monkeypatch.setattr(connect, "open_client", client)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    give_waiting(kube, ask("a", 40_000), "WaitingForQuota", "NoCluster")

    said = " ".join(fedq("why", "a").stdout.split())

    assert (
        "On cluster west: Fits on no card: largest free slice 12,288 MiB on west/GPU-west-0" in said
    )
    assert "It would fit if pod team/west-0-0 (28,672 MiB on west/GPU-west-0) left" in said
    assert json.loads(fedq("why", "a", "-o", "json").stdout)["cards"].startswith("On cluster west")


def test_who_does_not_wait_for_cards_is_told_nothing_of_them(fedq: Fedq, kube: FakeKube) -> None:
    give_report(kube)
    give_node(kube, "n0", 1)
    fill(kube, "n0", 0, 40_000)
    give_waiting(kube, ask("a", 24_000), "WaitingForQuota", "NoFit")
    give_waiting(kube, job("b"), "WaitingForCards", "NoCards")
    for name in ("a", "b"):
        assert "would fit" not in fedq("why", name).stdout
