"""Nodes that are lost under Jobs placed on them.

A node counts as lost when it is gone, when it has not been ready for `UNREADY_S`, or when it is
not ready and no pod of the Job that would go on running is left on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from federation.core.topology import HOSTNAME, Node
from federation.core.types import Admission, TopologyAssignment
from federation.edge.resources import Json
from federation.jobs.admission_note import encode_admission
from worker_agent.facts import WorkerJob

UNREADY_S = 30.0


class Failures:
    """Remembers since when nodes are not ready, as seen here (seconds since the epoch)."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._suspects: set[str] = set()

    def note(self, nodes: Mapping[str, Node], now: float) -> None:
        """How the nodes are now, by hostname."""
        down = {name for name, node in nodes.items() if not node.ready}
        self._since = {name: self._since.get(name, now) for name in down}
        self._suspects.clear()

    def lost(
        self, job: WorkerJob, nodes: Mapping[str, Node], pods: Iterable[Json], now: float
    ) -> frozenset[str]:
        """The hostnames of the lost nodes that a Job is placed on."""
        places = placed(job)
        if places is None or places.levels[-1:] != (HOSTNAME,):
            return frozenset()
        hosts = {values[-1] for values, _ in places.domains}
        down = hosts & self._since.keys()
        if down:
            self._suspects.add(job.uid)
        live = {pod["spec"].get("nodeName") for pod in pods if _goes_on(pod)}
        silent = {name for name in down if now >= self._since[name] + UNREADY_S}
        deserted = {name for name in down if nodes[name].name not in live}
        return frozenset((hosts - nodes.keys()) | silent | deserted)

    def silent(self, now: float) -> frozenset[str]:
        """The hostnames of nodes that have not been ready for too long."""
        return frozenset(name for name, at in self._since.items() if now >= at + UNREADY_S)

    def is_down(self, hostname: str) -> bool:
        """Whether a node is not ready, however long."""
        return hostname in self._since

    def suspect(self, uid: str) -> None:
        """A Job has pods on a node that is not ready, or lost."""
        self._suspects.add(uid)

    def concerns(self, uid: str) -> bool:
        """Whether a Job is placed on a node that is not ready: news of its pods matter."""
        return uid in self._suspects

    def due(self, now: float) -> float | None:
        """When the next node has not been ready for too long, if Jobs are placed on such."""
        times = (at + UNREADY_S for at in self._since.values() if at + UNREADY_S > now)
        return min(times, default=None) if self._suspects else None


def _goes_on(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def placed(job: WorkerJob) -> TopologyAssignment | None:
    """Where a Job is placed; None if it is not."""
    pod_sets = job.admission.pod_sets if job.admission is not None else ()
    return next((pods.topology for pods in pod_sets if pods.topology), None)


def moved(admission: Admission, places: TopologyAssignment) -> Admission:
    """The admission of a Job whose pods go elsewhere."""
    pod_sets = tuple(
        replace(pods, topology=places) if pods.topology else pods for pods in admission.pod_sets
    )
    return replace(admission, pod_sets=pod_sets)


def moved_note(note: str, admission: Admission) -> str:
    """The record of an admission with other places; what the Job was before stays in it."""
    body = json.loads(note)
    body["podSets"] = json.loads(encode_admission(admission))["podSets"]
    return json.dumps(body, separators=(",", ":"))
