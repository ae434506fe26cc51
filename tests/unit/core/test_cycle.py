"""One scheduling cycle: who goes first, who blocks, and that nothing is over-admitted (§7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.cycle import NO_LONGER_FITS, Fit, Preempt, Wait, run_cycle
from federation.core.dispatch import Choice, NoCluster
from federation.core.policies import Rules, StopPolicy
from federation.core.reasons import Reason
from federation.core.types import Admission, ClusterQueue, LabelSelector, Pending, Quota
from tests.unit.core.build import (
    ANY,
    FEW,
    GPU,
    LOWER,
    NEVER,
    STRICT,
    co,
    cq,
    evicts,
    group,
    holds,
    item,
    job,
    one,
    pods,
    quota,
)
from tests.unit.core.stage import FAIR, Thing, decide, state, the_wait, told


def case(name: str, *things: Thing, heads: list[Pending], answers: dict[str, str]) -> Any:
    """A row of a table: what is decided on the heads, in the order in which it is."""
    return pytest.param(things, heads, answers, id=name)


def two(x: Any, y: Any, *more: Any) -> list[Thing]:
    """Queues x and y of a cohort."""
    return [one("x", x, "c"), one("y", y, "c"), *more]


ORDER = [
    case(
        "38: priority",
        *two(4, 4),
        heads=[job("a", "x", 1, 0), job("b", "y", 1, 5)],
        answers={"b": "admitted", "a": "admitted"},
    ),
    case(
        "38: then age",
        *two(4, 4),
        heads=[job("a", "x", 1, at=2.0), job("b", "y", 1, at=1.0)],
        answers={"b": "admitted", "a": "admitted"},
    ),
    case(
        "38: then UID",
        *two(4, 4),
        heads=[job("b", "x"), job("a", "y")],
        answers={"a": "admitted", "b": "admitted"},
    ),
    case(
        "37: first those that do not borrow",
        *two(4, 4),
        heads=[job("a", "x", 5, 9), job("b", "y", 1)],
        answers={"b": "admitted", "a": "admitted"},
    ),
    case(
        "example of §7.4: R, Q, P",
        *(*two(1, 1, co("c", 1)), one("z", 1, "c")),
        heads=[job("P", "x", 2, 9), job("Q", "y", 1, 1, 2.0), job("R", "z", 1, 1, 1.0)],
        answers={"R": "admitted", "Q": "admitted", "P": "admitted"},
    ),
    case(
        "39: who claims its own quota back goes before a borrower of higher priority",
        one("owner", 4, "c", preemption=evicts(NEVER, ANY)),
        *(one("guest", 0, "c"), holds("g1", "guest", 2, 50)),
        heads=[job("new", "guest", 2, 100), job("back", "owner", 4)],
        answers={"back": "preempts g1", "new": "FailedAfterNomination"},
    ),
]


@pytest.mark.parametrize(("things", "heads", "answers"), ORDER)
def test_order(things: tuple[Thing, ...], heads: list[Pending], answers: dict[str, str]) -> None:
    """§7.3: level of borrowing, priority, queue timestamp."""
    found = decide(state(*things), *heads)
    assert list(found.items()) == list(answers.items())


TOGETHER = [
    case(
        "1: what fits is admitted",
        one("q", 4),
        heads=[job("a", "q", 4)],
        answers={"a": "admitted"},
    ),
    case(
        "6: in a full queue it waits",
        *(one("q", 4), holds("h", "q", 1)),
        heads=[job("a", "q", 4)],
        answers={"a": "PreemptionNoCandidates"},
    ),
    case(
        "8: two cohorts at once",
        *(one("x", 4, "c"), one("y", 4, "d")),
        heads=[job("a", "x", 4), job("b", "y", 4)],
        answers={"a": "admitted", "b": "admitted"},
    ),
    case(
        "9: two that do not borrow",
        *two(4, 4),
        heads=[job("a", "x", 4), job("b", "y", 4)],
        answers={"a": "admitted", "b": "admitted"},
    ),
    case(
        "11 and 14: of two that borrow the same the first",
        *two(0, 0, co("c", 5)),
        heads=[job("late", "x", 3, at=2.0), job("early", "y", 3, at=1.0)],
        answers={"early": "admitted", "late": "FailedAfterNomination"},
    ),
    case(
        "13: both if it suffices for both",
        *two(0, 0, co("c", 6)),
        heads=[job("a", "x", 3), job("b", "y", 3)],
        answers={"a": "admitted", "b": "admitted"},
    ),
    case(
        "15: what a lender keeps back is used beside what it lends",
        *(one("x", quota(4, ll=2), "c"), one("y", 4, "c"), holds("h", "y", 6)),
        heads=[job("a", "x", 2)],
        answers={"a": "admitted"},
    ),
    case(
        "15: a borrower gets no more than is lent",
        *(one("x", quota(4, ll=2), "c"), one("y", 4, "c")),
        heads=[job("a", "y", 7)],
        answers={"a": "NoFit"},
    ),
    case(
        "17: up to the borrowing limit",
        *two(quota(4, bl=2), 4),
        heads=[job("a", "x", 6), job("b", "y", 2)],
        answers={"b": "admitted", "a": "admitted"},
    ),
    case(
        "17: and not beyond",
        *two(quota(4, bl=2), 4),
        heads=[job("a", "x", 7)],
        answers={"a": "NoFit"},
    ),
    case(
        "22: two that preempt, with victims of their own",
        *(one("x", 4, "c", preemption=evicts(LOWER)), one("y", 4, "c", preemption=evicts(LOWER))),
        *(holds("v", "x", 4), holds("w", "y", 4)),
        heads=[job("a", "x", 4, 1), job("b", "y", 4, 1)],
        answers={"a": "preempts v", "b": "preempts w"},
    ),
    case(
        "23: who would evict the same workload looks for another one",
        *(one(name, 2, "c", preemption=evicts(NEVER, ANY)) for name in "xy"),
        *(one("z", 0, "c"), holds("v", "z", 2, 0), holds("w", "z", 2, 1)),
        heads=[job("a", "x", 2), job("b", "y", 2)],
        answers={"a": "preempts v", "b": "preempts w"},
    ),
    case(
        "23: also in its own queue",
        one("x", 1, "c", preemption=evicts(NEVER, ANY)),
        one("z", 1, "c", preemption=evicts(LOWER)),
        *(holds("v", "z", 1, 0, at=9.0), holds("w", "z", 1, 0, at=8.0)),
        heads=[job("a", "x", 1), job("b", "z", 1, 5)],
        answers={"a": "preempts v", "b": "preempts w"},
    ),
    case(
        "23: and waits if there is none",
        *(one(name, 2, "c", preemption=evicts(NEVER, ANY)) for name in "xy"),
        *(one("z", 0, "c"), holds("v", "z", 2, 0), holds("w", "y", 2, 1)),
        heads=[job("a", "x", 2, 1), job("b", "y", 2)],
        answers={"a": "preempts v", "b": "PreemptionNoCandidates"},
    ),
    case(
        "24: who fits once these are gone waits for them",
        *(one(name, 2, "c", preemption=evicts(NEVER, ANY)) for name in "xy"),
        *(one("z", 0, "c"), holds("v", "z", 4)),
        heads=[job("a", "x", 2), job("b", "y", 2)],
        answers={"a": "preempts v", "b": "PendingPreemption"},
    ),
    case(
        "24: and keeps its quota from those after it",
        *(one("x", 2, "c", preemption=evicts(NEVER, ANY)), one("n", 0, "c")),
        *(one("y", 3, "c", preemption=evicts(NEVER, ANY)), one("z", 0, "c"), holds("v", "z", 4)),
        heads=[job("a", "x", 2, 1), job("b", "y", 3), job("d", "n", 1, 9)],
        answers={"a": "preempts v", "b": "PendingPreemption", "d": "FailedAfterNomination"},
    ),
    case(
        "25: preempting to borrow does not hinder who does not borrow",
        one("x", 0, "c", preemption=evicts(NEVER, LOWER, borrowing=True)),
        *(one("y", 2, "c"), one("z", 0, "c"), co("c", 3), holds("v", "z", 3, -1)),
        heads=[job("a", "x", 5, 9), job("b", "y", 2)],
        answers={"b": "admitted", "a": "FailedAfterNomination"},
    ),
    case(
        "26: without candidates it keeps its quota from those after it",
        *(one("x", 4, "c", preemption=evicts(LOWER, LOWER)), one("y", 0, "c")),
        *(holds("h", "x", 1, 9),),
        heads=[job("a", "x", 4, 1), job("b", "y", 3)],
        answers={"a": "PreemptionNoCandidates", "b": "FailedAfterNomination"},
    ),
    case(
        "26: but no more than its nominal quota",
        *(one("x", 4, "c", preemption=evicts(LOWER, LOWER)), one("y", 0, "c"), co("c", 1)),
        *(holds("h", "x", 2, 9), holds("i", "y", 1, 9)),
        heads=[job("a", "x", 4, 1), job("b", "y", 1)],
        answers={"a": "PreemptionNoCandidates", "b": "FailedAfterNomination"},
    ),
    case(
        "27: not if it can claim it back at any time",
        *(one("x", 4, "c", preemption=evicts(LOWER, ANY)), one("y", 0, "c")),
        *(holds("h", "x", 1, 9),),
        heads=[job("a", "x", 4, 1), job("b", "y", 3)],
        answers={"a": "PreemptionNoCandidates", "b": "admitted"},
    ),
]


def test_overlapping_victims_under_fair_sharing() -> None:
    """Item 23: the second one looks for another victim, and gets it."""
    queues = [one(name, 2, "c", preemption=evicts(NEVER, ANY)) for name in "xy"]
    held = [holds("v", "z", 2, 0), holds("w", "z", 2, 1)]
    snapshot = state(*queues, one("z", 0, "c"), *held, rules=FAIR)

    assert decide(snapshot, job("a", "x", 2), job("b", "y", 2)) == {
        "a": "preempts v",
        "b": "preempts w",
    }


@pytest.mark.parametrize(("things", "heads", "answers"), TOGETHER)
def test_heads_of_a_cycle(
    things: tuple[Thing, ...], heads: list[Pending], answers: dict[str, str]
) -> None:
    """§7.5: nominated against the same state, processed against what was decided before."""
    assert decide(state(*things), *heads) == answers


RESERVED = [
    pytest.param(quota(100), 50, 10, 50, 5, 5, id="nominal 100, 60 used: 40 of 50"),
    pytest.param(quota(100), 50, 10, 30, 5, 15, id="30 of 30"),
    pytest.param(quota(100), 60, 40, 40, 5, 5, id="nothing above nominal"),
    pytest.param(quota(0, bl=100), 60, 0, 50, 200, 100, id="28: up to the borrowing limit"),
    pytest.param(quota(0), 60, 0, 50, 200, 90, id="28: all of it without a limit"),
    pytest.param(quota(0, bl=50), 60, 0, 10, 200, 140, id="nobody gains by a limit cut below use"),
]


@pytest.mark.parametrize(("own", "firm", "weak", "wants", "shared", "left"), RESERVED)
def test_what_is_reserved_without_candidates(
    own: Quota, firm: int, weak: int, wants: int, shared: int, left: int
) -> None:
    """§7.6: it waits for cpu in vain; of the gpus others can have `left` in this cycle."""
    x = cq(
        "x",
        group("cpu gpu", f=(quota(1), own)),
        cohort="c",
        preemption=evicts(LOWER, LOWER, borrowing=own.nominal == 0),
    )
    y = cq("y", group("cpu gpu", f=(quota(0), quota(0))), cohort="c")
    held = [
        holds("firm", "x", firm, 9),
        holds("weak", "x", weak, 0),
        holds("cpu", "y", {"f/cpu": 1}, 9),
    ]
    snapshot = state(x, y, co("c", shared), *held)
    waits = job("a", "x", {"cpu": 1, "gpu": wants}, 1, at=1.0)

    def admits(amount: int) -> bool:
        answers = decide(snapshot, waits, job("b", "y", amount, at=2.0))
        assert answers["a"] == "PreemptionNoCandidates"
        return answers["b"] == "admitted"

    assert admits(left)
    assert not admits(left + 1)


def test_a_skipped_workload_keeps_its_search_and_says_why() -> None:
    """Item 14: another one of the same cycle took what it would have had."""
    snapshot = state(*two(0, 0, co("c", 5)))
    wait = the_wait(snapshot, job("late", "x", 3, at=2.0), job("early", "y", 3, at=1.0))

    assert (wait.reason, wait.message) == (Reason.WAITING_FOR_QUOTA, NO_LONGER_FITS)
    assert wait.tried == ({"gpu": -1},)


def test_overlapping_victims_in_other_flavors() -> None:
    """Item 23: it is not looked for another flavor; if the victims still overlap it is skipped."""
    amounts = group("gpu", f=(quota(2),), g=(quota(2),))
    queues = [cq(name, amounts, cohort="c", preemption=evicts(NEVER, ANY)) for name in "xy"]
    lender = cq("z", group("gpu", f=(quota(0),), g=(quota(0),)), cohort="c")
    held = [holds("v", "z", {"f/gpu": 4, "g/gpu": 4})]
    wants = [item(n, q, pods(1, "p", gpu=2), pods(1, "q", gpu=2)) for n, q in ("ax", "by")]
    decisions = run_cycle(wants, state(*queues, lender, *held))

    assert [told(d) for d in decisions] == ["preempts v", "PendingPreemption"]


def test_victims_wait_too_long_to_be_taken_twice() -> None:
    """Item 23: a victim of an earlier head is not free for a later one of another tree."""
    queues = [one(name, 2, "c", preemption=evicts(NEVER, ANY)) for name in "xy"]
    others: list[Thing] = [one("z", 0, "c"), holds("v", "z", 4), one("p", 1, "d"), one("q", 0, "d")]
    heads = [job("a", "x", 2), job("b", "p", 1), job("d", "q", 1, 9)]

    assert decide(state(*queues, *others), *heads) == {
        "a": "preempts v",
        "b": "admitted",
        "d": "FailedAfterNomination",
    }


def test_a_preemptor_says_for_how_many_it_waits() -> None:
    """§6.4: the message, and the reason of its condition."""
    queue = one("q", 4, preemption=evicts(LOWER))
    held = [holds("v", "q", 2), holds("w", "q", 2)]
    (decision,) = run_cycle([job("a", "q", 4, 1)], state(queue, *held))

    assert isinstance(decision, Preempt)
    assert decision.reason is Reason.WAITING_FOR_PREEMPTED_WORKLOADS
    assert decision.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor f, 4"
        " more needed. Pending the preemption of 2 workload(s)"
    )


def test_a_closed_preemption_gate() -> None:
    """Item 44: it would preempt, and must not; the next search starts anew."""
    queue = one("q", 4, preemption=evicts(LOWER))
    gated = job("a", "q", 4, 1, preemption_gated=True)
    wait = the_wait(state(queue, holds("v", "q", 2)), gated)

    assert (told(wait), wait.tried) == ("PreemptionGated", ())
    assert "preemption gate is closed" in wait.message
    assert decide(state(queue), gated) == {"a": "admitted"}


SELECTED = LabelSelector((("kind", "prod"),))


@pytest.mark.parametrize(
    ("queue", "item", "reason", "text", "answer"),
    [
        pytest.param(
            one("q", 9, stop=StopPolicy.HOLD),
            job("a"),
            Reason.SUSPENDED,
            "stopped (Hold)",
            "Generic",
            id="108: Hold",
        ),
        pytest.param(
            one("q", 9, stop=StopPolicy.HOLD_AND_DRAIN),
            job("a"),
            Reason.SUSPENDED,
            "stopped (HoldAndDrain)",
            "Generic",
            id="108: HoldAndDrain",
        ),
        pytest.param(
            one("q", 9, namespace_selector=None),
            job("a"),
            Reason.MISCONFIGURED,
            "namespaceSelector",
            "NamespaceMismatch",
            id="7: no selector selects nothing",
        ),
        pytest.param(
            one("q", 9, namespace_selector=SELECTED, strategy=STRICT),
            job("a", namespace="elsewhere"),
            Reason.MISCONFIGURED,
            "namespace elsewhere is not selected",
            "NamespaceMismatch",
            id="7: even in StrictFIFO",
        ),
        pytest.param(
            one("another", 9),
            job("a"),
            Reason.MISCONFIGURED,
            "ClusterQueue q does not exist",
            "Generic",
            id="5: no such queue",
        ),
        pytest.param(
            one("q", 9, cohort="x"),
            job("a"),
            Reason.SUSPENDED,
            "form a cycle",
            "Generic",
            id="112: a cycle of cohorts",
        ),
        pytest.param(
            one("q", 9),
            job("a", problem="requests must not exceed limits: cpu"),
            Reason.MISCONFIGURED,
            "requests must not exceed limits: cpu",
            "Generic",
            id="35: requests above limits",
        ),
        pytest.param(
            one("q", 9),
            job("a", problem="didn't satisfy LimitRange constraints: cpu"),
            Reason.MISCONFIGURED,
            "didn't satisfy LimitRange constraints: cpu",
            "Generic",
            id="36: against a LimitRange",
        ),
    ],
)
def test_what_is_not_looked_at(
    queue: ClusterQueue, item: Pending, reason: Reason, text: str, answer: str
) -> None:
    """§7.2: and why."""
    wait = the_wait(state(queue, co("x", 1, "x")), item)

    assert (wait.reason, told(wait)) == (reason, answer)
    assert text in wait.message


def test_a_namespace_that_is_selected() -> None:
    """Item 7: by its labels."""
    queue = one("q", 9, namespace_selector=SELECTED)
    assert decide(state(queue), job("a")) == {"a": "admitted"}


def test_one_workload_after_the_other_gets_ready() -> None:
    """Item 117: with blockAdmission one is admitted at a time, and none while pods are unready."""
    rules = Rules(block_admission=True)
    queues = [one("x", 4), one("y", 4)]
    heads = [job("a", "x", at=1.0), job("b", "y", at=2.0)]

    blocked = "FailedAfterNomination"
    assert decide(state(*queues, rules=rules), *heads) == {"a": "admitted", "b": blocked}
    unready = holds("h", "x", 1, pods_ready=False)
    assert decide(state(*queues, unready, rules=rules), *heads) == {"a": blocked, "b": blocked}
    wait = the_wait(state(*queues, unready, rules=rules), *heads)
    assert wait.reason is Reason.WAITING_FOR_PODS_READY
    ready = holds("h", "x", 1)
    assert decide(state(*queues, ready, rules=rules), heads[0]) == {"a": "admitted"}


def place_on_a(what: Pending, fit: Admission) -> Choice | NoCluster:
    return Choice("a", "wq", fit.usage())


def test_a_cluster_is_chosen() -> None:
    """On the manager each fit carries its cluster."""
    (decision,) = run_cycle([job("a")], state(one("q", 4)), place_on_a)
    assert isinstance(decision, Fit)
    assert decision.choice == Choice("a", "wq", {GPU: 1})


@pytest.mark.parametrize("retry_at", [None, 55.0])
def test_no_cluster(retry_at: float | None) -> None:
    """It waits and holds no quota, so another one of the cohort is admitted."""
    reasons = {"a": "gpu: 0 free"}

    def place(what: Pending, fit: Admission) -> Choice | NoCluster:
        return NoCluster(reasons, retry_at) if what.uid == "big" else place_on_a(what, fit)

    heads = [job("big", "x", 4, 1), job("small", "y", 4)]
    decisions = run_cycle(heads, state(*two(2, 2)), place)
    answers = {d.item.uid: told(d) for d in decisions}
    (wait,) = [d for d in decisions if isinstance(d, Wait)]

    assert answers == {"big": "NoCluster", "small": "admitted"}
    assert wait.retry_at == retry_at
    assert "a: gpu: 0 free" in wait.message


LIMIT = st.none() | st.integers(0, 6)


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 8), LIMIT, LIMIT), min_size=3, max_size=3),
    st.integers(0, 8),
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 3)),
        min_size=3,
        max_size=3,
    ),
    st.booleans(),
)
def test_nothing_is_over_admitted(
    queues: list[tuple[int, int | None, int | None]],
    shared: int,
    work: list[tuple[int, int, int]],
    fair: bool,
) -> None:
    """For any queues and heads: what is admitted fits together, and what was left does not.

    Each fitted when it was charged, in the order of the decisions; who was not admitted does not
    fit beside them.
    """
    specs = [one(str(n), quota(*amounts), "c") for n, amounts in enumerate(queues)]
    snapshot = state(*specs, co("c", shared), rules=FAIR if fair else None)
    heads = [
        job(f"u{n}", str(n), amount, priority, float(at))
        for n, (amount, priority, at) in enumerate(work)
    ]
    decisions = run_cycle(heads, snapshot)

    assert sorted(d.item.uid for d in decisions) == ["u0", "u1", "u2"], "one decision each"
    tree = snapshot.tree
    for decision in decisions:
        if isinstance(decision, Fit):
            usage = decision.admission.usage()
            assert usage.get(GPU, 0) <= tree.available(decision.item.cluster_queue, GPU)
            tree.add(decision.item.cluster_queue, usage)
    for decision in decisions:
        if isinstance(decision, Wait):
            needed = decision.item.pod_sets[0].requests["gpu"]
            assert needed > tree.available(decision.item.cluster_queue, GPU)
