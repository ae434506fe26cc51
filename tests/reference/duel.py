"""One scenario through the core and the model, compared after every step.

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from federation.core.cycle import Decision as CoreDecision
from federation.core.cycle import Fit, Preempt, Wait
from federation.core.queueing import MemoryIndex
from federation.core.scheduler import Scheduler
from federation.core.scheduler import World as CoreWorld
from federation.core.types import Admission, Holder, Pending
from tests.reference import scenario as read
from tests.reference.cycle import Decision
from tests.reference.queues import Queues, World
from tests.reference.quota import Books, Charge, Node
from tests.reference.scenario import Json

CYCLE_S = 0.01
REST_ROUNDS = 80
SPIN_ROUNDS = 25
"""So many cycles may follow each other without any of them changing something."""


class Mismatch(AssertionError):
    """The core and the model disagree. `kind` is in what, for the search of a smaller scenario."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


@dataclass
class Tally:
    """How much has been compared."""

    cycles: int = 0
    fits: int = 0
    preemptions: int = 0
    waits: int = 0

    def add(self, other: Tally) -> None:
        """Count another run in."""
        self.cycles += other.cycles
        self.fits += other.fits
        self.preemptions += other.preemptions
        self.waits += other.waits


def play(scenario: Json, tally: Tally | None = None) -> None:
    """Run a scenario. Raises Mismatch."""
    duel = Duel(scenario)
    try:
        asyncio.run(duel.run())
    finally:
        if tally is not None:
            tally.add(duel.tally)


