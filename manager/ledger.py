"""What one cluster is known to owe and to have free: its report, corrected by our own offers.

A report says up to which Job version it counts. An offer created later is not in it yet and is
subtracted; a copy that ended later is still in it and is added back. Versions of one resource on
one API server are comparable (Kubernetes 1.35 and later say so).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from federation.api.report_placement import flavors_from_wire, placement_from_wire
from federation.api.worker_report import WorkerReport, WorkerReportStatus
from federation.core.devices.fleet.buckets import Classes
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.reported_fleet import ReportedFleet
from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.strategies.named import DEFAULT, strategy
from federation.core.devices.fleet.types import Shape
from federation.core.dispatch import Amount, Choice, ClusterView, WorkerQueue
from federation.core.types import FlavorResource, ResourceFlavor, Usage
from federation.edge.resources import Json

MOST_EPOCHS = 9 * 10**8
"""More is nonsense: an epoch is over when a cluster is lost."""
REMEMBERED = 65_536
"""Workloads whose pods are known to the mix already."""


class Judge:
    """What compares places over all clusters: one strategy, the kinds of cards that there are, and
    what is usually asked for.
    """

    def __init__(self) -> None:
        self._mix = Mix()
        self._learned: dict[str, None] = {}
        self.shared: tuple[Strategy, Kinds] = strategy(DEFAULT, self._mix), Kinds()

    def learn(self, uid: str, pods: Iterable[tuple[Shape, int]]) -> None:
        """A workload asks for these; counted once."""
        if uid in self._learned:
            return
        self._learned[uid] = None
        if len(self._learned) > REMEMBERED:
            del self._learned[next(iter(self._learned))]
        for shape, count in pods:
            for _ in range(count):
                self._mix.learn(shape)


@dataclass(frozen=True, slots=True)
class _Entry:
    queue: str
    usage: Usage
    created: int | None = None
    ended: int | None = None


class Ledger:
    """Offers to one cluster by local UID, and the last report of its agent. `judge` scores places
    on its cards, the same for all clusters.
    """

    def __init__(self, cluster: str, judge: Judge | None = None) -> None:
        self._cluster = cluster
        self._cards = ReportedFleet(*(judge or Judge()).shared)
        self._tells_cards = False
        self._flavors: dict[str, ResourceFlavor] = {}
        self._entries: dict[str, _Entry] = {}
        self._pending: dict[str, Usage] = {}
        self._counted = 0
        self._queues: dict[str, WorkerQueue] = {}
        self._local_queues: dict[tuple[str, str], str] = {}
        self.reported = False
        self.tier = ""
        """How well the cluster keeps `stop`, as its agent says; '' if it does not."""
        self.inventory_epoch = 0
        self._followed: frozenset[str] | None = None
        self.unreadable = ""
        """Why the last report cannot be used; '' if it can."""

    def report(self, obj: Json) -> None:
        """Take over a WorkerReport. It comes from another cluster, which may write anything."""
        try:
            self._take(WorkerReport.from_wire(obj).status)
        except ValueError as error:  # pydantic's too
            self.unreadable = f"the WorkerReport cannot be read: {str(error)[:500]}"
            return
        self.unreadable = ""

    def _take(self, status: WorkerReportStatus) -> None:
        self._counted = int(status.counted_resource_version or 0)
        self.tier = str(getattr(status, "tier", "") or "")
        self._followed = None if status.kinds is None else frozenset(status.kinds)
        told = status.inventory_epoch
        self.inventory_epoch = told if 0 <= told < MOST_EPOCHS else 0
        self._local_queues = {(q.namespace, q.name): q.cluster_queue for q in status.local_queues}
        self._queues = {
            queue.name: WorkerQueue(
                queue.name,
                queue.active,
                {
                    FlavorResource(r.flavor, r.resource): Amount(
                        int(r.nominal), int(r.available), int(r.nominal) - int(r.used)
                    )
                    for r in queue.resources
                },
                queue.cohort,
            )
            for queue in status.cluster_queues
        }
        self.reported = True
        settled = [uid for uid, e in self._entries.items() if e.ended and e.ended <= self._counted]
        for uid in settled:
            del self._entries[uid]
        self._take_cards(status)
        self._pending = {}
        for entry in self._entries.values():
            self._count(entry, 1)

    def _take_cards(self, status: WorkerReportStatus) -> None:
        """Offers that the report counts hold their cards in it."""
        for uid, entry in self._entries.items():
            if entry.ended or (entry.created and entry.created <= self._counted):
                self._cards.release(uid)
        self._flavors = flavors_from_wire(status.flavors)
        told = status.placement
        self._tells_cards = told is not None
        if told is None:
            self._cards.report(Classes())
        else:
            self._cards.report(placement_from_wire(told), status.card_vendors)

    def _count(self, entry: _Entry | None, sign: int) -> None:
        """Add an entry to what the report does not say, or take it out."""
        if entry is None:
            return
        uncounted = entry.created is None or entry.created > self._counted
        sign *= uncounted - (entry.ended is not None)
        if sign:
            charged = self._pending.setdefault(entry.queue, {})
            for key, amount in entry.usage.items():
                charged[key] = charged.get(key, 0) + sign * amount

    def _put(self, uid: str, entry: _Entry | None) -> None:
        self._count(self._entries.pop(uid, None), -1)
        self._count(entry, 1)
        if entry is not None:
            self._entries[uid] = entry

    def nominal(self, local_queues: Iterable[tuple[str, str]]) -> Usage:
        """The nominal quota of the queues that these LocalQueues (namespace, name) lead to there,
        each counted once.
        """
        found = {self._local_queues[key]: None for key in local_queues if key in self._local_queues}
        total: Usage = {}
        for name in found:
            if (queue := self._queues.get(name)) is not None:
                for flavor, amount in queue.amounts.items():
                    total[flavor] = total.get(flavor, 0) + amount.nominal
        return total

    def offer(self, uid: str, choice: Choice) -> None:
        """An offer is about to be made."""
        self._put(uid, _Entry(choice.queue, choice.usage))
        if choice.gang:
            self._cards.keep(uid, choice.gang)

    def expect(self, uid: str, choice: Choice) -> None:
        """It was just chosen and may be offered: its cards count from now on, until `ended` or
        `forgo`.
        """
        if choice.gang:
            self._cards.offer(uid, choice.gang, choice.places)

    def forgo(self, uid: str) -> None:
        """What was expected is not offered."""
        self._cards.release(uid)

    def created(self, uid: str, version: int) -> None:
        """The copy exists since `version`."""
        entry = self._entries.get(uid)
        if entry is not None and entry.created is None:
            self._put(uid, replace(entry, created=version))

    def ended(self, uid: str, version: int) -> None:
        """The copy uses nothing since `version`."""
        entry = self._entries.get(uid)
        if entry is None or entry.ended is not None:
            return
        self._cards.release(uid)
        if entry.created is None or version <= self._counted:
            self._put(uid, None)
        else:
            self._put(uid, replace(entry, ended=version))

    def owes(self, uid: str) -> tuple[str, Usage] | None:
        """What an offer, or its copy, still uses, and of which ClusterQueue; None if it is not
        known (a copy that another manager offered).
        """
        entry = self._entries.get(uid)
        if entry is None:
            return None
        return entry.queue, {} if entry.ended is not None else entry.usage

    def view(self, problem: str) -> ClusterView:
        """The cluster for the dispatcher; `problem` is '' when it takes new work."""
        pending = {
            queue: {key: amount for key, amount in charged.items() if amount}
            for queue, charged in self._pending.items()
        }
        cards = self._cards if self._tells_cards else None
        return ClusterView(
            self._cluster,
            problem,
            self._queues,
            self._local_queues,
            pending,
            cards,
            self._flavors,
            followed=self._followed,
        )
