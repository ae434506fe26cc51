"""What the pods of a template request and where they may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.core.quantity import Resources, add, largest, parse_resources
from federation.core.types import PodSet, Taint, Term, Toleration

Json = dict[str, Any]


def pod_set(name: str, count: int, template: Json) -> PodSet:
    """A pod set as the core sees it. Raises QuantityError when a request is not a quantity."""
    spec = template.get("spec") or {}
    return PodSet(
        name=name,
        count=count,
        requests=pod_requests(spec),
        node_selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        affinity=_required_terms(spec),
        tolerations=tolerations(spec.get("tolerations")),
    )


def pod_requests(spec: Json) -> Resources:
    """What the scheduler reserves for one pod.

    Kubernetes' rule: the larger of all containers together and of each init container beside the
    sidecars started before it (init containers that restart always), plus the pod's overhead.
    Pod-level resources take precedence. Limits stand in for requests that are not given.
    """
    running: Resources = {}
    peak: Resources = {}
    for container in spec.get("initContainers") or ():
        wants = _requests(container)
        if container.get("restartPolicy") == "Always":
            running = add(running, wants)
            peak = largest(peak, running)
        else:
            peak = largest(peak, add(running, wants))
    for container in spec.get("containers") or ():
        running = add(running, _requests(container))
    total = largest(peak, running)
    total.update(_requests(spec))
    return add(total, parse_resources(spec.get("overhead")))


def _requests(holder: Json) -> Resources:
    resources = holder.get("resources") or {}
    return parse_resources({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


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
