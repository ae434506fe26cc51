"""What a topology request means in one topology: levels by number, pods in whole units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from federation.core.topology_tree import HOSTNAME
from federation.core.types import TopologyMode, TopologyRequest

Group = tuple[int, int]
"""Level number and how many pods stay together in one of its domains."""

_MOST_SLICE_LEVELS = 3
_IMPLIED = TopologyRequest(TopologyMode.UNCONSTRAINED)


@dataclass(frozen=True, slots=True)
class Shape:
    """A resolved request.

    The search begins at `level`. `sizes` says per level in what multiples pods are handed to its
    domains: down to `slice_level` the size of a slice, below it that of the slices inside, or 1.
    """

    mode: TopologyMode
    level: int
    groups: tuple[Group, ...]
    slice_level: int
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Pods in a slice; 1 without slices."""
        return self.sizes[self.slice_level]

    def inside(self, index: int) -> Shape:
        """How pods that complete a slice of `groups[index]` are placed: within that one domain."""
        level = self.groups[index][0]
        return shape(TopologyMode.REQUIRED, level, self.groups[index + 1 :], len(self.sizes))


def shape(mode: TopologyMode, level: int, groups: Sequence[Group], depth: int) -> Shape:
    """A shape in a topology of `depth` levels; `groups` outermost first."""
    slice_level, size = groups[0] if groups else (depth - 1, 1)
    sizes = [size] * (slice_level + 1)
    for inner_level, inner in groups[1:]:
        # The levels between two kinds of slices hand down the inner ones whole.
        sizes += [inner] * (inner_level + 1 - len(sizes))
    sizes += [1] * (depth - len(sizes))
    return Shape(mode, level, tuple(groups), slice_level, tuple(sizes))


def resolve(topology: str, levels: Sequence[str], request: TopologyRequest | None) -> Shape | str:
    """The shape of a request (None is an implied one), or what is wrong with it.

    Rules: spec of Kueue §5.1. Without a level, slices are spread from the highest level on, and
    single pods over the lowest.
    """
    request = request or _IMPLIED
    missing = [key for key in _named(request) if key not in levels]
    if missing or not levels:
        lack = f'topology "{topology}" has no level "{missing[0] if missing else HOSTNAME}"'
        return f"{lack}; its levels are: {', '.join(levels) or 'none'}"
    groups = [(levels.index(key), size) for key, size in request.slices]
    if request.mode is not TopologyMode.UNCONSTRAINED:
        level = levels.index(request.level)
    else:
        level = 0 if groups else len(levels) - 1
    if problem := _misnested(level, levels, groups):
        return problem
    return shape(request.mode, level, groups, len(levels))


def _named(request: TopologyRequest) -> Iterable[str]:
    if request.mode is not TopologyMode.UNCONSTRAINED:
        yield request.level
    for key, _ in request.slices:
        yield key


def _misnested(level: int, levels: Sequence[str], groups: Sequence[Group]) -> str:
    if len(groups) > _MOST_SLICE_LEVELS:
        return f"slices at {len(groups)} levels: at most {_MOST_SLICE_LEVELS} are possible"
    if small := [size for _, size in groups if size < 1]:
        return f"a slice of {small[0]} pods: the size must be at least 1"
    if groups and groups[0][0] < level:
        return (
            f"slices at level {levels[groups[0][0]]} cannot be kept within one domain of "
            f"{levels[level]}, which is a lower level: name a level at or below it"
        )
    for (outer, size), (inner, part) in pairwise(groups):
        if inner <= outer:
            return (
                f"slices at level {levels[inner]} cannot be inside those at {levels[outer]}: "
                "name the levels from the highest down"
            )
        if size % part:
            return f"slices of {size} pods are not made of whole slices of {part}"
    return ""
