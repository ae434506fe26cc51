"""A worker whose lease the tests renew, let end, and fence; on the clock of the fake cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from federation.api.names import Mirror, Option
from federation.core.holding import Lease, Terms
from federation.edge.resources import JOBS
from tests.unit.manager.support import until
from tests.unit.worker_agent.lives import Lived
from tests.unit.worker_agent.support import mirrored
from worker_agent.facts import Stage, worker_job

TERMS = Terms(renew=5.0, lease=30.0, kill=45.0)


class Leased(Lived):
    """Epoch 1, renewed at the start. `state` survives the agent, as the note of it does."""

    def __init__(self, nominal: int = 8, **more: Any) -> None:
        super().__init__(nominal, **more)
        self.state = Lease().renewal(self.boot(), 1, TERMS)
        self.lease = lambda: self.state
        self.settings = replace(self.settings, boottime=self.boot)

    def boot(self) -> float:
        """CLOCK_BOOTTIME."""
        return self.moment.timestamp() % 10**6

    # What happens to the lease

    def tell(self, lease: Lease) -> None:
        self.state = lease
        if self.agent is not None:
            self.agent.lease_changed()

    def renew(self, epoch: int = 0) -> None:
        """A renewal succeeds, in this epoch or the next."""
        self.tell(self.state.renewal(self.boot(), epoch or self.state.epoch, TERMS))

    def ends(self) -> None:
        """Nobody can be reached until the lease is over."""
        self.later(TERMS.lease)

    # Copies

    def offer(self, name: str, policy: str = "", gpus: int = 1, **more: Any) -> None:
        """A copy with a policy: '' says nothing, `keep 100` has a limit."""
        policy, _, after = policy.partition(" ")
        notes = {Option.ON_DISCONNECT.value: policy} if policy else {}
        notes |= {Option.RERUN_AFTER.value: after} if after else {}
        grace, deadline = more.pop("grace", None), more.pop("deadline", None)
        body = mirrored(name, gpus, annotations=notes, **more)
        if deadline is not None:
            body["spec"]["activeDeadlineSeconds"] = deadline
        if grace is not None:
            body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
        self.add(body)

    async def copy_runs(self, name: str, policy: str = "", gpus: int = 1, **more: Any) -> None:
        self.offer(name, policy, gpus, **more)
        await until(lambda: self.started(name), f"{name} starts")
        self.run_pods(name)
        await self.at_rest()

    def stage(self, name: str) -> Stage:
        found = worker_job(self.get(name))
        assert found is not None
        return found.stage

    def held(self, name: str) -> str:
        return self.note_of(name, Mirror.HELD)

    async def until_held(self, *names: str) -> None:
        await until(lambda: all(self.stage(n) is Stage.HELD for n in names), f"{names} held")

    async def until_running(self, *names: str) -> None:
        await until(
            lambda: all(self.started(n) and not self.held(n) for n in names), f"{names} run"
        )

    def adopt(self, name: str, epoch: int) -> None:
        """The manager's verdict."""
        notes = {Mirror.EPOCH.value: str(epoch)}
        self.fake.merge(JOBS, name, {"metadata": {"annotations": notes}}, "team")

    def starts(self, name: str) -> str:
        return str((self.get(name).get("status") or {}).get("startTime") or "")
