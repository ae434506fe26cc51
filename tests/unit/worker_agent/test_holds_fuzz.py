"""Random outages of the management cluster: fences, verdicts, restarts, a shaky API server.

Whatever happens, and in whatever order: no copy that has to stop is started, or let go on, without
a lease of its epoch; none runs for long after its deadline; a copy that goes on has the attempt
that it had; counts never fall; the quota holds; and in the end all that was not taken away runs.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.failover import OnDisconnect
from federation.core.holding import Lease
from federation.edge.resources import JOBS
from federation.jobs.batch_job import decode_admission
from tests.unit.manager.support import until
from tests.unit.worker_agent.leased import TERMS, Leased
from tests.unit.worker_agent.support import job
from worker_agent.facts import Stage, WorkerJob, worker_job

QUOTA = 8
STEPS = 90
POLICIES = ("", "", "stop", "keep", "keep 50", "duplicate-ok")


class Outages:
    """One seed. `renewed` is by epoch when the last renewal was sent, as the fence counts."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.worker = Leased(QUOTA)
        self.problems: list[str] = []
        self.names = 0
        self.epoch = 1
        self.renewed = {1: self.worker.boot()}
        self.before: dict[str, WorkerJob] = {}
        self.under_way: set[str] = set()
        """Jobs that were being written when time jumped or the epoch changed."""
        self.worker.fake.objects.listeners.append(self.check)

    # What must never be

    def check(self) -> None:
        """After every write: what it has started was allowed to."""
        used = 0
        for body in self.worker.fake.items(JOBS):
            facts = worker_job(body)
            assert facts is not None
            before, self.before[facts.uid] = self.before.get(facts.uid), facts
            used += charged(body, facts)
            if before is None:
                continue
            if before.suspended and not facts.suspended:
                self.started(facts)
            if facts.attempt != before.attempt:
                self.problems.append(f"{facts.key}: another attempt")
            if facts.pods.succeeded < before.pods.succeeded:
                self.problems.append(f"{facts.key}: fewer have succeeded")
        if used > QUOTA:
            self.problems.append(f"{used} of {QUOTA} are in use")

    def started(self, facts: WorkerJob) -> None:
        if not facts.mirrored:
            return
        sent = self.renewed.get(facts.epoch)
        if facts.uid in self.under_way:
            return  # it was sent before; what it started is stopped again, see `overdue`
        if facts.epoch < self.worker.state.epoch or sent is None:
            self.problems.append(f"{facts.key}: started in epoch {facts.epoch}, which is over")
        elif self.worker.boot() >= sent + TERMS.lease:
            self.problems.append(f"{facts.key}: started after the lease")

    def overdue(self) -> list[str]:
        """Copies that run and must not: what an agent at rest has left running."""
        found = []
        for facts in self.copies():
            if facts.stage is not Stage.RUNNING or facts.policy is not OnDisconnect.STOP:
                continue
            sent = self.renewed.get(facts.epoch)
            if sent is not None and self.worker.boot() >= sent + TERMS.lease:
                found.append(str(facts.key))
        return found

    def copies(self) -> list[WorkerJob]:
        facts = (worker_job(body) for body in self.worker.fake.items(JOBS))
        return [found for found in facts if found is not None and found.mirrored]

    # What happens

    def step(self) -> None:
        acts = {
            self.offer: 5, self.local: 2, self.control: 16, self.pass_time: 8, self.renew: 6,
            self.fence: 1, self.verdict: 4, self.end: 3, self.fault: 2, self.meddle: 1,
        }  # fmt: skip
        self.rng.choices(list(acts), list(acts.values()))[0]()

    def name(self) -> str:
        self.names += 1
        return f"j{self.names:03}"

    def offer(self) -> None:
        self.worker.offer(
            self.name(), self.rng.choice(POLICIES), self.rng.randint(1, 3), epoch=self.epoch
        )

    def local(self) -> None:
        self.worker.add(job(self.name(), self.rng.randint(1, 3)))

    def pass_time(self) -> None:
        self.note_writes()
        self.worker.later(self.rng.choice([1, 5, 12, 31]))

    def note_writes(self) -> None:
        agent = self.worker.agent
        self.under_way = {uid for uid in agent.jobs if agent.state.busy(uid)}

    def renew(self) -> None:
        """The agent's heartbeat succeeds; in a new epoch if it was fenced."""
        if self.worker.state.deadline is None and self.rng.random() < 0.3:
            self.worker.tell(self.worker.state.failure())
            return
        if self.worker.state.epoch < self.epoch:
            self.note_writes()
        self.renewed[self.epoch] = self.worker.boot()
        self.worker.renew(self.epoch)

    def fence(self) -> None:
        """The manager fences; the agent hears of it at once, or when it renews."""
        self.epoch += 1
        if self.rng.random() < 0.5:
            self.worker.tell(self.worker.state.fenced(self.epoch))

    def verdict(self) -> None:
        """Adopt or kill: only what the agent has told of, in its new epoch."""
        if self.worker.state.epoch < self.epoch:
            return
        for facts in self.copies():
            if facts.epoch < self.epoch and not facts.finished and self.rng.random() < 0.5:
                if self.rng.random() < 0.7:
                    self.worker.adopt(facts.key.name, self.epoch)
                else:
                    self.worker.fake.delete(JOBS, facts.key.name, "team")

    def control(self) -> None:
        for body in self.worker.fake.items(JOBS):
            if self.rng.random() < 0.5:
                self.controller(body)

    def controller(self, body: Any) -> None:
        """One step of the Job controller for one Job."""
        name, status = body["metadata"]["name"], body.get("status") or {}
        if finished(body):
            return
        if not body["spec"]["suspend"]:
            if not status.get("startTime") or not status.get("active"):
                self.worker.run_pods(name)
        elif status.get("active"):
            self.worker.stopping(name)
        elif status.get("terminating"):
            self.worker.stopping(name, 0)

    def end(self) -> None:
        found = [
            body for body in self.worker.fake.items(JOBS)
            if not body["spec"]["suspend"] and (body.get("status") or {}).get("active")
        ]  # fmt: skip
        if found:
            self.worker.end(self.rng.choice(found)["metadata"]["name"])

    def fault(self) -> None:
        how = self.rng.choice(["drop", "lost", "status"])
        self.worker.fake.fail(lambda request: request.method == "PATCH", how=how)

    def meddle(self) -> None:
        """Somebody starts what is held."""
        if held := [f for f in self.copies() if f.stage is Stage.HELD]:
            name = self.rng.choice(held).key.name
            self.problems_before = len(self.problems)
            self.worker.fake.merge(JOBS, name, {"spec": {"suspend": False}}, "team")
            del self.problems[self.problems_before :]

    async def settle(self) -> None:
        """The management cluster is there again, adopts what is left, and all that runs ends."""

        async def everything() -> None:
            while not all(settled(body) for body in self.worker.fake.items(JOBS)):
                self.renew()
                for facts in self.copies():
                    if facts.epoch < self.epoch and facts.stage in (Stage.HELD, Stage.RUNNING):
                        self.worker.adopt(facts.key.name, self.epoch)
                for body in self.worker.fake.items(JOBS):
                    self.controller(body)
                if self.rng.random() < 0.3:
                    self.end()
                await asyncio.sleep(0.002)

        await asyncio.wait_for(everything(), 60)


