"""The slow model of the specification gives the answers of the specification.

Its worked examples and the tables of the core are put to it, and the recorded decisions if they
are here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bench.conformance import admission as replays
from federation.core.policies import Rules
from federation.core.types import ClusterQueue, Holder, Pending
from tests.reference.candidates import Attempt
from tests.reference.cycle import Decision, Head, run
from tests.reference.flavors import Assigner
from tests.reference.preemption import find_targets
from tests.reference.queues import World
from tests.reference.quota import Books, Charge, Node
from tests.reference.recorded import ModelScheduler
from tests.reference.state import State
from tests.unit.core import (
    test_cycle,
    test_fair_preemption,
    test_hierarchy,
    test_preemption,
    test_quota,
)
from tests.unit.core.build import GPU, holds, job, one
from tests.unit.core.stage import FAIR, Thing
from tests.unit.core.stage import world as core_world

FILES = sorted((Path(__file__).parents[4] / "shared/conformance/admission").glob("*.jsonl"))


def state(*things: Thing, rules: Rules | None = None) -> State:
    """What `stage.state` is for the core."""
    given = core_world(*things, rules=rules)
    cohorts = {cohort.name: cohort for cohort in given.cohorts}
    made = World(given.queues, cohorts, given.flavors, given.namespaces, given.rules)
    return State(
        given.queues,
        made.tree,
        given.flavors,
        given.namespaces,
        given.rules,
        {thing.uid: thing for thing in things if isinstance(thing, Holder)},
        frozenset(name for name in given.queues if made.is_active(name)),
        now=10_000.0,
    )


def victims(where: State, what: Pending) -> dict[str, str]:
    """Whom a workload would evict, and why."""
    counts = [pods.count for pods in what.pod_sets]
    found = Assigner(where, what, counts, {}).run()
    if found.mode != "Preempt":
        return {}
    targets = find_targets(where, Attempt(what, found.needed, found.usage))
    return {target.holder.uid: target.reason for target in targets}


def told(decision: Decision) -> str:
    """As `stage.told` says it."""
    if decision.kind == "preempt":
        return " ".join(["preempts", *sorted(decision.victims)])
    return decision.requeue or "admitted"


def decide(where: State, heads: Iterable[Pending]) -> dict[str, str]:
    """One cycle, in the order of its decisions."""
    decisions = run(where, [Head(item, {}) for item in heads])
    return {decision.item.uid: told(decision) for decision in decisions}


@pytest.mark.parametrize("name", test_quota.EXAMPLES)
def test_quota_examples(name: str) -> None:
    """§4, the table: available and potential."""
    example = test_quota.EXAMPLES[name]
    queues = {queue.name: queue for queue in example.queues}
    cohorts = {cohort.name: cohort for cohort in example.cohorts}
    used = zip(example.queues, example.usage, strict=True)
    charges = [Charge(queue.name, GPU, amount) for queue, amount in used]
    tree = Books(World(queues, cohorts).tree, charges)

    nodes = [Node("queue", queue.name) for queue in example.queues]
    assert [tree.free(node, GPU) for node in nodes] == example.available
    assert [tree.potential(node, GPU) for node in nodes] == example.potential


CLASSICAL = [
    *test_preemption.IN_ONE_QUEUE,
    *test_preemption.IN_THE_COHORT,
    *test_preemption.WHILE_BORROWING,
    *test_hierarchy.TREES,
]


@pytest.mark.parametrize(("things", "wants", "expected"), CLASSICAL)
def test_classical_preemption(
    things: tuple[Thing, ...], wants: Pending, expected: dict[str, str]
) -> None:
    """§6.1."""
    assert victims(state(*things), wants) == expected


@pytest.mark.parametrize(
    ("things", "rules", "wants", "expected"),
    [*test_fair_preemption.EXAMPLES, *test_fair_preemption.TREES],
)
def test_fair_preemption_examples(
    things: tuple[Thing, ...], rules: Rules, wants: Pending, expected: dict[str, str]
) -> None:
    """§6.3."""
    assert victims(state(*things, rules=rules), wants) == expected


@pytest.mark.parametrize(("things", "heads", "answers"), [*test_cycle.ORDER, *test_cycle.TOGETHER])
def test_cycles(things: tuple[Thing, ...], heads: list[Pending], answers: dict[str, str]) -> None:
    """§7.3, §7.5."""
    assert decide(state(*things), heads) == answers


@pytest.mark.parametrize(
    ("weight", "order"),
    [
        (1.0, {"c": "admitted", "a": "admitted", "b": "FailedAfterNomination"}),
        (4.0, {"c": "admitted", "b": "admitted", "a": "FailedAfterNomination"}),
    ],
)
def test_fair_order(weight: float, order: dict[str, str]) -> None:
    """§7.4, the example: shares with the entry, as they are after what was admitted before."""
    queues: list[ClusterQueue] = [
        one("a", 3, "c"),
        one("b", 3, "c", fair_weight=weight),
        one("c", 3, "c"),
    ]
    held = [holds("old-a", "a", 3), holds("old-b", "b", 4)]
    heads = [job(name, name, 1) for name in "abc"]
    found = decide(state(*queues, *held, rules=FAIR), heads)
    assert list(found.items()) == list(order.items())


RECORDED = [
    pytest.param(json.loads(line), id=json.loads(line)["id"])
    for file in FILES
    for line in file.read_text().splitlines()
]


@pytest.mark.parametrize("scenario", RECORDED)
async def test_recorded_decisions(
    scenario: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a real Kueue decided, reasons included."""
    monkeypatch.setattr(replays, "Scheduler", ModelScheduler)
    outcome = await replays.replay(scenario)
    assert (outcome.mismatches, outcome.hints) == ([], [])
