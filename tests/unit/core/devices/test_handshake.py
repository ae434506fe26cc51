"""Handshakes of device plugins; the time is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.wire.handshake import Handshake, read
from tests.unit.core.build import FEW

ASKED = "Requesting_2026-01-02 03:04:05"


@pytest.mark.parametrize(
    ("text", "seen_for_s", "allocatable", "state"),
    [
        (None, 0, 0, Handshake.ABSENT),
        ("", 0, 0, Handshake.ABSENT),
        ("Reported_2026-01-02 03:04:05", 9999, 0, Handshake.ANSWERED),
        ("Deleted_2026.01.02 03:04:05", 9999, 0, Handshake.ANSWERED),
        (ASKED, 60, 0, Handshake.ASKED),
        (ASKED, 61, 0, Handshake.LOST),
        (ASKED, 61, 10, Handshake.SILENT),
        ("Requesting", 9999, 0, Handshake.LOST),
        ("Requesting_zzz", 61, 0, Handshake.LOST),
    ],
)
def test_states(text: str | None, seen_for_s: float, allocatable: int, state: Handshake) -> None:
    """Only an old request together with nothing to allocate means that the plugin is gone."""
    assert read(text, allocatable, seen_for_s) is state


@FEW
@given(st.text() | st.text(st.sampled_from("Requesting_0123456789-: ,TZ")))
def test_no_text_is_an_error(text: str) -> None:
    """None but a request says that a plugin is gone."""
    gone = read(text, 0, 61) is Handshake.LOST
    assert gone == (text.split("_")[0] == "Requesting")
