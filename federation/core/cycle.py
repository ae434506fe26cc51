"""One scheduling cycle: which waiting workloads are admitted now, and why the others are not.

Kueue's cycle: the first of each queue is nominated against the same state, then they are processed
in order against the state as it changes. Nothing is written here: decisions come out, and the
snapshot is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from federation.core.assignment import Assignment, Mode, Tried
from federation.core.dispatch import Choice, NoCluster
from federation.core.making_room import Bar, Ground
from federation.core.matching import selects
from federation.core.nomination import Nominee, nominate
from federation.core.order import in_order
from federation.core.policies import PreemptionPolicy, StopPolicy
from federation.core.quota import QuotaNode
from federation.core.reasons import Reason
from federation.core.snapshot import Snapshot
from federation.core.types import Admission, Holder, Pending, Usage
from federation.core.victims import Victim


@dataclass(frozen=True, slots=True)
class NoCards:
    """Why the cards of this cluster do not take the workload, although its quota is there."""

    text: str
    retry_at: float | None = None

    def message(self) -> str:
        """One sentence for people."""
        return self.text


Place = Callable[[Pending, Admission], Choice | NoCluster | NoCards | None]
"""Finds the worker cluster for an admission, or on a worker its cards (None if they are found, or
none are asked for); must count what it finds at once.
"""


class Requeue(StrEnum):
    """What becomes of a workload that was not admitted; the names are Kueue's."""

    GENERIC = "Generic"
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    NO_FIT = "NoFit"
    NO_CANDIDATES = "PreemptionNoCandidates"
    PENDING_PREEMPTION = "PendingPreemption"
    GATED = "PreemptionGated"
    NO_CLUSTER = "NoCluster"
    """Ours: the quota is there, but no worker cluster takes it."""
    NO_CARDS = "NoCards"
    """Ours: the quota is there, but the cards that are free do not take it."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Admit it: quota is to be charged, and on the manager a cluster is chosen."""

    item: Pending
    admission: Admission
    choice: Choice | None = None
    tried: Tried = ()


