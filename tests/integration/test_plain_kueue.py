"""A worker cluster that runs Kueue itself (its own manager, webhooks, roles and CRDs), and no agent
of ours: with the newest Kueue that we know and with an older one.

Skipped where these were not built: `fedq rig binaries --kueue` does it.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from federation.api.access import cluster_registration
from federation.api.names import Label, Mirror, Trait
from federation.core.failover import OnDisconnect
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import JOBS, PODS, WORKLOADS
from fedq.rig import controllers
from fedq.rig.operators import KUEUES, Controller
from fedq.rig.rig import Rig
from fedq.stack import DEPLOY, Stack
from tests.integration.conftest import Team, flavor, own_rig, queue_objects
from tests.integration.test_dispatch import condition, gone, until

Json = dict[str, Any]
PLAIN, OTHER = "worker-1", "worker-2"
pytestmark = [pytest.mark.rig, pytest.mark.timeout(400)]


class PlainStack(Stack):
    """`worker-1` is run by Kueue."""

    def __init__(self, rig: Rig, kueue: Controller) -> None:
        super().__init__(rig)
        self.kueue = kueue

    def _apply_base(self, cluster: str) -> None:
        if cluster != PLAIN:
            super()._apply_base(cluster)
            return
        controllers.run(self.rig, cluster, self.kueue)
        base = str(DEPLOY / "kustomize" / "worker-kueue")
        self.rig.kubectl(cluster, "apply", "--server-side", "-k", base)

    def _join(self, worker: str) -> None:
        if worker != PLAIN:
            super()._join(worker)
            return
        secret, cluster = cluster_registration(
            worker, self._service_kubeconfig(worker, "fedq-mirror")
        )
        cluster["metadata"]["annotations"] = {Trait.AGENT.value: "none"}
        self.apply(self.rig.management, [secret, cluster])

    def start_manager(self, *args: Any, **settings: str) -> None:
        super().start_manager(*args, **settings, FEDQ_WORKER_LOST_S="15")

    def start_agent(self, worker: str, config: Path | None = None) -> None:
        if worker != PLAIN:
            super().start_agent(worker, config)


@pytest.fixture(scope="module", params=KUEUES, ids=lambda one: one.group.version)
def plain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlainStack]:
    """A rig of its own: one worker runs Kueue, the other one our agent."""
    kueue: Controller = request.param
    if not controllers.is_built(kueue):
        pytest.skip(f"{kueue.name} was not built: run `fedq rig binaries --kueue`")
    with own_rig(kueue.name.replace(".", "-"), tmp_path_factory) as found:
        found.up(workers=2, nodes=1)
        stack = PlainStack(found, kueue)
        stack.install()
        for cluster in found.clusters:
            stack.apply(cluster, [flavor()])
        stack.start(runtime="in-process")
        yield stack
        stack.stop()


def team(stack: Stack, name: str, here: int, there: int) -> Team:
    """A team with so many cores on the cluster that Kueue runs, and on the other one."""
    name = f"{name}-{uuid.uuid4().hex[:6]}"
    for cluster, cpu in ((stack.rig.management, 40), (PLAIN, here), (OTHER, there)):
        stack.apply(cluster, queue_objects(name, cpu))
    return Team(stack, name)


def client(stack: Stack, cluster: str) -> KubeClient:
    return KubeClient(load_endpoint(stack.rig.kubeconfig(cluster)))


async def offered(there: KubeClient, team: Team) -> list[str]:
    """The Jobs that have a Workload there which was offered."""
    found = (await there.list(WORKLOADS, team.name)).items
    notes = [one["metadata"].get("annotations") or {} for one in found]
    return [one[Mirror.JOB.value] for one in notes if Mirror.JOB.value in one]


async def test_a_job_runs_there_and_comes_back(plain: Stack) -> None:
    """Kueue admits the Workload, then starts the Job; status and end come back, both go."""
    ours = team(plain, "plain", here=20, there=0)
    async with client(plain, "management") as home, client(plain, PLAIN) as there:
        await home.create(JOBS, ours.job("one", seconds=2))
        running = await until(there, JOBS, ours.name, "one", lambda o: not o["spec"]["suspend"])
        name = running["metadata"]["labels"][Label.PREBUILT_WORKLOAD_NAME.value]
        record = await until(home, WORKLOADS, ours.name, name, condition("Admitted"))
        assert record["status"]["fedq"]["cluster"] == PLAIN
        assert record["status"]["fedq"]["policy"] == OnDisconnect.DUPLICATE_OK
        theirs = await there.get(WORKLOADS, name, ours.name)
        assert condition("Admitted")(theirs)
        assert theirs["metadata"]["ownerReferences"][0]["name"] == "one"
        job = await until(home, JOBS, ours.name, "one", condition("Complete"))
        assert job["status"]["succeeded"] == 1
        await until(home, WORKLOADS, ours.name, name, condition("Finished"))
        await gone(there, ours.name, "one")
        await gone(there, ours.name, name, WORKLOADS)


async def test_a_stop_job_is_not_placed_there(plain: Stack) -> None:
    """With the reason, though there is room."""
    ours = team(plain, "stopping", here=20, there=0)
    job = ours.job("strict")
    job["metadata"]["annotations"] = {"fedq.io/on-disconnect": "stop"}
    async with client(plain, "management") as home, client(plain, PLAIN) as there:
        await home.create(JOBS, job)
        await until(home, WORKLOADS, ours.name, "", says("its policy stop needs"))
        assert not (await there.list(WORKLOADS, ours.name)).items


async def test_evicted_there_and_run_elsewhere(plain: Stack) -> None:
    """A Job of higher priority of that cluster's own takes its place."""
    ours = team(plain, "evicted", here=2, there=0)
    preempts = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    queue = queue_objects(ours.name, 2)[1]
    plain.apply(PLAIN, [{**queue, "spec": {**queue["spec"], **preempts}}])
    urgent: Json = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    plain.apply(PLAIN, [urgent])
    async with client(plain, "management") as home, client(plain, PLAIN) as there:
        await home.create(JOBS, ours.job("moved", seconds=60, cpu="2"))
        await until(there, JOBS, ours.name, "moved", lambda o: not o["spec"]["suspend"])
        await until(home, JOBS, ours.name, "moved", lambda o: not o["spec"]["suspend"])
        plain.apply(OTHER, queue_objects(ours.name, 2))
        local = ours.job("urgent", seconds=60, cpu="2")
        local["metadata"]["labels"][Label.PRIORITY_CLASS.value] = "urgent"
        local["spec"]["suspend"] = True
        await there.create(JOBS, local)
        await until(there, JOBS, ours.name, "urgent", lambda o: not o["spec"]["suspend"])

        record = await until(home, WORKLOADS, ours.name, "", runs_on(OTHER))
        assert record["status"]["fedq"]["attempt"] == 2
        assert await offered(there, ours) == []
        await home.delete(JOBS, "moved", ours.name)


