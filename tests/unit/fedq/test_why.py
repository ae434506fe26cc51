"""`fedq why`: for each place a job can be in, what it says."""

from __future__ import annotations

import json

import pytest

from federation.api.names import Label
from federation.edge import resources as r
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import (
    RUNNING,
    WAITING,
    Fedq,
    condition,
    ended,
    give_cluster,
    give_job,
    give_queue,
    running,
)


def test_waiting_with_numbers(fedq: Fedq, kube: FakeKube) -> None:
    """Quota in use, what is asked for, who is ahead, which cluster is away, what would help."""
    give_queue(kube, nominal="4", used="3")
    for name, priority in (("first", 5), ("mine", 1), ("last", 0)):
        give_job(kube, name, workload=WAITING, priority=priority)
    give_cluster(kube, "west", status="False", reason="AgentSilent", message="no renewal")
    said = fedq("why", "mine").stdout

    assert "waits in ClusterQueue cq (LocalQueue q)" in said
    assert "WaitingForQuota: cpu needs 2, 1 free" in said
    assert "asks for cpu 2; in use there: f/cpu 3 of 4" in said
    assert "3 wait there, 1 of them before this one" in said
    assert "west takes no new work: AgentSilent: no renewal" in said
    assert "starts when cpu 1 more is free" in said


def test_running(fedq: Fedq, kube: FakeKube) -> None:
    """Cluster, attempt, pods and quota."""
    give_queue(kube)
    give_cluster(kube, "east", status="False", reason="ClientConnectionFailed", message="gone")
    give_job(kube, "a", workload=RUNNING, status=running(1))
    said = fedq("why", "a").stdout

    assert "runs on cluster east (attempt 2)" in said
    assert "1 of 2 pods ready" in said
    assert "it holds f/cpu 2" in said
    assert "east is in trouble: ClientConnectionFailed: gone" in said


def test_offered_admitted_and_held(fedq: Fedq, kube: FakeKube) -> None:
    """The states in between."""
    give_queue(kube)
    offered = {**RUNNING, "conditions": RUNNING["conditions"][:1]}
    give_job(kube, "offered", workload=offered)
    give_job(kube, "admitted", workload=RUNNING)
    give_job(kube, "held", workload=WAITING)
    kube.merge(r.WORKLOADS, "job-held", {"spec": {"active": False}}, "default")

    assert "answers within 10 s" in fedq("why", "offered").stdout
    assert "no pod is ready yet" in fedq("why", "admitted").stdout
    assert "held" in fedq("why", "held").stdout


def test_admitted_and_lacking_pods(fedq: Fedq, kube: FakeKube) -> None:
    """Why an elastic job has fewer pods than it asks for is told before any of them is ready."""
    give_queue(kube)
    lacks = condition("fedq.io/Scaled", "False", "WaitingForQuota", "It runs 2 pods and asks for 9")
    give_job(kube, "a", workload={**RUNNING, "conditions": [*RUNNING["conditions"], lacks]})

    assert "no pod is ready yet. It runs 2 pods and asks for 9." in fedq("why", "a").stdout


def test_leaving(fedq: Fedq, kube: FakeKube) -> None:
    """An evicted job that still has its quota is told as that, with the reason; not as starting."""
    give_queue(kube)
    evicted = condition("Evicted", "True", "Preempted", "Preempted to accommodate another")
    give_job(kube, "a", workload={**RUNNING, "conditions": [*RUNNING["conditions"], evicted]})
    said = fedq("why", "a").stdout

    assert "leaves cluster east (attempt 2)" in said
    assert "Preempted: Preempted to accommodate another" in said
    assert "It holds f/cpu 2 until its pods stop" in said
    assert "no pod is ready" not in said


@pytest.mark.parametrize(
    ("mine", "others", "said"),
    [
        ("offered to east", "Pending", "these are not: other: Pending."),
        ("offered to east", "Ready", "answers within 10 s"),
        ("", "Retry", "these are not: mine: Pending, other: Retry."),
    ],
)
def test_admission_checks(fedq: Fedq, kube: FakeKube, mine: str, others: str, said: str) -> None:
    """Checks of others come before the offer; the manager's own one is the offer."""
    give_queue(kube)
    checks = [
        {"name": "other", "state": others, "message": "thinks"},
        {"name": "mine", "state": "Pending", "message": mine},
    ]
    bound = {**RUNNING, "conditions": RUNNING["conditions"][:1], "admissionChecks": checks}
    give_job(kube, "a", workload=bound)

    assert said in fedq("why", "a").stdout


