"""Handshakes of device plugins and locks of nodes; the time is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.wire.handshake import Handshake, read
from federation.core.devices.wire.node_lock import NodeLock, decode, encode
from federation.core.devices.wire.undecodable import UndecodableError
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


LOCKED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "lock"),
    [
        ("2026-01-02T03:04:05Z,ns,p", NodeLock(LOCKED, "ns", "p")),
        ("2026-01-02T03:04:05Z", NodeLock(LOCKED)),
        ("2026-01-02T11:04:05+08:00,ns,p", NodeLock(LOCKED, "ns", "p")),
        ("2026-01-02T03:04:05.000000000Z", NodeLock(LOCKED)),
    ],
)
def test_locks(text: str, lock: NodeLock) -> None:
    """With an owner, or of the old form."""
    assert decode(text) == lock
    assert decode(encode(lock)) == lock


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02T03:04:05Z,ns",
        "2026-01-02T03:04:05Z,ns,p,x",
        "2026-01-02T03:04:05Z,,p",
        "2026-01-02,ns,p",
        "2026-01-02T03:04:05",
        "2026-99-02T03:04:05Z",
        "20260102T030405Z",
        "٢٠٢٦-01-02T03:04:05Z",
        "x" * 2000,
    ],
)
def test_broken_locks(text: str) -> None:
    """Two parts, no time, no zone, no pod."""
    with pytest.raises(UndecodableError):
        decode(text)


def test_expiry() -> None:
    """After five minutes; Cambricon's own after two."""
    lock = NodeLock(LOCKED, "ns", "p")
    assert not lock.expired(LOCKED + timedelta(seconds=300))
    assert lock.expired(LOCKED + timedelta(seconds=301))
    assert lock.expired(LOCKED + timedelta(seconds=121), after_s=120)


@FEW
@given(st.text() | st.text(st.sampled_from("Requesting_0123456789-: ,TZ")))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else is raised."""
    read(text, 0, AT)
    try:
        decode(text)
    except UndecodableError:
        return
