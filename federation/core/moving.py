"""A job that is to run on another cluster by order: it leaves when it can go there.

An order that cannot be followed changes nothing but what is told of the job.
"""

from __future__ import annotations

from dataclasses import replace

from federation.core import effects as do
from federation.core.facts import JobState, Record
from federation.core.loss import standing_of
from federation.core.reasons import Reason
from federation.core.stay import earlier

_CANNOT = "it cannot be moved to"
_LONGEST = 320
"""Characters of what is told: all of it is compared with what is to be told."""


def move(state: JobState, record: Record, now: float) -> tuple[JobState, tuple[do.Effect, ...]]:
    """What an order asks for now of a job that is bound and does not leave."""
    bound, target = record.binding, record.move_to
    assert bound is not None
    if target == bound.cluster:
        return state, (do.EndMove(),)
    problem = _problem(state, target, now) if target else ""
    if target and not problem:
        text = f"by order: from cluster {bound.cluster}, attempt {bound.attempt}, to {target}"
        evict = do.Evict(Reason.MOVED, text, "", record.life.requeue, target=target)
        return state, (evict,)
    if problem and state.barred is not None and now < state.barred.until:
        state = replace(state, due=earlier(state.due, state.barred.until))
    told = record.note if record.note.startswith(_CANNOT) else ""
    return state, ((do.SetNote(problem),) if told != problem else ())


def _problem(state: JobState, target: str, now: float) -> str:
    barred = state.barred
    if target not in state.standings:
        text = f"{target[:253]}: there is no such cluster"
    elif not standing_of(state, target).well:
        text = f"{target} now: that cluster is in trouble itself"
    elif barred is not None and barred.cluster == target and now < barred.until:
        text = f"{target}: {barred.message}"
    else:
        return ""
    return f"{_CANNOT} {text}"[:_LONGEST]
