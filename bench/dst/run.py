"""One seed: faults and people for a while, then everything has to end well within a bound."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

from bench.dst.clock import Spinning, VirtualLoop
from bench.dst.determinism import deterministic
from bench.dst.ending import at_peace, end_checks
from bench.dst.faults import Faults
from bench.dst.world import World

TROUBLE_S = 420.0
"""Faults and people do nothing after that; where the last is earlier, everything has to end well
from then on.
"""
SUBMIT_S = 240.0
BOUND_S = 1500.0
REST_S = 140.0
"""Long enough for a whole minute that begins when a manager has taken up its work."""
AFTERWARDS_S = 1.0
BUSY_MINUTE = 4000
RESTING_MINUTE = 12
JOBS = (6, 14)


@dataclass
class Outcome:
    """What a seed brought: a line per violation, the log if it was traced."""

    seed: int
    violations: list[str]
    notes: list[str]
    virtual_s: float
    rounds: int
    reached: Counter[str]


Plan = Callable[[Faults, random.Random], None]


def drawn(faults: Faults, rng: random.Random) -> None:
    """The faults of a seed: some of any kind, and in most seeds a cluster is lost for a while."""
    faults.plan(rng.randint(0, 7))
    for _ in range(rng.choice((0, 1, 1, 2))):
        faults.plan_loss()
    faults.plan_cards()


def run_seed(
    seed: int,
    *,
    traced: bool = False,
    prepare: Callable[[World], None] = lambda world: None,
    plan: Plan = drawn,
) -> Outcome:
    """Run one federation. `prepare` may change the world before it starts, `plan` draw other
    faults: both are for tests of the checks.
    """
    loop = VirtualLoop()
    collects = gc.isenabled()
    gc.disable()  # what it finds to close, and when, depends on what ran before
    gc.freeze()  # and at the end it need not look at what was there before
    try:
        with deterministic(loop, seed):
            world = World(loop, seed, traced=traced)
            prepare(world)
            rounds = play(world, _live(world, seed, plan))
        return Outcome(seed, world.violations, world.notes, loop.now, rounds, _reached(world))
    finally:
        loop.close()
        gc.collect()
        gc.unfreeze()
        if collects:
            gc.enable()


def play(world: World, story: Coroutine[Any, Any, None]) -> int:
    """Let everything run until the story is over; the rounds that the loop took."""
    _configure_log(world)
    try:
        world.loop.run_until_complete(story)
    except Spinning as error:
        world.violate("spins", str(error))
    finally:
        rounds, world.loop.rounds = world.loop.rounds, 0
        world.over = True
        _stop(world.loop)
        structlog.reset_defaults()
    return rounds


def _reached(world: World) -> Counter[str]:
    """What happened in a run, and how often."""
    reached = world.records.reached
    for cluster in world.clusters.values():
        reached["held"] += cluster.held
        reached["resumed"] += cluster.resumed
    reached["runs"] = len(world.truth.runs)
    reached["checks answered"] = sum(found.answered for found in world.checks)
    cards = world.truth.cards
    if cards.limits:
        reached["pods with cards"], reached["cards shared"] = cards.begun, cards.shared
        reached["nodes lost"] = sum(c.nodes_lost for c in world.clusters.values())
    return reached


async def _live(world: World, seed: int, plan: Plan) -> None:
    rng = random.Random(f"plan-{seed}")
    people = world.people
    loop = world.loop
    world.start()
    count = rng.randint(*JOBS)
    burst = world.rng.uniform(10, SUBMIT_S) if world.shape.racks else None
    last = 0.0
    for number in range(count):
        at = rng.choice((rng.uniform(0, 20), rng.uniform(0, SUBMIT_S)))
        if burst is not None and number % 2:  # what is decided at one time has to fit together
            at = burst + 0.5 * number
        loop.later(at, lambda n: world.note("people", f"submit {people.submit(n)}"), number)
        last = max(last, at, _plan_edits(world, rng, f"j{number:02}", at))
    faults = Faults(world, rng, TROUBLE_S)
    plan(faults, rng)
    await _until_over(world, faults, last)
    for program in world.programs:
        program.dies_in = None
    world.note("FAULT", "all faults are over")
    over = peaceful = loop.now
    while not at_peace(world):
        if loop.now > over + BOUND_S:
            break
        await asyncio.sleep(5)  # virtual time, as below
        peaceful = loop.now
    world.note("people", f"at peace since {peaceful:.0f} s")
    await asyncio.sleep(REST_S)
    end_checks(world)
    for minute, requests in world.minutes.items():
        if requests > BUSY_MINUTE:
            world.violate("spins", f"{requests} requests in minute {minute}")
    resting = world.minutes[int(loop.now // 60) - 1]
    if resting > RESTING_MINUTE and not world.violations:
        world.violate("spins", f"{resting} requests in a minute at rest")


async def _until_over(world: World, faults: Faults, last: float) -> None:
    """Until no fault is left, none that waits for a program to write something either, and people
    have done what they were going to do (`last`).
    """
    loop = world.loop
    while loop.now < TROUBLE_S:
        armed = any(program.dies_in is not None for program in world.programs)
        due = max(last, faults.over_at) + AFTERWARDS_S
        if loop.now >= due and not armed:
            return
        await asyncio.sleep(max(1.0, min(due, TROUBLE_S) - loop.now))  # virtual time


def _plan_edits(world: World, rng: random.Random, name: str, at: float) -> float:
    """Have people change their minds about a job. When they do so last is returned."""
    people, loop = world.people, world.loop
    last = at

    def later(after: float, text: str, what: Callable[[], str]) -> None:
        nonlocal last
        moment = min(at + after, TROUBLE_S - 1)
        last = max(last, moment)

        def act() -> None:
            if name in people.uids:
                world.note("people", f"{text} {what()}")

        loop.later(moment, act)

    sizes = people.sizes
    for _ in range(sizes.choice((0, 1, 2, 3))):
        later(sizes.uniform(1, 120), "scale", lambda: people.scale(name))
    draw = rng.random()
    if draw < 0.08:
        later(rng.uniform(0, 90), "delete", lambda: people.delete(name))
    elif draw < 0.14:
        later(rng.uniform(0, 90), "priority", lambda: people.change_priority(name))
    elif draw < 0.20:
        pause = rng.uniform(1, 60)
        start = rng.uniform(0, 60)
        later(start, "deactivate", lambda: people.switch(name, False))
        later(start + pause, "activate", lambda: people.switch(name, True))
    elif draw < 0.22:
        later(rng.uniform(0, 60), "unsuspend", lambda: people.unsuspend(name))
    elif draw < 0.30:
        target = rng.choice(world.names)
        later(rng.uniform(10, 200), "move", lambda: people.move(name, target))
    return last


def _stop(loop: VirtualLoop) -> None:
    """End what still runs, as many rounds as it takes."""
    for _ in range(50):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=0.01))
    raise RuntimeError(f"tasks that cannot be stopped: {asyncio.all_tasks(loop)}")


def _configure_log(world: World) -> None:
    """What programs log goes into the world's log; a crash of theirs is a violation."""

    def record(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        text = event.pop("event")
        if text in ("effects.crashed", "service.crashed", "command.crashed"):
            world.violate("crash", f"{text}: {event}")
        if world.traced:
            world.note("log", f"{method} {text} {event}")
        raise structlog.DropEvent

    level = 10 if world.traced else 40
    structlog.configure(
        processors=[record],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
