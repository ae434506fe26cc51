"""Whether an AdmissionCheck of MultiKueue can send work anywhere: its condition Active.

Reasons and the lists in the message are Kueue's; what to do is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Standing(StrEnum):
    """How a cluster that a config names stands."""

    USABLE = "usable"
    INACTIVE = "inactive"
    MISSING = "missing"


class CheckActive(NamedTuple):
    """Status, reason and message of the condition."""

    active: bool
    reason: str
    message: str


def bad_config(problem: str) -> CheckActive:
    """The parameters name nothing that can be used."""
    return CheckActive(False, "BadConfig", f"cannot load the AdmissionChecks parameters: {problem}")


def check_active(names: Sequence[str], standings: Mapping[str, Standing]) -> CheckActive:
    """The condition of a check whose config names these clusters; what is not in `standings` is
    missing.
    """
    missing = [n for n in names if standings.get(n, Standing.MISSING) is Standing.MISSING]
    inactive = [n for n in names if standings.get(n) is Standing.INACTIVE]
    usable = len(names) - len(missing) - len(inactive)
    if usable == len(names):
        return CheckActive(True, "Active", "The admission check is active")
    parts = []
    if missing:
        parts.append(f"Missing clusters: [{', '.join(missing)}]")
    if inactive:
        parts.append(f"Inactive clusters: [{', '.join(inactive)}]")
    text = ", ".join(parts)
    if usable:
        return CheckActive(True, "SomeActiveClusters", text)
    todo = "create the missing ones, and see the condition Active of the others"
    return CheckActive(False, "NoUsableClusters", f"{text}: {todo}")
