"""Pods in few words: phases, and why those that do not run do not. Pure.

Names and messages are other people's text, of a cluster that may be anybody's: control characters
are taken out, and everything has a length.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Json = dict[str, Any]

LONGEST = 512
"""Of a summary, in characters."""
_REASON = 64
_MESSAGE = 160
_KINDS = 4
"""Different troubles that are told apart."""
_ORDER = ("Running", "Pending", "Succeeded", "Failed", "Unknown")
_QUIET = frozenset({"", "ContainerCreating", "PodInitializing", "Completed", "SchedulingGated"})
"""Reasons that say nothing of a trouble."""


class PodState(NamedTuple):
    """What counts of one pod. `reason` and `message` say what is wrong with it ('' for nothing)."""

    phase: str
    reason: str = ""
    message: str = ""


def clean(text: object, longest: int) -> str:
    """One line of printable text."""
    kept = (" " if c.isspace() else c for c in str(text)[: 4 * longest]
            if c.isspace() or not unicodedata.category(c).startswith("C"))  # fmt: skip
    line = " ".join("".join(kept).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


_SHOWN_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code != 0x09},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
}
_COLOUR = re.compile("(\x1b\\[[0-9;:]{0,64}m)")


def for_terminal(line: bytes) -> bytes:
    """A line of a log as it may go to a terminal. Colours stay; what would move the cursor, change
    the terminal or have it answer is shown as symbols.
    """
    parts = _COLOUR.split(line.removesuffix(b"\r").decode(errors="replace"))
    plain = [part.translate(_SHOWN_CONTROLS) for part in parts[::2]]
    coloured = [*parts[1::2], ""]
    told = "".join(text + colour for text, colour in zip(plain, coloured, strict=True))
    return (told + "\x1b[0m" if len(parts) > 1 else told).encode()


def pod_state(pod: Mapping[str, Any]) -> PodState:
    """The phase of a pod, and its trouble: of a container that waits or ended badly, else of the
    pod as a whole, else why it has no node.
    """
    status = pod.get("status") or {}
    phase = clean(status.get("phase") or "Pending", _REASON)
    for found in (
        *_containers(status),
        (status.get("reason"), status.get("message")),
        _gate(status),
    ):
        reason, message = clean(found[0] or "", _REASON), clean(found[1] or "", _MESSAGE)
        if reason not in _QUIET:
            return PodState(phase, reason, message)
    return PodState(phase)


def _containers(status: Mapping[str, Any]) -> Iterable[tuple[Any, Any]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            state = container.get("state") or {}
            for part in ("waiting", "terminated"):
                if found := state.get(part):
                    yield found.get("reason"), found.get("message")


def _gate(status: Mapping[str, Any]) -> tuple[Any, Any]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason"), condition.get("message")
    return "", ""


def troubled(states: Iterable[PodState]) -> bool:
    """Whether anything is wrong with any of them."""
    return any(state.reason for state in states)


def summary(states: Iterable[PodState]) -> str:
    """`2 Running, 1 Pending: Unschedulable: 0/3 nodes are available`; '' without pods."""
    counts = Counter(states)
    known = {phase: place for place, phase in enumerate(_ORDER)}
    plain: Counter[str] = Counter()
    for state, count in counts.items():
        if not state.reason:
            plain[state.phase] += count
    in_order = sorted(plain, key=lambda phase: (known.get(phase, 9), phase))
    parts = [f"{plain[phase]} {phase}" for phase in in_order]
    bad = sorted((s for s in counts if s.reason), key=lambda s: (known.get(s.phase, 9), s))
    for state in bad[:_KINDS]:
        why = f"{state.reason}: {state.message}" if state.message else state.reason
        parts.append(f"{counts[state]} {state.phase}: {why}")
    if rest := sum(counts[state] for state in bad[_KINDS:]):
        parts.append(f"{rest} more")
    return clean(", ".join(parts), LONGEST)
