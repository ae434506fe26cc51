"""Takes jobs off clusters that are drained, by order of an operator (`fedq cluster drain`).

The order is an annotation of the MultiKueueCluster, and keeps new work away (a cordon). `now` stops
what is there, whatever its policy says of a loss: it queues again with its priority and age, and
runs elsewhere. `graceful` takes back only what was not started. What is on a cluster that cannot
be reached is not touched: it is stopped when the cluster is back, or is lost as any other's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

import structlog

from federation.api.orders import NOW, ClusterOrders
from federation.core import events as on
from federation.core.facts import JobState
from federation.core.failover import Standing
from federation.core.reasons import Reason
from manager.controller import Controller
from manager.reruns import Reruns

log = structlog.get_logger(__name__)

TICK_S = 1.0
REST_S = 15.0
"""Seconds between two looks at a cluster that is empty: what was decided on before the order came
may still be bound there."""


class Drain:
    """`orders` are those about each cluster, `standing` is how a cluster stands."""

    def __init__(
        self,
        controller: Controller,
        orders: Callable[[], Mapping[str, ClusterOrders]],
        standing: Callable[[str], Standing],
    ) -> None:
        self._controller, self._orders, self._standing = controller, orders, standing
        self._wake = asyncio.Event()
        self._queue = Reruns(self._evict)

    def wake(self) -> None:
        """Orders may be others now."""
        self._wake.set()

    async def run(self) -> None:
        """Follow the orders until cancelled."""
        try:
            while True:
                delay = self._look()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            self._queue.close()

    def _look(self) -> float | None:
        """Put in what has to leave; when to look again (None: when an order comes)."""
        drained = {name for name, order in self._orders().items() if order.drain}
        if not drained:
            return None
        left = 0
        for uid, state in list(self._controller.states.items()):
            bound, local, record = state.bound, state.local, state.record
            if bound is None or bound.cluster not in drained:
                continue
            left += 1
            if record is not None and record.finished and state.keep:
                self._controller.feed(uid, on.LetGo())
            if local is not None and record is not None and self._leaves(state):
                self._queue.put(uid, bound.cluster, record.priority, local.created)
        return TICK_S if left else REST_S

    def _leaves(self, state: JobState) -> bool:
        """Whether a job is to be stopped now where it is bound."""
        bound, record, copy = state.bound, state.record, state.remote
        if bound is None or record is None or record.finished or state.evicting:
            return False
        if copy is not None and copy.finished:  # its result is all that is left of it
            return False
        standing = self._standing(bound.cluster)
        if standing.suspect or not standing.reachable:
            return False
        drain = self._orders().get(bound.cluster, ClusterOrders()).drain
        started = record.admitted or (copy is not None and copy.running)
        return drain == NOW or (bool(drain) and not started)

    def _evict(self, uid: str, cluster: str) -> None:
        """Its turn has come; much may have changed since it was put in."""
        state = self._controller.states.get(uid)
        if state is None or state.bound is None or state.bound.cluster != cluster:
            return
        if not self._leaves(state):
            return
        why = self._orders()[cluster].cordon
        text = f"cluster {cluster} is drained ({why}): the job leaves it and is queued again"
        log.info("drain.job", cluster=cluster, uid=uid, attempt=state.bound.attempt)
        self._controller.feed(uid, on.Evict(Reason.CLUSTER_DRAINED.value, text))
