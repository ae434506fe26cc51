"""The agent asks an autoscaler for nodes, which the test plays; restarts before any write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from federation.api.names import Controller, Mirror
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    ADMISSION_CHECKS,
    POD_TEMPLATES,
    PROVISIONING_CONFIGS,
    PROVISIONING_REQUESTS,
    WORKLOADS,
)
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.lives import Lived
from tests.unit.worker_agent.support import Worker, custom, job, mirrored
from worker_agent import __main__ as program
from worker_agent.agent import Settings
from worker_agent.provisioning import Provisioning
from worker_agent.settings import AgentSettings


class Autoscaled(Lived):
    """A queue whose check asks for nodes by the config `nodes`."""

    def __init__(self, **config: Any) -> None:
        super().__init__(check="prov")
        spec = {
            "controllerName": Controller.PROVISIONING_REQUEST.value,
            "parameters": {"kind": "ProvisioningRequestConfig", "name": "nodes"},
        }
        self.fake.merge(ADMISSION_CHECKS, "prov", {"spec": spec})
        rules = {"provisioningClassName": "queued", **config}
        self.fake.create(PROVISIONING_CONFIGS, custom("ProvisioningRequestConfig", "nodes", rules))

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        async with super().living():
            client = KubeClient(Endpoint("https://fake", name="p"), transport=self.fake)
            task = asyncio.create_task(Provisioning(client, self.agent, self.workloads).run())
            try:
                yield
                assert not task.done(), task
            finally:
                await stop([task])
                await client.aclose()

    def requests(self) -> dict[str, Any]:
        return {obj["metadata"]["name"]: obj for obj in self.fake.items(PROVISIONING_REQUESTS)}

    async def asked(self, name: str, attempt: int = 1) -> str:
        """The name of the request for an attempt of a job."""
        await until(lambda: self.workload(name), "a Workload")
        called = f"{self.workload(name)['metadata']['name']}-prov-{attempt}"
        await until(lambda: called in self.requests(), f"{called} is asked for")
        return called

    def says(self, request: str, kind: str, status: bool = True, reason: str = "") -> Any:
        """Of a request: the autoscaler answers; of a Job see Lived."""
        if request not in self.requests():
            return super().says(request, kind, status, reason)
        found = self.requests()[request].get("status", {}).get("conditions", [])
        said = {"type": kind, "status": str(status), "message": reason or f"it is {kind}"}
        body = {"status": {"conditions": [*found, said]}}
        self.fake.merge(PROVISIONING_REQUESTS, request, body, "team", status=True)
        return None


async def provisioned(day: Autoscaled) -> None:
    """Asked for with the pods as they will be; started on what was made."""
    day.add(mirrored("a", 1, annotations={"provreq.kueue.x-k8s.io/zone": "b"}))
    request = await day.asked("a")
    spec = day.requests()[request]["spec"]
    assert spec["provisioningClassName"] == "queued"
    assert spec["parameters"] == {"zone": "b"}
    (pods,) = spec["podSets"]
    assert pods["count"] == 1
    made = day.fake.get(POD_TEMPLATES, pods["podTemplateRef"]["name"], "team")
    assert made["template"]["spec"]["nodeSelector"] == {"card": "a100"}
    assert not day.answered("a")
    day.says(request, "Accepted", reason="in line")
    await until(lambda: day.status("a")["admissionChecks"][0]["message"] == "in line", "told")
    day.says(request, "Provisioned")
    await until(lambda: day.started("a"), "started")
    notes = day.get("a")["spec"]["template"]["metadata"]["annotations"]
    assert notes["autoscaling.x-k8s.io/consume-provisioning-request"] == request
    assert len(day.requests()) == 1


async def failed(day: Autoscaled) -> None:
    """A copy is refused, for as long as the config says."""
    day.add(mirrored("a"))
    request = await day.asked("a")
    day.says(request, "Failed", reason="no capacity")
    await until(lambda: day.refused("a"), "refused")
    assert "no capacity" in day.refused("a")
    assert day.note_of("a", Mirror.RETRY_AFTER) == "60"


async def failed_locally(day: Autoscaled) -> None:
    """A local Job asks again after that, and not for ever."""
    day.add(job("a"))
    for attempt in (1, 2):
        request = await day.asked("a", attempt)
        day.says(request, "Failed", reason="no capacity")
        reason = "AdmissionCheck" if attempt == 1 else "DeactivatedDueToAdmissionCheck"
        await day.evicted("a", reason)
        day.later(61)
    assert len(day.requests()) == 2


async def revoked(day: Autoscaled) -> None:
    """What was made is gone: it has to leave for good."""
    day.add(mirrored("a"))
    request = await day.asked("a")
    day.says(request, "Provisioned")
    await until(lambda: day.started("a"), "started")
    day.run_pods("a")
    day.says(request, "BookingExpired")
    await day.at_peace()
    assert day.started("a")
    day.says(request, "CapacityRevoked")
    await until(lambda: not day.started("a"), "stopped")
    assert day.note_of("a", Mirror.RETRY_AFTER) == "never"


STORIES = {
    "Provisioned": (provisioned, {}),
    "Failed": (failed, {}),
    "Failed, of a local Job": (failed_locally, {"retryStrategy": {"backoffLimitCount": 1}}),
    "CapacityRevoked": (revoked, {}),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STORIES)
async def test_nodes_are_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the same, whichever write the agent does not come to."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.01)
    monkeypatch.setattr("worker_agent.provisioning.RETRY_S", 0.01)
    story, config = STORIES[name]
    await Autoscaled.relive(story, **config)


async def test_who_needs_no_nodes() -> None:
    """Pods without a managed resource wait for nobody."""
    day = Autoscaled(managedResources=["tpu"])
    async with day.living():
        day.add(mirrored("a"))
        await until(lambda: day.started("a"), "started")
        assert not day.requests()


async def test_a_config_that_is_missing() -> None:
    """The check says so, and its queues admit nothing until it is there."""
    day = Autoscaled()
    config = day.fake.get(PROVISIONING_CONFIGS, "nodes")

    def active() -> str:
        (found,) = day.fake.get(ADMISSION_CHECKS, "prov")["status"]["conditions"]
        return f"{found['status']} {found['reason']}"

    async with day.living():
        await until(lambda: active() == "True Active")
        day.fake.delete(PROVISIONING_CONFIGS, "nodes")
        await until(lambda: active() == "False BadParametersRef", "inactive")
        day.add(job("a"))
        await until(lambda: "is not active" in str(day.agent.waits), "it waits")
        day.fake.create(PROVISIONING_CONFIGS, {**config, "metadata": {"name": "nodes"}})
        await day.asked("a")


async def test_a_config_that_was_never_there() -> None:
    """A check that has said nothing yet says so too."""
    day = Autoscaled()
    day.fake.delete(PROVISIONING_CONFIGS, "nodes")
    day.fake.merge(ADMISSION_CHECKS, "prov", {"status": {"conditions": None}}, status=True)

    def told() -> str:
        found = (day.fake.get(ADMISSION_CHECKS, "prov").get("status") or {}).get("conditions") or ()
        return str(found)

    async with day.living():
        await until(lambda: "create it" in told(), "it says what to do")


async def test_what_was_asked_for_a_workload_before_it() -> None:
    """Somebody has deleted the Workload: the answer to its request is none to the next one's."""
    day = Autoscaled()
    async with day.living():
        day.add(job("a"))
        request = await day.asked("a")
        asked, before = day.requests()[request], day.workload("a")["metadata"]
        day.fake.delete(WORKLOADS, before["name"], "team")
        if request not in day.requests():  # a real garbage collector comes later
            meta = {key: asked["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
            day.fake.create(PROVISIONING_REQUESTS, {**asked, "metadata": meta})
        await until(lambda: (day.workload("a").get("metadata") or before)["uid"] != before["uid"])
        day.says(request, "Provisioned")
        await until(lambda: "deleted first" in str(day.status("a").get("admissionChecks")), "told")
        await day.at_peace()
        assert not day.started("a")
        day.fake.delete(PROVISIONING_REQUESTS, request, "team")
        await day.asked("a")
        (owner,) = asked["metadata"]["ownerReferences"]
        assert owner["uid"] == before["uid"]
        (owner,) = day.requests()[request]["metadata"]["ownerReferences"]
        assert owner["uid"] == day.workload("a")["metadata"]["uid"]
        day.says(request, "Provisioned")
        await until(lambda: day.started("a"), "started")


async def test_a_request_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a parameter that the API server does not take, for one: the check says it."""
    monkeypatch.setattr("worker_agent.provisioning.RETRY_S", 0.01)
    day = Autoscaled()
    day.fake.fail(
        lambda request: request.method == "POST" and "provisioningrequests" in request.url.path,
        times=3,
        status=422,
    )
    async with day.living():
        day.add(mirrored("a"))
        await until(lambda: "injected" in str(day.status("a").get("admissionChecks")), "told")
        request = await day.asked("a")
        day.says(request, "Provisioned")
        await until(lambda: day.started("a"), "started")


async def test_requests_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent asks for no nodes then, and is not well: their CRD may be missing."""
    problems: list[Callable[[], str]] = []
    monkeypatch.setattr(program, "app", lambda problem, status: problems.append(problem))

    async def serve(pages: object, listen: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(program, "serve", serve)
    day = Worker()
    day.fake.fail(
        lambda request: "provisioningrequests" in request.url.path, times=10**9, status=404
    )
    settings = AgentSettings.model_construct(
        beside_manager=True, cluster="", provisioning=True, listen="127.0.0.1:0"
    )
    async with KubeClient(Endpoint("https://fake"), transport=day.fake) as client:
        task = asyncio.create_task(
            program.run(client, None, settings, Settings(beside_manager=True))
        )
        await until(lambda: problems and "provisioningrequests" in problems[0](), "it is told")
        await stop([task])
