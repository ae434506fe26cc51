"""Queues, quota and cycles together: what is tried when, and what a decision does to the queues.

Rules: Kueue's queue manager. The first of every queue is tried; what does not fit is parked, and
all of its shape with it, until something in its cohort tree changes. Nothing here reads a clock or
talks to anything but the pending index; decisions are carried out by the caller.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from federation.core.assignment import Tried
from federation.core.cycle import Decision, Fit, Place, Preempt, Requeue, Wait, run_cycle
from federation.core.policies import QueueingStrategy, Rules, StopPolicy
from federation.core.queueing import PendingIndex, member, shape
from federation.core.quota import QuotaTree
from federation.core.snapshot import Snapshot
from federation.core.topology import FlavorTopology
from federation.core.types import ClusterQueue, Cohort, Holder, Pending, ResourceFlavor

REACTIVATION_S = 1.0
"""Parked workloads are tried again this long after the first event that may help them: what the
event was made for (a preemptor, an evicted workload) comes first."""

_AT_ONCE = frozenset({Requeue.FAILED_AFTER_NOMINATION, Requeue.PENDING_PREEMPTION})
_FOR_THE_SHAPE = frozenset({Requeue.NO_FIT, Requeue.NO_CANDIDATES, Requeue.NO_CLUSTER})


@dataclass(frozen=True, slots=True)
class World:
    """The queue objects. `namespaces` are labels by name, `topologies` by flavor."""

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    cohorts: tuple[Cohort, ...] = ()
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    topologies: Mapping[str, FlavorTopology] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class _Search:
    """Where a search for flavors stopped, in which cycle, and how often quota had changed then."""

    tried: Tried
    cycle: int
    generation: int


@dataclass(slots=True)
class _Line:
    """What is known of one ClusterQueue beside the index.

    `blocked` are shapes that do not fit now, `sticky` the workload that waits for its victims,
    `lines` the index queues it consists of with the number of workloads that came in there.
    """

    blocked: dict[str, Wait] = field(default_factory=dict)
    parked: set[str] = field(default_factory=set)
    sticky: str = ""
    generation: int = 0
    lines: dict[str, int] = field(default_factory=dict)


class Scheduler:
    """One per shard of queues. Times are seconds since the epoch, on the caller's clock."""

    def __init__(self, index: PendingIndex, reactivation_s: float = REACTIVATION_S) -> None:
        self.items: dict[str, Pending] = {}
        """All that waits, by UID."""
        self.cycles = 0
        self.snapshot = Snapshot({}, {}, {}, QuotaTree(()))
        self._index, self._delay = index, reactivation_s
        self._world = World()
        self._holders: dict[str, dict[str, Holder]] = {}
        self._queue_of: dict[str, str] = {}
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self._searches: dict[str, _Search] = {}
        self._shapes: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._reactivations: dict[str, float] = {}
        self._backoffs: list[tuple[float, str]] = []

    # The state that is decided on

    def configure(self, world: World, now: float) -> None:
        """Take over changed queue objects; what they may help is tried again."""
        before, self._world = self._world, world
        old_tree, tree = self.snapshot.tree, QuotaTree(world.queues.values(), world.cohorts)
        self.snapshot = Snapshot(
            world.queues,
            world.flavors,
            world.namespaces,
            tree,
            self._holders,
            world.rules,
            world.topologies,
            self.snapshot.usages,
        )
        for queue in self._holders.values():
            for holder in queue.values():
                tree.add(holder.cluster_queue, holder.usage)
                self.snapshot.take_places(holder.admission)
        changed = _changed_queues(before, world)
        for name in world.queues.keys() | before.queues.keys():
            if old_tree.root(name) != tree.root(name):
                changed.add(name)
        roots = {tree.root(name) for name in changed}
        for name in world.queues:
            if tree.root(name) in roots:
                self._lines[name].generation += 1
        for name in sorted(changed):
            self.wake(name, now)
        self._dirty |= {tree.root(name) for name in world.queues}

    def hold(self, holder: Holder) -> None:
        """Charge a workload, or note what changed about one that is charged."""
        known = self.holder(holder.uid)
        if known == holder:
            return
        if known is not None:
            self._uncharge(known)
        queue = holder.cluster_queue
        self._holders.setdefault(queue, {})[holder.uid] = holder
        self._queue_of[holder.uid] = queue
        self.snapshot.tree.add(queue, holder.usage)
        self.snapshot.take_places(holder.admission)
        self._lines[queue].generation += 1
        self._touch(queue)

    def release(self, uid: str, now: float) -> None:
        """A workload no longer holds its quota."""
        holder = self.holder(uid)
        if holder is None:
            return
        self._uncharge(holder)
        self._lines[holder.cluster_queue].generation += 1
        self._touch(holder.cluster_queue)
        self.wake(holder.cluster_queue, now)

    def holder(self, uid: str) -> Holder | None:
        """What a workload holds."""
        queue = self._queue_of.get(uid)
        return self._holders[queue][uid] if queue is not None else None

    def _uncharge(self, holder: Holder) -> None:
        del self._holders[holder.cluster_queue][holder.uid]
        del self._queue_of[holder.uid]
        self.snapshot.tree.remove(holder.cluster_queue, holder.usage)
        self.snapshot.leave_places(holder.admission)

    # The queues

    async def enqueue(self, item: Pending, now: float) -> None:
        """Make a workload wait, or take over what changed about one that waits."""
        known = self.items.get(item.uid)
        if known is not None and known != item:
            await self._take_out(item.uid)
        self.items[item.uid] = item
        self._shapes[item.uid] = shape(item)
        line = self._line_of(item)
        lines = self._lines[item.cluster_queue].lines
        lines[line] = lines.get(line, 0) + (known is None or known != item)
        if item.not_before > now:
            heapq.heappush(self._backoffs, (item.not_before, item.uid))
            return
        await self._index.enqueue(_in_line(item, line))
        self._touch(item.cluster_queue)

    async def drop(self, uid: str, now: float) -> None:
        """A workload does not wait any more, for another reason than its admission."""
        item = self.items.get(uid)
        if item is None:
            return
        await self._take_out(uid)
        self._touch(item.cluster_queue)
        self.wake(item.cluster_queue, now)

    async def _take_out(self, uid: str) -> None:
        self._left(uid)
        await self._index.drop(uid)

    def _left(self, uid: str) -> None:
        item = self.items.pop(uid)
        line = self._lines[item.cluster_queue]
        name = self._line_of(item)
        line.lines[name] = line.lines.get(name, 1) - 1
        if line.lines[name] <= 0:
            del line.lines[name]
        line.parked.discard(uid)
        if line.sticky == uid:
            line.sticky = ""
        self._searches.pop(uid, None)
        self._shapes.pop(uid, None)

    def _line_of(self, item: Pending) -> str:
        """Where it stands in the index: LocalQueues that take turns have a line each."""
        queue = self._world.queues.get(item.cluster_queue)
        if queue is None or not queue.usage_based:
            return item.cluster_queue
        return f"{item.cluster_queue}|{item.namespace}/{item.local_queue}"

    def blocked(self, item: Pending) -> Wait | None:
        """The answer that another workload of the same shape got, if it still holds."""
        return self._lines[item.cluster_queue].blocked.get(self._shapes.get(item.uid, ""))

    # Waking

    def wake(self, queue: str, now: float) -> None:
        """Something happened in the tree of a queue that may let parked workloads in."""
        self._reactivations.setdefault(self.snapshot.tree.root(queue), now + self._delay)

    def wake_all(self, now: float) -> None:
        """Something happened that concerns every queue."""
        for queue in self._world.queues:
            self.wake(queue, now)

    def due(self) -> float | None:
        """When time alone asks for a cycle."""
        times = [*self._reactivations.values(), *(at for at, _ in self._backoffs[:1])]
        return min(times, default=None)

    @property
    def ready(self) -> bool:
        """Whether a cycle now could decide something new."""
        return bool(self._dirty)

    def _touch(self, queue: str) -> None:
        rules = self._world.rules
        if self._world.topologies or rules.block_admission:  # these tie the trees together
            self._dirty |= {self.snapshot.tree.root(name) for name in self._world.queues}
        else:
            self._dirty.add(self.snapshot.tree.root(queue))

    async def _on_time(self, now: float) -> None:
        for root in [root for root, at in self._reactivations.items() if at <= now]:
            del self._reactivations[root]
            await self._reactivate(root)
        while self._backoffs and self._backoffs[0][0] <= now:
            _, uid = heapq.heappop(self._backoffs)
            item = self.items.get(uid)
            if item is not None and item.not_before <= now:
                await self._index.enqueue(_in_line(item, self._line_of(item)))
                self._touch(item.cluster_queue)

    async def _reactivate(self, root: str) -> None:
        tree = self.snapshot.tree
        names = [name for name in self._lines if tree.root(name) == root]
        parked = []
        for name in names:
            line = self._lines[name]
            line.blocked.clear()
            if line.parked:
                parked += list(line.lines)
                line.parked.clear()
        if parked:
            await self._index.reactivate(sorted(parked))
        self._dirty.add(root)

    # Cycles

    async def cycle(self, now: float, place: Place | None = None) -> list[Decision]:
        """Try the first of every queue in which something changed since the last cycle.

        Admitted workloads are charged and out of the queues when this returns; whoever cannot
        carry an admission out releases and enqueues it again. `ready` tells whether to go on.
        """
        await self._on_time(now)
        self.cycles += 1
        number, tree = self.cycles, self.snapshot.tree
        roots, self._dirty = self._dirty, set()
        heads = []
        for name in sorted(self._world.queues):
            if tree.root(name) in roots and self._active(name):
                head = await self._head(name)
                if head is not None:
                    heads.append(head)
        tried = {item.uid: self._resumed(item) for item in heads}
        decisions = run_cycle(heads, self.snapshot, place, tried)
        for decision in decisions:
            if await self._apply(decision, number):
                self._touch(decision.item.cluster_queue)
        return decisions

    def _active(self, name: str) -> bool:
        queue = self._world.queues[name]
        if queue.stop is not StopPolicy.NONE or name in self.snapshot.tree.cyclic:
            return False
        flavors = self._world.flavors
        return all(f.flavor in flavors for group in queue.groups for f in group.flavors)

    async def _head(self, name: str) -> Pending | None:
        line = self._lines[name]
        if line.sticky and not self._set_aside(line, line.sticky):
            return self.items[line.sticky]
        heads = []
        for index_queue in line.lines:
            found = await self._index.heads(index_queue, 1, line.blocked)
            heads += [item for entry in found if (item := await self._known(entry))]
        if len(heads) > 1:
            usages = self.snapshot.usages
            heads.sort(key=lambda i: (usages.get((i.namespace, i.local_queue), 0.0), member(i)))
        return heads[0] if heads else None

    def _set_aside(self, line: _Line, uid: str) -> bool:
        return uid in line.parked or self._shapes.get(uid) in line.blocked

    async def _known(self, entry: Pending) -> Pending | None:
        """The workload of an index entry; one that is not known to wait is dropped."""
        item = self.items.get(entry.uid)
        if item is None or item.generation != entry.generation:
            await self._index.drop(entry.uid)
            return None
        return item

    def _resumed(self, item: Pending) -> Tried:
        """Where its search for flavors goes on.

        Kueue's rule: an older search is void once quota has changed in the queue.
        """
        last = self._searches.get(item.uid)
        if last is None:
            return ()
        old = last.cycle < self.cycles - 1
        if old and self._lines[item.cluster_queue].generation > last.generation:
            return ()
        return last.tried

    async def _apply(self, decision: Decision, cycle: int) -> bool:
        """Do to the queues what a decision asks for; whether that changes what comes next."""
        item = decision.item
        line = self._lines[item.cluster_queue]
        if isinstance(decision, Fit):
            return await self._admit(decision)
        before = self._searches.get(item.uid)
        if isinstance(decision, Preempt):
            self._searches.pop(item.uid, None)
            news = self._stick(line, item)
            return news or any(not victim.holder.evicted for victim in decision.victims)
        self._note_search(item, decision.tried, cycle)
        after = self._searches.get(item.uid)
        moved = (after.tried if after else ()) != (before.tried if before else ())
        if decision.requeue is Requeue.PENDING_PREEMPTION:
            return self._stick(line, item) or moved
        if self._stays(decision):
            return moved
        if decision.requeue in _FOR_THE_SHAPE and decision.retry_at is None:
            line.blocked[self._shapes[item.uid]] = decision
        else:
            line.parked.add(item.uid)
            await self._index.park(item.uid, item.generation)
        return True

    def _note_search(self, item: Pending, tried: Tried, cycle: int) -> None:
        if tried:
            generation = self._lines[item.cluster_queue].generation
            self._searches[item.uid] = _Search(tried, cycle, generation)
        else:
            self._searches.pop(item.uid, None)

    def _stays(self, wait: Wait) -> bool:
        """Whether a workload goes back to the front instead of being parked."""
        queue = self._world.queues.get(wait.item.cluster_queue)
        if queue is not None and queue.strategy is QueueingStrategy.STRICT_FIFO:
            return wait.requeue is not Requeue.NAMESPACE_MISMATCH
        if wait.requeue in _AT_ONCE:
            return True
        return any(index != -1 for tried in wait.tried for index in tried.values())

    def _stick(self, line: _Line, item: Pending) -> bool:
        """Keep the place at the front for a workload whose victims are stopping."""
        queue = self._world.queues[item.cluster_queue]
        if queue.strategy is QueueingStrategy.STRICT_FIFO or line.sticky == item.uid:
            return False
        line.sticky = item.uid
        return True

    async def _admit(self, fit: Fit) -> bool:
        item = fit.item
        if not await self._index.claim(item.uid, item.generation):
            return True
        if self.items.get(item.uid) is item:
            self._left(item.uid)
        self.hold(
            Holder(
                uid=item.uid,
                namespace=item.namespace,
                name=item.name,
                local_queue=item.local_queue,
                priority=item.priority,
                created=item.created,
                admission=fit.admission,
                usage=fit.admission.usage(),
                preemptible=item.preemptible,
                pods_ready=not self._world.rules.block_admission,
            )
        )
        return True


