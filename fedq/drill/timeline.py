"""What was seen to happen in a drill, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from federation.edge.machine import boottime


class What(StrEnum):
    """Kinds of moments."""

    FAULT = "fault"
    HEALED = "healed"
    NOTE = "note"
    PHASE = "phase"
    """The manager shows a cluster in another phase; the detail is which."""
    RENEWED = "renewed"
    """A renewal of the Lease of a cluster was seen."""
    FENCED = "fenced"
    EPOCH = "epoch"
    """The Lease of a cluster is in another epoch; the detail is which."""
    LEADER = "leader"
    """Another replica of the manager leads; the detail is its identity."""
    BOUND = "bound"
    """A job was bound to a cluster; the detail is the attempt."""
    OFFERED = "offered"
    """A copy stands on a worker, suspended; the detail is the attempt."""
    STARTED = "started"
    """A copy was started by its agent (it is not suspended any more)."""
    ACTIVE = "active"
    """A status counts the first pod: that of a copy, or (without a cluster) of the Job itself."""
    STOPPED = "stop ordered"
    """A copy was suspended by its agent."""
    ADOPTED = "adopted"
    """The manager raised the epoch on a copy that it found again."""
    REMOVED = "removed"
    """A copy is gone."""
    EVICTED = "evicted"
    FINISHED = "finished"
    WARNED = "warning"
    """An event of type Warning; the detail is its reason and message."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment: `at` in seconds of CLOCK_BOOTTIME; cluster and job are empty where they say
    nothing.
    """

    at: float
    what: What
    cluster: str = ""
    job: str = ""
    detail: str = ""


class Timeline:
    """All marks of a drill in the order in which they were made."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def mark(
        self, what: What, cluster: str = "", job: str = "", detail: str = "", age: float = 0.0
    ) -> Mark:
        """Something happened now, or so many seconds ago."""
        made = Mark(boottime() - age, what, cluster, job, detail)
        self.marks.append(made)
        return made

    def find(
        self,
        what: What,
        *,
        cluster: str = "",
        job: str = "",
        detail: str = "",
        after: float = float("-inf"),
    ) -> list[Mark]:
        """Marks of that kind; what is given must be equal, and they must not be before `after`."""
        return [
            mark
            for mark in self.marks
            if mark.what is what
            and mark.at >= after
            and cluster in ("", mark.cluster)
            and job in ("", mark.job)
            and detail in ("", mark.detail)
        ]

    def last_before(self, what: What, cluster: str, moment: float) -> float | None:
        """When a cluster last had that before `moment`; None if it had not."""
        found = [mark.at for mark in self.find(what, cluster=cluster) if mark.at <= moment]
        return max(found, default=None)
