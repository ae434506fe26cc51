"""The record of an eviction on a Job: why its queue stopped it, and when.

It is an annotation, written by the patch that suspends the Job, so that after a crash the agent
knows what it was stopping; it stays until the Job is started again. On a copy the manager reads
from it why its copy was stopped. The text can be anybody's; what is read is checked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from federation.api.life import moment, wire_moment
from federation.api.names import Mirror
from federation.core.backoff import RequeueState

Json = dict[str, Any]

LONGEST = 4096
"""Characters of a message that are kept: all annotations of an object share 256 KiB."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """`reason` is that of the condition Evicted; `cause` that of Preempted, else what is behind
    the reason ('' if there is no more to say). `at` is the time of the eviction (RFC 3339).
    `requeue` is what requeueState becomes, None if that stays as it is.
    """

    reason: str
    message: str
    at: str
    cause: str = ""
    requeue: RequeueState | None = None


def encode_eviction(eviction: Eviction) -> str:
    """As annotation text."""
    body: Json = {
        "reason": eviction.reason,
        "cause": eviction.cause,
        "message": eviction.message[:LONGEST],
        "at": eviction.at,
    }
    if eviction.requeue is not None:
        count, at = eviction.requeue.count, eviction.requeue.at
        body["requeue"] = {"count": count, "at": "" if at is None else wire_moment(at)}
    return json.dumps(body, separators=(",", ":"))


def read_eviction(job: Json) -> Eviction | None:
    """Why a Job was stopped; None if no queue stopped it, or if the note cannot be read."""
    text = (job["metadata"].get("annotations") or {}).get(Mirror.EVICTED.value, "")
    try:
        body = json.loads(text)
        reason, message, at, cause = (body[key] for key in ("reason", "message", "at", "cause"))
        datetime.fromisoformat(at)
        requeue = _requeue(body.get("requeue"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not reason or not all(isinstance(part, str) for part in (reason, message, cause)):
        return None
    return Eviction(reason, message[:LONGEST], at, cause, requeue)


def _requeue(wire: Json | None) -> RequeueState | None:
    if wire is None:
        return None
    count, at = wire["count"], wire["at"]
    if type(count) is not int or not 0 <= count < 2**31 or not isinstance(at, str):
        raise ValueError(f"{wire!r} is no state of a requeue")
    return RequeueState(count, moment(at))
