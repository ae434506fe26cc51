"""Nominal quota of a queue as the sum of what its worker clusters have (`Automated`).

Source: multikueue.md section 1.1 and fault C14. A cluster counts with the nominal quota of those
queues that jobs of this one are sent to. One that cannot be reached counts with what is bound
there: that is in use, and nothing else may be promised. Flavors count by name; where a resource has
one flavor here, all of a worker's count for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from federation.core.quantity import format_quantity
from federation.core.types import ClusterQueue, FlavorResource, Quota, ResourceGroup, Usage


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a cluster adds: the quota of its own queues if it is `reachable`, else what is bound."""

    cluster: str
    amounts: Mapping[FlavorResource, int]
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class Automated:
    """A queue with its sums. `text` tells people what they are made of."""

    queue: ClusterQueue
    text: str


def automated(queue: ClusterQueue, contributions: Iterable[Contribution]) -> Automated:
    """The queue with the sums as nominal quota; limits for borrowing and lending stay.

    What a worker has in a flavor that has no place here is left out, and told.
    """
    sums: dict[FlavorResource, dict[str, int]] = {}
    left_out: list[str] = []
    away: list[str] = []
    for found in contributions:
        if not found.reachable:
            away.append(found.cluster)
        for key, amount in found.amounts.items():
            if (place := _place(queue, key)) is not None:
                parts = sums.setdefault(place, {})
                parts[found.cluster] = parts.get(found.cluster, 0) + amount
            elif any(key.resource in group.covered for group in queue.groups):
                left_out.append(f"{key.resource} in flavor {key.flavor} of {found.cluster}")
    totals = {key: sum(parts.values()) for key, parts in sums.items()}
    groups = tuple(_summed(group, totals) for group in queue.groups)
    return Automated(replace(queue, groups=groups), _text(sums, away, left_out))


def _place(queue: ClusterQueue, key: FlavorResource) -> FlavorResource | None:
    """Where an amount of a worker counts."""
    for group in queue.groups:
        if key.resource not in group.covered:
            continue
        names = [flavor.flavor for flavor in group.flavors]
        if key.flavor in names:
            return key
        return FlavorResource(names[0], key.resource) if len(names) == 1 else None
    return None


def _summed(group: ResourceGroup, totals: Usage) -> ResourceGroup:
    flavors = tuple(
        replace(
            flavor,
            resources={
                name: _with_nominal(quota, totals.get(FlavorResource(flavor.flavor, name), 0))
                for name, quota in flavor.resources.items()
            },
        )
        for flavor in group.flavors
    )
    return replace(group, flavors=flavors)


def _with_nominal(quota: Quota, nominal: int) -> Quota:
    return replace(quota, nominal=nominal)


def _text(
    sums: Mapping[FlavorResource, Mapping[str, int]], away: list[str], left_out: list[str]
) -> str:
    rows = []
    for (flavor, resource), parts in sums.items():
        total = format_quantity(resource, sum(parts.values()))
        shares = ", ".join(f"{c} {format_quantity(resource, n)}" for c, n in parts.items())
        rows.append(f"{resource} in {flavor}: {total} ({shares})")
    text = "; ".join(rows) or "no cluster has quota for it"
    if away:
        text += f". Of {', '.join(away)} only what is bound counts: it cannot be reached"
    if left_out:
        text += f". Not counted, as no flavor here has that name: {', '.join(left_out)}"
    return text
