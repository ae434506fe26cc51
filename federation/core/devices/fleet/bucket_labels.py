"""Which labels of nodes are told: as many keys as leave few sorts of nodes, most general first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from federation.core.topology import HOSTNAME

BUDGET: Final = 32_768
"""Characters that the labels of all sorts of nodes may take."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Labels:
    """Counts the label sets of all nodes, and keeps what was chosen of them."""

    chosen: frozenset[str] = frozenset()
    _sets: Counter[Pairs] = field(default_factory=Counter)
    _needed: frozenset[str] = frozenset()
    _stale: bool = False

    def change(self, gone: Pairs, come: Pairs) -> None:
        """A node has other labels, came or went (then one of the two is empty)."""
        if gone == come:
            return
        if gone:
            self._sets[gone] -= 1
            if not self._sets[gone]:
                del self._sets[gone]
                self._stale = True
        if come:
            self._stale |= come not in self._sets
            self._sets[come] += 1

    def told(self, labels: Pairs) -> Pairs:
        """Those of a node that are told."""
        return tuple(pair for pair in labels if pair[0] in self.chosen)

    @property
    def omitted(self) -> tuple[str, ...]:
        """Keys that nodes have and that are not told."""
        return tuple(sorted({key for labels in self._sets for key, _ in labels} - self.chosen))

    def choose(self, needed: Collection[str]) -> bool:
        """Choose anew if anything changed; whether others are chosen now. `needed` go first."""
        if not self._stale and self._needed == frozenset(needed):
            return False
        self._stale, self._needed = False, frozenset(needed)
        before, self.chosen = self.chosen, frozenset(self._chosen())
        return self.chosen != before

    def _chosen(self) -> Iterable[str]:
        sets = [dict(labels) for labels in self._sets]
        keys = {key for labels in sets for key in labels} - {HOSTNAME}
        values = {key: len({labels.get(key) for labels in sets}) for key in keys}
        group, cost = [0] * len(sets), {0: 0}
        for key in sorted(values, key=lambda k: (k not in self._needed, values[k], k)):
            finer, costs = _refined(key, sets, group, cost)
            if sum(costs.values()) <= BUDGET:
                group, cost = finer, costs
                yield key


def _refined(
    key: str, sets: list[dict[str, str]], group: list[int], cost: Mapping[int, int]
) -> tuple[list[int], dict[int, int]]:
    """The sorts of nodes if this key is told as well, and the length of the labels of each."""
    numbers: dict[tuple[int, str | None], int] = {}
    costs: dict[int, int] = {}
    finer = []
    for labels, number in zip(sets, group, strict=True):
        value = labels.get(key)
        new = numbers.setdefault((number, value), len(numbers))
        costs[new] = cost[number] + (0 if value is None else len(key) + len(value) + 6)
        finer.append(new)
    return finer, costs
