"""`fedq cluster` and `fedq move`: orders that are written, previews, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from federation.api.access import agent_access, cluster_registration
from federation.api.names import FEDQ_NAMESPACE, FENCED, Lease, Mirror, Order
from federation.edge import resources as r
from federation.edge.resources import Resource
from fedq.commands import cluster as cluster_commands
from fedq.leaving import _resource
from tests.fakes.kube_api import BUILT_IN, CUSTOM, FakeKube
from tests.unit.fedq.conftest import (
    AT,
    RUNNING,
    WAITING,
    condition,
    give_cluster,
    give_job,
    running,
)

Json = dict[str, Any]
Fedq = Callable[..., Result]

ROLES = [
    Resource("", "v1", "serviceaccounts"),
    Resource("rbac.authorization.k8s.io", "v1", "roles"),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings"),
]


@pytest.fixture
def kube() -> FakeKube:
    """A management cluster with three workers; the agent of `east` renews its Lease."""
    fake = FakeKube([*BUILT_IN, *CUSTOM, *ROLES], namespaces=("default", "team", "fedq-system"))
    for name in ("east", "west", "north"):
        give_cluster(fake, name, status="True", reason="Active")
    stands(fake, "east", "Ready", holder="agent", epoch=1)
    return fake


def stands(kube: FakeKube, cluster: str, phase: str, *, holder: str, epoch: int) -> None:
    """The phase that the manager shows, and the Lease behind it."""
    kube.merge(r.MULTIKUEUE_CLUSTERS, cluster, {"status": {"fedq": {"phase": phase}}}, status=True)
    meta = {
        "name": cluster,
        "namespace": "fedq-system",
        "annotations": {Mirror.EPOCH.value: str(epoch)},
    }
    body: Json = {"kind": "Lease", "metadata": meta, "spec": {"holderIdentity": holder}}
    if any(lease["metadata"]["name"] == cluster for lease in kube.items(r.LEASES)):
        kube.merge(r.LEASES, cluster, body, "fedq-system")
    else:
        kube.create(r.LEASES, body)


def bind(kube: FakeKube, name: str, policy: str = "stop", *, started: bool = True) -> None:
    """A job on east, attempt 2."""
    fedq = {**RUNNING["fedq"], "policy": policy}
    status = {**RUNNING, "fedq": fedq}
    if not started:
        status["conditions"] = [condition("QuotaReserved", "True")]
    give_job(kube, name, workload=status, status=running() if started else None)


def notes(kube: FakeKube, cluster: str = "east") -> Json:
    found: Json = kube.get(r.MULTIKUEUE_CLUSTERS, cluster)["metadata"].get("annotations") or {}
    return found


def report(result: Result) -> Json:
    assert result.exit_code == 0, result.output
    found: Json = json.loads(result.stdout)
    return found


def becomes(result: Result) -> dict[str, str]:
    return {job["name"]: job["becomes"] for job in report(result)["jobs"]}


# Cordon


def test_cordon_and_back(fedq: Fedq, kube: FakeKube) -> None:
    """The reason is kept; a second cordon without one does not lose it."""
    result = fedq("cluster", "cordon", "east", "--reason", "new cards")
    assert result.exit_code == 0
    assert "gets no new work" in result.stdout
    assert notes(kube) == {Order.CORDON.value: "new cards"}
    assert fedq("cluster", "cordon", "east").exit_code == 0
    assert notes(kube) == {Order.CORDON.value: "new cards"}
    assert "gets new work again" in fedq("cluster", "uncordon", "east").stdout
    assert notes(kube) == {}
    assert "was not cordoned" in fedq("cluster", "uncordon", "east").stdout


def test_uncordon_ends_a_drain(fedq: Fedq, kube: FakeKube) -> None:
    """Else jobs would come and be sent away at once."""
    assert fedq("cluster", "drain", "east", "--now").exit_code == 0
    assert notes(kube) == {Order.CORDON.value: "being drained", Order.DRAIN.value: "now"}
    assert fedq("cluster", "uncordon", "east").exit_code == 0
    assert notes(kube) == {}


@pytest.mark.parametrize(
    "command",
    [
        ("cluster", "cordon"),
        ("cluster", "uncordon"),
        ("cluster", "drain"),
        ("cluster", "fence", "confirm"),
        ("cluster", "leave"),
    ],
)
def test_unknown_cluster(fedq: Fedq, command: tuple[str, ...]) -> None:
    """With the names that come close, or all of them."""
    result = fedq(*command, "eats")
    assert result.exit_code == 1
    assert "there is no cluster eats\ndid you mean east" in result.stderr
    assert "there are: east, north, west" in fedq(*command, "zzz").stderr


# Drain


@pytest.mark.parametrize("policy", ["stop", "keep", "duplicate-ok"])
def test_preview_of_a_drain(fedq: Fedq, kube: FakeKube, policy: str) -> None:
    """What becomes of each job, and where they could go; nothing is written."""
    bind(kube, "runs", policy)
    bind(kube, "offered", policy, started=False)
    give_job(kube, "waits", workload=WAITING)
    fedq("cluster", "cordon", "west")
    result = fedq("cluster", "drain", "east", "--now", "--dry-run")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "if it were done now" in lines[0]
    assert [line.split()[1] for line in lines[2:4]] == ["offered", "runs"]
    assert f"2         {policy}" in lines[3]
    assert "clusters that take new work now: north." in result.stdout
    assert notes(kube) == {}

    found = becomes(fedq("cluster", "drain", "east", "--now", "--dry-run", "-o", "json"))
    assert found["offered"].startswith("its offer is taken back")
    told = {
        "stop": "is stopped there, queues again, runs elsewhere",
        "keep": "is stopped there, queues again, runs elsewhere (`keep` is about silence; this is"
        " your order)",
        "duplicate-ok": "starts elsewhere first, is stopped there then",
    }
    assert found["runs"] == told[policy]
    found = becomes(fedq("cluster", "drain", "east", "--dry-run", "-o", "json"))
    assert found["runs"] == "runs to its end there"


def test_preview_for_a_silent_cluster(fedq: Fedq, kube: FakeKube) -> None:
    """Nothing can be stopped there now."""
    bind(kube, "runs")
    stands(kube, "east", "Suspect", holder="agent", epoch=1)
    found = becomes(fedq("cluster", "drain", "east", "--now", "--dry-run", "-o", "json"))
    assert found["runs"].startswith("not touched while the cluster is silent")


def test_nowhere_to_go(fedq: Fedq, kube: FakeKube) -> None:
    """The preview says that they would wait."""
    bind(kube, "runs")
    for name in ("west", "north"):
        fedq("cluster", "cordon", name)
    result = fedq("cluster", "drain", "east", "--now", "--dry-run")
    assert "no other cluster takes new work now" in result.stdout


def test_waiting_for_a_drain(fedq: Fedq, kube: FakeKube) -> None:
    """How many are left is told; when the time is over the order stands."""
    bind(kube, "runs")
    result = fedq("cluster", "drain", "east", "--now", "--wait", "--timeout", "0.2")
    assert result.exit_code == 1
    assert "1 job is still bound to east" in result.stderr
    assert "the order stands" in result.stderr
    assert notes(kube)[Order.DRAIN.value] == "now"
    kube.delete(r.JOBS, "runs", "default")
    result = fedq("cluster", "drain", "east", "--now", "--wait", "--timeout", "5")
    assert result.exit_code == 0
    assert "nothing is bound to east any more" in result.stdout


# Fence


@pytest.mark.parametrize("phase", ["Ready", "Suspect"])
def test_no_confirmation_without_a_fence(fedq: Fedq, kube: FakeKube, phase: str) -> None:
    """As long as the agent can renew, nothing is certain; what to do is said."""
    stands(kube, "east", phase, holder="agent", epoch=1)
    result = fedq("cluster", "fence", "confirm", "east", "--yes")
    assert result.exit_code == 1
    assert "cluster east is not fenced" in result.stderr
    todo = {"Ready": "stop the cluster first", "Suspect": "Wait until the manager has fenced it"}
    assert todo[phase] in result.stderr
    assert notes(kube) == {}


def test_confirm(fedq: Fedq, kube: FakeKube) -> None:
    """The epoch of the fence is written, with the evidence; jobs of every policy run elsewhere."""
    bind(kube, "kept", "keep")
    stands(kube, "east", "Fenced", holder=FENCED, epoch=4)
    words = ("cluster", "fence", "confirm", "east", "--evidence", "power off, ticket 7")
    assert becomes(fedq(*words, "--dry-run", "-o", "json")) == {
        "kept": "runs again elsewhere, as attempt 3"
    }
    assert notes(kube) == {}
    refused = fedq(*words, input="n\n")
    assert refused.exit_code == 1
    assert "would run twice" in refused.stderr
    assert notes(kube) == {}
    assert fedq(*words, input="y\n").exit_code == 0
    expected = {
        Order.FENCE_CONFIRMED.value: "4",
        Order.FENCE_EVIDENCE.value: "power off, ticket 7",
    }
    assert notes(kube) == expected


def test_confirm_what_another_cluster_of_the_name_had(fedq: Fedq, kube: FakeKube) -> None:
    """Its agent renews; what is bound since it has the name is not meant."""
    bind(kube, "kept", "keep")
    stands(kube, "east", "Ready", holder="agent", epoch=4)
    owner = {"metadata": {"annotations": {Lease.OWN_SINCE.value: "3"}}}
    kube.merge(r.LEASES, "east", owner, FEDQ_NAMESPACE)
    assert fedq("cluster", "fence", "confirm", "east", "--yes").exit_code == 0
    assert notes(kube) == {Order.FENCE_CONFIRMED.value: "3"}


# Leave


def join(kube: FakeKube, cluster: str) -> list[Json]:
    """What joining makes, beside the MultiKueueCluster that is there."""
    made = [*agent_access(cluster), *cluster_registration(cluster, "x")]
    for obj in made:
        if obj["kind"] != "MultiKueueCluster":
            kube.create(_resource(obj), obj)
    source = {"kubeConfig": {"location": f"{cluster}-kubeconfig"}}
    kube.merge(r.MULTIKUEUE_CLUSTERS, cluster, {"spec": {"clusterSource": source}})
    return made


def left(kube: FakeKube, made: list[Json]) -> list[str]:
    """The kinds of those that are still there."""

    def there(obj: Json) -> bool:
        names = [item["metadata"]["name"] for item in kube.items(_resource(obj))]
        return obj["metadata"]["name"] in names

    return [obj["kind"] for obj in made if there(obj)]


def test_leave(fedq: Fedq, kube: FakeKube) -> None:
    """All that joining made is gone; the Lease stays, for its epoch; who still names it is told."""
    made = join(kube, "east")
    spec = {"clusters": ["east", "west"]}
    kube.create(r.MULTIKUEUE_CONFIGS, {"metadata": {"name": "all"}, "spec": spec})
    preview = fedq("cluster", "leave", "east", "--dry-run")
    assert "no jobs are bound to east" in preview.stdout
    assert "MultiKueueCluster east, RoleBinding agent-east" in preview.stdout
    assert len(left(kube, made)) == len(made)
    result = fedq("cluster", "leave", "east")
    assert result.exit_code == 0
    assert "MultiKueueConfig all still names it" in result.stdout
    assert left(kube, made) == []
    assert [lease["metadata"]["name"] for lease in kube.items(r.LEASES)] == ["east"]
    assert [c["metadata"]["name"] for c in kube.items(r.MULTIKUEUE_CLUSTERS)] == ["north", "west"]


def test_a_secret_of_others_stays(fedq: Fedq, kube: FakeKube) -> None:
    """Only the one that joining makes is deleted."""
    kube.create(r.SECRETS, {"metadata": {"name": "s", "namespace": "fedq-system"}})
    assert fedq("cluster", "leave", "east").exit_code == 0
    assert [s["metadata"]["name"] for s in kube.items(r.SECRETS)] == ["s"]


@pytest.mark.parametrize("phase", ["Ready", "Lost"])
def test_leave_is_refused(fedq: Fedq, kube: FakeKube, phase: str) -> None:
    """While jobs are bound there; how to move them, and what --force would cost."""
    bind(kube, "runs")
    bind(kube, "kept", "keep")
    stands(kube, "east", phase, holder="agent", epoch=1)
    result = fedq("cluster", "leave", "east")
    assert result.exit_code == 2
    assert "2 jobs still bound to cluster east\ndefault/kept, default/runs" in result.stderr
    first = {"Ready": "`fedq cluster drain east --now --wait`", "Lost": "It is silent"}
    assert first[phase] in result.stderr
    assert "only when the fence holds" in result.stderr
    assert "1 job with policy keep would wait until somebody confirms" in result.stderr
    assert notes(kube) == {}


def test_a_job_is_bound_in_the_moment_before_a_cluster_leaves(fedq: Fedq, kube: FakeKube) -> None:
    """It is refused, and the cluster gets work as before."""

    def binds(found: r.Resource, old: Json | None, new: Json) -> None:
        kube.admit = lambda *_: None
        bind(kube, "just-bound")

    kube.admit = binds
    result = fedq("cluster", "leave", "east")
    assert result.exit_code == 2
    assert "default/just-bound" in result.stderr
    assert not any(notes(kube).values())


def test_leave_by_force(fedq: Fedq, kube: FakeKube) -> None:
    """The preview says for each job what is lost."""
    bind(kube, "runs")
    bind(kube, "kept", "keep")
    words = ("cluster", "leave", "east", "--force")
    found = becomes(fedq(*words, "--dry-run", "-o", "json"))
    assert "runs again elsewhere when its agent has certainly stopped it" in found["runs"]
    assert "waits until it is confirmed" in found["kept"]
    result = fedq(*words)
    assert result.exit_code == 0
    assert "1 job with policy keep, which nothing starts elsewhere by itself:" in result.stdout
    assert "\n  default/kept\n" in result.stdout
    assert "default/runs" not in result.stdout
    assert "\n  fedq cluster fence confirm east --evidence" in result.stdout
    assert "east" not in there(kube)


def there(kube: FakeKube) -> list[str]:
    return [c["metadata"]["name"] for c in kube.items(r.MULTIKUEUE_CLUSTERS)]


def lease_notes(kube: FakeKube) -> Json:
    found: Json = kube.get(r.LEASES, "east", "fedq-system")["metadata"]["annotations"]
    return found


def test_a_cluster_that_has_left_can_be_confirmed(fedq: Fedq, kube: FakeKube) -> None:
    """By the very command that `leave --force` tells; on what stays of it."""
    bind(kube, "kept", "keep")
    assert fedq("cluster", "leave", "east", "--force").exit_code == 0
    words = ("cluster", "fence", "confirm", "east", "--evidence", "power off", "--yes")
    early = fedq(*words)
    assert early.exit_code == 1
    assert "cluster east is not fenced" in early.stderr
    kube.merge(
        r.LEASES,
        "east",
        {
            "metadata": {"annotations": {Mirror.EPOCH.value: "2"}},
            "spec": {"holderIdentity": FENCED},
        },
        "fedq-system",
    )
    bind_again = becomes(fedq(*words, "--dry-run", "-o", "json"))
    assert bind_again == {"kept": "runs again elsewhere, as attempt 3"}
    assert fedq(*words).exit_code == 0
    assert lease_notes(kube)[Lease.CONFIRMED_BELOW.value] == "2"
    assert lease_notes(kube)[Order.FENCE_EVIDENCE.value] == "power off"


def test_no_such_cluster_and_none_that_has_left(fedq: Fedq) -> None:
    result = fedq("cluster", "fence", "confirm", "easd", "--yes")
    assert result.exit_code == 1
    assert "there is no cluster easd" in result.stderr


def test_leave_a_cluster_that_is_dead(fedq: Fedq, kube: FakeKube) -> None:
    """The fence is confirmed and the cluster taken out in one go: nobody waits for it."""
    bind(kube, "kept", "keep")
    words = ("cluster", "leave", "east", "--force", "--dead", "--evidence", "burnt down")
    alive = fedq(*words, "--yes")
    assert alive.exit_code == 1
    assert "cluster east is not fenced" in alive.stderr
    assert "east" in there(kube)
    stands(kube, "east", "Lost", holder=FENCED, epoch=4)
    preview = fedq(*words, "--dry-run", "-o", "json")
    assert becomes(preview) == {"kept": "runs again elsewhere, as attempt 3"}
    assert Lease.CONFIRMED_BELOW.value not in lease_notes(kube)
    result = fedq(*words, input="y\n")
    assert result.exit_code == 0
    assert "would run twice" in result.stderr
    assert "fence confirm" not in result.stdout
    assert lease_notes(kube)[Lease.CONFIRMED_BELOW.value] == "4"
    assert lease_notes(kube)[Order.FENCE_EVIDENCE.value] == "burnt down"
    assert "east" not in there(kube)


def test_whoever_is_asked_and_says_no_lets_the_jobs_wait(
    fedq: Fedq, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a person is asked, and only of a cluster that is fenced."""
    bind(kube, "kept", "keep")
    stands(kube, "east", "Lost", holder=FENCED, epoch=4)
    monkeypatch.setattr(cluster_commands, "_asks", lambda found: True)
    result = fedq("cluster", "leave", "east", "--force", input="n\n")
    assert result.exit_code == 0
    assert "Is it certain that nothing runs there?" in result.stderr
    assert "fedq cluster fence confirm east" in result.stdout
    assert Lease.CONFIRMED_BELOW.value not in lease_notes(kube)
    assert "east" not in there(kube)


