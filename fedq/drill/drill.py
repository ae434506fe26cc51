"""What a drill is: a row of the table in `cases`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from federation.core.failover import PROFILES, Timings
from fedq.drill.ground import Ground


class Need(StrEnum):
    """What has to be there, else the drill is skipped."""

    CUT = "cut"
    """A link between the clusters that can be cut: namespaces or proxies."""
    PROXIES = "proxies"
    """Proxies, because the fault is not one of packets."""
    FAKETIME = "libfaketime"
    RAY = "ray"
    """The manager runs with Ray actors."""


@dataclass(frozen=True, slots=True)
class Drill:
    """One fault and what has to come of it.

    Attributes:
        name: as in `fedq drill run NAME`.
        number: of the fault in the list of failover drills; empty for the extras.
        shows: one sentence for people.
        run: does it all, up to the end of the jobs, and states what it expects.
        tier: the lowest tier at which the guarantee holds: `A`, or `B` with node guards.
        extra: whether it is none of `--all`, as it repeats what others show.
        alone: whether no other drill may run beside it, as it measures what a whole machine does.
        lasts: seconds that it takes about, by the times of the profile.
    """

    name: str
    number: str
    shows: str
    run: Callable[[Ground], Awaitable[None]]
    needs: frozenset[Need] = frozenset()
    tier: str = "A"
    profile: str = "fast"
    workers: int = 2
    extra: bool = False
    alone: bool = False
    lasts: Callable[[Timings], float] = lambda timings: longest(timings) + 45

    @property
    def seconds(self) -> float:
        """How long it takes about with its own profile."""
        return self.lasts(PROFILES[self.profile])


def longest(timings: Timings) -> float:
    """How long a fault lasts that has to outlive every timer: 1.5 times the longest of them."""
    return 1.5 * max(timings.rerun, timings.lease, timings.suspect, timings.recover)
