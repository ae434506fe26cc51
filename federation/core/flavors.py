"""Assign a flavor to every resource of every pod set, or say with numbers why none fits.

Rules: Kueue's flavor assigner without preemption: pod sets in order, flavors in the order of the
resource group, the first that fits all resources of the group is taken (whenCanBorrow
MayStopSearch, its default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    attempt = _Attempt(queue, flavors, tree)
    assignments = []
    for pods in pod_sets:
        result = attempt.pod_set(pods)
        if isinstance(result, Shortage):
            return Shortage(result.reason, f"pod set {pods.name}: {result.message}")
        assignments.append(result)
    return Admission(queue.name, tuple(assignments))


def totals(pods: PodSet, queue: ClusterQueue) -> Resources:
    """What a pod set asks for in all; a queue that covers `pods` counts them too."""
    requests = scale(pods.requests, pods.count)
    if any("pods" in group.covered for group in queue.groups):
        requests["pods"] = pods.count
    return requests


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One workload against the state; `assumed` is what its earlier pod sets take."""

    queue: ClusterQueue
    flavors: Mapping[str, ResourceFlavor]
    tree: QuotaTree
    assumed: Usage = field(default_factory=dict)

    def pod_set(self, pods: PodSet) -> PodSetAssignment | Shortage:
        """Choose flavors for one pod set, and assume them."""
        requests = totals(pods, self.queue)
        chosen: dict[str, str] = {}
        for resource in requests:
            if resource in chosen:
                continue
            group = next((g for g in self.queue.groups if resource in g.covered), None)
            if group is None:
                if requests[resource] == 0:
                    continue
                return Shortage(
                    Reason.NO_MATCHING_FLAVOR,
                    f"ClusterQueue {self.queue.name} has no quota for resource {resource}: add it"
                    " to spec.resourceGroups, or drop the request",
                )
            wanted = {name: amount for name, amount in requests.items() if name in group.covered}
            flavor = self._choose(pods, wanted, group)
            if isinstance(flavor, Shortage):
                return flavor
            chosen.update(dict.fromkeys(wanted, flavor))
        usage = {name: requests[name] for name in chosen}
        for resource, flavor in chosen.items():
            key = FlavorResource(flavor, resource)
            self.assumed[key] = self.assumed.get(key, 0) + usage[resource]
        return PodSetAssignment(pods.name, pods.count, chosen, usage)

    def _choose(self, pods: PodSet, wanted: Resources, group: ResourceGroup) -> str | Shortage:
        """The first flavor of the group that fits, or the mildest reason among the others."""
        failures: list[Shortage] = []
        for quotas in group.flavors:
            name = quotas.flavor
            shortage = _unsuitable(pods, name, self.flavors) or self._short_of(wanted, name)
            if shortage is None:
                return name
            failures.append(shortage)
        if not failures:
            text = f"ClusterQueue {self.queue.name} lists no flavor"
            return Shortage(Reason.NO_MATCHING_FLAVOR, text)
        mildest = min(failures, key=lambda failure: _SEVERITY.index(failure.reason))
        return Shortage(mildest.reason, "; ".join(failure.message for failure in failures))

    def _short_of(self, wanted: Resources, flavor: str) -> Shortage | None:
        """The most severe lack of quota over the resources, or None when all fit."""
        worst: Shortage | None = None
        for resource, amount in wanted.items():
            key = FlavorResource(flavor, resource)
            shortage = self._lack(key, amount + self.assumed.get(key, 0))
            if shortage is None:
                continue
            if worst is None or _SEVERITY.index(shortage.reason) > _SEVERITY.index(worst.reason):
                worst = shortage
        return worst

    def _lack(self, key: FlavorResource, need: int) -> Shortage | None:
        name, resource = self.queue.name, key.resource
        free = self.tree.available(name, key)
        if need <= free:
            return None
        potential = self.tree.potential(name, key)
        most = format_quantity(resource, potential)
        text = f"flavor {key.flavor}: {resource} needs {format_quantity(resource, need)}, "
        if need > potential:
            return Shortage(
                Reason.EXCEEDS_MAX_QUOTA,
                f"{text}more than ClusterQueue {name} can ever get ({most})",
            )
        return Shortage(
            Reason.WAITING_FOR_QUOTA,
            f"{text}{format_quantity(resource, free)} of {most} free now",
        )


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
