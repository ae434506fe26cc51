"""An agent that writes Workloads too, on the clock of the fake cluster, and may be killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import httpx

from federation.api import record as records
from federation.api.names import ConditionType, Label
from federation.core.policies import PodsReady, Policies, Retention, Rules
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    WORKLOADS,
)
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.support import Worker, custom, job
from worker_agent.agent import Settings

Json = dict[str, Any]
WAIT = PodsReady(timeout_s=100, recovery_timeout_s=50, backoff_base_s=10, backoff_limit=2)


class Lived(Worker):
    """Unready pods: 100 s to start, 50 s to recover, 10 s of backoff, two times."""

    def __init__(self, nominal: int = 1, *, check: str = "", **more: Any) -> None:
        strategy = {"admissionChecks": [{"name": check}]}
        spec = {"admissionChecksStrategy": strategy} if check else {}
        super().__init__(nominal, **spec, **more.pop("spec", {}))
        if check:
            self.fake.create(
                ADMISSION_CHECKS, custom("AdmissionCheck", check, {"controllerName": "c"})
            )
            active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
            status = {"status": {"conditions": [active]}}
            self.fake.merge(ADMISSION_CHECKS, check, status, status=True)
        self.settings = Settings(
            reactivation_s=0.0,
            clock=lambda: self.moment.timestamp(),
            policies=Policies(
                rules=more.get("rules", Rules()),
                pods_ready=more.get("pods_ready", WAIT),
                retention=more.get("retention", Retention()),
            ),
        )
        self.agent_writes = 0
        self.deaths = 0
        self.died = asyncio.Event()
        self.mortal: int | None = None
        self.fake.fail(self._kills, times=10**9, how="hang")

    def _kills(self, request: httpx.Request) -> bool:
        """A write of an agent that is dead, or that dies with it."""
        if request.method == "GET":
            return False
        if self.agent_writes == self.mortal:
            self.died.set()
        self.agent_writes += not self.died.is_set()
        return self.died.is_set()

    def later(self, seconds: float) -> None:
        super().later(seconds)
        if self.agent is not None:
            self.agent.state.wake.set()
            for uid in self.agent.jobs:
                self.workloads.mark(uid)

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """An agent with its writer of Workloads."""
        async with self.running():
            task = asyncio.create_task(self.workloads.run())
            try:
                yield
                assert not task.done(), task
            finally:
                await stop([task])

    async def _keep_alive(self) -> None:
        while True:
            async with self.living():
                await self.died.wait()
            self.died.clear()
            self.mortal = None
            self.deaths += 1

    async def live(self, what: Callable[[Self], Awaitable[None]], dies_at: int | None) -> None:
        """Let something happen, and the agent do what there is to do after it; it is killed before
        its write number `dies_at`, if it comes to that, and another one takes over.
        """
        self.mortal = dies_at
        keeper = asyncio.create_task(self._keep_alive())
        try:
            await what(self)
            await self._over()
            assert not keeper.done(), keeper
        finally:
            await stop([keeper])

    @classmethod
    async def relive(cls, what: Callable[[Self], Awaitable[None]], **more: Any) -> None:
        """Let it happen without harm, and again for every write of the agent, which is killed
        before it. How many writes a day takes varies (what comes at once goes together), so that it
        goes on until a day is over without the write that is looked for.
        """
        whole = cls(**more)
        await whole.live(what, None)
        assert whole.agent_writes > 0
        number, died = 0, True
        while died or number < whole.agent_writes:
            day = cls(**more)
            await day.live(what, number)
            died = day.deaths == 1
            assert died or (not day.deaths and day.agent_writes <= number), "it outlived its write"
            number += 1

    # What people and controllers do

    def workload(self, name: str) -> Json:
        """The Workload of a Job, {} if there is none."""
        for obj in self.fake.items(WORKLOADS):
            if obj["metadata"]["ownerReferences"][0]["name"] == name:
                return obj
        return {}

    def status(self, name: str) -> Json:
        return self.workload(name).get("status") or {}

    def says(self, name: str, kind: str, status: bool, reason: str) -> bool:
        found = records.find(self.status(name), ConditionType(kind)) or {}
        return (found.get("status"), found.get("reason")) == (str(status), reason)

    def evictions(self, name: str) -> list[tuple[str, str, int]]:
        stats = self.status(name).get("schedulingStats") or {}
        return [
            (e["reason"], e["underlyingCause"], e["count"]) for e in stats.get("evictions") or ()
        ]

    def switch(self, name: str, active: bool) -> None:
        """Somebody sets spec.active."""
        found = self.workload(name)["metadata"]["name"]
        self.fake.merge(WORKLOADS, found, {"spec": {"active": active}}, "team")

    def stop_policy(self, policy: str, *, local: bool = False) -> None:
        """Somebody stops or restarts a queue."""
        spec = {"spec": {"stopPolicy": policy}}
        if local:
            self.fake.merge(LOCAL_QUEUES, "lq", spec, "team")
        else:
            self.fake.merge(CLUSTER_QUEUES, "cq", spec)

    def answer(self, name: str, state: str, **more: Any) -> None:
        """The controller of the check answers."""
        workload = self.workload(name)
        (check,) = workload["status"]["admissionChecks"]
        at = self.moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        said = check | {"state": state, "message": "so", "lastTransitionTime": at} | more
        body = {"status": {"admissionChecks": [said]}}
        self.fake.merge(WORKLOADS, workload["metadata"]["name"], body, "team", status=True)

    def unready(self, name: str) -> None:
        """Its pods are there, and not ready."""
        self.run_pods(name)
        self._status(name, ready=0)

    async def runs(self, name: str, *, ready: bool = True, limit: int = 0) -> None:
        """A Job that is admitted, and whose pods are there; it may run `limit` seconds if not 0."""
        if not any(obj["metadata"]["name"] == name for obj in self.fake.items(JOBS)):
            body = job(name)
            if limit:
                body["metadata"]["labels"][Label.MAX_EXEC_TIME_SECONDS.value] = str(limit)
            self.add(body)
        await until(lambda: self.started(name), f"{name} starts")
        (self.run_pods if ready else self.unready)(name)
        await until(lambda: self.says(name, "Admitted", True, "Admitted"), "admitted")
        if ready:
            await until(
                lambda: records.is_true(self.status(name), ConditionType.PODS_READY), "ready"
            )

    async def stops(self, name: str) -> None:
        """It is suspended, and its pods go."""
        await until(lambda: not self.started(name), f"{name} stops")
        self.stopping(name, 0)

    async def evicted(self, name: str, reason: str) -> None:
        """Stopped for a reason; nothing is held, and it may not queue yet."""
        await until(lambda: self.says(name, "Evicted", True, reason), f"evicted: {reason}")
        await until(lambda: self.says(name, "Requeued", False, reason), f"over: {reason}")
        assert not records.is_true(self.status(name), ConditionType.QUOTA_RESERVED)
        assert "admission" not in self.status(name)

    async def _over(self) -> None:
        """Until nobody is dead and nothing more is written: the last writes of a day are nobody's
        condition, and who is killed before one of them needs time to be followed.
        """
        quiet, seen = 0, -1
        while quiet < 3:
            await asyncio.sleep(0.02)  # nothing announces that nothing more will come
            await until(lambda: not self.died.is_set(), "another one takes over")
            await self.at_rest()
            quiet = quiet + 1 if seen == self.agent_writes else 0
            seen = self.agent_writes

    async def at_peace(self) -> None:
        """Until nothing more is written."""
        seen = -1
        while seen != self.agent_writes:
            seen = self.agent_writes
            await asyncio.sleep(0.05)
