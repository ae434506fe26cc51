"""A management cluster that runs Jobs itself, beside those that it sends to a worker."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from federation.api.access import cluster_registration
from federation.api.names import KUEUE_GROUP, Label
from federation.edge.errors import Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    PODS,
    WORKLOADS,
    Resource,
)
from fedq.rig.errors import RigError
from fedq.stack import LOCAL_AGENT, Stack
from tests.integration.conftest import API, Team, flavor, own_rig, queue_objects
from tests.integration.test_dispatch import condition, until

Json = dict[str, Any]
pytestmark = [pytest.mark.rig, pytest.mark.timeout(180)]

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
WORKER = "worker-1"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A rig of its own: a management cluster with nodes, and one worker."""
    with own_rig("local", tmp_path_factory) as found:
        found.up(workers=1, nodes=1, management_nodes=1)
        stack = Stack(found)
        stack.install()
        for cluster in found.clusters:
            stack.apply(cluster, [flavor()])
        stack.apply(found.management, check())
        stack.start(runtime="in-process")
        yield stack
        stack.stop()


def check() -> list[Json]:
    """An AdmissionCheck of MultiKueue that leads to the worker."""
    parameters = {"apiGroup": KUEUE_GROUP, "kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": MULTIKUEUE, "parameters": parameters}
    config = {"metadata": {"name": "all"}, "spec": {"clusters": [WORKER]}}
    return [
        {"apiVersion": API, "kind": "MultiKueueConfig", **config},
        {"apiVersion": API, "kind": "AdmissionCheck", "metadata": {"name": "mk"}, "spec": spec},
    ]


CHECKED: Json = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}}


class Sides:
    """Both clusters, and a team whose queue is on both."""

    def __init__(self, stack: Stack, home: KubeClient, there: KubeClient) -> None:
        self.stack, self.home, self.there = stack, home, there
        self.team = Team(stack, f"both-{uuid.uuid4().hex[:6]}")
        self.name = self.team.name

    def queues(self, cpu: int = 4, **spec: Any) -> None:
        """The team's queues, with more in the ClusterQueue of the management cluster."""
        for cluster in self.stack.rig.clusters:
            objects = queue_objects(self.name, cpu)
            if cluster == self.stack.rig.management:
                objects[1]["spec"] |= spec
            self.stack.apply(cluster, objects)

    async def labelled(self, *, local: bool) -> None:
        """Until the manager has said whether the jobs of the queue run here."""

        def told(queue: Json) -> bool:
            labels = queue["metadata"].get("labels") or {}
            shown = condition("Active")(queue)
            return shown and (labels.get(Label.LOCAL.value) == "true") is local

        await until(self.home, LOCAL_QUEUES, self.name, self.name, told)

    async def submit(self, name: str, **more: Any) -> Json:
        return await self.home.create(JOBS, self.team.job(name, **more))

    async def running(self, client: KubeClient, name: str) -> Json:
        """Until a Job has pods on a cluster."""

        def runs(job: Json) -> bool:
            return not job["spec"]["suspend"] and bool((job.get("status") or {}).get("ready"))

        return await until(client, JOBS, self.name, name, runs)

    async def waits(self, name: str, reason: str, text: str) -> None:
        """Until the Workload of a Job says why it waits."""

        def says(workload: Json) -> bool:
            owner = workload["metadata"]["ownerReferences"][0]["name"]
            found = [
                c
                for c in (workload.get("status") or {}).get("conditions") or ()
                if c["type"] == "QuotaReserved" and c["reason"] == reason and text in c["message"]
            ]
            return owner == name and bool(found)

        await until(self.home, WORKLOADS, self.name, "", says)

    async def pods_here(self, name: str) -> int:
        selector = f"job-name={name}"
        return len((await self.home.list(PODS, self.name, label_selector=selector)).items)

    async def there_is(self, name: str) -> bool:
        try:
            await self.there.get(JOBS, name, self.name)
        except NotFound:
            return False
        return True

    async def set_checks(self, spec: Json | None) -> None:
        body = {"spec": spec or {"admissionChecksStrategy": None}}
        await self.home.patch(CLUSTER_QUEUES, self.name, body)


