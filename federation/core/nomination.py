"""What the head of a queue could get, judged on the state before anything of the cycle is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from federation.core import fair_preemption, preemption
from federation.core.assignment import Assignment, Grade, Mode, Tried
from federation.core.flavors import Market, assign
from federation.core.partial import search
from federation.core.placement import place, places_now
from federation.core.quota import QuotaNode
from federation.core.snapshot import Snapshot
from federation.core.types import FlavorResource, Pending, Usage
from federation.core.victims import Need, Victim


@dataclass(slots=True)
class Entry:
    """A head of a queue, with the best it could get and whom that would evict."""

    item: Pending
    node: QuotaNode
    assignment: Assignment
    victims: list[Victim]

    @property
    def usage(self) -> Usage:
        """What it would be charged."""
        return self.assignment.usage

    @property
    def borrowing(self) -> int:
        """The level it borrows from; 0 for none."""
        return self.assignment.borrowing


def nominate(
    item: Pending,
    snapshot: Snapshot,
    tried: Tried = (),
    pinned: Mapping[tuple[str, str], str] | None = None,
) -> Entry:
    """Flavors and victims for a workload; fewer pods if it allows that and nothing else helps."""
    node = snapshot.tree.queues[item.cluster_queue]
    market = _market(item, node, snapshot)

    def attempt(counts: Sequence[int] | None) -> tuple[Assignment, list[Victim]]:
        found = assign(item.pod_sets, market, counts=counts, tried=tried, pinned=pinned)
        found = place(found, item.pod_sets, snapshot.topologies)
        victims = _victims(item, node, found, snapshot) if found.mode is Mode.PREEMPT else []
        return found, victims

    whole, victims = attempt(None)
    if whole.mode is Mode.FIT or victims or not snapshot.rules.partial_admission:
        return Entry(item, node, whole, victims)

    def succeeds(counts: Sequence[int]) -> tuple[Assignment, list[Victim]] | None:
        found, victims = attempt(counts)
        return (found, victims) if found.mode is Mode.FIT or victims else None

    part = search(item.pod_sets, succeeds)
    return Entry(item, node, *part) if part else Entry(item, node, whole, [])


def _market(item: Pending, node: QuotaNode, snapshot: Snapshot) -> Market:
    def simulate(fr: FlavorResource, amount: int) -> Grade:
        """Whether evicting somebody would give this one quota."""
        victims = _search(snapshot, Need(item, node, frozenset((fr,)), {fr: amount}))
        if not victims:
            return Grade(Mode.NO_CANDIDATES, node.borrow_level(fr, amount)[0])
        with snapshot.without(victim.holder for victim in victims):
            level = node.borrow_level(fr, amount)[0]
        own = any(victim.holder.cluster_queue == node.name for victim in victims)
        return Grade(Mode.PREEMPT if own else Mode.RECLAIM, level)

    return Market(
        snapshot.queues[node.name],
        node,
        snapshot.flavors,
        snapshot.topologies,
        snapshot.rules,
        simulate,
    )


def _victims(
    item: Pending, node: QuotaNode, assignment: Assignment, snapshot: Snapshot
) -> list[Victim]:
    def placed() -> bool:
        return places_now(assignment, item.pod_sets, snapshot.topologies)

    return _search(snapshot, Need(item, node, assignment.preempting, assignment.usage, placed))


def _search(snapshot: Snapshot, need: Need) -> list[Victim]:
    if snapshot.rules.fair_sharing:
        return fair_preemption.find_victims(snapshot, need)
    return preemption.find_victims(snapshot, need)
