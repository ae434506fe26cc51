"""The fenced lease: its times, what is known of a cluster that is silent, and what jobs want then.

Source: failover.md section 3.2 with the bindings of DESIGN section 5. The worker counts its
deadline from before a renewal is sent, the manager from after it was seen, each on its own clock
that goes on while the machine sleeps: only the rates of the clocks matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

LONGEST = 86_400.0
"""No lease is believed to hold longer than a day: nobody waits so long before a re-run."""


class OnDisconnect(StrEnum):
    """What happens to a job whose cluster is lost (value of `fedq.io/on-disconnect`)."""

    STOP = "stop"
    """Its worker stops it when the lease ends; it runs again elsewhere after that."""
    KEEP = "keep"
    """It goes on there, and never runs elsewhere before that is over for certain."""
    DUPLICATE_OK = "duplicate-ok"
    """It runs elsewhere as soon as the cluster is suspect; the first result counts."""


class Tier(StrEnum):
    """How well a cluster keeps `stop`: what has to break before a copy outlives its lease."""

    NONE = "none"
    """No agent holds a lease there: two copies are possible."""
    AGENT = "A"
    """The agent stops copies; it has to live, and so has the worker's API server."""
    GUARD = "B"
    """A guard on each node kills; its kernel has to run."""
    TOKEN = "C"
    """As B, and the store of checkpoints refuses an old attempt."""


@dataclass(frozen=True, slots=True)
class Timings:
    """All times in seconds. `rate` bounds the error of a clock's rate (1e-3: 1 ms in a second).

    `renew` is R, `suspect` T_s, `lease` L_W, `kill` K, `rerun` L_M, `tick` d and `rate` r of the
    protocol; `recover` is for how long a cluster that flaps has to be well before it gets new work.
    """

    renew: float = 20.0
    suspect: float = 50.0
    lease: float = 120.0
    kill: float = 45.0
    rerun: float = 180.0
    tick: float = 1.0
    recover: float = 30.0
    rate: float = 1e-3

    @property
    def skew(self) -> float:
        """How much longer one clock may take than the other for the same time: (1+r)/(1-r)."""
        return (1 + self.rate) / (1 - self.rate)

    def bound(self, lease: float | None = None) -> float:
        """When all that stops at the end of a lease is gone, counted from the last renewal seen:
        (L_W + d + K)(1+r)/(1-r). `lease` stands in for L_W where a job has one of its own.
        """
        return ((self.lease if lease is None else lease) + self.tick + self.kill) * self.skew

    def problem(self) -> str:
        """Why these times keep no promise, with the numbers; '' if they do."""
        times = (self.renew, self.suspect, self.lease, self.kill, self.rerun, self.tick)
        if not all(map(math.isfinite, (*times, self.recover))):
            return "all times have to be numbers of seconds that come to an end"
        if min(times) <= 0 or self.recover < 0:
            return "all times have to be above 0 (the time to recover may be 0)"
        if not 0 <= self.rate < 0.1:
            return (
                f"the bound on the error of a clock's rate is {self.rate:g}: below 0.1 makes sense"
            )
        if self.lease != int(self.lease) or self.lease > LONGEST:
            return f"the lease (L_W) is {self.lease:g} s: whole seconds make sense, up to a day"
        if self.renew >= self.suspect:
            return (
                f"a cluster is suspect after {self.suspect:g} s (T_s), but renews every"
                f" {self.renew:g} s (R) only: R has to be below T_s"
            )
        if self.suspect + self.renew > self.lease:
            return (
                f"a lease (L_W) of {self.lease:g} s is shorter than T_s + R ="
                f" {self.suspect:g} + {self.renew:g} s: clusters would be fenced before it shows"
                " how many are silent"
            )
        if self.rerun < self.bound():
            return (
                f"jobs would run again {self.rerun:g} s after the last renewal (L_M), but their"
                f" old copies are gone for certain only after (L_W + d + K)(1+r)/(1-r) ="
                f" ({self.lease:g} + {self.tick:g} + {self.kill:g}) * {self.skew:.4f} ="
                f" {self.bound():.1f} s: raise L_M, or lower the lease L_W or the kill time K"
            )
        return ""


DEFAULT = Timings()
FAST = Timings(renew=5.0, suspect=12.0, lease=30.0, rerun=90.0, recover=10.0)
PROFILES = {"default": DEFAULT, "fast": FAST}


@dataclass(frozen=True, slots=True)
class Standing:
    """What the jobs on one cluster have to know of it. `epoch` is that of its Lease.

    `present` is whether its agent renews the Lease in `epoch` and has listed all copies that are
    there: only then verdicts on copies of lower epochs can be given. `silent` is for how long no
    renewal was seen, in seconds on a clock that never jumps (0 while the cluster is well, and while
    the brake holds, unless it was lost before). `suspect` lets jobs go elsewhere that may run
    twice. A copy bound in an epoch below `stopped_below` is certainly stopped if its policy is
    `stop`: the fence holds, and L_M has passed since the last renewal. Below `confirmed_below`
    somebody confirmed that nothing runs, whatever the policy. `fenced_below` are epochs that were
    fenced, stopped yet or not: no agent starts anything of them without a verdict. `reachable` is
    whether the manager's own connection to its API server works, which is no sign of life: what
    cannot be done there waits. `lapsed`: its lease ends about now or is over, whatever the brake
    says: that may have killed what runs there; `unrenewed` is then for how long it was not renewed.
    `lately`: that was so until a while ago. `breaks` is how often it was, as its agent counts (0:
    it does not tell). `unheard`: it is not known yet whether it lapsed, no renewal that counts was
    seen to come. Epochs below `own_since` are those of another physical cluster that had the name
    before, until `since_replaced` seconds ago (0: none). `kill` is the K that its agent goes by, in
    seconds (0: the configured one). `plain`: there is no agent, so that nobody
    stops what runs there when it is lost; as long as it is reached everything is stopped first.
    """

    cluster: str
    epoch: int = 1
    present: bool = True
    suspect: bool = False
    silent: float = 0.0
    fenced_below: int = 0
    stopped_below: int = 0
    confirmed_below: int = 0
    reachable: bool = True
    lapsed: bool = False
    unrenewed: float = 0.0
    lately: bool = False
    breaks: int = 0
    unheard: bool = False
    own_since: int = 0
    since_replaced: float = 0.0
    kill: float = 0.0
    plain: bool = False

    @property
    def timeless(self) -> Standing:
        """The same without what changes by time alone: equal if nothing else is new."""
        return replace(self, silent=0.0, unrenewed=0.0, since_replaced=0.0)

    @property
    def of_the_one_before(self) -> Standing:
        """How the physical cluster stands that had the name before: it is lost, as far as anybody
        can tell. Nothing that is done or seen under its name concerns it.
        """
        return replace(
            self, present=False, suspect=True, reachable=False, silent=self.since_replaced
        )

    @property
    def well(self) -> bool:
        """Whether its agent follows what is decided, and the manager can do something there."""
        return self.present and self.reachable and not self.suspect
