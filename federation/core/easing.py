"""A cluster as it would be if some of its copies had left: what preemption counts on.

A copy gives back what it uses of its ClusterQueue there, and lends to others of its cohort what it
does not need; which cards its pods hold is not told, so that for cards quota alone counts then.
What is counted on may turn out to be less (`tries`): rather that than a lender that gets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from federation.core.devices.quota.quota import standard
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.dispatch import ClusterView
from federation.core.types import FlavorResource, Holder, Usage

_QUOTAS = standard(VENDORS)

Freed = tuple[str, Usage]
"""A ClusterQueue of the cluster, and what a copy gives back to it."""


def expected(holder: Holder, queue: str, view: ClusterView) -> Usage:
    """What a copy presumably uses there, of which only the quota here is known: in flavors of the
    same names, or the only one that there is.
    """
    used: Usage = {}
    for key, amount in holder.usage.items():
        flavors = view.queues[queue].flavors(key.resource) if queue in view.queues else []
        if key.flavor in flavors or len(flavors) == 1:
            name = key.flavor if key.flavor in flavors else flavors[0]
            there = FlavorResource(name, key.resource)
            used[there] = used.get(there, 0) + amount
    return used


def eased(view: ClusterView, queue: str, freed: Iterable[Freed]) -> ClusterView:
    """The cluster for a workload of `queue` there, if the copies had left."""
    pending, cards = dict(view.pending.get(queue, {})), view.cards
    for other, usage in freed:
        if not _gives(view, other, queue):
            continue
        for key, amount in usage.items():
            pending[key] = pending.get(key, 0) - amount
            if amount and _QUOTAS.counts(key.resource):
                cards = None
    return replace(view, pending={**view.pending, queue: pending}, cards=cards)


def reserved(view: ClusterView, queue: str, usage: Usage, freed: Iterable[Freed]) -> ClusterView:
    """The cluster with `usage` of `queue` kept for one to whom the copies leave what they free.
    What it needs less than that is not free before they are gone.
    """
    left: Usage = {}
    for other, given in freed:
        if _gives(view, other, queue):
            for key, amount in given.items():
                left[key] = left.get(key, 0) + amount
    pending = dict(view.pending.get(queue, {}))
    for key, amount in usage.items():
        pending[key] = pending.get(key, 0) + max(0, amount - left.get(key, 0))
    return replace(view, pending={**view.pending, queue: pending})


def _gives(view: ClusterView, other: str, queue: str) -> bool:
    """Whether what is free in one ClusterQueue there is of use to another: in a cohort it is lent.
    Cohorts in one tree have several names, and the report names only the lowest.
    """
    if other == queue:
        return True
    found = view.queues.get(other), view.queues.get(queue)
    return all(one is not None and one.cohort for one in found)
