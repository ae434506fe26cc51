"""What a copy says of the time in which it was held."""

from __future__ import annotations

import pytest

from federation.api.names import Mirror
from federation.jobs import pauses
from federation.jobs.batch_job import remote_job
from federation.jobs.pauses import Pauses, read_pauses
from tests.unit.worker_agent.support import mirrored

T = 1767225600.0  # 2026-01-01T00:00:00Z
STARTED = {Mirror.RESERVED_AT.value: "2026-01-01T00:00:00Z"}
Notes = dict[str, str]


def written(before: Notes, patch: dict[str, str | None]) -> Notes:
    """The annotations after a merge patch."""
    after = {**before, **patch}
    return {key: text for key, text in after.items() if text is not None}


def held(before: Notes, at: float) -> Notes:
    return written(before, pauses.begins("the lease is over", T + at))


def resumed(before: Notes, at: float) -> Notes:
    return written(before, pauses.goes_on(read_pauses(before), T + at))


def test_held_twice() -> None:
    """What stood still adds up; what ran does not count it."""
    notes = held(STARTED, 100)
    assert read_pauses(notes).ran(None) == 100
    assert read_pauses(notes).stretch == 100
    notes = resumed(notes, 400)
    assert Mirror.HELD not in notes
    assert (read_pauses(notes).seconds, read_pauses(notes).ran(None)) == (300, None)
    notes = held(notes, 450)
    assert (read_pauses(notes).ran(None), read_pauses(notes).stretch) == (150, 50)
    notes = resumed(notes, 460)
    assert read_pauses(notes).seconds == 310
    assert read_pauses(notes).ran(T + 560) == 250


def test_evicted_while_it_is_held() -> None:
    notes = held(STARTED, 100)
    notes = written(notes, read_pauses(notes).ends(T + 130))
    assert read_pauses(notes) == Pauses(T, None, None, 30)


@pytest.mark.parametrize(
    "notes",
    [
        {Mirror.HELD_SECONDS.value: "-5"},
        {Mirror.HELD_SECONDS.value: "9" * 30},
        {Mirror.HELD_SECONDS.value: "soon"},
        {Mirror.HELD.value: "so", Mirror.HELD_AT.value: "yesterday", Mirror.RESERVED_AT.value: ""},
        {Mirror.HELD_AT.value: "2026-01-01T00:00:00Z"},
    ],
)
def test_nonsense_is_not_known(notes: Notes) -> None:
    assert read_pauses(notes) == Pauses()
    assert read_pauses(notes).ran(T) is None


def test_a_clock_that_was_set_back() -> None:
    notes = held(STARTED, -50)
    assert read_pauses(notes).ran(None) == 0
    assert read_pauses(resumed(notes, -100)).seconds == 0


def test_of_a_copy() -> None:
    body = mirrored("a")
    body["metadata"]["annotations"] |= held(STARTED, 100)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    found = remote_job("w", body)
    assert (found.held_s, found.ran_s) == (0, 100)
    body["metadata"]["annotations"] = resumed(body["metadata"]["annotations"], 400)
    found = remote_job("w", body)
    assert (found.held_s, found.ran_s) == (300, None)
    failed = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:10:00Z"}
    body["status"] = {"conditions": [failed]}
    assert remote_job("w", body).ran_s == 300
