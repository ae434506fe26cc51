"""What Spark asks of a cluster for a driver and its executors.

The operator hands what a SparkApplication says to spark-submit as properties; Spark counts by these
(its pages Running on Kubernetes and Configuration): memory with what is beside the heap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final

from federation.api.kinds.paths import first, mapping
from federation.core.quantity import exact_quantity

Json = dict[str, Any]
Properties = Mapping[str, tuple[str, str]]
"""Each with its value, and where in the application that is said."""

ROLES: Final = ("driver", "executor")
_FIELDS = {
    "cores": "spark.{}.cores",
    "coreRequest": "spark.kubernetes.{}.request.cores",
    "memory": "spark.{}.memory",
    "memoryOverhead": "spark.{}.memoryOverhead",
    "instances": "spark.{}.instances",
}
_FACTOR = "spark.kubernetes.memoryOverheadFactor"
_FACTORS = (_FACTOR, *(f"spark.{role}.memoryOverheadFactor" for role in ROLES))
_DYNAMIC, _MOST = "spark.dynamicAllocation.enabled", "spark.dynamicAllocation.maxExecutors"
_OFF_HEAP, _OFF_HEAP_SIZE = "spark.memory.offHeap.enabled", "spark.memory.offHeap.size"
_PYTHON = "spark.executor.pyspark.memory"
_AMOUNTS = (
    *(f"spark.{role}.{part}" for role in ROLES for part in ("memory", "memoryOverhead")),
    *(f"spark.{role}.minMemoryOverhead" for role in ROLES),
    _OFF_HEAP_SIZE,
    _PYTHON,
)
_BESIDE_THE_JVM = ("Python", "R")
"""Types of applications whose memory outside of the JVM is more."""
_MOST_DIGITS = 19
"""Of an amount: beyond it none fits 64 bits."""
_UNITS = {"b": Fraction(1, 1 << 20), "k": Fraction(1, 1024), "m": Fraction(1)}
_UNITS |= {"g": Fraction(1024), "t": Fraction(1 << 20), "p": Fraction(1 << 30)}
"""In MiB."""


def properties(spec: Json) -> Properties:
    """What spark-submit is told of pods: `sparkConf`, then what has fields of its own."""
    found: dict[str, tuple[str, str]] = {}
    if factor := spec.get("memoryOverheadFactor"):
        found[_FACTOR] = str(factor), "spec.memoryOverheadFactor"
    for key, value in mapping(spec, ("sparkConf",)).items():
        found[key] = str(value), f"spec.sparkConf[{key}]"
    for role in ROLES:
        for field, key in _FIELDS.items():
            if (said := first(spec, (role, field))) not in (None, ""):
                found[key.format(role)] = str(said), f"spec.{role}.{field}"
    if first(spec, ("dynamicAllocation", "enabled")):
        found[_DYNAMIC] = "true", "spec.dynamicAllocation.enabled"
        if (most := first(spec, ("dynamicAllocation", "maxExecutors"))) is not None:
            found[_MOST] = str(most), "spec.dynamicAllocation.maxExecutors"
    return found


def dynamic(given: Properties) -> bool:
    """Whether Spark changes the number of executors by itself."""
    return _text(given, _DYNAMIC).lower() == "true"


def executors(given: Properties) -> int:
    """How many there may be at once."""
    key = _MOST if dynamic(given) else "spark.executor.instances"
    return _whole(_text(given, key, "1")) or 0


def problem(given: Properties) -> str:
    """What cannot be counted; '' if nothing."""
    if dynamic(given) and not _whole(_text(given, _MOST)):
        return (
            f"{given[_DYNAMIC][1]} is set without maxExecutors, so Spark would add executors that"
            " no quota was found for: set it"
        )
    text, where = given.get("spark.executor.instances", ("1", ""))
    if _whole(text) is None:
        return f"{where} is {text!r}: a number of pods is a whole number"
    for key in _AMOUNTS:
        if key in given and _mib(given[key][0]) is None:
            text, where = given[key]
            return f"{where} is {text!r}: it takes an amount as 512m or 4g"
    for key in _FACTORS:
        try:
            exact_quantity(_text(given, key, "0"))
        except ValueError as error:
            return f"{given[key][1]}: {error}"
    return ""


def requests(role: str, spec: Json, given: Properties) -> Json:
    """Those of its container, without what the operator adds; what `problem` tells counts as not
    said.
    """
    cores = _text(given, f"spark.{role}.cores", "1")
    asked = {"cpu": _text(given, f"spark.kubernetes.{role}.request.cores", cores)}
    asked["memory"] = f"{_memory(role, spec, given)}Mi"
    for key, (amount, _) in given.items():
        match = re.fullmatch(rf"spark\.{role}\.resource\.([^.]+)\.amount", key)
        # Without a vendor Spark refuses to start.
        if match and (vendor := _text(given, f"spark.{role}.resource.{match[1]}.vendor")):
            asked[f"{vendor}/{match[1]}"] = amount
    return asked


def _memory(role: str, spec: Json, given: Properties) -> int:
    """In MiB."""
    heap = _amount(given, f"spark.{role}.memory", 1024)
    share = _share(role, spec, given)
    least = _amount(given, f"spark.{role}.minMemoryOverhead", 384)
    total = heap + _amount(given, f"spark.{role}.memoryOverhead", max(int(heap * share), least))
    if role == "executor":
        if _text(given, _OFF_HEAP).lower() == "true":
            total += _amount(given, _OFF_HEAP_SIZE, 0)
        if "Python" in _outside(spec):
            total += _amount(given, _PYTHON, 0)
    return total


def _share(role: str, spec: Json, given: Properties) -> Fraction:
    default = "0.4" if _outside(spec) else "0.1"
    text = _text(given, f"spark.{role}.memoryOverheadFactor", _text(given, _FACTOR, default))
    with suppress(ValueError):
        return exact_quantity(text)
    return Fraction(default)


def _outside(spec: Json) -> tuple[str, ...]:
    """What runs outside of the JVM. Spark looks at the name of the file alone."""
    file = str(spec.get("mainApplicationFile") or "")
    ends = {"Python": ".py", "R": ".r"}
    kinds = (k for k in _BESIDE_THE_JVM if spec.get("type") == k or file.lower().endswith(ends[k]))
    return tuple(kinds)


def _text(given: Properties, key: str, default: str = "") -> str:
    return given.get(key, (default, ""))[0]


def _whole(text: str) -> int | None:
    """A number of pods; None if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS else None


def _amount(given: Properties, key: str, default: int) -> int:
    """In MiB."""
    if key not in given:
        return default
    found = _mib(given[key][0], "b" if key == _OFF_HEAP_SIZE else "m")
    return default if found is None else found


def _mib(text: str, unit: str = "m") -> int | None:
    """An amount of memory as Spark writes it, in whole MiB, `unit` where it has none; None if it is
    no amount.
    """
    match = re.fullmatch(rf"([0-9]{{1,{_MOST_DIGITS}}})(?:(b)|([kmgtp])b?)?", text.strip().lower())
    return int(int(match[1]) * _UNITS[match[2] or match[3] or unit]) if match else None
