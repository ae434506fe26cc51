"""Jobs and queue objects as the scheduler sees them: what waits, what holds quota, the world."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from federation.core import elastic, plain_kueue
from federation.core.backoff import queue_timestamp
from federation.core.dispatchers import Dispatcher
from federation.core.facts import BATCH_JOB, JobState, LocalJob, Record
from federation.core.failover import DEFAULT, Timings
from federation.core.placement_rules import PlacementRules, nearest_rules
from federation.core.policies import Policies
from federation.core.requests import charged, shrink
from federation.core.sizes import Counts, missing
from federation.core.types import Admission, ClusterQueue, Growth, Holder, LocalQueue, Pending
from federation.core.wishes import Disconnect, Wishes, grace_problem, nearest
from federation.core.world import World
from federation.edge.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Views:
    """Makes them of facts, queue objects and configuration."""

    catalog: Catalog
    policies: Policies
    timings: Timings = DEFAULT
    clamp_grace: bool = False
    """Whether what may take too long to end is told to end sooner, instead of being refused."""

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
            fair_usage=self.policies.fair_usage,
            local_queues=catalog.local_queues,
        )

    def pending(
        self, uid: str, local: LocalJob, record: Record, queue: ClusterQueue, priority: int
    ) -> Pending:
        """A job that waits in a ClusterQueue."""
        evicted, timestamp = record.life.evicted, self.policies.timestamp
        return Pending(
            uid=uid,
            namespace=local.key.namespace,
            name=local.key.name,
            local_queue=local.queue,
            cluster_queue=queue.name,
            priority=priority,
            created=queue_timestamp(local.created, evicted, record.evicted_at, timestamp),
            pod_sets=tuple(replace(pods, topology=None) for pods in local.pod_sets),
            generation=local.version,
            not_before=record.life.requeue.at or 0.0,
            preemptible=self.preemptible(local),
            only=record.move_to,
            rules=self.rules(local),
            nominees=record.nomination.clusters if self._nominates else (),
            agent_only=self.agent_only(local),
            kind="" if local.kind == BATCH_JOB else local.kind,
        )

    def growth(self, uid: str, local: LocalJob, record: Record, more: Counts) -> Pending:
        """So many pods that a job which runs is to have beside those that it has: where it is, in
        the flavors that it has, with its age.
        """
        bound, held = record.binding, record.admission
        assert bound is not None
        assert held is not None
        return Pending(
            uid=elastic.growth_uid(uid),
            namespace=local.key.namespace,
            name=local.key.name,
            local_queue=local.queue,
            cluster_queue=held.cluster_queue,
            priority=record.priority,
            created=local.created,
            pod_sets=tuple(
                replace(pods, count=more[pods.name], topology=None)
                for pods in local.pod_sets
                if pods.name in more
            ),
            generation=max(local.version, record.version),
            preemptible=self.preemptible(local),
            growth=Growth(uid, bound.cluster, elastic.flavors(held)),
        )

    def growth_holder(self, uid: str, state: JobState) -> Holder | None:
        """What a job holds of the pods that it is to have beside those in its record."""
        more = state.grown
        if more is None or (base := self.holder(uid, state)) is None:
            return None
        name, usage = elastic.growth_uid(uid), more.usage()
        return replace(base, uid=name, admission=more, usage=usage, admitted=False)

    @property
    def _nominates(self) -> bool:
        """Whether nominations decide where jobs may be offered to."""
        kinds = (Dispatcher.INCREMENTAL, Dispatcher.EXTERNAL)
        return self.policies.dispatching.kind in kinds

    def rules(self, local: LocalJob) -> PlacementRules:
        """Where a job may run: its own words, else those of its LocalQueue, else those of the
        ClusterQueue.
        """
        found = [queue.wishes.placement for queue in self._queues(local)]
        return nearest_rules((local.wishes.placement, *found))

    def holder(self, uid: str, state: JobState) -> Holder | None:
        """What a job holds; None if it holds nothing."""
        held, local, record = state.holds, state.local, state.record
        if held is None or record is None:
            return None
        # Without a binding its conditions are those of the attempt before.
        at = record.reserved_at if record.binding is not None else None
        follows = local is not None and elastic.applies(local, record)
        used = held if follows else _still_there(held, state)
        if local is not None and state.reclaimable and not elastic.unsettled(state):
            sets = local.pod_sets
            if follows:  # they are counted from what the copy runs
                has = elastic.given(record)
                sets = tuple(replace(pods, count=has[pods.name]) for pods in sets)
            used = charged(used, sets, state.reclaimable)
        # Without these rules nobody asks for the two: spare the changes.
        blocks, usage = self.policies.rules.block_admission, self.policies.fair_usage
        admitted = record.binding is not None and record.admitted
        return Holder(
            uid=uid,
            namespace=record.key.namespace,
            name=local.key.name if local else record.key.name,
            local_queue=local.queue if local else "",
            priority=record.priority,
            created=local.created if local else 0.0,
            admission=held,
            usage=used.usage(),
            reserved=None if at is None else float(int(at)),
            evicted=state.evicting,
            preemptible=local is None or self.preemptible(local),
            pods_ready=not blocks or state.pods_ready,
            admitted=usage is None or admitted,
        )

    def disconnect(self, local: LocalJob) -> Disconnect:
        """What happens to a job when its cluster is lost: its own word, else that of its
        LocalQueue, else that of the ClusterQueue.
        """
        return nearest(self._wishes(local))

    def disconnect_without_agent(self, local: LocalJob) -> Disconnect:
        """The same where plain Kueue runs the cluster."""
        return plain_kueue.policy(self._wishes(local))

    def agent_only(self, local: LocalJob) -> str:
        """Why a job is not placed where plain Kueue runs the cluster; '' if it may be."""
        return plain_kueue.agent_only(local, self._wishes(local))

    def _wishes(self, local: LocalJob) -> list[Wishes]:
        return [local.wishes, *(found.wishes for found in self._queues(local))]

    def disconnect_problem(self, local: LocalJob) -> str:
        """What is wrong with that; '' if nothing is. A job's own mistakes are told elsewhere."""
        for found in self._queues(local):
            if found.wishes.problem:
                return f"{type(found).__name__} {found.name}: {found.wishes.problem}"
        if self.clamp_grace:
            return ""
        return grace_problem(self.disconnect(local), local.grace_s, self.timings.kill)

    def _queues(self, local: LocalJob) -> list[LocalQueue | ClusterQueue]:
        """Its LocalQueue and the ClusterQueue that this leads to, as far as they exist."""
        door = self.catalog.local_queues.get((local.key.namespace, local.queue))
        queue = self.catalog.queues.get(door.cluster_queue) if door else None
        return [found for found in (door, queue) if found is not None]

    def preemptible(self, local: LocalJob) -> bool:
        """Whether a job may be preempted: its own word, else that of its LocalQueue, else that of
        the ClusterQueue.
        """
        said = [local.preemptible, *(found.preemptible for found in self._queues(local))]
        return next((word for word in said if word is not None), True)


def _still_there(held: Admission, state: JobState) -> Admission:
    """What was admitted, less the pods that people took away from the copy while it ran and that
    have stopped. That a worker had no room for all of them frees nothing here.
    """
    copy = state.remote
    if copy is None or copy.size is None:
        return held
    taken = missing(elastic.counts(held), copy.size.asked)
    sets = (
        shrink(pods, copy.size.there.get(pods.name, 0)) if pods.name in taken else pods
        for pods in held.pod_sets
    )
    return replace(held, pod_sets=tuple(sets)) if taken else held
