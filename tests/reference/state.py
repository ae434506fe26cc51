"""What a scheduling cycle decides on: an unchanging picture of the world."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from federation.core.policies import Rules
from federation.core.types import ClusterQueue, Holder, ResourceFlavor
from tests.reference.quota import Amounts, Books, Charge, Node, Tree


@dataclass(frozen=True)
class State:
    """`holders` hold quota, by UID. `extra` is what this cycle has added so far (§7.5).

    `active` are the ClusterQueues that take part; the quota of others still counts in the tree.
    """

    queues: Mapping[str, ClusterQueue]
    quotas: Tree
    flavors: Mapping[str, ResourceFlavor]
    namespaces: Mapping[str, Mapping[str, str]]
    rules: Rules
    holders: Mapping[str, Holder]
    active: Collection[str]
    now: float
    extra: tuple[Charge, ...] = field(default=())

    @cached_property
    def tree(self) -> Books:
        """The quota tree under everything that is held or added."""
        held = [
            Charge(holder.cluster_queue, fr, amount)
            for holder in self.holders.values()
            for fr, amount in holder.usage.items()
        ]
        return Books(self.quotas, [*held, *self.extra])

    def without(self, uids: Collection[str]) -> State:
        """As if these workloads had left."""
        left = {uid: holder for uid, holder in self.holders.items() if uid not in uids}
        return replace(self, holders=left)

    def adding(self, queue: str, amounts: Amounts) -> State:
        """As if these amounts were used too."""
        node = Node("queue", queue)
        charges = []
        for fr, amount in amounts.items():
            kept = 0
            if amount < 0:
                local, used = self.tree.local(node, fr), self.tree.usage(node, fr)
                kept = max(0, used - local) - max(0, used + amount - local)
            charges.append(Charge(queue, fr, amount, kept))
        return replace(self, extra=(*self.extra, *charges))
