"""What becomes of Jobs on nodes that are lost: their pods get other places, or they start over.

Rules: the admission specification, sections 7.5 and 7.8. Flavors stay; only places are looked for,
at once and once: if there are none, the Job is evicted (NodeFailures).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from federation.api.names import Mirror
from federation.core.reasons import Reason
from federation.core.topology import TopologyFailure, topology_of
from federation.core.types import Admission, TopologyAssignment
from federation.jobs.eviction_note import Eviction
from worker_agent.devices import Devices
from worker_agent.facts import Stage, WorkerJob
from worker_agent.failures import Failures, moved, moved_note, placed
from worker_agent.nodes import Nodes
from worker_agent.reseating import Reseating
from worker_agent.state import State, stamp


class Repair:
    """Looks at all placed Jobs when nodes have changed."""

    def __init__(self, state: State, nodes: Nodes, devices: Devices) -> None:
        self._state, self._nodes, self._devices = state, nodes, devices
        self.failures = Failures()
        self.reseating = Reseating(state, devices, self.failures)

    def run(self, now: float) -> float | None:
        """Find what was lost, and mend it. Returns when to look again, if nothing changes."""
        if not self._nodes.ready:
            return None
        hosts = self._nodes.by_hostname()
        self.failures.note(hosts, now)
        for job in list(self._state.jobs.values()):
            if job.stage is not Stage.RUNNING or self._state.busy(job.uid) or not placed(job):
                continue
            if job.uid in self._devices.plans:
                continue
            assert job.admission is not None
            pods = self._nodes.pods.get(job.uid, {}).values()
            lost = self.failures.lost(job, hosts, pods, now)
            if lost and job.uid not in self._state.evicting:
                self._mend(job, job.admission, lost, now)
        self.reseating.run(now)
        return self.failures.due(now)

    def _mend(self, job: WorkerJob, admission: Admission, lost: frozenset[str], now: float) -> None:
        state, held = self._state, self._state.scheduler.holder(job.uid)
        found = self._elsewhere(job, admission, lost)
        if isinstance(found, TopologyAssignment) and held is not None:
            state.scheduler.hold(replace(held, admission=moved(admission, found)))
            state.write(job, partial(self._write, found))
            return
        names = ", ".join(sorted(lost))
        text = f"Pods have lost their node ({names}), and there is no other place for them: {found}"
        state.evict(job.uid, Eviction(Reason.NODE_FAILURES.value, text, stamp(now)))

    def _elsewhere(
        self, job: WorkerJob, admission: Admission, lost: frozenset[str]
    ) -> TopologyAssignment | str:
        """New places for the pods on lost nodes, or why there are none."""
        assigned = next(pods for pods in admission.pod_sets if pods.topology)
        asked = next((pods for pods in job.pod_sets if pods.name == assigned.name), None)
        topologies = self._state.scheduler.snapshot.topologies
        topology = topology_of(assigned, topologies)
        if asked is None or topology is None or assigned.topology is None:
            return "its flavor is not arranged in a topology any more"
        if len(assigned.topology.domains) == 1:  # the template of the running Job names the node
            return "all of its pods were there"
        found = topology.replace(assigned.topology, lost, asked)
        return found.message if isinstance(found, TopologyFailure) else found

    async def _write(self, places: TopologyAssignment, job: WorkerJob) -> None:
        if job.admission is not None:
            note = self._state.book.bodies[job.uid]["metadata"]["annotations"][
                Mirror.ADMISSION.value
            ]
            await self._state.api.move(job, moved_note(note, moved(job.admission, places)))
