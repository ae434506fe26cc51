"""Pods that come and go: what each strategy serves, `python -m bench.packing.churn [--json]`.

Six small sites and mixes (spec of HAMi, section 9, made here anew: its scripts are not known, the
load is such that HAMi's binpack serves about what it did there). Arrivals at random, lifetimes
uniform around a mean, a pod that does not fit is lost; every seed is the same for all policies.
Served is memory times lifetime of what was placed over that of all that was asked for; whole cards
count as the smallest there is. `gain` is over HAMi's best setting of that site, the mean over seeds
with its standard error. The strategies learn the mix from the arrivals. Every placement is checked
by counting.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from federation.core.devices.cards import Card, Host, HostUse
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import Placement, Room, Shape
from federation.core.devices.wants import CardWants, ContainerWants, PodWants

GIB = 1024
HAMI = ("binpack", "binpack-spread", "spread")
OURS = ("drain-aware", "default")
CORES = (0, 10, 20, 30, 50)


@dataclass(frozen=True, slots=True)
class Site:
    """Hosts as (how many, cards, GiB of each); shares in GiB; a part `whole` of the pods takes so
    many whole cards instead; `alive` pods there would be if all fitted.
    """

    name: str
    hosts: tuple[tuple[int, int, int], ...]
    shares: tuple[int, ...]
    cores: tuple[int, ...]
    whole: float
    cards: tuple[int, ...]
    alive: float


_SMALL = (2, 4, 5, 6, 8, 10, 12, 16, 20, 24)
_LARGE = (4, 8, 10, 16, 20, 24, 32, 40)
SITES = (
    Site("4 x 8 x 40 GiB", ((4, 8, 40),), _SMALL, CORES, 0.08, (1,), 90.6),
    Site("4 x 8 x 40 GiB, no cores", ((4, 8, 40),), _SMALL, (0,), 0.08, (1,), 115.3),
    Site("6 x 4 x 80 GiB, jobs of 4", ((6, 4, 80),), _LARGE, CORES, 0.10, (4,), 50.4),
    Site("1 x 8 x 80 GiB", ((1, 8, 80),), _LARGE, CORES, 0.15, (1, 2), 17.5),
    Site(
        "15, 24 and 40 GiB",
        ((3, 4, 15), (2, 4, 24), (2, 8, 40)),
        (2, 4, 6, 8, 10, 12, 20, 30),
        CORES,
        0.05,
        (1,),
        74.1,
    ),
    Site(
        "3 x 8 x 40 + 2 x 4 x 80 GiB",
        ((3, 8, 40), (2, 4, 80)),
        (2, 4, 5, 8, 10, 16, 20, 32),
        CORES,
        0.12,
        (1, 1, 2, 4),
        65.4,
    ),
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One pod: when, for how long, and the GiB-time it asks for."""

    at: float
    end: float
    shape: Shape
    worth: float


def arrivals(site: Site, seed: int, count: int) -> list[Arrival]:
    """The pods of one run."""
    chance, now, made = random.Random(seed), 0.0, []
    smallest = min(gib for _, _, gib in site.hosts)
    for _ in range(count):
        now += chance.expovariate(1.0)
        life = chance.uniform(0.2, 1.8) * site.alive
        if chance.random() < site.whole:
            cards, cores = chance.choice(site.cards), 100 if len(site.cores) > 1 else 0
            asked, gib = CardWants("NVIDIA", cards, 0, 100, cores), smallest * cards
        else:
            gib = chance.choice(site.shares)
            asked = CardWants("NVIDIA", 1, gib * GIB, 0, chance.choice(site.cores))
        shape = Shape(PodWants((ContainerWants("main", cards=(asked,)),)))
        made.append(Arrival(now, now + life, shape, gib * life))
    return made


def hosts(site: Site) -> list[Host]:
    """The hosts of a site, idle."""
    made = []
    for group, (count, cards, gib) in enumerate(site.hosts):
        for number in range(count):
            name = f"node-{group}-{number}"
            own = tuple(
                Card(f"{name}-{n}", "NVIDIA", f"GPU {gib}", gib * GIB, index=n)
                for n in range(cards)
            )
            made.append(Host(name, own))
    return made


def served(site: Site, policy: str, seed: int, count: int) -> float:
    """Per cent of what was asked for."""
    mix = Mix()
    fleet = Fleet(strategy(policy, mix))
    for host in hosts(site):
        fleet.put(host.name, HostUse(host), Room({}))
    running: list[tuple[float, int, Placement]] = []
    asked = got = 0.0
    for number, pod in enumerate(arrivals(site, seed, count)):
        while running and running[0][0] <= pod.at:
            fleet.give_back(heapq.heappop(running)[2])
        mix.learn(pod.shape)
        place = fleet.place(pod.shape)
        asked += pod.worth
        if isinstance(place, Placement):
            fleet.take(place)
            _check(fleet, place)
            heapq.heappush(running, (pod.end, number, place))
            got += pod.worth
    return 100 * got / asked


def _check(fleet: Fleet, place: Placement) -> None:
    use = fleet.use(place.host)
    assert use is not None
    for card in use.host.cards:
        slots, mib, cores = use.use(card.uuid).amount
        if slots > card.slots or mib > card.memory_mib or cores > card.cores:
            raise AssertionError(f"{card.uuid} is over: {slots} slots, {mib} MiB, {cores} cores")


Task = tuple[int, str, int, int]


def work(task: Task) -> float:
    """One run, in a process of its own."""
    site, policy, seed, count = task
    return served(SITES[site], policy, seed, count)


def compare(found: dict[str, list[float]], policies: Sequence[str]) -> dict[str, Any]:
    """One site: means, and gains over HAMi's best, paired."""
    means = {policy: fmean(values) for policy, values in found.items()}
    best = max((policy for policy in HAMI if policy in means), key=means.__getitem__)
    gains = {}
    for policy in policies:
        paired = [mine - theirs for mine, theirs in zip(found[policy], found[best], strict=True)]
        error = stdev(paired) / len(paired) ** 0.5 if len(paired) > 1 else 0.0
        gains[policy] = (round(fmean(paired), 2), round(error, 2))
    return {"hami_best": best, "served": {p: round(m, 2) for p, m in means.items()}, "gain": gains}


def main(arguments: list[str] | None = None) -> int:
    """Run and print; one JSON object with --json."""
    parser = argparse.ArgumentParser(prog="python -m bench.packing.churn", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--arrivals", type=int, default=1200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--policies", type=lambda text: text.split(","), default=list(OURS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    policies, seeds = (
        [*HAMI, *options.policies],
        range(options.first, options.first + options.seeds),
    )
    keys = [(site, policy) for site in range(len(SITES)) for policy in policies]
    tasks = [(*key, seed, options.arrivals) for key in keys for seed in seeds]
    with ProcessPoolExecutor(options.jobs) as pool:
        values = list(pool.map(work, tasks, chunksize=4))
    result = {}
    for number, site in enumerate(SITES):
        found = {
            policy: [v for v, t in zip(values, tasks, strict=True) if t[:2] == (number, policy)]
            for policy in policies
        }
        result[site.name] = compare(found, options.policies)
    worst = min(
        one["gain"][p][0] for one in result.values() for p in ("default",) if p in one["gain"]
    )
    if options.json:
        print(json.dumps({"sites": result, "worst_gain": worst}))
    else:
        for name, one in result.items():
            print(name, one["hami_best"], one["served"], one["gain"], sep="  ")
        print(f"worst_gain: {worst}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
