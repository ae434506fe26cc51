"""`fedq get`: columns for people, the same for programs, and errors that help."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from federation.api.names import Order, Trait
from federation.edge import resources as r
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import (
    AT,
    RUNNING,
    WAITING,
    Fedq,
    ended,
    give_cluster,
    give_job,
    give_queue,
    running,
)


@pytest.fixture(autouse=True)
def objects(kube: FakeKube) -> None:
    """Jobs in several states, a queue and two clusters."""
    give_queue(kube, used="2500m")
    give_job(kube, "waits", workload=WAITING, priority=7)
    give_job(kube, "runs", workload=RUNNING, status=running())
    give_job(kube, "new")
    give_job(kube, "plain", queue="")
    give_job(kube, "done", workload=RUNNING, status=ended("Complete"))
    give_cluster(kube, "east", status="True", reason="Active")
    give_cluster(kube, "west", status="False", reason="AgentSilent", message="no renewal")
    lease = {"metadata": {"name": "east", "namespace": "fedq-system"}, "spec": {"renewTime": AT}}
    kube.create(r.LEASES, lease)


def rows(text: str) -> dict[str, list[str]]:
    """First column → the others."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def test_jobs(fedq: Fedq) -> None:
    """Every state has its word; a waiting job shows no cluster."""
    found = rows(fedq("get", "jobs").stdout)

    assert found["NAME"] == ["QUEUE", "STATE", "CLUSTER", "ATTEMPT", "PRIORITY", "AGE"]
    assert found["waits"][:5] == ["q", "Pending", "-", "-", "7"]
    assert found["runs"][:4] == ["q", "Running", "east", "2"]
    assert found["done"][:3] == ["q", "Complete", "east"]
    assert found["new"][1] == "New"
    assert found["plain"][:2] == ["-", "NotQueued"]


def test_one_job_for_programs(fedq: Fedq) -> None:
    """With a name one object, without a list; keys as Kubernetes writes them."""
    one = json.loads(fedq("get", "job", "waits", "-o", "json").stdout)
    every = yaml.safe_load(fedq("get", "jobs", "-A", "-o", "yaml").stdout)

    assert (one["state"], one["reason"]) == ("Pending", "WaitingForQuota")
    assert len(every) == 5


def test_all_namespaces(fedq: Fedq) -> None:
    """-A adds the column; an empty namespace is no error."""
    found = fedq("get", "jobs", "-A").stdout.splitlines()
    nothing = fedq("get", "jobs", "-n", "team")

    assert found[0].startswith("NAMESPACE")
    assert (nothing.exit_code, nothing.stdout) == (0, "")


def test_queues(fedq: Fedq) -> None:
    """Counts, and used of nominal for every flavor and resource."""
    found = fedq("get", "queues").stdout

    assert rows(found)["cq"][:4] == ["co", "1", "0", "2"]
    assert "f/cpu 2500m/4" in found


def test_clusters(fedq: Fedq, kube: FakeKube) -> None:
    """Where each stands and since when, what comes next, why, and the jobs there."""
    soon = (datetime.now(UTC) + timedelta(seconds=100)).strftime("%Y-%m-%dT%H:%M:%SZ")
    standing = {"phase": "Suspect", "since": AT, "next": "it is fenced", "nextAt": soon}
    give_cluster(
        kube,
        "north",
        standing | {"tier": "A", "epoch": 3, "brake": "2 of 2 clusters are silent at once"},
        {Order.CORDON.value: "new cooling"},
        status="False",
        reason="AgentSilent",
        message="no renewal",
    )
    found = fedq("get", "clusters").stdout

    assert rows(found)["east"][0] == "Unknown"
    assert "AgentSilent: no renewal" in found
    north = rows(found)["north"]
    assert (north[0], north[2], north[3]) == ("Suspect,Cordoned", "A", "3")
    assert "it is fenced in 1m" in found
    assert "no new work: new cooling" in found
    assert "no cluster is given up: 2 of 2 clusters are silent at once" in found
    one = json.loads(fedq("get", "cluster", "east", "-o", "json").stdout)
    assert (one["running"], one["renewed"], one["connected"]) == (1, AT, "True")
    one = json.loads(fedq("get", "cluster", "north", "-o", "json").stdout)
    assert (one["state"], one["since"], one["nextAt"]) == ("Suspect,Cordoned", AT, soon)


def test_a_cluster_without_an_agent(fedq: Fedq, kube: FakeKube) -> None:
    """Its tier, and what that means."""
    standing = {"phase": "Ready", "tier": "none", "epoch": 1}
    notes = {Trait.AGENT.value: "none"}
    give_cluster(kube, "plain", standing, notes, status="True", reason="Active", message="")
    found = fedq("get", "clusters").stdout

    assert rows(found)["plain"][2] == "none"
    assert "two copies of a job are possible" in found


def test_workloads(fedq: Fedq) -> None:
    """The records as they are."""
    found = rows(fedq("get", "workloads").stdout)

    assert found["job-runs"][:6] == ["q", "cq", "True", "-", "east", "2"]
    assert "status" in json.loads(fedq("get", "workload", "job-runs", "-o", "json").stdout)


@pytest.mark.parametrize("kind", ["jobs", "workloads", "queues", "clusters"])
def test_unknown_name(fedq: Fedq, kind: str) -> None:
    """Exit code 1, and where to look."""
    result = fedq("get", kind, "nope")

    assert result.exit_code == 1
    assert f"fedq get {kind}" in result.stderr


def test_job_in_another_namespace(fedq: Fedq) -> None:
    """It says in which."""
    assert "-n default" in fedq("get", "jobs", "runs", "-n", "team").stderr


ANSWERS = [
    (401, "does not accept these credentials"),
    (403, "Ask for the role"),
    (500, "Try again"),
    (429, "overloaded"),
]


@pytest.mark.parametrize(("status", "said"), ANSWERS)
def test_api_errors_in_words(fedq: Fedq, kube: FakeKube, status: int, said: str) -> None:
    """What happened, why, what to do; never a traceback."""
    kube.fail(times=9, status=status)
    result = fedq("get", "jobs")

    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_unreachable(fedq: Fedq, kube: FakeKube) -> None:
    """The same for a cluster that is away."""
    kube.cut()
    result = fedq("get", "jobs")

    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr


def test_cluster_without_our_objects(fedq: Fedq, kube: FakeKube) -> None:
    """A cluster that is no management cluster."""
    kube.resources = [res for res in kube.resources if res.group != "kueue.x-k8s.io"]

    assert "does not serve Fedq's objects" in fedq("get", "queues").stderr


def test_kinds(fedq: Fedq) -> None:
    """Job is always served; others say that their CRD is missing. For programs, too."""
    found = rows(fedq("get", "kinds").stdout)

    assert found["JobSet"][:5] == [
        "jobset.x-k8s.io/v1alpha2",
        "no",
        "yes",
        "spec.suspend",
        "spec.managedBy",
    ]
    told = json.loads(fedq("get", "kinds", "-o", "json").stdout)
    assert told[0]["kind"] == "Job"
    assert {kind["kind"] for kind in told} >= {"PyTorchJob", "RayJob", "AppWrapper", "MPIJob"}
    (one,) = [kind for kind in told if kind["kind"] == "JobSet"]
    assert json.loads(fedq("get", "kinds", "jobset", "-o", "json").stdout) == one
