"""The rig that drills run on: brought up once, and set to the profile and tier of each drill."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from federation.core.failover import PROFILES
from fedq.drill.drill import Drill, Need
from fedq.drill.faults import clocks, proxied
from fedq.drill.faults.link import Link
from fedq.drill.faults.routed import RoutedLink
from fedq.drill.ground import Conditions
from fedq.drill.result import Outcome, Result
from fedq.rig.network import why_not
from fedq.rig.rig import Rig
from fedq.stack import Stack

NODES = 4


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for on the command line; empty: as the drill says. `network` is `namespaces`,
    `proxies`, or empty for whatever this machine can do.
    """

    profile: str = ""
    tier: str = ""
    endurance: bool = False
    network: str = ""
    runtime: str = "ray"
    jobs: int = 1000


class Bench:
    """The rig of a run of drills, with `workers` worker clusters."""

    def __init__(self, rig: Rig, wishes: Wishes, tell: Callable[[str], None], workers: int) -> None:
        self._rig, self._wishes, self._tell = rig, wishes, tell
        self.workers = workers
        self._stack = Stack(rig)
        self._running: tuple[str, str] | None = None

    @property
    def _file(self) -> Path:
        return self._rig.data_dir("drill") / "bench.json"

    def up(self, network: str = "") -> None:
        """Bring the rig up, and install Fedq. `network` as in `Wishes`, which goes before."""
        network = self._wishes.network or network or self._network()
        if network == "proxies" and (why := why_not()):
            self._tell(f"no network namespaces here: {why}")
        apart = network == "namespaces"
        self._rig.up(self.workers, nodes=NODES, namespaces=apart, progress=self._tell)
        if not apart:
            proxied.prepare(self._rig)
        self._file.write_text(json.dumps({"network": network}))
        self._tell("installing CRDs, policies and roles")
        self._stack.install()

    def ready(self, drill: Drill) -> tuple[Stack, Link, Conditions] | Result:
        """Set the rig to what a drill runs under, or say why it cannot be run here."""
        wishes = self._wishes
        profile, tier = wishes.profile or drill.profile, wishes.tier or drill.tier
        conditions = Conditions(profile, PROFILES[profile], tier, wishes.endurance, wishes.jobs)
        if Need.PROXIES in drill.needs and not self._wishes.network:
            self._go_through_proxies()
        link = self._link()
        if why := self._missing(drill, link):
            return Result(
                drill.name,
                drill.number,
                drill.shows,
                Outcome.SKIPPED,
                [why],
                profile=profile,
                tier=tier,
            )
        self._start(profile, tier)
        return self._stack, link, conditions

    def _go_through_proxies(self) -> None:
        """A rig has the network that it came up with."""
        if self._network() == "proxies":
            return
        self._tell("this fault needs proxies: the rig comes up anew with them")
        self._stack.stop()
        self._running = None
        self._rig.down()
        self.up("proxies")

    def _network(self) -> str:
        """What the rig has; if it is not up yet, what this machine can do."""
        if self._file.exists():
            return str(json.loads(self._file.read_text())["network"])
        return "proxies" if why_not() else "namespaces"

    def _link(self) -> Link:
        if self._network() == "namespaces":
            return RoutedLink(self._rig)
        return proxied.ProxiedLink(self._rig)

    def _missing(self, drill: Drill, link: Link) -> str:
        if Need.PROXIES in drill.needs and not isinstance(link, proxied.ProxiedLink):
            return "this fault needs proxies: run it with --network proxies"
        if Need.FAKETIME in drill.needs and not clocks.library():
            return "libfaketime is not installed"
        if Need.RAY in drill.needs and self._wishes.runtime != "ray":
            return "the manager runs without Ray"
        return ""

    def _start(self, profile: str, tier: str) -> None:
        if self._running != (profile, tier):  # also what an earlier run has kept
            self._stack.stop()
        for worker in self._rig.workers:
            if guarded := tier == "B":
                self._stack.start_guard(worker)
            self._stack.start_runner(worker, guarded=guarded)
        self._stack.start(runtime=self._wishes.runtime, profile=profile)
        self._running = (profile, tier)
