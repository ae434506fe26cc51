"""What follows for an elastic job from what it asks for, was given, and runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import elastic
from federation.core import events as on
from federation.core.checks import AdmissionCheckState, CheckState
from federation.core.devices.wants import PodWants
from federation.core.dispatch import Refusal
from federation.core.facts import Eviction, JobState, Queues
from federation.core.failover import Standing
from federation.core.lifecycle import step, wake_at
from federation.core.policies import AdmissionCheck
from federation.core.queueing import shape
from federation.core.sizes import Asked, Counts, Growing, Size
from federation.core.stay import LifeRules
from federation.core.types import Admission, Growth, Pending, PodSetAssignment
from tests.unit.core.build import (
    ANY,
    NEWER,
    behind,
    copy,
    cq,
    evicts,
    group,
    holds,
    item,
    job,
    local,
    one,
    quota,
    record,
)
from tests.unit.core.build import pods as pod_set
from tests.unit.core.stage import decide, state

NOW = 1000.0
RULES = LifeRules(behind)


def admitted(count: int, each: int = 2) -> Admission:
    """So many pods of two gpus."""
    given = PodSetAssignment("main", count, {"gpu": "f"}, {"gpu": each * count})
    return Admission("q", (given,))


def of(pods: int) -> Counts:
    """Pods of the only set."""
    return {"main": pods}


def known(asks: int, has: int, runs: int, growth: Asked | None = None, **more: Any) -> JobState:
    """A job that runs: asks for so many pods, has quota for so many, its copy runs so many. The
    keys of `ours`, `theirs` and `there` are fields of job, record and copy.
    """
    ours, theirs, there = (more.pop(key, {}) for key in ("ours", "theirs", "there"))
    fields: dict[str, Any] = {"admission": admitted(has), "counts": {"main": asks}, **theirs}
    fields["elastic"] = fields.get("elastic", True)
    where: dict[str, Any] = {"suspended": False, "growth": growth or Asked(), **there}
    found = copy(size=Size(of(runs), of(runs), of(runs)), **where)
    return JobState(
        local=local(
            suspended=False,
            started=True,
            pod_sets=(pod_set(asks, gpu=2, **ours.pop("pods", {})),),
            **{"elastic": True, **ours},
        ),
        record=record("a", 1, admitted=True, **fields),
        remotes={"a": found},
        was_running=True,
        **more,
    )


def planned(facts: JobState) -> tuple[do.Effect, ...]:
    return step(facts, on.Tick(), NOW, RULES)[1]


UID = "copy-a-1"
WAITS = ("WaitingForQuota", "0 free")
SAID = "It runs 2 pods and asks for 4: 0 free"
CHECKED = Queues(cluster=one("q", 9, checks=(AdmissionCheck("budget"),)))

PLANS: dict[str, tuple[JobState, tuple[do.Effect, ...]]] = {
    "as it is": (known(2, 2, 2), ()),
    # Larger
    "larger, and the record does not say so": (
        known(4, 2, 2, theirs={"counts": {"main": 2}}),
        (do.SetPodCounts(),),
    ),
    "larger, to be queued": (known(4, 2, 2), (do.EnqueueGrowth(of(2)),)),
    "larger, queued": (known(4, 2, 2, growing=Growing(of(2), 0)), ()),
    "larger, queued with another number": (
        known(5, 2, 2, growing=Growing(of(2), 0)),
        (do.EnqueueGrowth(of(3)),),
    ),
    "larger, queued with another priority": (
        known(4, 2, 2, growing=Growing(of(2), 7)),
        (do.EnqueueGrowth(of(2)),),
    ),
    "larger, told why not": (
        known(4, 2, 2, growing=Growing(of(2), 0), growth_waits=WAITS),
        (do.SetScaling("WaitingForQuota", SAID),),
    ),
    "larger, and that is written": (
        known(
            4,
            2,
            2,
            growing=Growing(of(2), 0),
            growth_waits=WAITS,
            theirs={"scaling": ("WaitingForQuota", SAID)},
        ),
        (),
    ),
    "larger, placed": (
        known(4, 2, 2, growing=Growing(of(2), 0), grown=admitted(2)),
        (do.Regrant(admitted(4)),),
    ),
    "larger, granted": (known(4, 4, 2), (do.AskForMore("a", UID, of(4)),)),
    "larger, asked": (known(4, 4, 2, Asked(of(4))), ()),
    "larger, asked for another number": (
        known(5, 4, 2, Asked(of(3))),
        (do.AskForMore("a", UID, of(4)),),
    ),
    "larger, done": (known(4, 4, 4), ()),
    "larger, done, and it waited before": (
        known(4, 4, 4, theirs={"scaling": ("WaitingForQuota", SAID)}),
        (do.SetScaling("", ""),),
    ),
    "larger, refused": (known(4, 4, 2, Asked(of(4), "no room")), (do.Regrant(admitted(2)),)),
    "refused and given back": (known(4, 2, 2, Asked(of(4), "no")), (do.WithdrawGrowth("a", UID),)),
    "still larger while the agent is asked": (known(9, 4, 2, Asked(of(4))), ()),
    # Smaller
    "smaller": (known(1, 4, 4), (do.Resize("a", UID, of(1)),)),
    "smaller, and the copy is": (known(1, 4, 1), (do.Regrant(admitted(1)),)),
    "smaller while the agent is asked": (
        known(3, 4, 2, Asked(of(4))),
        (do.WithdrawGrowth("a", UID),),
    ),
    "smaller, and it is asked no more": (known(3, 4, 2), (do.Regrant(admitted(3)),)),
    "smaller than what the agent is asked for": (
        known(3, 3, 2, Asked(of(4))),
        (do.AskForMore("a", UID, of(3)),),
    ),
    "as before while the agent is asked": (
        known(2, 2, 2, Asked(of(4))),
        (do.WithdrawGrowth("a", UID),),
    ),
    "to nothing": (known(0, 4, 4), (do.Resize("a", UID, of(0)),)),
    # By others
    "somebody gave the copy more": (known(4, 2, 3), (do.Resize("a", UID, of(2)),)),
    "somebody gave the copy less": (known(4, 4, 3), (do.AskForMore("a", UID, of(4)),)),
    # Not now
    "on a cluster out of reach": (
        known(4, 4, 2, standings={"a": Standing("a", reachable=False)}),
        (),
    ),
    "held": (known(4, 4, 2, there={"suspended": True, "held": "the lease ended"}), ()),
    # Not elastic
    "of a record that does not say so": (
        known(4, 2, 2, theirs={"elastic": False, "counts": {"main": 2}}),
        (
            do.Evict(
                "OutOfSync",
                "It asks for 4 pods now and was admitted with 2",
                "",
                record().life.requeue,
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str) -> None:
    facts, effects = PLANS[name]
    assert planned(facts) == effects


def test_pods_with_cards() -> None:
    """They would need seats: the job goes on as it is, and says why."""
    facts = known(4, 2, 2)
    assert facts.local is not None
    (pods,) = facts.local.pod_sets
    sets = (replace(pods, cards=PodWants(())),)
    (said,) = planned(replace(facts, local=replace(facts.local, pod_sets=sets)))
    assert isinstance(said, do.SetScaling)
    assert said.reason == "Misconfigured"
    assert "its pods ask for cards" in said.message


def test_pods_that_ask_for_other_amounts_by_now() -> None:
    """No API server takes an admission of pods that are not alike (the defaults of a namespace may
    be others than when it was admitted): without quota that is never used it goes on, and says why.
    """
    dearer = pod_set(4, gpu=3)
    facts = known(4, 2, 2)
    assert facts.local is not None
    facts = replace(facts, local=replace(facts.local, pod_sets=(dearer,)))
    (said,) = planned(facts)
    assert isinstance(said, do.SetScaling)
    assert said.reason == "Misconfigured"
    assert "gpu" in said.message
    placed = replace(facts, growing=Growing(of(2), 0), grown=admitted(2, each=3))
    assert step(placed, on.Tick(), NOW, RULES)[0].grown is None
    none = replace(facts, record=replace(known(4, 0, 0).record, version=20))  # type: ignore[type-var]  # known
    runs = replace(facts.remotes["a"], size=Size(of(0), of(0), of(0)))
    assert planned(replace(none, remotes={"a": runs})) == (do.EnqueueGrowth(of(4)),)


def test_an_agent_that_does_not_answer() -> None:
    """It is away, or knows of no such request: the quota is not kept for it. Who is asked anew gets
    the whole time, and a request that was settled leaves nothing of it.
    """
    facts, effects = step(known(4, 4, 2), on.Tick(), NOW, RULES)
    assert effects == (do.AskForMore("a", UID, of(4)),)
    asking = replace(facts.remotes["a"], growth=Asked(of(4)), version=31)
    facts, effects = step(facts, on.RemoteSeen(asking), NOW, RULES)
    facts, effects = step(facts, on.Done(), NOW, RULES)
    assert effects == ()
    assert wake_at(facts) == NOW + elastic.ANSWER_S
    later = NOW + elastic.ANSWER_S
    facts, (no,) = step(facts, on.Tick(), later, RULES)
    assert isinstance(no, do.WithdrawGrowth)
    assert no.refused.startswith("NoAnswer: ")
    refused = replace(asking, growth=Asked(of(4), no.refused), version=32)
    facts, _ = step(facts, on.RemoteSeen(refused), later, RULES)
    facts, effects = step(facts, on.Done(), later, RULES)
    assert effects == (do.Regrant(admitted(2)),)
    again = replace(facts, record=known(4, 4, 2).record, busy=False, remotes=known(4, 4, 2).remotes)
    again, effects = step(again, on.Tick(), later, RULES)
    assert effects == (do.AskForMore("a", UID, of(4)),)
    again, _ = step(again, on.RemoteSeen(replace(asking, version=33)), later, RULES)
    again, effects = step(again, on.Done(), later, RULES)
    assert effects == ()
    assert wake_at(again) == later + elastic.ANSWER_S


def test_admission_checks_of_others() -> None:
    """They decide on whole workloads."""
    checks = (AdmissionCheckState("budget", CheckState.READY),)
    (said,) = planned(known(4, 2, 2, queues=CHECKED, theirs={"checks": checks}))
    assert isinstance(said, do.SetScaling)
    assert "(budget)" in said.message


LEAVING = {
    "evicted": {"theirs": {"evicted": "Preempted"}},
    "to be evicted": {"eviction": Eviction("Preempted", "")},
    "deactivated": {"theirs": {"active": False}},
    "deleted": {"ours": {"terminating": True}},
    "smaller again": {"ours": {}},
    "out of reach": {"standings": {"a": Standing("a", reachable=False)}},
    "ended": {"there": {"finished": "Complete"}},
    "stopped there": {"there": {"suspended": True}},
}


@pytest.mark.parametrize("placed", [False, True], ids=["waiting", "placed"])
@pytest.mark.parametrize("name", LEAVING)
def test_what_waits_goes_with_its_reason(name: str, placed: bool) -> None:
    """More pods leave the queue, or give back what was placed, first of all."""
    asks = 2 if name == "smaller again" else 4
    facts = known(asks, 2, 2, growing=Growing(of(2), 0), **LEAVING[name])  # type: ignore[arg-type]  # by name
    if placed:
        facts = replace(facts, grown=admitted(2))
    after, effects = step(facts, on.Tick(), NOW, RULES)
    assert after.grown is None
    assert after.growing is None
    assert (effects == (do.DequeueGrowth(),)) is not placed


def test_more_pods_hold_quota_while_that_is_written() -> None:
    """They may be in the record at any moment, though the job is to leave by now."""
    placed = known(4, 2, 2, growing=Growing(of(2), 0), grown=admitted(2))
    facts, effects = step(placed, on.Tick(), NOW, RULES)
    assert effects == (do.Regrant(admitted(4)),)
    facts, effects = step(facts, on.Evict("Preempted", "a larger one"), NOW, RULES)
    assert facts.grown == admitted(2)
    assert effects == ()
    failed, _ = step(facts, on.Failed(1.0), NOW, RULES)
    assert failed.grown is None
    assert facts.record is not None
    written = replace(facts.record, version=facts.record.version + 1, admission=admitted(4))
    facts, _ = step(facts, on.RecordSeen(written), NOW, RULES)
    assert facts.grown is None  # what is in the record holds quota by itself


def test_its_cluster_is_lost_while_more_waits() -> None:
    """What waits goes, the job leaves its cluster, and queues for all that it asks for."""
    standing = Standing("a", confirmed_below=2, reachable=False)
    facts = known(4, 2, 2, growing=Growing(of(2), 0), standings={"a": standing})
    after, effects = step(facts, on.Tick(), NOW, RULES)
    assert effects == (do.DequeueGrowth(),)
    after, (evict,) = step(after, on.Done(), NOW, RULES)
    assert isinstance(evict, do.Evict)
    assert evict.reason == "ClusterLost"
    left = record(attempt=1, evicted="ClusterLost", elastic=True, counts={"main": 4})
    ours = local(elastic=True, pod_sets=(pod_set(4, gpu=2),))
    after = replace(after, local=ours, record=left, busy=False, was_running=False)
    after, effects = step(after, on.Tick(), NOW, RULES)
    assert after.growing is None
    assert effects == (do.Enqueue(),)


def test_a_refusal_is_remembered() -> None:
    """The cluster is not asked again at once, and each time later."""
    facts = known(4, 4, 2, Asked(of(4)))
    said = replace(facts.remotes["a"], version=31, growth=Asked(of(4), "WaitingForQuota: no room"))
    after, _ = step(facts, on.RemoteSeen(said), NOW, RULES)
    expected = Refusal("a", "WaitingForQuota", "no room", 1, NOW + 1)
    assert after.refusals == {"a": expected}
    again, _ = step(after, on.RemoteSeen(replace(said, version=32)), NOW, RULES)
    assert again.refusals == {"a": expected}


def test_after_a_failure_it_is_put_into_the_queue_again() -> None:
    """Nobody knows whether that was what failed."""
    facts = known(4, 2, 2, growing=Growing(of(2), 0), busy=True)
    after, _ = step(facts, on.Failed(1.0), NOW, RULES)
    assert step(after, on.Tick(), NOW + 2, RULES)[1] == (do.EnqueueGrowth(of(2)),)


def test_what_the_index_lost() -> None:
    facts = known(4, 2, 2, growing=Growing(of(2), 0))
    assert step(facts, on.GrowthLost(), NOW, RULES)[1] == (do.EnqueueGrowth(of(2)),)


@pytest.mark.parametrize("has", [0, 1, 3])
def test_amounts(has: int) -> None:
    """Those of pods that are alike, with what they were admitted for."""
    more = elastic.grown(admitted(has), admitted(2))
    assert more == admitted(has + 2)
    assert elastic.shrunk(more, of(has)) == admitted(has)


# In the queue


def more(count: int, of: str = "j", flavor: str = "f", **fields: Any) -> Pending:
    """More pods of a job that holds quota."""
    growth = Growth(of, "a", {("main", "gpu"): flavor})
    return item(elastic.growth_uid(of), "q", pod_set(count, gpu=1), growth=growth, **fields)


def test_they_get_the_flavors_of_those_that_run() -> None:
    """Another one has room, and does not help."""
    queue = cq("q", group("gpu", f=(quota(2),), g=(quota(9),)))
    found = state(queue, holds("j", amount=2))
    assert decide(found, more(1)) == {"j+": "PreemptionNoCandidates"}
    assert decide(found, more(1, flavor="g")) == {"j+": "admitted"}
    assert decide(found, job("other")) == {"other": "admitted"}


@pytest.mark.parametrize("reclaim", [False, True])
def test_they_never_preempt_those_that_run(reclaim: bool) -> None:
    """Others of lower priority they do."""
    rules = evicts(NEWER, ANY) if reclaim else evicts(NEWER)
    queue = one("q", 4, "all", preemption=rules)
    found = state(queue, holds("j", amount=4, priority=5, at=1000.0))
    assert decide(found, more(1, priority=5, created=1000.0)) == {"j+": "PreemptionNoCandidates"}
    both = state(queue, holds("j", amount=2, priority=5), holds("low", amount=2, priority=1))
    assert decide(both, more(1, priority=5)) == {"j+": "preempts low"}


def test_another_shape_of_the_queue_is_not_blocked() -> None:
    """Pods bound to a flavor and a cluster get another answer than a job that is not."""
    alone = item("k", "q", pod_set(1, gpu=1))
    assert shape(more(1)) != shape(alone)
    assert shape(more(1)) == shape(more(1, of="k"))
    assert shape(more(1)) != shape(more(1, flavor="g"))
