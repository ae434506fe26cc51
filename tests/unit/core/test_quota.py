"""The quota tree against Kueue's worked examples, and the laws it has to keep."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.quantity import UNLIMITED, parse_quota
from federation.core.quota import QuotaNode, QuotaTree
from federation.core.types import ClusterQueue, Cohort, FlavorResource, Quota
from tests.unit.core.build import FEW, GPU, co, cq, group, one, quota
from tests.unit.core.stage import charged


@dataclass(frozen=True)
class Example:
    """A tree of the specification, with usage and what must come out, per ClusterQueue."""

    cohorts: list[Cohort]
    queues: list[ClusterQueue]
    usage: list[int]
    available: list[int]
    potential: list[int]


# Amounts are those of the specification times 10, so that example B's halves are whole.
EXAMPLES = {
    "A: a shared pool, one queue that may borrow 2, one that lends 5": Example(
        [co("c", 100)],
        [one("1", 100, "c"), one("2", quota(100, bl=20), "c"), one("3", quota(100, ll=50), "c")],
        [200, 100, 60],
        [40, 20, 40],
        [350, 120, 400],
    ),
    "B: a lending limit keeps 1 back": Example(
        [co("c", 100)],
        [one("1", 100, "c"), one("2", quota(100, ll=90), "c")],
        [10, 5],
        [280, 285],
        [290, 300],
    ),
    "C: nothing is lent across the tree": Example(
        [co("root"), co("left", 100, "root"), co("right", 100, "root")],
        [one("1", 100, "left"), one("2", quota(100, ll=0), "right")],
        [100, 50],
        [200, 250],
        [300, 400],
    ),
    "D: a cohort with a borrowing limit": Example(
        [co("root"), co("left", quota(100, bl=50), "root"), co("right", 100, "root")],
        [one("1", 100, "left"), one("2", quota(100, bl=50), "left"), one("3", 100, "right")],
        [0, 0, 0],
        [350, 150, 500],
        [350, 150, 500],
    ),
    "E: lending limits at two levels": Example(
        [co("root"), co("left", quota(0, ll=50), "root"), co("right", 0, "root")],
        [
            one("1", quota(100, ll=50), "left"),
            one("2", 100, "left"),
            one("3", 0, "right"),
            one("4", 0, "root"),
        ],
        [0, 0, 0, 0],
        [200, 150, 50, 50],
        [200, 150, 50, 50],
    ),
    "F: over-use of the pool reaches the queue that lends and borrows nothing": Example(
        [co("c", 100)],
        [one("1", 100, "c"), one("2", quota(100, bl=0, ll=0), "c")],
        [310, 0],
        [0, 0],
        [200, 100],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name: str) -> None:
    """kueue-admission.md §4, table of worked examples."""
    example = EXAMPLES[name]
    tree = QuotaTree(example.queues, example.cohorts)
    for queue, used in zip(example.queues, example.usage, strict=True):
        tree.add(queue.name, {GPU: used})

    names = [queue.name for queue in example.queues]
    assert [tree.available(name, GPU) for name in names] == example.available
    assert [tree.potential(name, GPU) for name in names] == example.potential


def test_a_queue_uses_only_what_it_lists() -> None:
    """Item 18: even if its cohort has quota for other flavors."""
    tree = QuotaTree(
        [one("1", 10, "c"), cq("2", group("gpu", g=(quota(3),)), cohort="c")], [co("c", 100)]
    )

    assert tree.available("2", GPU) == tree.potential("2", GPU) == 0
    assert tree.available("2", FlavorResource("g", "gpu")) == 3


def test_limits_mean_nothing_without_a_cohort() -> None:
    """Validation bars them; if they are there anyway they are ignored."""
    tree = QuotaTree([one("1", quota(10, bl=5, ll=3))])

    assert tree.available("1", GPU) == tree.potential("1", GPU) == 10


def test_a_cohort_that_is_only_named() -> None:
    """Item 113: it exists, with no quota of its own: its queues lend to each other."""
    tree = QuotaTree([one("1", 10, "named"), one("2", 5, "named")])

    assert tree.available("1", GPU) == 15
    tree.add("2", {GPU: 12})
    assert tree.available("1", GPU) == 3


def test_a_parent_that_is_only_named() -> None:
    """The parent of a cohort need not exist as an object either."""
    tree = QuotaTree(
        [one("1", 1, "left"), one("2", 2, "right")], [co("left", 4, "top"), co("right", 8, "top")]
    )

    assert tree.available("1", GPU) == tree.available("2", GPU) == 15


@pytest.mark.parametrize(
    "cohorts",
    [
        [co("x", 1, "x")],
        [co("x", 1, "y"), co("y", 1, "x")],
        [co("x", 1, "y"), co("y", 1, "z"), co("z", 1, "y")],
    ],
)
def test_a_cycle_of_cohorts(cohorts: list[Cohort]) -> None:
    """Item 112: queues in it or below it have nothing; queues elsewhere are not touched."""
    tree = QuotaTree([one("in", 5, "x"), one("out", 7), one("named", 3, "other")], cohorts)

    assert tree.cyclic == {"in"}
    assert tree.available("in", GPU) == tree.potential("in", GPU) == 0
    tree.add("in", {GPU: 3})
    tree.remove("in", {GPU: 3})
    assert tree.available("out", GPU) == 7
    assert tree.available("named", GPU) == 3


@pytest.mark.parametrize(("depth", "free"), [(200, 7), (201, 0), (3000, 0)])
def test_cohorts_that_are_too_deep(depth: int, free: int) -> None:
    """They are taken for a cycle, in any order; up to there everything works."""
    chain = [co(f"c{n:04}", 0, f"c{n + 1:04}") for n in range(depth - 1)]
    top = co(f"c{depth - 1:04}", 3)
    tree = QuotaTree([one("q", 4, "c0000"), one("top", 0, top.name)], [*reversed(chain), top])

    assert tree.available("q", GPU) == free
    assert ("q" in tree.cyclic) is (free == 0)
    tree.add("q", {GPU: free})
    assert tree.available("q", GPU) == 0
    assert tree.available("top", GPU) == (0 if free else 3)


def test_unknown_queues_are_ignored() -> None:
    """A queue that is deleted while jobs hold its quota takes the usage with it."""
    tree = QuotaTree([one("1", 5)])
    tree.add("gone", {GPU: 3})
    tree.remove("gone", {GPU: 3})

    assert tree.available("gone", GPU) == tree.potential("gone", GPU) == 0
    assert tree.usage("gone") == {}


@pytest.mark.parametrize(("used", "more", "borrows"), [(0, 10, False), (0, 11, True), (8, 3, True)])
def test_borrows(used: int, more: int, borrows: bool) -> None:
    """borrowingWith of §4: usage with the request is above the queue's own nominal quota."""
    tree = QuotaTree([one("1", 10, "c")], [co("c", 100)])
    tree.add("1", {GPU: used})

    assert tree.queues["1"].borrows(GPU, more) is borrows
    assert tree.queues["1"].within_nominal([GPU])


