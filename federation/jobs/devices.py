"""What the pods of a template ask of cards, and how to write it so that device plugins read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from federation.core.devices.asking.asking import (
    ContainerAsk,
    Texts,
    WantsError,
    canonical_texts,
    pod_wants,
)
from federation.core.devices.quota.totals import held
from federation.core.devices.wants import FULL, ContainerWants, PodWants, Role
from federation.core.devices.wire.vendors import Quantity, Vendors
from federation.core.limit_range import CONTAINER, LimitItem, defaulted
from federation.core.quantity import QuantityError, exact_quantity
from federation.core.requests import Exact
from federation.jobs.containers import NO_DEFAULTS, PodDefaults, wants_of

Json = dict[str, Any]

NOTHING = PodWants(())


def card_wants(template: Json, defaults: PodDefaults = NO_DEFAULTS) -> PodWants:
    """What each pod asks of cards; false if nothing. Raises WantsError, and QuantityError where
    an amount is none at all.
    """
    spec, meta = template.get("spec") or {}, template.get("metadata") or {}
    asks = list(_asks(spec, defaults))
    vendors = defaults.rules.vendors
    if not any(vendors.of_resource(name) for ask in asks for name in ask.texts):
        return NOTHING
    annotations = {str(k): str(v) for k, v in (meta.get("annotations") or {}).items()}
    return pod_wants(asks, annotations, vendors)


def _asks(spec: Json, defaults: PodDefaults) -> Iterator[ContainerAsk]:
    """In HAMi's order: init containers first."""
    item, vendors = defaults.limits.get(CONTAINER), defaults.rules.vendors
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            role = Role.APP
            if field == "initContainers":
                always = container.get("restartPolicy") == "Always"
                role = Role.SIDECAR if always else Role.INIT
            resources = container.get("resources") or {}
            yield ContainerAsk(
                str(container.get("name") or f"{field}[{index}]"),
                role,
                _texts(resources.get("limits")),
                {**_by_default(container, item, vendors), **_texts(resources.get("requests"))},
            )


def _texts(amounts: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (amounts or {}).items()}


def _by_default(container: Json, item: LimitItem | None, vendors: Vendors) -> dict[str, str]:
    """What a LimitRange adds: a bare number, as the API server hands it on."""
    names = {*item.default, *item.default_request} if item else set()
    if not any(map(vendors.of_resource, names)):
        return {}
    wants = defaulted(wants_of(container), item)
    amounts = {**wants.requests, **wants.limits}
    return {name: str(amounts[name]) for name in names if name in amounts}


def counted(requests: Exact, wants: PodWants, vendors: Vendors) -> dict[str, Fraction]:
    """Requests of one pod with its cards by number, under the name that the plugin knows, and
    without their shares: those are for quota, and are reckoned there.
    """
    kept: dict[str, Fraction] = {}
    for name, amount in requests.items():
        found = vendors.of_resource(name)
        if found is None or (found[1] is Quantity.INSTANCES and amount):
            kept[name] = amount
    for vendor in vendors:
        if cards := held(wants.containers, vendor.key).cards:
            kept[vendor.count] = Fraction(cards)
    return kept


def card_problems(template: Json, defaults: PodDefaults = NO_DEFAULTS) -> Iterator[str]:
    """Why no cards can be given to the pods of a template as it stands."""
    try:
        wants = card_wants(template, defaults)
    except WantsError as error:
        yield f"its request for cards is not valid: {error}"
        return
    if not wants:
        return
    spec = template.get("spec") or {}
    if spec.get("nodeName"):
        yield "spec.nodeName is set, and cards are chosen with the node: use a node selector"
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    for wire, container in zip(containers, wants.containers, strict=True):
        if (wire.get("securityContext") or {}).get("privileged") and _shares(container):
            yield (
                f"container {container.name} is privileged, so no share of a card can be kept"
                " from taking all of it: drop privileged, or ask for whole cards"
            )


def _shares(container: ContainerWants) -> bool:
    return any(
        not asked.profile and (asked.percent < FULL or asked.cores < FULL)
        for asked in container.cards
    )


def canonical(template: Json, vendors: Vendors) -> Json:
    """The template with requests for cards under HAMi's names, in its units, as plain numbers.

    HAMi's scheduler knows no aliases and passes what it cannot count, such as 20Gi, unseen (defect
    d04). The same object if there is nothing to change. Raises WantsError.
    """
    spec = template.get("spec") or {}
    changed: Json = {}
    for field in ("initContainers", "containers"):
        before = spec.get(field) or []
        after = [_canonical(container, vendors) for container in before]
        if any(new is not old for new, old in zip(after, before, strict=True)):
            changed[field] = after
    return {**template, "spec": {**spec, **changed}} if changed else template


def _is_counted(name: str, vendors: Vendors) -> bool:
    """Whether it is about cards, MIG instances aside: those have one name and are counted."""
    found = vendors.of_resource(name)
    return found is not None and found[1] is not Quantity.INSTANCES


def _reads_as(texts: Texts, written: Texts, name: str) -> bool:
    """Whether a device plugin, which knows plain numbers only, reads what is meant."""
    return exact_quantity(texts[name]) == Fraction(written[name])


def spelling_problem(template: Json, vendors: Vendors) -> str:
    """What has to be written differently where the pods are started as they are: nothing rewrites
    the resources of a Job that is there. '' if nothing, or if it cannot be read.
    """
    try:
        plain = canonical(template, vendors)
    except (WantsError, QuantityError):
        return ""
    for field in ("initContainers", "containers"):
        after = (plain.get("spec") or {}).get(field) or ()
        for old, new in zip((template.get("spec") or {}).get(field) or (), after, strict=True):
            if old is not new:
                limits = new["resources"]["limits"]
                said = ", ".join(f"{n}: {limits[n]}" for n in limits if _is_counted(n, vendors))
                return (
                    f"container {new.get('name')}: device plugins do not"
                    f" understand its request for cards: write {said}"
                )
    return ""


def _canonical(container: Json, vendors: Vendors) -> Json:
    resources = container.get("resources") or {}
    limits, requests = _texts(resources.get("limits")), _texts(resources.get("requests"))
    ask = ContainerAsk(str(container.get("name") or ""), Role.APP, limits, requests)
    written = canonical_texts(ask, vendors)
    gone = {name for name in ask.texts if _is_counted(name, vendors)}
    if not written or (
        gone == written.keys() and all(_reads_as(ask.texts, written, name) for name in gone)
    ):
        return container
    kept = {name: text for name, text in limits.items() if name not in gone}
    result = {**resources, "limits": {**kept, **written}}
    if requests:
        result["requests"] = {name: text for name, text in requests.items() if name not in gone}
    return {**container, "resources": result}
