"""What pods usually ask of a fleet: the shapes that fragmentation is measured by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from federation.core.devices.fleet.types import Shape
from federation.core.devices.wants import CardWants

USUAL_SHARE = 0.95
"""Popular shapes are counted until they make up this share of all pods, as FGD was published."""
MOST_SHAPES, MOST_PODS = 1024, 50_000
"""Beyond these a mix forgets: it is to know what is usual now, in bounded memory and time."""
_GROWTH = 1.25
_FIRST = 16


class Typical(NamedTuple):
    """What counts of a shape: CPU, one container's cards, and the models that will do."""

    cpu_milli: int
    wants: CardWants | None
    use_models: tuple[str, ...] = ()
    avoid_models: tuple[str, ...] = ()


Usual = tuple[tuple[Typical, float], ...]
"""Shapes with their part of the whole."""


class Mix:
    """How often each shape was asked. What a strategy goes by changes only each time the count has
    grown by a quarter, and with it `version`, so that scores can be kept meanwhile: `usual`, the
    popular shapes, and `all`.
    """

    def __init__(self, counts: Mapping[Typical, int] | None = None, *, fixed: bool = False) -> None:
        """`counts` known before; a `fixed` mix learns nothing more."""
        self._counts = Counter(counts or {})
        self._total = sum(self._counts.values())
        self._fixed = fixed
        self._due = max(_FIRST, self._total * _GROWTH)
        self.version = 0
        self._publish()

    @classmethod
    def of(cls, shapes: Iterable[Shape], *, fixed: bool = True) -> Mix:
        """A mix that is known from the start."""
        return cls(Counter(t for shape in shapes for t in typical(shape)), fixed=fixed)

    def learn(self, shape: Shape) -> None:
        """Count a pod that was asked for, placed or not; once per pod."""
        if self._fixed:
            return
        for seen in typical(shape):
            self._counts[seen] += 1
            self._total += 1
        if len(self._counts) > MOST_SHAPES or self._total > MOST_PODS:
            self._age()
        if self._total >= self._due:
            self._due = self._total * _GROWTH
            self.version += 1
            self._publish()

    def _age(self) -> None:
        """What was asked long ago counts half, and rare shapes are forgotten."""
        kept = sorted(self._counts.items(), key=lambda pair: pair[1], reverse=True)
        self._counts = Counter({s: max(1, n // 2) for s, n in kept[: MOST_SHAPES // 2]})
        self._total = sum(self._counts.values())
        self._due = self._total

    def _publish(self) -> None:
        self.usual: Usual = _usual(self._counts)
        self.all: Usual = tuple((s, n / self._total) for s, n in self._counts.items())


def typical(shape: Shape) -> tuple[Typical, ...]:
    """What a shape adds to the mix: one entry per container with cards, or one without."""
    wishes, cpu = shape.wants.wishes, shape.cpu_milli
    found = tuple(
        Typical(cpu, wants, wishes.use_models, wishes.avoid_models)
        for container in shape.wants.containers
        for wants in container.cards
    )
    return found or (Typical(cpu, None),)


def _usual(counts: Counter[Typical]) -> Usual:
    """The most popular shapes that make up the usual share, with their part of these."""
    total, chosen, seen = sum(counts.values()), [], 0
    for shape, count in sorted(counts.items(), key=_rank, reverse=True):
        if seen >= USUAL_SHARE * total:
            break
        chosen.append((shape, count))
        seen += count
    return tuple((shape, (count / total) / (seen / total)) for shape, count in chosen)


def _rank(counted: tuple[Typical, int]) -> tuple[object, ...]:
    """Popular first; equals in the order of the published code, which decides who is cut off."""
    (cpu, wants, use, avoid), count = counted
    cards = (wants.memory_mib, wants.percent, wants.cards, wants.cores) if wants else (0, 0, 0, 0)
    return count, cpu, *cards, use, avoid
