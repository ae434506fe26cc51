"""Assign a flavor to every resource of every pod set, or say with numbers why none fits.

Rules: Kueue's flavor assigner without preemption: pod sets in order, flavors in the order of the
resource group, the first that fits all resources of the group is taken (whenCanBorrow
MayStopSearch, its default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from federation.core.matching import affinity_matches, untolerated
from federation.core.quantity import Resources, format_quantity, scale
from federation.core.quota import QuotaTree
from federation.core.types import (
    Admission,
    ClusterQueue,
    FlavorResource,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    ResourceGroup,
    Usage,
)


class Reason(StrEnum):
    """Why a workload has no quota; the reasons of condition QuotaReserved=False."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"


_SEVERITY = (Reason.WAITING_FOR_QUOTA, Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why an assignment failed: a reason for machines, a sentence with numbers for people."""

    reason: Reason
    message: str


def assign(
    pod_sets: tuple[PodSet, ...],
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    tree: QuotaTree,
) -> Admission | Shortage:
    """Choose flavors for the whole workload, all or nothing."""
    assumed: Usage = {}
    assignments = []
    for pods in pod_sets:
        result = _assign_pod_set(pods, queue, flavors, tree, assumed)
        if isinstance(result, Shortage):
            return Shortage(result.reason, f"pod set {pods.name}: {result.message}")
        for resource, flavor in result.flavors.items():
            key = FlavorResource(flavor, resource)
            assumed[key] = assumed.get(key, 0) + result.usage[resource]
        assignments.append(result)
    return Admission(queue.name, tuple(assignments))


def totals(pods: PodSet, queue: ClusterQueue) -> Resources:
    """What a pod set asks for in all; a queue that covers `pods` counts them too."""
    requests = scale(pods.requests, pods.count)
    if any("pods" in group.covered for group in queue.groups):
        requests["pods"] = pods.count
    return requests


def _assign_pod_set(
    pods: PodSet,
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    tree: QuotaTree,
    assumed: Usage,
) -> PodSetAssignment | Shortage:
    requests = totals(pods, queue)
    chosen: dict[str, str] = {}
    for resource in requests:
        if resource in chosen:
            continue
        group = next((g for g in queue.groups if resource in g.covered), None)
        if group is None:
            if requests[resource] == 0:
                continue
            return Shortage(
                Reason.NO_MATCHING_FLAVOR,
                f"ClusterQueue {queue.name} has no quota for resource {resource}: add it to"
                " spec.resourceGroups, or drop the request",
            )
        wanted = {name: amount for name, amount in requests.items() if name in group.covered}
        flavor = _choose(pods, wanted, group, queue.name, flavors, tree, assumed)
        if isinstance(flavor, Shortage):
            return flavor
        chosen.update(dict.fromkeys(wanted, flavor))
    usage = {name: requests[name] for name in chosen}
    return PodSetAssignment(pods.name, pods.count, chosen, usage)


def _choose(
    pods: PodSet,
    wanted: Resources,
    group: ResourceGroup,
    queue: str,
    flavors: Mapping[str, ResourceFlavor],
    tree: QuotaTree,
    assumed: Usage,
) -> str | Shortage:
    """The first flavor of the group that fits, or the mildest reason among those that do not."""
    failures: list[Shortage] = []
    for quotas in group.flavors:
        shortage = _unsuitable(pods, quotas.flavor, flavors) or _short_of(
            wanted, quotas.flavor, queue, tree, assumed
        )
        if shortage is None:
            return quotas.flavor
        failures.append(shortage)
    if not failures:
        return Shortage(Reason.NO_MATCHING_FLAVOR, f"ClusterQueue {queue} lists no flavor")
    mildest = min(failures, key=lambda failure: _SEVERITY.index(failure.reason))
    return Shortage(mildest.reason, "; ".join(failure.message for failure in failures))


def _unsuitable(pods: PodSet, name: str, flavors: Mapping[str, ResourceFlavor]) -> Shortage | None:
    flavor = flavors.get(name)
    if flavor is None:
        problem = f"flavor {name} does not exist: create the ResourceFlavor"
    elif taint := untolerated(pods, flavor):
        problem = f"flavor {name} has the taint {taint}, which the pods do not tolerate"
    elif not affinity_matches(pods, flavor):
        problem = f"flavor {name} does not match the pods' node selector or affinity"
    else:
        return None
    return Shortage(Reason.NO_MATCHING_FLAVOR, problem)


def _short_of(
    wanted: Resources, flavor: str, queue: str, tree: QuotaTree, assumed: Usage
) -> Shortage | None:
    """The most severe lack of quota over the resources, or None when all fit."""
    worst: Shortage | None = None
    for resource, amount in wanted.items():
        key = FlavorResource(flavor, resource)
        need = amount + assumed.get(key, 0)
        free = tree.available(queue, key)
        if need <= free:
            continue
        most = tree.potential(queue, key)
        text = f"flavor {flavor}: {resource} needs {format_quantity(resource, need)}, "
        if need > most:
            shortage = Shortage(
                Reason.EXCEEDS_MAX_QUOTA,
                text + f"more than ClusterQueue {queue} can ever get"
                f" ({format_quantity(resource, most)})",
            )
        else:
            shortage = Shortage(
                Reason.WAITING_FOR_QUOTA,
                text + f"{format_quantity(resource, free)} of {format_quantity(resource, most)}"
                " free now",
            )
        if worst is None or _SEVERITY.index(shortage.reason) > _SEVERITY.index(worst.reason):
            worst = shortage
    return worst
