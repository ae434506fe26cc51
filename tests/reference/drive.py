"""One scenario through the core.

Steps are `[what, …]`; numbers choose among the workloads that a step can be done to, in the order
of their UIDs, and a step without any is passed over:

    arrive job           cycle                         wait seconds
    finish n             a workload that holds quota ends
    evict n              … is to be stopped, for a reason outside the queue
    stop n seconds       one that was to be stopped has stopped; it waits again after a backoff
    written n            the time of its reservation is known now (jobs with `late`)
    drop n               a waiting workload is deleted
    update n {fields}    … is changed
    edit kind name data  an object is created, changed, or gone (null)

At the end everything is left to come to rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from federation.core.cycle import Decision, Fit, Preempt, Wait
from federation.core.queueing import MemoryIndex
from federation.core.scheduler import Scheduler
from federation.core.types import Admission, Holder, Pending
from federation.core.world import World
from tests.reference import scenario as read
from tests.reference.quota import Books, Charge, Node, Tree
from tests.reference.scenario import Json

CYCLE_S = 0.01
REST_ROUNDS = 80
SPIN_ROUNDS = 25
"""So many cycles may follow each other without any of them changing something."""


class Failure(AssertionError):
    """What must not happen. `kind` is in what, for the search of a smaller scenario."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Drive:
    """The state of a scenario that is being run. `log` has all decisions as text."""

    def __init__(self, scenario: Json) -> None:
        self.scenario = scenario
        self.objects: dict[str, Json] = {
            kind: dict(scenario.get(kind, {})) for kind in ("flavors", "cohorts", "queues")
        }
        self.now = read.START_S + 100.0
        self.core = Scheduler(MemoryIndex())
        self.items: dict[str, Pending] = {}
        """All jobs that have arrived and not left, as they waited last."""
        self.generations = 0
        self.log: list[str] = []
        self.configure()

    @property
    def holders(self) -> dict[str, Holder]:
        """All that hold quota, by UID."""
        return {u: h for queue in self.core.snapshot.holders.values() for u, h in queue.items()}

    async def run(self) -> None:
        """All steps, then on until nothing changes by itself."""
        for step in self.scenario["steps"]:
            await self.step(*step)
        await self.rest()

    async def step(self, what: str, *details: Any) -> None:
        """One step."""
        match what:
            case "cycle":
                await self.cycle()
            case "wait":
                self.now += details[0]
            case "arrive":
                if details[0] not in self.items:
                    self.put(read.job(details[0], self.scenario["jobs"][details[0]]))
            case "edit":
                self._edit(*details)
            case "drop" | "update":
                if uid := _chosen(details[0], self.core.items):
                    self._change_waiting(what, uid, *details[1:])
            case _:
                if uid := _chosen(details[0], self._holders_for(what)):
                    self._change_holder(what, uid, *details[1:])

    def _holders_for(self, what: str) -> list[str]:
        applies: dict[str, Callable[[Holder], bool]] = {
            "finish": lambda _: True,
            "evict": lambda holder: not holder.evicted,
            "stop": lambda holder: holder.evicted,
            "written": lambda holder: holder.reserved is None,
        }
        return [uid for uid, holder in self.holders.items() if applies[what](holder)]

    # --- changes ---

    def configure(self) -> None:
        """Hand over the objects."""
        flavors = {name: read.flavor(name, data) for name, data in self.objects["flavors"].items()}
        self.core.configure(
            World(
                {name: read.queue(name, data) for name, data in self.objects["queues"].items()},
                tuple(read.cohort(name, data) for name, data in self.objects["cohorts"].items()),
                flavors,
                self.scenario.get("namespaces", {"team": {}}),
                {f.name: read.ample_topology(f) for f in flavors.values() if f.topology},
                read.rules(self.scenario.get("rules", {})),
            ),
            self.now,
        )

    def _edit(self, kind: str, name: str, data: Json | None) -> None:
        if data is None:
            self.objects[kind].pop(name, None)
        else:
            self.objects[kind][name] = data
        self.configure()

    def put(self, item: Pending) -> None:
        """A workload waits; in a generation that nobody has seen."""
        self.generations += 1
        self.items[item.uid] = replace(item, generation=self.generations)
        self.core.put(self.items[item.uid], self.now)

    def take_out(self, uid: str) -> None:
        """A waiting workload is gone."""
        del self.items[uid]
        self.core.take_out(uid, self.now)

    def hold(self, holder: Holder) -> None:
        """Something was written about a workload that holds quota."""
        self.core.hold(holder)

    def release(self, uid: str) -> None:
        """A workload does not hold quota any more."""
        self.core.release(uid, self.now)

    def _change_waiting(self, what: str, uid: str, fields: Json | None = None) -> None:
        if what == "drop":
            self.take_out(uid)
        else:
            self.put(replace(self.items[uid], **fields or {}))

    def _change_holder(self, what: str, uid: str, backoff: float = 0) -> None:
        holder = self.holders[uid]
        match what:
            case "evict":
                self.hold(replace(holder, evicted=True))
            case "written":
                self.hold(replace(holder, reserved=float(int(self.now))))
            case "finish":
                self.release(uid)
                del self.items[uid]
            case "stop":
                self.release(uid)
                item = self.items[uid]
                if backoff:
                    item = replace(item, not_before=self.now + backoff, created=self.now)
                self.put(item)

    # --- cycles ---

    async def rest(self) -> None:
        """Until nothing can change any more by itself, or it goes round in circles."""
        idle = 0
        for _ in range(REST_ROUNDS):
            if self.core.ready:
                idle = 0 if await self.cycle() else idle + 1
                if idle > SPIN_ROUNDS:
                    raise Failure("spin", "cycles without an effect go on for ever")
            elif stopping := self._holders_for("stop"):
                self._change_holder("stop", stopping[0])
            elif (due := self.core.due()) is not None:
                self.now = max(self.now, due)
                await self.cycle()
            else:
                return

    async def cycle(self) -> bool:
        """One cycle; whether it admitted or preempted anything."""
        self.now += CYCLE_S
        decisions = await self.core.cycle(self.now)
        changed = False
        for decision in decisions:
            self.log.append(f"{decision.item.uid} {told(decision)}")
            changed = self.carry_out(decision) or changed
        self.check_books()
        return changed

    def carry_out(self, decision: Decision) -> bool:
        """What the programs do about a decision; whether there is anything to be done."""
        uid = decision.item.uid
        if isinstance(decision, Fit):
            holder = self.core.holder(uid)
            assert holder is not None
            late = self.scenario["jobs"][uid].get("late", False)
            self.hold(replace(holder, reserved=None if late else float(int(self.now))))
            return True
        if isinstance(decision, Preempt):
            news = [victim.holder for victim in decision.victims if not victim.holder.evicted]
            for holder in news:
                self.hold(replace(holder, evicted=True))
            return bool(news)
        return False

    def books(self) -> Books:
        """The quota tree, with what the holders hold and nothing else."""
        charges = [
            Charge(holder.cluster_queue, fr, amount)
            for holder in self.holders.values()
            for fr, amount in holder.usage.items()
        ]
        world = self.core.snapshot
        queues = dict(world.queues)
        cohorts = {n: read.cohort(n, data) for n, data in self.objects["cohorts"].items()}
        return Books(Tree(queues, cohorts), charges)

    def check_books(self) -> None:
        """Every job waits or holds quota, and usage is the sum of that at every node."""
        waiting, holding = set(self.core.items), set(self.holders)
        if waiting & holding or waiting | holding != set(self.items):
            raise Failure("lost", f"waiting {waiting}, holding {holding}, all {set(self.items)}")
        books = self.books()
        for node, fr, used in usages(self.core):
            if not books.has(node) or books.usage(node, fr) != used:
                raise Failure("usage", f"{node} {fr}: {used} is not the sum")


