"""Preemption that helps: before anybody is evicted, a worker cluster is found that takes the
preemptor once its victims have left.

Quota alone says whom to evict (Kueue's rules). If no cluster takes the workload then, the search is
repeated for each cluster until it does, and the plan with the fewest victims is taken; among those
the one that spares higher priorities and older reservations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from federation.core.dispatch import Choice, NoCluster
from federation.core.snapshot import Snapshot
from federation.core.types import Admission, Pending
from federation.core.victims import Placed, Victim


class Sites(Protocol):
    """The worker clusters, as far as is known of them."""

    def names(self, item: Pending) -> Sequence[str]:
        """The clusters that a workload may be offered to."""

    def choose(
        self, item: Pending, admission: Admission, gone: AbstractSet[str], among: Collection[str]
    ) -> Choice | NoCluster:
        """The cluster that takes it if those `gone` (UIDs) had left theirs. Changes nothing."""

    def keep(self, item: Pending, choice: Choice, gone: AbstractSet[str]) -> None:
        """For the rest of the cycle nobody else gets the room that it is to have, nor that which
        those `gone` leave to it.
        """


@dataclass(frozen=True, slots=True)
class Plan:
    """Whom to evict, and the cluster that takes the workload then (None where clusters are no
    matter); without victims `nowhere` says why, if quota alone would have had some.
    """

    victims: tuple[Victim, ...] = ()
    choice: Choice | None = None
    nowhere: NoCluster | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """That a workload evicts nobody until `until`, after so many `failures`."""

    failures: int
    until: float

    @property
    def text(self) -> str:
        """One clause for people."""
        at = datetime.fromtimestamp(self.until, UTC).isoformat(timespec="seconds")
        times = "once" if self.failures == 1 else f"{self.failures} times"
        return (
            f"others were preempted for it {times}, and then nothing took it: it preempts nobody"
            f" before {at}"
        )


@dataclass(frozen=True, slots=True)
class Ground:
    """What a cycle has to know before it evicts anybody: the worker clusters (None where there are
    none to choose from), whose victims still stop, and who may evict nobody now, by UID.
    """

    sites: Sites | None = None
    stopping: Collection[str] = ()
    barred: Mapping[str, Bar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Making:
    """What a plan for one workload is made of. `search` finds victims such that its argument
    holds as well.
    """

    item: Pending
    snapshot: Snapshot
    sites: Sites
    search: Callable[[Placed], list[Victim]]

    def plan(self, admission: Admission, found: Sequence[Victim]) -> Plan:
        """The plan, from the victims that were `found` by quota alone."""
        names = self.sites.names(self.item)
        choice = self._without(admission, found, names)
        if isinstance(choice, Choice):
            return Plan(tuple(found), choice)
        plans = [
            plan for name in self._possible(admission, names) if (plan := self._at(admission, name))
        ]
        return min(plans, key=_price, default=Plan(nowhere=choice))

    def _without(
        self, admission: Admission, victims: Sequence[Victim], names: Collection[str]
    ) -> Choice | NoCluster:
        snapshot = self.snapshot
        with snapshot.without(victim.holder for victim in victims):
            return self.sites.choose(self.item, admission, snapshot.away, names)

    def _possible(self, admission: Admission, names: Sequence[str]) -> list[str]:
        """Those that would take it if all had left that may be evicted at all."""
        everybody = self.snapshot.away | {
            holder.uid
            for queue in self.snapshot.holders.values()
            for holder in queue.values()
            if holder.preemptible
        }
        found = {
            name: self.sites.choose(self.item, admission, everybody, (name,)) for name in names
        }
        return [name for name, choice in found.items() if isinstance(choice, Choice)]

    def _at(self, admission: Admission, name: str) -> Plan | None:
        """The plan for one cluster."""
        sites, item, away = self.sites, self.item, self.snapshot.away

        def placed() -> bool:
            return isinstance(sites.choose(item, admission, away, (name,)), Choice)

        victims = self.search(placed)
        choice = self._without(admission, victims, (name,)) if victims else None
        return Plan(tuple(victims), choice) if isinstance(choice, Choice) else None


def _price(plan: Plan) -> tuple[object, ...]:
    """Lower is better. Who is being stopped anyway costs nothing."""
    fresh = [victim.holder for victim in plan.victims if not victim.holder.evicted]
    ranks = sorted((holder.rank for holder in fresh), reverse=True)
    assert plan.choice is not None
    return len(fresh), ranks, plan.choice.cluster