def _in_line(item: Pending, line: str) -> Pending:
    return item if line == item.cluster_queue else replace(item, cluster_queue=line)


def _changed_queues(before: World, after: World) -> set[str]:
    """The queues whose workloads may be decided on differently now."""
    flavors = {
        name
        for name in before.flavors.keys() | after.flavors.keys()
        if before.flavors.get(name) != after.flavors.get(name)
    }
    everything = before.namespaces != after.namespaces or before.rules != after.rules
    changed = set()
    for name, queue in after.queues.items():
        used = {f.flavor for group in queue.groups for f in group.flavors}
        if everything or used & flavors or before.queues.get(name) != queue:
            changed.add(name)
    cohorts_before = {cohort.name: cohort for cohort in before.cohorts}
    cohorts_after = {cohort.name: cohort for cohort in after.cohorts}
    moved = {
        name
        for name in cohorts_before.keys() | cohorts_after.keys()
        if cohorts_before.get(name) != cohorts_after.get(name)
    }
    if moved:
        trees = [QuotaTree(w.queues.values(), w.cohorts) for w in (before, after)]
        for tree in trees:
            roots = {f"cohort/{node.root.name}" for name in moved if (node := tree.cohort(name))}
            changed |= {name for name in after.queues if tree.root(name) in roots}
    return changed
