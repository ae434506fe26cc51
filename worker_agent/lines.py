"""What can be said about workloads in a queue that no cycle has looked at."""

from __future__ import annotations

from collections.abc import Mapping

from federation.core.cycle import Decision, Preempt, Requeue, Wait
from federation.core.scheduler import Scheduler
from federation.core.types import Pending
from federation.core.why import Explainer
from worker_agent import texts
from worker_agent.texts import Waiting


class Lines:
    """Remembers who waits for victims in which queue, and which queues are idle."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._preemptors: dict[str, str] = {}
        self._idle: set[str] = set()
        self._inactive: Mapping[str, str] = {}

    def note(self, decision: Decision) -> None:
        """A cycle has decided."""
        if has_victims(decision):
            self._preemptors[decision.item.cluster_queue] = decision.item.uid

    def configured(self, inactive: Mapping[str, str]) -> list[str]:
        """Queue objects have changed: UIDs of those in queues that became idle, or were.

        `inactive` are queues that the scheduler was told to leave alone, and why.
        """
        self._inactive = inactive
        snapshot, items = self._scheduler.snapshot, self._scheduler.items
        before = self._idle
        names = {item.cluster_queue for item in items.values()}
        self._idle = {name for name in names if texts.idle(name, snapshot, inactive)}
        affected = before | self._idle
        return [uid for uid, item in items.items() if item.cluster_queue in affected]

    def idle(self, queue: str) -> Waiting | None:
        """Why nothing in a queue is looked at; None if its heads are."""
        return texts.idle(queue, self._scheduler.snapshot, self._inactive)

    def why(self, item: Pending, explainer: Explainer) -> Waiting:
        """Why a workload was not looked at: its queue is idle, another of its shape was looked at,
        or another one is ahead.
        """
        queue, snapshot = item.cluster_queue, self._scheduler.snapshot
        if (idle := self.idle(queue)) is not None:
            return idle
        if (blocked := self._scheduler.blocked(item)) is not None:
            return texts.of(blocked, explainer)
        ahead = self._scheduler.items.get(self._preemptors.get(queue, ""))
        name = f"{ahead.namespace}/{ahead.name}" if ahead and ahead is not item else ""
        return texts.behind(queue, snapshot, name)


def has_victims(decision: Decision | None) -> bool:
    """Whether a workload is admitted when others are gone that are being stopped."""
    if isinstance(decision, Wait):
        return decision.requeue is Requeue.PENDING_PREEMPTION
    return isinstance(decision, Preempt)
