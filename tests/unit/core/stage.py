"""Where admission is tried out: a state to decide on, and a scheduler with time that passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from federation.core.assignment import Tried
from federation.core.cycle import Decision, Fit, Place, Preempt, Wait, run_cycle
from federation.core.making_room import Sites
from federation.core.nomination import nominate
from federation.core.policies import FairStrategy, FairUsage, Rules
from federation.core.queueing import MemoryIndex, PendingIndex
from federation.core.quota import QuotaTree
from federation.core.scheduler import Scheduler
from federation.core.snapshot import Snapshot
from federation.core.types import (
    Admission,
    ClusterQueue,
    Cohort,
    FlavorResource,
    Holder,
    LocalQueue,
    Pending,
    PodSet,
    ResourceFlavor,
)
from federation.core.world import World

FAIR = Rules(fair_strategies=tuple(FairStrategy))
"""Fair sharing with both strategies, in their usual order."""

HALVES = FairUsage(half_life_s=300.0, sampling_s=300.0)
"""A sample every half-life: each halves the past, and a penalty is half of what is asked for."""

Thing = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | Holder


def world(
    *things: Thing,
    rules: Rules | None = None,
    lost: Iterable[str] = (),
    fair_usage: FairUsage | None = HALVES,
) -> World:
    """The queue objects among `things`. Flavors that queues name exist, but for those `lost`."""
    queues = {thing.name: thing for thing in things if isinstance(thing, ClusterQueue)}
    named = {f.flavor for q in queues.values() for group in q.groups for f in group.flavors}
    flavors = {name: ResourceFlavor(name) for name in named - set(lost)}
    flavors |= {thing.name: thing for thing in things if isinstance(thing, ResourceFlavor)}
    cohorts = tuple(thing for thing in things if isinstance(thing, Cohort))
    return World(
        queues,
        cohorts,
        flavors,
        {"team": {"kind": "prod"}},
        rules=rules or Rules(),
        fair_usage=fair_usage,
        local_queues={(q.namespace, q.name): q for q in things if isinstance(q, LocalQueue)},
    )


def state(
    *things: Thing, usages: Mapping[tuple[str, str], float] | None = None, **more: Any
) -> Snapshot:
    """A state with these objects, in which the holders among them are charged."""
    given = world(*things, **more)
    tree = QuotaTree(given.queues.values(), given.cohorts)
    holders: dict[str, dict[str, Holder]] = {}
    for thing in things:
        if isinstance(thing, Holder):
            tree.add(thing.cluster_queue, thing.usage)
            holders.setdefault(thing.cluster_queue, {})[thing.uid] = thing
    return Snapshot(
        given.queues,
        given.flavors,
        given.namespaces,
        tree,
        holders,
        given.rules,
        usages=usages or {},
    )


def told(decision: Decision) -> str:
    """A decision in short: `admitted`, `preempts v w`, or why it is requeued."""
    match decision:
        case Fit():
            return "admitted"
        case Preempt():
            return " ".join(["preempts", *sorted(v.holder.uid for v in decision.victims)])
        case Wait():
            return str(decision.requeue)


def decide(
    snapshot: Snapshot, *heads: Pending, tried: Mapping[str, Tried] | None = None
) -> dict[str, str]:
    """One cycle: what is decided on each head, in the order in which it is. Leaves no trace."""
    before = charged(snapshot.tree)
    decisions = run_cycle(heads, snapshot, None, tried)
    assert charged(snapshot.tree) == before, "a cycle leaves the state as it was"
    return {decision.item.uid: told(decision) for decision in decisions}


def the_wait(snapshot: Snapshot, *heads: Pending) -> Wait:
    """The decision on the first of `heads`, which has to wait."""
    (wait,) = [d for d in run_cycle(heads, snapshot) if d.item is heads[0]]
    assert isinstance(wait, Wait), wait
    return wait


def charged(tree: QuotaTree) -> dict[str, dict[FlavorResource, int]]:
    """Usage at every node that has some, cohorts included."""
    nodes = {f"queue {n.name}": n for n in tree.queues.values()}
    for leaf in tree.queues.values():
        nodes |= {f"cohort {node.name}": node for node in leaf.ancestors()}
    used = {name: {fr: n for fr, n in node.usage.items() if n} for name, node in nodes.items()}
    return {name: usage for name, usage in used.items() if usage}


def victims(snapshot: Snapshot, what: Pending) -> dict[str, str]:
    """Whom a workload would evict, and why. Leaves no trace."""
    before = charged(snapshot.tree)
    entry = nominate(what, snapshot)
    assert charged(snapshot.tree) == before, "nomination leaves the state as it was"
    return {victim.holder.uid: str(victim.reason) for victim in entry.victims}


@dataclass
class Stage:
    """A scheduler whose decisions are carried out: victims stop when the test says so.

    Times are seconds. `log` tells what happened, like `admit a`, `evict v InClusterQueue`.
    """

    scheduler: Scheduler
    now: float = 2000.0

    def __init__(
        self,
        *things: Thing,
        index: PendingIndex | None = None,
        place: Place | None = None,
        depth: int = 1,
        sites: Sites | None = None,
        **more: Any,
    ) -> None:
        self.scheduler = Scheduler(index if index is not None else MemoryIndex(), depth=depth)
        self.log: list[str] = []
        self.cohorts: tuple[Cohort, ...] = ()
        self.waits: dict[str, Wait] = {}
        self.known: dict[str, Pending] = {}
        self.admissions: dict[str, Admission] = {}
        self._place, self._sites = place, sites
        self.configure(*things, **more)
        for thing in things:
            if isinstance(thing, Holder):
                self.hold(thing)

    def configure(self, *things: Thing, **more: Any) -> None:
        """These are the queue objects now."""
        given = world(*things, **more)
        self.cohorts = given.cohorts
        self.scheduler.configure(given, self.now)

    def hold(self, holder: Holder) -> None:
        """A workload that was admitted before."""
        self.scheduler.hold(holder)
        requests = {fr.resource: amount for fr, amount in holder.usage.items()}
        self.known[holder.uid] = Pending(
            uid=holder.uid,
            namespace=holder.namespace,
            name=holder.name,
            local_queue=holder.local_queue,
            cluster_queue=holder.cluster_queue,
            priority=holder.priority,
            created=holder.created,
            pod_sets=(PodSet("main", 1, requests),),
        )

    def uses(self, **usages: float) -> None:
        """What LocalQueues of namespace `team` used lately."""
        given = {("team", name): usage for name, usage in usages.items()}
        self.scheduler.snapshot = replace(self.scheduler.snapshot, usages=given)

    async def submit(self, *items: Pending) -> None:
        """Workloads come in, or change."""
        for item in items:
            self.known[item.uid] = item
            self.scheduler.put(item, self.now)

    async def cycle(self) -> dict[str, str]:
        """One cycle, carried out."""
        decisions = await self.scheduler.cycle(self.now, self._place, self._sites)
        for decision in decisions:
            self._carry_out(decision)
        return {decision.item.uid: told(decision) for decision in decisions}

    def _carry_out(self, decision: Decision) -> None:
        uid = decision.item.uid
        match decision:
            case Fit():
                self.log.append(f"admit {uid}")
                self.admissions[uid] = decision.admission
                holder = self.scheduler.holder(uid)
                assert holder is not None
                self.scheduler.hold(replace(holder, reserved=self.now, admitted=True))
            case Wait():
                self.waits[uid] = decision
            case Preempt():
                for holder, reason in decision.victims:
                    if not holder.evicted:
                        self.log.append(f"evict {holder.uid} {reason}")
                        self.scheduler.hold(replace(holder, evicted=True))

    async def rest(self) -> None:
        """Cycles until nothing changes; no time passes."""
        for _ in range(200):
            if not self.scheduler.ready:
                return
            await self.cycle()
        raise AssertionError("the scheduler does not come to rest")

    async def later(self, seconds: float = 1.0) -> None:
        """Time passes, then cycles until nothing changes."""
        self.now += seconds
        await self.cycle()
        await self.rest()

    async def stopped(self, *uids: str) -> None:
        """Evicted workloads have stopped: their quota is free, and they queue again."""
        for uid in uids:
            self.scheduler.release(uid, self.now)
            self.scheduler.put(self.known[uid], self.now)

    async def finish(self, *uids: str) -> None:
        """Workloads end, or are deleted."""
        for uid in uids:
            self.scheduler.take_out(uid, self.now)
            self.scheduler.release(uid, self.now)

    @property
    def running(self) -> list[str]:
        """Workloads that hold quota and are not evicted."""
        found = [holder for uid in self.known if (holder := self.scheduler.holder(uid))]
        return sorted(holder.uid for holder in found if not holder.evicted)

    @property
    def evicted(self) -> list[str]:
        """Workloads that are being stopped."""
        found = [holder for uid in self.known if (holder := self.scheduler.holder(uid))]
        return sorted(holder.uid for holder in found if holder.evicted)

    @property
    def waiting(self) -> list[str]:
        """Workloads in the queues."""
        return sorted(self.scheduler.items)

    def wait(self, uid: str) -> Wait:
        """The last answer a workload got, itself or by its shape."""
        known = self.scheduler.blocked(self.known[uid])
        return known or self.waits[uid]
