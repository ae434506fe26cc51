"""What the head of a queue could get, judged on the state before anything of the cycle is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from federation.core import fair_preemption, preemption
from federation.core.assignment import Assignment, Grade, Mode, Tried
from federation.core.checks import delayed
from federation.core.flavors import Market, assign
from federation.core.making_room import Making, Plan, Sites
from federation.core.partial import search
from federation.core.placement import place, places_now
from federation.core.quota import QuotaNode
from federation.core.snapshot import Snapshot
from federation.core.types import FlavorResource, Pending, Usage
from federation.core.victims import Need, Placed, Victim


@dataclass(slots=True)
class Nominee:
    """A head of a queue, with the best it could get and whom that would evict."""

    item: Pending
    node: QuotaNode
    assignment: Assignment
    plan: Plan

    @property
    def victims(self) -> Sequence[Victim]:
        """Whom to evict for it."""
        return self.plan.victims

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
    sites: Sites | None = None,
) -> Nominee:
    """Flavors and victims for a workload; fewer pods if it allows that and nothing else helps.
    With `sites`, victims only such that one of the clusters takes it when they have left. More
    pods of what runs get the flavors that it has.
    """
    node = snapshot.tree.queues[item.cluster_queue]
    if pinned is None and item.growth is not None:
        pinned = item.growth.flavors
    return _Nomination(item, node, snapshot, sites).run(tried, pinned)


@dataclass(frozen=True, slots=True)
class _Nomination:
    """`known` remembers searches for victims: the state does not change meanwhile."""

    item: Pending
    node: QuotaNode
    snapshot: Snapshot
    sites: Sites | None = None
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

        def attempt(counts: Sequence[int] | None) -> Nominee:
            found = assign(item.pod_sets, market, counts=counts, tried=tried, pinned=pinned)
            if not self.delayed(found):
                found = place(found, item.pod_sets, snapshot.topologies)
            plan = self.plan(found) if found.mode is Mode.PREEMPT else Plan()
            return Nominee(item, node, found, plan)

        whole = attempt(None)
        if _helps(whole) or not snapshot.rules.partial_admission:
            return whole

        def succeeds(counts: Sequence[int]) -> Nominee | None:
            return found if _helps(found := attempt(counts)) else None

        return search(item.pod_sets, succeeds) or whole

    def delayed(self, found: Assignment) -> bool:
        """Whether its places are sought later, on nodes that are yet to be made."""
        queue = self.snapshot.queues[self.node.name]
        return delayed(queue, found.admission, self.snapshot.delaying)

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

    def plan(self, assignment: Assignment) -> Plan:
        """Whom to evict for all of an assignment."""
        item, snapshot = self.item, self.snapshot
        need = Need(item, self.node, assignment.preempting, assignment.usage)
        if snapshot.topologies and not self.delayed(assignment):
            places = partial(places_now, assignment, item.pod_sets, snapshot.topologies)
            need = replace(need, placed=places)
            found = _find_victims(snapshot, need)
        else:
            found = self.search(need)
        if not found or self.sites is None:
            return Plan(tuple(found))

        def search_for(placed: Placed) -> list[Victim]:
            both = replace(need, placed=lambda: need.placed() and placed())
            return _find_victims(snapshot, both)

        return Making(item, snapshot, self.sites, search_for).plan(assignment.admission, found)

    def search(self, need: Need) -> list[Victim]:
        """Victims by quota alone."""
        key = (need.scarce, tuple(need.requests.items()))
        if key not in self.known:
            self.known[key] = _find_victims(self.snapshot, need)
        return self.known[key]


def _helps(nominee: Nominee) -> bool:
    return nominee.assignment.mode is Mode.FIT or bool(nominee.victims)


def _find_victims(snapshot: Snapshot, need: Need) -> list[Victim]:
    if snapshot.rules.fair_sharing:
        return fair_preemption.find_victims(snapshot, need)
    return preemption.find_victims(snapshot, need)
