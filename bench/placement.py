"""How long the placement of a pod or a gang takes, `python -m bench.placement [--json]`.

A fleet of hosts with eight cards each, filled by the placement itself with a mix of pods that come
and go, so that it has holes. Measured is CPU time of the process; figures are medians:

- `gang`: places for a gang of 8, all or none. `unseen` is a shape that was never asked before,
  `seen` one that was, after some hosts changed. Nothing is taken.
- `decision`: one pod placed, committed to the ledger, its host put into the index; and the oldest
  pod released and counted off.
- `rebuilt`: the same decision with everything that is used counted anew from all pods, and every
  host looked at, as HAMi's scheduler does for each pod.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from federation.core.devices.cards import Card, CardUse, Host, HostUse
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import DEFAULT, STRATEGIES, strategy
from federation.core.devices.fleet.types import NoPlace, Placement, Room, Shape
from federation.core.devices.host.fit import find
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.ledger.charge import charge
from federation.core.devices.ledger.holding import Reservation
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.wants import CardWants, ContainerWants, PodWants

CARDS, CARD_MIB, CPU = 8, 40_960, 96_000
GANG = 8
SHARES = (1024, 2048, 4096, 5120, 8192, 10_240, 13_516, 16_384, 20_480, 0)
"""MiB of a card; 0 is a card of its own."""


def shape(mib: int, cores: int, cpu: int, cards: int = 1) -> Shape:
    """A pod with one container."""
    asked = CardWants("NVIDIA", cards, mib, 0 if mib else 100, cores if mib else 100)
    wants = PodWants((ContainerWants("main", cards=(asked,)),))
    return Shape(wants, (("cpu", cpu), ("pods", 1)))


def shapes(chance: random.Random) -> list[Shape]:
    """Some twenty that pods come in, the last two seldom."""
    return [
        shape(mib, cores, cpu * 1000)
        for mib in SHARES
        for cores, cpu in ((0, chance.randint(1, 3)), (chance.choice((5, 10, 20)), 2))
    ] + [shape(0, 100, 16_000, cards=2), shape(0, 100, 32_000, cards=4)]


@dataclass
class Site:
    """Hosts with pods on them: the ledger that knows them, and the index of what is free."""

    hosts: int
    seed: int
    policy: str = DEFAULT
    ledger: Ledger = field(default_factory=Ledger)
    pods: deque[Reservation] = field(default_factory=deque)
    cpu: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.mix = Mix()
        self.fleet = Fleet(strategy(self.policy, self.mix))
        self.shapes = shapes(self.chance)
        for number in range(self.hosts):
            name = f"node-{number:04d}"
            cards = tuple(
                Card(f"GPU-{number}-{n}", "NVIDIA", "NVIDIA A100", CARD_MIB, index=n, numa=n // 4)
                for n in range(CARDS)
            )
            self.ledger.set_host(Host(name, cards))
            self.cpu[name] = CPU
            self.put(name)

    def put(self, name: str) -> None:
        """Tell the index how a host is now."""
        use = self.ledger.use(name)
        assert use is not None
        self.fleet.put(name, use, Room({"cpu": self.cpu[name], "pods": 100}))

    def arrive(self, wanted: Shape) -> bool:
        """Place and commit one pod."""
        self.mix.learn(wanted)
        place = self.fleet.place(wanted)
        return isinstance(place, Placement) and self.commit(place)

    def commit(self, place: Placement) -> bool:
        """Count it in the ledger and in the index."""
        self.number += 1
        owner = f"pod-{self.number}"
        pod = Reservation(owner, "team", place.host, place.shape.wants, place.allocation, 1e9)
        why = self.ledger.reserve(pod)
        if why:
            raise AssertionError(f"the ledger refuses what was placed: {why}")
        self.pods.append(pod)
        self.requests[owner] = place.shape.cpu_milli
        self.cpu[place.host] -= place.shape.cpu_milli
        self.put(place.host)
        return True

    def depart(self) -> None:
        """The oldest pod ends."""
        pod = self.pods.popleft()
        owner = str(pod.owner)
        self.ledger.release(owner)
        self.cpu[pod.host] += self.requests.pop(owner)
        self.put(pod.host)

    def draw(self) -> Shape:
        """A shape as they come: those of whole cards one time in twelve."""
        large = self.chance.random() < 1 / 12
        return self.chance.choice(self.shapes[-4:] if large else self.shapes[:-4])

    def fill(self, pods: int) -> None:
        """Until so many are there, those that came early gone again so that holes are left."""
        for _ in range(2 * pods):
            self.arrive(self.draw())
            if len(self.pods) > pods:
                if self.chance.random() < 0.5:
                    self.pods.rotate(self.chance.randrange(len(self.pods)))
                self.depart()
        while len(self.pods) < pods and self.arrive(shape(2048, 0, 1000)):
            pass


def timed(call: Callable[[], object], times: int) -> list[float]:
    """Milliseconds of each."""
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(1000 * (time.process_time() - start))
    return found


def gangs(site: Site, times: int) -> dict[str, float]:
    """Milliseconds for a gang of 8 of one shape."""
    fresh = iter(shape(6000 + 7 * n, 15, 2000 + n) for n in range(10_000))
    unseen = timed(lambda: _placed(site.fleet.place_gang([(next(fresh), GANG)])), times)
    known = site.shapes[8]

    def again() -> None:
        _placed(site.fleet.place_gang([(known, GANG)]))

    again()
    seen = []
    for _ in range(times):
        for _ in range(20):
            site.arrive(site.draw())
            site.depart()
        seen += timed(again, 1)
    mixed = [(next(fresh), 2), (shape(0, 100, 8000), 4), (known, 2)]
    return {
        "unseen_ms": median(unseen),
        "unseen_worst_ms": max(unseen),
        "seen_ms": median(seen),
        "of_three_shapes_ms": median(timed(lambda: _placed(site.fleet.place_gang(mixed)), times)),
    }


def _placed(found: Sequence[Placement] | NoPlace) -> None:
    if isinstance(found, NoPlace):
        raise AssertionError(f"the gang was not placed: {found}")


def decisions(site: Site, times: int) -> list[float]:
    """Milliseconds of arrivals, each with a commit and a release."""

    def decide() -> None:
        site.arrive(site.draw())
        site.depart()

    return timed(decide, times)


def rebuilt(site: Site, times: int) -> list[float]:
    """Milliseconds of arrivals if nothing is kept between them."""
    hosts = [use.host for name in site.cpu if (use := site.ledger.use(name))]

    def decide() -> None:
        wanted = site.draw()
        uses = snapshot(hosts, site.pods)
        found = {
            name: (allocation, _usage(use))
            for name, use in uses.items()
            if site.cpu[name] >= wanted.cpu_milli
            and not isinstance(allocation := find(use, wanted.wants), Misfit)
        }
        if found:
            name = max(found, key=lambda one: (found[one][1], one))
            site.commit(Placement(wanted, name, found[name][0], 0.0))
            site.depart()

    return timed(decide, times)


def snapshot(hosts: Iterable[Host], pods: Iterable[Reservation]) -> dict[str, HostUse]:
    """What is used of every host, counted from the pods."""
    used: dict[str, dict[str, CardUse]] = {host.name: {} for host in hosts}
    for pod in pods:
        at = used[pod.host]
        for uuid, amount in charge(pod.wants.roles, pod.allocation).items():
            held = at.get(uuid)
            at[uuid] = CardUse(amount if held is None else held.amount.plus(amount))
    return {host.name: HostUse(host, used[host.name]) for host in hosts}


def _usage(use: HostUse) -> float:
    """HAMi's node score: binpack takes the highest."""
    return sum(held.amount.memory_mib / CARD_MIB for held in use.uses.values())


