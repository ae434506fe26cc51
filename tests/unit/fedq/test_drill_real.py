"""The drills that are fit for a real cluster: what they do, undo, and judge by."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result

from federation.edge import resources as r
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from fedq import connect
from fedq.drill import real
from fedq.rig.waiting import wait_until
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import Fedq, give_cluster

Json = dict[str, Any]
SPACE = "fedq-system"
CORDON = ("drill", "real", "cordon", "--cluster", "east", "--yes")
KILL = ("drill", "real", "manager-killed", "--yes")


class Cluster(FakeKube):
    """Replaces its managers, by pods of the same names. `meanwhile` happens after the first write:
    a pod is deleted, or a cluster is cordoned.
    """

    def __init__(self) -> None:
        super().__init__(namespaces=("team", SPACE))
        self.meanwhile: Callable[[], object] = lambda: None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.method == "DELETE":
            give_manager(self)
        if request.method in ("DELETE", "PATCH"):
            happens, self.meanwhile = self.meanwhile, lambda: None
            happens()
        return response


@pytest.fixture
def kube() -> Cluster:
    """The management cluster, with a worker and a manager."""
    found = Cluster()
    give_cluster(found, "east", status="True")
    give_manager(found)
    return found


@pytest.fixture
def east(fedq: Fedq, kube: Cluster, monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """The worker, by a context of its name; attempt 3 of team/train runs there in pod a."""
    fake = FakeKube(namespaces=("team",))
    target = connect.Target(Endpoint("https://east", name="east"))
    monkeypatch.setattr(connect, "of_context", lambda name: target if name == "east" else None)
    servers = {"https://east": fake, "https://fake": kube}

    def client(target: connect.Target) -> KubeClient:
        return KubeClient(target.endpoint, transport=servers[target.endpoint.server])

    monkeypatch.setattr(connect, "open_client", client)
    monkeypatch.setattr(real, "WATCHED_S", 0.0)
    give_workload(kube, "train", "east", 3)
    give_pod(fake, "a")
    return fake


def give_manager(kube: FakeKube) -> None:
    """Its pod, ready."""
    labels = {"app.kubernetes.io/component": "manager"}
    kube.create(r.PODS, {"metadata": {"name": "m", "namespace": SPACE, "labels": labels}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    kube.merge(r.PODS, "m", {"status": ready}, SPACE, status=True)


def give_workload(kube: FakeKube, name: str, cluster: str, attempt: int) -> None:
    """A bound Workload, of the job with the UID uid-NAME."""
    owner = {"name": name, "uid": f"uid-{name}", "controller": True}
    meta = {"name": name, "namespace": "team", "ownerReferences": [owner]}
    kube.create(r.WORKLOADS, {"metadata": meta, "spec": {}})
    status = {"status": {"fedq": {"cluster": cluster, "attempt": attempt}}}
    kube.merge(r.WORKLOADS, name, status, "team", status=True)


def give_pod(fake: FakeKube, name: str, job: str = "train") -> None:
    """A pod of that job, which runs."""
    labels = {"kueue.x-k8s.io/multikueue-worker-workload-pod": "true"}
    meta = {"name": name, "namespace": "team", "labels": labels}
    notes = {"fedq.io/local-uid": f"uid-{job}"}
    fake.create(r.PODS, {"metadata": {**meta, "annotations": notes}})
    tell(fake, name, "Running")


def tell(fake: FakeKube, name: str, phase: str, restarts: int = 0) -> None:
    """What the kubelet says of a pod."""
    status = {"phase": phase, "containerStatuses": [{"name": "m", "restartCount": restarts}]}
    fake.merge(r.PODS, name, {"status": status}, "team", status=True)


def outcome(run: Result) -> Json:
    """The only drill of the JSON that was printed."""
    found: Json = json.loads(run.stdout[run.stdout.index("{") :])["drills"][0]
    return found


@pytest.mark.parametrize("name", ["worker-partition", "redis-flushed", "anything"])
def test_what_destroys_is_refused_on_a_real_cluster(fedq: Fedq, name: str) -> None:
    """With those that are allowed."""
    run = fedq("drill", "real", name, "--yes")
    assert run.exit_code == 2
    assert "manager-killed, agent-killed, cordon" in run.output


def test_a_cordon_comes_and_goes_and_moves_nothing(
    fedq: Fedq, kube: Cluster, east: FakeKube, tmp_path: Path
) -> None:
    """A cordon that was there before is put back; a report is written."""
    notes = {"fedq.io/cordon": "repairs"}
    kube.merge(r.MULTIKUEUE_CLUSTERS, "east", {"metadata": {"annotations": notes}})
    run = fedq(*CORDON, "--json", "--html", str(tmp_path / "cordon.html"))
    assert run.exit_code == 0, run.output
    drill = outcome(run)
    assert drill["outcome"] == "passed"
    assert drill["findings"][0]["found"] == "east, attempt 3"
    assert "1 pods of 1 jobs on east ran before" in drill["remarks"][0]
    assert kube.get(r.MULTIKUEUE_CLUSTERS, "east")["metadata"]["annotations"] == notes
    assert "cordon" in (tmp_path / "cordon.html").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cordon_is_undone_by_whoever_ends_the_drill(
    fedq: Fedq, kube: Cluster, east: FakeKube, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """SIGTERM, as Ctrl-C."""
    monkeypatch.setattr(real, "WATCHED_S", 60.0)
    struck = threading.Event()

    def strike() -> None:
        """From another thread, once the command waits."""
        if wait_until(lambda: cordoned(kube), 10):
            struck.set()
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=strike)
    thread.start()
    run = fedq(*CORDON)
    thread.join()
    assert struck.is_set()
    assert run.exit_code == 130
    assert not cordoned(kube)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def cordoned(kube: FakeKube) -> bool:
    """Whether the worker is."""
    notes = kube.get(r.MULTIKUEUE_CLUSTERS, "east")["metadata"].get("annotations") or {}
    return "fedq.io/cordon" in notes


def test_a_manager_is_killed_and_nothing_else_ends(
    fedq: Fedq, kube: Cluster, east: FakeKube
) -> None:
    """Its successor has the same name; a pod that comes to its end meanwhile is no loss."""
    give_pod(east, "b")
    kube.meanwhile = lambda: tell(east, "b", "Succeeded")
    before = kube.get(r.PODS, "m", SPACE)["metadata"]["uid"]
    run = fedq(*KILL, "--json")
    assert run.exit_code == 0, run.output
    assert kube.get(r.PODS, "m", SPACE)["metadata"]["uid"] != before
    assert "2 pods of 1 jobs on east ran before; 0 more" in outcome(run)["remarks"][0]


def anew(east: FakeKube) -> None:
    """Pod a gives way to another one of its name."""
    east.delete(r.PODS, "a", "team")
    give_pod(east, "a")


def moved(kube: FakeKube) -> None:
    """The job is in another attempt."""
    status = {"status": {"fedq": {"cluster": "east", "attempt": 4}}}
    kube.merge(r.WORKLOADS, "train", status, "team", status=True)


@pytest.mark.parametrize("drill", [CORDON, KILL], ids=["cordon", "manager-killed"])
@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (lambda kube, east: moved(kube), "east, attempt 4 (wanted: east, attempt 3)"),
        (lambda kube, east: kube.delete(r.WORKLOADS, "train", "team"), "deleted, or lost"),
        (lambda kube, east: east.delete(r.PODS, "a", "team"), "and are gone: team/a"),
        (lambda kube, east: anew(east), "and are gone: team/a"),
        (lambda kube, east: tell(east, "a", "Failed"), "team/a (Failed)"),
        (lambda kube, east: tell(east, "a", "Running", 2), "team/a (2 times)"),
    ],
    ids=["moved", "vanished", "pod gone", "pod replaced", "pod failed", "container restarted"],
)
def test_what_happens_to_jobs_meanwhile_is_found(
    fedq: Fedq,
    kube: Cluster,
    east: FakeKube,
    drill: tuple[str, ...],
    happens: Callable[[FakeKube, FakeKube], None],
    says: str,
) -> None:
    """In what the worker cluster has, not only in our own statuses."""
    kube.meanwhile = lambda: happens(kube, east)
    run = fedq(*drill, "--json")
    assert run.exit_code == 1
    assert outcome(run)["outcome"] == "failed"
    assert any(says in reason for reason in outcome(run)["reasons"]), outcome(run)["reasons"]


def test_a_job_that_ends_meanwhile_may_take_its_pods_along(
    fedq: Fedq, kube: Cluster, east: FakeKube
) -> None:
    """It finished: its copy is removed."""

    def ends() -> None:
        done = {"conditions": [{"type": "Finished", "status": "True", "reason": "Succeeded"}]}
        kube.merge(r.WORKLOADS, "train", {"status": done}, "team", status=True)
        east.delete(r.PODS, "a", "team")

    kube.meanwhile = ends
    assert fedq(*CORDON).exit_code == 0


def test_pods_that_cannot_be_read_stop_the_drill_before_it_begins(
    fedq: Fedq, kube: Cluster, east: FakeKube
) -> None:
    """What cannot be judged is not done."""
    east.fail(lambda request: True, times=99, status=403)
    run = fedq(*KILL)
    assert run.exit_code == 1
    assert "the pods of cluster east cannot be read" in run.output
    assert not [path for method, path in kube.log if method in ("DELETE", "PATCH")]


@pytest.mark.parametrize(
    ("drill", "says"),
    [(KILL, "delete pod m in fedq-system"), (CORDON, "cordon east, and uncordon it after 0 s")],
)
def test_a_dry_run_says_what_would_be_done(
    fedq: Fedq, kube: Cluster, east: FakeKube, drill: tuple[str, ...], says: str
) -> None:
    """It only reads."""
    run = fedq(*drill, "--dry-run")
    assert run.exit_code == 0, run.output
    assert says in run.output
    assert "1 pods of 1 jobs on east" in run.output
    assert {method for method, _ in kube.log} == {"GET"}


def test_a_dry_run_finds_what_a_drill_would_miss(fedq: Fedq, kube: Cluster, east: FakeKube) -> None:
    """No pod has the label; no such cluster."""
    kube.delete(r.PODS, "m", SPACE)
    run = fedq(*KILL, "--dry-run")
    assert run.exit_code == 1
    assert "app.kubernetes.io/component=manager" in run.output
    assert fedq("drill", "real", "cordon", "--cluster", "west", "--dry-run").exit_code == 1


def test_nothing_is_done_without_a_yes(fedq: Fedq) -> None:
    """The question names the cluster."""
    run = fedq("drill", "real", "cordon", "--cluster", "east", input="n\n")
    assert run.exit_code == 1
    assert "https://fake" in run.output


def test_pods_that_are_not_there_fail_the_drill(
    fedq: Fedq, kube: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is no success."""
    monkeypatch.setattr(real, "BACK_S", 0.0)
    kube.delete(r.PODS, "m", SPACE)
    run = fedq(*KILL)
    assert run.exit_code == 1
    assert "none was found" in run.output