class Duel:
    """The state of a scenario that is being run."""

    def __init__(self, scenario: Json, core: Scheduler | None = None) -> None:
        self.scenario = scenario
        self.objects: dict[str, Json] = {
            kind: dict(scenario.get(kind, {})) for kind in ("flavors", "cohorts", "queues")
        }
        self.now = read.START_S + 100.0
        self.core = core or Scheduler(MemoryIndex())
        self.model = Queues()
        self.items: dict[str, Pending] = {}
        self.generations = 0
        self.tally = Tally()

    async def run(self) -> None:
        """All steps, then on until nothing changes by itself."""
        self._configure()
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
                self._arrive(details[0])
            case "edit":
                kind, name, data = details
                self._edit(kind, name, data)
            case "drop" | "update":
                if uid := self._chosen(details[0], self.model.waiting):
                    self._change_waiting(what, uid, *details[1:])
            case _:
                if uid := self._chosen(details[0], self._holders_for(what)):
                    self._change_holder(what, uid, *details[1:])

    def _chosen(self, number: int, uids: Iterable[str]) -> str:
        found = sorted(uids)
        return found[number % len(found)] if found else ""

    def _holders_for(self, what: str) -> list[str]:
        applies: dict[str, Callable[[Holder], bool]] = {
            "finish": lambda _: True,
            "evict": lambda holder: not holder.evicted,
            "stop": lambda holder: holder.evicted,
            "written": lambda holder: holder.reserved is None,
        }
        return [uid for uid, holder in self.model.holders.items() if applies[what](holder)]

    # --- changes, made to both ---

    def _configure(self) -> None:
        queues = {name: read.queue(name, data) for name, data in self.objects["queues"].items()}
        cohorts = {name: read.cohort(name, data) for name, data in self.objects["cohorts"].items()}
        flavors = {name: read.flavor(name, data) for name, data in self.objects["flavors"].items()}
        namespaces = self.scenario.get("namespaces", {"team": {}})
        rules = read.rules(self.scenario.get("rules", {}))
        topologies = {f.name: read.ample_topology(f) for f in flavors.values() if f.topology}
        self.model.configure(World(queues, cohorts, flavors, namespaces, rules), self.now)
        self.core.configure(
            CoreWorld(queues, tuple(cohorts.values()), flavors, namespaces, topologies, rules),
            self.now,
        )

    def _edit(self, kind: str, name: str, data: Json | None) -> None:
        if data is None:
            self.objects[kind].pop(name, None)
        else:
            self.objects[kind][name] = data
        self._configure()

    def _arrive(self, name: str) -> None:
        if name in self.model.waiting or name in self.model.holders:
            return
        self._enqueue(read.job(name, self.scenario["jobs"][name]))

    def _enqueue(self, item: Pending) -> None:
        self.generations += 1
        item = replace(item, generation=self.generations)
        self.items[item.uid] = item
        self.model.enqueue(item, self.now)
        self.core.put(item, self.now)

    def _change_waiting(self, what: str, uid: str, fields: Json | None = None) -> None:
        if what == "drop":
            self.model.drop(uid, self.now)
            self.core.take_out(uid, self.now)
        else:
            self._enqueue(replace(self.items[uid], **fields or {}))

    def _change_holder(self, what: str, uid: str, backoff: float = 0) -> None:
        holder = self.model.holders[uid]
        match what:
            case "evict":
                self._hold(replace(holder, evicted=True))
            case "written":
                self._hold(replace(holder, reserved=float(int(self.now))))
            case "finish":
                self._release(uid)
            case "stop":
                self._release(uid)
                item = self.items[uid]
                if backoff:
                    item = replace(item, not_before=self.now + backoff, created=self.now)
                self._enqueue(item)

    def _hold(self, holder: Holder) -> None:
        self.model.hold(holder)
        self.core.hold(holder)

    def _release(self, uid: str) -> None:
        self.model.release(uid, self.now)
        self.core.release(uid, self.now)

    # --- cycles ---

    async def rest(self) -> None:
        """Until nothing can change any more by itself, or it goes round in circles."""
        idle = 0
        for _ in range(REST_ROUNDS):
            if self.core.ready:
                idle = 0 if await self.cycle() else idle + 1
                if idle > SPIN_ROUNDS:
                    raise Mismatch("spin", "cycles without an effect go on for ever")
            elif stopping := self._holders_for("stop"):
                self._change_holder("stop", stopping[0])
            elif (due := self.core.due()) is not None:
                self.now = max(self.now, due)
                await self.cycle()
            else:
                return

    async def cycle(self) -> bool:
        """One cycle of both; whether it admitted, preempted or parked anything.

        The core leaves trees alone in which nothing has changed; the model looks at their heads
        too, to see that there would be no news.
        """
        self.now += CYCLE_S
        self.tally.cycles += 1
        self.model.tick(self.now)
        ours = {decision.item.uid: decision for decision in await self.core.cycle(self.now)}
        world = self.model.world
        looked_at = {world.root(decision.item.cluster_queue) for decision in ours.values()}
        self._nothing_missed(lambda queue: world.root(queue) not in looked_at)
        before = {uid: entry.place for uid, entry in self.model.waiting.items()}
        made = self.model.cycle(self.now, lambda queue: world.root(queue) in looked_at)
        theirs = {decision.item.uid: decision for decision in made}
        if extra := ours.keys() - theirs.keys():
            raise Mismatch("extra", f"{sorted(extra)} decided on, parked in the model")
        for uid, decision in theirs.items():
            if uid not in ours:
                raise Mismatch("missing", f"{uid}, the model says {_show(decision)}")
            self._same(ours[uid], decision)
        self._same_order(list(ours), list(theirs))
        changed = any(self._is_news(self.model, decision, before) for decision in made)
        for uid, decided in ours.items():
            self._carry_out(uid, decided)
        self._same_books()
        return changed

    def _nothing_missed(self, unseen: Callable[[str], bool]) -> None:
        model = self.model.copy()
        before = {uid: w.place if w.reason else "" for uid, w in model.waiting.items()}
        for decision in model.cycle(self.now, unseen):
            if self._is_news(model, decision, before):
                uid = decision.item.uid
                raise Mismatch("unseen", f"{uid} not looked at, the model says {_show(decision)}")

    @staticmethod
    def _is_news(model: Queues, decision: Decision, places: Mapping[str, str]) -> bool:
        """Whether anything changes by a decision."""
        if decision.kind == "fit":
            return True
        if decision.kind == "preempt":
            return any(not model.holders[victim].evicted for victim in decision.victims)
        return model.waiting[decision.item.uid].place != places[decision.item.uid]

    def _same(self, ours: CoreDecision, theirs: Decision) -> None:
        found, wanted = _show(ours), _show(theirs)
        if found != wanted:
            uid = theirs.item.uid
            kind = "decision" if found.split()[0] != wanted.split()[0] else found.split()[0]
            raise Mismatch(kind, f"{uid}: core {found}, model {wanted}")

    def _same_order(self, ours: list[str], theirs: list[str]) -> None:
        """The order in which workloads of one tree are decided on."""
        root = self.model.world.root
        for tree in {root(self.items[uid].cluster_queue) for uid in ours}:
            core, model = (
                [uid for uid in uids if root(self.items[uid].cluster_queue) == tree]
                for uids in (ours, theirs)
            )
            if core != model:
                raise Mismatch("order", f"core {core}, model {model}")

    def _carry_out(self, uid: str, decision: CoreDecision) -> None:
        if isinstance(decision, Fit):
            self.tally.fits += 1
            holder = self.core.holder(uid)
            assert holder is not None
            late = self.scenario["jobs"][uid].get("late", False)
            self._hold(replace(holder, reserved=None if late else float(int(self.now))))
        elif isinstance(decision, Preempt):
            self.tally.preemptions += 1
            for victim in decision.victims:
                if not victim.holder.evicted:
                    self._hold(replace(victim.holder, evicted=True))
        else:
            self.tally.waits += 1

    def _same_books(self) -> None:
        """Who waits, who holds, and what is used at every node of the tree."""
        if self.core.items.keys() != self.model.waiting.keys():
            raise Mismatch("lost", f"core {sorted(self.core.items)}, {sorted(self.model.waiting)}")
        for uid in self.items:
            if (self.core.holder(uid) is not None) != (uid in self.model.holders):
                raise Mismatch("holders", uid)
        world = self.model.world
        charges = [
            Charge(holder.cluster_queue, fr, amount)
            for holder in self.model.holders.values()
            for fr, amount in holder.usage.items()
        ]
        tree = Books(world.tree, charges)
        frs = {charge.fr for charge in charges}
        for name in world.queues:
            if name in tree.cyclic:
                continue
            for node in tree.path(Node("queue", name)):
                core = self.core.snapshot.tree
                known = core.queues[node.name] if node.kind == "queue" else core.cohort(node.name)
                assert known is not None
                for fr in frs:
                    found, wanted = known.usage.get(fr, 0), tree.usage(node, fr)
                    if found != wanted:
                        raise Mismatch("usage", f"{node.name} {fr}: core {found}, sum {wanted}")


def _show(decision: CoreDecision | Decision) -> str:
    """A decision as text in which equal decisions are equal."""
    if isinstance(decision, Fit):
        return f"fit {_admission(decision.admission)}"
    if isinstance(decision, Preempt):
        victims = sorted((victim.holder.uid, str(victim.reason)) for victim in decision.victims)
        return f"preempt {victims} level {decision.assignment.borrowing}"
    if isinstance(decision, Wait):
        return f"wait {decision.reason} {decision.requeue}"
    if decision.admission is not None:
        return f"fit {_admission(decision.admission)}"
    if decision.kind == "preempt":
        return f"preempt {sorted(decision.victims.items())} level {decision.level}"
    return f"wait {decision.reason} {decision.requeue}"


def _admission(admission: Admission) -> str:
    return "; ".join(
        f"{pods.name} x{pods.count} {sorted(pods.flavors.items())} {sorted(pods.usage.items())}"
        for pods in admission.pod_sets
    )
