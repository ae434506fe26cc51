"""The terms of the score by which clusters that could take a workload are compared.

A term is a pure function of the workload, the cluster and what the offer would use there; its value
is zero or more, and lower is better. Values of one term are set against the largest among the
candidates, so that terms of any unit can be weighed against each other: the most expensive cluster
counts 1, one at half its price 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Quantity

if TYPE_CHECKING:  # it imports this
    from federation.core.dispatch import Choice, ClusterView
    from federation.core.types import Pending

_GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class ClusterTraits:
    """What operators say of a cluster: the labels of its MultiKueueCluster, prices of an hour (by
    `flavor`, or by `flavor/resource`), and names of the data sets that are there.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    data: frozenset[str] = frozenset()


NO_TRAITS = ClusterTraits()


Term = Callable[["Pending", "ClusterView", "Choice"], float]
"""One term of the score."""


class Weighted(NamedTuple):
    """A term with its name and what it weighs."""

    name: str
    weight: float
    term: Term


def cost(item: Pending, cluster: ClusterView, choice: Choice) -> float:
    """Price of an hour of what is used there. A price of `flavor/resource` is that of a core, a GiB
    or a piece of that resource; one of `flavor` alone is that of a card, and of a core where the
    workload takes no cards of the flavor. What has no price costs nothing.
    """
    prices = cluster.traits.prices
    if not prices:
        return 0.0
    cards = {key.flavor for key in choice.usage if _is_cards(key.resource)}
    total = 0.0
    for key, amount in choice.usage.items():
        price = prices.get(f"{key.flavor}/{key.resource}")
        counts = _is_cards(key.resource) or (key.resource == "cpu" and key.flavor not in cards)
        if price is None and counts:
            price = prices.get(key.flavor)
        total += (price or 0.0) * amount / _unit(key.resource)
    return total


def _is_cards(resource: str) -> bool:
    found = VENDORS.of_resource(resource)
    return found is not None and found[1] in (Quantity.CARDS, Quantity.INSTANCES)


def _unit(resource: str) -> float:
    if resource == "cpu":
        return 1000.0
    return _GIB if resource in ("memory", "ephemeral-storage") else 1.0


def data_to_move(item: Pending, cluster: ClusterView, choice: Choice) -> float:
    """The share of the job's data that is not there."""
    wanted = item.rules.data or ()
    total = sum(size for _, size in wanted)
    missing = sum(size for name, size in wanted if name not in cluster.traits.data)
    return missing / total if total else 0.0


BUILT_IN: Mapping[str, tuple[float, Term]] = {
    "cost": (1.0, cost),
    "dataLocality": (1.0, data_to_move),
}
"""Name to default weight and function. Both are 0 where nobody states prices or data."""


def weighted(weights: Mapping[str, float], more: Mapping[str, Term]) -> tuple[Weighted, ...]:
    """All terms that weigh something; `more` are those of others, of weight 1 unless it is set."""
    known = {**BUILT_IN, **{name: (1.0, term) for name, term in more.items()}}
    found = [
        Weighted(name, weights.get(name, default), term) for name, (default, term) in known.items()
    ]
    return tuple(entry for entry in found if entry.weight > 0)


DEFAULT_TERMS = weighted({}, {})


def scores(
    terms: Sequence[Weighted], item: Pending, candidates: Sequence[tuple[ClusterView, Choice]]
) -> list[float]:
    """The weighted sum for each candidate; lower is better."""
    totals = [0.0] * len(candidates)
    for _, weight, term in terms:
        values = [term(item, cluster, choice) for cluster, choice in candidates]
        most = max(values, default=0.0)
        if most > 0:
            totals = [t + weight * v / most for t, v in zip(totals, values, strict=True)]
    return [round(total, 9) for total in totals]
