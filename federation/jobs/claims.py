"""What pods ask quota for with resource claims, and with extended resources that devices serve.

A claim is made once for each pod, whichever of its containers use it. Only templates are counted:
a claim by name may be shared with pods that nobody queued. Source of the rules: Kueue's
`deviceClassMappings`, see `federation.core.devices.claims.charge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from federation.core.devices.claims.charge import Amounts, charge
from federation.core.devices.claims.claims import (
    IMPLICIT_RESOURCE,
    ClaimError,
    ClaimPolicy,
    ClaimSpec,
    DeviceRequest,
    DeviceRules,
)
from federation.core.devices.claims.inventory import Inventory
from federation.core.quantity import Resources, add
from federation.core.requests import Exact, to_amount

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claims:
    """What is known of one namespace: its ResourceClaimTemplates by name (a text says why one
    cannot be read), the devices and classes of the cluster, and the rules of the configuration.

    `absent` says why there is none of all that ('' if there is).
    """

    rules: DeviceRules = field(default_factory=DeviceRules)
    templates: Mapping[str, ClaimSpec | str] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    absent: str = ""


def concerns(spec: Json, *known: Claims) -> bool:
    """Whether a pod may ask for something else when `known` changes."""
    if spec.get("resourceClaims"):
        return True
    served = {name for claims in known for name in claims.inventory.extended()}
    return any(
        name in served or name.startswith(IMPLICIT_RESOURCE)
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        for name in ((container.get("resources") or {}).get("requests") or {})
    )


def with_claims(asked: Resources, spec: Json, requests: Exact, claims: Claims | None) -> Resources:
    """`asked`, what a pod is charged for its `requests`, with its claims; not rounded before.

    What cannot be counted is left out here and told by `claim_problems`, which keeps such pods
    from being admitted.
    """
    if claims is None or claims.rules.policy is not ClaimPolicy.COUNT:
        return asked
    total: Amounts = {}
    for _, spec_or_problem in _claims(spec, claims):
        if isinstance(spec_or_problem, ClaimSpec):
            _count(total, spec_or_problem, claims)
    replaced = dict(_extended(requests, claims))
    for claim in replaced.values():
        _count(total, claim, claims)
    kept = {name: amount for name, amount in asked.items() if name not in replaced}
    return add(kept, {name: to_amount(name, amount) for name, amount in total.items()})


def _count(total: Amounts, claim: ClaimSpec, claims: Claims) -> None:
    try:
        found = charge(claim, claims.inventory, claims.rules)
    except ClaimError:
        return
    for name, amount in found.items():
        total[name] = total.get(name, Fraction(0)) + amount


def claim_problems(spec: Json, requests: Exact, claims: Claims | None) -> Iterator[str]:
    """Why the claims of a pod cannot be counted, now or ever; nothing if they can."""
    if claims is None or claims.rules.policy is ClaimPolicy.IGNORE:
        return
    if claims.rules.policy is ClaimPolicy.REFUSE:
        if spec.get("resourceClaims"):
            yield (
                "Workload uses DRA resources but the KueueDRAIntegration feature gate is not"
                " enabled"
            )
        return
    for where, found in _claims(spec, claims):
        text = found if isinstance(found, str) else _problem(found, claims)
        if text:
            yield f"{where}: {text}"
    for name, claim in _extended(requests, claims):
        if text := _problem(claim, claims):
            yield f"extended resource {name}: {text}"


def _problem(claim: ClaimSpec, claims: Claims) -> str:
    try:
        charge(claim, claims.inventory, claims.rules)
    except ClaimError as error:
        return str(error)
    return ""


def _claims(spec: Json, claims: Claims) -> Iterator[tuple[str, ClaimSpec | str]]:
    """Each claim of a pod: its place and name, and what it asks for or why that is not known."""
    entries = spec.get("resourceClaims") or []
    if not isinstance(entries, list):
        yield "resourceClaims", "it is no list"
        return
    for index, entry in enumerate(entries):
        where = f"resourceClaims[{index}]"
        if not isinstance(entry, dict):
            yield where, "it is no object"
            continue
        template = entry.get("resourceClaimTemplateName")
        if template:
            yield f"{where}: ResourceClaimTemplate {template}", _template(str(template), claims)
        elif entry.get("resourceClaimName"):
            yield (
                where,
                "KueueDRAIntegration feature does not support use of resource claims:"
                f" ResourceClaim {entry['resourceClaimName']} may be shared with pods that are not"
                " queued; use a ResourceClaimTemplate",
            )


def _template(name: str, claims: Claims) -> ClaimSpec | str:
    if claims.absent:
        return claims.absent
    found = claims.templates.get(name)
    if found is None:
        return "it does not exist in the namespace: create it, the pod waits for it"
    return f"it cannot be read: {found}" if isinstance(found, str) else found


def _extended(requests: Exact, claims: Claims) -> Iterator[tuple[str, ClaimSpec]]:
    """Extended resources that devices of a mapped class serve, as the claim that the scheduler
    makes for them.
    """
    if not claims.rules.mappings:
        return
    served = claims.inventory.extended()
    for name, amount in requests.items():
        device_class = served.get(name, "")
        if name.startswith(IMPLICIT_RESOURCE):
            device_class = name.removeprefix(IMPLICIT_RESOURCE)
        if amount > 0 and claims.rules.of_class(device_class):
            count = -(-amount.numerator // amount.denominator)
            yield name, ClaimSpec((("", DeviceRequest(device_class, count)),))
