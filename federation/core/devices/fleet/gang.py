"""Places for all pods of a gang, or none.

One after the other, each at the best place beside those before it. If one finds none, the largest
are tried first; then cards are taken the roomiest first, which finds places for equal pods
whenever there are any. To be sure for unequal ones would take a search over all hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.strategies.roomy import Roomy
from federation.core.devices.fleet.types import NoPlace, Placement, Shape

_ROOMY = Roomy()
_PERCENT = 10_000
"""A part of a card counts above all amounts in MiB."""


class Places(Protocol):
    """What places single pods and counts them."""

    def place(self, shape: Shape, strategy: Strategy | None = None) -> Placement | NoPlace:
        """The best place for one."""

    def take(self, placement: Placement) -> None:
        """Count it."""

    def give_back(self, placement: Placement) -> None:
        """Count it no more."""


def place_gang(fleet: Places, pods: Sequence[tuple[Shape, int]]) -> list[Placement] | NoPlace:
    """In the order of the pods. The fleet is as it was afterwards.

    The NoPlace is that of the first attempt, its `pod` the first without a place.
    """
    shapes = [shape for shape, count in pods for _ in range(count)]
    order = list(range(len(shapes)))
    found = _attempt(fleet, shapes, order, None)
    if not isinstance(found, NoPlace) or isinstance(fleet.place(found.shape), NoPlace):
        return found
    largest = sorted(order, key=lambda pod: _size(shapes[pod]), reverse=True)
    if largest != order:
        again = _attempt(fleet, shapes, largest, None)
        if not isinstance(again, NoPlace):
            return again
    again = _attempt(fleet, shapes, largest, _ROOMY)
    return found if isinstance(again, NoPlace) else again


def _attempt(
    fleet: Places, shapes: Sequence[Shape], order: Sequence[int], strategy: Strategy | None
) -> list[Placement] | NoPlace:
    taken: dict[int, Placement] = {}
    try:
        for pod in order:
            place = fleet.place(shapes[pod], strategy)
            if isinstance(place, NoPlace):
                return replace(place, pod=pod)
            fleet.take(place)
            taken[pod] = place
    finally:
        for place in reversed(taken.values()):
            fleet.give_back(place)
    return [taken[pod] for pod in range(len(shapes))]


def _size(shape: Shape) -> tuple[int, int, int, int]:
    """Cards, then memory and compute of each, then CPU."""
    asked = [wants for container in shape.wants.containers for wants in container.cards]
    return (
        sum(wants.cards for wants in asked),
        sum(wants.cards * (wants.memory_mib or wants.percent * _PERCENT) for wants in asked),
        sum(wants.cards * wants.cores for wants in asked),
        shape.cpu_milli,
    )
