"""Checkpoints and results that only the newest attempt of a job can store (tier C).

A job that moves to another cluster has a higher attempt there. A copy of the earlier one that
should be dead, and does not know it (its machine stood still), can do nothing that counts: what it
writes becomes visible by a conditional write, which its store refuses once the later attempt has
claimed the token. How to use it in a job is in docs/checkpoints.md; for shell scripts `python -m
federation.checkpoint_token` does the same.

    attempt = int(os.environ["FEDQ_ATTEMPT"])
    token = Token(open_store("/checkpoints", os.environ["FEDQ_JOB_UID"], attempt), attempt)
    token.claim()
    token.get("model", Path("model.pt"))
    ...
    token.put("model", Path("model.pt"))

Standard library only, and nothing else of this project: the package can be copied into an image.
"""

from federation.checkpoint_token.errors import (
    ConditionsIgnoredError,
    RefusedError,
    StoreError,
)
from federation.checkpoint_token.opening import open_store
from federation.checkpoint_token.token import Commit, State, Store, Token

__all__ = [
    "Commit",
    "ConditionsIgnoredError",
    "RefusedError",
    "State",
    "Store",
    "StoreError",
    "Token",
    "open_store",
]
