"""`step` branch by branch: which facts lead to which effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import events as on
from federation.core.backoff import RequeueState
from federation.core.dispatch import FOR_GOOD_S, Choice, Refusal
from federation.core.facts import Eviction, JobState, LocalJob, Record, RemoteJob
from federation.core.failover import Standing
from federation.core.lifecycle import step, wake_at
from federation.core.reasons import Reason
from federation.core.stay import LifeRules
from tests.unit.core.build import admission, behind, but, copy, local, record

NOW = 1000.0
RULES = LifeRules(behind)
DONE = {"succeeded": 1, "conditions": ["Complete"]}
Effects = tuple[do.Effect, ...]


def go(state: JobState, *events: on.Event, now: float = NOW) -> tuple[JobState, Effects]:
    """Feed events; the effects are those of the last one."""
    effects: Effects = ()
    for event in events:
        state, effects = step(state, event, now, RULES)
    return state, effects


def known(
    ours: LocalJob | None = None, theirs: Record | None = None, *copies: RemoteJob, **more: Any
) -> JobState:
    """The state after a restart that saw these facts and nothing else."""
    return JobState(local=ours, record=theirs, remotes={c.cluster: c for c in copies}, **more)


def planned(state: JobState, now: float = NOW) -> Effects:
    """What the facts call for."""
    return go(state, on.Tick(), now=now)[1]


STARTED = local(suspended=False, started=True)
ADMITTED = record("a", 1, admitted=True)


def evicted(reason: str, **life: Any) -> Record:
    """Phase one of its eviction is recorded."""
    return record("a", 1, admitted=True, evicted=reason, evicted_message="it has to go", **life)


def evict(reason: str, message: str, cause: str = "") -> do.Evict:
    return do.Evict(reason, message, cause, RequeueState())


HELD = evicted("Deactivated", active=False)

PHASES: dict[str, tuple[JobState, Effects]] = {
    # A job on its way
    "created": (known(local()), (do.CreateWorkload(),)),
    "recorded": (known(local(), record()), (do.Enqueue(),)),
    "waiting": (known(local(), record(), queued=True), ()),
    "waiting, and told why": (
        known(local(), record(), queued=True, waits=("WaitingForQuota", "0 free")),
        (do.SetWaiting("WaitingForQuota", "0 free"),),
    ),
    "waiting, and it is written": (
        known(
            local(),
            record(reason="WaitingForQuota", message="0 free"),
            queued=True,
            waits=("WaitingForQuota", "0 free"),
        ),
        (),
    ),
    "placed": (
        known(local(), record(), admission=admission(), choice=Choice("a", "q", {}), queued=True),
        (do.Bind("a", 1), do.Offer("a", 1)),
    ),
    "placed again": (
        known(local(), record(attempt=3), admission=admission(), choice=Choice("a", "q", {})),
        (do.Bind("a", 4), do.Offer("a", 4)),
    ),
    "bound, the offer not known to be made": (
        known(local(), record("a", 1)),
        (do.Offer("a", 1),),
    ),
    "offered": (known(local(), record("a", 1), copy()), ()),
    "started there": (
        known(local(), record("a", 1), copy(suspended=False)),
        (do.Admit("a"), do.SetSuspend(False)),
    ),
    "started there, with a status": (
        known(local(), record("a", 1), copy(suspended=False, status={"active": 1})),
        (do.Admit("a"), do.SetSuspend(False), do.SyncStatus("a")),
    ),
    "admitted, the local job not started yet": (
        known(local(), ADMITTED, copy(suspended=False)),
        (do.SetSuspend(False),),
    ),
    "running": (known(STARTED, ADMITTED, copy(suspended=False)), ()),
    "running, the status moved": (
        known(STARTED, ADMITTED, copy(suspended=False, status={"active": 1})),
        (do.SyncStatus("a"),),
    ),
    "ended there": (
        known(STARTED, ADMITTED, copy(suspended=False, finished="Complete", status=DONE)),
        (do.SyncStatus("a"), do.FinishWorkload("Complete", "a")),
    ),
    "ended there before it was seen running": (
        known(local(), record("a", 1), copy(suspended=False, finished="Failed", status=DONE)),
        (do.Admit("a"), do.SetSuspend(False), do.SyncStatus("a"), do.FinishWorkload("Failed", "a")),
    ),
    "ended there and deleted there": (
        known(STARTED, ADMITTED, copy(finished="Complete", status=DONE, gone=True)),
        (do.SyncStatus("a"), do.FinishWorkload("Complete", "a")),
    ),
    "ended here, the record not": (
        known(replace(STARTED, finished="Complete"), ADMITTED),
        (do.FinishWorkload("Complete"),),
    ),
    "all written": (
        known(
            replace(STARTED, finished="Complete"),
            replace(ADMITTED, finished=True),
            copy(finished="Complete"),
        ),
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "all done": (
        known(
            replace(STARTED, finished="Complete"),
            replace(ADMITTED, finished=True),
            copy(finished="Complete", gone=True),
        ),
        (),
    ),
    "all done, seen after a restart": (
        known(replace(STARTED, finished="Complete"), replace(ADMITTED, finished=True)),
        (),
    ),
    "ended, and without a record": (known(replace(STARTED, finished="Complete")), ()),
    # Leaving a cluster
    "refused": (
        known(local(), record("a", 1), copy(refused="no room", refused_reason="WaitingForQuota")),
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "refused, and removed": (
        known(
            local(),
            record("a", 1),
            copy(refused="no room", gone=True),
            refusals={"a": Refusal("a", "WaitingForQuota", "no room", 1, NOW + 1)},
        ),
        (do.Unbind("RefusedByWorkerCluster", "cluster a, attempt 1: no room", evicted=False),),
    ),
    "deleted there while it ran": (
        known(STARTED, ADMITTED, copy(suspended=False, gone=True)),
        (
            evict(
                "EvictedOnWorkerCluster",
                "the copy on cluster a, attempt 1 was stopped or deleted there",
            ),
        ),
    ),
    "deleted there while it ran, and recorded": (
        known(STARTED, evicted("EvictedOnWorkerCluster"), copy(suspended=False, gone=True)),
        (
            do.SetSuspend(True),
            do.ResetStatus(),
            do.Unbind("PendingEvaluation", "it has to go", evicted=True),
        ),
    ),
    "being deleted there": (
        known(STARTED, ADMITTED, copy(suspended=False, terminating=True)),
        (),
    ),
    "suspended there while it ran": (
        known(STARTED, ADMITTED, copy(suspended=True, version=33)),
        (
            evict(
                "EvictedOnWorkerCluster",
                "the copy on cluster a, attempt 1 was stopped or deleted there",
            ),
        ),
    ),
    "evicted there by its queue": (
        known(STARTED, ADMITTED, copy(suspended=True, evicted=Eviction("Preempted", "for u2"))),
        (
            evict(
                "EvictedOnWorkerCluster",
                "the copy on cluster a, attempt 1 was evicted there: for u2",
                "Preempted",
            ),
        ),
    ),
    "suspended there while it ran, and recorded": (
        known(STARTED, evicted("EvictedOnWorkerCluster"), copy(suspended=True, version=33)),
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "suspended here while it ran: held": (
        known(local(started=True), ADMITTED, copy(suspended=False), was_running=True),
        (do.SetActive(False),),
    ),
    "held, not recorded yet": (
        known(local(started=True), but(ADMITTED, active=False), copy(suspended=False)),
        (evict("Deactivated", "The workload is deactivated"),),
    ),
    "held, the copy still runs": (
        known(local(started=True), HELD, copy(suspended=False)),
        (do.RemoveRemote("a", "copy-a-1", wait=True),),
    ),
    "held, the copy is gone": (
        known(local(started=True), HELD, copy(gone=True)),
        (
            do.ResetStatus(),
            do.Unbind(
                "Deactivated",
                "it has to go: unsuspend the Job, or set spec.active of the Workload to true, to"
                " queue it again",
                evicted=True,
            ),
        ),
    ),
    "held, and resumed": (
        known(local(suspended=False), record(active=False, attempt=1)),
        (do.SetSuspend(True), do.SetActive(True)),
    ),
    "held while it waits": (
        known(local(), record(active=False), queued=True),
        (do.Dequeue(),),
    ),
    # What must not be there
    "a lower attempt on the cluster": (
        known(local(), record("a", 2), copy("a", 1)),
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "a running lower attempt elsewhere": (
        known(local(), record("b", 2), copy("a", 1, suspended=False)),
        (do.RemoveRemote("a", "copy-a-1", wait=True),),
    ),
    "a stray is stopping: nothing starts before it is gone": (
        known(
            local(),
            record(attempt=1),
            copy("a", 1, suspended=False, terminating=True),
            admission=admission(),
            choice=Choice("b", "q", {}),
        ),
        (),
    ),
    "a copy without a record": (known(local(), None, copy()), (do.RemoveRemote("a", "copy-a-1"),)),
    "unsuspended past the queue": (
        known(local(suspended=False), record()),
        (do.SetSuspend(True), do.ResetStatus()),
    ),
    "not ours to manage": (
        known(local(problem="managedBy is else"), record()),
        (do.SetWaiting("Misconfigured", "managedBy is else"),),
    ),
    "a queue that is missing": (
        known(local(), record(), queue_problem="no such queue", queued=True),
        (do.Dequeue(),),
    ),
    "a queue that is missing, seen": (
        known(local(), record(), queue_problem="no such queue"),
        (do.SetWaiting("Inadmissible", "no such queue"),),
    ),
    # Deletion, phase by phase
    "deleted before anything": (known(None), (do.Forget(),)),
    "deleted while it waits": (
        known(None, record(), queued=True),
        (do.DeleteWorkload(),),
    ),
    "being deleted while it waits": (
        known(local(terminating=True), record(), queued=True),
        (do.Dequeue(),),
    ),
    "being deleted": (known(local(terminating=True), record()), ()),
    "deleted when bound": (known(None, record("a", 1)), (do.DeleteWorkload(),)),
    "deleted when offered": (
        known(None, record("a", 1), copy()),
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "deleted when running": (
        known(None, ADMITTED, copy(suspended=False)),
        (do.RemoveRemote("a", "copy-a-1", wait=True),),
    ),
    "deleted, its copy stopping": (
        known(None, ADMITTED, copy(suspended=False, terminating=True)),
        (),
    ),
    "deleted, its copy gone": (known(None, ADMITTED, copy(gone=True)), (do.DeleteWorkload(),)),
    "deleted after the end": (
        known(None, replace(ADMITTED, finished=True), copy(finished="Complete")),
        (do.RemoveRemote("a", "copy-a-1"),),
    ),
    "deleted, all gone": (known(None, None, copy(gone=True)), (do.Forget(),)),
}


@pytest.mark.parametrize("name", PHASES)
def test_plan(name: str) -> None:
    """The facts alone decide: a restart in any phase goes on where it was."""
    state, expected = PHASES[name]
    effects = planned(state)

    assert without_versions(effects) == expected


def without_versions(effects: Effects) -> Effects:
    """Preconditions have tests of their own."""
    return tuple(
        replace(effect, version=None) if isinstance(effect, do.RemoveRemote) else effect
        for effect in effects
    )


@pytest.mark.parametrize("name", PHASES)
def test_busy(name: str) -> None:
    """While effects run nothing else is planned; when they end the plan is made again."""
    state, expected = PHASES[name]
    after, effects = go(replace(state, busy=True), on.Tick())
    assert effects == ()
    assert after.busy
    assert without_versions(go(after, on.Done())[1]) == expected


def test_failures_are_waited_out() -> None:
    """A failed effect is planned again when its time has come, not by the next fact."""
    state, effects = go(known(local()), on.Tick())
    assert effects == (do.CreateWorkload(),)
    state, effects = go(state, on.Failed(5.0))
    assert (effects, state.failures, wake_at(state)) == ((), 1, NOW + 5)
    state, effects = go(state, on.LocalSeen(local(version=11)), now=NOW + 4.9)
    assert effects == ()
    state, effects = go(state, on.Tick(), now=NOW + 5)
    assert effects == (do.CreateWorkload(),)
    state, _ = go(state, on.Failed(9.0), now=NOW + 5)
    assert (state.failures, wake_at(state)) == (2, NOW + 14)
    state, _ = go(state, on.Tick(), on.Done(), now=NOW + 14)
    assert state.failures == 0


# The way through, event by event


def test_the_whole_life() -> None:
    """Created → recorded → queued → placed → offered → started → status → ended → removed."""
    state, effects = go(JobState(), on.LocalSeen(local()))
    assert effects == (do.CreateWorkload(),)
    state, effects = go(state, on.RecordSeen(record()), on.Done())
    assert effects == (do.Enqueue(),)
    state, effects = go(state, on.Done())
    assert effects == ()
    state, effects = go(state, on.Placed(admission(), Choice("a", "q", {})))
    assert effects == (do.Bind("a", 1), do.Offer("a", 1))
    assert state.holds == admission()
    bound = record("a", 1, version=21)
    state, effects = go(state, on.RecordSeen(bound), on.RemoteSeen(copy()), on.Done())
    assert effects == ()
    assert state.holds == admission()
    state, effects = go(state, on.RemoteSeen(copy(suspended=False, version=31)))
    assert effects == (do.Admit("a"), do.SetSuspend(False))
    running = but(replace(bound, version=22), admitted=True)
    state, effects = go(
        state,
        on.RecordSeen(running),
        on.LocalSeen(local(suspended=False, version=11)),
        on.Done(),
    )
    assert effects == ()
    ended = copy(suspended=False, version=32, finished="Complete", status=DONE)
    state, effects = go(state, on.RemoteSeen(ended))
    assert effects == (do.SyncStatus("a"), do.FinishWorkload("Complete", "a"))
    done = local(suspended=False, version=12, finished="Complete", status=DONE)
    state, effects = go(
        state,
        on.LocalSeen(done),
        on.RecordSeen(replace(running, finished=True, version=23)),
        on.Done(),
    )
    assert effects == (do.RemoveRemote("a", "copy-a-1"),)
    assert state.holds is None
    state, effects = go(state, on.RemoteSeen(replace(ended, gone=True, version=33)), on.Done())
    assert effects == ()
    state, effects = go(state, on.LocalSeen(None))
    assert effects == (do.DeleteWorkload(),)
    state, effects = go(state, on.RecordSeen(None), on.Done())
    assert effects == (do.Forget(),)


# Answers


def offered(**more: Any) -> JobState:
    return known(local(), record("a", 1), copy(**more))


def test_withdrawal_of_an_unanswered_offer() -> None:
    """After 10 s, on the version that was seen: an answer written meanwhile wins."""
    state, effects = go(offered(version=37), on.Tick())
    assert effects == ()
    assert wake_at(state) == NOW + 10
    assert go(state, on.Tick(), now=NOW + 9.9)[1] == ()
    state, effects = go(state, on.Tick(), now=NOW + 10)
    assert effects == (do.RemoveRemote("a", "copy-a-1", version=37, wait=False),)
    started = copy(version=38, suspended=False)
    state, effects = go(state, on.RemoteSeen(started), on.Failed(0.05), now=NOW + 11)
    state, effects = go(state, on.Tick(), now=NOW + 12)
    assert effects == (do.Admit("a"), do.SetSuspend(False))
    assert wake_at(state) is None


def test_an_unanswered_offer_where_nobody_can_be_reached() -> None:
    """Its time is over, and asks for nothing before there is news of the cluster."""
    away = Standing("a", reachable=False)
    state, effects = go(offered(), on.ClusterStood(away))
    assert wake_at(state) == NOW + 10
    state, effects = go(state, on.Tick(), now=NOW + 10)
    assert (effects, wake_at(state)) == ((), None)
    state, effects = go(state, on.ClusterStood(Standing("a")), now=NOW + 60)
    assert effects == (do.RemoveRemote("a", "copy-a-1", version=30, wait=False),)


def test_the_withdrawn_offer_is_unbound() -> None:
    """And queued again under the same attempt, which the next offer exceeds."""
    state, _ = go(offered(), on.Tick())
    state, _ = go(state, on.Tick(), now=NOW + 10)
    state, effects = go(state, on.RemoteAbsent("a", 30), on.Done(), now=NOW + 10)
    (effect,) = effects
    assert effect == do.Unbind(
        "WithdrawnFromWorkerCluster", "cluster a, attempt 1: no answer within 10 s", evicted=False
    )
    free = record(attempt=1, version=21)
    state, effects = go(state, on.RecordSeen(free), on.Done(), now=NOW + 10)
    assert effects == (do.Enqueue(),)
    assert state.holds is None
    state, _ = go(state, on.Done())
    effects = go(state, on.Placed(admission(), Choice("b", "q", {})))[1]
    assert effects == (do.Bind("b", 2), do.Offer("b", 2))


def test_deciding() -> None:
    """An agent that pleads for time gets it, and no more."""
    state, effects = go(offered(), on.RemoteSeen(copy(version=31, deciding_until=NOW + 60)))
    assert effects == ()
    assert wake_at(state) == NOW + 60
    assert go(state, on.Tick(), now=NOW + 59)[1] == ()
    assert isinstance(go(state, on.Tick(), now=NOW + 60)[1][0], do.RemoveRemote)


@pytest.mark.parametrize("count", range(1, 12))
def test_refusals_are_remembered_twice_as_long(count: int) -> None:
    """1 s, 2 s, 4 s … 5 min, per cluster."""
    before = {"a": Refusal("a", "r", "m", count - 1, 0.0)} if count > 1 else {}
    state = replace(offered(), refusals=before)
    no = copy(version=31, refused="no room", refused_reason="WaitingForQuota")
    state, effects = go(state, on.RemoteSeen(no))

    refusal = state.refusals["a"]
    assert refusal.until == NOW + min(2.0 ** (count - 1), 300.0)
    assert (refusal.count, refusal.message) == (count, "no room")
    assert without_versions(effects) == (do.RemoveRemote("a", "copy-a-1"),)
    again, _ = go(state, on.RemoteSeen(replace(no, version=32)))
    assert again.refusals == state.refusals, "one refusal is counted once"


def test_what_it_waits_for_on_its_cluster_is_told() -> None:
    """In the record, once for each text; an order that cannot be followed has the note first."""
    state, effects = go(offered(deciding_until=NOW + 600, waits_for="check p"))
    text = "it has its quota on cluster a and waits there: check p"
    state, effects = go(state, on.Tick())
    assert effects == (do.SetNote(text),)
    told = record("a", 1, version=21, note=text)
    state, effects = go(state, on.RecordSeen(told), on.Done())
    assert effects == ()
    assert wake_at(state) == NOW + 600
    news = copy(version=31, deciding_until=NOW + 600, waits_for="check p (2 of 3)")
    _, effects = go(state, on.RemoteSeen(news))
    assert effects == (do.SetNote(f"{text} (2 of 3)"),)
    moved = replace(told, version=22, move_to="nowhere", note="it cannot be moved to nowhere")
    _, effects = go(replace(state, record=moved), on.RemoteSeen(news))
    assert not any(
        isinstance(effect, do.SetNote) and "check" in effect.message for effect in effects
    )


@pytest.mark.parametrize(
    ("after", "until", "final"),
    [(None, 1.0, False), (0.5, 1.0, False), (90.0, 90.0, False), (FOR_GOOD_S, FOR_GOOD_S, True)],
)
def test_a_cluster_says_when_to_ask_it_again(
    after: float | None, until: float, final: bool
) -> None:
    """Be it with its no, or when it stops what runs; never sooner than after any other no."""
    no = copy(version=31, refused="no", refused_reason="AdmissionCheck", retry_after=after)
    state, _ = go(offered(), on.RemoteSeen(no))
    refusal = state.refusals["a"]
    assert (refusal.until, refusal.final) == (NOW + until, final)

    stopped = copy(version=31, evicted=Eviction("AdmissionCheck", "m"), retry_after=after)
    left = record("a", 1, evicted=Reason.EVICTED_ON_WORKER_CLUSTER)
    state = known(local(), left, stopped)
    state, _ = go(state, on.RecordSeen(record("", 1, version=21)))
    refusal = state.refusals["a"]
    assert (refusal.until, refusal.final) == (NOW + until, final)


def test_what_is_refused_for_good_is_asked_again_on_request() -> None:
    """Somebody deactivates the job and activates it again, or asks for other pods; a no for a while
    stays.
    """
    final = Refusal("a", "AdmissionCheck", "m", 1, NOW + FOR_GOOD_S, final=True)
    refusals = {"a": final, "b": Refusal("b", "r", "m", 1, NOW + 60)}
    state = replace(known(local(), record()), refusals=refusals)
    assert go(state, on.LocalSeen(local(version=11)))[0].refusals == refusals
    moved, _ = go(state, on.LocalSeen(local(version=11, queue="other")))
    assert moved.refusals.keys() == {"b"}
    off, _ = go(state, on.RecordSeen(record(version=21, active=False)))
    assert off.refusals == refusals
    again, _ = go(off, on.Done(), on.RecordSeen(record(version=22)))
    assert again.refusals.keys() == {"b"}


def test_a_cluster_that_cannot_take_it() -> None:
    """A foreign job of that name, no such namespace: unbound at once, with the reason."""
    state = replace(known(local(), record("a", 1)), busy=True)
    state, effects = go(state, on.OfferRefused("a", "NameTaken", "a foreign job is there"))

    assert effects == (
        do.Unbind(
            "RefusedByWorkerCluster",
            "cluster a, attempt 1: a foreign job is there",
            evicted=False,
        ),
    )
    assert state.refusals["a"].reason == "NameTaken"


def test_an_admitted_copy_of_which_no_listing_tells() -> None:
    """Somebody changed the record: an offer that nobody starts asks. A no to that is no answer."""
    state, effects = go(known(STARTED, ADMITTED), on.Tick())
    assert (effects, wake_at(state)) == ((), NOW + 60)
    state, effects = go(state, on.Tick(), now=NOW + 60)
    assert effects == (do.Offer("a", 1, True),)

    no, effects = go(state, on.OfferRefused("a", "Forbidden", "the epoch is over"), now=NOW + 60)
    assert (no.remote, effects) == (None, ())
    assert go(no, on.Tick(), now=NOW + 120)[1] == (do.Offer("a", 1, True),)
    copies = copy(suspended=True, refused="void", refused_reason="WithdrawnFromWorkerCluster")
    gone, _ = go(replace(state, busy=False), on.RemoteSeen(copies), now=NOW + 60)
    gone, effects = go(
        replace(gone, busy=False), on.RemoteAbsent("a", copies.version + 1), now=NOW + 61
    )
    assert isinstance(effects[0], do.Evict)


def test_the_binding_is_lost_to_another_writer() -> None:
    """The decision is void: nothing is held, and it queues again."""
    state = known(
        local(), record(), admission=admission(), choice=Choice("a", "q", {}), queued=True
    )
    state, _ = go(state, on.Tick())
    state, effects = go(state, on.BindLost())
    assert state.holds is None
    assert effects == (do.Enqueue(),)


def test_a_decision_holds_quota_while_it_is_written() -> None:
    """The binding may be in the record at any moment, though the job is deleted by now."""
    state = known(local(), record(), queued=True)
    state, effects = go(state, on.Placed(admission(), Choice("a", "q", {})))
    assert isinstance(effects[0], do.Bind)
    deleted = replace(local(), terminating=True)
    state, _ = go(state, on.LocalSeen(replace(deleted, version=deleted.version + 1)))
    assert state.holds == admission()
    state, _ = go(state, on.BindLost())
    assert state.holds is None


# People


def test_hold_and_resume() -> None:
    """Suspending a running job holds it; unsuspending queues it again, as a new attempt."""
    state = known(STARTED, ADMITTED, copy(suspended=False))
    state, effects = go(
        state, on.Tick(), on.LocalSeen(replace(STARTED, version=11, suspended=True))
    )
    assert effects == (do.SetActive(False),)
    held = but(replace(ADMITTED, version=21), active=False)
    state, effects = go(state, on.RecordSeen(held), on.Done())
    assert effects == (evict("Deactivated", "The workload is deactivated"),)
    leaving = replace(HELD, version=22)
    state, effects = go(state, on.RecordSeen(leaving), on.Done())
    assert without_versions(effects) == (do.RemoveRemote("a", "copy-a-1", wait=True),)
    gone = copy(suspended=False, gone=True, version=32)
    state, effects = go(state, on.RemoteSeen(gone), on.Done())
    assert [type(effect) for effect in effects] == [do.ResetStatus, do.Unbind]
    unbind = effects[1]
    free = record(
        attempt=1,
        active=False,
        evicted="Deactivated",
        requeued="Deactivated",
        evicted_message="it has to go",
        reason=unbind.reason,
        message=unbind.message,
        version=23,
    )
    reset = on.LocalSeen(local(version=12))
    state, effects = go(state, reset, on.RecordSeen(free), on.Done())
    assert effects == ()
    resumed = replace(STARTED, version=13, suspended=False, started=False)
    state, effects = go(state, on.LocalSeen(resumed))
    assert effects == (do.SetSuspend(True), do.SetActive(True))
    state, effects = go(
        state, on.RecordSeen(but(free, active=True)), on.LocalSeen(local(version=14))
    )
    assert go(state, on.Done())[1] == (do.Readmit("Reactivated", "The workload was reactivated"),)


def test_our_own_unsuspension_is_no_wish() -> None:
    """Admitted and not yet started is a crash between two writes, not a person's suspension."""
    state = known(local(), ADMITTED, copy(suspended=False), was_running=False)
    assert planned(state) == (do.SetSuspend(False),)


