"""Runs scheduling cycles over the pending index and commits what they decide.

A cycle runs when something changed that can admit a workload: one was queued, quota or capacity
was freed, a cluster came, a queue object changed. Between two such events a shape that did not
fit is not looked at again.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import replace

import structlog

from federation.core import events as on
from federation.core.cycle import Fit, Snapshot, Wait, run_cycle
from federation.core.dispatch import Choice, ClusterView, NoCluster, choose
from federation.core.facts import JobState
from federation.core.policies import QueueingStrategy
from federation.core.queueing import IndexLost, IndexUnavailable, shape
from federation.core.types import Admission, Pending
from manager.clusters import Clusters
from manager.controller import Controller
from manager.pending import PendingQueue

log = structlog.get_logger(__name__)

HEADS = 64
REDIS_PAUSE_S = 0.5
EXPLAIN_S = 2.0


class Dispatcher:
    """One per shard of queues."""

    def __init__(self, controller: Controller, queue: PendingQueue, clusters: Clusters) -> None:
        self._controller = controller
        self._clusters = clusters
        self._queue = queue
        self._wake = asyncio.Event()
        self._blocked: dict[str, dict[str, Wait]] = defaultdict(dict)
        self._parked: set[str] = set()
        self._unpark: set[str] = set()
        self._problems: dict[str, str] = {}
        self.cycles = 0
        """Cycles run so far."""

    def wake(self) -> None:
        """Something was queued."""
        self._wake.set()

    def reactivate(self) -> None:
        """Quota, capacity or rules changed: what did not fit may fit now."""
        self._blocked.clear()
        self._unpark |= self._parked
        self._wake.set()

    def clusters_seen(self) -> None:
        """A cluster that takes work again is a change too, even if it has nothing new to report."""
        links = self._clusters.links
        problems = {name: self._clusters.problem(link) for name, link in links.items()}
        if problems != self._problems:
            self._problems = problems
            self.reactivate()

    async def run(self) -> None:
        """Dispatch until cancelled. While Redis is away nothing is dispatched; nothing is lost."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if self._queue.lost:
                    await self._refill()
                while await self._pass():
                    pass
            except IndexLost as error:
                self._queue.mark_lost(error)
                self._wake.set()
            except IndexUnavailable as error:
                self._queue.mark_lost(error)
                await asyncio.sleep(REDIS_PAUSE_S)  # Redis has no event for being back
                self._wake.set()

    async def _refill(self) -> None:
        await self._queue.rebuild()
        self._parked.clear()
        self._unpark.clear()

    async def _pass(self) -> bool:
        """One cycle over the heads of all queues; whether another one may admit more."""
        await self._reactivate_parked()
        heads: dict[str, list[Pending]] = {}
        for name in self._queue.queues:
            without = self._blocked.get(name, {})
            items = await self._queue.index.heads(name, HEADS, without)
            heads[name] = [item for item in items if await self._current(item)]
        if not any(heads.values()):
            return False
        controller = self._controller
        catalog = controller.catalog
        views = {
            name: link.ledger.view(self._clusters.problem(link))
            for name, link in self._clusters.links.items()
        }
        snapshot = Snapshot(catalog.queues, catalog.flavors, catalog.namespaces, controller.tree)
        self.cycles += 1
        decisions = run_cycle(heads, snapshot, lambda item, fit: self._place(item, fit, views))
        again = False
        for decision in decisions:
            if isinstance(decision, Fit):
                again |= await self._commit(decision)
            else:
                again |= await self._set_aside(decision)
        return again

    async def _current(self, item: Pending) -> bool:
        """Whether an entry is what the state says; a stale one is dropped from the index."""
        if self._queue.items.get(item.uid) != item:
            if item.uid not in self._queue.items:
                await self._queue.index.drop(item.uid)
            return False
        state = self._controller.states.get(item.uid)
        return state is not None and state.queued and state.choice is None

    def _place(
        self, item: Pending, admission: Admission, views: dict[str, ClusterView]
    ) -> Choice | NoCluster:
        """Choose a cluster and count the offer at once, for the rest of this cycle."""
        queue = self._controller.catalog.queues[item.cluster_queue]
        allowed = self._clusters.clusters_for(queue.check_names)
        if isinstance(allowed, str):
            return NoCluster({queue.name: allowed})
        eligible = {
            name: views.get(name) or ClusterView(name, "there is no MultiKueueCluster of this name")
            for name in allowed
        }
        state = self._controller.states.get(item.uid) or JobState()
        choice = choose(item, admission, eligible, state.refusals, time.time())
        if isinstance(choice, Choice):
            view = views[choice.cluster]
            charged = dict(view.pending.get(choice.queue, {}))
            for key, amount in choice.usage.items():
                charged[key] = charged.get(key, 0) + amount
            views[choice.cluster] = replace(view, pending={**view.pending, choice.queue: charged})
        return choice

    async def _commit(self, fit: Fit) -> bool:
        item, choice = fit.item, fit.choice
        assert choice is not None
        if not await self._queue.index.claim(item.uid, item.generation):
            return True
        state = self._controller.states.get(item.uid)
        if state is None or not state.queued or state.choice is not None:
            await self._queue.index.drop(item.uid)
            return True
        link = self._clusters.links.get(choice.cluster)
        if link is None:  # it was removed since the cycle
            await self._queue.index.release(item.uid)
            return True
        link.ledger.offer(item.uid, choice)
        self._controller.feed(item.uid, on.Placed(fit.admission, choice))
        return True

    async def _set_aside(self, wait: Wait) -> bool:
        """Keep a waiting workload from being looked at until something changes."""
        item = wait.item
        queue = self._controller.catalog.queues.get(item.cluster_queue)
        strict = queue is not None and queue.strategy is QueueingStrategy.STRICT_FIFO
        if strict and not wait.parked:
            self._controller.feed(item.uid, on.NotPlaced(wait.reason, wait.message))
            return False
        if wait.shape:
            self._blocked[item.cluster_queue][wait.shape] = wait
            return True
        await self._queue.index.park(item.uid, item.generation)
        self._parked.add(item.uid)
        self._controller.feed(item.uid, on.NotPlaced(wait.reason, wait.message))
        if wait.retry_at is not None:
            delay = max(0.0, wait.retry_at - time.time())
            asyncio.get_running_loop().call_later(delay, self._retry, item.uid)
        return True

    def _retry(self, uid: str) -> None:
        if uid in self._parked:
            self._unpark.add(uid)
            self._wake.set()

    async def _reactivate_parked(self) -> None:
        if not self._unpark:
            return
        items = [self._queue.items[uid] for uid in self._unpark if uid in self._queue.items]
        queues = sorted({item.cluster_queue for item in items})
        self._unpark.clear()
        if queues:
            await self._queue.index.reactivate(queues)
            self._parked = {
                uid
                for uid in self._parked
                if (item := self._queue.items.get(uid)) and item.cluster_queue not in queues
            }

    async def explain(self) -> None:
        """Write the reason to workloads that have waited for a while behind one of their shape."""
        while True:
            await asyncio.sleep(EXPLAIN_S)  # short waits are not worth a write
            self.clusters_seen()  # the silence of an agent is no event
            cutoff = time.time() - EXPLAIN_S
            for item in list(self._queue.items.values()):
                waits = self._blocked.get(item.cluster_queue)
                if waits and item.created < cutoff and (wait := waits.get(shape(item))):
                    self._controller.feed(item.uid, on.NotPlaced(wait.reason, wait.message))
