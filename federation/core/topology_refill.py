"""New places for pods that lost theirs, around those that stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from federation.core.topology_search import Found, TopologyFailure
from federation.core.topology_shape import Shape
from federation.core.topology_tree import Tree
from federation.core.types import TopologyMode

Find = Callable[[Shape, int, range | None, Mapping[int, int]], Found | TopologyFailure]
"""Places for a count of pods, within some leaves only, beside pods just placed per leaf."""


@dataclass(slots=True)
class Refill:
    """Pods per leaf, to which `left` ones that lost their place are added step by step.

    Slices that lost pods are completed in their own domain; whole slices, and pods without
    slices, keep to the required domain, and to the preferred one if it has room: that of the
    pods kept and of the `company`, the leaves of the rest of the group.
    """

    tree: Tree
    shape: Shape
    kept: Mapping[int, int]
    company: Mapping[int, int]
    left: int
    find: Find
    placed: dict[int, int] = field(default_factory=dict)

    def run(self) -> TopologyFailure | None:
        """Place all, after which `placed` has the answer; None if that succeeded."""
        self.placed = dict(self.kept)
        return self._complete_slices() or self._place_rest()

    def _complete_slices(self) -> TopologyFailure | None:
        # Innermost first: completing them leaves whole ones for the slices around them.
        for index in reversed(range(len(self.shape.groups))):
            level, size = self.shape.groups[index]
            for domain, held in sorted(self._held(level, self.placed).items()):
                missing = min(-held % size, self.left)
                within = self.tree.leaves(level, domain)
                if failure := self._put(self.shape.inside(index), missing, within):
                    return failure
        return None

    def _place_rest(self) -> TopologyFailure | None:
        level, mode = self.shape.level, self.shape.mode
        homes = list(self._held(level, {**self.company, **self.kept}))
        if len(homes) == 1 and mode is not TopologyMode.UNCONSTRAINED:
            home = self.tree.leaves(level, homes[0])
            failure = self._put(self.shape, self.left, home)
            if failure is None or mode is TopologyMode.REQUIRED:
                return failure
        return self._put(self.shape, self.left, None)

    def _put(self, shape: Shape, count: int, within: range | None) -> TopologyFailure | None:
        if not count:
            return None
        new = {leaf: held - self.kept.get(leaf, 0) for leaf, held in self.placed.items()}
        found = self.find(shape, count, within, new)
        if isinstance(found, TopologyFailure):
            return found
        for leaf, more in found.pods.items():
            self.placed[leaf] = self.placed.get(leaf, 0) + more
        self.left -= count
        return None

    def _held(self, level: int, placed: Mapping[int, int]) -> Counter[int]:
        """Pods per domain of a level."""
        held = Counter[int]()
        for leaf, count in placed.items():
            held[self.tree.above(leaf, level)] += count
        return held
