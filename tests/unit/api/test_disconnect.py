"""What annotations say of the loss of a cluster."""

from __future__ import annotations

import pytest

from federation.api.disconnect import read_wishes, write_disconnect
from federation.core.failover import OnDisconnect
from federation.core.wishes import Disconnect, Wishes, grace_problem, nearest

STOP, KEEP, TWICE = OnDisconnect.STOP, OnDisconnect.KEEP, OnDisconnect.DUPLICATE_OK


def said(**notes: str) -> Wishes:
    keys = {"policy": "fedq.io/on-disconnect", "after": "fedq.io/rerun-after"}
    annotations = {keys[key]: value for key, value in notes.items()}
    return read_wishes({"metadata": {"annotations": annotations}})


@pytest.mark.parametrize(
    ("notes", "policy", "after"),
    [
        ({}, None, None),
        ({"policy": "stop"}, STOP, None),
        ({"policy": "keep", "after": "600"}, KEEP, 600.0),
        ({"policy": "duplicate-ok", "after": "10m"}, TWICE, 600.0),
        ({"after": "0"}, None, 0.0),
        ({"after": "1h30m"}, None, 5400.0),
    ],
)
def test_read(notes: dict[str, str], policy: OnDisconnect | None, after: float | None) -> None:
    """Seconds, or a duration."""
    assert said(**notes) == Wishes(policy, after)


@pytest.mark.parametrize(
    ("notes", "problem"),
    [
        ({"policy": "stopp"}, "'stopp': it takes one of stop, keep, duplicate-ok"),
        ({"after": "soon"}, "'soon' is not a duration"),
        ({"after": "-5s"}, "not between 0s and ten years"),
        ({"after": "99999999999"}, "not between 0s and ten years"),
        ({"after": "9" * 500}, "is not a duration"),
        ({"after": "٣"}, "is not a duration"),
    ],
)
def test_what_cannot_be_understood(notes: dict[str, str], problem: str) -> None:
    """It is told, and stands for nothing."""
    found = said(**notes)
    assert problem in found.problem
    assert (found.policy, found.rerun_after) == (None, None)


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ([], Disconnect()),
        ([Wishes(KEEP), Wishes(TWICE)], Disconnect(KEEP)),
        ([Wishes(), Wishes(TWICE, 5.0), Wishes(KEEP, 9.0)], Disconnect(TWICE, 5.0)),
        ([Wishes(KEEP), Wishes(None, 9.0)], Disconnect(KEEP, 9.0)),
    ],
)
def test_the_nearest_word_counts(wishes: list[Wishes], expected: Disconnect) -> None:
    """Of each of the two the first; nobody's word means stop."""
    assert nearest(wishes) == expected


def test_written_and_read() -> None:
    """On a copy stands what holds, in seconds."""
    notes = write_disconnect(Disconnect(KEEP, 90.0))
    assert notes == {"fedq.io/on-disconnect": "keep", "fedq.io/rerun-after": "90"}
    assert read_wishes({"metadata": {"annotations": notes}}) == Wishes(KEEP, 90.0)
    assert write_disconnect(Disconnect()) == {"fedq.io/on-disconnect": "stop"}


@pytest.mark.parametrize(
    ("disconnect", "grace", "refused"),
    [
        (Disconnect(STOP), 45, False),
        (Disconnect(STOP), 46, True),
        (Disconnect(KEEP), 600, False),
        (Disconnect(KEEP, 900.0), 46, True),
        (Disconnect(TWICE, 900.0), 600, False),
    ],
)
def test_what_takes_too_long_to_stop(disconnect: Disconnect, grace: int, refused: bool) -> None:
    """Both numbers are told. What keeps running up to a limit is stopped then."""
    problem = grace_problem(disconnect, grace, 45.0)
    assert bool(problem) is refused
    assert not refused or ("46" in problem and "45 s" in problem)
