"""Why a workload waits: Kueue's sentence, numbers, who holds them, and what would change it."""

from __future__ import annotations

import pytest

from federation.core.cycle import Preempt, Requeue, Wait, run_cycle
from federation.core.dispatch import NoCluster
from federation.core.policies import StopPolicy
from federation.core.reasons import Reason
from federation.core.snapshot import Snapshot
from federation.core.types import ClusterQueue, Pending
from federation.core.why import Explainer, Explanation, HeldBy, preemption_message, standstill
from tests.unit.core.build import LOWER, co, cq, evicts, group, holds, item, job, one, pods, quota
from tests.unit.core.stage import state, the_wait


def explain(decision: Wait | Preempt, snapshot: Snapshot) -> Explanation:
    return Explainer(snapshot).explain(decision)


def preempt(snapshot: Snapshot, what: Pending) -> Preempt:
    (found,) = run_cycle([what], snapshot)
    assert isinstance(found, Preempt), found
    return found


def test_numbers_and_holders() -> None:
    """Needed, free, nominal and most; the largest holders first, three of them."""
    held = [holds("a", "q", 1), holds("b", "q", 3), holds("c", "q", 1), holds("d", "q", 2)]
    snapshot = state(one("q", 8), *held)
    why = explain(the_wait(snapshot, job("j", "q", 4)), snapshot)

    (short,) = why.shortages
    assert (short.pod_set, short.flavor, short.resource) == ("main", "f", "gpu")
    assert (short.needed, short.free, short.borrowable) == (4, 1, 0)
    assert (short.nominal, short.most, short.missing) == (8, 8, 3)
    assert [(h.name, h.amount) for h in short.held_by] == [("b", 3), ("d", 2), ("a", 1)]
    assert short.text().endswith("held by team/b (3), team/d (2), team/a (1) and others")
    assert (why.reason, why.requeue) == ("WaitingForQuota", "PreemptionNoCandidates")


def test_the_message_is_kueues_text_then_ours() -> None:
    """The sentence, the numbers, the advice; the advice again on its own."""
    snapshot = state(one("q", 4), holds("big", "q", 3))
    why = explain(the_wait(snapshot, job("j", "q", 2)), snapshot)

    assert why.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor f,"
        " 1 more needed. gpu in flavor f: 2 needed, 1 free, nominal quota 4, at most 4; held by"
        f" team/big (3). {why.hint}"
    )
    assert why.hint == (
        "It starts when 1 more gpu in flavor f is free: when workloads that hold it end, or when"
        " nominalQuota of ClusterQueue q is raised"
    )


def test_what_others_lend() -> None:
    """Free is split into own and lent; behind the own holders come those that borrow."""
    queues = [one("q", 2, "c"), one("rich", 6, "c"), one("poor", 0, "c")]
    held = [holds("mine", "q", 1), holds("within", "rich", 5), holds("lent", "poor", 1)]
    snapshot = state(*queues, *held)
    why = explain(the_wait(snapshot, job("j", "q", 4)), snapshot)

    (short,) = why.shortages
    assert (short.free, short.borrowable, short.nominal, short.most) == (1, 0, 2, 8)
    assert [h.name for h in short.held_by] == ["mine", "lent", "within"]
    assert short.held_by[1] == HeldBy("team", "lent", "poor", 1)


def test_borrowable() -> None:
    """What is free beyond the own quota."""
    snapshot = state(one("q", 2, "c"), one("rich", 4, "c"), holds("x", "rich", 1))
    why = explain(the_wait(snapshot, job("j", "q", 6)), snapshot)

    (short,) = why.shortages
    assert (short.free, short.borrowable) == (5, 3)
    assert "5 free (3 of that borrowed)" in why.message


def test_numbers_are_those_of_the_decision() -> None:
    """What was admitted between the decision and its explanation makes nothing look borrowed."""
    snapshot = state(one("q", 4))
    wait = the_wait(snapshot, job("j", "q", 6))
    snapshot.tree.add("q", holds("later", "q", 1).usage)
    (short,) = explain(wait, snapshot).shortages

    assert (short.free, short.borrowable) == (4, 0)


def test_amounts_are_texts_as_in_manifests() -> None:
    """Milli-cpu and bytes."""
    queue = cq("q", group("cpu memory", f=(quota(1500), quota(2**30))))
    snapshot = state(queue)
    why = explain(the_wait(snapshot, item("j", "q", pods(cpu=2000, memory=2**31))), snapshot)

    assert "cpu in flavor f: 2 needed, 1500m free" in why.message
    assert "memory in flavor f: 2Gi needed, 1Gi free" in why.message
    assert why.reason == "ExceedsMaxQuota"


def test_what_can_never_fit_is_held_by_nobody() -> None:
    """The end of others would not help, and the advice does not say so."""
    snapshot = state(one("q", 4), holds("big", "q", 3))
    why = explain(the_wait(snapshot, job("j", "q", 5)), snapshot)

    assert why.shortages[0].held_by == ()
    assert "can never fit" in why.hint


