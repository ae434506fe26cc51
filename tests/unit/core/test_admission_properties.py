"""What holds of admission whatever happens: nothing is lost, nothing is counted twice, and only
the state decides.

The scenarios are those of the fuzzer; here the core runs alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from federation.core.cycle import Fit, run_cycle
from federation.core.policies import QueueingStrategy
from federation.core.queueing import MemoryIndex, member
from federation.core.quota import QuotaNode
from federation.core.scheduler import Scheduler
from federation.core.snapshot import Snapshot
from federation.core.types import Pending
from tests.reference import fuzz
from tests.reference.drive import Drive, log, told
from tests.reference.generate import scenario as generate
from tests.reference.quota import Books, Node
from tests.reference.scenario import Json

ROOT = Path(__file__).parents[3]
SOME = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
RANDOMS = st.randoms(use_true_random=False) | st.builds(Random, st.integers(0, 2**32))
"""Half of them small and odd, as hypothesis chooses, half of them busy."""


def made(random: Random) -> Json:
    """A scenario, as it would be read from a file."""
    scenario: Json = json.loads(json.dumps(generate(random, jobs=10)))
    return scenario


def driven(scenario: Json) -> Drive:
    """After all its steps."""
    drive = Drive(scenario)

    async def steps() -> None:
        for step in scenario["steps"]:
            await drive.step(*step)

    asyncio.run(steps())
    return drive


# Sums


@SOME
@given(RANDOMS)
def test_every_workload_waits_or_holds_and_usage_is_the_sum(random: Random) -> None:
    """After every cycle, at every ancestor (the driver looks)."""
    asyncio.run(Drive(made(random)).run())


class Within(Drive):
    """Looks after every cycle whether the tree still allows what is used."""

    async def cycle(self) -> bool:
        """One cycle."""
        changed = await super().cycle()
        books = self.books()
        for name in self.core.snapshot.queues:
            for node in books.path(Node("queue", name)):
                assert list(excess(books, node)) == []
        return changed


def excess(books: Books, node: Node) -> Iterator[str]:
    """What is used beyond the quota of a node and what it may borrow."""
    for fr in books.used_frs(node):
        used, quota = books.usage(node, fr), books.subtree(node, fr)
        if node.kind == "queue" and used and not books.lists(node, fr):
            yield f"{node.name} uses {fr}, which it does not list"
        limit = books.borrowing_limit(node, fr)
        if books.parent(node) is None:
            limit = 0
        if limit is not None and max(used, books.local(node, fr)) > quota + limit:
            yield f"{node.name} uses {used} of {fr}, {quota} and {limit} borrowed are allowed"


@SOME
@given(RANDOMS)
def test_usage_is_never_above_what_the_tree_allows(random: Random) -> None:
    """As long as nobody but the scheduler admits, and no quota is taken away."""
    scenario = made(random)
    scenario["steps"] = [step for step in scenario["steps"] if step[0] != "edit"]
    asyncio.run(Within(scenario).run())


# What is tried leaves no trace


def dump(snapshot: Snapshot) -> dict[str, Any]:
    """All that a cycle could change."""
    nodes: dict[str, QuotaNode] = {}
    for leaf in snapshot.tree.queues.values():
        nodes[f"queue {leaf.name}"] = leaf
        nodes |= {f"cohort {above.name}": above for above in leaf.ancestors()}
    return {
        "usage": {
            name: {fr: amount for fr, amount in node.usage.items() if amount}
            for name, node in nodes.items()
        },
        "quota": {name: (dict(n.subtree), dict(n.local), n.height) for name, n in nodes.items()},
        "borrowers": {
            name: {fr: set(found) for fr, found in node.borrowers.items() if found}
            for name, node in nodes.items()
        },
        "holders": {name: dict(held) for name, held in snapshot.holders.items()},
        "gone": set(snapshot.gone),
        "pools": snapshot.pools,
        "topologies": {name: repr(vars(t)) for name, t in snapshot.topologies.items()},
    }


def a_head_of_each_queue(drive: Drive, random: Random) -> list[Pending]:
    """Some waiting workload of each queue that is there."""
    heads: dict[str, Pending] = {}
    waiting = sorted(drive.core.items.values(), key=lambda item: item.uid)
    random.shuffle(waiting)
    for item in waiting:
        if item.cluster_queue in drive.core.snapshot.queues:
            heads.setdefault(item.cluster_queue, item)
    return list(heads.values())


@SOME
@given(RANDOMS)
def test_a_cycle_leaves_the_state_as_it_was(random: Random) -> None:
    """Whatever it tries, assumes and reserves."""
    drive = driven(made(random))
    before = dump(drive.core.snapshot)
    run_cycle(a_head_of_each_queue(drive, random), drive.core.snapshot)
    assert dump(drive.core.snapshot) == before


@SOME
@given(RANDOMS)
def test_removing_what_was_added_restores_the_tree(random: Random) -> None:
    """In whatever order, and however far above quota."""
    drive = driven(made(random))
    tree = drive.core.snapshot.tree
    before = dump(drive.core.snapshot)
    added = [
        (name, {fr: random.randint(0, 9)})
        for name, leaf in sorted(tree.queues.items())
        for fr in sorted({*leaf.quotas, *leaf.usage})
        for _ in range(random.randint(0, 2))
    ]
    assume(added)
    for name, usage in added:
        tree.add(name, usage)
    random.shuffle(added)
    for name, usage in added:
        tree.remove(name, usage)
    assert dump(drive.core.snapshot) == before


# Nothing is forgotten


async def emptied(drive: Drive) -> None:
    """Whatever is admitted ends, until nothing is admitted any more. Two that evict each other in
    turn, as Kueue's rules have it, never come to rest: one of them is admitted in the next cycle.
    """
    for _ in range(60):
        await drive.rest()
        while not drive.holders and drive.core.ready:
            if not await drive.cycle():
                break
        holders = list(drive.holders)
        if not holders:
            return
        for uid in holders:
            await drive.step("finish", sorted(drive.holders).index(uid))
    raise AssertionError("there is always somebody who is admitted")


@SOME
@given(RANDOMS)
@example(Random(208))
def test_who_waits_for_ever_could_never_be_admitted(random: Random) -> None:
    """When all the others have ended, what still waits does not fit into the empty tree."""

    async def run() -> None:
        drive = driven_now
        await emptied(drive)
        for item in drive.core.items.values():
            if item is first_in_line(drive, item):
                assert not await fits_alone(drive, item), item.uid

    driven_now = driven(made(random))
    asyncio.run(run())


def first_in_line(drive: Drive, item: Pending) -> Pending:
    """Itself, or who blocks it for good in a StrictFIFO queue."""
    queue = drive.core.snapshot.queues.get(item.cluster_queue)
    if queue is None or queue.strategy is QueueingStrategy.BEST_EFFORT_FIFO:
        return item
    line = [i for i in drive.core.items.values() if i.cluster_queue == item.cluster_queue]
    return min(line, key=member)


async def fits_alone(drive: Drive, item: Pending) -> bool:
    """Whether a scheduler that knows nothing else admits it, with as many cycles as it likes."""
    fresh = Scheduler(MemoryIndex())
    fresh.configure(drive.core._world, drive.now)
    fresh.put(item, drive.now)
    for _ in range(10):
        if any(isinstance(made, Fit) for made in await fresh.cycle(drive.now)):
            return True
    return False


# Only the state decides


@SOME
@given(RANDOMS)
def test_the_order_of_the_objects_does_not_matter(random: Random) -> None:
    """Of queues, cohorts, flavors and namespaces in their maps; and a replay is a replay."""
    scenario = made(random)
    other = dict(scenario)
    for kind in ("queues", "cohorts", "flavors", "namespaces"):
        names = list(scenario[kind])
        random.shuffle(names)
        other[kind] = {name: scenario[kind][name] for name in names}
    assert log(scenario) == log(scenario) == log(other)


@SOME
@given(RANDOMS)
def test_the_order_in_which_the_state_was_learnt_does_not_matter(random: Random) -> None:
    """A scheduler that starts anew hears of what holds quota, and of what waits, in any order."""
    drive = driven(made(random))

    def decided(shuffled: bool) -> list[str]:
        fresh = Scheduler(MemoryIndex())
        fresh.configure(drive.core._world, drive.now)
        holders, items = list(drive.holders.values()), list(drive.core.items.values())
        if shuffled:
            random.shuffle(holders)
            random.shuffle(items)
        for holder in holders:
            fresh.hold(holder)
        for item in items:
            fresh.put(item, drive.now)
        decisions = asyncio.run(fresh.cycle(drive.now + 1))
        return [f"{decision.item.uid} {told(decision)}" for decision in decisions]

    assert decided(shuffled=False) == decided(shuffled=True)


def test_hash_seeds_do_not_matter() -> None:
    """Sets and dicts of text have another order in every process; the decisions have not."""
    script = (
        "from tests.reference import drive, fuzz;"
        "print([drive.log(fuzz.scenario(7, number)) for number in range(8)])"
    )
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        assert ran.stdout == f"{[log(fuzz.scenario(7, number)) for number in range(8)]}\n"
