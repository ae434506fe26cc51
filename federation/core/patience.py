"""How long a job waits for a place before it is given up (`fedq.io/give-up-after`)."""

from __future__ import annotations

from federation.core import effects as do
from federation.core.facts import JobState, LocalJob, Record
from federation.core.reasons import Reason


def give_up_after(state: JobState, local: LocalJob) -> float | None:
    """Seconds: its own word, else that of its queues; None waits for ever."""
    own = local.wishes.placement.give_up_after
    if own is not None or state.queues is None:
        return own
    return state.queues.give_up_after


def give_up_at(state: JobState, local: LocalJob, record: Record) -> float | None:
    """When a job that waits is given up; None if it is not. What may not queue yet is not."""
    if record.life.requeued or record.life.target is not None:
        return None
    after, since = give_up_after(state, local), record.waiting_since
    return None if after is None or since is None else since + after


def giving_up(state: JobState, local: LocalJob, record: Record) -> tuple[do.Effect, ...]:
    """It is deactivated, which people can take back: nothing of it is lost."""
    text = f"it found no place within {give_up_after(state, local):g} s (fedq.io/give-up-after)"
    last = state.waits[1] or record.message
    if last:
        text = f"{text}; at last: {last}"
    return do.SetTarget(Reason.GIVE_UP_TIME_EXCEEDED, text), do.SetActive(False)