def test_a_binding_taken_away_by_hand_is_no_wish() -> None:
    """The job queues anew: that it is suspended for that is our doing."""
    running = local(suspended=False, started=True)
    state = known(running, ADMITTED, copy(suspended=False), was_running=True)
    unbound = but(record(version=21), admitted=True)
    state, effects = go(state, on.LocalSeen(replace(running, version=11)), on.RecordSeen(unbound))
    assert effects == (do.RemoveRemote("a", "copy-a-1", version=30, wait=True),)
    assert not state.was_running


def test_a_moved_job_queues_anew() -> None:
    """Another queue name or other pods: the old place in the queue is void."""
    state = known(local(), record(), queued=True)
    effects = go(state, on.LocalSeen(local(version=11, queue="other")))[1]
    assert effects == (do.Enqueue(),)
    assert go(state, on.LocalSeen(local(version=11, status={"x": 1})))[1] == ()


def test_the_queue_is_mended() -> None:
    """When its queue is in order again the job is queued."""
    state = known(local(), record(), queue_problem="no such queue")
    assert go(state, on.QueueProblem(""))[1] == (do.Enqueue(),)


def test_new_numbers_are_written_now_and_then() -> None:
    """A new reason at once, new numbers at most every 10 s."""
    told = record(reason="WaitingForQuota", message="0 free")
    state = known(local(), told, queued=True, waits_written=NOW)
    numbers = on.NotPlaced("WaitingForQuota", "1 free")
    early, effects = go(state, numbers, now=NOW + 9)
    assert (effects, wake_at(early)) == ((), NOW + 10)
    assert go(early, on.Tick(), now=NOW + 10)[1] == (do.SetWaiting("WaitingForQuota", "1 free"),)
    assert go(state, numbers, now=NOW + 10)[1] == (do.SetWaiting("WaitingForQuota", "1 free"),)
    other = on.NotPlaced("ExceedsMaxQuota", "never")
    assert go(state, other, now=NOW + 1)[1] == (do.SetWaiting("ExceedsMaxQuota", "never"),)


