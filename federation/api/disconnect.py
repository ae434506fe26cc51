"""What annotations say of the loss of a cluster: on a Job, on its queues, on its copies; and, read
along with that, where it is to run.

`fedq.io/on-disconnect` is stop, keep or duplicate-ok; `fedq.io/rerun-after` a time in seconds, or a
duration such as 10m. On a copy stands what holds for its binding, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from federation.api.duration import DurationError, parse_duration
from federation.api.names import Option
from federation.api.placement_rules import read_rules
from federation.core.failover import OnDisconnect
from federation.core.placement_rules import NO_RULES
from federation.core.wishes import NO_WISHES, Disconnect, Wishes

_POLICY, _AFTER = Option.ON_DISCONNECT.value, Option.RERUN_AFTER.value
_MOST_S = 10.0 * 365 * 86400


def read_wishes(obj: Mapping[str, Any]) -> Wishes:
    """What the annotations of an object say; one that cannot be understood says nothing but its
    problem.
    """
    notes = obj["metadata"].get("annotations") or {}
    rules, problems = read_rules(notes)
    if _POLICY not in notes and _AFTER not in notes and rules is NO_RULES:
        return NO_WISHES
    policy, after = None, None
    try:
        policy = OnDisconnect(notes[_POLICY]) if _POLICY in notes else None
    except ValueError:
        choices = ", ".join(OnDisconnect)
        problems.append(f"{_POLICY} is {str(notes[_POLICY])[:40]!r}: it takes one of {choices}")
    try:
        after = _seconds(str(notes[_AFTER])) if _AFTER in notes else None
    except DurationError as error:
        problems.append(f"{_AFTER}: {error}")
    return Wishes(policy, after, "; ".join(problems), rules)


def rerun_after_problem(text: str) -> str:
    """What is wrong with a value of `fedq.io/rerun-after`; '' if nothing is."""
    try:
        _seconds(text)
    except DurationError as error:
        return str(error)
    return ""


def _seconds(text: str) -> float:
    plain = text.isascii() and text.isdigit() and len(text) < 12
    found = float(text) if plain else parse_duration(text)
    if not 0 <= found <= _MOST_S:
        raise DurationError(f"{text[:40]!r} is not between 0s and ten years")
    return found


def write_disconnect(disconnect: Disconnect) -> dict[str, str]:
    """The annotations of a copy."""
    notes = {_POLICY: disconnect.policy.value}
    if disconnect.rerun_after is not None:
        notes[_AFTER] = f"{disconnect.rerun_after:.0f}"
    return notes
