"""Why a workload waits: the reason, the numbers behind it, and what would change it.

Built from a decision of the cycle and the state it was made on. The message begins with Kueue's
text; the numbers and the advice that follow are ours.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from federation.core.assignment import Lack
from federation.core.cycle import Preempt, Requeue, Wait
from federation.core.policies import StopPolicy
from federation.core.quantity import format_quantity
from federation.core.quota import QuotaNode
from federation.core.reasons import Reason
from federation.core.snapshot import Snapshot
from federation.core.types import FlavorResource, Holder

HOLDERS = 3
"""As many workloads that hold what is short are named."""
SHORTAGES = 16
"""As many quotas that are short are listed: a queue may have hundreds of flavors."""


@dataclass(frozen=True, slots=True)
class HeldBy:
    """A workload that holds some of what is short, and how much."""

    namespace: str
    name: str
    cluster_queue: str
    amount: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """One quota that lacks room. Amounts are integers as in `quantity`.

    `needed` counts the workload's earlier pod sets in. `free` is what it could have now, and
    `borrowable` the part of that which others of the cohort would lend. `nominal` is the queue's
    own quota, `most` what it could have if nothing ran.
    """

    pod_set: str
    flavor: str
    resource: str
    needed: int
    free: int
    borrowable: int
    nominal: int
    most: int
    held_by: tuple[HeldBy, ...] = ()

    @property
    def missing(self) -> int:
        """How much more has to be free."""
        return max(0, self.needed - self.free)

    def text(self) -> str:
        """One clause for people."""
        amounts = (self.needed, self.free, self.borrowable, self.nominal, self.most)
        needed, free, lent, nominal, most = (format_quantity(self.resource, n) for n in amounts)
        text = f"{self.resource} in flavor {self.flavor}: {needed} needed, {free} free"
        if self.borrowable:
            text += f" ({lent} of that borrowed)"
        text += f", nominal quota {nominal}, at most {most}"
        holders = ", ".join(
            f"{h.namespace}/{h.name} ({format_quantity(self.resource, h.amount)})"
            for h in self.held_by
        )
        if not holders:
            return text
        told = sum(h.amount for h in self.held_by)
        others = " and others" if told < self.most - max(0, self.free) else ""
        return f"{text}; held by {holders}{others}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reason and message of QuotaReserved=False, and the same for programs.

    `requeue` is Kueue's word for what becomes of the workload ('' if no cycle looked at it),
    `hint` what would change that it waits.
    """

    reason: str
    message: str
    requeue: str = ""
    shortages: tuple[Shortage, ...] = ()
    hint: str = ""


@dataclass(slots=True)
class Explainer:
    """Explains decisions made on one state; what it found out is used for the next one.

    It is of no use once that state has changed.
    """

    snapshot: Snapshot
    _of_tree: dict[tuple[str, FlavorResource], list[HeldBy]] = field(default_factory=dict)

    def explain(self, decision: Wait | Preempt) -> Explanation:
        """Reason, numbers and advice for a workload that was not admitted."""
        queue = decision.item.cluster_queue
        node = self.snapshot.tree.queues.get(queue)
        lacks = decision.assignment.lacks if decision.assignment else ()
        shortages: tuple[Shortage, ...] = ()
        if node is not None:
            numbered = [(pods, lack) for pods, lack in lacks if lack.resource and lack.needed]
            shortages = tuple(self._shortage(node, *found) for found in numbered[:SHORTAGES])
        hint = _hint(decision, shortages)
        text = decision.message.rstrip(".")
        numbers = "; ".join(shortage.text() for shortage in shortages)
        message = ". ".join(filter(None, (text, numbers, hint)))
        requeue = decision.requeue if isinstance(decision, Wait) else Requeue.PENDING_PREEMPTION
        return Explanation(decision.reason.value, message, requeue.value, shortages, hint)

    def _shortage(self, node: QuotaNode, pod_set: str, lack: Lack) -> Shortage:
        fr = FlavorResource(lack.flavor, lack.resource)
        return Shortage(
            pod_set,
            lack.flavor,
            lack.resource,
            lack.needed,
            lack.free,
            max(0, lack.free - lack.own),
            lack.nominal,
            lack.most,
            tuple(self._held_by(node, fr)) if lack.needed <= lack.most else (),
        )

    def _held_by(self, node: QuotaNode, fr: FlavorResource) -> list[HeldBy]:
        """The largest of its own queue, then of those in the tree that borrow, then of others."""
        found = _largest(self._holding(node.name, fr), HOLDERS)
        if len(found) < HOLDERS and node.parent is not None:
            rest = [held for held in self._in_tree(node, fr) if held.cluster_queue != node.name]
            found += rest[: HOLDERS - len(found)]
        return found

    def _in_tree(self, node: QuotaNode, fr: FlavorResource) -> list[HeldBy]:
        root = self.snapshot.tree.root(node.name)
        if (root, fr) not in self._of_tree:
            tree, top = self.snapshot.tree, node.root
            borrowing: list[HeldBy] = []
            others: list[HeldBy] = []
            for name in self.snapshot.holders:
                leaf = tree.queues.get(name)
                if leaf is not None and leaf.root is top and fr in leaf.usage:
                    # Its own queue may have the first places: as many more are kept.
                    found = _largest(self._holding(name, fr), HOLDERS)
                    (others if leaf.within_nominal((fr,)) else borrowing).extend(found)
            self._of_tree[root, fr] = [
                *_largest(borrowing, 2 * HOLDERS),
                *_largest(others, 2 * HOLDERS),
            ]
        return self._of_tree[root, fr]

    def _holding(self, queue: str, fr: FlavorResource) -> Iterable[HeldBy]:
        for holder in self.snapshot.holders.get(queue, {}).values():
            if amount := holder.usage.get(fr, 0):
                yield HeldBy(holder.namespace, holder.name, queue, amount)


