"""What a Job shows between a cluster that is lost and the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core import effects as do
from federation.core import events as on
from federation.core.dispatch import Choice
from federation.core.facts import JobState, LocalJob, Record
from federation.core.lifecycle import step, wake_at
from federation.core.stay import LifeRules
from federation.core.transit import PLACE_S
from tests.unit.core.build import admission, behind, but, copy, local, record

LOST_AT = 1000.0
SOON, LATE = LOST_AT + PLACE_S / 2, LOST_AT + PLACE_S
RULES = LifeRules(behind)
RUNS, SUSPENDED, RESET = (
    local(suspended=False, started=True),
    local(suspended=True, started=True),
    local(),
)
TAKE_BACK = (do.SetSuspend(True), do.ResetStatus())
WAITS = ("WaitingForQuota", "no room")


def lost(attempt: int = 1, **life: Any) -> Record:
    ours = record(attempt=attempt, evicted="ClusterLost", **life)
    return replace(ours, evicted_at=LOST_AT)


def planned(
    ours: LocalJob, theirs: Record, now: float, **more: Any
) -> tuple[tuple[do.Effect, ...], float | None]:
    state = JobState(local=ours, record=theirs, **{"queued": True, **more})
    state, effects = step(state, on.Tick(), now, RULES)
    return effects, wake_at(state)


PLACED = {"admission": admission(), "choice": Choice("b", "q", {})}
BIND = (do.Bind("b", 2), do.Offer("b", 2))
SHOWN: dict[str, tuple[LocalJob, Record, dict[str, Any], tuple[do.Effect, ...]]] = {
    "it is queued first": (RUNS, lost(), {"queued": False}, (do.Enqueue(),)),
    "nothing is said while it may find a place": (RUNS, lost(), {"waits": WAITS}, ()),
    "it finds one, and is not touched": (RUNS, lost(), PLACED, BIND),
    "its suspension was the last thing that was done: no wish": (
        SUSPENDED,
        lost(),
        PLACED,
        (do.ResetStatus(),),
    ),
    "suspended as it should be": (RESET, lost(), PLACED, BIND),
    "it cannot queue": (RUNS, lost(), {"queue_problem": "no LocalQueue"}, TAKE_BACK),
    "nobody can manage it any more": (
        replace(RUNS, problem="x"),
        lost(),
        {"queued": False},
        TAKE_BACK,
    ),
    "it was deactivated: that it is not suspended is no wish": (
        RUNS,
        lost(active=False),
        {},
        TAKE_BACK,
    ),
    "it was withdrawn from the next one": (
        RUNS,
        but(lost(2), evicted=""),
        {},
        TAKE_BACK,
    ),
    "an earlier copy may run: it waits for that": (
        RUNS,
        lost(),
        {"remotes": {"a": copy(suspended=False, terminating=True)}},
        (),
    ),
    "one that was never bound is suspended": (RUNS, record(), {}, TAKE_BACK),
}


@pytest.mark.parametrize("name", SHOWN)
def test_soon_after_the_loss(name: str) -> None:
    """Its record is what tells; the Job is left alone as long as it can be placed."""
    ours, theirs, more, expected = SHOWN[name]
    effects, due = planned(ours, theirs, SOON, **more)
    assert effects == expected
    if not effects:
        assert due == LATE


def test_after_a_while_it_shows_that_it_waits() -> None:
    """First that it runs nowhere, then why."""
    assert planned(RUNS, lost(), LATE, waits=WAITS)[0] == TAKE_BACK
    assert planned(RESET, lost(), LATE, waits=WAITS)[0] == (do.SetWaiting(*WAITS),)
    assert planned(RUNS, lost(), LATE, **PLACED)[0] == BIND
    stray = {"remotes": {"a": copy(suspended=False, terminating=True)}}
    assert planned(RUNS, lost(), LATE, **stray)[0] == TAKE_BACK


def test_an_offer_that_is_refused_meanwhile() -> None:
    """The record first: a Job that is suspended, bound and not evicted would look like a wish."""
    no = copy(cluster="b", attempt=2, gone=True, refused="no room")
    theirs, there = record("b", 2), {"remotes": {"b": no}}
    (unbind,), _ = planned(RUNS, theirs, SOON, **there)
    assert isinstance(unbind, do.Unbind)
    effects, _ = planned(replace(RUNS, started=False), theirs, SOON, **there)
    assert effects[:2] == TAKE_BACK


def test_it_runs_again_without_having_been_suspended() -> None:
    """Nothing but the record says that it was elsewhere; a suspension then is a wish again."""
    there = {"remotes": {"b": copy("b", 2, suspended=False)}}
    assert planned(RUNS, record("b", 2), SOON, **there)[0] == (do.Admit("b"),)
    wish, _ = planned(SUSPENDED, record("b", 2, admitted=True), SOON, **there)
    assert wish == (do.SetActive(False),)


def test_a_suspension_whose_answer_was_lost() -> None:
    """It was suspended when it was given up, and bound before that was known. Were it admitted so,
    whatever fails between the record and the Job would make a wish of it.
    """
    there = {"remotes": {"b": copy("b", 2, suspended=False)}}
    assert planned(SUSPENDED, record("b", 2), SOON, **there)[0] == (do.ResetStatus(),)
    admitted, start = planned(RESET, record("b", 2), SOON, **there)[0]
    assert (admitted, start) == (do.Admit("b"), do.SetSuspend(False))


def test_it_was_deactivated_between_two_writes() -> None:
    """The second one is made up for: who resumes it then is not taken for its last run."""
    assert planned(SUSPENDED, lost(active=False), SOON)[0] == (do.ResetStatus(),)


def test_it_could_not_be_started_on_the_next_one() -> None:
    """Its Workload is over, and the Job does not go on showing its last run."""
    over = replace(record("b", 2), finished=True, finished_at=SOON)
    assert planned(RUNS, over, SOON, queued=False)[0] == TAKE_BACK
    assert planned(RESET, over, SOON, queued=False)[0] == ()
    ran = replace(record("b", 2, admitted=True), finished=True, finished_at=SOON)
    assert planned(RUNS, ran, SOON, queued=False)[0] == ()