# Facts


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        (on.LocalSeen(local(version=9, queue="old")), "local"),
        (on.RecordSeen(record(version=19)), "record"),
        (on.RemoteSeen(copy(version=29, refused="old")), "remotes"),
        (on.RemoteAbsent("a", 29), "remotes"),
        (on.RemoteAbsent("b", 99), "remotes"),
        (on.RemoteSeen(copy(version=99, uid="another", gone=True)), "remotes"),
    ],
)
def test_old_news_is_ignored(event: on.Event, kept: str) -> None:
    """A fact with an older version never replaces a newer one."""
    state = known(local(), record("a", 1), copy())
    assert getattr(go(state, event)[0], kept) == getattr(state, kept)


def test_the_last_word_of_a_copy_that_nobody_knows() -> None:
    """The job it was made for has been forgotten; what has its UID now, a group of other pods, has
    not ended by it.
    """
    last = on.RemoteSeen(copy(version=31, gone=True, finished="Complete"))
    state, effects = go(known(local()), last)
    assert (state.remotes, effects) == ({}, (do.CreateWorkload(),))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (known(local(), record("a", 1)), (do.Offer("a", 1),)),
        (known(local(), ADMITTED), ()),
        (
            known(local(), record("a", 1, active=False, evicted="Deactivated")),
            (do.Offer("a", 1, void=True),),
        ),
        (known(local(), HELD), ()),
    ],
)
def test_before_the_first_listing(state: JobState, expected: Effects) -> None:
    """An admitted job's copy is waited for; an offer is simply made again."""
    assert planned(state) == expected


