"""Queue objects from the wire to the types of the core.

Both served versions and both spellings are read (`spelling.normalize`). Raises QuantityError or
pydantic's ValidationError, whose texts name the field, when an object cannot be read.
"""

from __future__ import annotations

from typing import Any

from federation.api import cluster_queue, cohort, local_queue, quota, resource_flavor, selector
from federation.api.spelling import normalize
from federation.core.quantity import parse_quantity
from federation.core.types import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LabelSelector,
    LocalQueue,
    QueueingStrategy,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Taint,
    Toleration,
)

Json = dict[str, Any]


def to_cluster_queue(obj: Json) -> ClusterQueue:
    """A ClusterQueue as the core sees it."""
    wire = cluster_queue.ClusterQueue.from_wire(normalize(obj))
    spec = wire.spec
    strategy = spec.admission_checks_strategy
    return ClusterQueue(
        name=wire.metadata.name,
        groups=tuple(_group(group) for group in spec.resource_groups),
        cohort=spec.cohort_name or "",
        strategy=QueueingStrategy(spec.queueing_strategy),
        stop=spec.stop_policy,
        namespace_selector=_selector(spec.namespace_selector),
        checks=tuple(check.name for check in strategy.admission_checks) if strategy else (),
    )


def to_cohort(obj: Json) -> Cohort:
    """A Cohort as the core sees it."""
    wire = cohort.Cohort.from_wire(normalize(obj))
    groups = tuple(_group(group) for group in wire.spec.resource_groups)
    return Cohort(wire.metadata.name, wire.spec.parent_name or "", groups)


def to_local_queue(obj: Json) -> LocalQueue:
    """A LocalQueue as the core sees it."""
    wire = local_queue.LocalQueue.from_wire(normalize(obj))
    return LocalQueue(
        namespace=wire.metadata.namespace or "",
        name=wire.metadata.name,
        cluster_queue=wire.spec.cluster_queue,
        stop=wire.spec.stop_policy,
    )


def to_flavor(obj: Json) -> ResourceFlavor:
    """A ResourceFlavor as the core sees it."""
    wire = resource_flavor.ResourceFlavor.from_wire(normalize(obj))
    return ResourceFlavor(
        name=wire.metadata.name,
        node_labels=tuple(sorted(wire.spec.node_labels.items())),
        taints=tuple(Taint(t.key, t.value, t.effect) for t in wire.spec.node_taints),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "")
            for t in wire.spec.tolerations
        ),
    )


def _group(group: quota.ResourceGroup) -> ResourceGroup:
    return ResourceGroup(
        covered=tuple(group.covered_resources),
        flavors=tuple(
            FlavorQuotas(
                flavor.name, {resource.name: _quota(resource) for resource in flavor.resources}
            )
            for flavor in group.flavors
        ),
    )


def _quota(resource: quota.ResourceQuota) -> Quota:
    def amount(value: str | int | None) -> int | None:
        return None if value is None else parse_quantity(resource.name, value)

    return Quota(
        nominal=parse_quantity(resource.name, resource.nominal_quota),
        borrowing_limit=amount(resource.borrowing_limit),
        lending_limit=amount(resource.lending_limit),
    )


def _selector(wire: selector.LabelSelector | None) -> LabelSelector | None:
    if wire is None:
        return None
    return LabelSelector(
        tuple(sorted(wire.match_labels.items())),
        tuple((e.key, e.operator, tuple(e.values)) for e in wire.match_expressions),
    )
