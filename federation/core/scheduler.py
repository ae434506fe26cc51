"""Queues, quota and cycles together: what is tried when, and what a decision does to the queues.

Rules: Kueue's queue manager. The first of every queue is tried; what does not fit is parked, and
all of its shape with it, until something in its cohort tree changes. Nothing here reads a clock or
talks to anything but the pending index; decisions are carried out by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from federation.core.alarms import Alarms
from federation.core.assignment import Tried
from federation.core.charges import Charges, holder_of, not_negative
from federation.core.cycle import Decision, Fit, Place, Preempt, Requeue, Wait, run_cycle
from federation.core.lines import Lines
from federation.core.making_room import Sites
from federation.core.matching import selects
from federation.core.policies import QueueingStrategy, StopPolicy
from federation.core.queueing import PendingIndex
from federation.core.quota import QuotaTree
from federation.core.searches import Searches
from federation.core.snapshot import Snapshot
from federation.core.tries import Tries
from federation.core.turns import Turns
from federation.core.types import Holder, Pending
from federation.core.world import World, changed_queues, requoted_queues

REACTIVATION_S = 1.0
"""Parked workloads are tried again this long after the first event that may help them: what the
event was made for (a preemptor, an evicted workload) comes first."""

_AT_ONCE = frozenset({Requeue.FAILED_AFTER_NOMINATION, Requeue.PENDING_PREEMPTION})
_FOR_THE_SHAPE = frozenset(
    {Requeue.NO_FIT, Requeue.NO_CANDIDATES, Requeue.NO_CLUSTER, Requeue.NO_CARDS}
)


class _Made(NamedTuple):
    """A decision; where its search for flavors went on, and after so many events."""

    decision: Decision
    resumed: Tried
    events: int


class Scheduler:
    """One per shard of queues. Times are seconds since the epoch, on the caller's clock."""

    def __init__(
        self, index: PendingIndex, reactivation_s: float = REACTIVATION_S, depth: int = 1
    ) -> None:
        """`depth`: how many cycles may follow each other between two looks into the index, as long
        as all that they try is admitted.
        """
        self.cycles = 0
        self.turns = Turns()
        """What LocalQueues used, where they take turns."""
        self.snapshot = Snapshot({}, {}, {}, QuotaTree(()), usages=self.turns.usages)
        self._delay, self._depth = reactivation_s, depth
        self._world = World()
        self._trees: dict[str, list[str]] = {}
        """The queues of each tree that take part in cycles."""
        self._resting: dict[str, list[str]] = {}
        """Those that do not, as they are not active; of a cycle of cohorts none."""
        self._charges = Charges()
        self._tentative: set[str] = set()
        """Charged by the cycle under way, which has not got them from the index yet."""
        self._lines = Lines(index, self._charges.queue_of, self._touch)
        self.items = self._lines.items
        """All that waits, by UID."""
        self._searches = Searches()
        self._tries = Tries(self._stops)
        self._dirty: set[str] = set()
        self._events = 0
        """How often something happened that asks for a cycle."""
        self._alarms = Alarms()

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
            self._charges.by_queue,
            world.rules,
            world.topologies,
            self.snapshot.usages,
            delaying=world.delaying,
        )
        self._charges.count_all(self.snapshot)
        self._sort_queues()
        self.turns.configure(world, self._charges.by_queue)
        self._lines.configure({name: world.goes_by_usage(name) for name in world.queues}, now)
        moved = self._moved(before, old_tree)
        requoted = {tree.root(name) for name in requoted_queues(before, world) | moved}
        for name in world.queues:
            if tree.root(name) in requoted:
                self._searches.quota_changed(name)
        for name in sorted(changed_queues(before, world) | moved):
            self.wake(name, now)
        self._happened({tree.root(name) for name in world.queues})

    def _sort_queues(self) -> None:
        """Which queues take part in cycles, tree by tree, and which do not."""
        tree, self._trees, self._resting = self.snapshot.tree, {}, {}
        for name in sorted(self._world.queues):
            root = tree.root(name)
            if self._active(name):
                self._trees.setdefault(root, []).append(name)
                continue
            self.snapshot.inactive.add(name)
            if name not in tree.cyclic:
                self._resting.setdefault(root, []).append(name)

    def _moved(self, before: World, old_tree: QuotaTree) -> set[str]:
        """The queues that came to another tree, and those in the trees that they have left."""
        queues, tree = self._world.queues, self.snapshot.tree
        moved = {
            name
            for name in queues.keys() | before.queues.keys()
            if old_tree.root(name) != tree.root(name)
        }
        left = {old_tree.root(name) for name in moved}  # where they no longer take anything
        return moved | {name for name in queues if old_tree.root(name) in left}

    def hold(self, holder: Holder) -> None:
        """Charge a workload, or note what changed about one that is charged."""
        holder = not_negative(holder)
        self._tentative.discard(holder.uid)
        if self._charges.get(holder.uid) == holder:
            return
        self._charges.charge(holder, self.snapshot)
        self.turns.hold(holder)
        self._searches.quota_changed(holder.cluster_queue)
        self._touch(holder.cluster_queue)

    def release(self, uid: str, now: float) -> None:
        """A workload no longer holds its quota."""
        holder = self.holder(uid)
        if holder is None:
            return
        self._charges.uncharge(holder, self.snapshot)
        self.turns.release(uid)
        self._searches.quota_changed(holder.cluster_queue)
        self._touch(holder.cluster_queue)
        self.wake(holder.cluster_queue, now)
        if uid in self.items:
            self._again(self.items[uid], now)

    def holder(self, uid: str) -> Holder | None:
        """What a workload holds."""
        return None if uid in self._tentative else self._charges.get(uid)

    def _stops(self, uid: str) -> bool:
        """Whether it holds quota that it is about to give back."""
        holder = self.holder(uid)
        return holder is not None and holder.evicted

    # The queues

    def put(self, item: Pending, now: float) -> None:
        """Make a workload wait, or take over what changed about one that waits."""
        if self.items.get(item.uid) == item:
            return
        shape, ready = self._lines.shape(item.uid), item.not_before <= now
        self._lines.put(item, ready)
        if not ready or shape != self._lines.shape(item.uid):
            self._searches.forget(item.uid)
        if ready:
            self._touch(item.cluster_queue)
        else:
            self._alarms.workload(item.uid, item.not_before)

    def take_out(self, uid: str, now: float) -> None:
        """A workload does not wait any more, for another reason than its admission."""
        item = self.items.get(uid)
        if item is None:
            return
        self._lines.take_out(uid)
        self._searches.forget(uid)
        self._tries.forget(uid)
        self._touch(item.cluster_queue)
        self.wake(item.cluster_queue, now)

    def blocked(self, item: Pending) -> Wait | None:
        """The answer that another workload of the same shape got, if it still holds."""
        return self._lines.blocked(item)

    # Waking

    def wake(self, queue: str, now: float) -> None:
        """Something happened in the tree of a queue that may let parked workloads in."""
        tree = self.snapshot.tree
        if queue in self._world.queues and queue not in tree.cyclic:
            self._alarms.tree(tree.root(queue), now + self._delay)

    def wake_at_once(self, queue: str, now: float) -> None:
        """The same, for what nobody has a better claim to."""
        tree = self.snapshot.tree
        if queue in self._world.queues and queue not in tree.cyclic:
            self._alarms.tree_by(tree.root(queue), now)

    def wake_all(self, now: float) -> None:
        """Something happened that concerns every queue."""
        for queue in self._world.queues:
            self.wake(queue, now)

    def due(self) -> float | None:
        """When time alone asks for a cycle."""
        times = (self._alarms.due(), self.turns.due())
        return min((at for at in times if at is not None), default=None)

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
        for root in self._alarms.trees_due(now):
            self._reactivate(root)
        for uid in self._alarms.workloads_due(now):
            if uid in self.items:
                self._again(self.items[uid], now)
        for queue in sorted(self.turns.sample(now, self._charges.by_queue)):
            self._touch(queue)  # others may be first now

    def _again(self, item: Pending, now: float) -> None:
        """Look at a workload whose time has come, parked or not."""
        if item.not_before > now:
            return
        self._lines.bring_back(item)
        self._touch(item.cluster_queue)

    def _reactivate(self, root: str) -> None:
        names = [*self._trees.get(root, ()), *self._resting.get(root, ())]
        self._lines.reactivate(names, self._selected)
        self._happened({root})

    def _selected(self, item: Pending) -> bool:
        """Whether its queue takes workloads of its namespace: nothing else helps it."""
        queue, labels = self._world.queues[item.cluster_queue], self._world.namespaces
        return selects(queue.namespace_selector, labels.get(item.namespace, {}))

    async def refill(self, now: float) -> None:
        """Fill the index again with all that waits, after it was lost; all of it is tried again.

        Raises IndexUnavailable when that is not possible now.
        """
        self._happened(self._trees)
        await self._lines.refill(now)

    async def audit(self) -> None:
        """Look whether the index has all that waits. Raises IndexLost if not, and
        IndexUnavailable when that cannot be told now. As with cycles, one at a time.
        """
        await self._lines.audit()

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """UIDs of the first that wait in a ClusterQueue, in order.

        Where LocalQueues take turns, those of the one that used least come first.
        """
        return await self._lines.waiting(queue, limit, self.snapshot.usages)

    # Cycles

    async def cycle(
        self, now: float, place: Place | None = None, sites: Sites | None = None
    ) -> list[Decision]:
        """Try the first of every queue in which something changed since the last cycle. With
        `sites` nobody is evicted for a workload that none of the clusters takes then.

        Admitted workloads are charged and out of the queues when this returns; whoever cannot
        carry an admission out releases it and puts it back. `ready` tells whether to go on.

        Raises IndexLost or IndexUnavailable: nothing was decided then, and `refill` has to follow.
        Everything but a second cycle may be called while one waits for the index.
        """
        self._on_time(now)
        self.cycles += 1
        roots, self._dirty = self._dirty, set()
        names = [name for root in sorted(roots) for name in self._trees.get(root, ())]
        rounds = await self._lines.rounds(names, self.snapshot.usages, self._depth)
        try:
            found = self._run(rounds, now, place, sites)
            kept = set(map(id, await self._claimed([made.decision for made in found])))
            found = [made for made in found if id(made.decision) in kept]
            for made in found:
                self._tries.note(made.decision, now)
                if self._apply(made.decision, made.resumed, made.events):
                    self._touch(made.decision.item.cluster_queue)
        finally:
            self._give_back(now)
        return [made.decision for made in found]

    def _run(
        self, rounds: list[list[Pending]], now: float, place: Place | None, sites: Sites | None
    ) -> list[_Made]:
        """A cycle, and those that follow as long as they admit all that they try: what else would
        be decided may not hold any more when the index has been asked.
        """
        found: list[_Made] = []
        for number, heads in enumerate(rounds):
            cycle, events = self.cycles + (number > 0), self._events
            tried = {item.uid: self._searches.resumed(item, cycle) for item in heads}
            ground = self._tries.ground(tried, sites, now)
            decisions = run_cycle(heads, self.snapshot, place, tried, ground)
            fits = [made for made in decisions if isinstance(made, Fit)]
            if number and len(fits) < len(heads):
                break
            self.cycles = cycle
            # What a cycle itself changes, its searches have not seen.
            found += [_Made(made, tried[made.item.uid], events) for made in decisions]
            if len(fits) < len(heads) or number == len(rounds) - 1:
                break
            for fit in fits:
                self.hold(holder_of(fit, pods_ready=not self._world.rules.block_admission))
                self._tentative.add(fit.item.uid)
        return found

    def _give_back(self, now: float) -> None:
        """What the index did not give out is charged to nobody."""
        left, self._tentative = self._tentative, set()
        for uid in sorted(left):
            self.release(uid, now)

    async def _claimed(self, decisions: list[Decision]) -> list[Decision]:
        """The decisions that still are about what waits, with what is admitted out of the index."""
        fits = {d.item.uid: d.item for d in decisions if isinstance(d, Fit)}
        claimed = await self._lines.claim(fits.values())
        kept = []
        for decision in decisions:
            item = decision.item
            if self.items.get(item.uid) is not item:
                self._touch(item.cluster_queue)  # it left, or changed, meanwhile
            elif item.uid in fits and item.uid not in claimed:
                self._touch(item.cluster_queue)  # the index had another idea of it
            else:
                kept.append(decision)
        return kept

    def _active(self, name: str) -> bool:
        queue = self._world.queues[name]
        if queue.stop is not StopPolicy.NONE or queue.terminating:
            return False
        if name in self.snapshot.tree.cyclic or name in self._world.inactive:
            return False
        return self._world.flavors.keys() >= set(queue.flavor_names)

    def _apply(self, decision: Decision, resumed: Tried, events: int) -> bool:
        """Do to the queues what a decision asks for; whether that changes what comes next.

        `resumed` is where its search for flavors went on, after so many `events`.
        """
        item = decision.item
        if isinstance(decision, Fit):
            self._admit(decision)
            return True
        # While its victims stop, a preemptor looks at all flavors again.
        tried = () if isinstance(decision, Preempt) else decision.tried
        if self._searches.note(item, resumed, tried, self.cycles, events):
            self._look_at(item.cluster_queue)
        if isinstance(decision, Preempt):
            news = self._stick(item)
            return news or any(not victim.holder.evicted for victim in decision.victims)
        if decision.requeue is Requeue.PENDING_PREEMPTION:
            return self._stick(item)
        if decision.retry_at is not None:
            self._alarms.workload(item.uid, decision.retry_at)
        if self._stays(decision):
            return False
        if decision.requeue in _FOR_THE_SHAPE and decision.retry_at is None:
            self._lines.block(decision)
        else:
            self._lines.park(item)
        return True

    def _stays(self, wait: Wait) -> bool:
        """Whether a workload goes back to the front instead of being parked."""
        queue = self._world.queues.get(wait.item.cluster_queue)
        if queue is not None and queue.strategy is QueueingStrategy.STRICT_FIFO:
            return wait.requeue is not Requeue.NAMESPACE_MISMATCH
        if wait.requeue in _AT_ONCE:
            return True
        return any(index != -1 for tried in wait.tried for index in tried.values())

    def _stick(self, item: Pending) -> bool:
        """Keep the place at the front for a workload whose victims are stopping."""
        queue = self._world.queues.get(item.cluster_queue)  # it may have been deleted meanwhile
        if queue is None or queue.strategy is QueueingStrategy.STRICT_FIFO:
            return False
        return self._lines.stick(item)

    def _admit(self, fit: Fit) -> None:
        item = fit.item
        self._lines.admitted(item.uid)
        self._searches.forget(item.uid)
        self.hold(holder_of(fit, pods_ready=not self._world.rules.block_admission))
