"""The one error of the rig: what happened, why, and what to do about it."""

from __future__ import annotations


class RigError(Exception):
    """The rig cannot go on. Never retried: a person reads it and acts.

    Attributes:
        what: what happened, one sentence.
        why: the cause with its numbers, or the tail of a log.
        todo: the next step to take, as a command where there is one.
    """

    def __init__(self, what: str, why: str = "", todo: str = "") -> None:
        super().__init__(what, why, todo)
        self.what, self.why, self.todo = what, why, todo

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.todo) if part)
