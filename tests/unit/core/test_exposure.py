"""How many offers a cluster may be made, and what counts as its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.controls import Life
from federation.core.dispatch import Choice
from federation.core.exposure import Exposure, OfferLimits, answered, offered_to, replied
from federation.core.facts import (
    Binding,
    Eviction,
    JobState,
    ObjectKey,
    Record,
    RemoteJob,
    nothing_there,
)

LIMITS = OfferLimits(patience=2.0, first=8, most=32)
KEY = ObjectKey("team", "j")
BOUND = Binding("a", 2, 1, "")
RECORD = Record("w", KEY, 5, binding=BOUND, attempt=2)


def copy(**more: Any) -> RemoteJob:
    given = {"attempt": 2, "suspended": True, **more}
    return RemoteJob("a", KEY, "r", 7, **given)


@pytest.mark.parametrize(
    ("exposure", "room"),
    [
        pytest.param(Exposure(), 1, id="it was offered nothing"),
        pytest.param(Exposure(open=1), 0, id="it has yet to answer"),
        pytest.param(Exposure(open=1, answers=1), 8, id="it has answered"),
        pytest.param(Exposure(open=9, waited=1.9, answers=1), 0, id="as many as may be"),
        pytest.param(Exposure(open=8, answers=5), 5, id="those it answered lately count"),
        pytest.param(Exposure(open=30, answers=100), 2, id="never more than at most"),
        pytest.param(Exposure(open=1, waited=2.0, answers=9), 0, id="it has fallen silent"),
        pytest.param(Exposure(answers=3, missed=True), 1, id="it let an offer pass"),
        pytest.param(Exposure(open=1, missed=True), 0, id="and with no second one"),
        pytest.param(Exposure(open=40), 0, id="more are open than may be, after a restart"),
    ],
)
def test_room(exposure: Exposure, room: int) -> None:
    assert exposure.room(LIMITS) == room


def test_silence() -> None:
    """Only a command that waits for too long; the text says for how long."""
    assert Exposure(open=32, waited=1.9).silence(LIMITS) == ""
    assert "has not answered an offer for 3 s" in Exposure(waited=3.2).silence(LIMITS)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(copy(), False, id="made"),
        pytest.param(copy(suspended=False), True, id="started"),
        pytest.param(copy(finished="Complete"), True, id="ended"),
        pytest.param(copy(refused="no room"), True, id="refused"),
        pytest.param(copy(deciding_until=9.0), True, id="deciding"),
        pytest.param(copy(held="the lease is over"), True, id="held"),
        pytest.param(copy(evicted=Eviction("Preempted", "x")), True, id="evicted"),
    ],
)
def test_what_is_an_answer(found: RemoteJob, said: bool) -> None:
    assert answered(found) is said
    state = JobState(record=RECORD, remotes={"a": found})
    assert offered_to(state) == ("" if said else "a")
    assert replied(state, "a") is said


@pytest.mark.parametrize(
    ("state", "cluster"),
    [
        pytest.param(JobState(), "", id="nothing is known"),
        pytest.param(JobState(record=RECORD), "a", id="bound, it may have been offered"),
        pytest.param(JobState(choice=Choice("b", "q", {})), "b", id="decided on"),
        pytest.param(JobState(record=replace(RECORD, life=Life(admitted=True))), "", id="admitted"),
        pytest.param(JobState(record=replace(RECORD, finished=True)), "", id="finished"),
        pytest.param(
            JobState(record=RECORD, remotes={"a": nothing_there(BOUND, 1)}),
            "",
            id="checks come before the offer",
        ),
        pytest.param(
            JobState(record=RECORD, remotes={"a": copy(attempt=1)}), "", id="an older copy goes"
        ),
        pytest.param(
            JobState(record=RECORD, remotes={"a": copy(terminating=True)}), "", id="withdrawn"
        ),
    ],
)
def test_whose_answer_is_waited_for(state: JobState, cluster: str) -> None:
    assert offered_to(state) == cluster


def test_a_withdrawn_offer_has_no_answer() -> None:
    """What is gone says nothing, unless it was refused."""
    gone = JobState(record=RECORD, remotes={"a": copy(gone=True)})
    refused = JobState(record=RECORD, remotes={"a": nothing_there(BOUND, 0, "NameTaken")})
    assert (replied(gone, "a"), replied(refused, "a")) == (False, True)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (OfferLimits(), ""),
        (OfferLimits(patience=0), "0 s"),
        (OfferLimits(patience=float("nan")), "nan s"),
        (OfferLimits(first=0), "0 open offers at first"),
        (OfferLimits(first=9, most=8), "9 open offers at first and 8 at most"),
    ],
)
def test_limits_that_make_no_sense(limits: OfferLimits, said: str) -> None:
    assert said in limits.problem()
    assert bool(limits.problem()) is bool(said)
