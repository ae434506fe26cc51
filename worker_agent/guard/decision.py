"""Which runs have to end, and by when. Pure; times are seconds of CLOCK_BOOTTIME.

Source: failover.md section 3.2 step 2. All that stops is gone at the end of the lease + d + K: the
guard looks every d, and leaves SIGTERM no more time than K without a margin for the kernel to end
processes. Nothing that is learnt later takes a deadline back: each one was true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from federation.core.failover import LONGEST, OnDisconnect
from federation.core.holding import NEVER


@dataclass(frozen=True, slots=True)
class Run:
    """What the environment of a process says that it is part of. One that does not say what to do
    when its cluster is cut off stops, as does one that says something unknown. `grace` is how long
    it may take to end after SIGTERM, if it says so.
    """

    job: str
    attempt: str
    policy: OnDisconnect = OnDisconnect.STOP
    rerun_after: float | None = None
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A renewal that is known of: sent after `renewed`, it holds until `deadline`. `kill` is K if
    that was told with it.
    """

    renewed: float
    deadline: float
    kill: float | None = None

    def sound(self, now: float) -> bool:
        """Whether it can be true."""
        return self.renewed <= now and 0 <= self.deadline - self.renewed <= LONGEST


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a guard goes by. Without a notice it is patient for `patience` seconds from `since`."""

    since: float
    patience: float
    notice: Notice | None = None

    def told(self, notice: Notice | None, now: float) -> Knowledge:
        """With a further notice. One that ends sooner than what is known changes nothing."""
        if notice is None or not notice.sound(now):
            return self
        if self.notice is not None and notice.deadline <= self.notice.deadline:
            return self
        return Knowledge(self.since, self.patience, notice)

    @property
    def deadline(self) -> float:
        """When the lease ends, as far as is known."""
        return self.since + self.patience if self.notice is None else self.notice.deadline

    def ends(self, run: Run, born: float = 0.0) -> float:
        """When a run has to stop; NEVER if the end of the lease is nothing to it.

        `keep` with a limit: so long after the last renewal, and not before the lease ends. When no
        renewal is known of, times count from when that was first so, or from when the run was
        `born` if that was later: the first renewal of its agent may be about to be heard of.
        """
        if run.policy is OnDisconnect.DUPLICATE_OK:
            return NEVER
        if self.notice is None:
            renewed = max(self.since, born)
            deadline = renewed + self.patience
        else:
            renewed, deadline = self.notice.renewed, self.notice.deadline
        if run.policy is OnDisconnect.STOP:
            return deadline
        return NEVER if run.rerun_after is None else max(deadline, renewed + run.rerun_after)


def refusal(knowledge: Knowledge, run: Run, now: float) -> str:
    """Why a run may not start, or go on with another container; '' if it may. What the lease does
    not cover would only be ended, and until then be beside its next attempt.
    """
    late = now - knowledge.ends(run)
    if late < 0:
        return ""
    over = (
        f"ended {late:.1f} s ago"
        if knowledge.notice is not None
        else f"is not known of for {now - knowledge.since:.1f} s"
    )
    return (
        f"attempt {run.attempt} of the job {run.job} may not start here: the lease of this cluster "
        f"{over}, and the job may run elsewhere; it goes on here when the agent has renewed"
    )


@dataclass(frozen=True, slots=True)
class Times:
    """How long things may take, in seconds: `kill` is K, `margin` what of it is left for SIGKILL to
    take effect, `grace` what a run gets that does not say what it needs. For `lead` it is left to
    the agent to stop runs: pods that are deleted are no failures of their Job. A `kill` that was
    told with the lease counts instead.
    """

    kill: float = 45.0
    margin: float = 5.0
    grace: float = 30.0
    lead: float = 3.0

    def term_at(self, end: float, kill: float | None = None) -> float:
        """When a run gets SIGTERM of which the lease was over at `end`."""
        latest = (self.kill if kill is None else kill) - self.margin
        return end + max(0.0, min(self.lead, latest))

    def kill_at(self, run: Run, end: float, now: float, kill: float | None = None) -> float:
        """When SIGKILL follows a SIGTERM that is sent now to a run of which the lease was over at
        `end`. At once if that is late: another copy may be about to start.
        """
        grace = self.grace if run.grace is None else run.grace
        latest = end + (self.kill if kill is None else kill) - self.margin
        return max(now, min(now + grace, latest))


def run_of(environment: bytes, only: bytes = b"") -> Run | None:
    """The run that an environment (as in /proc) is of; None if it is of none. With `only`, an entry
    such as `KEY=value`, every environment without it is of none.
    """
    if b"FEDQ_JOB_UID=" not in environment:
        return None
    entries = environment.split(b"\0")
    if only and only not in entries:
        return None
    found = dict(entry.decode(errors="replace").partition("=")[::2] for entry in entries)
    job = found.get("FEDQ_JOB_UID", "")
    return _run(job, found) if job else None


def _run(job: str, found: Mapping[str, str]) -> Run:
    try:
        policy = OnDisconnect(found.get("FEDQ_ON_DISCONNECT", ""))
    except ValueError:
        policy = OnDisconnect.STOP
    return Run(
        job,
        found.get("FEDQ_ATTEMPT", ""),
        policy,
        _seconds(found.get("FEDQ_RERUN_AFTER")),
        _seconds(found.get("FEDQ_GRACE_SECONDS")),
    )


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
