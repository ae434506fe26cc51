"""Other kinds of jobs than batch/v1 Job, end to end. The tests play the kinds' controllers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation.api.configuration_kinds import ExternalFramework
from federation.api.kinds.row import Row
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import CLUSTER_QUEUES, PODS, WORKLOADS, Resource, resource_of
from federation.jobs.kinds.registry import KINDS
from fedq.stack import Stack
from tests.integration.conftest import Team, flavor, queue_objects
from tests.integration.kind_objects import (
    crd,
    create,
    gone,
    job_set,
    of,
    row,
    say,
    says,
    template,
    until,
)

Json = dict[str, Any]
JOB_SETS = resource_of(row("JobSet"))


@contextlib.asynccontextmanager
async def clients(stack: Stack) -> AsyncIterator[dict[str, KubeClient]]:
    """A client of each cluster, as admin."""
    async with contextlib.AsyncExitStack() as opened:
        found = {}
        for cluster in stack.rig.clusters:
            client = KubeClient(load_endpoint(stack.rig.kubeconfig(cluster)), user_agent="test")
            found[cluster] = await opened.enter_async_context(client)
        yield found


def define(stack: Stack, kind: str) -> Resource:
    """Have all clusters serve a kind."""
    for cluster in stack.rig.clusters:
        stack.apply(cluster, [crd(row(kind))])
    return resource_of(row(kind))


def condition(kind: str, status: str = "True") -> Any:
    return lambda obj: any(
        c["type"] == kind and c["status"] == status
        for c in (obj.get("status") or {}).get("conditions") or ()
    )


async def placed(
    found: dict[str, KubeClient], team: str, attempt: int | None = None
) -> tuple[str, Json]:
    """The cluster that a team's only Workload was admitted on, maybe in that attempt, and it."""

    def admitted(workload: Json) -> bool:
        if not condition("Admitted")(workload):
            return False
        return attempt is None or workload["status"]["fedq"]["attempt"] == attempt

    workload = await until(found["management"], WORKLOADS, (team, ""), admitted)
    return workload["status"]["clusterName"], workload