@pytest.fixture
async def sides(shared: Stack) -> AsyncIterator[Sides]:
    """Clients of both clusters."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(KubeClient(load_endpoint(shared.rig.kubeconfig(name))))
            for name in (shared.rig.management, WORKER)
        ]
        yield Sides(shared, *clients)


async def test_a_queue_without_the_check_runs_its_jobs_here(sides: Sides) -> None:
    """Admitted by the agent beside the manager, in order, by the quota of the queue; no copy."""
    sides.queues(cpu=2)
    await sides.labelled(local=True)
    made = await sides.submit("a", cpu="2", seconds=3)
    assert made["metadata"]["labels"][Label.LOCAL.value] == "true"
    assert "managedBy" not in made["spec"]
    assert made["spec"]["suspend"] is True
    await sides.running(sides.home, "a")
    await sides.submit("b", cpu="2", seconds=1)
    await sides.waits("b", "WaitingForQuota", "cpu")
    done = await until(sides.home, JOBS, sides.name, "b", condition("Complete"))
    assert done["status"]["succeeded"] == 1
    assert not await sides.there_is("a")
    assert not await sides.there_is("b")
    for workload in (await sides.home.list(WORKLOADS, sides.name)).items:
        assert workload["metadata"]["labels"][Label.LOCAL.value] == "true"
        assert "fedq" not in workload["status"], "the manager has written to it"


async def test_a_queue_with_the_check_sends_its_jobs_away(sides: Sides) -> None:
    """As ever: no pod here, and the agent beside the manager leaves it alone."""
    sides.queues(**CHECKED)
    await sides.labelled(local=False)
    made = await sides.submit("a", seconds=1)
    assert made["spec"]["managedBy"] == MULTIKUEUE
    assert Label.LOCAL.value not in made["metadata"]["labels"]
    await until(sides.home, JOBS, sides.name, "a", condition("Complete"))
    (workload,) = (await sides.home.list(WORKLOADS, sides.name)).items
    assert workload["status"]["clusterName"] == WORKER
    assert await sides.pods_here("a") == 0


async def test_a_queue_gets_the_check_while_jobs_run_here(sides: Sides) -> None:
    """What runs here ends here; what waits is told; what is created from then on is sent away."""
    sides.queues(cpu=2)
    await sides.labelled(local=True)
    await sides.submit("here", cpu="2", seconds=12)
    await sides.running(sides.home, "here")
    await sides.submit("late", cpu="2", seconds=1)
    await sides.set_checks(CHECKED)
    await sides.labelled(local=False)
    await sides.waits("late", "Misconfigured", "has a MultiKueue check by now")
    await sides.submit("there", cpu="2", seconds=1)
    await until(sides.home, JOBS, sides.name, "there", condition("Complete"))
    assert await sides.pods_here("there") == 0
    done = await until(sides.home, JOBS, sides.name, "here", condition("Complete"))
    assert (done["status"]["succeeded"], done["status"].get("failed", 0)) == (1, 0)
    assert not await sides.there_is("here")
    await sides.set_checks(None)
    await until(sides.home, JOBS, sides.name, "late", condition("Complete"))
    assert await sides.pods_here("late") == 1


async def test_a_queue_loses_the_check_while_jobs_run_there(sides: Sides) -> None:
    """The copy goes on to its end; what waits is told; what is created from then on runs here."""
    sides.queues(cpu=2, **CHECKED)
    await sides.labelled(local=False)
    await sides.submit("there", cpu="2", seconds=12)
    await sides.running(sides.there, "there")
    await sides.submit("late", cpu="2", seconds=1)
    await sides.set_checks(None)
    await sides.labelled(local=True)
    await sides.waits("late", "Misconfigured", "has no MultiKueue check")
    await sides.submit("here", cpu="2", seconds=1)
    await until(sides.home, JOBS, sides.name, "here", condition("Complete"))
    assert await sides.pods_here("here") == 1
    done = await until(sides.home, JOBS, sides.name, "there", condition("Complete"))
    assert (done["status"]["succeeded"], done["status"].get("failed", 0)) == (1, 0)
    assert await sides.pods_here("there") == 0
    assert await sides.pods_here("late") == 0
    await sides.set_checks(CHECKED)
    await until(sides.home, JOBS, sides.name, "late", condition("Complete"))
    assert await sides.pods_here("late") == 0


async def test_whose_a_job_is_cannot_be_changed(sides: Sides) -> None:
    """Neither label nor notes, by anyone but Fedq; nor does a managedBy send a local Job away."""
    sides.queues(cpu=2)
    await sides.labelled(local=True)
    body = sides.team.job("a", cpu="2", seconds=1)
    body["spec"]["managedBy"] = MULTIKUEUE
    made = await sides.home.create(JOBS, body)
    assert "managedBy" not in made["spec"]
    for value in (None, "false"):
        change = {"metadata": {"labels": {Label.LOCAL.value: value}}}
        with pytest.raises(Forbidden, match="never changed"):
            await sides.home.patch(JOBS, "a", change, sides.name)
    await until(sides.home, JOBS, sides.name, "a", condition("Complete"))


async def test_a_tenant_starts_no_job_by_writing_the_label(sides: Sides) -> None:
    """The label takes a Job away from the manager; only Fedq can start it then."""
    sides.queues(**CHECKED)
    await sides.labelled(local=False)
    rig, home = sides.stack.rig, sides.stack.rig.management
    who, space = ("--as", "tenant"), ("-n", sides.name)
    rig.kubectl(home, "create", "rolebinding", "t", "--clusterrole=edit", "--user=tenant", *space)
    forged = sides.team.job("forged")
    forged["metadata"]["labels"][Label.LOCAL.value] = "true"
    rig.kubectl(home, "create", "-f", "-", *who, *space, input=json.dumps(forged))
    start = ("patch", "job", "forged", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    with pytest.raises(RigError, match="is started by Fedq's agent"):
        rig.kubectl(home, *start, *who, *space)
    await sides.waits("forged", "Misconfigured", "")
    assert await sides.pods_here("forged") == 0
    assert not await sides.there_is("forged")


async def test_the_default_queue_and_pods(sides: Sides) -> None:
    """A Job without a queue name goes to `default`, and runs here; a pod is let go here."""
    sides.queues(cpu=2)
    (door,) = queue_objects(sides.name, 2)[2:]
    door["metadata"]["name"] = "default"
    sides.stack.apply(sides.stack.rig.management, [door])
    await until(
        sides.home,
        LOCAL_QUEUES,
        sides.name,
        "default",
        lambda queue: bool((queue["metadata"].get("labels") or {}).get(Label.LOCAL.value)),
    )
    body = sides.team.job("a", seconds=1)
    del body["metadata"]["labels"]
    async for attempt in AsyncRetrying(wait=wait_fixed(0.5), stop=stop_after_delay(30)):
        with attempt:  # the API server takes some seconds to know a queue as a parameter
            body["metadata"]["name"] = f"a-{attempt.retry_state.attempt_number}"
            made = await sides.home.create(JOBS, body)
            labels = made["metadata"].get("labels") or {}
            assert labels.get(Label.LOCAL.value) == "true", made["spec"]
    assert "managedBy" not in made["spec"]
    await until(sides.home, JOBS, sides.name, made["metadata"]["name"], condition("Complete"))
    template = sides.team.job("p", seconds=1)["spec"]["template"]
    meta = {
        "name": "p",
        "namespace": sides.name,
        "labels": {Label.QUEUE_NAME.value: sides.name},
        "annotations": template["metadata"]["annotations"],
    }
    pod = await sides.home.create(PODS, {"metadata": meta, "spec": template["spec"]})
    assert pod["metadata"]["labels"][Label.LOCAL.value] == "true"
    await phase(sides.home, PODS, sides.name, "p", "Succeeded")


async def phase(client: KubeClient, of: Resource, namespace: str, name: str, wanted: str) -> None:
    """Until a pod is in a phase."""
    await until(
        client, of, namespace, name, lambda pod: (pod.get("status") or {}).get("phase") == wanted
    )


async def test_an_agent_of_a_worker_refuses_to_run_beside_a_manager(sides: Sides) -> None:
    """It would let go pods that the manager sends elsewhere; it ends, and says what to do."""
    rig = sides.stack.rig
    known = rig.process(LOCAL_AGENT)
    assert known is not None
    env = {k: v for k, v in known.env.items() if k != "FEDQ_BESIDE_MANAGER"}
    env |= {
        "FEDQ_CLUSTER": "self",
        "FEDQ_MANAGEMENT_KUBECONFIG": env["FEDQ_KUBECONFIG"],
        "FEDQ_LISTEN": "",
    }
    wrong = rig.start_process("wrong-agent", known.argv, env, cluster=rig.management)
    async for attempt in AsyncRetrying(wait=wait_fixed(0.2), stop=stop_after_delay(60)):
        with attempt:
            assert not wrong.running
    said = (rig.home / "logs" / "wrong-agent.log").read_text()
    rig.stop_process("wrong-agent")
    assert "agent.refuses" in said
    assert "FEDQ_BESIDE_MANAGER=true" in said


def refused(cluster: Json) -> bool:
    """It is said to be the management cluster."""
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return any(c["reason"] == "ManagementCluster" for c in conditions)


async def test_the_management_cluster_is_no_worker_of_itself(sides: Sides) -> None:
    """Registered as one it is refused, with what to do; jobs go to the other worker, as ever."""
    stack, home = sides.stack, sides.home
    kubeconfig = stack.rig.kubeconfig(stack.rig.management).read_text()
    stack.apply(stack.rig.management, [*cluster_registration("myself", kubeconfig)])
    try:
        shown = await until(home, MULTIKUEUE_CLUSTERS, "", "myself", refused)
        (active,) = (c for c in shown["status"]["conditions"] if c["type"] == "Active")
        assert active["status"] == "False"
        assert "agent beside the manager" in active["message"]
        sides.queues(**CHECKED)
        await sides.labelled(local=False)
        await sides.submit("a", seconds=1)
        await until(home, JOBS, sides.name, "a", condition("Complete"))
    finally:
        await home.delete(MULTIKUEUE_CLUSTERS, "myself")
