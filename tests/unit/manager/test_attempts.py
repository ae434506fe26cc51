"""How often a cluster that does not answer is asked, and what is told of it."""

from __future__ import annotations

from manager.attempts import FIRST_PAUSE_S, LONGEST_PAUSE_S, after_attempts, pause_after
from manager.protocol import Health


def test_pauses() -> None:
    """Short at first, for most outages are; then doubling up to a limit, and never back."""
    pauses = [pause_after(failures) for failures in range(1, 40)]
    assert pauses[:4] == [FIRST_PAUSE_S] * 4
    assert pauses[4] == 2 * FIRST_PAUSE_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
    assert pause_after(0) == FIRST_PAUSE_S
    assert pause_after(10**9) == LONGEST_PAUSE_S


def test_what_is_told() -> None:
    """The reason stays; the number of attempts and the time of the next one are added."""
    found = after_attempts(Health(False, "ClientConnectionFailed", "no answer"), 7, 1.0)
    assert (found.ok, found.reason) == (False, "ClientConnectionFailed")
    assert found.message.startswith("no answer (attempts so far: 7, the next one at 2")
    assert found.message.endswith("Z)")