def test_a_listing_without_the_copy() -> None:
    """Of an admitted job: it was deleted there while nobody looked."""
    _, effects = go(known(STARTED, evicted("Preempted")), on.RemoteAbsent("a", 77))
    assert [type(effect) for effect in effects] == [do.SetSuspend, do.ResetStatus, do.Unbind]


def test_attempt_survives_in_the_copies() -> None:
    """A record that lost its attempt does not lead to one that was used."""
    state = known(
        local(),
        record(),
        copy("a", 6, gone=True),
        admission=admission(),
        choice=Choice("b", "q", {}),
    )
    assert planned(state) == (do.Bind("b", 7), do.Offer("b", 7))


CHOSEN = {"admission": admission(), "choice": Choice("a", "q", {})}


@pytest.mark.parametrize(
    "state",
    [
        known(local(), record(active=False), **CHOSEN),
        known(local(), None, **CHOSEN),
        known(local(), record(finished=True), **CHOSEN),
        known(local(problem="not ours"), record(), **CHOSEN),
        known(local(terminating=True), record(), **CHOSEN),
        known(replace(STARTED, finished="Failed"), record(), **CHOSEN),
        known(None, record(), **CHOSEN),
    ],
)
def test_a_decision_that_cannot_be_bound_any_more(state: JobState) -> None:
    """The job was held, ended or deleted before the binding was written: its quota is free."""
    after, effects = go(state, on.Tick())
    assert (after.choice, after.holds) == (None, None)
    assert not any(isinstance(effect, do.Bind) for effect in effects)