def charged(body: Any, facts: WorkerJob) -> int:
    """What is in use: from the start of a Job until its pods are gone, or while it is held."""
    admission = decode_admission(
        (body["metadata"].get("annotations") or {}).get(Mirror.ADMISSION.value, "")
    )
    in_use = facts.stage in (Stage.RUNNING, Stage.HELD, Stage.STOPPING)
    return sum(admission.usage().values()) if admission and in_use else 0


def finished(body: Any) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def settled(body: Any) -> bool:
    refused = Mirror.REFUSED.value in (body["metadata"].get("annotations") or {})
    return finished(body) or (refused and body["spec"]["suspend"])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(12))
async def test_outages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is started anew now and then, with and without a note of its deadline."""
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.001)
    day = Outages(seed)
    for life in range(3):
        if life and day.rng.random() < 0.5:
            state = day.worker.state
            day.worker.state = Lease(state.epoch, seen=state.epoch)
        async with day.worker.running():
            for _ in range(STEPS // 3):
                day.step()
                for _ in range(day.rng.choice([0, 1, 5, 50])):
                    await asyncio.sleep(0)
                if day.rng.random() < 0.2:
                    day.pass_time()
                    await until(lambda: known(day) or not day.overdue(), "all that must stop does")
    async with day.worker.running() as agent:
        await day.settle()
        await until(lambda: not any(agent.tree.usage("cq").values()), "nothing is charged")
        assert not agent.waits
    assert day.problems == []


def known(day: Outages) -> bool:
    """An agent that has just started and does not know when its lease ends waits for a renewal."""
    state = day.worker.state
    return state.deadline is None and not state.failed
