"""The agent at the end of its lease, on real control planes, with a frozen management API."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from federation.api.access import agent_access, agent_account
from federation.api.names import FEDQ_NAMESPACE, FENCED, Lease, Mirror, Option
from federation.edge.errors import Conflict, Forbidden
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import CONFIGMAPS, JOBS, LEASES, WORKER_REPORTS
from fedq.drill.faults.processes import frozen
from fedq.rig.rig import Rig
from fedq.stack import Stack
from tests.integration.agents import Place, place, running

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
WORKER = "worker-1"
API_SERVER = "management/kube-apiserver"
LEASE_S, RENEW_S = 8, 1.0


@dataclass
class Cut:
    """Worker-1 with an agent of a short lease instead of its own, named `cut` in the federation."""

    rig: Rig
    place: Place
    management: KubeClient
    env: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        self.rig.start_process("agent/cut", [sys.executable, "-m", "worker_agent"], self.env)

    def kill(self) -> None:
        self.rig.stop_process("agent/cut", grace=0)

    @property
    def note(self) -> Path:
        """Where the deadline is noted."""
        return Path(self.env["FEDQ_DEADLINE_FILE"])

    def deadline(self) -> float:
        return float(json.loads(self.note.read_text())["deadline"])

    async def renewed(self, epoch: int = 1) -> None:
        """Until a renewal that was sent from now on has succeeded in an epoch."""
        sent = boottime()
        while True:
            if self.note.exists():
                body = json.loads(self.note.read_text())
                if body["renewed"] >= sent and body["epoch"] == epoch:
                    return
            await asyncio.sleep(0.05)  # a file has no watch

    def copy(self, name: str, policy: str = "", **more: Any) -> Json:
        body = self.place.copy(name, **more)
        if policy:
            body["metadata"]["annotations"][Option.ON_DISCONNECT.value] = policy
        return body

    async def runs(self, *bodies: Json) -> list[Json]:
        for body in bodies:
            await self.place.submit(body)
        return [await self.place.until(body["metadata"]["name"], running) for body in bodies]

    async def job(self, name: str) -> Json:
        return await self.place.client.get(JOBS, name, self.place.name)

    async def fence(self) -> None:
        """As the manager does: one write, in the place of the renewal that was seen last."""
        while True:
            lease = await self.management.get(LEASES, "cut", FEDQ_NAMESPACE)
            epoch = int(lease["metadata"]["annotations"][Mirror.EPOCH.value])
            lease["metadata"]["annotations"][Mirror.EPOCH.value] = str(epoch + 1)
            lease["spec"]["holderIdentity"] = FENCED
            with suppress(Conflict):  # the agent was faster
                await self.management.update(LEASES, lease)
                return


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def held(job: Json) -> str:
    """Why a copy stands still; '' while it does not."""
    note = (job["metadata"].get("annotations") or {}).get(Mirror.HELD.value, "")
    return note if job["spec"]["suspend"] else ""


@pytest.fixture
async def cut(agents: Stack, tmp_path: Path) -> AsyncIterator[Cut]:
    """Four cores; an agent that has renewed."""
    rig = agents.rig
    rig.stop_process(f"agent/{WORKER}", grace=0)
    agents.apply(rig.management, agent_access("cut"))
    kubeconfig = tmp_path / "management"
    kubeconfig.write_text(agents._service_kubeconfig(rig.management, agent_account("cut")))
    found = Cut(
        rig,
        place(agents, 4),
        KubeClient(load_endpoint(rig.kubeconfig(rig.management)), user_agent="test"),
        {
            "FEDQ_CLUSTER": "cut",
            "FEDQ_KUBECONFIG": str(rig.data_dir(f"agent-{WORKER}") / "kubeconfig"),
            "FEDQ_MANAGEMENT_KUBECONFIG": str(kubeconfig),
            "FEDQ_CARDS": "agent",
            "FEDQ_DEADLINE_FILE": str(tmp_path / "deadline.json"),
        },
    )
    notes = {
        Mirror.EPOCH.value: "1",
        Lease.RENEW_SECONDS.value: str(RENEW_S),
        Lease.KILL_SECONDS.value: "45",
    }
    meta = {"name": "cut", "namespace": FEDQ_NAMESPACE, "annotations": notes}
    body = {"metadata": meta, "spec": {"leaseDurationSeconds": LEASE_S}}
    await found.management.create(LEASES, body)
    found.start()
    try:
        await found.renewed()
        yield found
    finally:
        found.kill()
        worker = found.place.client
        await found.management.delete(LEASES, "cut", FEDQ_NAMESPACE)
        await worker.delete(WORKER_REPORTS, "cut")
        await worker.delete(CONFIGMAPS, "fedq-epoch", FEDQ_NAMESPACE)
        await worker.aclose()
        await found.management.aclose()
        agents.start_agent(WORKER)


async def test_the_management_api_is_away(cut: Cut) -> None:
    """For longer than the lease: `stop` stands still in time and goes on with the same attempt; the
    others never stop.
    """
    local = cut.place.job("local")
    bodies = [
        cut.copy("stops"),
        cut.copy("keeps", "keep"),
        cut.copy("twice", "duplicate-ok"),
        local,
    ]
    before = {job["metadata"]["name"]: job for job in await cut.runs(*bodies)}
    async with frozen(cut.rig, API_SERVER):
        stopped = await cut.place.until("stops", held)
        late = boottime() - cut.deadline()
        await cut.place.until_pods("stops", lambda pods: not pods)
        assert 0 <= late < 1.5
        assert "same attempt" in held(stopped)
        for name in ("keeps", "twice", "local"):
            assert running(await cut.job(name))
        await cut.place.submit(cut.copy("late"))
        await cut.place.submit(cut.place.job("after"))
    again = await cut.place.until("stops", lambda job: running(job) and not held(job))
    assert again["metadata"]["uid"] == before["stops"]["metadata"]["uid"]
    now, then = again["metadata"]["annotations"], before["stops"]["metadata"]["annotations"]
    assert int(now[Mirror.BREAKS.value]) > int(then[Mirror.BREAKS.value])
    assert int(now[Mirror.HELD_SECONDS.value]) >= 1
    assert now.keys() - then.keys() == {Mirror.HELD_SECONDS, Mirror.RESUMED_AT}
    assert {**now, Mirror.BREAKS.value: ""}.items() >= {**then, Mirror.BREAKS.value: ""}.items()
    refused = Mirror.REFUSED.value
    await cut.place.until("late", lambda job: refused in job["metadata"]["annotations"])
    assert (await cut.job("after"))["spec"]["suspend"], "what is held keeps its room"
    for name in ("keeps", "twice", "local"):
        assert (await cut.job(name))["status"]["startTime"] == before[name]["status"]["startTime"]


async def test_a_short_absence(cut: Cut) -> None:
    """Nothing is written at all."""
    (before,) = await cut.runs(cut.copy("a"))
    await cut.renewed()
    async with frozen(cut.rig, API_SERVER):
        await asyncio.sleep(LEASE_S / 2)  # what the management API is away
    await cut.renewed()
    after = await cut.job("a")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_a_fence(cut: Cut) -> None:
    """The cluster is brought into the new epoch; what ran waits for the verdict and goes on."""
    await cut.runs(cut.copy("a"))
    await cut.fence()
    await cut.renewed(2)
    epoch = await cut.place.client.get(CONFIGMAPS, "fedq-epoch", FEDQ_NAMESPACE)
    assert epoch["data"] == {"epoch": "2"}
    report = await cut.place.client.get(WORKER_REPORTS, "cut")
    assert report["status"]["inventoryEpoch"] == 2
    stopped = await cut.place.until("a", held)
    assert "fenced epoch 1" in held(stopped)
    await cut.place.until_pods("a", lambda pods: not pods)
    with pytest.raises(Forbidden, match="is over on this cluster"):
        await cut.place.submit(cut.copy("new"))
    adopt = {"metadata": {"annotations": {Mirror.EPOCH.value: "2"}}}
    await cut.place.client.patch(JOBS, "a", adopt, cut.place.name)
    again = await cut.place.until("a", lambda job: running(job) and not held(job))
    assert again["metadata"]["annotations"][Mirror.ATTEMPT.value] == "1"


async def test_an_agent_that_is_killed_and_comes_back(cut: Cut) -> None:
    """Within the lease nothing stops; after it, what must not run is stopped at the first renewal
    that fails.
    """
    (before,) = await cut.runs(cut.copy("a"))
    cut.kill()
    cut.start()
    await cut.renewed()
    assert (await cut.job("a"))["metadata"]["generation"] == before["metadata"]["generation"]
    cut.kill()
    async with frozen(cut.rig, API_SERVER):
        await asyncio.sleep(max(0.0, cut.deadline() - boottime()))  # the end of the lease
        assert not held(await cut.job("a"))
        cut.start()
        await cut.place.until("a", held)
        await cut.place.until_pods("a", lambda pods: not pods)
    await cut.place.until("a", lambda job: running(job) and not held(job))
