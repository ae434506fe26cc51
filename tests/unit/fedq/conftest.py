"""A management cluster behind the command line: the fake API, as managers leave its objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from federation.edge import resources as r
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from fedq import connect
from fedq.cli import app
from tests.fakes.kube_api import FakeKube

Json = dict[str, Any]
Fedq = Callable[..., Result]

AT = "2026-01-01T00:00:00Z"


@pytest.fixture
def kube() -> FakeKube:
    """The cluster."""
    return FakeKube(namespaces=("default", "team", "fedq-system"))


@pytest.fixture
def fedq(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> Fedq:
    """Run `fedq ARGS` on the cluster."""
    target = connect.Target(Endpoint("https://fake", name="fake"))
    monkeypatch.setattr(connect, "choose", lambda kubeconfig, context: target)
    monkeypatch.setattr(
        connect, "open_client", lambda target: KubeClient(target.endpoint, transport=kube)
    )

    def run(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(app, args, input=input)

    return run


def job(name: str, queue: str = "q", **extra: Any) -> Json:
    """A Job of two pods with 1 cpu each."""
    requests = {"requests": {"cpu": "1"}}
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "m", "image": "x", "resources": requests}],
    }
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "suspend": True,
            "template": {"spec": pod},
            **extra,
        },
    }


def condition(type: str, status: str, reason: str = "R", message: str = "") -> Json:
    """A condition."""
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT,
    }


def give_queue(kube: FakeKube, nominal: str = "4", used: str = "0") -> None:
    """LocalQueue default/q to ClusterQueue cq with a cpu quota."""
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": nominal}]}
    kube.create(
        r.CLUSTER_QUEUES,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "cq"},
            "spec": {
                "cohortName": "co",
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
            },
        },
    )
    reserved = [{"name": "f", "resources": [{"name": "cpu", "total": used}]}]
    status = {"pendingWorkloads": 1, "admittedWorkloads": 2, "flavorsReservation": reserved}
    kube.merge(r.CLUSTER_QUEUES, "cq", {"status": status}, status=True)
    kube.create(
        r.LOCAL_QUEUES,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"clusterQueue": "cq"},
        },
    )


def give_cluster(
    kube: FakeKube, name: str, fedq: Json | None = None, notes: Json | None = None, **active: str
) -> None:
    """A MultiKueueCluster with condition Active and a `status.fedq`."""
    kube.create(
        r.MULTIKUEUE_CLUSTERS,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "MultiKueueCluster",
            "metadata": {"name": name, "annotations": notes or {}},
            "spec": {"clusterSource": {"kubeConfig": {"location": "s"}}},
        },
    )
    status: Json = {"conditions": [condition("Active", **active)]}  # type: ignore[arg-type]
    status |= {"fedq": fedq} if fedq else {}
    kube.merge(r.MULTIKUEUE_CLUSTERS, name, {"status": status}, status=True)


def give_job(
    kube: FakeKube,
    name: str,
    *,
    workload: Json | None = None,
    status: Json | None = None,
    queue: str = "q",
    priority: int = 0,
) -> None:
    """A Job; with `workload` (a status) also its Workload."""
    made = kube.create(r.JOBS, job(name, queue))
    if status is not None:
        kube.merge(r.JOBS, name, {"status": status}, "default", status=True)
    if workload is None:
        return
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    meta = {"name": f"job-{name}", "namespace": "default", "ownerReferences": [owner]}
    spec = {"queueName": queue, "priority": priority, "podSets": []}
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": meta}
    kube.create(r.WORKLOADS, {**body, "spec": spec})
    kube.merge(r.WORKLOADS, f"job-{name}", {"status": workload}, "default", status=True)


def ended(kind: str, message: str = "") -> Json:
    """Status of a Job that is Complete or Failed."""
    first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    conditions = [condition(first, "True"), condition(kind, "True", message=message)]
    status: Json = {"conditions": conditions, "startTime": AT}
    return status | {"completionTime": AT} if kind == "Complete" else status


def running(ready: int = 2) -> Json:
    """Status of a Job with `ready` of two pods."""
    return {"active": 2, "ready": ready, "startTime": AT}


WAITING = {
    "conditions": [condition("QuotaReserved", "False", "WaitingForQuota", "cpu needs 2, 1 free")]
}
RUNNING = {
    "conditions": [
        condition("QuotaReserved", "True"),
        condition("Admitted", "True", "Admitted", "runs on east"),
    ],
    "admission": {
        "clusterQueue": "cq",
        "podSetAssignments": [
            {"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"}}
        ],
    },
    "clusterName": "east",
    "fedq": {"cluster": "east", "attempt": 2, "epoch": 1, "boundAt": AT},
}
