"""One scheduling cycle: who goes first, who blocks, and that nothing is over-admitted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.cycle import Decision, Fit, Snapshot, Wait, run_cycle
from federation.core.dispatch import Choice, NoCluster
from federation.core.flavors import Reason
from federation.core.policies import QueueingStrategy, StopPolicy
from federation.core.quota import QuotaTree
from federation.core.types import (
    Admission,
    ClusterQueue,
    Cohort,
    FlavorResource,
    LabelSelector,
    Pending,
)
from tests.unit.core.build import FEW, co, flavors, item, one, pods, quota

GPU = FlavorResource("f", "gpu")
STRICT = QueueingStrategy.STRICT_FIFO


def snapshot(
    *queues: ClusterQueue, cohorts: tuple[Cohort, ...] = (), used: dict[str, int] | None = None
) -> Snapshot:
    """With `used` gpus charged, and one namespace `team`."""
    tree = QuotaTree(queues, cohorts)
    for name, amount in (used or {}).items():
        tree.add(name, {GPU: amount})
    return Snapshot({q.name: q for q in queues}, flavors("f"), {"team": {"kind": "prod"}}, tree)


def gpus(uid: str, amount: int, queue: str = "q", priority: int = 0, at: float = 1.0) -> Pending:
    return item(uid, queue, pods(gpu=amount), priority=priority, created=at)


def heads(*items: Pending) -> dict[str, list[Pending]]:
    """Sorted as the index would."""
    found: dict[str, list[Pending]] = {}
    for one_item in sorted(items, key=lambda i: (-i.priority, i.created, i.uid)):
        found.setdefault(one_item.cluster_queue, []).append(one_item)
    return found


def admitted(decisions: list[Decision]) -> list[str]:
    """In the order in which they were admitted."""
    return [d.item.uid for d in decisions if isinstance(d, Fit)]


def waits(decisions: list[Decision]) -> dict[str, Wait]:
    return {d.item.uid: d for d in decisions if isinstance(d, Wait)}


ORDERS = {
    "priority": ([gpus("a", 1, "x", 0), gpus("b", 1, "y", 5)], ["b", "a"]),
    "then age": ([gpus("a", 1, "x", 0, 2.0), gpus("b", 1, "y", 0, 1.0)], ["b", "a"]),
    "then uid": ([gpus("b", 1, "x"), gpus("a", 1, "y")], ["a", "b"]),
    "first those that do not borrow": (
        [gpus("a", 5, "x", 9, 1.0), gpus("b", 1, "y", 0, 2.0)],
        ["b", "a"],
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_order(name: str) -> None:
    """Queues of one cohort compete by borrowing, priority, time, UID (item 38)."""
    items, expected = ORDERS[name]
    world = snapshot(one("x", 4, "c"), one("y", 4, "c"))

    assert admitted(run_cycle(heads(*items), world)) == expected


def test_one_borrower_of_two() -> None:
    """Items 11 and 14: quota that suffices for one is given to the first in order."""
    world = snapshot(one("x", 0, "c"), one("y", 0, "c"), cohorts=(co("c", 5),))
    decisions = run_cycle(heads(gpus("late", 3, "x", 0, 2.0), gpus("early", 3, "y", 0, 1.0)), world)

    assert admitted(decisions) == ["early"]
    assert waits(decisions)["late"].reason is Reason.WAITING_FOR_QUOTA


def test_both_borrowers() -> None:
    """Item 13: where it suffices for both, both are admitted."""
    world = snapshot(one("x", 0, "c"), one("y", 0, "c"), cohorts=(co("c", 6),))

    assert len(admitted(run_cycle(heads(gpus("a", 3, "x"), gpus("b", 3, "y")), world))) == 2


def test_a_lender_is_not_robbed_in_the_same_cycle() -> None:
    """Item 9 and 38: the owner of the quota goes before a borrower of higher priority."""
    world = snapshot(one("owner", 4, "c"), one("guest", 0, "c"))
    decisions = run_cycle(heads(gpus("g", 4, "guest", 100), gpus("o", 4, "owner")), world)

    assert admitted(decisions) == ["o"]


def test_best_effort_goes_on() -> None:
    """§3 timeline: CQ 10, 6 used; X(8) before Y(3): Y is admitted, X parked."""
    decisions = run_cycle(
        heads(gpus("X", 8, at=1.0), gpus("Y", 3, at=2.0)), snapshot(one("q", 10), used={"q": 6})
    )

    assert admitted(decisions) == ["Y"]
    assert waits(decisions)["X"].parked


def test_strict_blocks() -> None:
    """The same with StrictFIFO: Y waits behind X, which stays where it is."""
    decisions = run_cycle(
        heads(gpus("X", 8, at=1.0), gpus("Y", 3, at=2.0)),
        snapshot(one("q", 10, strategy=STRICT), used={"q": 6}),
    )

    assert admitted(decisions) == []
    assert list(waits(decisions)) == ["X"]
    assert not waits(decisions)["X"].parked


def test_strict_blocks_its_own_queue_only() -> None:
    """Another queue of the cohort goes on."""
    world = snapshot(one("q", 4, "c", strategy=STRICT), one("other", 4, "c"))
    decisions = run_cycle(heads(gpus("X", 9), gpus("Y", 1), gpus("Z", 2, "other")), world)

    assert admitted(decisions) == ["Z"]


def test_a_mismatch_does_not_block_a_strict_queue() -> None:
    """Item 7: a namespace that is not selected is set aside even in StrictFIFO."""
    selector = LabelSelector((("kind", "prod"),))
    queue = one("q", 10, strategy=STRICT, namespace_selector=selector)
    alien = replace(gpus("alien", 1, at=0.5), namespace="elsewhere")
    decisions = run_cycle(heads(alien, gpus("ours", 1)), snapshot(queue))

    assert admitted(decisions) == ["ours"]
    assert waits(decisions)["alien"].parked
    assert waits(decisions)["alien"].reason is Reason.MISCONFIGURED
    assert "namespace elsewhere is not selected" in waits(decisions)["alien"].message


@pytest.mark.parametrize(
    ("queue", "reason", "text"),
    [
        (one("q", 9, stop=StopPolicy.HOLD), Reason.SUSPENDED, "stopped (Hold)"),
        (one("q", 9, stop=StopPolicy.HOLD_AND_DRAIN), Reason.SUSPENDED, "stopped (HoldAndDrain)"),
        (one("q", 9, namespace_selector=None), Reason.MISCONFIGURED, "namespaceSelector"),
        (one("another", 9), Reason.MISCONFIGURED, "ClusterQueue q does not exist"),
        (one("q", 9, cohort="x"), Reason.SUSPENDED, "form a cycle"),
    ],
)
def test_queues_that_admit_nothing(queue: ClusterQueue, reason: Reason, text: str) -> None:
    """And why."""
    world = snapshot(queue, cohorts=(co("x", 1, "x"),))
    decisions = run_cycle(heads(gpus("a", 1)), world)

    assert admitted(decisions) == []
    assert waits(decisions)["a"].reason is reason
    assert text in waits(decisions)["a"].message


def test_one_answer_for_a_shape() -> None:
    """§3 equivalence: the twin of what did not fit is not looked at; another shape is."""
    decisions = run_cycle(
        heads(gpus("a", 8, at=1.0), gpus("twin", 8, at=2.0), gpus("small", 1, at=3.0)),
        snapshot(one("q", 4)),
    )

    assert set(waits(decisions)) == {"a"}
    assert admitted(decisions) == ["small"]


def test_the_whole_queue_in_one_cycle() -> None:
    """Not only its head: several passes until nothing more fits."""
    world = snapshot(one("q", 3))
    decisions = run_cycle(heads(*(gpus(str(n), 1, at=float(n)) for n in range(5))), world)

    assert admitted(decisions) == ["0", "1", "2"]
    assert dict(world.tree.usage("q")) == {GPU: 0}, "the caller charges what it commits"


def place_on_a(what: Pending, fit: Admission) -> Choice | NoCluster:
    return Choice("a", "wq", fit.usage())


def test_a_cluster_is_chosen() -> None:
    """On the manager each fit carries its cluster."""
    (decision,) = run_cycle(heads(gpus("a", 1)), snapshot(one("q", 4)), place_on_a)
    assert isinstance(decision, Fit)
    assert decision.choice == Choice("a", "wq", {GPU: 1})


@pytest.mark.parametrize(("retry_at", "personal"), [(None, False), (55.0, True)])
def test_no_cluster(retry_at: float | None, personal: bool) -> None:
    """It waits and holds no quota; with a time to retry the answer is about this one only."""
    world = snapshot(one("q", 4))
    reasons = {"a": "gpu: 0 free"}

    def place(what: Pending, fit: Admission) -> Choice | NoCluster:
        return NoCluster(reasons, retry_at) if what.uid == "big" else place_on_a(what, fit)

    decisions = run_cycle(heads(gpus("big", 4, at=0.5), gpus("small", 2)), world, place)
    wait = waits(decisions)["big"]

    assert admitted(decisions) == ["small"]
    assert (wait.retry_at, wait.shape == "") == (retry_at, personal)
    assert "a: gpu: 0 free" in wait.message


LIMIT = st.none() | st.integers(0, 6)


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 8), LIMIT, LIMIT, st.booleans()), min_size=3, max_size=3),
    st.integers(0, 8),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 2), st.integers(0, 3)),
        max_size=10,
    ),
)
def test_nothing_is_over_admitted(
    queues: list[tuple[int, int | None, int | None, bool]],
    shared: int,
    work: list[tuple[int, int, int, int]],
) -> None:
    """For any queues and workloads: what is admitted fits together, and what was left does not.

    After charging the fits one by one each fitted when it was charged, the cohort is not over-used,
    and every workload that got a final answer in a BestEffortFIFO queue does not fit now either.
    """
    specs = [
        one(
            str(n),
            quota(nominal, bl, ll),
            "c",
            strategy=STRICT if strict else QueueingStrategy.BEST_EFFORT_FIFO,
        )
        for n, (nominal, bl, ll, strict) in enumerate(queues)
    ]
    world = snapshot(*specs, cohorts=(co("c", shared),))
    items = [
        gpus(f"u{n}", amount, str(queue), priority, float(at))
        for n, (queue, amount, priority, at) in enumerate(work)
    ]
    decisions = run_cycle(heads(*items), world)

    uids = [d.item.uid for d in decisions]
    assert len(uids) == len(set(uids)), "one decision each"
    for decision in decisions:
        if isinstance(decision, Fit):
            usage = decision.admission.usage()
            free = world.tree.available(decision.item.cluster_queue, GPU)
            assert usage.get(GPU, 0) <= free
            world.tree.add(decision.item.cluster_queue, usage)
    for decision in decisions:
        if isinstance(decision, Wait):
            needed = decision.item.pod_sets[0].requests["gpu"]
            assert needed > world.tree.available(decision.item.cluster_queue, GPU)
