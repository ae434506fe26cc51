"""Who is next among the LocalQueues of a ClusterQueue that goes by usage: the bookkeeping.

`fair_usage` has the formulas; here is which LocalQueue they apply to, and when: a penalty from the
reservation of quota until the admission, a sample once per interval. Where nothing goes by usage
nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from federation.core.fair_usage import (
    UsageState,
    admitted,
    assumed,
    dropped,
    is_due,
    sample_at,
    sampled,
    weighted_usage,
)
from federation.core.policies import FairUsage
from federation.core.snapshot import Holders
from federation.core.types import Holder, LocalQueue
from federation.core.world import World

Door = tuple[str, str]
"""Namespace and name of a LocalQueue."""


class _Assumed(NamedTuple):
    """A workload that has reserved quota and is not admitted yet: where, and what it asks for."""

    door: Door
    requests: Mapping[str, int]


class Turns:
    """`usages` is what LocalQueues are ordered by, least first; it changes in place."""

    def __init__(self) -> None:
        self.usages: dict[Door, float] = {}
        self._rules = FairUsage()
        self._doors: dict[Door, LocalQueue] = {}
        self._states: dict[Door, UsageState] = {}
        self._assumed: dict[str, _Assumed] = {}

    def configure(self, world: World, holders: Holders) -> None:
        """Take over changed queues. A LocalQueue that begins to take turns starts with what its
        status says it used, or anew; of one that ceases to nothing is kept.
        """
        self._rules = world.fair_usage or self._rules
        self._doors = {
            door: local
            for door, local in world.local_queues.items()
            if world.goes_by_usage(local.cluster_queue)
        }
        gone = self._states.keys() - self._doors.keys()
        for uid in [uid for uid, known in self._assumed.items() if known.door in gone]:
            del self._assumed[uid]
        for door in gone:
            del self._states[door], self.usages[door]
        for door, local in self._doors.items():
            self._set(door, self._states.get(door) or local.used or UsageState())
        for queue in {local.cluster_queue for local in self._doors.values()}:
            for holder in holders.get(queue, {}).values():
                self.hold(holder)

    def hold(self, holder: Holder) -> None:
        """A workload holds quota: it counts as a penalty until it is admitted, then as use."""
        door = (holder.namespace, holder.local_queue)
        known = self._assumed.get(holder.uid)
        if known is not None and known.door != door:
            self.release(holder.uid)
            known = None
        if known is None and not holder.admitted and door in self._states:
            known = self._assumed[holder.uid] = _Assumed(door, _per_resource([holder]))
            self._set(door, assumed(self._states[door], known.requests))
        elif known is not None and holder.admitted:
            del self._assumed[holder.uid]
            self._set(door, admitted(self._states[door], known.requests, self._rules))

    def release(self, uid: str) -> None:
        """A workload holds nothing any more; if it was not admitted, it leaves no trace."""
        known = self._assumed.pop(uid, None)
        if known is not None:
            self._set(known.door, dropped(self._states[known.door], known.requests))

    def due(self) -> float | None:
        """When the next sample is to be taken; None if nothing goes by usage."""
        times = (sample_at(state, self._rules) for state in self._states.values())
        return min((0.0 if at is None else at for at in times), default=None)

    def sample(self, now: float, holders: Holders) -> set[str]:
        """Take the samples that are due; the ClusterQueues whose order that may change."""
        due = [door for door, state in self._states.items() if is_due(state, now, self._rules)]
        queues = {self._doors[door].cluster_queue for door in due}
        running: dict[Door, list[Holder]] = {door: [] for door in due}
        for queue in queues:
            for holder in holders.get(queue, {}).values():
                door = (holder.namespace, holder.local_queue)
                if holder.admitted and door in running:
                    running[door].append(holder)
        for door, found in running.items():
            state = sampled(self._states[door], _per_resource(found), now, self._rules)
            self._set(door, state)
        return queues

    def state(self, door: Door) -> UsageState | None:
        """What is known of a LocalQueue; None if it takes no turns."""
        return self._states.get(door)

    def _set(self, door: Door, state: UsageState) -> None:
        self._states[door] = state
        weight = self._doors[door].fair_weight
        self.usages[door] = weighted_usage(state, weight, self._rules)


def _per_resource(holders: Iterable[Holder]) -> dict[str, int]:
    total: dict[str, int] = {}
    for holder in holders:
        for (_, resource), amount in holder.usage.items():
            total[resource] = total.get(resource, 0) + amount
    return total
