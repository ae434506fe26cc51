"""When a process ran, from records that may end early."""

from __future__ import annotations

import pytest

from fedq.drill.records import BEAT, Kind, Record, Subject
from fedq.drill.runs import Span, runs, without

SUBJECT = Subject("job", 1, "pod", "worker")


def record(kind: Kind, at: float, **more: float) -> Record:
    return Record(kind, SUBJECT, at, **more)


def beats(*moments: float) -> list[Record]:
    return [record(Kind.ALIVE, at) for at in moments]


def test_a_run_that_says_when_it_stopped() -> None:
    """Its own word counts, to the instant."""
    [run] = runs([record(Kind.START, 1), *beats(1.5), record(Kind.STOP, 1.7, exit=0)], now=9)

    assert run.spans == ((1, 1.7),)
    assert run.succeeded
    assert not run.open


@pytest.mark.parametrize(
    ("gone", "end"), [(None, 5 + BEAT), (5.1, 5.1), (8.0, 5 + BEAT), (4.9, 5.0)]
)
def test_a_run_that_was_killed_ends_at_most_a_heartbeat_after_its_last_record(
    gone: float | None, end: float
) -> None:
    """Earlier if somebody saw that it was gone."""
    seen = [] if gone is None else [record(Kind.GONE, gone)]
    [run] = runs([record(Kind.START, 4.5), *beats(5.0), *seen], now=100)

    assert run.end == end
    assert run.exit is None
    assert not run.open


def test_a_run_whose_heart_beats_is_open_until_now() -> None:
    """A late heartbeat does not end it."""
    [run] = runs([record(Kind.START, 4.5), *beats(5.0)], now=6.4)

    assert run.open
    assert run.spans == ((4.5, 6.4),)


def test_the_time_of_a_pause_is_no_running_time() -> None:
    """It may have run for one more heartbeat period before it was stopped."""
    paused = record(Kind.PAUSED, 190.0, since=10.0)
    [run] = runs([record(Kind.START, 5), *beats(10.0), paused, *beats(190.5)], now=190.7)

    assert run.spans == ((5, 10 + BEAT), (190, 190.7))
    assert run.seconds == pytest.approx(6.2)


@pytest.mark.parametrize(
    ("pauses", "left"),
    [
        ([], ((0, 10),)),
        ([(2, 3)], ((0, 2), (3, 10))),
        ([(5, 6), (2, 3)], ((0, 2), (3, 5), (6, 10))),
        ([(2, 5), (4, 7)], ((0, 2), (7, 10))),
        ([(2, 7), (3, 4)], ((0, 2), (7, 10))),
        ([(0, 10)], ((0, 0),)),
        ([(8, 12)], ((0, 8),)),
        ([(12, 13)], ((0, 10),)),
        ([(3, 3)], ((0, 10),)),
    ],
)
def test_pauses_are_cut_out(pauses: list[Span], left: tuple[Span, ...]) -> None:
    """In whatever order they come, and where they meet."""
    assert without((0, 10), pauses) == left
