"""Jobs and queue objects as the scheduler sees them: what waits, what holds quota, the world."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from federation.api import record as records
from federation.api.names import ConditionType
from federation.core.backoff import queue_timestamp
from federation.core.facts import JobState, LocalJob, Record
from federation.core.scheduler import World
from federation.core.types import ClusterQueue, Holder, Pending
from federation.edge.catalog import Catalog
from federation.jobs import batch_job
from manager.settings import Policies


@dataclass(frozen=True, slots=True)
class Views:
    """Makes them of facts, queue objects and configuration."""

    catalog: Catalog
    policies: Policies

    def world(self, inactive: Iterable[str]) -> World:
        """The queue objects. Flavors are budgets here: the nodes that a topology arranges are
        those of the worker clusters, whose agents see to it.
        """
        catalog = self.catalog
        flavors = catalog.flavors.items()
        return World(
            queues=catalog.queues,
            cohorts=tuple(catalog.cohorts),
            flavors={name: replace(flavor, topology="") for name, flavor in flavors},
            namespaces=catalog.namespaces,
            rules=self.policies.rules,
            inactive=frozenset(inactive),
        )

    def pending(
        self, uid: str, local: LocalJob, record: Record, queue: ClusterQueue, priority: int
    ) -> Pending:
        """A job that waits in a ClusterQueue."""
        evicted, evicted_at = _since(record, ConditionType.EVICTED)
        timestamp = self.policies.timestamp
        requeue = record.status.get("requeueState") or {}
        return Pending(
            uid=uid,
            namespace=local.key.namespace,
            name=local.key.name,
            local_queue=local.queue,
            cluster_queue=queue.name,
            priority=priority,
            created=queue_timestamp(local.created, evicted, evicted_at, timestamp),
            pod_sets=tuple(replace(pods, topology=None) for pods in local.pod_sets),
            generation=local.version,
            not_before=batch_job.timestamp(requeue.get("requeueAt")),
            preemptible=self.preemptible(local),
        )

    def holder(self, uid: str, state: JobState, evicting: bool) -> Holder | None:
        """What a job holds; None if it holds nothing. `evicting` is whether it has been told to
        stop, though its record may not say so yet.
        """
        held, local, record = state.holds, state.local, state.record
        if held is None or record is None:
            return None
        reserved, evicted = None, evicting
        if record.binding is not None:  # else the conditions are those of the attempt before
            _, at = _since(record, ConditionType.QUOTA_RESERVED)
            reserved = None if at is None else float(int(at))
            evicted = evicting or records.is_true(record.status, ConditionType.EVICTED)
        blocks = self.policies.rules.block_admission  # nobody asks else: spare the changes
        return Holder(
            uid=uid,
            namespace=record.key.namespace,
            name=local.key.name if local else record.key.name,
            local_queue=local.queue if local else "",
            priority=record.priority,
            created=local.created if local else 0.0,
            admission=held,
            usage=held.usage(),
            reserved=reserved,
            evicted=evicted,
            preemptible=local is None or self.preemptible(local),
            pods_ready=not blocks or records.is_true(record.status, ConditionType.PODS_READY),
        )

    def preemptible(self, local: LocalJob) -> bool:
        """Whether a job may be preempted: its own word, else that of its LocalQueue, else that of
        the ClusterQueue.
        """
        door = self.catalog.local_queues.get((local.key.namespace, local.queue))
        queue = self.catalog.queues.get(door.cluster_queue) if door else None
        said = [local.preemptible, *(found.preemptible for found in (door, queue) if found)]
        return next((word for word in said if word is not None), True)


def _since(record: Record, kind: ConditionType) -> tuple[str, float | None]:
    """Reason of a condition that is True, and since when; '' and None if it is not."""
    found = records.find(record.status, kind)
    if found is None or found["status"] != "True":
        return "", None
    return found["reason"], batch_job.timestamp(found.get("lastTransitionTime")) or None
