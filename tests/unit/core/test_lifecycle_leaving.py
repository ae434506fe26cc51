"""Leaving a cluster and coming back: what the rules want, as effects, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import events as on
from federation.core.backoff import RequeueState
from federation.core.checks import AdmissionCheckState, CheckState
from federation.core.controls import Why
from federation.core.dispatch import Choice
from federation.core.facts import Eviction, JobState, LocalJob, Queues, Record, RemoteJob
from federation.core.lifecycle import step, wake_at
from federation.core.policies import AdmissionCheck, PodsReady, Retention, StopPolicy
from federation.core.stay import READY_NOTE_S, LifeRules, held_text
from federation.core.types import ClusterQueue
from tests.unit.core.build import admission, behind, but, copy, local, record

NOW = 1000.0
PODS_READY = PodsReady(60.0, 40.0, backoff_base_s=10, backoff_limit=1)
RULES = LifeRules(behind, PODS_READY, Retention(100.0, 200.0))
NO_RULES = LifeRules(behind)
Effects = tuple[do.Effect, ...]

STARTED = local(suspended=False, started=True)
ADMITTED = record("a", 1, admitted=True, admitted_at=NOW)
RUNNING = copy(suspended=False, ready=True)
UNREADY = copy(suspended=False)
VICTIM = Eviction("Preempted", "for u2", "InClusterQueue")


def known(
    ours: LocalJob | None, theirs: Record | None, *copies: RemoteJob, **more: Any
) -> JobState:
    return JobState(local=ours, record=theirs, remotes={c.cluster: c for c in copies}, **more)


def go(
    state: JobState, *events: on.Event, now: float = NOW, rules: LifeRules = RULES
) -> tuple[JobState, Effects]:
    """Feed events; the effects are those of the last one."""
    effects: Effects = ()
    for event in events:
        state, effects = step(state, event, now, rules)
    return state, effects


def planned(state: JobState, now: float = NOW, rules: LifeRules = RULES) -> Effects:
    return go(state, on.Tick(), now=now, rules=rules)[1]


def evicted(reason: str = "Preempted", **life: Any) -> Record:
    return record("a", 1, admitted=True, evicted=reason, evicted_message="it goes", **life)


def queues(*checks: str, stop: str = "None", door: str = "None") -> Queues:
    rules = tuple(AdmissionCheck(name) for name in checks)
    cluster = ClusterQueue("q", stop=StopPolicy(stop), checks=rules)
    return Queues(StopPolicy(door), cluster, "own" if "own" in checks else "")


def check(state: str, name: str = "budget", **more: Any) -> AdmissionCheckState:
    return AdmissionCheckState(name, CheckState(state), "says so", NOW, **more)


OWN = check("Pending", "own")
WITH_CHECKS = queues("own", "budget")
OFFER = do.Offer("a", 1)
NOTHING_THERE = copy(uid="", version=0, gone=True)


def bound(*checks: AdmissionCheckState, **life: Any) -> Record:
    return record("a", 1, checks=checks, **life)


LEAVING: dict[str, tuple[JobState, Effects]] = {
    # Two phases
    "wanted by another one": (
        known(STARTED, ADMITTED, RUNNING, eviction=VICTIM),
        (do.Evict(*VICTIM, RequeueState()),),
    ),
    "wanted, its copy not seen yet": (
        known(STARTED, ADMITTED, eviction=VICTIM),
        (do.Evict(*VICTIM, RequeueState()),),
    ),
    "told to leave: its copy stops": (
        known(STARTED, evicted(), RUNNING),
        (do.RemoveRemote("a", "copy-a-1", version=30, wait=True),),
    ),
    "its copy is stopping: the quota is held": (
        known(STARTED, evicted(), replace(RUNNING, terminating=True)),
        (),
    ),
    "its copy not seen yet: the quota is held": (known(STARTED, evicted()), ()),
    "its copy has stopped": (
        known(STARTED, evicted(), replace(RUNNING, gone=True)),
        (
            do.SetSuspend(True),
            do.ResetStatus(),
            do.Unbind("PendingEvaluation", "it goes", evicted=True),
        ),
    ),
    "suspended by ourselves on the way out is no wish": (
        known(local(started=True), evicted(), replace(RUNNING, gone=True), was_running=True),
        (do.ResetStatus(), do.Unbind("PendingEvaluation", "it goes", evicted=True)),
    ),
    "it ended before it was stopped: the result wins": (
        known(STARTED, evicted(), copy(suspended=False, finished="Complete")),
        (do.FinishWorkload("Complete", "a"),),
    ),
    "told to leave before the offer was answered": (
        known(local(), but(record("a", 1), evicted="Preempted"), copy()),
        (do.RemoveRemote("a", "copy-a-1", version=30),),
    ),
    "told to leave, the offer made or not": (
        known(local(), but(record("a", 1), evicted="Preempted")),
        (do.Offer("a", 1, void=True),),
    ),
    # Readiness
    "pods that were ready are not: noted before it is judged": (
        known(STARTED, but(ADMITTED, admitted_at=1.0, pods_ready=True), UNREADY),
        (do.SetPodsReady(False),),
    ),
    "pods not ready in time": (
        known(STARTED, but(ADMITTED, admitted_at=NOW - 60), UNREADY),
        (
            do.Evict(
                "PodsReadyTimeout",
                "Exceeded the PodsReady timeout: not all pods were ready within 60 s",
                "WaitForStart",
                RequeueState(1, NOW + 10 * (1 + 1e-4 * 0.0)),
            ),
        ),
    ),
    "pods not recovered in time": (
        known(
            STARTED,
            but(ADMITTED, pods_were_ready=True, pods_ready_changed_at=NOW - 40, admitted_at=1.0),
            UNREADY,
        ),
        (
            do.Evict(
                "PodsReadyTimeout",
                "Exceeded the PodsReady timeout: pods that had been ready were not so again within"
                " 40 s",
                "WaitForRecovery",
                RequeueState(1, NOW + 10),
            ),
        ),
    ),
    "pods of a copy not seen yet: no limit passes": (
        known(STARTED, but(ADMITTED, admitted_at=1.0)),
        (),
    ),
    "once too often": (
        known(STARTED, but(ADMITTED, admitted_at=NOW - 60, requeue=RequeueState(1, None)), UNREADY),
        (
            do.SetTarget(
                "RequeuingLimitExceeded",
                "exceeding the maximum number of re-queuing retries (1); its pods were not ready"
                " in time once more",
            ),
            do.SetActive(False),
        ),
    ),
    # Deactivation
    "a target is set": (
        known(STARTED, but(ADMITTED, target=Why("X", "why")), RUNNING),
        (do.SetActive(False),),
    ),
    "inactive with a target": (
        known(STARTED, but(ADMITTED, target=Why("X", "why"), active=False), RUNNING),
        (
            do.Evict(
                "DeactivatedDueToX",
                "The workload is deactivated due to why",
                "X",
                RequeueState(),
            ),
        ),
    ),
    "wanted by another one, and deactivated: that comes first": (
        known(STARTED, but(ADMITTED, target=Why("X", "why")), RUNNING, eviction=VICTIM),
        (do.SetActive(False),),
    ),
    "its time is over": (
        known(
            STARTED,
            but(ADMITTED, admitted_at=NOW - 50, accumulated_past_s=10, max_execution_s=60),
            RUNNING,
        ),
        (
            do.SetTarget(
                "MaximumExecutionTimeExceeded", "exceeding the maximum execution time of 60 s"
            ),
            do.SetActive(False),
        ),
    ),
    "deactivated while it waits": (
        known(local(), record(active=False)),
        (do.Evict("Deactivated", "The workload is deactivated", "", RequeueState()),),
    ),
    # Checks of others
    "decided on: they come before the offer": (
        known(
            local(),
            record(),
            admission=admission(),
            choice=Choice("a", "q", {}),
            queues=WITH_CHECKS,
        ),
        (do.Bind("a", 1),),
    ),
    "they have said nothing": (
        known(local(), bound(check("Pending"), OWN), NOTHING_THERE, queues=WITH_CHECKS),
        (),
    ),
    "they are ready": (
        known(local(), bound(check("Ready"), OWN), NOTHING_THERE, queues=WITH_CHECKS),
        (OFFER,),
    ),
    "they are ready, the offer made or not": (
        known(local(), bound(check("Ready"), OWN), queues=WITH_CHECKS),
        (OFFER,),
    ),
    "they are not ready, the offer made or not": (
        known(local(), bound(check("Pending"), OWN), queues=WITH_CHECKS),
        (),
    ),
    "one wants a retry": (
        known(
            local(),
            bound(check("Retry", requeue_after_s=30), OWN),
            NOTHING_THERE,
            queues=WITH_CHECKS,
        ),
        (
            do.Evict(
                "AdmissionCheck",
                'Evicted due to AdmissionCheck in Retry state: "budget" (says so)',
                "",
                RequeueState(0, NOW + 30),
            ),
        ),
    ),
    "one rejects": (
        known(local(), bound(check("Rejected"), OWN), NOTHING_THERE, queues=WITH_CHECKS),
        (
            do.SetTarget("AdmissionCheck", 'AdmissionCheck in Rejected state: "budget" (says so)'),
            do.SetActive(False),
        ),
    ),
    "one that is not needed any more rejects": (
        known(local(), bound(check("Rejected"), OWN), copy(), queues=queues("own")),
        (do.SyncChecks(),),
    ),
    "one was added": (
        known(local(), bound(OWN), NOTHING_THERE, queues=WITH_CHECKS),
        (do.SyncChecks(),),
    ),
    "one was added while it runs": (
        known(STARTED, but(ADMITTED, checks=(OWN,)), RUNNING, queues=WITH_CHECKS),
        (do.SyncChecks(),),
    ),
    "one contradicts the job": (
        known(
            local(),
            bound(check("Ready"), OWN),
            queues=WITH_CHECKS,
            cannot_start="label 'a' is …",
        ),
        (do.FailToStart("label 'a' is …"),),
    ),
    # Stopped queues
    "held, the offer not answered": (
        known(local(), record("a", 1), copy(), queues=queues(stop="Hold")),
        (do.RemoveRemote("a", "copy-a-1", version=30),),
    ),
    "held, the offer removed": (
        known(local(), record("a", 1), copy(gone=True), queues=queues(stop="Hold")),
        (do.Unbind("Suspended", "The ClusterQueue is stopped", evicted=False),),
    ),
    "held, started at that moment": (
        known(local(), record("a", 1), RUNNING, queues=queues(stop="Hold")),
        (do.Admit("a"), do.SetSuspend(False)),
    ),
    "held, running": (known(STARTED, ADMITTED, RUNNING, queues=queues(door="Hold")), ()),
    "drained": (
        known(STARTED, ADMITTED, RUNNING, queues=queues(stop="HoldAndDrain")),
        (do.Evict("ClusterQueueStopped", "The ClusterQueue is stopped", "", RequeueState()),),
    ),
    "drained by the LocalQueue": (
        known(STARTED, ADMITTED, RUNNING, queues=queues(door="HoldAndDrain")),
        (do.Evict("LocalQueueStopped", "The LocalQueue is stopped", "", RequeueState()),),
    ),
    "its queue is gone, the offer removed": (
        known(local(), record("a", 1), copy(gone=True), queues=Queues(StopPolicy.NONE, None)),
        (do.Unbind("Misconfigured", "The ClusterQueue is terminating or missing", evicted=False),),
    ),
    "its queue is gone, running": (
        known(STARTED, ADMITTED, RUNNING, queues=Queues(StopPolicy.NONE, None)),
        (),
    ),
    # Coming back
    "drained, and the queue is still stopped": (
        known(
            local(),
            record(requeued="ClusterQueueStopped"),
            queues=queues(stop="HoldAndDrain"),
        ),
        (),
    ),
    "drained, and the queue goes on": (
        known(local(), record(requeued="ClusterQueueStopped"), queues=queues()),
        (
            do.Readmit(
                "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"
            ),
        ),
    ),
    "backing off": (
        known(local(), record(requeued="PodsReadyTimeout", requeue=RequeueState(1, NOW + 5))),
        (),
    ),
    "backing off, although it is queued": (
        known(
            local(),
            record(requeued="PodsReadyTimeout", requeue=RequeueState(1, NOW + 5)),
            queued=True,
        ),
        (do.Dequeue(),),
    ),
    "backed off": (
        known(local(), record(requeued="PodsReadyTimeout", requeue=RequeueState(1, NOW))),
        (do.Readmit("BackoffFinished", "The workload backoff was finished"),),
    ),
    "reactivated": (
        known(local(), record(requeued="DeactivatedDueToX")),
        (do.Readmit("Reactivated", "The workload was reactivated"),),
    ),
    "preempted, and may queue at once": (
        known(local(), record(evicted="Preempted")),
        (do.Enqueue(),),
    ),
    "a bound job whose limits somebody misspelt": (
        known(replace(STARTED, problem="a label is wrong"), ADMITTED, RUNNING),
        (),
    ),
}


@pytest.mark.parametrize("name", LEAVING)
def test_plan(name: str) -> None:
    """The facts alone decide: a restart in any phase goes on where it was."""
    state, expected = LEAVING[name]
    effects = planned(state)
    assert [_rough(effect) for effect in effects] == [_rough(effect) for effect in expected]


def _rough(effect: do.Effect) -> object:
    """Without the spread of times, which has a test of its own."""
    if isinstance(effect, do.Evict) and effect.requeue.at is not None:
        return replace(effect, requeue=replace(effect.requeue, at=round(effect.requeue.at, 1)))
    return effect


# Deadlines


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (known(STARTED, ADMITTED, UNREADY), NOW + 60),
        (known(STARTED, but(ADMITTED, pods_ready=True), RUNNING), None),
        (known(STARTED, ADMITTED, RUNNING), NOW + READY_NOTE_S),
        (known(STARTED, but(ADMITTED, pods_ready=True, max_execution_s=50), RUNNING), NOW + 50),
        (known(local(), record(requeued="X", requeue=RequeueState(1, NOW + 5))), NOW + 5),
        (known(local(), record("a", 1), copy()), NOW + 10),
        (known(STARTED, evicted(), replace(RUNNING, terminating=True), deadline=NOW - 5), None),
    ],
)
def test_when_time_alone_asks(state: JobState, due: float | None) -> None:
    """At the next limit and at no other time: nothing spins."""
    after, effects = go(state, on.Tick())
    assert (effects, wake_at(after)) == ((), due)


@pytest.mark.parametrize("name", LEAVING)
def test_nothing_is_due_at_once(name: str) -> None:
    """A plan without effects never asks for itself again at the same moment."""
    after, effects = go(LEAVING[name][0], on.Tick())
    due = wake_at(after)
    assert effects or due is None or due > NOW


def test_the_spread_is_reproducible() -> None:
    """Derived again after a crash, the time is the same; another job has another."""
    unready = but(ADMITTED, admitted_at=NOW - 60)

    def at(uid: str) -> float | None:
        (effect,) = planned(known(replace(STARTED, uid=uid), unready, UNREADY))
        assert isinstance(effect, do.Evict)
        return effect.requeue.at

    assert at("u") == at("u") != at("v")


# Readiness


def test_readiness_is_noted_late() -> None:
    """A job that ends within twenty seconds costs no write for it."""
    state = known(STARTED, ADMITTED, RUNNING)
    assert planned(state, NOW + READY_NOTE_S - 0.1) == ()
    assert planned(state, NOW + READY_NOTE_S) == (do.SetPodsReady(True),)
    ended = replace(RUNNING, finished="Complete")
    assert planned(known(STARTED, ADMITTED, ended), NOW + 60) == (
        do.FinishWorkload("Complete", "a"),
    )


def test_recovery_is_noted_at_once() -> None:
    """Its clock runs."""
    state = known(STARTED, but(ADMITTED, pods_were_ready=True), RUNNING)
    assert planned(state) == (do.SetPodsReady(True),)


@pytest.mark.parametrize("pods", [RUNNING, UNREADY])
def test_where_nobody_waits_for_pods(pods: RemoteJob) -> None:
    """Nothing is noted and no limit passes."""
    for known_ready in (True, False):
        theirs = but(ADMITTED, pods_ready=known_ready)
        assert planned(known(STARTED, theirs, pods), NOW + 10_000, NO_RULES) == ()


# Being asked to leave


@pytest.mark.parametrize(
    "state",
    [
        known(local(), record()),
        known(STARTED, evicted(), RUNNING),
        known(local(), replace(ADMITTED, finished=True)),
    ],
)
def test_nothing_to_ask_for(state: JobState) -> None:
    """It holds nothing, or gives it back already."""
    after, _ = go(replace(state, busy=True), on.Evict("Preempted", "m", "c"))
    assert after.eviction is None


def test_asked_until_it_is_recorded() -> None:
    """The wish outlives failures, and ends with the record of it."""
    state, effects = go(known(STARTED, ADMITTED, RUNNING), on.Evict(*VICTIM))
    assert effects == (do.Evict(*VICTIM, RequeueState()),)
    assert state.evicting
    state, _ = go(state, on.Failed(1.0))
    state, effects = go(state, on.Tick(), now=NOW + 1)
    assert effects == (do.Evict(*VICTIM, RequeueState()),)
    state, _ = go(state, on.RecordSeen(replace(evicted(), version=21)))
    assert state.eviction is None
    assert state.evicting


def test_asked_before_it_is_bound() -> None:
    """Nothing has to stop: the decision is void and it queues again."""
    decided = known(
        local(), record(), admission=admission(), choice=Choice("a", "q", {}), busy=True
    )
    state, _ = go(decided, on.Evict(*VICTIM))
    state, effects = go(state, on.BindLost())
    assert effects == (do.Enqueue(),)
    assert (state.holds, state.eviction) == (None, None)


def test_asked_while_it_is_being_bound() -> None:
    """The binding took hold: it leaves as one that is bound."""
    decided = known(
        local(), record(), admission=admission(), choice=Choice("a", "q", {}), busy=True
    )
    state, _ = go(decided, on.Evict(*VICTIM), on.RecordSeen(record("a", 1, version=21)))
    state, effects = go(state, on.Done())
    assert effects == (do.Evict(*VICTIM, RequeueState()),)


def test_the_next_attempt_knows_nothing_of_it() -> None:
    """What belonged to the stay is forgotten with it."""
    state = known(
        local(), evicted(), copy(gone=True), eviction=VICTIM, cannot_start="x", deadline=5.0
    )
    state, _ = go(state, on.RecordSeen(record(attempt=1, evicted="Preempted", version=21)))
    assert (state.eviction, state.cannot_start, state.deadline) == (None, "", None)


def test_a_cluster_that_evicts_is_not_asked_again_at_once() -> None:
    """It would be for the same reason; other evictions say nothing about the cluster."""
    for reason, refused in (("EvictedOnWorkerCluster", ["a"]), ("Preempted", [])):
        state = known(local(), evicted(reason), copy(gone=True))
        state, _ = go(state, on.RecordSeen(record(attempt=1, evicted=reason, version=21)))
        assert list(state.refusals) == refused
        assert all(refusal.until == NOW + 1 for refusal in state.refusals.values())


# Offers after checks


def test_checks_and_then_the_offer() -> None:
    """After the binding it is known that nothing is there; after the offer it is not."""
    state = known(
        local(), record(), admission=admission(), choice=Choice("a", "q", {}), queues=WITH_CHECKS
    )
    state, effects = go(state, on.Tick())
    assert effects == (do.Bind("a", 1),)
    pending = replace(bound(check("Pending"), OWN), version=21)
    state, effects = go(state, on.RecordSeen(pending), on.Done())
    assert effects == ()
    ready = replace(bound(check("Ready"), OWN), version=22)
    state, effects = go(state, on.RecordSeen(ready))
    assert effects == (OFFER,)
    assert state.remote is None
    retry = replace(bound(check("Retry"), OWN, evicted="AdmissionCheck"), version=23)
    state, effects = go(state, on.RecordSeen(retry), on.Failed(1.0), on.Tick())
    state, effects = go(state, on.Tick(), now=NOW + 1)
    assert effects == (do.Offer("a", 1, void=True),)
    void = copy(version=31, refused="it leaves", refused_reason="WithdrawnFromWorkerCluster")
    state, effects = go(state, on.RemoteSeen(void), on.Done(), now=NOW + 1)
    assert effects == (do.RemoveRemote("a", "copy-a-1"),)
    assert state.refusals == {}, "the cluster has refused nothing"
    state, effects = go(state, on.RemoteSeen(replace(void, gone=True)), on.Done(), now=NOW + 1)
    assert [type(effect) for effect in effects] == [do.Unbind]


# Retention

FINISHED = replace(ADMITTED, finished=True, finished_at=NOW - 100)
OVER = replace(STARTED, finished="Complete")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (known(OVER, FINISHED), (do.DeleteWorkload(),)),
        (known(OVER, FINISHED, copy(finished="Complete")), (do.RemoveRemote("a", "copy-a-1"),)),
        (known(OVER, replace(FINISHED, finished_at=NOW - 99)), ()),
        (known(local(), FINISHED), ()),
        (known(OVER, None), ()),
    ],
)
def test_retention_of_the_finished(state: JobState, expected: Effects) -> None:
    """Deleted after its time, and not made again; one that was never started keeps its record."""
    assert planned(state) == expected
    assert do.DeleteWorkload() not in planned(state, NOW + 500, NO_RULES)


def held(reason: str, at: float) -> JobState:
    theirs = record(active=False, evicted=reason, evicted_at=at, reason="Deactivated")
    theirs = replace(theirs, message=held_text(theirs))
    return known(local(), theirs, waits_written=NOW)


def test_retention_of_the_deactivated() -> None:
    """The job is deleted if the queue deactivated it; what people held is theirs."""
    assert planned(held("DeactivatedDueToX", NOW - 200)) == (do.DeleteJob(),)
    after, effects = go(held("DeactivatedDueToX", NOW - 50), on.Tick())
    assert (effects, wake_at(after)) == ((), NOW + 150)
    assert planned(held("Deactivated", NOW - 200)) == ()
    assert planned(held("DeactivatedDueToX", NOW - 200), rules=NO_RULES) == ()


# What ends in the moment in which it is to be stopped

ENDS = {"version": 31, "terminating": True, "status": {"succeeded": 1}}
LAST_WORDS: dict[str, tuple[RemoteJob, bool]] = {
    "completed while it was deleted": (copy(suspended=False, finished="Complete", **ENDS), True),
    "that is the last that is heard of it": (
        copy(suspended=False, finished="Complete", gone=True, **ENDS),
        True,
    ),
    "completed after its agent had suspended it": (
        copy(evicted=VICTIM, finished="Complete", version=31),
        True,
    ),
    "its pods were killed by the deletion": (
        copy(suspended=False, finished="Failed", **ENDS),
        False,
    ),
    "gone, its pods killed": (copy(suspended=False, finished="Failed", gone=True, **ENDS), False),
    "failed, then deleted": (
        copy(suspended=False, finished="Failed", gone=True, version=31),
        True,
    ),
}


@pytest.mark.parametrize("name", LAST_WORDS)
def test_it_ends_when_it_is_to_be_stopped(name: str) -> None:
    """Work that was completed is never thrown away; what was killed for it has not failed."""
    last, counts = LAST_WORDS[name]
    state, effects = go(known(STARTED, evicted(), RUNNING), on.RemoteSeen(last))
    found = [effect for effect in effects if isinstance(effect, do.FinishWorkload)]
    assert found == ([do.FinishWorkload(last.finished, "a")] if counts else [])
    assert state.remotes["a"].status == (last.status if counts or not last.gone else {})


def test_it_failed_before_it_was_deleted() -> None:
    """That was known: the deletion has nothing to do with it."""
    failed = copy(suspended=False, finished="Failed", version=31)
    for last in (
        replace(failed, version=32, terminating=True),
        replace(failed, version=32, gone=True),
    ):
        state, _ = go(known(STARTED, ADMITTED, RUNNING), on.RemoteSeen(failed))
        state, _ = go(state, on.RemoteSeen(last))
        assert state.remotes["a"].finished == "Failed"


def test_the_store_was_restored() -> None:
    """What a copy was before it ended is the truth then."""
    ended = replace(RUNNING, finished="Complete", version=31)
    state, _ = go(known(STARTED, ADMITTED, ended), on.ClusterReplaced("a"), on.RemoteSeen(RUNNING))
    assert state.remotes["a"].finished == ""


def test_the_last_word_comes_late() -> None:
    """It was known to be gone, and the job waits again: it has its result all the same."""
    gone = replace(RUNNING, gone=True)
    state = known(local(), record(attempt=1), gone, queued=True)
    last = copy(suspended=False, finished="Complete", gone=True, **ENDS)
    _, effects = go(state, on.RemoteSeen(last))
    assert effects == (
        do.SetSuspend(False),
        do.SyncStatus("a"),
        do.FinishWorkload("Complete", "a"),
    )
    failed = replace(last, finished="Failed", terminating=False)
    assert go(state, on.RemoteSeen(failed))[1] == ()
