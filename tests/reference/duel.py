"""One scenario through the core and the model at once, compared after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from federation.core.cycle import Fit, Preempt
from federation.core.types import Holder, Pending
from tests.reference import scenario as read
from tests.reference.cycle import Decision
from tests.reference.drive import CYCLE_S, Drive, Failure, pod_sets, told
from tests.reference.queues import Queues, World
from tests.reference.scenario import Json


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
    """Run a scenario. Raises Failure where the core and the model disagree."""
    duel = Duel(scenario)
    try:
        asyncio.run(duel.run())
    finally:
        if tally is not None:
            tally.add(duel.tally)


class Duel(Drive):
    """The core is driven; everything that is done to it is done to the model too."""

    def __init__(self, scenario: Json) -> None:
        self.model = Queues()
        self.tally = Tally()
        super().__init__(scenario)

    def configure(self) -> None:
        """Hand over the objects."""
        queues = {name: read.queue(name, data) for name, data in self.objects["queues"].items()}
        cohorts = {name: read.cohort(name, data) for name, data in self.objects["cohorts"].items()}
        flavors = {name: read.flavor(name, data) for name, data in self.objects["flavors"].items()}
        namespaces = self.scenario.get("namespaces", {"team": {}})
        rules = read.rules(self.scenario.get("rules", {}))
        self.model.configure(World(queues, cohorts, flavors, namespaces, rules), self.now)
        super().configure()

    def put(self, item: Pending) -> None:
        """A workload waits."""
        super().put(item)
        self.model.enqueue(self.items[item.uid], self.now)

    def take_out(self, uid: str) -> None:
        """A waiting workload is gone."""
        super().take_out(uid)
        self.model.drop(uid, self.now)

    def hold(self, holder: Holder) -> None:
        """Something was written about a workload that holds quota."""
        super().hold(holder)
        self.model.hold(holder)

    def release(self, uid: str) -> None:
        """A workload does not hold quota any more."""
        super().release(uid)
        self.model.release(uid, self.now)

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
            raise Failure("extra", f"{sorted(extra)} decided on, parked in the model")
        for uid, decision in theirs.items():
            if uid not in ours:
                raise Failure("missing", f"{uid}, the model says {_told(decision)}")
            found, wanted = told(ours[uid]), _told(decision)
            if found != wanted:
                kind = "decision" if found.split()[0] != wanted.split()[0] else found.split()[0]
                raise Failure(kind, f"{uid}: core {found}, model {wanted}")
        self._same_order(list(ours), list(theirs))
        changed = any(_is_news(self.model, decision, before) for decision in made)
        for decided in ours.values():
            self.tally.fits += isinstance(decided, Fit)
            self.tally.preemptions += isinstance(decided, Preempt)
            self.tally.waits += not isinstance(decided, Fit | Preempt)
            self.carry_out(decided)
        self.check_books()
        if self.core.items.keys() != self.model.waiting.keys():
            raise Failure("lost", f"core {set(self.core.items)}, model {set(self.model.waiting)}")
        return changed

    def _nothing_missed(self, unseen: Callable[[str], bool]) -> None:
        model = self.model.copy()
        before = {uid: w.place if w.reason else "" for uid, w in model.waiting.items()}
        for decision in model.cycle(self.now, unseen):
            if _is_news(model, decision, before):
                uid = decision.item.uid
                raise Failure("unseen", f"{uid} not looked at, the model says {_told(decision)}")

    def _same_order(self, ours: list[str], theirs: list[str]) -> None:
        """The order in which workloads of one tree are decided on."""
        root = self.model.world.root
        for tree in {root(self.items[uid].cluster_queue) for uid in ours}:
            core, model = (
                [uid for uid in uids if root(self.items[uid].cluster_queue) == tree]
                for uids in (ours, theirs)
            )
            if core != model:
                raise Failure("order", f"core {core}, model {model}")


def _is_news(model: Queues, decision: Decision, places: Mapping[str, str]) -> bool:
    """Whether anything changes by a decision."""
    if decision.kind == "fit":
        return True
    if decision.kind == "preempt":
        return any(not model.holders[victim].evicted for victim in decision.victims)
    return model.waiting[decision.item.uid].place != places[decision.item.uid]


def _told(decision: Decision) -> str:
    """As `told` says the same of the core."""
    if decision.admission is not None:
        return f"fit {pod_sets(decision.admission)}"
    if decision.kind == "preempt":
        return f"preempt {sorted(decision.victims.items())} level {decision.level}"
    return f"wait {decision.reason} {decision.requeue}"
