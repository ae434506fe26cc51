"""What is written of the pods of a job: only what is wrong with them, when it has lasted.

Short troubles are not worth a write: a pod waits some seconds for its node and its images, and
after a loss as many jobs start as API servers can take. When a job has ended, what was wrong with
its pods is written together with the end.
"""

from __future__ import annotations

from federation.core import effects as do
from federation.core.facts import JobState, Record, RemoteJob

LASTED_S = 10.0
REWRITE_S = 10.0
"""The text is written again at most this often."""


def trouble(state: JobState, copy: RemoteJob | None) -> str | None:
    """What is wrong with the pods of a copy now; '' for nothing, None if that is not known."""
    told = state.pods
    return told.text if told is not None and copy and told.attempt == copy.attempt else None


def note(
    state: JobState, record: Record, copy: RemoteJob, now: float
) -> tuple[do.SetPods | None, float | None]:
    """What is to be written now; if nothing, when to look again (None: when there is news)."""
    text = trouble(state, copy)
    if state.pods is None or text is None or text == record.pods_note:
        return None, None
    at = max(state.pods.since + LASTED_S, state.pods_written + REWRITE_S)
    return (do.SetPods(text), None) if now >= at else (None, at)