CHARGED = admission(amount=3)


@pytest.mark.parametrize(
    ("state", "amount"),
    [
        (known(local(), record()), 0),
        (known(local(), record(), admission=CHARGED), 3),
        (known(local(), record("a", 1), admission=CHARGED), 1),
        (known(local(), replace(ADMITTED, finished=True), admission=CHARGED), 0),
        (known(local(), None, admission=CHARGED), 0),
    ],
)
def test_quota_is_held_once(state: JobState, amount: int) -> None:
    """From the decision on, then by the record instead, until the end."""
    held = state.holds
    assert (sum(held.usage().values()) if held else 0) == amount


def test_wake_at() -> None:
    """When it is due; but nothing is done before the time of the next try has come."""
    assert wake_at(JobState()) is None
    assert wake_at(JobState(due=5.0)) == 5.0
    assert wake_at(JobState(retry_at=7.0)) == 7.0
    assert wake_at(JobState(due=5.0, retry_at=7.0)) == 7.0


def test_a_job_that_could_not_be_queued_is_queued_again() -> None:
    """Nobody would ever look at it otherwise."""
    state, effects = go(known(local(), record()), on.Tick())
    assert effects == (do.Enqueue(),)
    state, _ = go(state, on.Failed(1.0))
    assert go(state, on.Tick(), now=NOW + 1)[1] == (do.Enqueue(),)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (known(None, None), True),
        (known(None, None, copy(gone=True)), True),
        (known(None, None, copy()), False),
        (known(None, record()), False),
        (known(local(), None), False),
    ],
)
def test_forgettable(state: JobState, expected: bool) -> None:
    """Between the decision to forget a job and the deed something of it may come up."""
    assert state.forgettable is expected


