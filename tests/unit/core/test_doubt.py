"""A copy that failed about when the lease of its cluster ended: no result, and it runs again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import events as on
from federation.core.facts import JobState, RemoteJob
from federation.core.failover import OnDisconnect, Standing
from federation.core.lifecycle import step
from federation.core.stay import LifeRules
from tests.unit.core.build import behind, copy, local, record

NOW = 1000.0
RULES = LifeRules(behind)
TWICE, KEEP = OnDisconnect.DUPLICATE_OK, OnDisconnect.KEEP

STARTED = local(suspended=False, started=True)
HERE = record("a", 1, admitted=True)
FAILED = copy(suspended=False, finished="Failed")
DONE = copy(suspended=False, finished="Complete")
LACKING = copy(suspended=False, lacking=True)
FINISHED = (do.FinishWorkload("Failed", "a"),)

WELL = Standing("a", fenced_below=1, stopped_below=1)
SUSPECT = replace(WELL, present=False, suspect=True, silent=60.0)
LAPSED = replace(SUSPECT, silent=121.0, lapsed=True, unrenewed=121.0)
BRAKE = replace(LAPSED, suspect=False, silent=0.0)
JUST_BACK = replace(WELL, lately=True)
TOLD = replace(WELL, breaks=2)
AWAY = replace(TOLD, present=False)
STOPPED = replace(LAPSED, epoch=2, fenced_below=2, stopped_below=2, silent=181.0)
BACK = replace(WELL, epoch=2, fenced_below=2, stopped_below=2)
NEW_MANAGER = replace(WELL, unheard=True)


def state(theirs: RemoteJob, **more: Any) -> JobState:
    return JobState(local=STARTED, record=HERE, remotes={"a": theirs}, **more)


def after(known: JobState, *standings: Standing) -> tuple[JobState, tuple[do.Effect, ...]]:
    """The state after these were heard, one after the other, and what the last one asks for."""
    effects: tuple[do.Effect, ...] = ()
    for standing in standings:
        known, effects = step(known, on.ClusterStood(standing), NOW, RULES)
        if standing is not standings[-1]:
            known = replace(known, busy=False)
    return known, effects


SEEN: dict[str, tuple[RemoteJob, tuple[Standing, ...], tuple[do.Effect, ...]]] = {
    "the cluster is well": (FAILED, (WELL,), FINISHED),
    "silent for a while: its lease holds": (FAILED, (SUSPECT,), FINISHED),
    "the lease may be over: it waits": (FAILED, (LAPSED,), ()),
    "the brake holds: it waits all the same": (FAILED, (BRAKE,), ()),
    "it may run twice, and is never stopped": (replace(FAILED, policy=TWICE), (LAPSED,), FINISHED),
    "keep without a limit is never stopped": (replace(FAILED, policy=KEEP), (LAPSED,), FINISHED),
    "the limit of keep is not near": (
        replace(FAILED, policy=KEEP, rerun_after=300.0),
        (LAPSED,),
        FINISHED,
    ),
    "the limit of keep may be over": (
        replace(FAILED, policy=KEEP, rerun_after=300.0),
        (replace(LAPSED, silent=281.0, unrenewed=281.0),),
        (),
    ),
    "the limit of keep may be over, and the brake holds": (
        replace(FAILED, policy=KEEP, rerun_after=300.0),
        (replace(BRAKE, unrenewed=281.0),),
        (),
    ),
    "the agent is back, what was killed may be heard of later": (
        FAILED,
        (replace(JUST_BACK, present=False),),
        (),
    ),
    "it was started when the agent was back": (
        replace(FAILED, breaks=2),
        (replace(JUST_BACK, breaks=2),),
        FINISHED,
    ),
    "it was started before the lease ended, whenever that is heard of": (
        replace(FAILED, breaks=1),
        (AWAY,),
        (),
    ),
    "keep with a limit was too": (
        replace(FAILED, breaks=1, policy=KEEP, rerun_after=300.0),
        (AWAY,),
        (),
    ),
    "keep without a limit lives on": (replace(FAILED, breaks=1, policy=KEEP), (TOLD,), FINISHED),
    "it was completed before the lease ended, or after": (
        replace(DONE, breaks=1),
        (TOLD,),
        (do.FinishWorkload("Complete", "a"),),
    ),
    "it was started under this lease": (replace(FAILED, breaks=2), (TOLD,), FINISHED),
    "nothing is told of where it was started": (FAILED, (TOLD,), FINISHED),
    "the manager is behind": (replace(FAILED, breaks=3), (TOLD,), FINISHED),
    "it was completed: that counts": (DONE, (LAPSED,), (do.FinishWorkload("Complete", "a"),)),
    "a manager that has just started waits for a renewal": (FAILED, (NEW_MANAGER,), ()),
    "that comes": (FAILED, (NEW_MANAGER, WELL), FINISHED),
    "and does not come": (FAILED, (NEW_MANAGER, LAPSED), ()),
    "nobody waits for that where nothing stops it": (
        replace(FAILED, policy=KEEP),
        (NEW_MANAGER,),
        FINISHED,
    ),
}


ALIVE: dict[str, tuple[tuple[Standing, ...], bool]] = {
    "it was seen to run after the lease had ended": ((JUST_BACK, TOLD), True),
    "what became of it is not known yet": ((replace(JUST_BACK, breaks=2),), False),
    "its cluster could not be reached": ((replace(TOLD, reachable=False),), False),
    "the manager has just started": ((replace(TOLD, unheard=True),), False),
}


@pytest.mark.parametrize("name", ALIVE)
def test_a_copy_that_lived_on(name: str) -> None:
    """It fails later, by itself: that counts if it was known to run after the lease had ended."""
    standings, counts = ALIVE[name]
    running = replace(FAILED, finished="", breaks=1)
    known, _ = after(state(running), *standings)
    failed = replace(FAILED, version=FAILED.version + 5, breaks=1)
    known, _ = step(replace(known, busy=False), on.RemoteSeen(failed), NOW, RULES)
    _, effects = after(replace(known, busy=False), TOLD)
    assert (effects == FINISHED) is counts


@pytest.mark.parametrize("name", SEEN)
def test_whether_a_failure_counts(name: str) -> None:
    """By when it becomes known, and by what the policy lets happen at the end of the lease."""
    theirs, standings, expected = SEEN[name]
    assert after(state(theirs), *standings)[1] == expected


LEAVING = {
    "the cluster is lost": (LAPSED, STOPPED),
    "it is back in the same epoch": (LAPSED, WELL),
    "it is back, and the brake held meanwhile": (BRAKE, WELL),
    "it is back in a new epoch": (LAPSED, BACK),
    "it was seen to fail only when it was back from a fence": (BACK,),
    "it was seen to fail only when it was back": (JUST_BACK,),
}


@pytest.mark.parametrize("name", LEAVING)
def test_it_runs_again(name: str) -> None:
    """Evicted as of a lost cluster, with the reason told; then it is queued, with the next attempt
    to come, and its copy goes without a word about how it ended.
    """
    known, (evict,) = after(state(FAILED), *LEAVING[name])
    assert isinstance(evict, do.Evict)
    assert (evict.reason, evict.cause) == ("ClusterLost", "")
    assert "attempt 1 on cluster a failed when the lease of that cluster was" in evict.message

    evicted = replace(record("a", 1, version=30, admitted=True, evicted="ClusterLost"))
    known, _ = step(known, on.RecordSeen(evicted), NOW, RULES)
    known, effects = step(known, on.Done(), NOW, RULES)
    assert effects[:2] == (do.SetSuspend(True), do.ResetStatus())
    assert isinstance(effects[2], do.Unbind)

    known, _ = step(known, on.LocalSeen(local(version=31)), NOW, RULES)
    waiting = record(attempt=1, version=32, evicted="ClusterLost")
    known, _ = step(known, on.RecordSeen(waiting), NOW, RULES)
    assert known.refusals["a"].until == NOW + 1, "it is not asked again at once"
    known, _ = step(known, on.ClusterStood(BACK), NOW, RULES)
    known, effects = step(known, on.Done(), NOW, RULES)
    assert effects == (do.RemoveRemote("a", FAILED.uid),)


@pytest.mark.parametrize("name", LEAVING)
def test_a_group_that_waits_for_other_pods_runs_again(name: str) -> None:
    """The guard has killed its pods: nobody creates others in their place."""
    known, (evict,) = after(state(LACKING), *LEAVING[name])
    assert isinstance(evict, do.Evict)
    assert evict.reason == "ClusterLost"

    left = record(attempt=1, version=32, evicted="ClusterLost")
    known, _ = step(known, on.RecordSeen(left), NOW, RULES)
    known, _ = step(known, on.LocalSeen(local(version=31)), NOW, RULES)
    known, _ = step(known, on.ClusterStood(BACK), NOW, RULES)
    _, effects = step(known, on.Done(), NOW, RULES)
    assert effects == (do.RemoveRemote("a", LACKING.uid, LACKING.version, wait=True),)


@pytest.mark.parametrize("theirs", [LACKING, replace(LACKING, policy=TWICE)])
def test_a_group_waits_for_other_pods(theirs: RemoteJob) -> None:
    """Its pods have failed by themselves, or nothing stops them."""
    standing = WELL if theirs.policy is not TWICE else replace(BRAKE, suspect=False)
    _, effects = after(state(theirs), standing)
    assert not any(isinstance(effect, do.Evict) for effect in effects)


def test_it_waits_for_its_other_pods() -> None:
    """A Job that failed by one pod may not have ended the others yet."""
    ending = replace(FAILED, status={"terminating": 1})
    assert after(state(ending), LAPSED, WELL)[1] == ()


def test_it_failed_after_it_was_adopted() -> None:
    """The record is in the new epoch already, the copy not yet: it was seen to run after it."""
    assert HERE.binding is not None
    adopted = replace(HERE, binding=replace(HERE.binding, epoch=2))
    assert after(replace(state(FAILED), record=adopted), BACK)[1] == FINISHED


def test_the_failure_is_told_again() -> None:
    """News of a copy that was doubted do not take the doubt away; another copy has none."""
    known, _ = after(state(FAILED), LAPSED)
    known = replace(known, standings={})
    again = replace(FAILED, version=FAILED.version + 5)
    known, _ = step(known, on.RemoteSeen(again), NOW, RULES)
    assert known.remotes["a"].doubtful
    other = replace(again, uid="another", version=FAILED.version + 6)
    known, _ = step(known, on.RemoteSeen(other), NOW, RULES)
    assert not known.remotes["a"].doubtful


def test_a_stray_is_kept_until_its_failure_can_be_judged() -> None:
    """It may be the result of a job that was to leave for another reason."""
    leaving = record(attempt=1, evicted="Preempted")
    known = JobState(local=local(), record=leaving, remotes={"a": FAILED}, queued=True)
    known, effects = after(known, NEW_MANAGER)
    assert not any(isinstance(effect, do.RemoveRemote) for effect in effects)
    assert after(known, WELL)[1] == (
        do.SetSuspend(False),
        do.SyncStatus("a"),
        do.FinishWorkload("Failed", "a"),
    )


def test_work_that_was_completed_elsewhere_counts_beside_it() -> None:
    """A failure that does not count does not hide a result."""
    there = record("b", 2, admitted=True)
    second = copy("b", 2, suspended=False, finished="Failed", doubtful=True)
    known = JobState(local=STARTED, record=there, remotes={"a": DONE, "b": second})
    effects = step(known, on.Tick(), NOW, RULES)[1]
    assert effects == (do.SyncStatus("a"), do.FinishWorkload("Complete", "a"))
