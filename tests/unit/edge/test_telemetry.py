"""What programs write into their logs."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest
import structlog

from federation.edge.telemetry import configure_logging


class Screen(io.StringIO):
    """A standard error that may be a terminal."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    known = structlog.get_config()
    yield
    structlog.configure(**known)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_crash_is_logged_without_what_variables_held(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is in the headers of each request."""
    screen = Screen()
    screen.terminal = terminal
    monkeypatch.setattr(sys, "stderr", screen)
    configure_logging("info")

    def crash() -> None:
        headers = {"Authorization": "Bearer " + "hid" + "den"}
        raise ValueError(len(headers))

    try:
        crash()
    except ValueError as error:
        structlog.get_logger().error("worker.crashed", exc_info=error)
    assert "ValueError" in screen.getvalue()
    assert "crash" in screen.getvalue()
    assert "hidden" not in screen.getvalue()