def _largest(held: Iterable[HeldBy], count: int) -> list[HeldBy]:
    return heapq.nsmallest(count, held, key=lambda h: (-h.amount, h.namespace, h.name))


def _hint(decision: Wait | Preempt, shortages: tuple[Shortage, ...]) -> str:
    """What would change it: one sentence without a full stop."""
    queue = decision.item.cluster_queue
    if isinstance(decision, Preempt):
        return "It starts when the pods of the workloads preempted for it have stopped"
    if decision.requeue is Requeue.NO_CLUSTER:
        return (
            "It starts when a worker cluster has room: when jobs there end, its queues get more"
            " quota, a cluster comes back, or what is said of one above is put right"
        )
    if decision.reason is Reason.WAITING_FOR_QUOTA and shortages:
        return _quota_hint(queue, shortages)
    return {
        Reason.EXCEEDS_MAX_QUOTA: (
            "It can never fit: lower its requests, or raise nominalQuota or borrowingLimit of"
            f" ClusterQueue {queue}"
        ),
        Reason.NO_MATCHING_FLAVOR: (
            "Correct its node selector, affinity, tolerations or resources, or give ClusterQueue"
            f" {queue} a flavor that suits it"
        ),
        Reason.TOPOLOGY_PLACEMENT_FAILED: (
            "It starts when enough pods fit together: when others end, with more nodes, or with a"
            " wider topology level"
        ),
        Reason.WAITING_FOR_CARDS: (
            "It starts when enough of the cards is free together: when jobs that hold them end"
        ),
        Reason.WAITING_FOR_PREEMPTED_WORKLOADS: (
            "It starts when workloads that are being preempted have stopped"
        ),
        Reason.WAITING_FOR_PODS_READY: "It starts when all pods admitted before are ready",
        Reason.SUSPENDED: (
            "Correct what the message names (of a stopped queue spec.stopPolicy, to None); what"
            f" waits in ClusterQueue {queue} is then looked at by itself"
        ),
        Reason.MISCONFIGURED: "Correct what the message names; it is looked at again by itself",
    }.get(decision.reason, "It is looked at again when something in its cohort changes")


def _quota_hint(queue: str, shortages: tuple[Shortage, ...]) -> str:
    """The flavor that is nearest to having room: all that it lacks is named."""
    possible = [s for s in shortages if s.needed <= s.most and s.missing]
    if not possible:
        return "It is looked at again when something in its cohort changes"
    lacking: dict[tuple[str, str], list[Shortage]] = {}
    for shortage in possible:
        lacking.setdefault((shortage.pod_set, shortage.flavor), []).append(shortage)
    pods = possible[0].pod_set
    nearest = min(
        (found for (pod_set, _), found in lacking.items() if pod_set == pods),
        key=lambda found: max(s.missing / s.needed for s in found),
    )
    more = " and ".join(
        f"{format_quantity(s.resource, s.missing)} more {s.resource} in flavor {s.flavor}"
        for s in nearest
    )
    verb = "is" if len(nearest) == 1 else "are"
    return (
        f"It starts when {more} {verb} free: when workloads that hold it end, or when nominalQuota"
        f" of ClusterQueue {queue} is raised"
    )


def standstill(name: str, snapshot: Snapshot, inactive: Mapping[str, str]) -> str:
    """Why nothing of a ClusterQueue is looked at; '' if nothing speaks against it. `inactive` are
    queues that admit nothing for a reason that the snapshot does not show, with that reason.
    """
    problem = _problem(name, snapshot) or inactive.get(name, "")
    return f"ClusterQueue {name} is inactive: {problem}" if problem else ""


def _problem(name: str, snapshot: Snapshot) -> str:
    queue = snapshot.queues.get(name)
    if queue is None:
        return "it does not exist"
    if queue.terminating:
        return "it is being deleted"
    if queue.stop is not StopPolicy.NONE:
        return f"it is stopped ({queue.stop})"
    if name in snapshot.tree.cyclic:
        return "the cohorts above it form a cycle"
    missing = sorted(set(queue.flavor_names) - snapshot.flavors.keys())
    return f"ResourceFlavor {', '.join(missing)} does not exist" if missing else ""


_DUE_TO = {
    Reason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    Reason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    Reason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    Reason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def preemption_message(
    preempt: Preempt, victim: Holder, cause: Reason, snapshot: Snapshot, workload_uid: str
) -> str:
    """Kueue's message of Evicted and Preempted. `workload_uid` is that of the preemptor's Workload,
    '' if it is not known; its own UID is that of its job.
    """
    tree = snapshot.tree
    paths = [
        _path(tree.queues.get(name), name)
        for name in (preempt.item.cluster_queue, victim.cluster_queue)
    ]
    return (
        f"Preempted to accommodate a workload (UID: {workload_uid or 'UNKNOWN'}, JobUID:"
        f" {preempt.item.uid or 'UNKNOWN'}) due to {_DUE_TO.get(cause, cause)}; preemptor path:"
        f" {paths[0]}; preemptee path: {paths[1]}"
    )


def _path(node: QuotaNode | None, name: str) -> str:
    """From the root cohort down to the queue."""
    above = [cohort.name for cohort in node.ancestors()] if node is not None else []
    return "/" + "/".join([*reversed(above), name])
