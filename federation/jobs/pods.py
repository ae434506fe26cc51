"""What the pods of a template request and where they may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.core.quantity import Resources
from federation.core.requests import chargeable
from federation.core.types import PodSet, Taint, Term, Toleration, TopologyRequest
from federation.jobs.claims import with_claims
from federation.jobs.containers import NO_DEFAULTS, PodDefaults, read_pod
from federation.jobs.topology import topology_request

__all__ = ["PodDefaults", "pod_requests", "pod_set", "taints", "tolerations"]

Json = dict[str, Any]


def pod_set(
    name: str,
    count: int,
    template: Json,
    *,
    defaults: PodDefaults | None = None,
    min_count: int | None = None,
) -> PodSet:
    """A pod set as the core sees it. Raises QuantityError when a request is not a quantity.

    Requests are those of one pod after all defaults and transformations, never negative. A
    topology request that cannot be read is left out here and told by `admissibility.problem`.
    """
    spec = template.get("spec") or {}
    return PodSet(
        name=name,
        count=count,
        requests=pod_requests(spec, defaults),
        node_selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        affinity=_required_terms(spec),
        tolerations=tolerations(spec.get("tolerations")),
        min_count=min_count,
        topology=_topology(template, count),
    )


def _topology(template: Json, count: int) -> TopologyRequest | None:
    annotations = (template.get("metadata") or {}).get("annotations")
    try:
        return topology_request(annotations, count) if annotations else None
    except ValueError:
        return None


def pod_requests(spec: Json, defaults: PodDefaults | None = None) -> Resources:
    """What quota has to be found for one pod.

    What the scheduler reserves (containers, init containers, sidecars, overhead and pod-level
    resources, see `containers`), then excluded prefixes and transformations, and beside that its
    claims (`claims`). Raises QuantityError.
    """
    given = defaults or NO_DEFAULTS
    requests = read_pod(spec, given).requests()
    return with_claims(chargeable(requests, given.rules), spec, requests, given.claims)


def _required_terms(spec: Json) -> tuple[Term, ...]:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return tuple(
        tuple(
            (match["key"], match.get("operator", "In"), tuple(match.get("values") or ()))
            for match in term.get("matchExpressions") or ()
        )
        for term in required.get("nodeSelectorTerms") or ()
    )


def tolerations(items: Iterable[Mapping[str, Any]] | None) -> tuple[Toleration, ...]:
    """Tolerations from the wire."""
    return tuple(
        Toleration(
            key=item.get("key", ""),
            operator=item.get("operator") or "Equal",
            value=item.get("value", ""),
            effect=item.get("effect", ""),
        )
        for item in items or ()
    )


def taints(items: Iterable[Mapping[str, Any]] | None) -> tuple[Taint, ...]:
    """Taints from the wire."""
    return tuple(
        Taint(item["key"], item.get("value", ""), item.get("effect", "NoSchedule"))
        for item in items or ()
    )
