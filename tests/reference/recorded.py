"""The model in place of the core's scheduler, as far as replays of recorded decisions need it."""

from __future__ import annotations

from typing import Any

from federation.core.cycle import Decision as CoreDecision
from federation.core.cycle import Fit, Preempt, Requeue, Wait
from federation.core.reasons import Reason
from federation.core.types import Holder, Pending
from federation.core.victims import Victim
from federation.core.world import World as CoreWorld
from tests.reference.queues import Queues, World, shape


class ModelScheduler:
    """Speaks as `federation.core.scheduler.Scheduler` does.

    `ready` after any change; cycles alone change nothing any more once a state comes back.
    """

    def __init__(self, *_: Any) -> None:
        self.queues = Queues()
        self.ready = True
        self._seen: list[Any] = []

    def configure(self, world: CoreWorld, now: float) -> None:
        """The objects have changed."""
        cohorts = {cohort.name: cohort for cohort in world.cohorts}
        made = World(world.queues, cohorts, world.flavors, world.namespaces, world.rules)
        self.queues.configure(made, now)
        self._happened()

    def put(self, item: Pending, now: float) -> None:
        """A workload waits."""
        self.queues.enqueue(item, now)
        self._happened()

    def take_out(self, uid: str, now: float) -> None:
        """A waiting workload is gone."""
        self.queues.drop(uid, now)
        self._happened()

    def hold(self, holder: Holder) -> None:
        """Something was written about a workload that holds quota."""
        self.queues.hold(holder)
        self._happened()

    def release(self, uid: str, now: float) -> None:
        """A workload does not hold quota any more."""
        self.queues.release(uid, now)
        self._happened()

    def holder(self, uid: str) -> Holder | None:
        """What a workload holds."""
        return self.queues.holders.get(uid)

    def due(self) -> float | None:
        """When the next reactivation is."""
        return min(self.queues.wake.values(), default=None)

    def wake_all(self, now: float) -> None:
        """An event in every tree."""
        world = self.queues.world
        self.queues.event({world.root(name) for name in world.queues}, now)

    def blocked(self, item: Pending) -> Wait | None:
        """The answer that a workload of the same shape got."""
        reason = self.queues.doomed.get(item.cluster_queue, {}).get(shape(item))
        return Wait(item, Reason(reason), "", Requeue.NO_FIT) if reason else None

    async def cycle(self, now: float) -> list[CoreDecision]:
        """One cycle, in the terms of the core."""
        if self._state() not in self._seen:
            self._seen.append(self._state())
        holders = dict(self.queues.holders)
        made: list[CoreDecision] = []
        for decision in self.queues.cycle(now):
            item, reason = decision.item, decision.reason
            if decision.admission is not None:
                made.append(Fit(item, decision.admission))
            elif decision.kind == "wait":
                made.append(Wait(item, Reason(reason), "", Requeue(decision.requeue)))
            else:
                victims = [Victim(holders[u], Reason(why)) for u, why in decision.victims.items()]
                made.append(Preempt(item, tuple(victims), Reason(reason), "", _NOTHING))
        self.ready = self._state() not in self._seen
        return made

    def _happened(self) -> None:
        self.ready = True
        self._seen.clear()

    def _state(self) -> Any:
        waiting = self.queues.waiting.items()
        places = {
            uid: (entry.place, entry.reason, entry.last and entry.last.tried)
            for uid, entry in waiting
        }
        return places, dict(self.queues.sticky), set(self.queues.wake)


_NOTHING: Any = None
"""Replays do not look at the assignment of a preemptor."""
