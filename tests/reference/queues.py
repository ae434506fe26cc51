"""§3: heaps, parked workloads and what brings them back; runs the cycles of §7 over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from federation.core.policies import QueueingStrategy, Rules, StopPolicy
from federation.core.types import ClusterQueue, Cohort, Holder, Pending, ResourceFlavor
from tests.reference.cycle import Decision, Head, run, selects
from tests.reference.flavors import Tried
from tests.reference.quota import Node, Tree, quotas
from tests.reference.state import State

REACTIVATION_S = 1.0
AT_ONCE = {"FailedAfterNomination", "PendingPreemption", "PreemptionFailed"}
"""Requeue reasons with which a workload of a BestEffortFIFO queue goes back into its heap."""
SAME_FATE = {"NoFit", "PreemptionNoCandidates"}
"""Requeue reasons that park all workloads of the same shape."""


@dataclass(frozen=True)
class World:
    """The objects and the configuration."""

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)

    @cached_property
    def tree(self) -> Tree:
        """The quota tree."""
        return Tree(self.queues, self.cohorts)

    def roots(self, queue: str) -> set[Node]:
        """The tree of a queue, if there is such a queue."""
        return {self.root(queue)} if queue in self.queues else set()

    def root(self, queue: str) -> Node:
        """The tree that a queue is in; one in a cycle of cohorts is on its own."""
        node = Node("queue", queue)
        tree = self.tree
        return node if queue in tree.cyclic or queue not in self.queues else tree.root(node)

    def peers(self, root: Node) -> list[str]:
        """The queues in a tree. A cycle is no tree: nothing there is reactivated."""
        return [
            name for name in self.queues if self.root(name) == root and name not in self.tree.cyclic
        ]

    def is_active(self, queue: str) -> bool:
        """§1.2: not stopped, not in a cycle, all flavors there."""
        spec = self.queues[queue]
        names = {flavor.flavor for rg in spec.groups for flavor in rg.flavors}
        return (
            spec.stop is StopPolicy.NONE
            and queue not in self.tree.cyclic
            and all(name in self.flavors for name in names)
        )

    def uses(self, queue: str, flavor: str) -> bool:
        """Whether a queue has quota in a flavor."""
        return any(fr.flavor == flavor for fr in quotas(self.queues[queue].groups))


@dataclass(frozen=True)
class LastAssignment:
    """Up to which flavors the last nomination came; in which cycle, and for which state."""

    tried: Tried
    cycle: int
    generation: int
    shape: Any

    @property
    def untried(self) -> bool:
        """Whether a scan ended before the last flavor."""
        return any(index != -1 for index in self.tried.values())


@dataclass
class Waiting:
    """A waiting workload: in the "heap", "parked", or in "backoff"."""

    item: Pending
    place: str
    last: LastAssignment | None = None
    reason: str = ""


def shape(item: Pending) -> Any:
    """What makes workloads equivalent (§3): priority and pod sets; ours: and the namespace."""
    return (
        item.namespace,
        item.priority,
        tuple(
            (
                pods.name,
                pods.count,
                tuple(sorted(pods.requests.items())),
                pods.node_selector,
                pods.affinity,
                pods.tolerations,
                pods.min_count,
                pods.topology,
            )
            for pods in item.pod_sets
        ),
    )


class Queues:
    """All queues, what waits in them and what holds quota. Times are in seconds.

    A cycle is atomic here, so no reactivation can come between a pop and its requeue
    (queueInadmissibleCycle is not needed).
    """

    def __init__(self) -> None:
        self.world = World()
        self.waiting: dict[str, Waiting] = {}
        self.holders: dict[str, Holder] = {}
        self.sticky: dict[str, str] = {}
        self.doomed: dict[str, dict[Any, str]] = {}
        self.wake: dict[Node, float] = {}
        self.generation: dict[str, int] = {}
        self.cycles = 0

    def copy(self) -> Queues:
        """Another one in the same state, to see what would happen."""
        other = Queues()
        other.world = self.world
        other.waiting = {uid: replace(entry) for uid, entry in self.waiting.items()}
        other.holders = dict(self.holders)
        other.sticky = dict(self.sticky)
        other.doomed = {queue: dict(shapes) for queue, shapes in self.doomed.items()}
        other.wake = dict(self.wake)
        other.generation = dict(self.generation)
        other.cycles = self.cycles
        return other

    # --- events ---

    def configure(self, world: World, now: float) -> None:
        """The objects have changed to these."""
        old, self.world = self.world, world
        for name in old.queues.keys() - world.queues.keys():
            self._forget_queue(name)
        for name in changed(old.queues, world.queues):
            self.event(old.roots(name) | world.roots(name), now)
        for name in changed(old.cohorts, world.cohorts):
            self.event(self._trees_of_cohort(old, name) | self._trees_of_cohort(world, name), now)
        for name in changed(old.flavors, world.flavors):
            self.event({world.root(q) for q in world.queues if world.uses(q, name)}, now)
        for name in changed(old.namespaces, world.namespaces):
            for queue in world.queues.values():
                if selects(queue.namespace_selector, world.namespaces.get(name, {})):
                    self.event({world.root(queue.name)}, now)
        self._quota_changed(old, world)

    def enqueue(self, item: Pending, now: float) -> None:
        """A workload waits: new, back after an eviction, or changed (by its generation)."""
        known = self.waiting.get(item.uid)
        if known is not None and known.item.generation >= item.generation:
            return
        entry = Waiting(item, "heap", known.last if known else None)
        self.waiting[item.uid] = entry
        if item.not_before > now:
            entry.place = "backoff"
        else:
            self._push(entry)

    def drop(self, uid: str, now: float) -> None:
        """A waiting workload is gone."""
        entry = self.waiting.pop(uid, None)
        if entry is not None:
            self._unstick(entry.item)
            self.event({self.world.root(entry.item.cluster_queue)}, now)

    def hold(self, holder: Holder) -> None:
        """Something about a workload that holds quota has been written."""
        self.holders[holder.uid] = holder
        self._bump([holder.cluster_queue])

    def release(self, uid: str, now: float) -> None:
        """A workload does not hold quota any more."""
        holder = self.holders.pop(uid, None)
        if holder is not None:
            self._bump([holder.cluster_queue])
            self.event({self.world.root(holder.cluster_queue)}, now)

    def event(self, roots: Iterable[Node], now: float) -> None:
        """Reactivate these trees in a second; later events do not move that."""
        for root in roots:
            if self.world.peers(root):
                self.wake.setdefault(root, now + REACTIVATION_S)

    def _trees_of_cohort(self, world: World, cohort: str) -> set[Node]:
        node = Node("cohort", cohort)
        return {world.tree.root(node)} if world.tree.has(node) else set()

    def _quota_changed(self, old: World, new: World) -> None:
        """§4: a change of quota is a new generation for all queues of the tree."""
        trees: set[Node] = set()
        for name in changed(old.queues, new.queues):
            before, after = old.queues.get(name), new.queues.get(name)
            if _quota_of(before) != _quota_of(after):
                trees |= old.roots(name) | new.roots(name)
        for name in changed(old.cohorts, new.cohorts):
            trees |= self._trees_of_cohort(old, name) | self._trees_of_cohort(new, name)
        for root in trees:
            self._bump(new.peers(root))

    def _bump(self, queues: Iterable[str]) -> None:
        for name in queues:
            self.generation[name] = self.generation.get(name, 0) + 1

    def _forget_queue(self, name: str) -> None:
        """Nothing is remembered of a queue that is gone; its workloads wait for it."""
        self.sticky.pop(name, None)
        self.doomed.pop(name, None)
        for entry in self._of(name):
            if entry.place == "parked":
                entry.place = "heap"

    # --- places ---

    def _of(self, queue: str) -> list[Waiting]:
        return [w for w in self.waiting.values() if w.item.cluster_queue == queue]

    def _push(self, entry: Waiting) -> None:
        """Into the heap, or straight to those parked whose shape does not fit."""
        reason = self.doomed.get(entry.item.cluster_queue, {}).get(shape(entry.item))
        entry.place = "heap" if reason is None else "parked"
        entry.reason = reason or entry.reason

    def _unstick(self, item: Pending) -> None:
        if self.sticky.get(item.cluster_queue) == item.uid:
            del self.sticky[item.cluster_queue]

    def _reactivate(self, root: Node) -> None:
        for name in self.world.peers(root):
            self.doomed.pop(name, None)
            selector = self.world.queues[name].namespace_selector
            for entry in self._of(name):
                labels = self.world.namespaces.get(entry.item.namespace, {})
                if entry.place == "parked" and selects(selector, labels):
                    entry.place = "heap"

    def _is_best_effort(self, queue: str) -> bool:
        return self.world.queues[queue].strategy is QueueingStrategy.BEST_EFFORT_FIFO

    def _first(self, queue: str) -> Waiting | None:
        """The head: sticky, then priority, then time, then UID."""
        sticky = self.sticky.get(queue)
        heap = [entry for entry in self._of(queue) if entry.place == "heap"]
        return min(
            heap,
            key=lambda w: (w.item.uid != sticky, -w.item.priority, w.item.created, w.item.uid),
            default=None,
        )

    # --- cycles ---

    def cycle(self, now: float, only: Callable[[str], bool] = lambda _: True) -> list[Decision]:
        """What is due by now, then one scheduling cycle. Empty if there is no head.

        With `only`, the heads of other queues are left alone.
        """
        self.tick(now)
        self.cycles += 1
        active = [name for name in sorted(self.world.queues) if self.world.is_active(name)]
        heads = [entry for name in active if only(name) and (entry := self._first(name))]
        state = State(
            self.world.queues,
            self.world.tree,
            self.world.flavors,
            self.world.namespaces,
            self.world.rules,
            dict(self.holders),
            frozenset(active),
            now,
        )
        decisions = run(state, [Head(entry.item, self._resume(entry)) for entry in heads])
        for decision in decisions:
            self._carry_out(decision)
        return decisions

    def tick(self, now: float) -> None:
        """Reactivations and ends of backoffs that are due."""
        for root in [root for root, due in self.wake.items() if due <= now]:
            del self.wake[root]
            self._reactivate(root)
        for waiting in self.waiting.values():
            if waiting.place == "backoff" and waiting.item.not_before <= now:
                self._push(waiting)

    def _resume(self, entry: Waiting) -> Tried:
        """§5.10: LastAssignment, unless it is outdated."""
        last = entry.last
        if last is None:
            return {}
        old = self.cycles - last.cycle > 1
        advanced = self.generation.get(entry.item.cluster_queue, 0) > last.generation
        if last.shape != shape(entry.item) or (old and advanced):
            entry.last = None
            return {}
        return last.tried

    def _carry_out(self, decision: Decision) -> None:
        item, entry = decision.item, self.waiting[decision.item.uid]
        if decision.admission is not None:
            del self.waiting[item.uid]
            self._unstick(item)
            self.hold(holder(decision))
            return
        entry.reason = decision.reason
        entry.last = None
        if decision.last is not None:
            generation = self.generation.get(item.cluster_queue, 0)
            entry.last = LastAssignment(decision.last, self.cycles, generation, shape(item))
        self._requeue(entry, decision.requeue)

    def _requeue(self, entry: Waiting, why: str) -> None:
        queue = entry.item.cluster_queue
        best_effort = self._is_best_effort(queue)
        if best_effort and why == "PendingPreemption":
            self.sticky[queue] = entry.item.uid
        at_once = why in AT_ONCE if best_effort else why != "NamespaceMismatch"
        if at_once or (entry.last is not None and entry.last.untried):
            return
        entry.place = "parked"
        if best_effort and why in SAME_FATE:
            self.doomed.setdefault(queue, {})[shape(entry.item)] = entry.reason
            for other in self._of(queue):
                if other.place == "heap" and shape(other.item) == shape(entry.item):
                    other.place, other.reason = "parked", entry.reason


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    """Names of what is new, different or (ours: that is an event too) gone."""
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _quota_of(queue: ClusterQueue | None) -> Any:
    return queue and (queue.groups, queue.cohort)


def holder(decision: Decision) -> Holder:
    """A workload that has just been admitted."""
    item, admission = decision.item, decision.admission
    assert admission is not None
    return Holder(
        uid=item.uid,
        namespace=item.namespace,
        name=item.name,
        local_queue=item.local_queue,
        priority=item.priority,
        created=item.created,
        admission=admission,
        usage=admission.usage(),
        preemptible=item.preemptible,
    )
