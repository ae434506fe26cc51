"""What jobs and queues say of the loss of a cluster, and what holds when several of them do; where
they want to run goes along (`placement_rules`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from federation.core.failover import OnDisconnect
from federation.core.placement_rules import NO_RULES, PlacementRules


@dataclass(frozen=True, slots=True)
class Wishes:
    """What one object says; None where it says nothing. `rerun_after` is in seconds. `problem` says
    what of it cannot be understood ('' if all can).
    """

    policy: OnDisconnect | None = None
    rerun_after: float | None = None
    problem: str = ""
    placement: PlacementRules = NO_RULES


NO_WISHES = Wishes()


@dataclass(frozen=True, slots=True)
class Disconnect:
    """What happens to a job when its cluster is lost: its policy, and for how long the cluster has
    to be silent at least before it runs elsewhere (seconds; None: as the protocol needs).
    """

    policy: OnDisconnect = OnDisconnect.STOP
    rerun_after: float | None = None

    @property
    def stops(self) -> bool:
        """Whether its worker stops it when the lease is over, or a limit of its own."""
        limited = self.policy is OnDisconnect.KEEP and self.rerun_after is not None
        return limited or self.policy is OnDisconnect.STOP


def nearest(said: Iterable[Wishes]) -> Disconnect:
    """What holds when several say something, the nearest to the job first: of each of the two the
    first word.
    """
    known = list(said)
    policy = next((s.policy for s in known if s.policy is not None), OnDisconnect.STOP)
    after = next((s.rerun_after for s in known if s.rerun_after is not None), None)
    return Disconnect(policy, after)


def grace_problem(disconnect: Disconnect, grace_s: int, kill_s: float) -> str:
    """Why a job cannot be stopped in time when its cluster is lost; '' if it can, or need not.

    `grace_s` is how long its pods may take to end, `kill_s` the bound K of the fenced lease.
    """
    if not disconnect.stops or grace_s <= kill_s:
        return ""
    return (
        f"terminationGracePeriodSeconds is {grace_s}, and with the policy {disconnect.policy.value}"
        f" its pods must have ended within {kill_s:g} s when they are stopped because their cluster"
        " is cut off: shorten it, or choose another fedq.io/on-disconnect"
    )
