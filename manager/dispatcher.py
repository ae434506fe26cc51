"""Runs scheduling cycles over the pending index and carries out what they decide.

A cycle runs when something changed that can admit a workload: one was queued, quota or capacity
was freed, a cluster came, a queue object changed; or when the scheduler said that it is time.
Between two such moments nothing is looked at. The index may be lost at any moment: what waits is
kept by the scheduler, and nothing counts as admitted before the index has given it out.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace

import structlog

from federation.core import events as on
from federation.core.cluster_cards import gang_of
from federation.core.cycle import Decision, Fit, Preempt, Requeue
from federation.core.dispatch import Choice, ClusterView, NoCluster, choose
from federation.core.facts import JobState
from federation.core.queueing import IndexLost, IndexUnavailable
from federation.core.reasons import Reason
from federation.core.scheduler import Scheduler
from federation.core.types import Admission, Pending
from federation.core.why import preemption_message
from manager.clusters import Clusters
from manager.controller import Controller
from manager.reasons import Reasons

log = structlog.get_logger(__name__)

REACTIVATION_S = 0.1
"""Parked workloads are tried again this long after what may help them (Kueue: 1 s): all that comes
in that time is served together, and who is waited for, a preemptor above all, is tried first."""
REDIS_PAUSE_S = 0.5
EXPLAIN_S = 2.0


class Dispatcher:
    """One per shard of queues."""

    def __init__(self, controller: Controller, clusters: Clusters, reasons: Reasons) -> None:
        self._controller, self._clusters, self._reasons = controller, clusters, reasons
        self._scheduler: Scheduler = controller.scheduler
        self._wake = asyncio.Event()
        self._unexplained = asyncio.Event()
        self._clusterless: set[str] = set()
        self._lost = True
        self.problem = ""
        """Why nothing can be dispatched; '' if it can."""
        self.fills = 0
        """How often the index was filled."""

    def wake(self) -> None:
        """The scheduler may decide something new."""
        self._wake.set()

    def clusters_changed(self) -> None:
        """What no cluster took may be taken now: capacity, rules or a cluster changed."""
        now = time.time()
        for queue in self._clusterless:
            self._scheduler.wake(queue, now)
        self._clusterless.clear()
        self._wake.set()

    async def run(self) -> None:
        """Dispatch until cancelled. While Redis is away nothing is dispatched; nothing is lost."""
        while True:
            await self._woken()
            try:
                if self._lost:
                    await self._fill()
                await self._decide()
            except (IndexLost, IndexUnavailable) as error:
                if not self._lost:
                    log.warning("index.lost", why=str(error))
                again = self._lost  # it was not even filled, or not for a moment
                self._lost, self.problem = True, str(error)
                if again:
                    await asyncio.sleep(REDIS_PAUSE_S)  # Redis has no event for being back
                self._wake.set()

    async def _woken(self) -> None:
        """Until something happens, or it is time for what the scheduler waits for."""
        due = self._scheduler.due()
        delay = None if due is None else max(0.0, due - time.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._wake.wait()
        self._wake.clear()

    async def _fill(self) -> None:
        waiting = len(self._scheduler.items)
        await self._scheduler.refill(time.time())
        self._lost, self.problem = False, ""
        self.fills += 1
        log.info("index.filled", workloads=waiting)

    async def _decide(self) -> None:
        """Cycles until nothing new can be decided."""
        scheduler = self._scheduler
        while True:
            now = time.time()
            due = scheduler.due()
            if not scheduler.ready and (due is None or due > now):
                break
            placing = _Placing(self._controller, self._clusters, now)
            try:
                for decision in await scheduler.cycle(now, placing):
                    self._carry_out(decision, placing)
            finally:
                placing.settle()
        if scheduler.items:
            self._unexplained.set()

    def _carry_out(self, decision: Decision, placing: _Placing) -> None:
        if isinstance(decision, Fit):
            if self._commit(decision):
                placing.expected.pop(decision.item.uid, None)
            return
        self._reasons.note(decision)
        if isinstance(decision, Preempt):
            self._preempt(decision)
        elif decision.requeue is Requeue.NO_CLUSTER:
            self._clusterless.add(decision.item.cluster_queue)

    def _commit(self, fit: Fit) -> bool:
        """Hand a decision over to the job's lifecycle, if the job still is what was decided on;
        whether it was.
        """
        item, choice = fit.item, fit.choice
        assert choice is not None
        state = self._controller.states.get(item.uid) or JobState()
        link = self._clusters.links.get(choice.cluster)
        if not state.queued or state.choice is not None:
            self._controller.charge(item.uid, state)  # what it holds otherwise, or nothing
            return False
        if link is None:  # it was removed since the cycle
            self._controller.charge(item.uid, state)
            self._scheduler.put(item, time.time())
            return False
        link.ledger.offer(item.uid, choice)
        self._controller.feed(item.uid, on.Placed(fit.admission, choice))
        return True

    def _preempt(self, preempt: Preempt) -> None:
        """Have the victims evicted that are not yet; the preemptor is tried again by itself."""
        state = self._controller.states.get(preempt.item.uid)
        uid = state.record.uid if state and state.record else ""
        scheduler = self._scheduler
        for victim in preempt.victims:
            held = scheduler.holder(victim.holder.uid)
            if held is None or held.evicted:
                continue
            text = preemption_message(preempt, held, victim.reason, scheduler.snapshot, uid)
            event = on.Evict(Reason.PREEMPTED.value, text, victim.reason.value)
            self._controller.feed(held.uid, event)

    async def explain(self) -> None:
        """Tell workloads that have waited for a while what they wait for, until cancelled."""
        while True:
            await self._unexplained.wait()
            await asyncio.sleep(EXPLAIN_S)  # short waits are not worth a write
            self._unexplained.clear()
            if await self._reasons.tell(time.time() - EXPLAIN_S):
                self._unexplained.set()


class _Placing:
    """Chooses clusters in one cycle; what it chose counts at once. `expected` are workloads that
    have cards somewhere and are not offered yet: UID to cluster.
    """

    def __init__(self, controller: Controller, clusters: Clusters, now: float) -> None:
        self._controller, self._clusters, self._now = controller, clusters, now
        self._views: dict[str, ClusterView] = {}
        self.expected: dict[str, str] = {}

    def settle(self) -> None:
        """The cycle is over: what it chose and nobody offered does not count."""
        for uid, cluster in self.expected.items():
            if (link := self._clusters.links.get(cluster)) is not None:
                link.ledger.forgo(uid)

    def __call__(self, item: Pending, admission: Admission) -> Choice | NoCluster:
        queue = self._controller.scheduler.snapshot.queues[item.cluster_queue]
        allowed = self._clusters.clusters_for(queue.check_names)
        if isinstance(allowed, str):
            return NoCluster({queue.name: allowed})
        state = self._controller.states.get(item.uid) or JobState()
        views = {name: self._view(name) for name in allowed}
        asking = [(pods, pods.count, ()) for pods in item.pod_sets if pods.cards is not None]
        self._clusters.judge.learn(item.uid, gang_of(asking, {}))
        choice = choose(item, admission, views, state.refusals, self._now)
        if isinstance(choice, Choice):
            view = views[choice.cluster]
            charged = dict(view.pending.get(choice.queue, {}))
            for key, amount in choice.usage.items():
                charged[key] = charged.get(key, 0) + amount
            pending = {**view.pending, choice.queue: charged}
            self._views[choice.cluster] = replace(view, pending=pending)
            if choice.gang:
                self._clusters.links[choice.cluster].ledger.expect(item.uid, choice)
                self.expected[item.uid] = choice.cluster
        return choice

    def _view(self, name: str) -> ClusterView:
        if name not in self._views:
            link = self._clusters.links.get(name)
            if link is None:
                return ClusterView(name, "there is no MultiKueueCluster of this name")
            self._views[name] = link.ledger.view(self._clusters.problem(link))
        return self._views[name]
