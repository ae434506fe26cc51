"""A job that is to run on another cluster by order: it leaves when it can go there.

An order that cannot be followed changes nothing but what is told of the job.
"""

from __future__ import annotations

from federation.core import effects as do
from federation.core.facts import JobState, Record
from federation.core.loss import standing_of
from federation.core.reasons import Reason

_CANNOT = "it cannot be moved to"


def move(state: JobState, record: Record) -> tuple[do.Effect, ...]:
    """What an order asks for now of a job that is bound and does not leave."""
    bound, target = record.binding, record.move_to
    assert bound is not None
    if target == bound.cluster:
        return (do.EndMove(),)
    problem = _problem(state, target) if target else ""
    if target and not problem:
        text = f"by order: from cluster {bound.cluster}, attempt {bound.attempt}, to {target}"
        return (do.Evict(Reason.MOVED, text, "", record.life.requeue),)
    told = record.note if record.note.startswith(_CANNOT) else ""
    return (do.SetNote(problem),) if told != problem else ()


def _problem(state: JobState, target: str) -> str:
    if target not in state.standings:
        # Short enough to be told whole: what was told is compared with what is to be told.
        return f"{_CANNOT} {target[:253]}: there is no such cluster"
    if not standing_of(state, target).well:
        return f"{_CANNOT} {target} now: that cluster is in trouble itself"
    return ""
