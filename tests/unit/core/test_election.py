"""When a replica may take the Lease, and which times are refused."""

from __future__ import annotations

import pytest

from federation.core.election import ElectionTimes, Seen, free_at, seen

TIMES = ElectionTimes()


def test_the_default_times_are_sound() -> None:
    assert ElectionTimes().problem() == ""


@pytest.mark.parametrize(
    ("times", "number"),
    [
        (ElectionTimes(retry_s=0), "above 0"),
        (ElectionTimes(renew_deadline_s=3, retry_s=2), "4 s"),
        (ElectionTimes(lease_s=11, renew_deadline_s=10), "12 s"),
    ],
)
def test_times_that_elect_nobody_or_two_are_refused(times: ElectionTimes, number: str) -> None:
    """With the number that would do."""
    assert number in times.problem()


def test_only_a_change_proves_that_the_holder_lives() -> None:
    """The same version read again does not extend the wait; another version does."""
    first = seen(None, "a", 15, "1", now=100.0)
    assert seen(first, "a", 15, "1", now=109.0).since == 100.0
    assert seen(first, "a", 15, "2", now=109.0).since == 109.0


@pytest.mark.parametrize(
    ("known", "free"),
    [
        (None, None),
        (Seen("", 15, "1", 50.0), None),
        (Seen("own", 15, "1", 50.0), None),
        (Seen("other", 15, "1", 50.0), 65.0),
        (Seen("other", 40, "1", 50.0), 90.0),
        (Seen("other", 0, "1", 50.0), 65.0),
    ],
    ids=["absent", "released", "own", "held", "held for longer", "held without a duration"],
)
def test_when_the_lease_may_be_taken(known: Seen | None, free: float | None) -> None:
    """None is at once."""
    assert free_at(known, "own", TIMES) == free
