"""Remembers what cycles said of workloads that wait, and has it told to those that go on waiting.

One that was decided on itself is told every change of the numbers (the lifecycle limits how often
that is written), those behind it, of the same shape, only another reason: else each workload that
ends would cost a write for each one that waits.
"""

from __future__ import annotations

import asyncio

from federation.core import events as on
from federation.core.cycle import Preempt, Requeue, Wait
from federation.core.policies import QueueingStrategy
from federation.core.reasons import Reason
from federation.core.types import Pending
from federation.core.why import Explainer, Explanation, standstill
from manager.controller import Controller

_AT_A_TIME = 500
"""As many are looked at before others get their turn."""


class Reasons:
    """One per dispatcher."""

    def __init__(self, controller: Controller) -> None:
        self._controller, self._scheduler = controller, controller.scheduler
        self._decided: dict[str, Wait | Preempt] = {}
        self._heads: dict[str, str] = {}

    def note(self, decision: Wait | Preempt) -> None:
        """A cycle left a workload waiting."""
        self._decided[decision.item.uid] = decision
        self._heads[decision.item.cluster_queue] = decision.item.uid

    async def tell(self, before: float) -> bool:
        """Tell those that wait since `before` (seconds since the epoch); whether there are others
        with something to be told, that wait for a shorter time.
        """
        items = list(self._scheduler.items.values())
        for uid in self._decided.keys() - self._scheduler.items.keys():
            del self._decided[uid]
        inactive, still = self._controller.inactive(), dict[str, Wait | None]()
        behind = dict[str, Wait | None]()
        later = False
        for start in range(0, len(items), _AT_A_TIME):
            explained: dict[int, Explanation] = {}
            explainer = Explainer(self._scheduler.snapshot)
            for item in items[start : start + _AT_A_TIME]:
                if item.cluster_queue not in still:
                    still[item.cluster_queue] = self._standstill(item, inactive)
                    behind[item.cluster_queue] = self._behind(item.cluster_queue)
                decision = still[item.cluster_queue] or self._decision(item)
                decision = decision or behind[item.cluster_queue]
                if decision is None or item.uid not in self._scheduler.items:
                    continue
                if item.created >= before:
                    later = True
                    continue
                why = explained.get(id(decision)) or explainer.explain(decision)
                explained[id(decision)] = why
                self._tell(item, why, own=decision.item.uid == item.uid)
            await asyncio.sleep(0)  # let the dispatcher and the watches through
        return later

    def _decision(self, item: Pending) -> Wait | Preempt | None:
        """The latest that is known of a workload: of its shape, or of itself."""
        return self._scheduler.blocked(item) or self._decided.get(item.uid)

    def _standstill(self, item: Pending, inactive: dict[str, str]) -> Wait | None:
        """That nothing of its ClusterQueue is looked at, if that is so."""
        text = standstill(item.cluster_queue, self._scheduler.snapshot, inactive)
        return Wait(item, Reason.SUSPENDED, text, Requeue.GENERIC) if text else None

    def _behind(self, queue: str) -> Wait | None:
        """That a queue stands behind its head; None if the others are looked at as well."""
        decided = self._decided.get(self._heads.get(queue, ""))
        found = self._scheduler.snapshot.queues.get(queue)
        if decided is None or found is None:
            return None
        head = decided.item
        ahead = f"{head.namespace}/{head.name} is ahead in ClusterQueue {queue}"
        preempts = isinstance(decided, Preempt) or decided.requeue is Requeue.PENDING_PREEMPTION
        if preempts:
            text = f"{ahead}, and waits for those that it preempts"
        elif found.strategy is QueueingStrategy.STRICT_FIFO:
            text = f"{ahead}, which is StrictFIFO, and waits itself: {decided.reason}"
        else:
            return None
        return Wait(head, Reason.WAITING_FOR_QUOTA, text, Requeue.GENERIC)

    def _tell(self, item: Pending, why: Explanation, *, own: bool) -> None:
        state = self._controller.states.get(item.job)
        if state is not None and item.growth is not None:
            said = why.reason, why.message
            if said != state.growth_waits and (own or said[0] != state.growth_waits[0]):
                self._controller.feed(item.job, on.GrowthNotPlaced(*said))
            return
        if state is None or (why.reason, why.message) == state.waits:
            return
        if own or why.reason != state.waits[0]:
            self._controller.feed(item.uid, on.NotPlaced(why.reason, why.message, why))