@pytest.mark.timeout(180)
async def test_a_job_set_runs_on_a_worker_and_comes_back(team: Team) -> None:
    """Suspended and marked on the management cluster, one Workload with a pod set for each of its
    replicated jobs, started on a worker, its whole status back, and its end.
    """
    define(team.stack, "JobSet")
    async with clients(team.stack) as found:
        management, key = found["management"], (team.name, "train")
        made = await create(management, JOB_SETS, job_set("train", team.name))
        assert made["spec"]["suspend"] is True
        assert made["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"

        cluster, workload = await placed(found, team.name)
        sets = {p["name"]: p["count"] for p in workload["spec"]["podSets"]}
        assert sets == {"driver": 1, "workers": 4}
        assert workload["metadata"]["ownerReferences"][0]["kind"] == "JobSet"
        worker = found[cluster]
        copy = await until(worker, JOB_SETS, key, lambda o: o["spec"]["suspend"] is False)
        assert "managedBy" not in copy["spec"]

        status = {"conditions": [says("Suspended", "False")], "restarts": 1}
        await say(worker, JOB_SETS, key, status)
        shown = await until(management, JOB_SETS, key, lambda o: o.get("status"))
        assert shown["status"] == status
        assert shown["spec"]["suspend"] is False

        status = {"conditions": [says("Completed")], "terminalState": "Completed"}
        await say(worker, JOB_SETS, key, status)
        done = await until(management, JOB_SETS, key, condition("Completed"))
        ended = await until(management, WORKLOADS, (team.name, ""), condition("Finished"))
        assert done["status"] == status
        finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
        assert finish["reason"] == "Succeeded"
        assert finish["message"].startswith("Completed it is on cluster")
        await gone(worker, JOB_SETS, key)


@pytest.mark.timeout(180)
async def test_a_job_set_that_is_held_stops_before_its_quota_is_free(team: Team) -> None:
    """Held by its Workload while it runs: the copy goes, and only when it is gone the quota is
    free and the JobSet is as it was submitted, suspended. Released, it runs again.
    """
    define(team.stack, "JobSet")
    async with clients(team.stack) as found:
        management, key = found["management"], (team.name, "train")
        made = await create(management, JOB_SETS, job_set("train", team.name))
        cluster, workload = await placed(found, team.name)
        worker = found[cluster]
        await until(worker, JOB_SETS, key, lambda o: o["spec"]["suspend"] is False)
        # As the controller of the kind does: its Jobs have to be gone first.
        keep = {"metadata": {"finalizers": ["example.invalid/pods"]}}
        await worker.patch(JOB_SETS, "train", keep, team.name)
        await say(worker, JOB_SETS, key, {"conditions": [says("Suspended", "False")]})
        await until(management, JOB_SETS, key, lambda o: o.get("status"))

        name = workload["metadata"]["name"]
        await management.patch(WORKLOADS, name, {"spec": {"active": False}}, team.name)
        await until(worker, JOB_SETS, key, lambda o: "deletionTimestamp" in o["metadata"])
        held = await until(management, WORKLOADS, (team.name, ""), condition("Evicted"))
        assert condition("QuotaReserved")(held)

        await worker.patch(JOB_SETS, "train", {"metadata": {"finalizers": []}}, team.name)
        await until(management, WORKLOADS, (team.name, ""), condition("QuotaReserved", "False"))
        back = await until(management, JOB_SETS, key, lambda o: o["spec"]["suspend"] is True)
        assert back["spec"] == made["spec"]
        back = await until(management, JOB_SETS, key, lambda o: not o.get("status"))

        await management.patch(WORKLOADS, name, {"spec": {"active": True}}, team.name)
        last = found[(await placed(found, team.name, attempt=2))[0]]
        await until(last, JOB_SETS, key, lambda o: o["spec"]["suspend"] is False)
        await management.delete(JOB_SETS, "train", team.name)
        await gone(last, JOB_SETS, key)
        await gone(management, WORKLOADS, (team.name, name))


@pytest.mark.timeout(180)
async def test_flavors_of_the_worker_reach_each_pod_set(team: Team) -> None:
    """Node labels of flavors become node selectors of every template, and go when the worker's own
    queue stops it.
    """
    define(team.stack, "JobSet")
    place = found_place(team)
    async with clients(team.stack) as found:
        worker, key = found["worker-1"], (place, "local")
        made = await create(worker, JOB_SETS, job_set("local", place))
        assert made["spec"]["suspend"] is True
        assert "managedBy" not in made["spec"]
        started = await until(worker, JOB_SETS, key, lambda o: o["spec"]["suspend"] is False)
        for replicated in started["spec"]["replicatedJobs"]:
            pod = replicated["template"]["spec"]["template"]["spec"]
            assert pod["nodeSelector"] == {"zone": "a"}
        await say(worker, JOB_SETS, key, {"conditions": [says("Suspended", "False")]})

        hold = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await worker.patch(CLUSTER_QUEUES, place, hold)
        await until(worker, JOB_SETS, key, lambda o: o["spec"]["suspend"] is True)
        evicted = await until(worker, WORKLOADS, (place, ""), condition("Evicted"))
        assert condition("QuotaReserved")(evicted)
        await say(worker, JOB_SETS, key, {"conditions": [says("Suspended")]})
        await until(worker, WORKLOADS, (place, ""), condition("QuotaReserved", "False"))
        restored = await until(worker, JOB_SETS, key, lambda o: o["spec"] == made["spec"])
        assert "fedq.io/admission" not in restored["metadata"]["annotations"]


def found_place(team: Team) -> str:
    """A queue on worker-1 whose flavor has node labels."""
    name = f"place-{team.name}"
    objects = queue_objects(name, 20)
    queue = next(o for o in objects if o["kind"] == "ClusterQueue")
    queue["spec"]["resourceGroups"][0]["flavors"][0]["name"] = name
    labelled = {**flavor(name), "spec": {"nodeLabels": {"zone": "a"}}}
    team.stack.apply("worker-1", [labelled, *objects])
    return name


def pod(name: str, team: str, *, group: str = "", total: int = 0, cpu: str = "1") -> Json:
    """A pod in the queue of a team, alone or in a group."""
    body = {"apiVersion": "v1", "kind": "Pod", **template(cpu)}
    labels = {"kueue.x-k8s.io/queue-name": team}
    meta: Json = {"name": name, "namespace": team, "labels": labels}
    if group:
        labels["kueue.x-k8s.io/pod-group-name"] = group
        meta["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    return {**body, "metadata": meta}


def gates(obj: Json) -> list[str]:
    return [gate["name"] for gate in obj["spec"].get("schedulingGates") or ()]


@pytest.mark.timeout(180)
async def test_a_group_of_pods_runs_on_one_worker(team: Team) -> None:
    """Its pods keep their gate on the management cluster, the copies are let go together, and what
    becomes of each is shown on it; the Workload ends when all have.
    """
    async with clients(team.stack) as found:
        management, names = found["management"], ("g-a", "g-b", "g-c")
        for name, cpu in zip(names, ("1", "1", "2"), strict=True):
            made = await management.create(PODS, pod(name, team.name, group="g", total=3, cpu=cpu))
            assert gates(made) == ["kueue.x-k8s.io/admission"]
        cluster, workload = await placed(found, team.name)
        assert sorted(p["count"] for p in workload["spec"]["podSets"]) == [1, 2]
        worker = found[cluster]
        for name in names:
            await until(worker, PODS, (team.name, name), lambda o: not gates(o))
        for name in names:
            ended = {"phase": "Succeeded", "reason": name}
            await say(worker, PODS, (team.name, name), ended)
        await until(management, WORKLOADS, (team.name, ""), condition("Finished"))
        for name in names:
            shown = await management.get(PODS, name, team.name)
            assert (shown["status"]["phase"], shown["status"]["reason"]) == ("Succeeded", name)
            assert gates(shown) == ["kueue.x-k8s.io/admission"]
            await gone(worker, PODS, (team.name, name))


@pytest.mark.timeout(180)
async def test_a_pod_takes_the_place_of_one_that_failed(team: Team) -> None:
    """It is made where its group runs, and let go there; one too many, and one that asks for
    something else, keep their gate at home. The group ends when as many as belong to it have
    succeeded, in one attempt.
    """

    def member(name: str, cpu: str = "1") -> Json:
        made = pod(name, team.name, group="g", total=2, cpu=cpu)
        made["spec"]["restartPolicy"] = "Always"  # the test ends it, not the rig
        return made

    async with clients(team.stack) as found:
        management = found["management"]

        async def ends(name: str, phase: str) -> None:
            key = (team.name, name)
            await until(worker, PODS, key, lambda o: o["status"]["phase"] == "Running")
            await say(worker, PODS, key, {"phase": phase})
            await until(management, PODS, key, lambda o: o["status"]["phase"] == phase)

        for name in ("g-a", "g-b"):
            await management.create(PODS, member(name))
        cluster, workload = await placed(found, team.name)
        worker = found[cluster]
        await ends("g-a", "Failed")
        await management.create(PODS, member("g-large", cpu="2"))
        await management.create(PODS, member("a-new"))
        await until(worker, PODS, (team.name, "a-new"), lambda o: not gates(o))
        await management.create(PODS, member("g-more"))
        await ends("a-new", "Succeeded")
        await ends("g-b", "Succeeded")
        ended = await until(management, WORKLOADS, (team.name, ""), condition("Finished"))
        assert ended["metadata"]["uid"] == workload["metadata"]["uid"]
        assert ended["status"]["fedq"]["attempt"] == 1
        finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
        assert finish["reason"] == "Succeeded"
        phases = {}
        for name in ("g-a", "g-b", "a-new", "g-large", "g-more"):
            shown = await management.get(PODS, name, team.name)
            phases[name] = shown["status"]["phase"]
            assert gates(shown) == ["kueue.x-k8s.io/admission"]
        assert phases == {
            "g-a": "Failed",
            "g-b": "Succeeded",
            "a-new": "Succeeded",
            "g-large": "Pending",
            "g-more": "Pending",
        }
        for name in ("g-a", "g-b", "a-new"):
            await gone(worker, PODS, (team.name, name))


@pytest.mark.timeout(180)
async def test_a_pod_that_is_held_is_deleted_on_the_worker(team: Team) -> None:
    """Held while it runs: its copy goes, the quota is free, and it waits for its gate again."""
    async with clients(team.stack) as found:
        management, key = found["management"], (team.name, "alone")
        await management.create(PODS, pod("alone", team.name))
        cluster, workload = await placed(found, team.name)
        await until(found[cluster], PODS, key, lambda o: not gates(o))
        await say(found[cluster], PODS, key, {"phase": "Running"})
        await until(management, PODS, key, lambda o: o["status"]["phase"] == "Running")

        name = workload["metadata"]["name"]
        await management.patch(WORKLOADS, name, {"spec": {"active": False}}, team.name)
        await gone(found[cluster], PODS, key)
        await until(management, WORKLOADS, (team.name, ""), condition("QuotaReserved", "False"))
        await until(management, PODS, key, lambda o: o["status"]["phase"] == "Pending")

        await management.patch(WORKLOADS, name, {"spec": {"active": True}}, team.name)
        last = found[(await placed(found, team.name, attempt=2))[0]]
        await until(last, PODS, key, lambda o: not gates(o))
        await management.delete(PODS, "alone", team.name)
        await gone(last, PODS, key)
        await gone(management, WORKLOADS, (team.name, name))


@pytest.mark.timeout(180)
async def test_a_py_torch_job_runs_and_fails(team: Team) -> None:
    """Suspended and managed by its run policy; its failure is that of the Workload."""
    resource = define(team.stack, "PyTorchJob")
    replicas = {
        "Master": {"template": template()},
        "Worker": {"replicas": 2, "template": template()},
    }
    body = of(row("PyTorchJob"), "torch", team.name, {"pytorchReplicaSpecs": replicas})
    async with clients(team.stack) as found:
        management, key = found["management"], (team.name, "torch")
        made = await create(management, resource, body)
        assert made["spec"]["runPolicy"] == {
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
        }
        cluster, workload = await placed(found, team.name)
        sets = {p["name"]: p["count"] for p in workload["spec"]["podSets"]}
        assert sets == {"master": 1, "worker": 2}
        worker = found[cluster]
        copy = await until(worker, resource, key, lambda o: not o["spec"]["runPolicy"]["suspend"])
        assert copy["spec"]["runPolicy"] == {"suspend": False}
        await say(worker, resource, key, {"conditions": [says("Failed")]})
        await until(management, resource, key, condition("Failed"))
        ended = await until(management, WORKLOADS, (team.name, ""), condition("Finished"))
        finish = next(c for c in ended["status"]["conditions"] if c["type"] == "Finished")
        assert finish["reason"] == "Failed"
        assert finish["message"].startswith("Failed it is")


CRUNCH: Json = {
    "name": "Crunch.v1.example.com",
    "plural": "crunches",
    "suspend": "spec.paused",
    "podSets": [{"at": "spec.steps[*]", "nameFrom": "name", "count": ["width"]}],
    "status": {
        "complete": [{"field": "status.phase", "values": ["Done"]}],
        "active": ["status.pods"],
    },
}


@pytest.fixture
def configured(team: Team, tmp_path: Path) -> Iterator[Row]:
    """The programs with a Configuration that adds a kind, until the end of the test."""
    stack, config = team.stack, tmp_path / "configuration.yaml"
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    body = {**head, "multiKueue": {"externalFrameworks": [CRUNCH]}}
    config.write_text(yaml.safe_dump(body))
    stack.start(config=config)
    try:
        yield ExternalFramework.model_validate(CRUNCH).row()
    finally:
        stack.stop()
        (stack.rig.data_dir("configuration") / "configuration.yaml").unlink()
        stack.start()


@pytest.mark.timeout(240)
async def test_a_kind_by_configuration_is_picked_up_when_its_crd_appears(
    team: Team, configured: Row
) -> None:
    """The configuration names its fields; the programs run before any cluster serves it."""
    crunch, stack = configured, team.stack
    for cluster in stack.rig.clusters:
        granted = may_handle(management=cluster == stack.rig.management)
        stack.apply(cluster, [crd(crunch), *granted])
    resource = resource_of(crunch)
    steps = [
        {"name": "one", "template": template()},
        {"name": "two", "width": 3, "template": template()},
    ]
    spec = {"paused": True, "managedBy": "kueue.x-k8s.io/multikueue", "steps": steps}
    async with clients(stack) as found:
        management, key = found["management"], (team.name, "crunch")
        await create(management, resource, of(crunch, "crunch", team.name, spec))
        cluster, workload = await placed(found, team.name)
        assert [p["count"] for p in workload["spec"]["podSets"]] == [1, 3]
        await until(found[cluster], resource, key, lambda o: o["spec"]["paused"] is False)
        await say(found[cluster], resource, key, {"phase": "Done"})
        done = await until(management, resource, key, lambda o: o.get("status"))
        assert done["status"] == {"phase": "Done"}
        await until(management, WORKLOADS, (team.name, ""), condition("Finished"))


def may_handle(*, management: bool) -> list[Json]:
    """What people grant for a kind of their own; see docs/kinds.md."""
    accounts = ["fedq-manager"] if management else ["fedq-mirror", "fedq-agent"]
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "fedq-crunches"}}
    resources = ["crunches", "crunches/status", "crunches/finalizers"]
    rule = {"apiGroups": ["example.com"], "resources": resources, "verbs": ["*"]}
    subjects = [
        {"kind": "ServiceAccount", "name": name, "namespace": "fedq-system"} for name in accounts
    ]
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "fedq-crunches"}
    return [
        {**head, "kind": "ClusterRole", "rules": [rule]},
        {**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects},
    ]


@pytest.mark.timeout(180)
async def test_a_stateful_set_runs_as_a_whole_on_a_worker(team: Team) -> None:
    """At home its pods wait for a gate for good; its copy has no pods until it is admitted."""
    resource = resource_of(KINDS["StatefulSet.v1.apps"])
    pods = {**template(), "metadata": {"labels": {"app": "db"}}}
    pods["spec"]["restartPolicy"] = "Always"
    spec = {
        "replicas": 2,
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "db"}},
        "template": pods,
    }
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": spec}
    labels = {"kueue.x-k8s.io/queue-name": team.name}
    body["metadata"] = {"name": "db", "namespace": team.name, "labels": labels}
    async with clients(team.stack) as found:
        management, key = found["management"], (team.name, "db")
        made = await management.create(resource, body)
        assert gates(made["spec"]["template"]) == ["kueue.x-k8s.io/admission"]
        cluster, workload = await placed(found, team.name)
        assert workload["spec"]["podSets"][0]["count"] == 2
        worker = found[cluster]
        copy = await until(worker, resource, key, lambda o: o["spec"]["replicas"] == 2)
        assert gates(copy["spec"]["template"]) == []
        await management.delete(resource, "db", team.name)
        await gone(worker, resource, key)
