"""When it is written again why a job waits."""

from __future__ import annotations

REWRITE_S = 10.0
"""New numbers of the same reason are written at most this often."""


def news_at(said: tuple[str, str], written: tuple[str, str], last: float) -> float | None:
    """From when on (reason, message) is to be written, with what was written last then: the past
    for a new reason; None if it is what stands there, or nothing.
    """
    if said in (("", ""), written):
        return None
    return last + REWRITE_S if said[0] == written[0] else 0.0
