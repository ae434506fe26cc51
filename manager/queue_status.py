"""Counts and usage in the status of ClusterQueues and LocalQueues, written when they change.

At most one write a second and object: people and dashboards read them, decisions do not.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

import structlog

from federation.api.meta import wire_time
from federation.api.names import ActiveReason, ConditionType
from federation.api.record import condition, with_conditions
from federation.core.facts import JobState
from federation.core.policies import StopPolicy
from federation.core.quantity import format_quantity
from federation.core.types import ClusterQueue, LocalQueue, Usage
from federation.edge.catalog import Catalog
from federation.edge.errors import ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import CLUSTER_QUEUES, LOCAL_QUEUES, Json, Resource

log = structlog.get_logger(__name__)
Key = tuple[str, str]
Problem = tuple[ActiveReason, str]

EVERY_S = 1.0


class _Count:
    """What one queue has."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.reserved: Usage = {}
        self.used: Usage = {}

    def add(self, state: JobState) -> None:
        """Count one job that has not finished."""
        held = state.holds
        self.numbers["pendingWorkloads"] += held is None
        if held is None:
            return
        admitted = bool(state.record and state.record.admitted)
        self.numbers["reservingWorkloads"] += 1
        self.numbers["admittedWorkloads"] += admitted
        for total in (self.reserved, self.used) if admitted else (self.reserved,):
            for key, amount in held.usage().items():
                total[key] = total.get(key, 0) + amount


class QueueStatus:
    """Writes the statuses."""

    def __init__(
        self, client: KubeClient, catalog: Catalog, states: Mapping[str, JobState]
    ) -> None:
        self._client, self._catalog, self._states = client, catalog, states
        self._written: dict[tuple[str, Key], Json] = {}
        self._shown: dict[tuple[str, Key], Json] = {}

    async def run(self) -> None:
        """Write what changed, once a second, until cancelled."""
        while True:
            await self.tick()
            await asyncio.sleep(EVERY_S)  # a limit on writes, not a wait for something

    async def tick(self) -> None:
        """Write what changed since the last time."""
        cluster_queues, local_queues = self._count()
        for name, queue in list(self._catalog.queues.items()):  # they change meanwhile
            body = self._cluster_queue(queue, cluster_queues[name])
            await self._write(CLUSTER_QUEUES, ("", name), body)
        for key, local in list(self._catalog.local_queues.items()):
            problem = self._local_problem(key, local)
            count = local_queues[key]
            body = {**_numbers(count), "flavorsReservation": _flavors(count.reserved)}
            body["conditions"] = [_active(problem, "submit to ClusterQueue " + local.cluster_queue)]
            await self._write(LOCAL_QUEUES, key, body)

    def _count(self) -> tuple[defaultdict[str, _Count], defaultdict[Key, _Count]]:
        by_queue: defaultdict[str, _Count] = defaultdict(_Count)
        by_local: defaultdict[Key, _Count] = defaultdict(_Count)
        for state in self._states.values():
            local, record = state.local, state.record
            if local is None or record is None or record.finished:
                continue
            door = self._catalog.local_queues.get((local.key.namespace, local.queue))
            if door is not None:
                by_queue[door.cluster_queue].add(state)
                by_local[local.key.namespace, local.queue].add(state)
        return by_queue, by_local

    def _cluster_queue(self, queue: ClusterQueue, count: _Count) -> Json:
        problem = self._queue_problem(queue)
        return {
            **_numbers(count),
            "flavorsReservation": _flavors(count.reserved),
            "flavorsUsage": _flavors(count.used),
            "conditions": [_active(problem, "Can admit new workloads")],
        }

    def _queue_problem(self, queue: ClusterQueue) -> Problem | None:
        missing = [
            flavor.flavor
            for group in queue.groups
            for flavor in group.flavors
            if flavor.flavor not in self._catalog.flavors
        ]
        if queue.stop is not StopPolicy.NONE:
            return ActiveReason.STOPPED, f"Can't admit new workloads: stopped ({queue.stop})"
        if missing:
            text = f"Can't admit new workloads: ResourceFlavor {missing[0]} does not exist"
            return ActiveReason.FLAVOR_NOT_FOUND, text
        return None

    def _local_problem(self, key: Key, local: LocalQueue) -> Problem | None:
        text = self._catalog.queue_problem(*key)
        queue = self._catalog.queues.get(local.cluster_queue)
        if local.stop is not StopPolicy.NONE:
            return ActiveReason.STOPPED, text
        if queue is None:
            return ActiveReason.CLUSTER_QUEUE_DOES_NOT_EXIST, text
        problem = self._queue_problem(queue)
        if problem is not None:
            return ActiveReason.CLUSTER_QUEUE_IS_INACTIVE, f"{queue.name}: {problem[1]}"
        return None

    async def _write(self, resource: Resource, key: Key, status: Json) -> None:
        slot = (resource.plural, key)
        if self._written.get(slot) == status:
            return
        now = wire_time(datetime.now(UTC))
        conditions = with_conditions(self._shown.get(slot, {}), status["conditions"], now)
        stamped = {**status, "conditions": conditions}
        try:
            await self._client.patch(
                resource, key[1], {"status": stamped}, key[0] or None, subresource="status"
            )
        except NotFound:
            return
        except ApiError as error:
            log.warning("queue.status_not_written", queue=key, error=str(error))
            return
        self._written[slot], self._shown[slot] = status, stamped


def _active(problem: Problem | None, message: str) -> Json:
    if problem is not None:
        return condition(ConditionType.ACTIVE, False, problem[0].value, problem[1])
    return condition(ConditionType.ACTIVE, True, ActiveReason.READY.value, message)


def _numbers(count: _Count) -> Json:
    names = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
    return {name: count.numbers[name] for name in names}


def _flavors(usage: Usage) -> list[Json]:
    by_flavor: defaultdict[str, list[Json]] = defaultdict(list)
    for key in sorted(usage):
        by_flavor[key.flavor].append(
            {"name": key.resource, "total": format_quantity(key.resource, usage[key])}
        )
    return [{"name": flavor, "resources": rows} for flavor, rows in by_flavor.items()]