def test_checks_of_the_cluster(fedq: Fedq, kube: FakeKube) -> None:
    """Which checks of which cluster, what they say, and who decides; an order that cannot be
    followed is another thing.
    """
    give_queue(kube)
    for name, told in (
        ("a", 'it has its quota on cluster east and waits there: AdmissionCheck "prov" (soon)'),
        ("b", "it cannot be moved to west: there is no such cluster"),
    ):
        fedq_status = {**RUNNING["fedq"], "message": told}
        bound = {**RUNNING, "conditions": RUNNING["conditions"][:1], "fedq": fedq_status}
        give_job(kube, name, workload=bound)
    said = fedq("why", "a").stdout

    assert "is offered to cluster east (attempt 2)" in said
    assert 'waits there: AdmissionCheck "prov" (soon).' in said
    assert "Their controllers on east decide" in said
    assert "answers within 10 s" in fedq("why", "b").stdout


def test_held_says_why(fedq: Fedq, kube: FakeKube) -> None:
    """What the manager wrote when it deactivated the job."""
    give_queue(kube)
    text = "exceeded the PodsReady timeout: unsuspend the Job, or set spec.active"
    status = {"conditions": [condition("QuotaReserved", "False", "Deactivated", text)]}
    give_job(kube, "a", workload=status)
    kube.merge(r.WORKLOADS, "job-a", {"spec": {"active": False}}, "default")

    assert ": exceeded the PodsReady timeout; it holds no quota." in fedq("why", "a").stdout


def test_ended(fedq: Fedq, kube: FakeKube) -> None:
    """How, where, and with which message."""
    give_job(kube, "a", workload=RUNNING, status=ended("Failed", "3 retries"))
    said = fedq("why", "a").stdout

    assert "ended as Failed on cluster east (attempt 2)" in said
    assert "3 retries" in said


def test_no_queue_label(fedq: Fedq, kube: FakeKube) -> None:
    """The most frequent mistake."""
    give_job(kube, "a", queue="")

    assert "add the label kueue.x-k8s.io/queue-name" in fedq("why", "a").stdout


def test_nobody_looks_at_it(fedq: Fedq, kube: FakeKube) -> None:
    """A queue that is missing and a manager that does not run are both named."""
    give_job(kube, "a", queue="nowhere")
    said = fedq("why", "a").stdout

    assert "LocalQueue default/nowhere does not exist" in said
    assert "manager seems not to be running" in said


def test_reasons_have_their_advice(fedq: Fedq, kube: FakeKube) -> None:
    """What can never fit is not told to wait."""
    give_queue(kube)
    for reason, advice in (
        ("ExceedsMaxQuota", "can never fit"),
        ("Suspended", "stopPolicy"),
        ("NoMatchingFlavor", "Correct what the message names"),
    ):
        status = {"conditions": [condition("QuotaReserved", "False", reason, "m")]}
        give_job(kube, reason.lower(), workload=status)
        assert advice in fedq("why", reason.lower()).stdout


def test_json(fedq: Fedq, kube: FakeKube) -> None:
    """The facts behind the paragraph; `queue` is the LocalQueue as in `fedq get jobs`."""
    give_queue(kube, used="3")
    give_job(kube, "a", workload=WAITING)
    found = json.loads(fedq("why", "a", "-o", "json").stdout)

    assert (found["queue"], found["clusterQueue"]["name"]) == ("q", "cq")
    assert (found["ahead"], found["waiting"], found["requests"]) == (0, 1, {"cpu": "2"})
    assert found["text"].startswith("default/a waits")
    assert "cpu 1 more" in found["advice"]


def give_report(kube: FakeKube) -> None:
    """The cluster is a worker: an agent publishes there."""
    report = {
        "apiVersion": f"{r.WORKER_REPORTS.group}/{r.WORKER_REPORTS.version}",
        "kind": "WorkerReport",
        "metadata": {"name": "w"},
    }
    kube.create(r.WORKER_REPORTS, report)


def test_a_job_of_a_workers_own_queue(fedq: Fedq, kube: FakeKube) -> None:
    """Asked on a worker: what runs there runs on this cluster, without a manager."""
    give_queue(kube)
    give_report(kube)
    local = {key: RUNNING[key] for key in ("conditions", "admission")}
    give_job(kube, "runs", workload=local, status=running(2))
    give_job(kube, "starts", workload=local)
    checked = {**local, "conditions": local["conditions"][:1]}
    checks = {"admissionChecks": [{"name": "c", "state": "Pending", "message": ""}]}
    give_job(kube, "checked", workload=checked | checks)
    leaves = [*local["conditions"], condition("Evicted", "True", "Preempted", "for another")]
    give_job(kube, "leaves", workload={**local, "conditions": leaves})

    said = fedq("why", "runs").stdout
    assert "default/runs runs on this cluster" in said
    assert "2 of 2 pods ready" in said
    assert "it holds f/cpu 2" in said
    assert "admitted on this cluster" in fedq("why", "starts").stdout
    assert "starts when its admission checks are Ready" in fedq("why", "checked").stdout
    assert "leaves this cluster" in fedq("why", "leaves").stdout