# Removal


def test_suspended_copies_are_removed_on_the_version_seen() -> None:
    """The agent may start a copy at the same moment: the deletion must lose against that."""
    held = known(local(), record("a", 1, evicted="Preempted"), copy(version=34))
    (effect,) = planned(held)
    assert effect == do.RemoveRemote("a", "copy-a-1", version=34)


def test_a_copy_with_pods_is_deleted_in_the_foreground() -> None:
    """A suspended copy whose pods still stop is gone only when they are."""
    for status in ({"active": 1}, {"terminating": 1}):
        state = known(STARTED, evicted("Preempted"), copy(suspended=True, status=status))
        (effect,) = planned(state)
        assert isinstance(effect, do.RemoveRemote)
        assert effect.wait, status


def test_a_status_that_the_server_does_not_keep_is_written_once() -> None:
    """An older management cluster drops fields of a newer worker: no endless writing."""
    moved = copy(suspended=False, status={"active": 1})
    state, effects = go(known(STARTED, ADMITTED, moved), on.Tick())
    assert effects == (do.SyncStatus("a"),)
    state, effects = go(state, on.Done(), on.Tick())
    assert effects == ()
    state, effects = go(state, on.RemoteSeen(replace(moved, version=moved.version + 1)))
    assert effects == (do.SyncStatus("a"),)
    _, effects = go(state, on.Failed(1.0), on.Tick(), now=NOW + 2)
    assert effects == ()
    _, effects = go(go(state, on.Failed(1.0))[0], on.Tick(), now=NOW + 2)
    assert effects == (do.SyncStatus("a"),)


def test_a_cluster_rebuilt_under_its_name_is_believed() -> None:
    """Its versions start low again; the copy of the old one is gone with it."""
    running = replace(copy(suspended=False), version=900)
    state = known(STARTED, ADMITTED, running)
    assert go(state, on.RemoteAbsent("a", 5))[1] == ()
    _, effects = go(state, on.ClusterReplaced("a"), on.RemoteAbsent("a", 5))
    assert [type(effect) for effect in effects] == [do.Evict]
