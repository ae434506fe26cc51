"""One scheduling cycle: which waiting workloads are admitted now, and why the others are not.

Kueue's classical order: one head of each ClusterQueue is nominated against the same state; those
that do not borrow go first, then higher priority, then earlier creation. What no longer fits
after another was processed is looked at again in the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from federation.core.dispatch import Choice, NoCluster
from federation.core.flavors import Reason, Shortage, assign
from federation.core.matching import selects
from federation.core.policies import QueueingStrategy, StopPolicy
from federation.core.queueing import shape
from federation.core.quota import QuotaTree
from federation.core.types import Admission, ClusterQueue, Pending, ResourceFlavor

Place = Callable[[Pending, Admission], Choice | NoCluster]
"""Finds the worker cluster for an admission; must count what it returns at once."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a cycle decides on. `namespaces` are labels by name; `tree` has all that is charged."""

    queues: Mapping[str, ClusterQueue]
    flavors: Mapping[str, ResourceFlavor]
    namespaces: Mapping[str, Mapping[str, str]]
    tree: QuotaTree


@dataclass(frozen=True, slots=True)
class Fit:
    """Admit it: quota is charged, and on the manager a cluster is chosen."""

    item: Pending
    admission: Admission
    choice: Choice | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now. `parked` workloads step aside; a StrictFIFO head stays and blocks its queue.

    `shape` is set when every workload of that shape in the queue gets the same answer; without it
    the answer is about this one only, until `retry_at` if that is set.
    """

    item: Pending
    reason: Reason
    message: str
    parked: bool
    shape: str = ""
    retry_at: float | None = None


Decision = Fit | Wait


def run_cycle(
    heads: Mapping[str, Sequence[Pending]], snapshot: Snapshot, place: Place | None = None
) -> list[Decision]:
    """Decide on all given heads, in Kueue's order. Decisions come in the order they were made.

    The tree is left as it was: the caller charges what it commits.
    """
    waiting = {queue: list(reversed(items)) for queue, items in heads.items() if items}
    decisions: list[Decision] = []
    while waiting:
        nominated = _nominate(waiting, snapshot, decisions)
        for item, _ in sorted(nominated, key=lambda pair: _order(pair[0], pair[1], snapshot)):
            decision = _process(item, snapshot, place)
            if decision is None:
                continue
            decisions.append(decision)
            _advance(waiting, decision)
        for queue in [queue for queue, items in waiting.items() if not items]:
            del waiting[queue]
    for decision in decisions:
        if isinstance(decision, Fit):
            snapshot.tree.remove(decision.item.cluster_queue, decision.admission.usage())
    return decisions


def _nominate(
    waiting: Mapping[str, list[Pending]], snapshot: Snapshot, decisions: list[Decision]
) -> list[tuple[Pending, Admission]]:
    """The heads that fit the state before this pass; those that do not are decided here."""
    nominated = []
    for items in waiting.values():
        item = items[-1]
        result = _assignment(item, snapshot)
        if isinstance(result, Admission):
            nominated.append((item, result))
        else:
            decision = _wait(item, result.reason, result.message, snapshot)
            decisions.append(decision)
            _advance(waiting, decision)
    return nominated


def _assignment(item: Pending, snapshot: Snapshot) -> Admission | Shortage:
    queue = snapshot.queues.get(item.cluster_queue)
    if queue is None:
        return Shortage(
            Reason.MISCONFIGURED,
            f"ClusterQueue {item.cluster_queue} does not exist: create it, or point the LocalQueue"
            " to another one",
        )
    if queue.stop is not StopPolicy.NONE:
        return Shortage(Reason.SUSPENDED, f"ClusterQueue {queue.name} is stopped ({queue.stop})")
    if queue.name in snapshot.tree.cyclic:
        return Shortage(Reason.SUSPENDED, f"the cohorts above {queue.name} form a cycle: break it")
    if not selects(queue.namespace_selector, snapshot.namespaces.get(item.namespace, {})):
        return Shortage(
            Reason.MISCONFIGURED,
            f"namespace {item.namespace} is not selected by ClusterQueue {queue.name}: see its"
            " spec.namespaceSelector ({} selects all)",
        )
    return assign(item.pod_sets, queue, snapshot.flavors, snapshot.tree)


def _process(item: Pending, snapshot: Snapshot, place: Place | None) -> Decision | None:
    """Admit against the state as it is now; None to look again in the next pass."""
    result = _assignment(item, snapshot)
    if isinstance(result, Shortage):
        return None
    choice: Choice | None = None
    if place is not None:
        placed = place(item, result)
        if isinstance(placed, NoCluster):
            wait = _wait(item, Reason.WAITING_FOR_QUOTA, placed.message(), snapshot)
            personal = placed.retry_at is not None
            return replace(wait, shape="", retry_at=placed.retry_at) if personal else wait
        choice = placed
    snapshot.tree.add(item.cluster_queue, result.usage())
    return Fit(item, result, choice)


def _wait(item: Pending, reason: Reason, message: str, snapshot: Snapshot) -> Wait:
    queue = snapshot.queues.get(item.cluster_queue)
    strict = queue is not None and queue.strategy is QueueingStrategy.STRICT_FIFO
    mismatch = reason is Reason.MISCONFIGURED
    return Wait(item, reason, message, parked=not strict or mismatch, shape=shape(item))


def _advance(waiting: Mapping[str, list[Pending]], decision: Decision) -> None:
    items = waiting[decision.item.cluster_queue]
    items.pop()
    if not isinstance(decision, Wait):
        return
    if not decision.parked:
        items.clear()
    elif decision.shape:
        items[:] = [item for item in items if shape(item) != decision.shape]


def _order(item: Pending, admission: Admission, snapshot: Snapshot) -> tuple[bool, int, float, str]:
    borrows = any(
        snapshot.tree.borrows(item.cluster_queue, key, amount)
        for key, amount in admission.usage().items()
    )
    return (borrows, -item.priority, item.created, item.uid)
