"""Queues, quota and cycles together: what is tried when, and what a decision does to the queues.

Rules: Kueue's queue manager. The first of every queue is tried; what does not fit is parked, and
all of its shape with it, until something in its cohort tree changes. Nothing here reads a clock or
talks to anything but the pending index; decisions are carried out by the caller.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from federation.core.assignment import Tried
from federation.core.cycle import Decision, Fit, Place, Preempt, Requeue, Wait, run_cycle
from federation.core.matching import selects
from federation.core.policies import QueueingStrategy, Rules, StopPolicy
from federation.core.queueing import Entry, PendingIndex, entry, shape_of
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
    """The queue objects. `namespaces` are labels by name, `topologies` by flavor, `inactive` the
    queues that admit nothing for a reason that cannot be seen here (their checks are not there).
    """

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    cohorts: tuple[Cohort, ...] = ()
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    topologies: Mapping[str, FlavorTopology] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    inactive: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Search:
    """Where a search for flavors stopped, in which cycle, and how often quota had changed then.

    `starts` are where searches started since `events` was counted: to start there again would end
    the same way.
    """

    tried: Tried
    cycle: int
    generation: int
    events: int = 0
    starts: frozenset[object] = frozenset()


@dataclass(slots=True)
class _Line:
    """What is known of one ClusterQueue beside the index.

    `blocked` are shapes that do not fit now, `aside` the index queues in which something is set
    aside, `sticky` the workload that waits for its victims, `lines` the index queues it consists of
    with the number of workloads that came in there.
    """

    blocked: dict[str, Wait] = field(default_factory=dict)
    parked: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    sticky: str = ""
    generation: int = 0
    lines: dict[str, int] = field(default_factory=dict)

    def forget(self) -> None:
        """Nothing is set aside any more."""
        self.blocked.clear()
        self.parked.clear()
        self.aside.clear()


class Scheduler:
    """One per shard of queues. Times are seconds since the epoch, on the caller's clock."""

    def __init__(self, index: PendingIndex, reactivation_s: float = REACTIVATION_S) -> None:
        self.items: dict[str, Pending] = {}
        """All that waits, by UID."""
        self.cycles = 0
        self.snapshot = Snapshot({}, {}, {}, QuotaTree(()))
        self._index, self._delay = index, reactivation_s
        self._world = World()
        self._trees: dict[str, list[str]] = {}
        """The queues of each tree that take part in cycles."""
        self._holders: dict[str, dict[str, Holder]] = {}
        self._queue_of: dict[str, str] = {}
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self._searches: dict[str, _Search] = {}
        self._members: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._events = 0
        """How often something happened that asks for a cycle."""
        self._reactivations: dict[str, float] = {}
        self._alarms: list[tuple[float, str]] = []

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
        self._trees = {}
        for name in sorted(world.queues):
            if self._active(name):
                self._trees.setdefault(tree.root(name), []).append(name)
        self._line_up({n for n in world.queues if _lines_moved(before, world, n)}, now)
        changed = _changed_queues(before, world)
        moved = {
            name
            for name in world.queues.keys() | before.queues.keys()
            if old_tree.root(name) != tree.root(name)
        }
        left = {old_tree.root(name) for name in moved}  # where they no longer take anything
        changed |= moved | {name for name in world.queues if old_tree.root(name) in left}
        roots = {tree.root(name) for name in changed}
        for name in world.queues:
            if tree.root(name) in roots:
                self._lines[name].generation += 1
        for name in sorted(changed):
            self.wake(name, now)
        self._happened({tree.root(name) for name in world.queues})

    def hold(self, holder: Holder) -> None:
        """Charge a workload, or note what changed about one that is charged.

        A negative amount counts nothing: it cannot make room for others.
        """
        if any(amount < 0 for amount in holder.usage.values()):
            usage = {fr: max(0, amount) for fr, amount in holder.usage.items()}
            holder = replace(holder, usage=usage)
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
        if uid in self.items:
            self._again(self.items[uid], now)

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
        self.put(item, now)

    async def drop(self, uid: str, now: float) -> None:
        """A workload does not wait any more, for another reason than its admission."""
        self.take_out(uid, now)

    def put(self, item: Pending, now: float) -> None:
        """Make a workload wait, or take over what changed about one that waits."""
        uid, queue = item.uid, self._lines[item.cluster_queue]
        known = self.items.get(uid)
        if known == item:
            return
        sticks, search, before = queue.sticky == uid, self._searches.get(uid), self._shape(uid)
        if known is not None:
            self._left(uid)
            self._index.drop(uid)
        found, line = entry(item), self._line_of(item)
        self.items[uid], self._members[uid] = item, found.member
        queue.lines[line] = queue.lines.get(line, 0) + 1
        if item.not_before > now:
            heapq.heappush(self._alarms, (item.not_before, uid))
            return
        if sticks:
            queue.sticky = uid
        if search is not None and before == found.shape:
            self._searches[uid] = search
        self._index.enqueue(line, found)
        self._touch(item.cluster_queue)

    def take_out(self, uid: str, now: float) -> None:
        """A workload does not wait any more, for another reason than its admission."""
        item = self.items.get(uid)
        if item is None:
            return
        self._left(uid)
        self._index.drop(uid)
        self._touch(item.cluster_queue)
        self.wake(item.cluster_queue, now)

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
        self._members.pop(uid, None)

    def _line_of(self, item: Pending) -> str:
        """Where it stands in the index: LocalQueues that take turns have a line each."""
        queue = self._world.queues.get(item.cluster_queue)
        if queue is None or not queue.usage_based:
            return item.cluster_queue
        return f"{item.cluster_queue}|{item.namespace}/{item.local_queue}"

    def _line_up(self, moved: set[str], now: float) -> None:
        """LocalQueues of these begin, or cease, to take turns: their workloads change lines."""
        for name in moved & self._lines.keys():
            line = self._lines[name]
            self._index.reactivate(sorted(line.aside))
            line.forget()
            line.lines.clear()
        for item in self.items.values() if moved else ():
            if item.cluster_queue in moved:
                name, lines = self._line_of(item), self._lines[item.cluster_queue].lines
                lines[name] = lines.get(name, 0) + 1
                self._index.drop(item.uid)
                if item.not_before <= now:
                    self._index.enqueue(name, entry(item))

    def blocked(self, item: Pending) -> Wait | None:
        """The answer that another workload of the same shape got, if it still holds."""
        return self._lines[item.cluster_queue].blocked.get(self._shape(item.uid))

    def _shape(self, uid: str) -> str:
        return shape_of(self._members.get(uid, ""))

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
        times = [*self._reactivations.values(), *(at for at, _ in self._alarms[:1])]
        return min(times, default=None)

    @property
    def ready(self) -> bool:
        """Whether a cycle now could decide something new."""
        return bool(self._dirty)

    def _happened(self, roots: Iterable[str]) -> None:
        self._events += 1
        self._dirty.update(roots)

    def _touch(self, queue: str) -> None:
        self._events += 1
        self._look_at(queue)

    def _look_at(self, queue: str) -> None:
        rules = self._world.rules
        if self._world.topologies or rules.block_admission:  # these tie the trees together
            self._dirty |= {self.snapshot.tree.root(name) for name in self._world.queues}
        else:
            self._dirty.add(self.snapshot.tree.root(queue))

    def _on_time(self, now: float) -> None:
        for root in [root for root, at in self._reactivations.items() if at <= now]:
            del self._reactivations[root]
            self._reactivate(root)
        while self._alarms and self._alarms[0][0] <= now:
            _, uid = heapq.heappop(self._alarms)
            if uid in self.items:
                self._again(self.items[uid], now)

    def _again(self, item: Pending, now: float) -> None:
        """Look at a workload whose time has come, parked or not."""
        if item.not_before > now:
            return
        line = self._lines[item.cluster_queue]
        if item.uid in line.parked:
            line.parked.discard(item.uid)
            self._index.drop(item.uid)
        self._index.enqueue(self._line_of(item), entry(item))
        self._touch(item.cluster_queue)

    def _reactivate(self, root: str) -> None:
        aside, unselected = [], []
        for name in self._trees.get(root, ()):
            line = self._lines[name]
            if line.aside:
                aside += sorted(line.aside)
                unselected += [uid for uid in sorted(line.parked) if not self._selected(uid)]
                line.forget()
        if aside:
            self._index.reactivate(aside)
        for uid in unselected:
            self._park(self.items[uid])
        self._happened({root})

    def _selected(self, uid: str) -> bool:
        """Whether its queue takes workloads of its namespace: nothing else helps it."""
        item = self.items[uid]
        queue, labels = self._world.queues[item.cluster_queue], self._world.namespaces
        return selects(queue.namespace_selector, labels.get(item.namespace, {}))

    def _park(self, item: Pending) -> None:
        line = self._lines[item.cluster_queue]
        line.parked.add(item.uid)
        line.aside.add(self._line_of(item))
        self._index.park(item.uid, item.generation)

    async def refill(self, now: float) -> None:
        """Fill the index again with all that waits, after it was lost; all of it is tried again.

        Raises IndexUnavailable when that is not possible now.
        """
        for line in self._lines.values():
            line.forget()
        self._happened(self._trees)
        await self._index.fill(
            (self._line_of(item), entry(item))
            for item in self.items.values()
            if item.not_before <= now
        )

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """UIDs of the first that wait in a ClusterQueue, in order.

        Where LocalQueues take turns, those of the one that used least come first.
        """
        usages = self.snapshot.usages
        line = self._lines[queue] if queue in self._lines else _Line()
        found: list[str] = [line.sticky] if line.sticky else []
        for name in sorted(line.lines, key=lambda name: (usages.get(_turn(name), 0.0), name)):
            found += [uid for uid in await self._index.waiting(name, limit) if uid != line.sticky]
        return found[:limit]

    # Cycles

    async def cycle(self, now: float, place: Place | None = None) -> list[Decision]:
        """Try the first of every queue in which something changed since the last cycle.

        Admitted workloads are charged and out of the queues when this returns; whoever cannot
        carry an admission out releases and enqueues it again. `ready` tells whether to go on.

        Raises IndexLost or IndexUnavailable: nothing was decided then, and `refill` has to follow.
        Everything but a second cycle may be called while one waits for the index.
        """
        self._on_time(now)
        self.cycles += 1
        roots, self._dirty = self._dirty, set()
        names = [name for root in sorted(roots) for name in self._trees.get(root, ())]
        heads = await self._heads(names)
        tried = {item.uid: self._resumed(item) for item in heads}
        decisions = await self._claimed(run_cycle(heads, self.snapshot, place, tried))
        for decision in decisions:
            if self._apply(decision, tried[decision.item.uid]):
                self._touch(decision.item.cluster_queue)
        return decisions

    async def _claimed(self, decisions: list[Decision]) -> list[Decision]:
        """The decisions that still are about what waits, with what is admitted out of the index."""
        fits = {d.item.uid: d.item.generation for d in decisions if isinstance(d, Fit)}
        claimed = await self._index.claim(fits) if fits else frozenset()
        kept = []
        for decision in decisions:
            item = decision.item
            if self.items.get(item.uid) is not item:
                self._touch(item.cluster_queue)  # it left, or changed, meanwhile
            elif item.uid in fits and item.uid not in claimed:
                self._index.drop(item.uid)  # the index had another idea of it
                self._index.enqueue(self._line_of(item), entry(item))
                self._touch(item.cluster_queue)
            else:
                kept.append(decision)
        return kept

    def _active(self, name: str) -> bool:
        queue = self._world.queues[name]
        if queue.stop is not StopPolicy.NONE or queue.terminating:
            return False
        if name in self.snapshot.tree.cyclic or name in self._world.inactive:
            return False
        flavors = self._world.flavors
        return all(f.flavor in flavors for group in queue.groups for f in group.flavors)

    async def _heads(self, names: list[str]) -> list[Pending]:
        """Whom to try: the first of each queue, as far as it has one."""
        lines = {name: self._lines[name] for name in names}
        wanted = [
            index_queue
            for line in lines.values()
            if not self._sticks(line) or len(line.lines) > 1
            for index_queue in line.lines
        ]
        found = await self._index.heads(wanted) if wanted else {}
        heads = []
        for name, line in lines.items():
            entries = [found[index_queue] for index_queue in line.lines if index_queue in found]
            known = [item for e in entries if (item := self._known(name, e)) is not None]
            if self._sticks(line):
                known.append(self.items[line.sticky])
            if known:
                heads.append(min(known, key=self._turn) if len(known) > 1 else known[0])
        return heads

    def _sticks(self, line: _Line) -> bool:
        """Whether a workload that waits for its victims is at the front, and not set aside."""
        uid = line.sticky
        if not uid or uid in line.parked or uid in self._queue_of:
            return False
        return self._shape(uid) not in line.blocked

    def _turn(self, item: Pending) -> tuple[float, bool, str]:
        """The LocalQueue that used least goes first, then who waits for its victims."""
        used = self.snapshot.usages.get((item.namespace, item.local_queue), 0.0)
        sticky = self._lines[item.cluster_queue].sticky == item.uid
        return used, not sticky, self._members[item.uid]

    def _known(self, queue: str, found: Entry) -> Pending | None:
        """The workload of an index entry; what came in while the index was read is seen next."""
        item = self.items.get(found.uid)
        if item is None or item.generation != found.generation or item.cluster_queue != queue:
            if item is None:
                self._index.drop(found.uid)
            self._touch(queue)
            return None
        if item.uid in self._queue_of:  # what holds quota waits for no more until it is released
            self._park(item)
            self._touch(queue)
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

    def _apply(self, decision: Decision, resumed: Tried) -> bool:
        """Do to the queues what a decision asks for; whether that changes what comes next.

        `resumed` is where its search for flavors went on.
        """
        item = decision.item
        line = self._lines[item.cluster_queue]
        if isinstance(decision, Fit):
            self._admit(decision)
            return True
        if isinstance(decision, Preempt):
            self._searches.pop(item.uid, None)
            news = self._stick(line, item)
            return news or any(not victim.holder.evicted for victim in decision.victims)
        if self._note_search(item, resumed, decision.tried):
            self._look_at(item.cluster_queue)
        if decision.requeue is Requeue.PENDING_PREEMPTION:
            return self._stick(line, item)
        if decision.retry_at is not None:
            heapq.heappush(self._alarms, (decision.retry_at, item.uid))
        if self._stays(decision):
            return False
        if decision.requeue in _FOR_THE_SHAPE and decision.retry_at is None:
            shape = self._shape(item.uid)
            line.blocked[shape] = decision
            self._index.block(self._line_of(item), shape)
            line.aside.add(self._line_of(item))
        else:
            self._park(item)
        return True

    def _note_search(self, item: Pending, resumed: Tried, tried: Tried) -> bool:
        """Whether the next search starts where none did since something happened."""
        last = self._searches.get(item.uid)
        generation = self._lines[item.cluster_queue].generation
        starts = frozenset({_start(resumed)})
        if last is not None and last.events == self._events:
            starts |= last.starts
        self._searches[item.uid] = _Search(tried, self.cycles, generation, self._events, starts)
        return _start(tried) not in starts

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

    def _admit(self, fit: Fit) -> None:
        item = fit.item
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


def _start(tried: Tried) -> object:
    """Where a search behind `tried` starts; empty if at the first flavor of everything."""
    ahead = (
        (index, resource, at)
        for index, known in enumerate(tried)
        for resource, at in known.items()
        if at != -1
    )
    return tuple(sorted(ahead))


def _lines_moved(before: World, after: World, name: str) -> bool:
    known = before.queues.get(name)
    return after.queues[name].usage_based is not (known is not None and known.usage_based)


def _turn(line: str) -> tuple[str, str]:
    """Namespace and name of the LocalQueue of a line."""
    namespace, _, name = line.partition("|")[2].partition("/")
    return namespace, name


def _changed_queues(before: World, after: World) -> set[str]:
    """The queues whose workloads may be decided on differently now."""
    flavors = {
        name
        for name in before.flavors.keys() | after.flavors.keys()
        if before.flavors.get(name) != after.flavors.get(name)
    }
    everything = before.namespaces != after.namespaces or before.rules != after.rules
    changed = set((before.inactive ^ after.inactive) & after.queues.keys())
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
