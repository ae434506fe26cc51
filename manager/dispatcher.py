"""Runs scheduling cycles over the pending index and carries out what they decide.

A cycle runs when something changed that can admit a workload: one was queued, quota or capacity
was freed, a cluster came, a queue object changed; or when the scheduler said that it is time.
Between two such moments nothing is looked at, except that once a minute the index is compared with
what was put there. The index may be lost at any moment: what waits is kept by the scheduler, and
nothing counts as admitted before the index has given it out. While Redis is away nothing is
dispatched; Jobs can be submitted, and what runs goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator

import structlog

from federation.core import events as on
from federation.core.cycle import Decision, Fit, Preempt, Requeue
from federation.core.dispatch import Choice
from federation.core.elastic import desired
from federation.core.facts import JobState
from federation.core.queueing import IndexLost, IndexUnavailable
from federation.core.reasons import Reason
from federation.core.scheduler import Scheduler
from federation.core.sizes import Growing
from federation.core.why import preemption_message
from manager.clusters import Clusters
from manager.controller import Controller
from manager.placing import Placing
from manager.reasons import Reasons
from manager.score_terms import load_terms

log = structlog.get_logger(__name__)

REACTIVATION_S = 0.1
"""Parked workloads are tried again this long after what may help them (Kueue: 1 s): all that comes
in that time is served together, and who is waited for, a preemptor above all, is tried first."""
CYCLES_AHEAD = 16
"""Cycles that may follow each other between two looks into the index while all is admitted that is
tried: on a busy machine it is the round trips that take long."""
REDIS_PAUSE_S = 0.5
"""Redis has no event for being back: it is asked again, up to four times this long apart."""
STABLE_S = 10.0
"""An index that was lost sooner after it was filled is not filled again at once: others may fill
it too, and nobody would get anything done."""
AUDIT_S = 60.0
SLOW_S = 1.0
"""Seconds without an answer after which Redis counts as slow."""
EXPLAIN_S = 2.0


class Dispatcher:
    """One per shard of queues."""

    def __init__(self, controller: Controller, clusters: Clusters, reasons: Reasons) -> None:
        self._controller, self._clusters, self._reasons = controller, clusters, reasons
        self._scheduler: Scheduler = controller.scheduler
        self._terms = load_terms(controller.policies.dispatching.weights)
        self._wake = asyncio.Event()
        self._unexplained = asyncio.Event()
        self._clusterless: set[str] = set()
        self._lost = True
        self._problem = ""
        self._failures = 0
        self._rng = random.Random()
        self._filled_at, self._audit_at = float("-inf"), time.monotonic() + AUDIT_S
        self._asked_at: float | None = None
        self.slowest = 0.0
        """Seconds that the longest of the recent cycles took, waiting for the index included."""
        self.fills = 0
        """How often the index was filled."""

    @property
    def problem(self) -> str:
        """Why nothing can be dispatched now, and what to do; '' if it can."""
        if self._problem:
            return f"nothing is dispatched: {self._problem}"
        waited = 0.0 if self._asked_at is None else time.monotonic() - self._asked_at
        if waited < SLOW_S:
            return ""
        return (
            f"dispatch waits for Redis, which has not answered for {waited:.0f} s."
            " To do: look whether it is overloaded, stopped or far away"
        )

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
                await self._audit()
                self._well()
            except (IndexLost, IndexUnavailable) as error:
                self._note(str(error))
                if self._failures:
                    await asyncio.sleep(self._pause())  # Redis has no event for being back
                self._wake.set()

    def _well(self) -> None:
        """All that was asked was answered."""
        if self._problem:
            log.info("index.back", fills=self.fills)
        self._problem = ""

    def _note(self, why: str) -> None:
        """The index is lost, or cannot be reached. The first time it is filled again at once."""
        if why != self._problem:
            log.warning("index.lost", why=why)
        young = time.monotonic() - self._filled_at < STABLE_S
        self._failures = self._failures + 1 if self._lost or young else 0
        self._lost, self._problem = True, why

    def _pause(self) -> float:
        ceiling = REDIS_PAUSE_S * min(4.0, 2.0 ** (self._failures - 1))
        return self._rng.uniform(ceiling / 2, ceiling)

    async def _woken(self) -> None:
        """Until something happens, or it is time for what the scheduler or the audit waits for."""
        delay = self._audit_at - time.monotonic()
        if (due := self._scheduler.due()) is not None:
            delay = min(delay, due - time.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, delay)):
                await self._wake.wait()
        self._wake.clear()

    async def _fill(self) -> None:
        waiting, begun = len(self._scheduler.items), time.monotonic()
        with self._asking():
            await self._scheduler.refill(time.time())
        self._lost, self._filled_at = False, time.monotonic()
        self._audit_at = self._filled_at + AUDIT_S
        self.fills += 1
        log.info("index.filled", workloads=waiting, seconds=round(self._filled_at - begun, 3))

    async def _audit(self) -> None:
        """Once a minute see to it that nothing was taken out of the index behind our back."""
        if (now := time.monotonic()) < self._audit_at:  # what `_woken` waits for, to the last bit
            return
        self._audit_at = now + AUDIT_S
        with self._asking():
            await self._scheduler.audit()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """The index is asked: what takes long is shown."""
        self._asked_at = begun = time.monotonic()
        try:
            yield
        finally:
            self._asked_at = None
            self.slowest = max(self.slowest * 0.9, time.monotonic() - begun)

    async def _decide(self) -> None:
        """Cycles until nothing new can be decided."""
        scheduler = self._scheduler
        while True:
            now = time.time()
            due = scheduler.due()
            if not scheduler.ready and (due is None or due > now):
                break
            placing = Placing(self._controller, self._clusters, now, self._terms)
            try:
                with self._asking():
                    decisions = await scheduler.cycle(now, placing, placing)
                for decision in decisions:
                    self._carry_out(decision, placing)
            finally:
                placing.settle()
        if scheduler.items:
            self._unexplained.set()

    def _carry_out(self, decision: Decision, placing: Placing) -> None:
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
        if item.growth is not None:
            return self._commit_growth(fit, choice)
        state = self._controller.states.get(item.uid) or JobState()
        link = self._clusters.links.get(choice.cluster)
        if not state.queued or state.choice is not None:
            self._controller.charges.charge(item.uid, state)  # what it holds otherwise, or nothing
            return False
        if link is None:  # it was removed since the cycle
            self._controller.charges.charge(item.uid, state)
            self._scheduler.put(item, time.time())
            return False
        link.ledger.offer(item.uid, choice)
        self._controller.feed(item.uid, on.Placed(fit.admission, choice))
        return True

    def _commit_growth(self, fit: Fit, choice: Choice) -> bool:
        """The same for more pods of a job that runs."""
        uid = fit.item.job
        state = self._controller.states.get(uid) or JobState()
        link = self._clusters.links.get(choice.cluster)
        wanted = Growing({pods.name: pods.count for pods in fit.item.pod_sets}, fit.item.priority)
        asked = state.grown is None and state.growing == wanted == desired(state)
        if link is None or not asked:
            self._controller.feed(uid, on.GrowthLost())
            self._controller.charges.charge(uid, self._controller.states.get(uid) or JobState())
            return False
        link.ledger.offer(fit.item.uid, choice)
        self._controller.feed(uid, on.GrowthPlaced(fit.admission))
        return True

    def _preempt(self, preempt: Preempt) -> None:
        """Have the victims evicted that are not yet; the preemptor is tried again by itself."""
        state = self._controller.states.get(preempt.item.job)
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
