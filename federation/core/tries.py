"""What became of plans to preempt: who still waits for its victims, and who made room in vain.

A report may say less than is so (which cards the pods of a victim hold is not told), and others may
be faster. A workload for which room was made and which no cluster took then is tried on as before,
but for a while it evicts nobody: each time for twice as long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from federation.core.backoff import delay
from federation.core.cycle import Decision, Fit, Preempt, Requeue
from federation.core.dispatch import Choice
from federation.core.making_room import Bar, Ground, Sites
from federation.core.types import Pending

FIRST_S = 10.0
MOST_S = 600.0


@dataclass(frozen=True, slots=True)
class _Plan:
    item: Pending
    victims: frozenset[str]
    choice: Choice | None


class Tries:
    """The plans of one scheduler. `stops` tells of a UID whether it holds quota that it is to give
    back.
    """

    def __init__(self, stops: Callable[[str], bool]) -> None:
        self._stops = stops
        self._plans: dict[str, _Plan] = {}
        self._bars: dict[str, Bar] = {}

    def ground(self, heads: Collection[str], sites: Sites | None, now: float) -> Ground:
        """For a cycle with these heads. The room of others whose victims stop is kept for them."""
        stopping = {uid: left for uid in self._plans if (left := self._left(uid))}
        for uid, left in stopping.items():
            plan = self._plans[uid]
            if sites is not None and plan.choice is not None and uid not in heads:
                sites.keep(plan.item, plan.choice, left)
        barred = {uid: bar for uid, bar in self._bars.items() if bar.until > now}
        return Ground(sites, frozenset(stopping), barred)

    def _left(self, uid: str) -> frozenset[str]:
        """Its victims that have not stopped."""
        plan = self._plans.get(uid)
        return frozenset(filter(self._stops, plan.victims)) if plan else frozenset()

    def note(self, decision: Decision, now: float) -> None:
        """What came of it."""
        uid = decision.item.uid
        if isinstance(decision, Fit):
            self.forget(uid)
        elif isinstance(decision, Preempt):
            victims = self._left(uid).union(victim.holder.uid for victim in decision.victims)
            self._plans[uid] = _Plan(decision.item, victims, decision.choice)
        elif uid in self._plans and not self._left(uid):
            del self._plans[uid]
            if decision.requeue in (Requeue.NO_CLUSTER, Requeue.NO_CARDS):
                failures = (known.failures if (known := self._bars.get(uid)) else 0) + 1
                self._bars[uid] = Bar(failures, now + delay(failures, FIRST_S, MOST_S))

    def forget(self, uid: str) -> None:
        """It is admitted, or waits no more."""
        self._plans.pop(uid, None)
        self._bars.pop(uid, None)