def test_waiting_on_a_worker(fedq: Fedq, kube: FakeKube) -> None:
    """The agent's message is not contradicted by use that nobody counted, nor asks for workers."""
    give_queue(kube, nominal="1")
    give_report(kube)
    give_job(kube, "a", workload=WAITING)
    said = fedq("why", "a").stdout

    assert "WaitingForQuota: cpu needs 2, 1 free" in said
    assert "It asks for cpu 2. 1 waits there" in said
    assert "No worker cluster" not in said
    assert "more is free" not in said


def test_a_job_of_the_management_cluster_itself(fedq: Fedq, kube: FakeKube) -> None:
    """It is the agent's beside the manager: what is said of workers and manager is not about it."""
    give_queue(kube, nominal="1")
    give_cluster(kube, "west", status="False", reason="AgentSilent", message="no renewal")
    give_job(kube, "a", workload=WAITING)
    give_job(kube, "b")
    for name in "ab":
        label = {"metadata": {"labels": {Label.LOCAL.value: "true"}}}
        kube.merge(r.JOBS, name, label, "default")
    said = fedq("why", "a").stdout
    assert "WaitingForQuota: cpu needs 2, 1 free" in said
    assert "west" not in said
    said = fedq("why", "b").stdout
    assert "the agent has made no Workload" in said
    assert "the agent beside the manager seems not to be running" in said
    assert "Start the agent" in said


def test_unknown_job(fedq: Fedq) -> None:
    """Exit code 1 without a traceback."""
    result = fedq("why", "nope")

    assert result.exit_code == 1
    assert "there is no job nope" in result.stderr


SHORT = {
    "podSet": "main",
    "flavor": "f",
    "resource": "cpu",
    "needed": "2",
    "free": "1",
    "borrowable": "0",
    "nominal": "4",
    "most": "4",
    "heldBy": [{"namespace": "default", "name": "big", "clusterQueue": "cq", "amount": "3"}],
}
HINT = "It starts when 1 more cpu in flavor f is free"
TOLD = f"couldn't assign flavors. cpu in flavor f: 2 needed, 1 free. {HINT}"


def waiting(reason: str) -> dict[str, object]:
    """A status as the manager leaves it, with numbers for the reason WaitingForQuota."""
    return {
        "conditions": [condition("QuotaReserved", "False", reason, TOLD)],
        "fedq": {
            "waiting": {
                "reason": "WaitingForQuota",
                "requeue": "NoFit",
                "shortages": [SHORT],
                "hint": HINT,
            }
        },
    }


def test_what_the_manager_says_would_help(fedq: Fedq, kube: FakeKube) -> None:
    """Condition and advice have its words, once; the JSON has its numbers."""
    give_queue(kube, used="3")
    give_job(kube, "a", workload=waiting("WaitingForQuota"))
    said = fedq("why", "a").stdout
    found = json.loads(fedq("why", "a", "-o", "json").stdout)

    assert "WaitingForQuota: couldn't assign flavors. cpu in flavor f: 2 needed, 1 free." in said
    assert said.count(HINT) == 1
    assert said.rstrip().endswith(f"{HINT}.")
    assert found["why"]["shortages"] == [SHORT]
    assert found["advice"] == f"{HINT}."


def test_a_hint_of_an_earlier_reason_is_not_told(fedq: Fedq, kube: FakeKube) -> None:
    """The condition was written by something else since."""
    give_queue(kube)
    give_job(kube, "a", workload=waiting("ExceedsMaxQuota"))
    found = json.loads(fedq("why", "a", "-o", "json").stdout)

    assert "can never fit" in found["advice"]
    assert found["message"] == TOLD


def test_the_position_is_the_managers(
    fedq: Fedq, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the order; who is not in its list is counted from the objects."""
    give_queue(kube)
    for name in ("first", "second", "third"):
        give_job(kube, name, workload=WAITING)
    order = [kube.get(r.JOBS, name, "default")["metadata"]["uid"] for name in ("third", "second")]

    async def known(rig: object, queue: str) -> list[str]:
        assert queue == "cq"
        return order

    monkeypatch.setattr("fedq.investigating._known_line", known)
    assert json.loads(fedq("why", "second", "-o", "json").stdout)["ahead"] == 1
    assert json.loads(fedq("why", "third", "-o", "json").stdout)["ahead"] == 0
    assert json.loads(fedq("why", "first", "-o", "json").stdout)["waiting"] == 3
