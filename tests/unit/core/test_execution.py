"""A limit of time, and copies that stand still because the lease of their cluster ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import events as on
from federation.core import execution
from federation.core.facts import JobState, Record, RemoteJob
from federation.core.failover import DEFAULT, OnDisconnect, Standing
from federation.core.lifecycle import step
from federation.core.stay import LifeRules
from tests.unit.core.build import behind, copy, local, record

NOW = 10_000.0
RULES = LifeRules(behind)
STARTED = local(suspended=False, started=True)
KEEP, TWICE = OnDisconnect.KEEP, OnDisconnect.DUPLICATE_OK
WELL = Standing("a", fenced_below=1, stopped_below=1)
LAPSED = replace(WELL, present=False, lapsed=True, unrenewed=100.0)
BACK, UNHEARD = replace(WELL, lately=True), replace(WELL, unheard=True)
LOST = replace(
    LAPSED, suspect=True, epoch=2, fenced_below=2, stopped_below=2, silent=181.0, unrenewed=181.0
)


def admitted(ago: float, limit: int = 600, past: int = 0, **binding: Any) -> Record:
    """Admitted so many seconds ago."""
    found = record(
        "a",
        1,
        admitted=True,
        admitted_at=NOW - ago,
        max_execution_s=limit,
        accumulated_past_s=past,
    )
    assert found.binding is not None
    return replace(found, binding=replace(found.binding, **binding))


def runs(**more: Any) -> RemoteJob:
    return copy(suspended=False, **more)


def held(**more: Any) -> RemoteJob:
    return copy(held="the lease is over", **more)


def planned(
    theirs: Record, ours: RemoteJob | None, standing: Standing = WELL
) -> tuple[JobState, tuple[do.Effect, ...]]:
    remotes = {} if ours is None else {"a": ours}
    known = JobState(local=STARTED, record=theirs, remotes=remotes)
    return step(known, on.ClusterStood(standing), NOW, RULES)


def stopped(effects: tuple[do.Effect, ...]) -> bool:
    return any(isinstance(effect, do.SetTarget) for effect in effects)


OVER: dict[str, tuple[Record, RemoteJob | None, Standing, bool]] = {
    "it ran all the time": (admitted(600), runs(), WELL, True),
    "it is held: nothing passes": (admitted(6000), held(ran_s=500), WELL, False),
    "it went on, and has time left": (admitted(900), runs(held_s=301), WELL, False),
    "it went on, and has none left": (admitted(900), runs(held_s=300), WELL, True),
    "with what ran before": (admitted(900, past=100), runs(held_s=399), WELL, True),
    "its cluster is silent, it may be held": (admitted(600), runs(), LAPSED, False),
    "back a moment ago: it has yet to tell": (admitted(600), runs(), BACK, False),
    "it was not seen since its lease ended": (
        admitted(600),
        runs(breaks=1),
        replace(WELL, breaks=2, reachable=False),
        False,
    ),
    "it was seen to run since": (admitted(600), runs(breaks=2), replace(WELL, breaks=2), True),
    "a manager that has not listed it yet": (admitted(600), None, WELL, False),
    "a manager that knows of no renewal yet": (admitted(600), runs(), UNHEARD, True),
    "nor sees the cluster": (admitted(600), runs(), replace(UNHEARD, reachable=False), False),
    "keep is never held": (admitted(600, policy=KEEP), runs(policy=KEEP), LAPSED, True),
    "nor is what may run twice": (admitted(600, policy=TWICE), runs(policy=TWICE), LAPSED, True),
    "nor keep long before its limit": (
        admitted(600, policy=KEEP, rerun_after=5000.0),
        runs(policy=KEEP, rerun_after=5000.0),
        LAPSED,
        True,
    ),
}


@pytest.mark.parametrize("name", OVER)
def test_when_its_time_is_over(name: str) -> None:
    theirs, ours, standing, expected = OVER[name]
    _, effects = planned(theirs, ours, standing)
    assert stopped(effects) is expected


def test_the_time_that_is_left_after_it_was_held() -> None:
    known, effects = planned(admitted(500), runs(held_s=200))
    assert (known.due, effects) == (NOW + 300, ())


STILL: dict[str, tuple[Record, RemoteJob | None, Standing, float]] = {
    "never": (admitted(500), runs(), WELL, 0.0),
    "before": (admitted(500), runs(held_s=120), WELL, 120.0),
    "now": (admitted(500), held(ran_s=150, held_s=100), WELL, 350.0),
    "its cluster is lost: since its lease ended": (admitted(500), runs(), LOST, 61.0),
    "and before": (admitted(500), runs(held_s=20), LOST, 81.0),
    "before it was admitted, too": (admitted(500, held_before=100), runs(held_s=120), LOST, 81.0),
    "as told by another copy": (admitted(500, held_before=100), runs(held_s=20), WELL, 0.0),
    "before, and now": (
        admitted(500, held_before=100),
        held(ran_s=150, held_s=100),
        WELL,
        350.0,
    ),
    "its cluster was lost before it was admitted": (admitted(10), runs(), LOST, 10.0),
    "it failed at the end of the lease": (
        admitted(500),
        copy(suspended=False, finished="Failed", ran_s=300),
        WELL,
        200.0,
    ),
    "keep runs on for its limit": (
        admitted(500, policy=KEEP, rerun_after=150.0),
        runs(policy=KEEP),
        LOST,
        31.0,
    ),
    "keep without one runs on": (admitted(500, policy=KEEP), runs(policy=KEEP), LOST, 0.0),
    "what may run twice runs on": (admitted(500, policy=TWICE), runs(policy=TWICE), LOST, 0.0),
}


@pytest.mark.parametrize("name", STILL)
def test_for_how_long_it_stood_still(name: str) -> None:
    theirs, ours, standing, expected = STILL[name]
    remotes = {} if ours is None else {"a": ours}
    known = JobState(local=STARTED, record=theirs, remotes=remotes, standings={"a": standing})
    assert execution.stood_still(known, theirs, NOW, DEFAULT) == expected


def test_leaving_a_lost_cluster_tells_it() -> None:
    _, (effect,) = planned(admitted(500), runs(), LOST)
    assert isinstance(effect, do.Evict)
    assert (effect.unbind, effect.idle_s) == (True, 61.0)


def test_leaving_a_cluster_that_is_well_tells_it() -> None:
    theirs = admitted(500)
    theirs = replace(theirs, life=replace(theirs.life, evicted="Preempted"))
    gone = held(ran_s=150, gone=True)
    _, effects = planned(theirs, gone)
    assert isinstance(effects[-1], do.Unbind)
    assert effects[-1].idle_s == 350.0


def test_what_is_held_before_it_was_admitted_counts_from_when_it_goes_on() -> None:
    """The manager was away as it was started: only the copy tells of that."""
    assert planned(record("a", 1), held(ran_s=100))[1] == ()
    assert do.Admit("a") in planned(record("a", 1), runs(held_s=100))[1]