def test_dead_needs_force(fedq: Fedq, kube: FakeKube) -> None:
    result = fedq("cluster", "leave", "east", "--dead")
    assert result.exit_code == 2
    assert "Give --force as well" in result.stderr


def test_a_lease_that_is_written_meanwhile_is_not_called_dead(fedq: Fedq, kube: FakeKube) -> None:
    """Its agent may be back."""
    bind(kube, "kept", "keep")
    stands(kube, "east", "Lost", holder=FENCED, epoch=4)

    def back(request: Any) -> bool:
        if request.method == "PATCH" and "/leases/" in request.url.path:
            kube.merge(r.LEASES, "east", {"spec": {"holderIdentity": "agent"}}, "fedq-system")
        return False

    kube.fail(back, times=10**6)
    result = fedq("cluster", "leave", "east", "--force", "--dead", "--yes")
    assert result.exit_code == 1
    assert "the Lease of east was written meanwhile" in result.stderr
    assert Lease.CONFIRMED_BELOW.value not in lease_notes(kube)
    assert "east" in there(kube)


def test_an_agent_that_is_back_before_the_jobs_are_shown(fedq: Fedq, kube: FakeKube) -> None:
    """What was read of the fence before that does not count."""
    bind(kube, "kept", "keep")
    stands(kube, "east", "Lost", holder=FENCED, epoch=4)
    reads: list[str] = []

    def back(request: Any) -> bool:
        if request.method == "GET" and request.url.path.endswith("/leases/east"):
            reads.append(request.url.path)
            if len(reads) == 2:
                kube.merge(r.LEASES, "east", {"spec": {"holderIdentity": "agent"}}, "fedq-system")
        return False

    kube.fail(back, times=10**6)
    result = fedq("cluster", "leave", "east", "--force", "--dead", "--yes")
    assert len(reads) == 2
    assert result.exit_code == 1
    assert "cluster east is not fenced" in result.stderr
    assert Lease.CONFIRMED_BELOW.value not in lease_notes(kube)
    assert "east" in there(kube)


