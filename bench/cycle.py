"""Admission decisions in memory, on one core: `python -m bench.cycle [--json]`.

The shape of Kueue's own large-scale test: 1,000 ClusterQueues in 10 cohorts (nominal 20 cpu,
borrowing limit 100, reclaim Any, LowerPriority within the queue), and of every 50 workloads 35
small (1 cpu, 150 ms, priority 50), 11 medium (5, 350 ms, 100) and 4 large (20, 700 ms, 200). They
run in simulated time; new ones arrive as others are admitted, so that as many wait all the time.
Counting begins when the quota is used up for the first time. A decision is a workload admitted,
parked or set to preempt; parking all of a shape counts once.

Times are CPU seconds of the process, cycles and what they decide only. `growth` is time per
decision with 50,000 pending over time per decision with 5,000. Under pressure one workload in ten
arrives while everything is in use, above all others, and has to preempt.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import heapq
import json
import random
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, NamedTuple

from federation.core.cycle import Decision, Fit, Preempt, Requeue, Wait
from federation.core.policies import Preemption, PreemptionPolicy
from federation.core.queueing import MemoryIndex
from federation.core.scheduler import Scheduler
from federation.core.types import (
    ClusterQueue,
    FlavorQuotas,
    LabelSelector,
    Pending,
    PodSet,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from federation.core.world import World


class Kind(NamedTuple):
    """Workloads of every 50, what each requests, how long it runs, and its priority."""

    share: int
    cpu: int
    seconds: float
    priority: int


KINDS = (Kind(35, 1, 0.15, 50), Kind(11, 5, 0.35, 100), Kind(4, 20, 0.7, 200))
URGENT = Kind(0, 20, 0.7, 1000)
PARKING = frozenset({Requeue.NO_FIT, Requeue.NO_CANDIDATES, Requeue.GENERIC})
CYCLE_S = 0.01
"""Simulated length of a cycle."""


def world(queues: int, cohorts: int) -> World:
    """The queues."""
    quota = Quota(20_000, borrowing_limit=100_000)
    group = ResourceGroup(("cpu",), (FlavorQuotas("default", {"cpu": quota}),))
    rules = Preemption(PreemptionPolicy.LOWER_PRIORITY, PreemptionPolicy.ANY)
    made = [
        ClusterQueue(
            f"queue-{n:04d}",
            (group,),
            f"cohort-{n % cohorts}",
            namespace_selector=LabelSelector(),
            preemption=rules,
        )
        for n in range(queues)
    ]
    flavors = {"default": ResourceFlavor("default")}
    return World({q.name: q for q in made}, (), flavors, {"team": {}})


def workload(number: int, queues: int, kind: Kind) -> Pending:
    """The workload of that number; queues take turns."""
    return Pending(
        uid=f"{number:08d}-0000-4000-8000-{number:012d}",
        namespace="team",
        name=f"job-{number}",
        local_queue="lq",
        cluster_queue=f"queue-{number % queues:04d}",
        priority=kind.priority,
        created=float(number),
        pod_sets=(PodSet("main", 1, {"cpu": kind.cpu * 1000}),),
    )


def workloads(queues: int) -> Iterator[Pending]:
    """Workloads without end, in the proportions of the kinds, in random order."""
    chance = random.Random(1)
    shares = [kind.share for kind in KINDS]
    for number in count():
        yield workload(number, queues, chance.choices(KINDS, shares)[0])


_RUNTIME = {kind.priority: kind.seconds for kind in (*KINDS, URGENT)}


@dataclass(slots=True)
class Run:
    """A scheduler, what runs in simulated time, and what has been decided so far."""

    scheduler: Scheduler
    arrivals: Iterator[Pending]
    depth: int
    queues: int
    pressure: bool
    now: float = 1e9
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    ends: list[tuple[float, str]] = field(default_factory=list)
    running: dict[str, tuple[float, Pending]] = field(default_factory=dict)
    urgent: int = 0
    evicted: int = 0

    async def decide(self, decisions: int) -> None:
        """Until so many decisions have been made with everything in use at the start."""
        await self._settle()
        self.counts.clear()
        self.seconds = 0.0
        while self.counts.total() < decisions:
            if self.pressure:
                self._urgent_arrivals()
                await self._settle()
            await self._next_event()
            await self._settle()

    async def _settle(self) -> None:
        while self.scheduler.ready:
            await self._cycle()

    async def _cycle(self) -> None:
        """One timed cycle; evictions end at once."""
        self.now += CYCLE_S
        start = time.process_time()
        decisions = await self.scheduler.cycle(self.now)
        for decision in decisions:
            await self._carry_out(decision)
        self.seconds += time.process_time() - start
        while len(self.scheduler.items) < self.depth:
            self.scheduler.put(next(self.arrivals), self.now)

    async def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Fit(item):
                self.counts["admitted"] += 1
                end = self.now + _RUNTIME[item.priority]
                self.running[item.uid] = (end, item)
                heapq.heappush(self.ends, (end, item.uid))
            case Preempt(_, victims):
                fresh = [victim.holder for victim in victims if not victim.holder.evicted]
                self.counts["preempting"] += bool(fresh)
                self.evicted += len(fresh)
                for holder in fresh:
                    self.scheduler.release(holder.uid, self.now)
                    self.scheduler.put(self.running.pop(holder.uid)[1], self.now)
            case Wait(_, _, _, requeue):
                self.counts["parked"] += requeue in PARKING

    async def _next_event(self) -> None:
        """Something ends, or what is parked is tried again: whichever is first."""
        due = self.scheduler.due()
        if self.ends and (due is None or self.ends[0][0] <= due):
            self.now = max(self.now, self.ends[0][0])
            while self.ends and self.ends[0][0] <= self.now:
                end, uid = heapq.heappop(self.ends)
                if self.running.get(uid, (None,))[0] == end:  # else it was evicted meanwhile
                    del self.running[uid]
                    self.scheduler.release(uid, self.now)
        elif due is not None:
            self.now = max(self.now, due)
            await self._cycle()

    def _urgent_arrivals(self) -> None:
        """One for every nine others that got through."""
        while self.urgent * 9 < self.counts["admitted"] - self.evicted - self.urgent:
            self.urgent += 1
            item = workload(10_000_000 + self.urgent, self.queues, URGENT)
            self.scheduler.put(item, self.now)


async def measure(
    pending: int, queues: int, cohorts: int, decisions: int, *, pressure: bool
) -> dict[str, Any]:
    """Decide with `pending` workloads waiting all the time."""
    arrivals = workloads(queues)
    run = Run(Scheduler(MemoryIndex()), arrivals, pending, queues, pressure)
    run.scheduler.configure(world(queues, cohorts), run.now)
    gc.collect()
    tracemalloc.start()
    for item in islice(arrivals, pending):
        run.scheduler.put(item, run.now)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await run.decide(decisions)
    made = run.counts.total()
    return {
        "pending": pending,
        "waiting_at_the_end": len(run.scheduler.items),
        "decisions": made,
        **run.counts,
        "cycles": run.scheduler.cycles,
        "seconds": round(run.seconds, 3),
        "decisions_per_s": round(made / run.seconds, 1),
        "bytes_per_pending": round(held / pending),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; one JSON object with --json."""
    parser = argparse.ArgumentParser(prog="python -m bench.cycle", description=__doc__)
    parser.add_argument("--pending", type=int, default=50_000)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--decisions", type=int, default=40_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    size = (options.queues, options.cohorts, options.decisions)
    few = asyncio.run(measure(options.pending // 10, *size, pressure=False))
    many = asyncio.run(measure(options.pending, *size, pressure=False))
    pressed = asyncio.run(measure(options.pending, *size, pressure=True))
    result = {
        "decisions_per_s": many["decisions_per_s"],
        "growth": round(few["decisions_per_s"] / many["decisions_per_s"], 3),
        "bytes_per_pending": many["bytes_per_pending"],
        "pressure_decisions_per_s": pressed["decisions_per_s"],
        "runs": {"few": few, "many": many, "pressure": pressed},
    }
    if options.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
