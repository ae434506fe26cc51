"""Counts and usage in the status of queues and cohorts, written when they change.

At most one write a second and object: people and dashboards read them, decisions do not.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from federation.api.local_usage import write_usage
from federation.api.meta import wire_time
from federation.api.names import ActiveReason, ConditionType
from federation.api.record import condition, with_conditions
from federation.core.facts import JobState
from federation.core.quantity import format_quantity
from federation.core.quota import QuotaNode, QuotaTree, quotas_of
from federation.core.shares import share_of
from federation.core.types import ClusterQueue, LocalQueue, Usage
from federation.edge.errors import ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, Json, Resource
from manager.controller import Controller
from manager.queue_health import Problem, QueueHealth

log = structlog.get_logger(__name__)
Key = tuple[str, str]

EVERY_S = 1.0
AGAIN_AFTER = 60
_ADMITS = "Can admit new workloads"
_HERE = (
    "its jobs run on this cluster, admitted by the agent beside the manager; counted here are those"
    " that were sent to worker clusters before"
)
MOST_FLAVORS = 64
"""As many a status may list."""


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

    def __init__(self, client: KubeClient, controller: Controller, health: QueueHealth) -> None:
        self._client, self._controller, self._health = client, controller, health
        self._catalog = controller.catalog
        self.quota_condition: Callable[[str], Json | None] = lambda queue: None
        """What there is to say of the quota of a ClusterQueue."""
        self.runs_here: Callable[[ClusterQueue], bool | None] = lambda queue: False
        """Whether the jobs of a ClusterQueue are those of the agent beside the manager."""
        self._written: dict[tuple[str, Key], Json] = {}
        self._shown: dict[tuple[str, Key], Json] = {}
        self._catalog.on_removed = self._forget

    def _forget(self, plural: str, key: Key) -> None:
        """Another object of the name has a status of its own."""
        self._written.pop((plural, key), None)
        self._shown.pop((plural, key), None)

    async def run(self) -> None:
        """Write what changed, once a second, until cancelled.

        After a minute everything is written once more: a manager that led before may have been
        late with something.
        """
        for second in itertools.count():
            if second == AGAIN_AFTER:
                self._written.clear()
            await self.tick()
            await asyncio.sleep(EVERY_S)  # a limit on writes, not a wait for something

    async def tick(self) -> None:
        """Write what changed since the last time."""
        cluster_queues, local_queues = self._count()
        tree = self._controller.scheduler.snapshot.tree
        for name, queue in list(self._catalog.queues.items()):  # they change meanwhile
            body = self._cluster_queue(queue, cluster_queues[name], tree)
            await self._write(CLUSTER_QUEUES, ("", name), body)
        for key, local in list(self._catalog.local_queues.items()):
            await self._write(LOCAL_QUEUES, key, self._local_queue(key, local, local_queues[key]))
        if self._fair:
            for cohort in list(self._catalog.cohorts):
                body = _fair_sharing(tree.cohort(cohort.name), tree)
                await self._write(COHORTS, ("", cohort.name), body)

    @property
    def _fair(self) -> bool:
        return self._controller.policies.rules.fair_sharing

    def _count(self) -> tuple[defaultdict[str, _Count], defaultdict[Key, _Count]]:
        by_queue: defaultdict[str, _Count] = defaultdict(_Count)
        by_local: defaultdict[Key, _Count] = defaultdict(_Count)
        for state in self._controller.states.values():
            local, record = state.local, state.record
            if local is None or record is None or record.finished:
                continue
            door = self._catalog.local_queues.get((local.key.namespace, local.queue))
            if door is not None:
                by_queue[door.cluster_queue].add(state)
                by_local[local.key.namespace, local.queue].add(state)
        return by_queue, by_local

    def _cluster_queue(self, queue: ClusterQueue, count: _Count, tree: QuotaTree) -> Json:
        problem = self._health.cluster_queue(queue, tree)
        node = tree.queues.get(queue.name)
        body: Json = {
            **_numbers(count),
            "flavorsReservation": _flavors(count.reserved, queue, node),
            "flavorsUsage": _flavors(count.used, queue, node),
            "conditions": [_active(problem, _HERE if self.runs_here(queue) else _ADMITS)],
        }
        if (told := self.quota_condition(queue.name)) is not None:
            body["conditions"].append(told)
        return body | _fair_sharing(node, tree) if self._fair else body

    def _local_queue(self, key: Key, local: LocalQueue, count: _Count) -> Json:
        tree = self._controller.scheduler.snapshot.tree
        problem = self._health.local_queue(key, local, tree)
        queue = self._catalog.queues.get(local.cluster_queue)
        text = f"submit to ClusterQueue {local.cluster_queue}"
        if queue is not None and self.runs_here(queue):
            text = f"{text}: {_HERE}"
        return {
            **_numbers(count),
            "flavorsReservation": _flavors(count.reserved, queue),
            "flavorsUsage": _flavors(count.used, queue),
            "conditions": [_active(problem, text)],
            "fairSharing": self._used(key),
        }

    def _used(self, key: Key) -> Json | None:
        """What the LocalQueue used, where those take turns: read again after a restart."""
        turns = self._controller.scheduler.turns
        state = turns.state(key)
        return write_usage(state, turns.usages[key]) if state is not None else None

    async def _write(self, resource: Resource, key: Key, status: Json) -> None:
        slot = (resource.plural, key)
        if self._written.get(slot) == status:
            return
        stamped = status
        if "conditions" in status:
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
        return condition(ConditionType.ACTIVE, False, problem.reason.value, problem.message)
    return condition(ConditionType.ACTIVE, True, ActiveReason.READY.value, message)


def _numbers(count: _Count) -> Json:
    names = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
    return {name: count.numbers[name] for name in names}


def _fair_sharing(node: QuotaNode | None, tree: QuotaTree) -> Json:
    share = share_of(node, tree.lendable).shown() if node is not None else 0
    return {"fairSharing": {"weightedShare": share}}


def _flavors(usage: Usage, queue: ClusterQueue | None, node: QuotaNode | None = None) -> list[Json]:
    """All that the queue lists, and what is held of anything else (its quota was taken away).

    With a `node`, also what is borrowed of that.
    """
    rows: dict[str, list[Json]] = {}
    listed = quotas_of(queue.groups) if queue is not None else ()
    for key in dict.fromkeys([*listed, *sorted(usage)]):
        total = usage.get(key, 0)
        row = {"name": key.resource, "total": format_quantity(key.resource, total)}
        if node is not None:
            over = max(0, total - node.subtree.get(key, 0)) if node.parent is not None else 0
            row["borrowed"] = format_quantity(key.resource, over)
        rows.setdefault(key.flavor, []).append(row)
    return [{"name": name, "resources": found} for name, found in rows.items()][:MOST_FLAVORS]