# Move


def target(kube: FakeKube, name: str) -> str | None:
    found = kube.get(r.WORKLOADS, f"job-{name}", "default")["metadata"].get("annotations") or {}
    value: str | None = found.get(Order.MOVE_TO.value)
    return value


def test_move(fedq: Fedq, kube: FakeKube) -> None:
    """The order is on the Workload; it can be taken back."""
    bind(kube, "runs")
    preview = fedq("move", "runs", "--to", "west", "--dry-run")
    assert "is stopped on east" in preview.stdout
    assert "runs on west as attempt 3" in preview.stdout
    assert "nothing was done" in preview.stdout
    assert target(kube, "runs") is None
    assert fedq("move", "runs", "--to", "west").exit_code == 0
    assert target(kube, "runs") == "west"
    assert "it was to run on west" in fedq("move", "runs", "--cancel").stdout
    assert target(kube, "runs") is None


def test_move_of_one_that_waits(fedq: Fedq, kube: FakeKube) -> None:
    """And of one that may run twice, and of one that is there already."""
    give_job(kube, "waits", workload=WAITING)
    bind(kube, "twice", "duplicate-ok")
    found = report(fedq("move", "waits", "--to", "west", "-o", "json"))
    assert (found["from"], found["to"], found["dryRun"]) == ("", "west", False)
    assert "when there is room for it on west" in found["message"]
    assert "until the new copy runs" in fedq("move", "twice", "--to", "west", "--dry-run").stdout
    assert "is on east already" in fedq("move", "twice", "--to", "east", "--dry-run").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs",), "exactly one of --to CLUSTER and --cancel"),
        (("runs", "--to", "west", "--cancel"), "exactly one of --to CLUSTER and --cancel"),
        (("runs", "--to", "wset"), "did you mean west"),
        (("nobody", "--to", "west"), "there is no job nobody"),
        (("over", "--to", "west"), "it has ended: Complete"),
        (("new", "--to", "west"), "it has no Workload yet"),
        (("runs", "--to", "north"), "it is cordoned: new cards"),
    ],
)
def test_what_cannot_be_moved(
    fedq: Fedq, kube: FakeKube, words: tuple[str, ...], said: str
) -> None:
    """Refused with the reason; nothing is written."""
    bind(kube, "runs")
    ended = [condition("SuccessCriteriaMet", "True"), condition("Complete", "True")]
    done = {"conditions": ended, "startTime": AT, "completionTime": AT}
    give_job(kube, "over", workload=RUNNING, status=done)
    give_job(kube, "new")
    fedq("cluster", "cordon", "north", "--reason", "new cards")
    result = fedq("move", *words)
    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert target(kube, "runs") is None
