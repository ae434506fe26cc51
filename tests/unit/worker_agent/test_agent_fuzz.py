"""Random days on a worker: people, a manager, a Job controller and a shaky API server.

Whatever happens, and in whatever order: no start exceeds the quota, every copy gets an answer,
every local Job runs in the end, and then nothing is charged.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from federation.edge.resources import JOBS
from federation.jobs.batch_job import decode_admission
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, job, mirrored

QUOTA = 6
STEPS = 60


class Day:
    """One seed. `seen` are the Jobs as they were last, by UID, to notice starts."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rules = {"withinClusterQueue": self.rng.choice(["LowerPriority", "LowerPriority", "Never"])}
        strategy = self.rng.choice(["StrictFIFO", "BestEffortFIFO"])
        self.worker = Worker(QUOTA, preemption=rules, queueingStrategy=strategy)
        for name, value in (("low", -5), ("high", 5)):
            self.worker.class_of(name, value)
        self.names: list[str] = []
        self.problems: list[str] = []
        self.running: set[str] = set()
        self.worker.fake.objects.listeners.append(self.check)

    # The Job controller, whose view of the Jobs lags behind

    def held(self) -> int:
        """What is in use: what a note says, from the start until the pods are gone."""
        total = 0
        for body in self.jobs():
            status, note = body.get("status") or {}, body["metadata"].get("annotations") or {}
            admission = decode_admission(note.get("fedq.io/admission", ""))
            suspended = body["spec"]["suspend"]
            pods = status.get("active", 0) or status.get("terminating", 0)
            if admission and not done(body) and (not suspended or pods):
                total += sum(admission.usage().values())
        return total

    def check(self) -> None:
        running = {b["metadata"]["uid"] for b in self.jobs() if not b["spec"]["suspend"]}
        started, self.running = running - self.running, running
        if started and self.held() > QUOTA:
            self.problems.append(f"{self.held()} in use after the start of {started}")

    def jobs(self) -> list[Any]:
        return self.worker.fake.items(JOBS)

    def controller(self, body: Any) -> None:
        """One step of the Job controller for one Job."""
        name, status = body["metadata"]["name"], body.get("status") or {}
        if done(body):
            return
        if not body["spec"]["suspend"]:
            if not status.get("startTime"):
                self.worker.run_pods(name)
        elif status.get("active"):
            self.worker.stopping(name)
        elif status.get("terminating"):
            self.worker.stopping(name, 0)

    # What happens

    def step(self) -> None:
        act = self.rng.choices(
            (self.submit, self.offer, self.control, self.end, self.delete, self.fault, self.stray),
            (6, 6, 14, 5, 1, 1, 1),
        )[0]
        act()

    def name(self) -> str:
        self.names.append(f"j{len(self.names):03}")
        return self.names[-1]

    def submit(self) -> None:
        of = self.rng.choice(["", "low", "high"])
        self.worker.later(1)
        self.worker.add(job(self.name(), self.rng.randint(1, 4), of=of))

    def offer(self) -> None:
        priority = self.rng.choice([-5, 0, 5, 9])
        self.worker.add(mirrored(self.name(), self.rng.randint(1, 4), priority=priority))

    def control(self) -> None:
        for body in self.jobs():
            if self.rng.random() < 0.5:
                self.controller(body)

    def end(self) -> None:
        active = [b for b in self.jobs() if not b["spec"]["suspend"] and b["status"].get("active")]
        if active:
            self.worker.end(self.rng.choice(active)["metadata"]["name"])

    def delete(self) -> None:
        if found := self.jobs():
            self.worker.fake.delete(JOBS, self.rng.choice(found)["metadata"]["name"], "team")

    def fault(self) -> None:
        how = self.rng.choice(["drop", "lost", "status"])
        self.worker.fake.fail(lambda r: r.method == "PATCH", how=how)

    def stray(self) -> None:
        """Somebody suspends a running Job."""
        found = [b for b in self.jobs() if not b["spec"]["suspend"] and not done(b)]
        if found:
            name = self.rng.choice(found)["metadata"]["name"]
            self.worker.fake.merge(JOBS, name, {"spec": {"suspend": True}}, "team")

    async def settle(self) -> None:
        """Nothing new comes; all that runs ends in turn."""

        async def everything() -> None:
            while not self.settled():
                for body in self.jobs():
                    self.controller(body)
                await asyncio.sleep(0.002)
                if self.rng.random() < 0.3:
                    self.end()

        await asyncio.wait_for(everything(), 60)

    def settled(self) -> bool:
        return all(done(body) or answered(body) for body in self.jobs())


def done(body: Any) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def answered(body: Any) -> bool:
    """A copy that was refused, or stopped here: the manager removes it."""
    notes = body["metadata"].get("annotations") or {}
    if "fedq.io/local-uid" not in notes:
        return False
    pods = (body.get("status") or {}).get("active") or (body.get("status") or {}).get("terminating")
    left = bool(notes.get("fedq.io/admission")) and body["spec"]["suspend"] and not pods
    return "fedq.io/refused" in notes or left


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(8))
async def test_a_day_on_a_worker(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is restarted now and then, in the middle of whatever it does."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.001)
    monkeypatch.setattr("worker_agent.copies.VICTIMS_MAY_TAKE_S", 0.2)
    day = Day(seed)
    for _ in range(3):
        async with day.worker.running():
            for _ in range(STEPS // 3):
                day.step()
                for _ in range(day.rng.choice([0, 1, 5, 50])):
                    await asyncio.sleep(0)
    async with day.worker.running() as agent:
        await day.settle()
        await until(lambda: not any(agent.tree.usage("cq").values()), "nothing is charged")
        assert not agent.scheduler.items
        assert not agent.waits
    assert day.problems == []
