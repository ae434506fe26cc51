"""How a step of effects ends other than well: with another event, or with a new try."""

from __future__ import annotations

from federation.core import events as on
from federation.core.facts import JobState, LocalJob, Record

AFTER_CONFLICT_S = 0.05


class Again(Exception):
    """Not done; try the plan again after some seconds (None: longer with each failure)."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Ended(Exception):
    """The step ends with another event than Done."""

    def __init__(self, event: on.Event) -> None:
        super().__init__(event)
        self.event = event


def facts(state: JobState) -> tuple[LocalJob, Record]:
    """Job and record. Raises Again if one of them has gone meanwhile."""
    if state.local is None or state.record is None:
        raise Again("", AFTER_CONFLICT_S)
    return state.local, state.record
