"""Queue objects from the wire to the types of the core.

Both served versions and both spellings are read (`spelling.normalize`). Raises QuantityError or
pydantic's ValidationError, whose texts name the field, when an object cannot be read.
"""

from __future__ import annotations

from typing import Any

from federation.api import cluster_queue, cohort, local_queue, quota, resource_flavor, selector
from federation.api.disconnect import read_wishes
from federation.api.flavor_cards import flavor_cards
from federation.api.local_usage import read_usage
from federation.api.names import Label, Option
from federation.api.spelling import normalize
from federation.core.devices.quota.quota import standard
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.policies import (
    AdmissionCheck,
    FlavorFungibility,
    FlavorPreference,
    Fungibility,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from federation.core.quantity import exact_quantity, parse_quota
from federation.core.types import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LabelSelector,
    LocalQueue,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Taint,
    Toleration,
)

Json = dict[str, Any]

_CARDS = standard(VENDORS)


def to_cluster_queue(obj: Json) -> ClusterQueue:
    """A ClusterQueue as the core sees it."""
    wire = cluster_queue.ClusterQueue.from_wire(normalize(obj))
    spec = wire.spec
    return ClusterQueue(
        name=wire.metadata.name,
        groups=tuple(_group(group) for group in spec.resource_groups),
        cohort=spec.cohort_name or "",
        strategy=QueueingStrategy(spec.queueing_strategy),
        stop=spec.stop_policy,
        namespace_selector=_selector(spec.namespace_selector),
        checks=_checks(spec.admission_checks_strategy),
        preemption=_preemption(spec.preemption),
        fungibility=FlavorFungibility(
            Fungibility(spec.flavor_fungibility.when_can_borrow),
            Fungibility(spec.flavor_fungibility.when_can_preempt),
            FlavorPreference(
                spec.flavor_fungibility.preference or FlavorPreference.BORROWING_OVER_PREEMPTION
            ),
        ),
        fair_weight=_weight(spec.fair_sharing),
        usage_based=spec.admission_scope is not None
        and spec.admission_scope.admission_mode == "UsageBasedAdmissionFairSharing",
        preemptible=preemptible(obj),
        wishes=read_wishes(obj),
        terminating="deletionTimestamp" in obj["metadata"],
    )


def to_cohort(obj: Json) -> Cohort:
    """A Cohort as the core sees it."""
    wire = cohort.Cohort.from_wire(normalize(obj))
    groups = tuple(_group(group) for group in wire.spec.resource_groups)
    weight = _weight(wire.spec.fair_sharing)
    return Cohort(wire.metadata.name, wire.spec.parent_name or "", groups, weight)


def to_local_queue(obj: Json) -> LocalQueue:
    """A LocalQueue as the core sees it."""
    wire = local_queue.LocalQueue.from_wire(normalize(obj))
    return LocalQueue(
        namespace=wire.metadata.namespace or "",
        name=wire.metadata.name,
        cluster_queue=wire.spec.cluster_queue,
        stop=wire.spec.stop_policy,
        fair_weight=_weight(wire.spec.fair_sharing),
        preemptible=preemptible(obj),
        wishes=read_wishes(obj),
        local=(obj["metadata"].get("labels") or {}).get(Label.LOCAL.value) == "true",
        used=read_usage(wire.status),
    )


def preemptible(obj: Json) -> bool | None:
    """What the annotation `fedq.io/non-preemptible` of an object says; None if it says nothing."""
    said = (obj["metadata"].get("annotations") or {}).get(Option.NON_PREEMPTIBLE.value)
    return {"true": False, "false": True}.get(str(said))


def to_flavor(obj: Json) -> ResourceFlavor:
    """A ResourceFlavor as the core sees it. ValueError if what it says of cards is unreadable."""
    wire = resource_flavor.ResourceFlavor.from_wire(normalize(obj))
    return ResourceFlavor(
        name=wire.metadata.name,
        node_labels=tuple(sorted(wire.spec.node_labels.items())),
        taints=tuple(Taint(t.key, t.value, t.effect) for t in wire.spec.node_taints),
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "")
            for t in wire.spec.tolerations
        ),
        topology=wire.spec.topology_name or "",
        cards=flavor_cards(obj["metadata"].get("annotations") or {}, wire.spec.node_labels),
    )


def _checks(strategy: cluster_queue.AdmissionChecksStrategy | None) -> tuple[AdmissionCheck, ...]:
    rules = strategy.admission_checks if strategy else ()
    return tuple(AdmissionCheck(rule.name, frozenset(rule.on_flavors)) for rule in rules)


def _preemption(wire: cluster_queue.Preemption) -> Preemption:
    borrowing = wire.borrow_within_cohort
    return Preemption(
        PreemptionPolicy(wire.within_cluster_queue),
        PreemptionPolicy(wire.reclaim_within_cohort),
        borrowing is not None and borrowing.policy != "Never",
        borrowing.max_priority_threshold if borrowing else None,
    )


def _weight(wire: quota.FairSharing | None) -> float:
    """The weight of fair sharing, a quantity; 1 when none is given."""
    return float(exact_quantity(str(wire.weight))) if wire and wire.weight is not None else 1.0


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
        return None if value is None else _amount(resource.name, value)

    return Quota(
        nominal=_amount(resource.name, resource.nominal_quota),
        borrowing_limit=amount(resource.borrowing_limit),
        lending_limit=amount(resource.lending_limit),
    )


def _amount(resource: str, value: str | int) -> int:
    """A quota. Memory of cards is counted in MiB, and may be written in bytes."""
    mib = _CARDS.limit(resource, str(value))
    return parse_quota(resource, value) if mib is None else int(mib)


def _selector(wire: selector.LabelSelector | None) -> LabelSelector | None:
    if wire is None:
        return None
    return LabelSelector(
        tuple(sorted(wire.match_labels.items())),
        tuple((e.key, e.operator, tuple(e.values)) for e in wire.match_expressions),
    )