def log(scenario: Json) -> list[str]:
    """All decisions of a scenario."""
    drive = Drive(scenario)
    asyncio.run(drive.run())
    return drive.log


def usages(core: Scheduler) -> Iterable[tuple[Node, Any, int]]:
    """What the core has at every node, with zeros for what others in the tree use."""
    tree = core.snapshot.tree
    nodes = {Node("queue", name): leaf for name, leaf in tree.queues.items()}
    for leaf in tree.queues.values():
        nodes |= {Node("cohort", above.name): above for above in leaf.ancestors()}
    frs = {fr for leaf in nodes.values() for fr in leaf.usage}
    return [
        (node, fr, found.usage.get(fr, 0))
        for node, found in sorted(nodes.items())
        if node.name not in tree.cyclic or node.kind == "cohort"
        for fr in sorted(frs)
    ]


def told(decision: Decision) -> str:
    """A decision as text in which equal decisions are equal."""
    match decision:
        case Fit():
            return f"fit {pod_sets(decision.admission)}"
        case Preempt():
            victims = {victim.holder.uid: str(victim.reason) for victim in decision.victims}
            return f"preempt {sorted(victims.items())} level {decision.assignment.borrowing}"
        case Wait():
            return f"wait {decision.reason} {decision.requeue}"


def pod_sets(admission: Admission) -> str:
    """Counts, flavors and amounts."""
    return "; ".join(
        f"{pods.name} x{pods.count} {sorted(pods.flavors.items())} {sorted(pods.usage.items())}"
        for pods in admission.pod_sets
    )


def _chosen(number: int, uids: Iterable[str]) -> str:
    found = sorted(uids)
    return found[number % len(found)] if found else ""
