"""What the head of a queue could get, judged on the state before anything of the cycle is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

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
class Nominee:
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
) -> Nominee:
    """Flavors and victims for a workload; fewer pods if it allows that and nothing else helps."""
    return _Nomination(item, snapshot.tree.queues[item.cluster_queue], snapshot).run(tried, pinned)


@dataclass(frozen=True, slots=True)
class _Nomination:
    """`known` remembers searches for victims: the state does not change meanwhile."""

    item: Pending
    node: QuotaNode
    snapshot: Snapshot
    known: dict[object, list[Victim]] = field(default_factory=dict)

    def run(self, tried: Tried, pinned: Mapping[tuple[str, str], str] | None) -> Nominee:
        item, node, snapshot = self.item, self.node, self.snapshot
        market = Market(
            snapshot.queues[node.name],
            node,
            snapshot.flavors,
            snapshot.topologies,
            snapshot.rules,
            self.simulate,
        )

        def attempt(counts: Sequence[int] | None) -> tuple[Assignment, list[Victim]]:
            found = assign(item.pod_sets, market, counts=counts, tried=tried, pinned=pinned)
            found = place(found, item.pod_sets, snapshot.topologies)
            return found, self.victims(found) if found.mode is Mode.PREEMPT else []

        whole, victims = attempt(None)
        if whole.mode is Mode.FIT or victims or not snapshot.rules.partial_admission:
            return Nominee(item, node, whole, victims)

        def succeeds(counts: Sequence[int]) -> tuple[Assignment, list[Victim]] | None:
            found, victims = attempt(counts)
            return (found, victims) if found.mode is Mode.FIT or victims else None

        part = search(item.pod_sets, succeeds)
        return Nominee(item, node, *part) if part else Nominee(item, node, whole, [])

    def simulate(self, fr: FlavorResource, amount: int) -> Grade:
        """Whether evicting somebody would give this quota."""
        node = self.node
        victims = self.search(Need(self.item, node, frozenset((fr,)), {fr: amount}))
        if not victims:
            return Grade(Mode.NO_CANDIDATES, node.borrow_level(fr, amount)[0])
        with self.snapshot.without(victim.holder for victim in victims):
            level = node.borrow_level(fr, amount)[0]
        own = any(victim.holder.cluster_queue == node.name for victim in victims)
        return Grade(Mode.PREEMPT if own else Mode.RECLAIM, level)

    def victims(self, assignment: Assignment) -> list[Victim]:
        """Whom to evict for all of an assignment."""
        item, topologies = self.item, self.snapshot.topologies
        need = Need(item, self.node, assignment.preempting, assignment.usage)
        if not topologies:
            return self.search(need)
        places = partial(places_now, assignment, item.pod_sets, topologies)
        return _find_victims(self.snapshot, replace(need, placed=places))

    def search(self, need: Need) -> list[Victim]:
        """Victims by quota alone."""
        key = (need.scarce, tuple(need.requests.items()))
        if key not in self.known:
            self.known[key] = _find_victims(self.snapshot, need)
        return self.known[key]


def _find_victims(snapshot: Snapshot, need: Need) -> list[Victim]:
    if snapshot.rules.fair_sharing:
        return fair_preemption.find_victims(snapshot, need)
    return preemption.find_victims(snapshot, need)