def measure(hosts: int, pods: int, times: int, policy: str = DEFAULT) -> dict[str, Any]:
    """All figures of one site."""
    site = Site(hosts, 1, policy)
    site.fill(pods)
    found = gangs(site, max(5, times // 20))
    ours, theirs = decisions(site, times), rebuilt(site, max(5, times // 20))
    ranked = sorted(ours)
    return {
        "policy": policy,
        "hosts": hosts,
        "cards": hosts * CARDS,
        "pods": len(site.pods),
        "gang": {key: round(value, 3) for key, value in found.items()},
        "decision_ms": round(median(ours), 3),
        "decision_p99_ms": round(ranked[int(0.99 * len(ranked))], 3),
        "rebuilt_ms": round(median(theirs), 3),
        "ratio": round(median(theirs) / median(ours), 1),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; one JSON object with --json."""
    parser = argparse.ArgumentParser(prog="python -m bench.placement", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--policy", choices=sorted(STRATEGIES), default=DEFAULT)
    parser.add_argument("--decisions", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = {
        "400_cards": measure(50, 1000, options.decisions, options.policy),
        "8000_cards": measure(1000, 10_000, options.decisions, options.policy),
    }
    if options.json:
        print(json.dumps(found))
    else:
        for name, one in found.items():
            print(name, *(f"  {key}: {value}" for key, value in one.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