@pytest.mark.parametrize(
    ("amount", "level", "reclaims"),
    [
        (4, 0, True),
        (5, 1, True),
        (8, 1, True),
        (9, 2, True),
        (14, 2, True),
        (15, 3, False),
        (99, 3, False),
    ],
)
def test_borrow_level(amount: int, level: int, reclaims: bool) -> None:
    """§4: the height of the lowest cohort that has the quota itself; the root's if none has."""
    tree = QuotaTree(
        [one("q", 4, "low"), one("near", 4, "low"), one("far", 6, "mid"), one("away", 3, "top")],
        [co("low", 0, "mid"), co("mid", 0, "top"), co("top")],
    )
    assert tree.queues["q"].borrow_level(GPU, amount) == (level, reclaims)


def test_borrow_level_without_a_cohort() -> None:
    """Nothing to borrow from, and nobody to reclaim from."""
    assert QuotaTree([one("q", 4)]).queues["q"].borrow_level(GPU, 9) == (0, False)


def test_local_quota_does_not_count_on_the_way_up() -> None:
    """What a lending limit keeps back is used first, so less has to be borrowed."""
    tree = QuotaTree(
        [one("q", quota(4, ll=1), "low"), one("near", 2, "low"), one("far", 9, "top")],
        [co("low", 0, "top"), co("top")],
    )
    assert tree.queues["q"].borrow_level(GPU, 6) == (1, True), "3 of 6 are local, low has 3"
    assert tree.queues["q"].borrow_level(GPU, 7) == (2, False)


def test_local_quota_of_a_cohort_does_not_count_further_up() -> None:
    """Of 10 its cohort has 7 that it lends to nobody, so 3 are sought above."""
    tree = QuotaTree(
        [one("q", 4, "low"), one("near", 4, "low"), one("far", 5, "mid"), one("away", 9, "top")],
        [co("low", quota(0, ll=1), "mid"), co("mid", 0, "top"), co("top")],
    )
    assert tree.queues["q"].borrow_level(GPU, 10) == (2, True)


