"""Random days on a worker with rules: switches, stopped queues, unready pods, checks, restarts.

Whatever happens, nothing is held beyond the quota, and nothing, copies included, is started before
its check is Ready; and when all is switched on and all checks are Ready, every local Job runs in
the end, and then nothing is charged.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.policies import PodsReady
from federation.edge.resources import WORKLOADS
from federation.jobs.batch_job import decode_admission
from tests.unit.manager.support import until
from tests.unit.worker_agent.lives import Lived
from tests.unit.worker_agent.support import job
from tests.unit.worker_agent.test_agent_fuzz import QUOTA, STEPS, Day, done

RULES = PodsReady(timeout_s=30, recovery_timeout_s=20, backoff_base_s=5, backoff_limit=1)


class Ruled(Day):
    """One seed."""

    worker: Lived

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.worker = Lived(
            QUOTA,
            check=(check := self.rng.choice(["", "budget"])),
            pods_ready=RULES,
            spec={"preemption": {"withinClusterQueue": "LowerPriority"}},
        )
        for name, value in (("low", -5), ("high", 5)):
            self.worker.class_of(name, value)
        self.checked = bool(check)
        self.names: list[str] = []
        self.problems: list[str] = []
        self.running: set[str] = set()
        self.worker.fake.objects.listeners.append(self.check)

    def held(self) -> int:
        """Also what is only reserved."""
        total = super().held()
        for body in self.jobs():
            note = body["metadata"].get("annotations") or {}
            found = decode_admission(note.get(Mirror.RESERVATION.value, ""))
            refused = Mirror.REFUSED.value in note
            started = (body.get("status") or {}).get("startTime") or not body["spec"]["suspend"]
            if found and not done(body) and not refused and not started:
                total += sum(found.usage().values())
        return total

    def check(self) -> None:
        if (held := self.held()) > QUOTA:
            self.problems.append(f"{held} are held")
        running = {b["metadata"]["uid"] for b in self.jobs() if not b["spec"]["suspend"]}
        started, self.running = running - self.running, running
        if self.checked and (early := started - self.ready()):
            self.problems.append(f"{early} started before their checks were Ready")

    def ready(self) -> set[str]:
        """The UIDs of the Jobs, and copies, whose checks are."""
        return {
            workload["metadata"]["ownerReferences"][0]["uid"]
            for workload in self.workloads()
            for check in (workload.get("status") or {}).get("admissionChecks") or ()
            if check["state"] == "Ready"
        }

    def step(self) -> None:
        super().step()
        more = (self.switch, self.stop_queue, self.pass_time, self.answer, self.make_unready)
        self.rng.choice(more)()

    def submit(self) -> None:
        body = job(self.name(), self.rng.randint(1, 4), of=self.rng.choice(["", "low", "high"]))
        if self.rng.random() < 0.3:
            body["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "60"
        self.worker.add(body)

    def workloads(self) -> list[Any]:
        return self.worker.fake.items(WORKLOADS)

    def set_active(self, workload: Any, active: bool) -> None:
        name = workload["metadata"]["name"]
        self.worker.fake.merge(WORKLOADS, name, {"spec": {"active": active}}, "team")

    def switch(self) -> None:
        if found := self.workloads():
            self.set_active(self.rng.choice(found), self.rng.random() < 0.5)

    def stop_queue(self) -> None:
        policy = self.rng.choice(["None", "None", "Hold", "HoldAndDrain"])
        self.worker.stop_policy(policy, local=self.rng.random() < 0.5)

    def pass_time(self) -> None:
        self.worker.later(self.rng.choice([1, 5, 40]))

    def answer(self) -> None:
        state = self.rng.choice(["Ready", "Ready", "Retry", "Rejected"])
        self.answer_all(state, 0.3)

    def answer_all(self, state: str, chance: float = 1.0) -> None:
        for workload in self.workloads():
            said = (workload.get("status") or {}).get("admissionChecks")
            if said and said[0]["state"] == "Pending" and self.rng.random() < chance:
                self.worker.answer(workload["metadata"]["ownerReferences"][0]["name"], state)

    def make_unready(self) -> None:
        for body in self.jobs():
            if (body.get("status") or {}).get("active") and self.rng.random() < 0.3:
                self.worker._status(body["metadata"]["name"], ready=0)

    async def settle(self) -> None:
        """All is switched on, again and again; all pods get ready; time passes."""

        async def everything() -> None:
            while not self.settled():
                for local in (True, False):
                    self.worker.stop_policy("None", local=local)
                for workload in self.workloads():
                    if not workload["spec"]["active"]:
                        self.set_active(workload, True)
                self.answer_all("Ready")
                for body in self.jobs():
                    self.controller(body)
                self.worker.later(1)
                await asyncio.sleep(0.005)
                if self.rng.random() < 0.3:
                    self.end()

        await asyncio.wait_for(everything(), 60)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(6))
async def test_a_day_with_rules(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is restarted now and then, in the middle of whatever it does."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.001)
    monkeypatch.setattr("worker_agent.copies.VICTIMS_MAY_TAKE_S", 5)
    day = Ruled(seed)
    for _ in range(3):
        async with day.worker.living():
            for _ in range(STEPS // 3):
                day.step()
                for _ in range(day.rng.choice([0, 1, 5, 50])):
                    await asyncio.sleep(0)
    async with day.worker.living():
        await day.settle()
        agent = day.worker.agent
        await until(lambda: not any(agent.tree.usage("cq").values()), "nothing is charged")
        assert not agent.scheduler.items
    assert day.problems == []
    assert [b for b in day.jobs() if Mirror.LOCAL_UID.value not in notes(b) and not done(b)] == []


def notes(body: Any) -> Any:
    return body["metadata"].get("annotations") or {}
