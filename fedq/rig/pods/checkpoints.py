"""What the process of a pod does with the checkpoint token of its job (docs/checkpoints.md), if it
has FEDQ_CHECKPOINTS in its environment: it claims it once and commits with every heartbeat.

A refused attempt goes on: when it ends is what others are to show.
"""

import os
from collections.abc import Callable

from federation.checkpoint_token import RefusedError, Token, open_store


class Checkpoints:
    """`tell(kind, moment)` writes a record."""

    def __init__(self, where: str, tell: Callable[[str, float], None]) -> None:
        attempt = int(os.environ["FEDQ_ATTEMPT"])
        self._token = Token(open_store(where, os.environ["FEDQ_JOB_UID"], attempt), attempt)
        self._tell = tell

    def claim(self, clock: Callable[[], float]) -> None:
        """Make this the attempt that counts."""
        try:
            self._token.claim()
        except RefusedError:
            self._tell("refused", clock())
        else:
            self._tell("claimed", clock())

    def commit(self, moment: float) -> None:
        """Commit what it has done up to `moment`; no data is stored with it."""
        try:
            self._token.commit("step", f"attempt-{self._token.attempt}/{moment:.3f}")
        except RefusedError:
            self._tell("refused", moment)
        else:
            self._tell("committed", moment)
