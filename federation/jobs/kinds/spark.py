"""SparkApplication: a driver and executors, described by fields of their own, no pod templates.

Amounts are those that Spark on Kubernetes asks of the cluster: memory with its overhead.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from federation.api.kinds.paths import first, mapping, number, put
from federation.core.quantity import exact_quantity
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.parts import NO_TEMPLATE
from federation.jobs.kinds.shape import shaped

Json = dict[str, Any]

LEAST_OVERHEAD_MIB = 384
_MOST_DIGITS = 19
"""Of an amount: beyond it none fits 64 bits."""
_BESIDE_THE_JVM = ("Python", "R")
"""Types of applications whose memory outside of the JVM is more."""
_FIELDS = (
    ("metadata", "labels", "labels"),
    ("metadata", "annotations", "annotations"),
    ("spec", "nodeSelector", "nodeSelector"),
    ("spec", "tolerations", "tolerations"),
)
_MIB = {"": Fraction(1, 1 << 20), "b": Fraction(1, 1 << 20), "k": Fraction(1, 1024)}
_MIB |= {"m": Fraction(1), "g": Fraction(1024), "t": Fraction(1 << 20)}


class SparkApplication(GenericKind):
    """See JobKind."""

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        spec = mapping(obj, ("spec",))
        executors = number(spec, ("executor", "instances"), 1)
        most = number(spec, ("dynamicAllocation", "maxExecutors"), 0)
        if first(spec, ("dynamicAllocation", "enabled")) and most:
            executors = most
        found = (
            PodRole(name, count, _template(mapping(spec, (name,)), name, spec))
            for name, count in (("driver", 1), ("executor", executors))
            if mapping(spec, (name,))
        )
        return tuple(role for role in found if shaped(role.template))

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """See JobKind."""
        for name, wanted in templates.items():
            for part, field, own in _FIELDS:
                value = (wanted.get(part) or {}).get(field)
                if value != first(obj, ("spec", name, own)):
                    obj = put(obj, ("spec", name, own), value)
            env = wanted["spec"]["containers"][0].get("env")
            if env is not None:
                obj = put(obj, ("spec", name, "env"), env)
        return obj

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        spec = mapping(obj, ("spec",))
        if spec.get("mode", "cluster") != "cluster":
            return (
                "spec.mode has to be cluster: in other modes the driver runs outside of the queue"
            )
        scales = mapping(spec, ("dynamicAllocation",))
        if scales.get("enabled") and number(scales, ("maxExecutors",), 0) < 1:
            return (
                "spec.dynamicAllocation is enabled without maxExecutors, so Spark would add"
                " executors that no quota was found for: set it"
            )
        for name in ("driver", "executor"):
            role = mapping(spec, (name,))
            if role and not shaped(_template(role, name, spec)):
                return f"spec.{name} {NO_TEMPLATE}"
            for field in ("memory", "memoryOverhead"):
                if role.get(field) is not None and _mib(str(role[field])) is None:
                    return (
                        f"spec.{name}.{field} is {role[field]!r}: it takes an amount as 512m or 4g"
                    )
        if factor := spec.get("memoryOverheadFactor"):
            try:
                exact_quantity(str(factor))
            except ValueError as error:
                return f"spec.memoryOverheadFactor: {error}"
        return super().problem(obj, defaults)


def _template(role: Json, name: str, spec: Json) -> Json:
    container: Json = {"name": name, "resources": {"requests": _requests(role, spec)}}
    if "env" in role:
        container["env"] = role["env"]
    beside = role.get("sidecars") or []
    containers = [container, *beside] if isinstance(beside, list) else beside
    template: Json = {"spec": {"containers": containers}}
    if role.get("initContainers"):
        template["spec"]["initContainers"] = role["initContainers"]
    for part, field, own in _FIELDS:
        if own in role:
            template = put(template, (part, field), role[own])
    return template


def _requests(role: Json, spec: Json) -> Json:
    requests = {"cpu": str(role.get("coreRequest") or role.get("cores") or 1)}
    memory = _mib(str(role.get("memory") or "1g")) or Fraction(0)
    said = _mib(str(role.get("memoryOverhead") or "0"))
    factor = spec.get("memoryOverheadFactor")
    share = Fraction(4, 10) if spec.get("type") in _BESIDE_THE_JVM else Fraction(1, 10)
    with suppress(ValueError):  # told in `problem`
        share = exact_quantity(str(factor)) if factor else share
    overhead = said or max(memory * share, Fraction(LEAST_OVERHEAD_MIB))
    requests["memory"] = f"{int(memory + overhead)}Mi"
    if gpu := mapping(role, ("gpu",)):
        requests[str(gpu.get("name", ""))] = str(gpu.get("quantity", 1))
    return requests


def _mib(text: str) -> Fraction | None:
    """An amount of memory as Spark writes it, in MiB; None if it is none."""
    digits = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = digits[-1:] if digits[-1:].isalpha() else ""
    number_ = digits.removesuffix(unit)
    if unit not in _MIB or not number_.isdecimal() or len(number_) > _MOST_DIGITS:
        return None
    return int(number_) * _MIB[unit]
