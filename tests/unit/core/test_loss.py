"""When a job whose cluster is lost may run elsewhere, and how it leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import events as on
from federation.core.backoff import RequeueState
from federation.core.facts import Binding, JobState, LocalJob, Record, RemoteJob
from federation.core.failover import DEFAULT, OnDisconnect, Standing
from federation.core.lifecycle import step
from federation.core.loss import harmless, may_rerun
from federation.core.stay import LifeRules
from tests.unit.core.build import behind, but, copy, local, record

NOW = 1000.0
RULES = LifeRules(behind)
STOP, KEEP, TWICE = OnDisconnect.STOP, OnDisconnect.KEEP, OnDisconnect.DUPLICATE_OK

STARTED = local(suspended=False, started=True)
RUNNING = copy(suspended=False, ready=True)

WELL = Standing("a")
SUSPECT = Standing("a", present=False, suspect=True, silent=55.0, fenced_below=1, reachable=False)
FENCED = replace(SUSPECT, epoch=2, fenced_below=2, silent=125.0)
STOPPED = replace(FENCED, stopped_below=2, silent=190.0)
CONFIRMED = replace(FENCED, confirmed_below=2, silent=130.0)
BACK = Standing("a", 2, fenced_below=2, stopped_below=2)
BRAKE = replace(STOPPED, suspect=False, silent=0.0)


def given(policy: OnDisconnect, after: float | None = None, epoch: int = 1) -> Binding:
    return Binding("a", 1, epoch, "2026-01-01T00:00:00Z", policy, after)


MAY = {
    "well": (WELL, STOP, None, False),
    "stop: only suspect": (SUSPECT, STOP, None, False),
    "stop: fenced, and may still be stopping": (FENCED, STOP, None, False),
    "stop: certainly stopped": (STOPPED, STOP, None, True),
    "stop: the brake holds": (BRAKE, STOP, None, False),
    "stop: it is back, and adopted instead": (BACK, STOP, None, False),
    "stop: its own time is shorter than the protocol's, which counts": (FENCED, STOP, 5, False),
    "stop: stopped, and its own time is not over": (STOPPED, STOP, 200, False),
    "stop: stopped, and its own time is over": (STOPPED, STOP, 180, True),
    "twice: suspect": (SUSPECT, TWICE, None, True),
    "twice: suspect, and its own time is not over": (SUSPECT, TWICE, 60, False),
    "twice: suspect, and its own time is over": (SUSPECT, TWICE, 50, True),
    "twice: well": (WELL, TWICE, None, False),
    "keep: stopped means nothing": (STOPPED, KEEP, None, False),
    "keep: confirmed": (CONFIRMED, KEEP, None, True),
    "keep: its limit, and what it may take to stop then, are not over": (STOPPED, KEEP, 180, False),
    "keep: its limit is over": (STOPPED, KEEP, 140, True),
    "keep: its limit is over, the lease is longer": (FENCED, KEEP, 10, False),
    "keep: its limit is over, and nothing is fenced": (
        replace(SUSPECT, silent=900.0),
        KEEP,
        140,
        False,
    ),
    "confirmed, whatever the policy": (replace(CONFIRMED, suspect=False), STOP, None, True),
}


@pytest.mark.parametrize("name", MAY)
def test_may_run_elsewhere(name: str) -> None:
    """By policy, and by what is certain of the cluster."""
    standing, policy, after, expected = MAY[name]
    assert may_rerun(given(policy, after), standing, DEFAULT) is expected


@pytest.mark.parametrize("policy", OnDisconnect)
def test_a_binding_in_the_new_epoch_is_not_lost(policy: OnDisconnect) -> None:
    """What is certain is certain of lower epochs alone."""
    lost = may_rerun(given(policy, 1.0, epoch=2), CONFIRMED, DEFAULT)
    assert lost is (policy is TWICE)


STRAYS = {
    "it may run": (copy(suspended=False), WELL, False),
    "it may be started": (copy(), SUSPECT, False),
    "it has ended": (copy(suspended=False, finished="Failed"), SUSPECT, True),
    "it may run twice": (copy(suspended=False, policy=TWICE), WELL, True),
    "it is certainly stopped": (copy(suspended=False), STOPPED, True),
    "it was, and its cluster is back": (copy(suspended=False), BACK, True),
    "it is of the new epoch": (copy(suspended=False, epoch=2), BACK, False),
    "it was to be kept": (copy(suspended=False, policy=KEEP), STOPPED, False),
    "it was to be kept, and is confirmed dead": (
        copy(suspended=False, policy=KEEP),
        CONFIRMED,
        True,
    ),
}


@pytest.mark.parametrize("name", STRAYS)
def test_an_earlier_copy_does_no_harm(name: str) -> None:
    """Whether another one may start beside it."""
    stray, standing, expected = STRAYS[name]
    assert harmless(stray, standing, DEFAULT) is expected


# How it leaves


def known(theirs: Record, *copies: RemoteJob, ours: LocalJob = STARTED, **more: Any) -> JobState:
    return JobState(local=ours, record=theirs, remotes={c.cluster: c for c in copies}, **more)


def planned(state: JobState, standing: Standing, now: float = NOW) -> tuple[do.Effect, ...]:
    return step(state, on.ClusterStood(standing), now, RULES)[1]


def bound(policy: OnDisconnect = STOP, **life: Any) -> Record:
    ours = record("a", 1, **life)
    return replace(ours, binding=given(policy))


LOST = (
    "cluster a is lost, with attempt 1: silent for 190 s; policy stop: it is stopped there by now"
)
EVICT = do.Evict("ClusterLost", LOST, "", RequeueState(), unbind=True)
GIVEN_UP = bound(admitted=True, evicted="ClusterLost", evicted_message=LOST)
UNBIND = do.Unbind("PendingEvaluation", LOST, evicted=True)
LEAVES = (do.SetSuspend(True), do.ResetStatus(), UNBIND)

LEAVING: dict[str, tuple[JobState, Standing, tuple[do.Effect, ...]]] = {
    "it runs there": (known(bound(admitted=True), RUNNING), STOPPED, (EVICT,)),
    "its copy was never seen": (known(bound(admitted=True)), STOPPED, (EVICT,)),
    "the offer was never answered": (known(bound(), copy(), ours=local()), STOPPED, (EVICT,)),
    "the offer may never have been made": (known(bound(), ours=local()), STOPPED, (EVICT,)),
    "it is held there, and the manager sees it": (
        known(bound(admitted=True), copy(held="the lease is over")),
        replace(STOPPED, reachable=True),
        (EVICT,),
    ),
    "one of another kind than Job, of which there is more to take back: in two writes": (
        known(bound(admitted=True), RUNNING, ours=replace(STARTED, kind="JobSet.v1alpha2.x")),
        STOPPED,
        (replace(EVICT, unbind=False),),
    ),
    "it is not certain yet": (known(bound(admitted=True), RUNNING), FENCED, ()),
    "given up: it leaves without its copy": (known(GIVEN_UP, RUNNING), STOPPED, LEAVES),
    "given up, its copy never seen": (known(GIVEN_UP), STOPPED, LEAVES),
    "given up, and the cluster is back: it is too late": (known(GIVEN_UP, RUNNING), BACK, LEAVES),
    "given up, by a manager that knows nothing of the cluster": (
        known(GIVEN_UP, RUNNING),
        Standing("b"),
        LEAVES,
    ),
    "wanted by another one before that": (
        known(bound(admitted=True, evicted="Preempted", evicted_message="for u2"), RUNNING),
        STOPPED,
        (
            do.SetSuspend(True),
            do.ResetStatus(),
            do.Unbind("PendingEvaluation", "for u2", evicted=True),
        ),
    ),
    "wanted by another one, and not stopped for certain: the quota is held": (
        known(bound(admitted=True, evicted="Preempted"), RUNNING),
        FENCED,
        (),
    ),
    "its result was seen before": (
        known(bound(admitted=True), replace(RUNNING, finished="Complete")),
        STOPPED,
        (do.FinishWorkload("Complete", "a"),),
    ),
    "it was gone before": (
        known(bound(admitted=True, evicted="Preempted"), replace(RUNNING, gone=True)),
        SUSPECT,
        (do.SetSuspend(True), do.ResetStatus(), do.Unbind("PendingEvaluation", "", evicted=True)),
    ),
}


@pytest.mark.parametrize("name", LEAVING)
def test_leaving_a_lost_cluster(name: str) -> None:
    """At once, without the copy being gone; what is being evicted already ends that."""
    state, standing, expected = LEAVING[name]
    assert planned(state, standing) == expected


UNREACHABLE: dict[str, JobState] = {
    "a refused offer cannot be removed": known(bound(), copy(refused="no room"), ours=local()),
    "an offer cannot be made": known(bound(), ours=local()),
    "an unanswered offer cannot be withdrawn": known(
        bound(), copy(), ours=local(), deadline=NOW - 1
    ),
    "what leaves cannot be stopped": known(bound(admitted=True, evicted="Deactivated"), RUNNING),
    "a copy left behind cannot be removed": known(record("b", 2), copy("a", 1)),
    "of an ended job the copy cannot be removed": known(
        replace(bound(), finished=True),
        replace(RUNNING, finished="Complete"),
        ours=local(finished="Complete"),
    ),
}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_nothing_is_tried_there(name: str) -> None:
    """What is to be done on a cluster waits until that is reached, without a timer."""
    state = UNREACHABLE[name]
    offers = [e for e in planned(state, SUSPECT) if getattr(e, "cluster", "b") == "a"]
    assert offers == []
    reached = replace(SUSPECT, reachable=True)
    assert [e for e in planned(state, reached) if getattr(e, "cluster", "") == "a"] != []


def test_news_end_a_backoff() -> None:
    """A job that failed at a cluster does not wait for its next try to learn that it is lost."""
    state = known(bound(admitted=True), RUNNING, retry_at=NOW + 10, standings={"a": SUSPECT})
    assert planned(state, STOPPED) == (EVICT,)


def test_what_cannot_be_reached_ends_the_step() -> None:
    """Without a link nothing is planned again until there is news."""
    state = known(bound(), ours=local())
    state, effects = step(state, on.Tick(), NOW, RULES)
    assert effects == (do.Offer("a", 1),)
    state, effects = step(state, on.CannotReach(replace(WELL, reachable=False)), NOW, RULES)
    assert (state.busy, effects) == (False, ())
    state, effects = step(state, on.Tick(), NOW + 100, RULES)
    assert effects == ()
    assert step(state, on.ClusterStood(WELL), NOW + 100, RULES)[1] == (do.Offer("a", 1),)


def test_standings_of_other_clusters_are_forgotten() -> None:
    """Those count where the job is bound, has copies, or is to go."""
    state = known(replace(record("b", 2), move_to="c"), copy("a", 1))
    for name in "abcd":
        state, _ = step(state, on.ClusterStood(Standing(name)), NOW, RULES)
    assert state.standings.keys() == {"a", "b", "c"}


def test_a_held_copy_keeps_its_place() -> None:
    """It stands still because a lease ended: no eviction, no limit of unready pods passes."""
    held = copy(held="the lease is over", status={"active": 0})
    shown, effects = step(known(bound(admitted=True), held), on.ClusterStood(SUSPECT), NOW, RULES)
    assert effects == (do.SyncStatus("a"),)
    shown = replace(shown, busy=False, local=replace(STARTED, status={"active": 0}))
    assert planned(shown, replace(SUSPECT, silent=60.0)) == ()
    assert shown.holds is not None
    on_again = replace(held, held="", suspended=False, version=31, status={"active": 1})
    assert step(shown, on.RemoteSeen(on_again), NOW, RULES)[1] == (do.SyncStatus("a"),)


def test_a_stopped_copy_that_is_not_held_was_evicted() -> None:
    """The difference is the note."""
    effects = planned(known(bound(admitted=True), copy()), WELL)
    assert [type(effect) for effect in effects] == [do.Evict]


def test_drained_where_it_may_run_twice() -> None:
    """It starts elsewhere before its copy is stopped; any other is stopped first."""
    twice = replace(but(bound(TWICE, admitted=True), evicted="ClusterDrained"), evicted_message="x")
    running = replace(RUNNING, policy=TWICE)
    assert planned(known(twice, running), WELL) == (
        do.SetSuspend(True),
        do.ResetStatus(),
        do.Unbind("PendingEvaluation", "x", evicted=True),
    )
    once = but(bound(admitted=True), evicted="ClusterDrained")
    assert planned(known(once, RUNNING), WELL) == (
        do.RemoveRemote("a", "copy-a-1", version=30, wait=True),
    )