async def test_deleted_here_and_removed_there(plain: Stack) -> None:
    """While it runs: its pods, the Job and the Workload."""
    ours = team(plain, "deleted", here=20, there=0)
    async with client(plain, "management") as home, client(plain, PLAIN) as there:
        await home.create(JOBS, ours.job("one", seconds=60, pods=2))
        await until(there, JOBS, ours.name, "one", lambda o: o["status"].get("active") == 2)
        (workload,) = (await there.list(WORKLOADS, ours.name)).items
        await home.delete(JOBS, "one", ours.name)
        await gone(there, ours.name, "one")
        await gone(there, ours.name, workload["metadata"]["name"], WORKLOADS)
        assert not (await there.list(PODS, ours.name)).items


async def test_lost_and_back(plain: Stack) -> None:
    """Its API server stands still: the job runs elsewhere; the older copy goes when it is back."""
    ours = team(plain, "lost", here=2, there=0)
    api_server = plain.rig.process(f"{PLAIN}/kube-apiserver")
    assert api_server is not None
    async with client(plain, "management") as home, client(plain, PLAIN) as there:
        await home.create(JOBS, ours.job("one", seconds=300, cpu="2"))
        await until(there, JOBS, ours.name, "one", lambda o: not o["spec"]["suspend"])
        await until(home, JOBS, ours.name, "one", lambda o: not o["spec"]["suspend"])
        plain.apply(OTHER, queue_objects(ours.name, 2))
        os.kill(api_server.pid, signal.SIGSTOP)
        try:
            record = await until(home, WORKLOADS, ours.name, "", runs_on(OTHER))
        finally:
            os.kill(api_server.pid, signal.SIGCONT)
        assert record["status"]["fedq"]["attempt"] == 2
        await gone(there, ours.name, "one")
        await gone(there, ours.name, record["metadata"]["name"], WORKLOADS)
        found = await home.get(WORKLOADS, record["metadata"]["name"], ours.name)
        assert runs_on(OTHER)(found)
        await home.delete(JOBS, "one", ours.name)


async def test_while_kueue_is_away(plain: PlainStack) -> None:
    """Its webhooks stop all offers: that is told, and holds no quota. It runs when it is back."""
    ours = team(plain, "away", here=20, there=0)
    async with client(plain, "management") as home, client(plain, PLAIN) as there:
        plain.rig.stop_process(f"{plain.kueue.name}/{PLAIN}")
        try:
            await home.create(JOBS, ours.job("one", seconds=1))
            await until(home, WORKLOADS, ours.name, "", says("failed calling webhook"))
            assert not (await there.list(WORKLOADS, ours.name)).items
        finally:
            controllers.run(plain.rig, PLAIN, plain.kueue)
        await until(home, JOBS, ours.name, "one", condition("Complete"))
        await gone(there, ours.name, "one")


def says(text: str) -> Callable[[Json], bool]:
    """Whether a condition of an object says something."""

    def holds(obj: Json) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any(text in one["message"] for one in conditions)

    return holds


def runs_on(cluster: str) -> Callable[[Json], bool]:
    """Whether a record says that its job runs on a cluster."""

    def holds(obj: Json) -> bool:
        fedq = (obj.get("status") or {}).get("fedq") or {}
        return fedq.get("cluster") == cluster and condition("Admitted")(obj)

    return holds
