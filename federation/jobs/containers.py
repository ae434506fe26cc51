"""The containers of a pod spec with what they request, after the defaults of their namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

from federation.core.limit_range import CONTAINER, LimitItem, Limits, Wants, defaulted, merged
from federation.core.policies import ResourceRules
from federation.core.quantity import QuantityError, exact_quantity
from federation.core.requests import NOTHING, Exact
from federation.jobs.claims import Claims, concerns

Json = dict[str, Any]

_ITEM = {
    "max": "maximum",
    "min": "minimum",
    "default": "default",
    "defaultRequest": "default_request",
    "maxLimitRequestRatio": "max_ratio",
}


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What a namespace, a cluster and the configuration make of the requests of pods.

    `limits` are the LimitRange items of the namespace by kind, `overheads` what a pod of each
    RuntimeClass costs besides its containers, `rules` the transformations. `claims` is None where
    nothing is known of devices: claims count nothing then.
    """

    limits: Limits = field(default_factory=dict)
    overheads: Mapping[str, Exact] = field(default_factory=dict)
    rules: ResourceRules = field(default_factory=ResourceRules)
    claims: Claims | None = None

    def matters(self, before: PodDefaults, spec: Json) -> bool:
        """Whether a pod may request something else than it did with the defaults `before`."""
        if replace(before, claims=self.claims) != self:
            return True
        changed = self.claims != before.claims
        known = [claims for claims in (self.claims, before.claims) if claims is not None]
        return changed and concerns(spec, *known)


NO_DEFAULTS = PodDefaults()


@dataclass(frozen=True, slots=True)
class Container:
    """One container. `where` is its place in the pod spec; `init` ones run before the others,
    and `sidecar`s (init containers that restart always) go on running beside them.
    """

    where: str
    wants: Wants
    init: bool = False
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod by what it asks for; `own` are its pod-level resources."""

    containers: tuple[Container, ...]
    own: Wants
    overhead: Exact

    def requests(self) -> dict[str, Fraction]:
        """What the scheduler reserves for one pod, see `_total`. Never negative."""
        total = self._total("requests")
        for name, limit in self.own.limits.items():
            if name not in self.own.requests and name not in total:
                total[name] = limit
        return _sum(total, self.overhead)

    def limits(self) -> dict[str, Fraction]:
        """The limits of the whole pod, summed by the same rule, without overhead."""
        return self._total("limits")

    def _total(self, what: str) -> dict[str, Fraction]:
        """Kubernetes' rule: the larger of all containers together and of each init container
        beside the sidecars started before it. Pod-level resources take precedence.
        """
        of = attrgetter(what)
        running: dict[str, Fraction] = {}
        peak: dict[str, Fraction] = {}
        for container in self.containers:
            beside = _sum(running, of(container.wants))
            if container.init:
                peak = merged(peak, beside, max)
            if container.sidecar or not container.init:
                running = beside
        own = {name: value for name, value in of(self.own).items() if value.numerator >= 0}
        return {**merged(peak, running, max), **own}


def _sum(left: Exact, right: Exact) -> dict[str, Fraction]:
    """Added up; what is negative counts nothing, so that it cannot pay for another request."""
    total = dict(left)
    for name, value in right.items():
        added = value if value.numerator >= 0 else NOTHING
        total[name] = total[name] + added if name in total else added
    return total


def read_pod(spec: Json, defaults: PodDefaults = NO_DEFAULTS) -> Pod:
    """A pod spec after defaulting. Raises QuantityError when an amount cannot be read.

    A RuntimeClass that does not exist adds nothing: whether it exists is known where the pods run.
    """
    item = defaults.limits.get(CONTAINER)
    runtime_class = spec.get("runtimeClassName") or ""
    extra = exact(spec.get("overhead")) or defaults.overheads.get(runtime_class, {})
    return Pod(
        (
            *_containers(spec, "initContainers", item),
            *_containers(spec, "containers", item),
        ),
        _own(spec),
        extra,
    )


def _containers(spec: Json, field_name: str, item: LimitItem | None) -> Iterable[Container]:
    init = field_name == "initContainers"
    for index, container in enumerate(spec.get(field_name) or ()):
        name = container.get("name")
        yield Container(
            f"{field_name}[{index}]" + (f" ({name})" if name else ""),
            defaulted(wants_of(container), item),
            init,
            init and container.get("restartPolicy") == "Always",
        )


def _own(spec: Json) -> Wants:
    """Pod-level resources: Kubernetes has them for cpu, memory and huge pages only.

    A limit stands in for a request only where no container requests the resource (`Pod.requests`).
    """
    wants = wants_of(spec)
    return Wants(_pod_level(wants.requests), _pod_level(wants.limits))


def _pod_level(amounts: Exact) -> dict[str, Fraction]:
    return {
        name: value
        for name, value in amounts.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def wants_of(holder: Json) -> Wants:
    """Requests and limits as written. Raises QuantityError."""
    resources = holder.get("resources") or {}
    return Wants(exact(resources.get("requests")), exact(resources.get("limits")))


def exact(values: Mapping[str, str | int | float] | None) -> dict[str, Fraction]:
    """A Kubernetes resource list, unrounded. Raises QuantityError with the resource named."""
    amounts: dict[str, Fraction] = {}
    for name, value in (values or {}).items():
        try:
            amounts[name] = exact_quantity(str(value))
        except ValueError as error:
            raise QuantityError(f"{name}: {error}") from None
    return amounts


def limit_items(limit_range: Json) -> tuple[LimitItem, ...]:
    """The items of a core/v1 LimitRange. Raises QuantityError.

    For containers a maximum is the default limit, a default limit the default request, and a
    minimum the default request, where nothing else is said: the API server fills that in too.
    """
    return tuple(map(_limit_item, (limit_range.get("spec") or {}).get("limits") or ()))


def _limit_item(wire: Json) -> LimitItem:
    kind = str(wire.get("type", ""))
    amounts = {name: exact(wire.get(field_name)) for field_name, name in _ITEM.items()}
    if kind == CONTAINER:
        amounts["default"] = {**amounts["maximum"], **amounts["default"]}
        amounts["default_request"] = {
            **amounts["minimum"],
            **amounts["default"],
            **amounts["default_request"],
        }
    return LimitItem(kind, **amounts)


def overhead(runtime_class: Json) -> Exact:
    """What a node.k8s.io/v1 RuntimeClass adds to each pod. Raises QuantityError."""
    return exact((runtime_class.get("overhead") or {}).get("podFixed"))
