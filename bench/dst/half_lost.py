"""`python -m bench.dst.half_lost`: half of the clusters are lost with all that runs there.

One federation of the simulation, large: every job runs when the clusters are cut off, and the
others have room for all. The rules of the simulation hold as for any seed; printed is when the jobs
run again, in virtual time, in which computing takes none.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time

from bench.dst.clock import VirtualLoop
from bench.dst.determinism import deterministic
from bench.dst.ending import at_peace, end_checks
from bench.dst.people import QUEUES
from bench.dst.run import play
from bench.dst.truth import Run, Traits
from bench.dst.world import Shape, World
from federation.core.failover import FAST, Tier
from tests.fakes.links import Link

SUBMIT_S = 120.0
CUT_AT_S = 300.0
CUT_S = 300.0
LASTS_S = (900.0, 1200.0)
EVERY_S, PATIENCE = 10.0, 400
ROUNDS_PER_JOB = 400


class HalfLost:
    """`again` is when each job of a lost cluster started elsewhere, in seconds after the cut."""

    def __init__(self, world: World, jobs: int) -> None:
        self.world, self.jobs = world, jobs
        self.again: dict[str, float] = {}
        self._there: dict[str, Run] = {}

    async def story(self, seed: int) -> None:
        """Submit, cut, mend, and wait for the end. All times are virtual."""
        world, loop, rng = self.world, self.world.loop, random.Random(f"half-lost-{seed}")
        world.start()
        for number in range(self.jobs):
            name, lasts = f"j{number:05}", rng.uniform(*LASTS_S)
            traits = Traits(name, 1, lasts, "Complete", rng.uniform(0.2, 30), "stop")
            loop.later(5 + SUBMIT_S * number / self.jobs, world.people.create, traits, 1)
        await asyncio.sleep(CUT_AT_S)  # virtual time
        self._cut(world.names[: len(world.names) // 2])
        await asyncio.sleep(CUT_S)  # virtual time
        self._mend()
        for _ in range(PATIENCE):
            if at_peace(world):
                break
            await asyncio.sleep(EVERY_S)  # virtual time
        end_checks(world)

    def _links(self, names: list[str]) -> list[Link]:
        agents = [self.world.agents[name].links["lease"] for name in names]
        return [*agents, *self.world.links_of_managers(*names)]

    def _cut(self, lost: list[str]) -> None:
        live = [run for runs in self.world.truth.live.values() for run in runs]
        if len(live) != self.jobs:
            self.world.violate("converges", f"{len(live)} of {self.jobs} jobs run before the cut")
        self._there = {run.local_uid: run for run in live if run.cluster in lost}
        for link in self._links(lost):
            link.set_open(False, False)

    def _mend(self) -> None:
        for link in self._links(self.world.names):
            link.set_open(True, True)
        for run in self.world.truth.runs:
            old = self._there.get(run.local_uid)
            if old is not None and run.attempt > old.attempt:
                self.again.setdefault(run.local_uid, run.start - CUT_AT_S)
        if missing := len(self._there) - len(self.again):
            self.world.violate("converges", f"{missing} jobs ran nowhere else by the mend")


def shape(jobs: int, clusters: int) -> Shape:
    """Half of the clusters have room for all jobs."""
    each = 2 * jobs // clusters // len(QUEUES) + 1
    rooms = tuple(dict.fromkeys(QUEUES, each) for _ in range(clusters))
    return Shape(dict.fromkeys(QUEUES, jobs), rooms, "Never", "BestEffortFIFO", Tier.AGENT, FAST)


def main() -> int:
    """Exit code 1 if a rule is violated."""
    parser = argparse.ArgumentParser(prog="bench.dst.half_lost", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given, started, loop = parser.parse_args(), time.monotonic(), VirtualLoop()
    loop.most_rounds = ROUNDS_PER_JOB * given.jobs + loop.most_rounds
    with deterministic(loop, given.seed):
        world = World(loop, given.seed, shape=shape(given.jobs, given.clusters))
        half = HalfLost(world, given.jobs)
        play(world, half.story(given.seed))
    loop.close()
    for line in world.violations:
        print(line)
    times = sorted(half.again.values()) or [0.0]
    print(
        f"{given.jobs} jobs, {given.clusters // 2} of {given.clusters} clusters lost:"
        f" {len(half.again)} jobs ran again {times[0]:.1f} to {times[-1]:.1f} s after the cut;"
        f" {len(world.violations)} violations; {time.monotonic() - started:.0f} s"
    )
    return 1 if world.violations else 0


if __name__ == "__main__":
    sys.exit(main())
