"""What the pods of a template request and where they may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.core.devices.asking.asking import WantsError
from federation.core.devices.wants import PodWants
from federation.core.quantity import Resources
from federation.core.requests import chargeable
from federation.core.types import PodSet, Taint, Term, Toleration, TopologyRequest
from federation.jobs.claims import with_claims
from federation.jobs.containers import NO_DEFAULTS, PodDefaults, read_pod
from federation.jobs.devices import card_wants, counted
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

    Requests are those of one pod after all defaults and transformations, never negative. What it
    asks of cards, or of topology, and cannot be read is left out here and told by
    `admissibility.problem`.
    """
    spec = template.get("spec") or {}
    cards = _cards(template, defaults or NO_DEFAULTS)
    return PodSet(
        name=name,
        count=count,
        requests=_requests(spec, defaults or NO_DEFAULTS, cards),
        node_selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        affinity=_required_terms(spec),
        tolerations=tolerations(spec.get("tolerations")),
        min_count=min_count,
        topology=_topology(template, count),
        cards=cards or None,
    )


def _cards(template: Json, defaults: PodDefaults) -> PodWants | None:
    """What its pods ask of cards; None if that cannot be read."""
    try:
        return card_wants(template, defaults)
    except WantsError:
        return None


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
    claims (`claims`). Of cards it has the number; what it asks of each is charged by flavor.
    Raises QuantityError.
    """
    given = defaults or NO_DEFAULTS
    return _requests(spec, given, _cards({"spec": spec}, given))


def _requests(spec: Json, defaults: PodDefaults, cards: PodWants | None) -> Resources:
    requests, rules = read_pod(spec, defaults).requests(), defaults.rules
    if cards is not None:
        requests = counted(requests, cards, rules.vendors)
    return with_claims(chargeable(requests, rules), spec, requests, defaults.claims)


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