@dataclass(frozen=True, slots=True)
class Preempt:
    """Evict the victims; it is admitted in a later cycle, when their quota is free. `choice` is
    the cluster that takes it then, on the manager.
    """

    item: Pending
    victims: tuple[Victim, ...]
    reason: Reason
    message: str
    assignment: Assignment
    choice: Choice | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now. `assignment` has the numbers, if it came to looking for flavors.

    `retry_at` is when time alone may help. `tried` is where the next search for flavors starts.
    """

    item: Pending
    reason: Reason
    message: str
    requeue: Requeue
    assignment: Assignment | None = None
    tried: Tried = ()
    retry_at: float | None = None


Decision = Fit | Preempt | Wait

NO_LONGER_FITS = "Workload no longer fits after processing another workload"
OVERLAPS = "Workload has overlapping preemption targets with another workload"


_NO_GROUND = Ground()


def run_cycle(
    heads: Iterable[Pending],
    snapshot: Snapshot,
    place: Place | None = None,
    tried: Mapping[str, Tried] | None = None,
    ground: Ground = _NO_GROUND,
) -> list[Decision]:
    """Decide on the given heads, one of each queue. Decisions come in the order they were made.

    `tried` has, by UID, where the search for flavors starts; `ground` is what has to be known
    before anybody is evicted.
    """
    cycle = _Cycle(snapshot, place, ground)
    nominees = []
    pristine = replace(snapshot, pools={})
    for item in heads:
        start = (tried or {}).get(item.uid, ())
        found = cycle.problem(item) or nominate(item, pristine, start, sites=ground.sites)
        if isinstance(found, Wait):
            cycle.decisions.append(found)
        else:
            nominees.append(found)
    try:
        for nominee in in_order(nominees, snapshot):
            cycle.decisions.append(cycle.process(nominee))
    finally:
        cycle.undo()
    return cycle.decisions


@dataclass(slots=True)
class _Cycle:
    snapshot: Snapshot
    place: Place | None
    ground: Ground
    decisions: list[Decision] = field(default_factory=list)
    charged: list[tuple[QuotaNode, Usage]] = field(default_factory=list)
    placed: list[Admission] = field(default_factory=list)
    preempted: dict[str, Holder] = field(default_factory=dict)
    unready: bool | None = None

    def undo(self) -> None:
        """Leave the snapshot as it was."""
        for node, usage in reversed(self.charged):
            node.remove_all(usage)
        for admission in self.placed:
            self.snapshot.leave_places(admission)

    def problem(self, item: Pending) -> Wait | None:
        """Why a head cannot even be looked at."""
        snapshot = self.snapshot
        queue = snapshot.queues.get(item.cluster_queue)
        if queue is None:
            text = (
                f"ClusterQueue {item.cluster_queue} does not exist: create it, or point the"
                " LocalQueue to another one"
            )
            return Wait(item, Reason.MISCONFIGURED, text, Requeue.GENERIC)
        if queue.stop is not StopPolicy.NONE:
            text = f"ClusterQueue {queue.name} is stopped ({queue.stop})"
            return Wait(item, Reason.SUSPENDED, text, Requeue.GENERIC)
        if queue.name in snapshot.tree.cyclic:
            text = f"the cohorts above {queue.name} form a cycle, or are nested too deep: break it"
            return Wait(item, Reason.SUSPENDED, text, Requeue.GENERIC)
        if not selects(queue.namespace_selector, snapshot.namespaces.get(item.namespace, {})):
            text = (
                f"namespace {item.namespace} is not selected by ClusterQueue {queue.name}: see its"
                " spec.namespaceSelector ({} selects all)"
            )
            return Wait(item, Reason.MISCONFIGURED, text, Requeue.NAMESPACE_MISMATCH)
        if item.problem:
            return Wait(item, Reason.MISCONFIGURED, item.problem, Requeue.GENERIC)
        return None

    def process(self, nominee: Nominee) -> Decision:
        """Decide on one nominee, against the state as it is now."""
        deferred = False
        if self._overlaps(nominee):
            nominee = self._nominate_again(nominee)
            deferred = nominee.assignment.mode is Mode.FIT
        item, assignment = nominee.item, nominee.assignment
        if assignment.mode is Mode.NO_FIT:
            return self._wait(nominee, assignment.reason, assignment.explanation(), Requeue.NO_FIT)
        if assignment.mode is Mode.PREEMPT and not nominee.victims:
            return self._without_candidates(nominee)
        if bar := self._barred(nominee):
            wait = self._wait(nominee, Reason.WAITING_FOR_QUOTA, bar.text, Requeue.NO_CLUSTER)
            return replace(wait, retry_at=bar.until)
        if assignment.mode is Mode.PREEMPT and item.preemption_gated:
            text = "it would preempt other workloads, and its preemption gate is closed"
            wait = self._wait(nominee, Reason.WAITING_FOR_QUOTA, text, Requeue.GATED)
            return replace(wait, tried=())
        if deferred:
            self._charge(nominee)
            text = "it fits once workloads are gone that are being preempted for another one"
            wait = self._wait(
                nominee, Reason.WAITING_FOR_PREEMPTED_WORKLOADS, text, Requeue.PENDING_PREEMPTION
            )
            return replace(wait, tried=())
        if self._overlaps(nominee):
            return self._skip(nominee, OVERLAPS)
        if not self._fits(nominee):
            return self._skip(nominee, NO_LONGER_FITS)
        if not self._has_places(nominee):  # others of this cycle took them: there may be more
            nominee = self._nominate_again(nominee)
            if nominee.assignment.mode is not Mode.FIT or not self._has_places(nominee):
                return self._skip(nominee, NO_LONGER_FITS)
        if nominee.assignment.mode is Mode.FIT:
            return self._admit(nominee)
        if not self._has_cluster(nominee):  # others of this cycle took it
            nominee = self._nominate_again(nominee)
            if not nominee.victims or not self._has_cluster(nominee):
                return self._skip(nominee, NO_LONGER_FITS)
        return self._preempt(nominee)

    def _has_cluster(self, nominee: Nominee) -> bool:
        """Whether its cluster takes it when all that leave have left."""
        sites, choice = self.ground.sites, nominee.plan.choice
        if sites is None or choice is None:
            return True
        with self.snapshot.without(self._leaving(nominee)):
            away, admission = self.snapshot.away, nominee.assignment.admission
            found = sites.choose(nominee.item, admission, away, (choice.cluster,))
            return isinstance(found, Choice)

    def _overlaps(self, nominee: Nominee) -> bool:
        return any(victim.holder.uid in self.preempted for victim in nominee.victims)

    def _nominate_again(self, nominee: Nominee) -> Nominee:
        """With the victims of others gone, in the flavors that were nominated."""
        pinned = {
            (pods.name, resource): flavor
            for pods in nominee.assignment.admission.pod_sets
            for resource, flavor in pods.flavors.items()
        }
        with self.snapshot.without(self._gone(nominee.node)):
            return nominate(nominee.item, self.snapshot, (), pinned, self.ground.sites)

    def _barred(self, nominee: Nominee) -> Bar | None:
        """What forbids it to evict more than is being stopped anyway."""
        fresh = any(not victim.holder.evicted for victim in nominee.victims)
        return self.ground.barred.get(nominee.item.uid) if fresh else None

    def _gone(self, node: QuotaNode) -> list[Holder]:
        """Victims of this cycle that matter to a queue: those of its tree, if nothing else ties
        queues together.
        """
        queues, root = self.snapshot.tree.queues, node.root
        everywhere = bool(self.snapshot.topologies)
        return [
            holder
            for holder in self.preempted.values()
            if everywhere or queues[holder.cluster_queue].root is root
        ]

    def _fits(self, nominee: Nominee) -> bool:
        with self.snapshot.without(self._leaving(nominee)):
            node = nominee.node
            return all(n <= max(0, node.available(fr)) for fr, n in nominee.usage.items())

    def _has_places(self, nominee: Nominee) -> bool:
        if not self.snapshot.topologies:
            return True
        with self.snapshot.without(self._leaving(nominee)):
            return self.snapshot.has_places(nominee.assignment.admission)

    def _leaving(self, nominee: Nominee) -> list[Holder]:
        """All that will be gone when a nominee is admitted: its victims and those before."""
        gone = {holder.uid: holder for holder in self._gone(nominee.node)}
        gone |= {victim.holder.uid: victim.holder for victim in nominee.victims}
        return list(gone.values())

    def _charge(self, nominee: Nominee, usage: Usage | None = None) -> None:
        amounts = nominee.usage if usage is None else usage
        nominee.node.add_all(amounts)
        self.charged.append((nominee.node, amounts))
        if usage is None:
            self.snapshot.take_places(nominee.assignment.admission)
            self.placed.append(nominee.assignment.admission)

    def _without_candidates(self, nominee: Nominee) -> Wait:
        """It keeps what it could still get from those after it, unless it can reclaim anyway, or
        has no use for quota.
        """
        if (nowhere := nominee.plan.nowhere) is not None:
            text = f"{nominee.assignment.explanation()}; preempting others would not help:"
            text = f"{text} {nowhere.message()}"
            wait = self._wait(nominee, Reason.WAITING_FOR_QUOTA, text, Requeue.NO_CLUSTER)
            return replace(wait, retry_at=nowhere.retry_at)
        policy = self.snapshot.queues[nominee.node.name].preemption.reclaim
        if policy is not PreemptionPolicy.ANY:
            self._charge(nominee, _reserve(nominee))
        text = nominee.assignment.explanation()
        return self._wait(nominee, Reason.WAITING_FOR_QUOTA, text, Requeue.NO_CANDIDATES)

    def _skip(self, nominee: Nominee, text: str) -> Wait:
        return self._wait(nominee, Reason.WAITING_FOR_QUOTA, text, Requeue.FAILED_AFTER_NOMINATION)

    def _wait(self, nominee: Nominee, reason: Reason, text: str, requeue: Requeue) -> Wait:
        assignment = nominee.assignment
        return Wait(nominee.item, reason, text, requeue, assignment, assignment.tried)

    def _admit(self, nominee: Nominee) -> Decision:
        item, admission = nominee.item, nominee.assignment.admission
        if self.snapshot.rules.block_admission and self._some_unready():
            text = "the pods of a workload admitted before are not ready yet (blockAdmission)"
            return self._wait(
                nominee, Reason.WAITING_FOR_PODS_READY, text, Requeue.FAILED_AFTER_NOMINATION
            )
        choice: Choice | None = None
        if self.place is not None:
            placed = self.place(item, admission)
            if isinstance(placed, NoCluster | NoCards):
                return self._nowhere(nominee, placed)
            choice = placed
        self._charge(nominee)
        self.unready = True
        return Fit(item, admission, choice, nominee.assignment.tried)

    def _nowhere(self, nominee: Nominee, why: NoCluster | NoCards) -> Wait:
        if nominee.item.uid in self.ground.stopping:
            self._charge(nominee)  # its quota came free before the room that it was to have
            return self._wait(
                nominee,
                Reason.WAITING_FOR_PREEMPTED_WORKLOADS,
                f"its quota is free, but not yet all that is preempted for it: {why.message()}",
                Requeue.PENDING_PREEMPTION,
            )
        if isinstance(why, NoCards):
            reason, requeue = Reason.WAITING_FOR_CARDS, Requeue.NO_CARDS
        else:
            reason, requeue = Reason.WAITING_FOR_QUOTA, Requeue.NO_CLUSTER
        return replace(self._wait(nominee, reason, why.message(), requeue), retry_at=why.retry_at)

    def _some_unready(self) -> bool:
        if self.unready is None:
            holders = self.snapshot.holders.values()
            self.unready = any(not h.pods_ready for queue in holders for h in queue.values())
        return self.unready

    def _preempt(self, nominee: Nominee) -> Preempt:
        self.preempted |= {victim.holder.uid: victim.holder for victim in nominee.victims}
        self._charge(nominee)
        choice, sites = nominee.plan.choice, self.ground.sites
        if sites is not None and choice is not None:
            sites.keep(nominee.item, choice, {victim.holder.uid for victim in nominee.victims})
        text = (
            f"{nominee.assignment.explanation()}. Pending the preemption of"
            f" {len(nominee.victims)} workload(s)"
        )
        reason = Reason.WAITING_FOR_PREEMPTED_WORKLOADS
        return Preempt(nominee.item, nominee.plan.victims, reason, text, nominee.assignment, choice)


def _reserve(nominee: Nominee) -> Usage:
    """What a workload without victims keeps for itself until the end of the cycle.

    Kueue's rule: as far as its own quota goes, or its borrowing limit if it would borrow.
    """
    node = nominee.node
    reserved: Usage = {}
    for fr, amount in nominee.usage.items():
        used, nominal = node.usage.get(fr, 0), node.subtree.get(fr, 0)
        if nominee.borrowing == 0:
            reserved[fr] = max(0, min(amount, nominal - used))
            continue
        quota = node.quotas.get(fr)
        limit = quota.borrowing_limit if quota else None
        reserved[fr] = amount if limit is None else min(amount, nominal + limit - used)
    return reserved
