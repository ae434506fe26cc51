"""Watches over all clusters: how each stands, the brake over all, and the fences that follow.

About once a second, and at once for a cluster whose Lease changed. What a cluster's standing means
for the jobs on it is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace

import structlog

from federation.core import plain_kueue
from federation.core.confirming import Confirm
from federation.core.facts import JobState
from federation.core.failover import Standing, Timings
from federation.core.health import (
    Brake,
    Create,
    Facts,
    Fence,
    Phase,
    Verdict,
    brake,
    counts,
    judge,
    settle,
)
from federation.core.lease import Watch, unsettled
from federation.edge.kube import KubeClient
from manager.canary import Canary
from manager.clock import Clock
from manager.leases import RESERVED, Leases

log = structlog.get_logger(__name__)

TICK_S = 1.0
BOUND_S = 5.0
"""How often it is counted where jobs are bound: that looks at all of them."""
UNSEEN = Watch()
SETTLED = ("", Phase.UNKNOWN, Phase.READY, Phase.UNUSABLE)


class Watcher:
    """`facts` tells what is known of a cluster beside its Lease (None: it does not exist), `names`
    which there are. `on_standing` hears how clusters stand: when that changes, and each second
    while one is silent. `bound_epochs` are the highest epochs in which jobs are bound, by cluster.
    """

    def __init__(
        self,
        client: KubeClient,
        timings: Timings,
        clock: Clock | None = None,
        *,
        pulse: KubeClient | None = None,
        worker_lost_s: float = plain_kueue.WORKER_LOST_S,
    ) -> None:
        self.clock = clock = clock or Clock()
        self.leases = Leases(client, timings, clock)
        self.canary = Canary(pulse or client, timings, clock)
        self.leases.on_canary = self.canary.see
        self.leases.blind = lambda: bool(self.canary.problem())
        self.leases.on_change = self.look_at
        self.brake = Brake()
        self.verdicts: dict[str, Verdict] = {}
        self.on_standing: Callable[[Standing], None] = lambda standing: None
        self.bound_epochs: Callable[[], Mapping[str, int]] = dict
        self.names: Callable[[], Iterable[str]] = tuple
        self.facts: Callable[[str], Facts | None] = lambda name: None
        self.plain: Callable[[str], bool] = lambda name: False
        """Whether plain Kueue runs a cluster, so that no agent renews a Lease for it."""
        self.worker_lost_s = worker_lost_s
        self._contacts: dict[str, plain_kueue.Contact] = {}
        self._timings = timings
        self._bound: Mapping[str, int] = {}
        self._bound_at = float("-inf")
        self._missing: dict[str, float] = {}
        self._fed: dict[str, tuple[float, Standing]] = {}
        self._writing: set[str] = set()
        self._up_to_date: dict[str, tuple[Watch | None, bool, str]] = {}
        """As of what nothing of the Lease of a cluster had to be changed."""
        self._running = False

    def begin(self, shown: Mapping[str, str]) -> None:
        """Start to judge. `shown` are the phases that the last manager left behind: a cluster that
        was in trouble then has to prove itself again.
        """
        for name, phase in shown.items():
            if phase not in SETTLED and name in self.leases.watches:
                self.leases.watches[name] = unsettled(self.leases.watches[name])
        self._running = True
        self.look()

    async def run(self) -> None:
        """Judge and act until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.canary.run())
            while True:
                self.look()
                self._act(tasks)
                await asyncio.sleep(TICK_S)  # silence is no event

    def epoch(self, name: str) -> int:
        """The epoch that is written on what is bound to a cluster."""
        return max(1, self.leases.watches.get(name, UNSEEN).highest)

    def verdict(self, name: str) -> Verdict:
        """How a cluster stands, as it was judged last."""
        return self.verdicts.get(name) or Verdict(
            Phase.UNKNOWN, Standing(name, self.epoch(name), present=False), "not looked at yet"
        )

    def heard(self, name: str) -> bool:
        """Whether an agent was ever heard of in the Lease of a cluster."""
        seen = self.leases.watches.get(name, UNSEEN).seen
        return seen is not None and bool(seen.renewed or seen.fenced)

    def renewed(self, name: str) -> bool:
        """Whether an agent was seen to renew the Lease of a cluster lately."""
        watch = self.leases.watches.get(name, UNSEEN)
        alive = watch.seen is not None and watch.seen.held and watch.proven
        return alive and watch.silent(self.clock.boot()) < watch.suspect_s(self._timings)

    def look(self) -> None:
        """Judge all clusters as of now."""
        now = self.clock.boot()
        if now - self._bound_at >= BOUND_S:
            self._bound, self._bound_at = self.bound_epochs(), now
        names = {*self.names(), *self._bound} - RESERVED
        for name in self.verdicts.keys() - names:
            del self.verdicts[name]
            self._fed.pop(name, None)
            self._up_to_date.pop(name, None)
            self._contacts.pop(name, None)
        facts = {name: self._facts(name, now) for name in sorted(names)}
        self._set_brake(facts, now)
        for name in facts:
            self._judge(name, facts[name], now)

    def _set_brake(self, facts: Mapping[str, Facts], now: float) -> None:
        silent = members = 0
        for name, known in facts.items():
            if self.plain(name):
                contact = self._contact(name, known, now)
                away, member = plain_kueue.counts(contact, known, now, self._timings)
            else:
                watch = self.leases.watches.get(name, UNSEEN)
                away, member = counts(watch, known, now, self._timings)
            silent, members = silent + away, members + member
        before = self.brake
        hold = self._timings.recover
        self.brake = brake(before, silent, members, self.canary.problem(), now, hold)
        if bool(before.reason) != bool(self.brake.reason):
            why = self.brake.reason or "clusters may be given up again after a while"
            log.warning("brake.set" if self.brake.reason else "brake.released", why=why)

    def _facts(self, name: str, now: float) -> Facts:
        facts = self.facts(name)
        if facts is not None:
            self._missing.pop(name, None)
        else:
            facts = Facts(self._missing.setdefault(name, now), listed=False)
        bound = self._bound.get(name, 0)
        return replace(facts, bound=bound) if bound else facts

    def look_at(self, name: str) -> None:
        """Judge one cluster: its Lease or something else of it changed."""
        if not self._running or name not in self.verdicts:
            return
        if self.canary.problem() and not self.brake.reason:  # this process may have stood still
            self.look()
            return
        now = self.clock.boot()
        self._judge(name, self._facts(name, now), now)

    def _contact(self, name: str, facts: Facts, now: float) -> plain_kueue.Contact:
        free_at, known = self.brake.free_at(self._timings), self._contacts.get(name)
        found = plain_kueue.looked(known, facts, now, self.worker_lost_s, free_at)
        self._contacts[name] = found
        return found

    def _verdict(self, name: str, facts: Facts, now: float) -> Verdict:
        if self.plain(name):
            contact, epoch = self._contact(name, facts, now), self.epoch(name)
            return plain_kueue.judge(
                name, contact, facts, epoch, self.worker_lost_s, self.brake, now
            )
        watch = self.leases.watches.get(name, UNSEEN)
        settled = settle(watch, now, self._timings, self.brake)
        if settled is not watch:
            self.leases.watches[name] = settled
        return judge(name, settled, facts, now, self._timings, self.brake)

    def _judge(self, name: str, facts: Facts, now: float) -> None:
        verdict = self._verdict(name, facts, now)
        before = self.verdicts.get(name)
        self.verdicts[name] = verdict
        if before is None or before.phase != verdict.phase:
            log.info("cluster.phase", cluster=name, phase=verdict.phase.value, why=verdict.cause)
        self._feed(name, verdict.standing, now)

    def _feed(self, name: str, standing: Standing, now: float) -> None:
        at, fed = self._fed.get(name, (0.0, None))
        same = fed is not None and (fed == standing or fed.timeless == standing.timeless)
        still = standing.silent == standing.unrenewed == standing.since_replaced == 0
        if same and (still or now - at < TICK_S / 2):
            return
        self._fed[name] = now, standing
        self.on_standing(standing)

    def _act(self, tasks: asyncio.TaskGroup) -> None:
        """Start the writes that are due; each cluster has one under way at most."""
        for name, verdict in self.verdicts.items():
            if name in self._writing or self.plain(name):
                continue
            match verdict.action:
                case Create() as create:
                    write = self.leases.make(name, create)
                case Fence() as fence:
                    write = self.leases.fence(name, fence)
                case Confirm() as confirm:
                    write = self.leases.confirm(name, confirm)
                case None:
                    known = self.facts(name)
                    identity = known.identity if known is not None else ""
                    about = self.leases.watches.get(name), name in self._bound, identity
                    if self._up_to_date.get(name) == about:
                        continue
                    body = self.leases.stale(name, bound=name in self._bound, identity=identity)
                    if body is None:
                        self._up_to_date[name] = about
                        continue
                    write = self.leases.configure(name, body)
            self._writing.add(name)
            tasks.create_task(self._write(name, write))

    async def _write(self, name: str, write: Coroutine[None, None, None]) -> None:
        try:
            await write
        finally:
            self._writing.discard(name)


def bound_epochs(states: Iterable[JobState]) -> dict[str, int]:
    """The highest epoch in which a job is bound, by cluster."""
    found: dict[str, int] = {}
    for state in states:
        if (bound := state.bound) is not None and bound.epoch > found.get(bound.cluster, 0):
            found[bound.cluster] = bound.epoch
    return found
