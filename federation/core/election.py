"""Who leads: rules by which replicas share one Lease. Times are seconds of a replica's own clock.

No replica believes another one's clock. A holder may act until `renew_deadline_s` after it *sent*
the last renewal that succeeded; another replica takes the Lease when it has *seen* the same version
of it for `lease_s`. Since a renewal is seen after it was sent, the holder has stopped
`lease_s - renew_deadline_s` before anybody follows, whatever the clocks show; they may only not run
at speeds that differ by more than MARGIN.
"""

from __future__ import annotations

from dataclasses import dataclass

MARGIN = 1.2
"""Least ratio of the lease to the deadline; quartz clocks are within 1.0001."""


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """How long a Lease holds, until when its holder must have renewed it, how often it tries."""

    lease_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def problem(self) -> str:
        """Why these times elect nobody, or two; '' if they are sound."""
        if self.retry_s <= 0:
            return f"the retry period must be above 0, not {self.retry_s:g} s"
        if self.renew_deadline_s < 2 * self.retry_s:
            return (
                f"the renew deadline of {self.renew_deadline_s:g} s leaves no room for a second try"
                f" every {self.retry_s:g} s: at least {2 * self.retry_s:g} s are needed"
            )
        if self.lease_s < MARGIN * self.renew_deadline_s:
            return (
                f"a lease of {self.lease_s} s may be taken while its holder still acts, which"
                f" stops {self.renew_deadline_s:g} s after its last renewal: at least"
                f" {MARGIN * self.renew_deadline_s:g} s are needed"
            )
        return ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A version of the Lease, and since when it has been the newest one known."""

    holder: str
    lease_s: float
    version: str
    since: float


def seen(known: Seen | None, holder: str, lease_s: float, version: str, now: float) -> Seen:
    """What is known after a reading: only a change proves that its holder lives."""
    if known is not None and known.version == version:
        return known
    return Seen(holder, lease_s, version, now)


def free_at(known: Seen | None, own: str, times: ElectionTimes) -> float | None:
    """When the Lease may be taken; None means at once: nobody holds it, or this replica does.

    A Lease that was deleted under its holder stays as it was `seen`: the holder may not know yet.
    """
    if known is None or known.holder in ("", own):
        return None
    return known.since + max(known.lease_s, times.lease_s)
