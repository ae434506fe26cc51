"""Which queues jobs are in, and why a job cannot be queued: looked up in the catalog."""

from __future__ import annotations

from collections.abc import Callable

from federation.api.names import Label
from federation.api.workload_spec import workload_class
from federation.core.facts import JobState, Queues
from federation.core.placement_rules import nearest_rules
from federation.core.types import ClusterQueue
from federation.edge.catalog import Catalog
from federation.edge.resources import Json
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.registry import BATCH_ONLY
from federation.jobs.kinds.scaled import Scaled

_Key = tuple[str, str, str]
"""Namespace and name of a LocalQueue, and the ClusterQueue that counts for the job."""


class JobQueues:
    """Jobs in the same queues share one value, which stays the same object until it changes."""

    def __init__(self, catalog: Catalog, kinds: Kinds = BATCH_ONLY) -> None:
        self._kinds = kinds
        self._catalog = catalog
        self.own_check: Callable[[tuple[str, ...]], str] = lambda names: ""
        """Which of a queue's admission checks is the manager's own; '' if none is."""
        self.elsewhere: Callable[[ClusterQueue, bool], str] = lambda queue, always_sent: ""
        """Why a ClusterQueue is not the manager's; '' if it is. Some kinds are always sent."""
        self._known: dict[_Key, Queues] = {}

    def refresh(self) -> None:
        """Queues, or which of their checks is the manager's, may be others now."""
        for key, known in self._known.items():
            found = self._look_up(key)
            self._known[key] = known if found == known else found

    def of(self, state: JobState) -> Queues | None:
        """The queues of a job: those that it was admitted to, else those that it is submitted to.

        None for a job that is not there.
        """
        local, record = state.local, state.record
        if local is None:
            return None
        held = record.admission if record is not None and record.binding else None
        cluster = held.cluster_queue if held else self._leads_to(state)
        key = (local.key.namespace, local.queue, cluster)
        if key not in self._known:
            self._known[key] = self._look_up(key)
        return self._known[key]

    def _look_up(self, key: _Key) -> Queues:
        namespace, name, cluster = key
        door = self._catalog.local_queues.get((namespace, name))
        queue = self._catalog.queues.get(cluster)
        own = self.own_check(queue.check_names) if queue else ""
        said = [found.wishes.placement for found in (door, queue) if found is not None]
        after = nearest_rules(said).give_up_after
        return Queues(door.stop if door else None, queue, own, after)

    def cluster_queue(self, state: JobState) -> ClusterQueue | None:
        """The ClusterQueue that a job is submitted to."""
        return self._catalog.queues.get(self._leads_to(state))

    def _leads_to(self, state: JobState) -> str:
        local = state.local
        door = local and self._catalog.local_queues.get((local.key.namespace, local.queue))
        return door.cluster_queue if door else ""

    def problem(self, state: JobState) -> str:
        """Why a job cannot be queued, '' if it can."""
        local = state.local
        if local is None:
            return ""
        if problem := self._catalog.queue_problem(local.key.namespace, local.queue):
            return problem
        try:
            self._catalog.priority(local.priority_class, "")
        except KeyError:
            return (
                f"WorkloadPriorityClass {local.priority_class} does not exist: create it, or"
                f" correct the label {Label.PRIORITY_CLASS}"
            )
        return ""

    def not_ours(self, state: JobState) -> str:
        """Why a job waits in a queue that is not the manager's; '' if it does not."""
        queue, local = self.cluster_queue(state), state.local
        if queue is None or local is None:
            return ""
        return self.elsewhere(queue, isinstance(self._kinds[local.kind], Scaled))

    def priority_class(self, state: JobState, body: Json | None) -> str | None:
        """The WorkloadPriorityClass of a job, '' for none; None if it does not exist, or cannot be
        told without the whole Job.
        """
        local = state.local
        if local is None or (body is None and not local.priority_class):
            return None
        pod_class = self._kinds[local.kind].pod_class(body) if body is not None else ""
        try:
            return workload_class(self._catalog.priority(local.priority_class, pod_class)[1])
        except KeyError:
            return None
