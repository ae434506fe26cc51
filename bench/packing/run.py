"""One run of a list: its arrivals in the published order, one at a time, nothing departs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from bench.packing.checker import Checker
from bench.packing.policies import mix_of
from bench.packing.trace import Trace, host, shape
from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import NoPlace, Placement, Room, Shape

POINTS = (100, 110, 120, 130)
"""Per cent of the cards that have been asked for when the allocation is read."""


class Placer(Protocol):
    """The placement's public call."""

    def place(self, shape: Shape) -> Placement | NoPlace:
        """Where to."""

    def take(self, placement: Placement) -> None:
        """Count it."""


@dataclass(frozen=True, slots=True)
class Result:
    """`allocated` is per cent of all cards at each per cent of arrivals."""

    list: str
    policy: str
    seed: int
    allocated: dict[int, float]
    dropped: int
    decisions: int
    seconds: float


Hosts = Sequence[tuple[str, HostUse, Room]]
Make = Callable[[Hosts, str, Mix], Placer]


def run(trace: Trace, policy: str, seed: int, mix: str, make: Make) -> Result:
    """Feed one order to what `make` builds of the hosts. OverCommitted if it takes too much."""
    order = trace.orders[seed]
    named = [
        (*host(node, number), node) for node, number in zip(trace.nodes, order.numbers, strict=True)
    ]
    hosts = [(name, HostUse(made), room) for name, made, room, _ in named]
    known = mix_of(trace, mix)
    placer = make(hosts, policy, known)
    checker = Checker([(name, node) for name, _, _, node in named])
    number_of = {card.uuid: card.index for _, made, _, _ in named for card in made.cards}
    shapes = [shape(pod) for pod in trace.pods]
    arrived = list(accumulate(trace.pods[index].milli for index in order.arrivals))
    read: dict[int, list[int]] = {}
    dropped, seconds = 0, 0.0
    for index, total in zip(order.arrivals, arrived, strict=True):
        start = time.perf_counter()
        known.learn(shapes[index])
        place = placer.place(shapes[index])
        if isinstance(place, Placement):
            placer.take(place)
        seconds += time.perf_counter() - start
        if isinstance(place, Placement):
            grants = [(number_of[g.uuid], g.memory_mib) for one in place.allocation for g in one]
            checker.place(trace.pods[index], place.host, grants)
        else:
            dropped += 1
        read.setdefault(round(100 * total / trace.milli), []).append(checker.allocated)
    allocated = _curve(read, trace.milli)
    return Result(trace.name, policy, seed, allocated, dropped, len(arrived), seconds)


def _curve(read: Mapping[int, Sequence[int]], milli: int) -> dict[int, float]:
    """Per cent allocated at each per cent of arrivals: the mean of the arrivals that round to it,
    where there is none (few, large pods) what it was before.
    """
    curve, last = {}, 0.0
    for point in range(max(*POINTS, *read) + 1):
        if point in read:
            last = 100 * sum(read[point]) / len(read[point]) / milli
        curve[point] = last
    return curve


def one_fleet(hosts: Hosts, policy: str, mix: Mix) -> Fleet:
    """All hosts in one fleet."""
    fleet = Fleet(strategy(policy, mix))
    for name, use, room in hosts:
        fleet.put(name, use, room)
    return fleet
