"""Pods that come to a group which runs, in the place of some that failed: they are let go.

They get the flavors that these had, and are charged with what these hold. Which pods take whose
place the bundle says (`federation.jobs.kinds.pod_groups`); of a copy its manager makes them.
"""

from __future__ import annotations

from federation.edge.resources import Json
from worker_agent.facts import Stage, WorkerJob
from worker_agent.state import State


class Latecomers:
    """Asked about every job that holds quota and of which there is news."""

    def __init__(self, state: State) -> None:
        self._state = state

    def look(self, job: WorkerJob) -> None:
        """Let go what has come since."""
        if self._state.kind_of(job).bundled and self._patch(job) is not None:
            self._state.write(job, self._let_go)

    def _patch(self, job: WorkerJob) -> Json | None:
        state = self._state
        stays = job.stage is Stage.RUNNING and not job.terminating
        if not stays or job.admission is None or job.uid in state.evicting:
            return None
        known = state.scheduler.snapshot.flavors
        used = {name for pods in job.admission.pod_sets for name in pods.flavors.values()}
        if not used <= known.keys() or not state.may_start(job):
            return None
        flavors = [known[name] for name in sorted(used)]
        return state.kind_of(job).late_patch(state.book.bodies[job.uid], flavors)

    async def _let_go(self, job: WorkerJob) -> None:
        if (patch := self._patch(job)) is not None:
            await self._state.api.let_go(job, patch)