def test_the_nearest_flavor_is_advised() -> None:
    """Of several, the one that lacks the smallest part."""
    queue = cq("q", group("gpu", far=(quota(8),), near=(quota(8),)))
    held = [holds("x", "q", {"far/gpu": 8}), holds("y", "q", {"near/gpu": 5})]
    snapshot = state(queue, *held)
    why = explain(the_wait(snapshot, job("j", "q", 4)), snapshot)

    assert [s.flavor for s in why.shortages] == ["far", "near"]
    assert why.hint.startswith("It starts when 1 more gpu in flavor near is free")


def test_what_has_no_numbers() -> None:
    """A resource that the queue does not have: a sentence and advice."""
    snapshot = state(one("q", 4))
    why = explain(the_wait(snapshot, item("j", "q", pods(tpu=1))), snapshot)

    assert (why.reason, why.shortages) == ("NoMatchingFlavor", ())
    assert "give ClusterQueue q a flavor that suits it" in why.hint


def test_a_preemptor() -> None:
    """It waits for its victims."""
    snapshot = state(one("q", 4, preemption=evicts(within=LOWER)), holds("v", "q", 4))
    why = explain(preempt(snapshot, job("j", "q", 1, priority=5)), snapshot)

    assert (why.reason, why.requeue) == ("WaitingForPreemptedWorkloads", "PendingPreemption")
    assert why.message.endswith(
        "Pending the preemption of 1 workload(s). gpu in flavor f: 1 needed, 0 free, nominal quota"
        " 4, at most 4; held by team/v (4). It starts when the pods of the workloads preempted for"
        " it have stopped"
    )


def test_no_cluster() -> None:
    """The quota is there: the clusters' words, and what would help there."""
    snapshot = state(one("q", 4))
    (wait,) = run_cycle([job("j", "q", 1)], snapshot, lambda *_: NoCluster({"a": "no room"}))
    assert isinstance(wait, Wait)
    why = explain(wait, snapshot)

    assert why.message == (
        "no worker cluster can take it: a: no room. It starts when a worker cluster has room: when"
        " jobs there end, its queues get more quota, a cluster comes back, or what is said of one"
        " above is put right"
    )
    assert (why.requeue, why.shortages) == ("NoCluster", ())


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_advice(reason: Reason) -> None:
    """Whatever a wait may give as its reason, in a queue that may be gone."""
    wait = Wait(job("j", "nowhere", 1), reason, "text.", Requeue.GENERIC)
    why = explain(wait, state(one("q", 4)))

    assert why.hint
    assert why.message == f"text. {why.hint}"


def test_one_explainer_for_many() -> None:
    """What it remembers does not change what it says."""
    queues = [one("a", 1, "c"), one("b", 1, "c"), one("d", 8, "c")]
    held = [holds(f"{name}{n}", name, 1) for name in ("a", "d") for n in range(5)]
    snapshot = state(*queues, co("c"), *held)
    explainer = Explainer(snapshot)
    for queue in ("a", "b", "d", "a"):
        wait = the_wait(snapshot, job("j", queue, 5))
        assert explainer.explain(wait) == explain(wait, snapshot)


@pytest.mark.parametrize(
    ("queue", "lost", "text"),
    [
        (one("q", 1), (), ""),
        (one("other", 1), (), "does not exist"),
        (one("q", 1, stop=StopPolicy.HOLD), (), "stopped (Hold)"),
        (one("q", 1, terminating=True), (), "being deleted"),
        (one("q", 1), ("f",), "ResourceFlavor f does not exist"),
    ],
)
def test_why_a_queue_stands_still(queue: ClusterQueue, lost: tuple[str, ...], text: str) -> None:
    """Each way that its heads are not looked at; '' if they are."""
    found = standstill("q", state(queue, lost=lost), {})
    assert text in found
    assert bool(found) is bool(text)


def test_a_cycle_of_cohorts() -> None:
    """All queues below stand still."""
    snapshot = state(one("q", 1, "a"), co("a", parent="b"), co("b", parent="a"))
    assert "form a cycle" in standstill("q", snapshot, {})


def test_the_message_of_a_preemption() -> None:
    """Kueue's format: UIDs of Workload and job, why, and both paths from the root."""
    queue = one("q", 2, "child", preemption=evicts(within=LOWER))
    snapshot = state(queue, co("child", parent="root"), holds("v", "q", 2))
    found = preempt(snapshot, job("j", "q", 1, priority=5))
    (victim,) = found.victims

    text = preemption_message(found, victim.holder, victim.reason, snapshot, "w-uid")
    assert text == (
        "Preempted to accommodate a workload (UID: w-uid, JobUID: j) due to prioritization in the"
        " ClusterQueue; preemptor path: /root/child/q; preemptee path: /root/child/q"
    )
    unknown = preemption_message(found, victim.holder, victim.reason, snapshot, "")
    assert "(UID: UNKNOWN, JobUID: j)" in unknown
