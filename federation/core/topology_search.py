"""The search for domains: count what fits from the leaves up, choose a level, pack downwards.

Rules: spec of Kueue §5.1 (BestFit, and LeastFreeCapacity for unconstrained requests). One thing
differs: where a leader pod goes is chosen so that the rest still fits beside it, so a search
that counted enough room never fails on the way down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from federation.core.topology_shape import Shape
from federation.core.topology_tree import Tree
from federation.core.types import TopologyMode


class Counts(NamedTuple):
    """Per domain of a level: how many pods fit, and how many units (`Shape.sizes`) of them."""

    pods: list[int]
    units: list[int]


class Room(NamedTuple):
    """What fits in the domains of a level: alone, and beside the leader (-1: no room for it)."""

    plain: Counts
    led: Counts | None


class Take(NamedTuple):
    """Units given to a domain, and whether the leader goes there."""

    domain: int
    units: int
    led: bool


class Found(NamedTuple):
    """Pods per leaf (none of them 0), and the leaf of the leader."""

    pods: dict[int, int]
    leader: int | None


@dataclass(frozen=True, slots=True)
class TopologyFailure:
    """Why there is no placement, with the numbers."""

    message: str


def search(
    tree: Tree, shape: Shape, fit: list[int], fit_led: list[int] | None, units: int
) -> Found | int:
    """Place `units` slices, and a leader if `fit_led` is given.

    `fit` is how many pods each leaf holds, `fit_led` how many beside the leader (-1: the leader
    does not fit). Returns how many units fit if not all do.
    """
    rooms = _roll_up(tree, shape, fit, fit_led)
    if fit_led is not None and max(fit_led) < 0:
        return 0
    chosen = _choose(shape, rooms, units, fit_led is not None)
    if isinstance(chosen, int):
        return chosen
    level, takes = chosen
    for below in range(level + 1, len(rooms)):
        takes = _descend(tree, shape, rooms[below], below, takes)
    return Found(
        {take.domain: take.units * shape.sizes[-1] for take in takes if take.units},
        next((take.domain for take in takes if take.led), None),
    )


def _roll_up(tree: Tree, shape: Shape, fit: list[int], fit_led: list[int] | None) -> list[Room]:
    def counts(pods: list[int], size: int) -> Counts:
        return Counts(pods, [count // size for count in pods] if size > 1 else pods)

    rooms = [
        Room(counts(fit, shape.sizes[-1]), counts(fit_led, shape.sizes[-1]) if fit_led else None)
    ]
    for level in reversed(range(len(shape.sizes) - 1)):
        plain, led = rooms[-1]
        children, size = tree.children[level], shape.sizes[level]
        if level < shape.slice_level:
            gathered = Counts(_sums(plain.pods, children), _sums(plain.units, children))
            led = led and Counts(
                _beside(plain.pods, led.pods, children), _beside(plain.units, led.units, children)
            )
        else:
            inner = shape.sizes[level + 1]
            gathered = counts([n * inner for n in _sums(plain.units, children)], size)
            if led:
                most = _beside(plain.units, led.units, children)
                led = counts([n * inner if n >= 0 else -1 for n in most], size)
        rooms.append(Room(gathered, led))
    rooms.reverse()
    return rooms


def _sums(counts: list[int], children: Sequence[range]) -> list[int]:
    return [sum(counts[run.start : run.stop]) for run in children]


def _beside(plain: list[int], led: list[int], children: Sequence[range]) -> list[int]:
    """What fits beside the leader if it goes to the child that loses least by it."""
    result = []
    for run in children:
        losses = [plain[child] - led[child] for child in run if led[child] >= 0]
        result.append(sum(plain[run.start : run.stop]) - min(losses) if losses else -1)
    return result


def _choose(shape: Shape, rooms: list[Room], units: int, led: bool) -> tuple[int, list[Take]] | int:
    """The level of the placement with the domains taken there, or how many units fit."""
    level = shape.level
    while True:
        room = rooms[level]
        counts = room.led if led and room.led else room.plain
        holders = [domain for domain, most in enumerate(counts.units) if most >= units]
        if holders:
            # The smallest that holds all: in both orders the first such one.
            tightest = min(holders, key=lambda i: (counts.units[i], counts.pods[i], i))
            return level, [Take(tightest, units, led)]
        if shape.mode is TopologyMode.REQUIRED:
            return max(0, *counts.units)
        if shape.mode is TopologyMode.UNCONSTRAINED or not level:
            break
        level -= 1
    takes = _pack(shape, room, level, range(len(counts.units)), Take(0, units, led))
    packed = sum(take.units for take in takes)
    return (level, takes) if packed == units else packed


def _descend(tree: Tree, shape: Shape, room: Room, level: int, takes: list[Take]) -> list[Take]:
    """Hand what was taken one level up to the domains of `level`."""
    children = tree.children[level - 1]
    if level <= shape.slice_level:
        # Slices are packed over all the domains together, not per parent.
        domains = sorted(child for take in takes for child in children[take.domain])
        need = Take(0, sum(take.units for take in takes), any(take.led for take in takes))
        return _pack(shape, room, level, domains, need)
    ratio = (shape.sizes[level - 1], shape.sizes[level])
    return [
        part
        for take in takes
        for part in _pack(
            shape,
            room,
            level,
            children[take.domain],
            take._replace(units=take.units * ratio[0] // ratio[1]),
        )
    ]


def _pack(shape: Shape, room: Room, level: int, domains: Sequence[int], need: Take) -> list[Take]:
    """Fill domains (in ascending order) in the order of the profile until `need` is met."""
    best_fit = shape.mode is not TopologyMode.UNCONSTRAINED
    rest, left, takes = list(domains), need.units, list[Take]()
    if need.led and room.led:
        leader = _seat(room.plain, room.led, rest, left, best_fit)
        takes.append(Take(leader, min(left, room.led.units[leader]), True))
        left -= takes[0].units
        rest.remove(leader)
    pods, units = room.plain
    rest.sort(key=pods.__getitem__)
    if level <= shape.slice_level:
        # Below the slices Kueue does not count units: there the fewest pods come first.
        rest.sort(key=units.__getitem__, reverse=best_fit)
    for position, domain in enumerate(rest):
        if not left:
            break
        if best_fit and units[domain] >= left:
            holders = (other for other in rest[position:] if units[other] >= left)
            domain = min(holders, key=units.__getitem__)
        if taken := min(left, units[domain]):
            takes.append(Take(domain, taken, False))
            left -= taken
    return takes


def _seat(plain: Counts, led: Counts, domains: list[int], need: int, best_fit: bool) -> int:
    """The domain of the leader: it takes as many units along as it can hold."""
    able = [domain for domain in domains if led.units[domain] >= 0]
    able.sort(key=led.pods.__getitem__)
    able.sort(key=led.units.__getitem__, reverse=best_fit)
    holders = [domain for domain in able if led.units[domain] >= need]
    if best_fit and holders:
        return min(holders, key=led.units.__getitem__)
    total = sum(plain.units[domain] for domain in domains)
    enough = (i for i in able if total - plain.units[i] + led.units[i] >= need)
    return next(enough, able[0])
