"""Places and cards for what was reserved before its nodes were there.

Flavors stand; only places are sought, where the checks let pods go, and tried again after 1 s, 2 s,
4 s, … 30 s while there are none (the admission specification, section 7.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from federation.core.facts import Record
from federation.core.placement import place_later
from federation.core.pod_updates import PodSetUpdate
from federation.core.reasons import Reason
from federation.core.topology import TopologyFailure
from federation.core.types import Admission
from worker_agent.devices import Devices
from worker_agent.facts import WorkerJob
from worker_agent.state import State
from worker_agent.texts import Waiting
from worker_agent.views import Standing, pending

AGAIN_S = 1.0
AGAIN_MOST_S = 30.0


class SecondPass:
    """What it finds is charged at once; a start that fails gives it back, as what the Job says then
    is taken over.
    """

    def __init__(self, state: State, devices: Devices) -> None:
        self._state, self._devices = state, devices

    def place(
        self, job: WorkerJob, admission: Admission, updates: Sequence[PodSetUpdate]
    ) -> Admission | Waiting:
        """The admission with places, or why there are none now."""
        state = self._state
        topologies = state.scheduler.snapshot.topologies
        found = place_later(admission, job.pod_sets, topologies, updates)
        if isinstance(found, TopologyFailure):
            return _waits(found.message)
        lacking = state.delayed(job) & {p.name for p in found.pod_sets if p.topology is None}
        if lacking:
            names = ", ".join(sorted(lacking))
            return _waits(f"the nodes for {names} have not been read yet, or have no topology")
        standing = Standing(admission.cluster_queue, state.standings.priority(job)[0])
        self._devices.release(job.uid)
        nowhere = self._devices.place(pending(job, standing, 0), found)
        if nowhere is not None:
            return _waits(nowhere.message())
        self._devices.keep(job.uid)
        held = state.scheduler.holder(job.uid)
        if held is not None and found != admission:
            state.scheduler.hold(replace(held, admission=found))
        return found

    @staticmethod
    def again(record: Record, now: float) -> float:
        """When to try once more: after as long as the checks have been Ready."""
        since = max((c.changed_at or 0.0 for c in record.life.checks), default=0.0)
        return now + min(max(now - since, AGAIN_S), AGAIN_MOST_S)


def _waits(text: str) -> Waiting:
    return Waiting(
        Reason.PENDING_DELAYED_TOPOLOGY_REQUESTS.value,
        f"Its admission checks are Ready, and its pods have no places yet: {text}",
    )
