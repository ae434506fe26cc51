"""Mirrored copies in the queues of a worker: each gets an answer, none waits here.

The queue is global (DESIGN §4): what cannot be admitted now is refused, so that the manager can
offer it elsewhere. Only who has workloads stopped for it may wait until they are gone, and says so.
"""

from __future__ import annotations

from federation.core.cycle import Decision, Wait
from federation.core.scheduler import Scheduler
from federation.core.why import Explainer
from worker_agent import texts
from worker_agent.facts import WorkerJob
from worker_agent.lines import Lines, has_victims
from worker_agent.texts import MARGIN_S, Waiting

VICTIMS_MAY_TAKE_S = 60.0
"""From the decision to preempt until the copy is refused, should its victims still run."""


class Copies:
    """What was decided on the copies that stand in a queue. Times: seconds since the epoch."""

    def __init__(self, scheduler: Scheduler, lines: Lines) -> None:
        self._scheduler, self._lines = scheduler, lines
        self._decisions: dict[str, Decision | None] = {}
        self._until: dict[str, float] = {}

    def waits(self, job: WorkerJob, now: float) -> None:
        """A copy stands in a queue; after a restart the time it was given before still counts."""
        self._decisions.setdefault(job.uid, None)
        if job.deciding_until and job.uid not in self._until:
            given = job.deciding_until - MARGIN_S
            self._until[job.uid] = min(given, now + VICTIMS_MAY_TAKE_S)

    def stands(self, uid: str) -> None:
        """More pods of a copy stand in a queue."""
        self._decisions.setdefault(uid, None)

    def decided(self, uid: str, decision: Decision) -> None:
        """A cycle looked at a copy, and did not admit it."""
        self._decisions[uid] = decision

    def forget(self, uid: str) -> None:
        """A copy is not in a queue any more."""
        self._decisions.pop(uid, None)
        self._until.pop(uid, None)

    def due(self) -> float | None:
        """When the next copy has waited long enough."""
        return min(self._until.values(), default=None)

    def refusals(self, now: float) -> list[tuple[str, Waiting]]:
        """The copies that get no for an answer, once nothing moves any more, and why."""
        found = []
        explainer = Explainer(self._scheduler.snapshot)
        for uid, decision in self._decisions.items():
            item = self._scheduler.items.get(uid)
            if item is None:
                continue
            if not has_victims(decision):
                if isinstance(decision, Wait) and self._scheduler.blocked(item) is None:
                    found.append((uid, texts.of(decision, explainer)))
                else:
                    found.append((uid, self._lines.why(item, explainer)))
            elif now >= self._until.get(uid, now + 1):
                found.append((uid, texts.overdue(VICTIMS_MAY_TAKE_S)))
        return found

    def undecided(self) -> list[str]:
        """Copies that are to wait for their victims, and have not been given a time yet."""
        return [
            uid
            for uid, decision in self._decisions.items()
            if uid not in self._until and has_victims(decision)
        ]

    def wait_for_victims(self, uid: str, now: float) -> float:
        """Give a copy its time; returns what to tell the manager."""
        return self._until.setdefault(uid, now + VICTIMS_MAY_TAKE_S) + MARGIN_S
