"""A cluster is back: its copies are adopted, go on, give their result, or are removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import events as on
from federation.core.dispatch import Choice
from federation.core.facts import JobState, LocalJob, Record, RemoteJob
from federation.core.failover import OnDisconnect, Standing
from federation.core.lifecycle import step, wake_at
from federation.core.stay import LifeRules
from tests.unit.core.build import admission, behind, copy, local, record

NOW = 1000.0
RULES = LifeRules(behind)
TWICE = OnDisconnect.DUPLICATE_OK
Effects = tuple[do.Effect, ...]

STARTED = local(suspended=False, started=True)
AWAY = Standing("a", 2, present=False, suspect=True, silent=200.0, fenced_below=2, reachable=False)
LISTING = Standing("a", 2, present=False, fenced_below=2, stopped_below=2)
BACK = replace(LISTING, present=True)
SAME_EPOCH = Standing("a", 1, fenced_below=1, stopped_below=1)

RUNNING = copy(suspended=False)
HELD = copy(held="the lease is over")
DONE = copy(suspended=False, finished="Complete")
FAILED = copy(suspended=False, finished="Failed")


def known(ours: LocalJob, theirs: Record | None, *copies: RemoteJob, **more: Any) -> JobState:
    return JobState(local=ours, record=theirs, remotes={c.cluster: c for c in copies}, **more)


def planned(state: JobState, *standings: Standing) -> Effects:
    effects: Effects = ()
    for standing in standings or (BACK,):
        state, effects = step(state, on.ClusterStood(standing), NOW, RULES)
        state = replace(state, busy=False)
    return effects


HERE = record("a", 1, admitted=True)
IN_NEW_EPOCH = replace(
    HERE,
    binding=replace(HERE.binding, epoch=2),  # type: ignore[type-var]
)
REMOVED = do.RemoveRemote("a", "copy-a-1", version=30, wait=True)
ADOPTED = (do.Rebind(2), do.Adopt("a", "copy-a-1", 2))
THERE = record("b", 2, admitted=True)
SECOND = copy("b", 2, suspended=False)

ADOPTION: dict[str, tuple[JobState, Standing, Effects]] = {
    "held: it goes on": (known(STARTED, HERE, HELD), BACK, ADOPTED),
    "it ran on all the time": (known(STARTED, HERE, RUNNING), BACK, ADOPTED),
    "its agent still lists what it has": (known(STARTED, HERE, RUNNING), LISTING, ()),
    "it is not seen yet": (known(STARTED, HERE), BACK, ()),
    "the record is written, the copy is not": (
        known(STARTED, IN_NEW_EPOCH, HELD),
        BACK,
        (do.Adopt("a", "copy-a-1", 2),),
    ),
    "the record is written, and the cluster cannot be reached": (
        known(STARTED, IN_NEW_EPOCH, HELD),
        replace(BACK, reachable=False),
        (),
    ),
    "both are written": (known(STARTED, IN_NEW_EPOCH, replace(HELD, epoch=2)), BACK, ()),
    "back in the same epoch: nothing to decide": (known(STARTED, HERE, HELD), SAME_EPOCH, ()),
    "given up already: it is removed": (
        known(STARTED, record("a", 1, admitted=True, evicted="ClusterLost"), HELD),
        BACK,
        (do.SetSuspend(True), do.ResetStatus(), do.Unbind("PendingEvaluation", "", evicted=True)),
    ),
    "told to leave meanwhile: it is removed": (
        known(STARTED, record("a", 1, admitted=True, evicted="Preempted"), RUNNING),
        BACK,
        (REMOVED,),
    ),
    "never started: its agent refuses it": (
        known(local(), record("a", 1), copy(), deadline=NOW + 5),
        BACK,
        (),
    ),
    "refused as outdated: it is removed": (
        known(local(), record("a", 1), copy(refused="the epoch is over")),
        BACK,
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "the offer never arrived: it is made in the new epoch": (
        known(local(), record("a", 1)),
        BACK,
        (do.Rebind(2), do.Offer("a", 1)),
    ),
    "stopped there before the cut, and not held": (
        known(STARTED, HERE, copy()),
        BACK,
        (
            do.Evict(
                "EvictedOnWorkerCluster",
                "the copy on cluster a, attempt 1 was stopped or deleted there",
                "",
                HERE.life.requeue,
            ),
        ),
    ),
    "it ended there meanwhile": (
        known(STARTED, HERE, DONE),
        BACK,
        (do.FinishWorkload("Complete", "a"),),
    ),
    "what may run twice failed there meanwhile: nothing there stops it": (
        known(STARTED, HERE, replace(FAILED, policy=TWICE)),
        BACK,
        (do.FinishWorkload("Failed", "a"),),
    ),
}


@pytest.mark.parametrize("name", ADOPTION)
def test_before_it_runs_elsewhere(name: str) -> None:
    """The binding still names the cluster that is back."""
    state, standing, expected = ADOPTION[name]
    assert planned(state, standing) == expected


WAITING = record(attempt=1, evicted="ClusterLost")
TAKEN = (do.SyncStatus("a"), do.FinishWorkload("Complete", "a"))

LEFT_BEHIND: dict[str, tuple[JobState, Standing, Effects]] = {
    "it runs elsewhere: the old copy goes": (
        known(STARTED, THERE, HELD, SECOND),
        BACK,
        (do.RemoveRemote("a", "copy-a-1", 30, wait=True),),
    ),
    "it still runs there, unseen": (known(STARTED, THERE, RUNNING, SECOND), BACK, (REMOVED,)),
    "the cluster is away: nothing to do": (known(STARTED, THERE, RUNNING, SECOND), AWAY, ()),
    "it was completed there: that counts": (known(STARTED, THERE, DONE, SECOND), BACK, TAKEN),
    "it was completed there, while the job waits": (
        known(local(), WAITING, DONE),
        BACK,
        (do.SetSuspend(False), *TAKEN),
    ),
    "it was completed there, its record was lost": (
        known(local(), None, DONE),
        BACK,
        (do.CreateWorkload(),),
    ),
    "it failed there, a later attempt runs: that does not count": (
        known(STARTED, THERE, FAILED, SECOND),
        BACK,
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "it failed there, and no later attempt was bound: its lease was over": (
        known(local(), WAITING, FAILED),
        BACK,
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "what may run twice failed there, and no later attempt was bound": (
        known(local(), WAITING, replace(FAILED, policy=TWICE)),
        BACK,
        (do.SetSuspend(False), do.SyncStatus("a"), do.FinishWorkload("Failed", "a")),
    ),
    "an older attempt failed there": (
        known(local(), record(attempt=2, evicted="ClusterLost"), FAILED),
        BACK,
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "both were completed: the later one is the job's": (
        known(STARTED, THERE, DONE, replace(SECOND, finished="Complete")),
        BACK,
        (do.FinishWorkload("Complete", "b"),),
    ),
    "the job has ended: the old copy goes, whatever it did": (
        known(replace(STARTED, finished="Complete"), replace(THERE, finished=True), DONE),
        BACK,
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "the job is held by people: the old copy goes": (
        known(local(), record(attempt=1, active=False, evicted="Deactivated"), RUNNING),
        BACK,
        (REMOVED,),
    ),
    "the job is deleted": (
        known(local(terminating=True), THERE, HELD),
        BACK,
        (do.RemoveRemote("a", "copy-a-1", 30, wait=True),),
    ),
}


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_after_it_went_elsewhere(name: str) -> None:
    """The binding is another one, or there is none."""
    state, standing, expected = LEFT_BEHIND[name]
    assert planned(state, standing) == expected


def test_a_result_ends_the_other_copy() -> None:
    """Once the record has it, whatever else runs is removed with its pods."""
    finished = replace(THERE, finished=True)
    ended = replace(STARTED, finished="Complete")
    effects = planned(known(ended, finished, replace(DONE, gone=True), SECOND))
    assert effects == (do.RemoveRemote("b", "copy-b-2", version=30, wait=True),)


def test_a_result_taken_over_in_part() -> None:
    """After a crash between job and record the record follows; the copy is there to be named."""
    state = known(replace(STARTED, finished="Complete"), THERE, DONE, SECOND)
    assert planned(state, AWAY) == (do.FinishWorkload("Complete"),)


# What may run twice

OLD = copy(suspended=False, policy=TWICE)
ALSO = replace(SECOND, policy=TWICE)
OFFERED = record("b", 2)

TWO: dict[str, tuple[JobState, Effects]] = {
    "the new one waits for its answer: the old one runs on": (
        known(local(), OFFERED, OLD, replace(ALSO, suspended=True), deadline=NOW + 5),
        (),
    ),
    "the new one runs: the old one goes": (known(STARTED, THERE, OLD, ALSO), (REMOVED,)),
    "the old one is first": (
        known(STARTED, THERE, replace(OLD, finished="Complete"), ALSO),
        TAKEN,
    ),
    "the old one stands still": (
        known(local(), OFFERED, replace(OLD, suspended=True)),
        (do.RemoveRemote("a", "copy-a-1", 30),),
    ),
    "the queue is stopped meanwhile": (
        known(local(), WAITING, OLD, queue_problem="stopped"),
        (REMOVED,),
    ),
}


@pytest.mark.parametrize("name", TWO)
def test_what_may_run_twice(name: str) -> None:
    """The loser is removed once there is a winner."""
    state, expected = TWO[name]
    assert planned(state) == expected


def test_it_goes_on_where_it_runs() -> None:
    """It was to run elsewhere and found no room: its copy is bound again, in its attempt."""
    state = known(local(), WAITING, OLD, queued=True, standings={"a": AWAY})
    state, effects = step(state, on.ClusterStood(BACK), NOW, RULES)
    assert effects == (do.Enqueue(),), "it is queued anew, as one that has a place"
    state = replace(state, busy=False)
    state, effects = step(state, on.Placed(admission(), Choice("a", "q", {})), NOW, RULES)
    assert effects == (do.Bind("a", 1),)
    again = record("a", 1, version=21, binding=IN_NEW_EPOCH.binding)  # its eviction is over
    state, _ = step(state, on.RecordSeen(again), NOW, RULES)
    _, effects = step(state, on.Done(), NOW, RULES)
    assert effects == (do.Adopt("a", "copy-a-1", 2),)


def test_it_goes_elsewhere_if_the_cycle_says_so() -> None:
    """Then it is another attempt."""
    state = known(local(), WAITING, OLD, queued=True, standings={"a": BACK})
    effects = step(state, on.Placed(admission(), Choice("b", "q", {})), NOW, RULES)[1]
    assert effects == (do.Bind("b", 2), do.Offer("b", 2))


# Orders to move

ORDERED = replace(HERE, move_to="b")
GOOD = Standing("b")


def test_moved_by_order() -> None:
    """It leaves once it is known that it can go there, and the order ends with the binding."""
    effects = planned(known(STARTED, ORDERED, RUNNING), GOOD)
    assert [(e.reason, e.message) for e in effects if isinstance(e, do.Evict)] == [
        ("Moved", "by order: from cluster a, attempt 1, to b")
    ]
    arrived = known(STARTED, replace(ORDERED, move_to="a"), RUNNING)
    assert planned(arrived, SAME_EPOCH) == (do.EndMove(),)


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (SAME_EPOCH, "it cannot be moved to b: there is no such cluster"),
        (replace(GOOD, present=False), "it cannot be moved to b now: that cluster is in trouble"),
        (replace(GOOD, suspect=True), "it cannot be moved to b now: that cluster is in trouble"),
    ],
)
def test_an_order_that_cannot_be_followed(standing: Standing, why: str) -> None:
    """The job stays and says why; that is taken back with the order."""
    state = known(STARTED, ORDERED, RUNNING)
    (note,) = planned(state, standing)
    assert isinstance(note, do.SetNote)
    assert note.message.startswith(why)
    told = replace(ORDERED, note=note.message)
    assert planned(known(STARTED, told, RUNNING), standing) == ()
    taken_back = known(STARTED, replace(told, move_to=""), RUNNING)
    assert planned(taken_back, standing) == (do.SetNote(""),)


def test_an_order_to_where_it_can_never_run() -> None:
    """The job stays and says why. The cluster is looked at again, and another one at once."""
    state = known(STARTED, ORDERED, RUNNING)
    state, _ = step(state, on.ClusterStood(GOOD), NOW, RULES)
    state, effects = step(state, on.CannotMove("b", "no queue"), NOW, RULES)
    assert effects == (do.SetNote("it cannot be moved to b: no queue"),)
    told = replace(ORDERED, note="it cannot be moved to b: no queue", version=31)
    state, effects = step(replace(state, busy=False), on.RecordSeen(told), NOW + 1, RULES)
    assert (effects, wake_at(state)) == ((), NOW + 10)
    _, effects = step(state, on.Tick(), NOW + 10, RULES)
    assert [effect.target for effect in effects if isinstance(effect, do.Evict)] == ["b"]
    away, effects = step(state, on.ClusterStood(replace(GOOD, suspect=True)), NOW + 11, RULES)
    assert isinstance(effects[0], do.SetNote)
    assert (wake_at(replace(away, busy=False)) or NOW + 99) > NOW + 11
    other = replace(told, move_to="c", version=32)
    state, _ = step(state, on.RecordSeen(other), NOW + 1, RULES)
    standing = on.ClusterStood(Standing("c"))
    _, effects = step(replace(state, busy=False), standing, NOW + 1, RULES)
    assert [effect.target for effect in effects if isinstance(effect, do.Evict)] == ["c"]


def test_an_order_for_what_waits() -> None:
    """It is queued anew, for that cluster alone."""
    state = known(local(), record(), queued=True)
    _, effects = step(state, on.RecordSeen(record(version=21, move_to="b")), NOW, RULES)
    assert effects == (do.Enqueue(),)
