"""When it is worth a write to tell anew why something waits."""

from __future__ import annotations

REWRITE_S = 10.0
"""The numbers in a waiting message are written again at most this often; a new reason at once."""


def is_news(said: tuple[str, str], written: tuple[str, str], ago_s: float) -> bool:
    """Whether (reason, message) is to be written, with what stands there since so many seconds."""
    if said in (("", ""), written):
        return False
    return said[0] != written[0] or ago_s >= REWRITE_S
