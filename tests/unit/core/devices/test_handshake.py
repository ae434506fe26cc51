"""Handshakes of device plugins; the time is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.wire.handshake import Handshake, read
from tests.unit.core.build import FEW

ASKED = "Requesting_2026-01-02 03:04:05"
AT = datetime.fromisoformat("2026-01-02 03:04:05")


@pytest.mark.parametrize(
    ("text", "after_s", "allocatable", "state"),
    [
        (None, 0, 0, Handshake.ABSENT),
        ("", 0, 0, Handshake.ABSENT),
        ("Reported_2026-01-02 03:04:05", 9999, 0, Handshake.ANSWERED),
        ("Deleted_2026.01.02 03:04:05", 9999, 0, Handshake.ANSWERED),
        (ASKED, 60, 0, Handshake.ASKED),
        (ASKED, 61, 0, Handshake.LOST),
        (ASKED, 61, 10, Handshake.SILENT),
        (ASKED, -9999, 0, Handshake.ASKED),
        ("Requesting", 9999, 0, Handshake.UNCLEAR),
        ("Requesting_zzz", 9999, 0, Handshake.UNCLEAR),
        ("Requesting_2026-13-02 03:04:05", 9999, 0, Handshake.UNCLEAR),
    ],
)
def test_states(text: str | None, after_s: int, allocatable: int, state: Handshake) -> None:
    """Only an old request together with nothing to allocate means that the plugin is gone."""
    assert read(text, allocatable, AT + timedelta(seconds=after_s)) is state


def test_who_watched_goes_by_the_own_clock() -> None:
    """The time in the text is of another machine, without a zone."""
    now = AT + timedelta(hours=8)
    assert read(ASKED, 0, now, seen=now - timedelta(seconds=5)) is Handshake.ASKED
    assert read("Requesting_zzz", 0, now, seen=now - timedelta(seconds=61)) is Handshake.LOST


def test_a_clock_with_a_zone() -> None:
    """The text is taken to be of the zone of the caller's clock."""
    now = (AT + timedelta(seconds=61)).replace(tzinfo=UTC)
    assert read(ASKED, 0, now) is Handshake.LOST


@FEW
@given(st.text() | st.text(st.sampled_from("Requesting_0123456789-: ,TZ")))
def test_any_text_is_read(text: str) -> None:
    """Nothing is raised."""
    read(text, 0, AT)