def test_quota_lowered_below_use() -> None:
    """Item 115: nothing is free until the excess is gone, not even in queues that lend."""
    queues = [one("1", 10, "c"), one("2", 5, "c")]
    tree = QuotaTree([one("1", 3, "c"), queues[1]])
    tree.add("1", {GPU: 10})

    assert tree.queues["1"].available(GPU) == -2
    assert tree.available("1", GPU) == tree.available("2", GPU) == 0
    tree.remove("1", {GPU: 5})
    assert tree.available("2", GPU) == 3


def test_a_quota_too_large_to_count_is_unlimited() -> None:
    """Item 45: sums do not overflow, and what is charged leaves it unlimited."""
    huge = parse_quota("gpu", "1e30")
    tree = QuotaTree([one("1", quota(huge), "c"), one("2", quota(huge), "c"), one("3", 7, "c")])
    assert huge == UNLIMITED
    for name in ("1", "2", "3"):
        tree.add(name, {GPU: 2**63 - 1})

    for name in ("1", "2", "3"):
        assert tree.available(name, GPU) >= UNLIMITED
        assert tree.potential(name, GPU) >= UNLIMITED


def test_an_unlimited_quota_can_be_kept_back() -> None:
    """A lending limit on it lends just that."""
    tree = QuotaTree([one("1", quota(UNLIMITED, ll=5), "c"), one("2", 1, "c")])

    assert tree.available("2", GPU) == 6
    tree.add("1", {GPU: 10**18})
    assert tree.available("2", GPU) == 6
    assert tree.available("1", GPU) > 10**30


# Laws, over trees drawn at random

LIMIT = st.none() | st.integers(0, 12)
QUEUES = ("q1", "q2", "q3", "q4")
PARENTS = {"left": "root", "right": "root", "deep": "left", "root": ""}


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[ClusterQueue], list[Cohort]]:
    """Four queues anywhere below a tree of four cohorts."""

    def amount() -> Quota:
        return Quota(draw(st.integers(0, 12)), draw(LIMIT), draw(LIMIT))

    cohorts = [co(name, amount(), parent) for name, parent in PARENTS.items()]
    queues = [one(name, amount(), draw(st.sampled_from([*PARENTS, ""]))) for name in QUEUES]
    return queues, cohorts


CHARGES = st.lists(st.tuples(st.sampled_from(QUEUES), st.integers(0, 15)), max_size=8)


@FEW
@given(trees(), CHARGES, st.randoms(use_true_random=False))
def test_remove_undoes_add(
    drawn: tuple[list[ClusterQueue], list[Cohort]], charges: list[tuple[str, int]], rng: object
) -> None:
    """Items 116 and 119: in any order, at every node up to the root."""
    tree = QuotaTree(*drawn)
    kept, gone = charges[::2], charges[1::2]
    for queue, amount in kept:
        tree.add(queue, {GPU: amount})
    before = charged(tree)
    for queue, amount in gone:
        tree.add(queue, {GPU: amount})
    rng.shuffle(gone)  # type: ignore[attr-defined]
    for queue, amount in gone:
        tree.remove(queue, {GPU: amount})

    assert charged(tree) == before


def children(node: QuotaNode) -> list[QuotaNode]:
    return [*node.cohorts, *node.queues]


@FEW
@given(trees(), CHARGES)
def test_usage_above_is_what_is_not_local(
    drawn: tuple[list[ClusterQueue], list[Cohort]], charges: list[tuple[str, int]]
) -> None:
    """U(cohort) = Σ max(0, U(child) - local(child)), whatever the order of charges."""
    tree = QuotaTree(*drawn)
    for queue, amount in charges:
        tree.add(queue, {GPU: amount})

    for node in tree._cohorts.values():
        shared = sum(max(0, c.usage.get(GPU, 0) - c.local.get(GPU, 0)) for c in children(node))
        assert node.usage.get(GPU, 0) == shared


@FEW
@given(trees(), CHARGES)
def test_taking_what_is_available(
    drawn: tuple[list[ClusterQueue], list[Cohort]], charges: list[tuple[str, int]]
) -> None:
    """What fits is charged; afterwards nothing is left there, and the root is not over-used."""
    tree = QuotaTree(*drawn)
    for queue, amount in charges:
        if amount <= tree.available(queue, GPU):
            tree.add(queue, {GPU: amount})
    for queue in QUEUES:
        free = tree.available(queue, GPU)
        assert free <= tree.potential(queue, GPU)
        tree.add(queue, {GPU: free})
        assert tree.available(queue, GPU) == 0

    for node in (*tree.queues.values(), *tree._cohorts.values()):
        if node.parent is None:
            assert node.usage.get(GPU, 0) <= node.subtree.get(GPU, 0)
