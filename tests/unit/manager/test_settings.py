"""The times of failover as they are set, and the clocks."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest

from federation.core.failover import DEFAULT, FAST
from manager.__main__ import main
from manager.clock import Clock, Dial
from manager.settings import ManagerSettings


@pytest.fixture(autouse=True)
def own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of this process goes on as it was: a program that ends here does not direct it into
    what the test captures.
    """
    monkeypatch.setattr("manager.__main__.configure_logging", lambda level: None)


@pytest.mark.parametrize(
    ("given", "timings"),
    [
        ({}, DEFAULT),
        ({"FEDQ_FAILOVER_PROFILE": "fast"}, FAST),
    ],
)
def test_profiles(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], timings: object) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    assert ManagerSettings().timings() == timings


def test_single_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """They change the profile."""
    given = {"RENEW": 4, "SUSPECT": 11, "LEASE": 40, "KILL": 20, "RERUN": 100, "RECOVER": 3}
    monkeypatch.setenv("FEDQ_FAILOVER_PROFILE", "fast")
    for name, value in given.items():
        monkeypatch.setenv(f"FEDQ_{name}_S", str(value))
    timings = ManagerSettings().timings()

    assert (timings.renew, timings.suspect, timings.lease) == (4, 11, 40)
    assert (timings.kill, timings.rerun, timings.recover) == (20, 100, 3)


def test_times_that_keep_no_promise_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The manager does not start, and says which numbers do not fit."""
    monkeypatch.setenv("FEDQ_LEASE_S", "150")
    monkeypatch.setattr(sys, "argv", ["manager"])

    assert main() == 2
    told = capsys.readouterr().err
    assert "180 s" in told
    assert "(150 + 1 + 45) * 1.0020 = 196.4 s" in told


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FEDQ_LEASE_S", "2 min", "FEDQ_LEASE_S: Input should be a valid number"),
        ("FEDQ_LEASE_S", "inf", "the times of failover do not fit together: all times have"),
        (
            "FEDQ_SUSPECT_S",
            "nan",
            "the times of failover do not fit together: all times have",
        ),
        ("FEDQ_FAILOVER_PROFILE", "slow", "FEDQ_FAILOVER_PROFILE: Input should be 'default' or"),
        ("FEDQ_LEADER_ELECT", "maybe", "FEDQ_LEADER_ELECT: Input should be a valid boolean"),
        ("FEDQ_OFFERS_FIRST", "40", "40 open offers at first and 32 at most"),
    ],
)
def test_settings_that_are_none(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    said: str,
) -> None:
    """One sentence with the variable and what stands there, and the exit code of a bad setting."""
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["manager"])

    assert main() == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_reading_is_shown_as_the_same_time_until_the_clock_is_set() -> None:
    """Small differences between the clocks do not rewrite what is shown."""
    boot, wall = 100.0, datetime(2026, 1, 1, tzinfo=UTC)
    dial = Dial(Clock(lambda: boot, lambda: wall))
    first = dial.time(160.0)
    boot, wall = 110.0, wall + timedelta(seconds=11)
    second = dial.time(160.0)
    wall += timedelta(hours=1)

    assert first == second == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert dial.time(160.0) == datetime(2026, 1, 1, 1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({}, True),
        ({"FEDQ_READ_LISTEN": "127.0.0.1:8443"}, True),
        ({"FEDQ_READ_LISTEN": "localhost:8443"}, True),
        ({"FEDQ_READ_LISTEN": "[::1]:8443"}, True),
        ({"FEDQ_READ_LISTEN": "0.0.0.0:8443"}, False),
        ({"FEDQ_READ_LISTEN": "10.0.0.1:8443", "FEDQ_READ_CERT": "c"}, False),
        ({"FEDQ_READ_LISTEN": "10.0.0.1:8443", "FEDQ_READ_CERT": "c", "FEDQ_READ_KEY": "k"}, True),
        ({"FEDQ_READ_LISTEN": "8443"}, False),
    ],
)
def test_tokens_are_not_sent_in_the_clear(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], fits: bool
) -> None:
    """Where others can listen, the pages of logs need a certificate."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = ManagerSettings()
    if fits:
        settings.reading_tls()
    else:
        with pytest.raises(ValueError, match="FEDQ_READ_LISTEN"):
            settings.reading_tls()
