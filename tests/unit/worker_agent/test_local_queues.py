"""The agent beside a manager: which jobs of the management cluster it runs, and which it leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from federation.api.names import FEDQ_NAMESPACE, ORIGIN_CONFIGMAP, Label
from federation.core.failover import Tier
from federation.edge.environment import complaint
from federation.edge.kind_informers import DISPATCHED, LOCAL
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CONFIGMAPS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    WORKLOADS,
)
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker, custom, job
from worker_agent.__main__ import run
from worker_agent.agent import Settings
from worker_agent.heartbeat import Heartbeat
from worker_agent.settings import AgentSettings
from worker_agent.whereabouts import WrongPlaceError, refuse_beside_manager

Json = dict[str, Any]
CHECKED: Json = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}}
UNCHECKED: Json = {"admissionChecksStrategy": None}


def beside(**spec: Any) -> Worker:
    """A management cluster with an agent beside its manager, and a check of MultiKueue."""
    found = Worker(2, **spec)
    found.settings = Settings(reactivation_s=0.01, beside_manager=True)
    check = custom("AdmissionCheck", "mk", {"controllerName": "kueue.x-k8s.io/multikueue"})
    found.fake.create(ADMISSION_CHECKS, check)
    mark(found)
    return found


def mark(found: Worker, value: str | None = "true") -> None:
    """What the manager says of the LocalQueue."""
    body = {"metadata": {"labels": {Label.LOCAL.value: value}}}
    found.fake.merge(LOCAL_QUEUES, "lq", body, "team")


def local(name: str, gpus: int = 1) -> Json:
    """A Job as the API server makes it in a local queue."""
    body = job(name, gpus)
    body["metadata"]["labels"][Label.LOCAL.value] = "true"
    return body


async def waits(found: Worker, name: str, text: str) -> None:
    def said() -> bool:
        uid = found.get(name)["metadata"]["uid"]
        why = found.agent.waits.get(uid)
        return why is not None and why.reason == "Misconfigured" and text in why.message

    await until(said, text)


async def test_it_runs_the_jobs_of_a_queue_without_the_check() -> None:
    """Within the quota; their Workloads say whose they are."""
    found = beside()
    async with found.running():
        task = asyncio.create_task(found.workloads.run())
        try:
            found.add(local("a", 2))
            await until(lambda: found.started("a"))
            found.add(local("b", 1))  # of the same second: who is first is settled by the UID
            await until(lambda: len(found.fake.items(WORKLOADS)) == 2)
            for workload in found.fake.items(WORKLOADS):
                assert workload["metadata"]["labels"][Label.LOCAL.value] == "true"
            assert not found.started("b")
        finally:
            await stop([task])


async def test_a_queue_gets_the_check_and_loses_it() -> None:
    """What runs goes on and keeps its quota; what waits is told, and runs when it is gone again."""
    found = beside()
    async with found.running():
        found.add(local("a", 2))
        await until(lambda: found.started("a"))
        found.run_pods("a")
        found.add(local("b", 1))
        found.fake.merge(CLUSTER_QUEUES, "cq", {"spec": CHECKED})
        await waits(found, "b", "has a MultiKueue check by now")
        assert found.started("a")
        found.end("a")
        found.fake.merge(CLUSTER_QUEUES, "cq", {"spec": UNCHECKED})
        await until(lambda: found.started("b"))


async def test_a_queue_of_which_the_manager_says_nothing() -> None:
    """Its manager was not told of this agent, and sends the jobs of the queue away."""
    found = beside()
    mark(found, None)
    async with found.running():
        found.add(local("a"))
        await waits(found, "a", "FEDQ_LOCAL_QUEUES")
        mark(found)
        await until(lambda: found.started("a"))


async def test_a_queue_of_the_manager_lends_nothing() -> None:
    """The agent does not count what the manager sends away from it."""
    found = beside(cohortName="both")
    quotas = [{"name": "gpu", "nominalQuota": 8}]
    group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": quotas}]}
    spec = {"resourceGroups": [group], "namespaceSelector": {}, "cohortName": "both", **CHECKED}
    found.fake.create(CLUSTER_QUEUES, custom("ClusterQueue", "sent", spec))
    async with found.running():
        found.add(local("a", 3))
        uid = found.get("a")["metadata"]["uid"]
        await until(lambda: (why := found.agent.waits.get(uid)) and why.reason == "ExceedsMaxQuota")
        found.fake.merge(CLUSTER_QUEUES, "sent", {"spec": UNCHECKED})
        await until(lambda: found.started("a"))


@pytest.mark.parametrize(
    ("labels", "whose"),
    [
        pytest.param({}, "manager", id="no-label"),
        pytest.param({Label.LOCAL.value: "true"}, "agent", id="local"),
        pytest.param({Label.LOCAL.value: "maybe"}, "manager", id="another-value"),
        pytest.param(
            {Label.LOCAL.value: "true", Label.MULTIKUEUE_ORIGIN.value: "x"}, "", id="forged-copy"
        ),
    ],
)
async def test_each_job_is_followed_by_one(labels: dict[str, str], whose: str) -> None:
    """The API server tells each program of its own only."""
    fake = FakeKube(namespaces=("team",))
    body = job("j")
    body["metadata"]["labels"] |= labels
    fake.create(JOBS, body)
    selects = {"manager": DISPATCHED, "agent": LOCAL}
    async with KubeClient(Endpoint("https://fake"), transport=fake) as client:
        seen = [
            name
            for name, select in selects.items()
            if (await client.list(JOBS, label_selector=select.label_selector)).items
        ]
    assert seen == ([whose] if whose else [])


async def test_an_agent_of_a_worker_on_a_management_cluster() -> None:
    """It refuses, and says what to do; on any other cluster it does not."""
    fake = FakeKube()
    fake.create(NAMESPACES, {"metadata": {"name": FEDQ_NAMESPACE}})
    async with KubeClient(Endpoint("https://fake"), transport=fake) as client:
        await refuse_beside_manager(client)
        fake.create(
            CONFIGMAPS, {"metadata": {"name": ORIGIN_CONFIGMAP, "namespace": FEDQ_NAMESPACE}}
        )
        with pytest.raises(WrongPlaceError, match="FEDQ_BESIDE_MANAGER=true"):
            await refuse_beside_manager(client)


async def test_it_refuses_before_it_takes_the_lease() -> None:
    """The agent of the cluster that it claims to be would end, replaced."""
    fake = FakeKube()
    fake.create(NAMESPACES, {"metadata": {"name": FEDQ_NAMESPACE}})
    fake.create(CONFIGMAPS, {"metadata": {"name": ORIGIN_CONFIGMAP, "namespace": FEDQ_NAMESPACE}})
    beats: list[object] = []

    async def beat(take_over: object, on_change: object) -> None:
        beats.append(take_over)
        await asyncio.Event().wait()

    settings = AgentSettings.model_construct(cluster="a", tier=Tier.AGENT)
    async with KubeClient(Endpoint("https://fake"), transport=fake) as client:
        with pytest.raises(WrongPlaceError):
            await run(client, Heartbeat(client, "a", "agent-1"), settings, Settings(), beat)
    assert not beats


async def test_an_api_server_that_is_away_keeps_no_lease_from_being_renewed() -> None:
    """Where the agent is, is asked again when it has read everything."""
    fake = FakeKube()
    fake.cut()
    beats = asyncio.Event()

    async def beat(take_over: object, on_change: object) -> None:
        beats.set()
        await asyncio.Event().wait()

    settings = AgentSettings.model_construct(cluster="a", tier=Tier.AGENT)
    async with KubeClient(Endpoint("https://fake"), transport=fake) as client:
        heartbeat = Heartbeat(client, "a", "agent-1")
        task = asyncio.create_task(run(client, heartbeat, settings, Settings(), beat))
        async with asyncio.timeout(10):
            await beats.wait()
        await stop([task])


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        pytest.param({"BESIDE_MANAGER": "true"}, [], id="beside"),
        pytest.param({"CLUSTER": "a", "MANAGEMENT_KUBECONFIG": "/k"}, [], id="worker"),
        pytest.param({}, ["FEDQ_CLUSTER", "FEDQ_MANAGEMENT_KUBECONFIG"], id="nothing"),
        pytest.param({"BESIDE_MANAGER": "true", "CLUSTER": "a"}, ["FEDQ_CLUSTER"], id="both"),
        pytest.param(
            {"BESIDE_MANAGER": "true", "MANAGEMENT_KUBECONFIG": "/k"},
            ["FEDQ_MANAGEMENT_KUBECONFIG"],
            id="beside-with-a-lease",
        ),
    ],
)
def test_settings(given: dict[str, str], wrong: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of a worker needs both; the one beside a manager has neither."""
    for name in ("BESIDE_MANAGER", "CLUSTER", "MANAGEMENT_KUBECONFIG"):
        monkeypatch.delenv(f"FEDQ_{name}", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(f"FEDQ_{name}", value)
    if not wrong:
        assert AgentSettings().beside_manager is ("BESIDE_MANAGER" in given)
        return
    with pytest.raises(ValidationError) as error:
        AgentSettings()
    assert [part.partition(":")[0] for part in complaint(error.value).split("; ")] == wrong
