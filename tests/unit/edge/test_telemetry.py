"""What programs write into their logs."""

from __future__ import annotations

import io
import sys

import pytest
import structlog

from federation.api.cluster_profile import Credential
from federation.edge.telemetry import configure_logging
from manager.protocol import ClusterSpec


class Screen(io.StringIO):
    """A standard error that may be a terminal."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


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


@pytest.mark.parametrize(
    "value",
    [ClusterSpec("east", b"hidden", "o"), Credential(token="hidden", client_key_pem="hidden")],
)
def test_secrets_do_not_print(value: object) -> None:
    """Wherever an error or a log names what it was about."""
    assert "hidden" not in repr(value)
