"""Dominant resource share: how much of what a cohort lends a child of it has borrowed.

Rule: Kueue's fair sharing. For each resource, what the node uses above its own quota in per mille
of all that its parent could lend; the largest counts, divided by the node's weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import total_ordering

from federation.core.quota import QuotaNode


@total_ordering
@dataclass(frozen=True, slots=True)
class Share:
    """A share to compare. Without weight any use is infinite, and such compare by use."""

    ratio: float = 0.0
    weight: float = 1.0
    borrowing: bool = False
    """Whether anything is used above the own quota, even if nobody lends it."""

    @property
    def value(self) -> float:
        """Per mille over the weight."""
        if self.ratio == 0:
            return 0.0
        return self.ratio / self.weight if self.weight > 0 else math.inf

    @property
    def unbounded(self) -> bool:
        """Whether it uses anything although it has no weight."""
        return self.weight <= 0 and self.ratio > 0

    def _key(self) -> tuple[bool, float]:
        return (self.unbounded, self.ratio if self.unbounded else self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and self._key() == other._key()

    def __lt__(self, other: Share) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def shown(self) -> int:
        """As statuses show it: rounded up, the largest int64 when infinite."""
        return 2**63 - 1 if self.unbounded else math.ceil(self.value)


def share_of(node: QuotaNode, lendable: dict[tuple[str, str], int] | None = None) -> Share:
    """The share of a node among the children of its parent.

    `lendable` remembers what cohorts could lend (it depends on quotas only), by cohort and
    resource.
    """
    parent = node.parent
    if parent is None:
        return Share(weight=node.weight)
    borrowed: dict[str, int] = {}
    for fr, usage in node.usage.items():
        over = usage - node.subtree.get(fr, 0)
        if over > 0:
            borrowed[fr.resource] = borrowed.get(fr.resource, 0) + over
    if not borrowed:
        return Share(weight=node.weight)
    memory = lendable if lendable is not None else {}
    ratio = 0.0
    for resource, amount in borrowed.items():
        key = (parent.name, resource)
        if key not in memory:
            memory[key] = _lendable(parent, resource)
        if memory[key] > 0:
            ratio = max(ratio, amount * 1000 / memory[key])
    return Share(ratio, node.weight, borrowing=True)


def _lendable(parent: QuotaNode, resource: str) -> int:
    return sum(parent.potential(fr) for fr in parent.root.subtree if fr.resource == resource)
