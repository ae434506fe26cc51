"""Whether an object that exists is what a manifest asks for. Pure.

The API server adds defaults, and admission policies write some fields of a Job; so an object is
the same when it has everything that the manifest says, whatever else it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from federation.core.quantity import QuantityError, parse_quantity

Json = dict[str, Any]

_OTHERS_WRITE: dict[str, set[tuple[str, ...]]] = {
    "Job": {("spec", "suspend"), ("spec", "managedBy")}
}
"""Fields that policies and the manager write."""
_SKIPPED = {"apiVersion", "kind", "metadata", "status"}


def differences(
    wanted: Json, actual: Json, others_write: Iterable[tuple[str, ...]] = ()
) -> list[str]:
    """Each field that differs, as `path: is X, the file says Y`; labels count, annotations not."""
    skipped = _OTHERS_WRITE.get(wanted["kind"], set()) | set(others_write)
    if wanted["kind"] == "Pod":
        actual = {**actual, "spec": _without_added(wanted["spec"], actual["spec"])}
    found = []
    labels = wanted["metadata"].get("labels") or {}
    has = actual["metadata"].get("labels") or {}
    found += [*_compare(("metadata", "labels"), labels, has, skipped)]
    for key, value in wanted.items():
        if key not in _SKIPPED:
            found += [*_compare((key,), value, actual.get(key), skipped)]
    return found


def _without_added(wanted: Json, actual: Json) -> Json:
    """A pod's spec without what the API server adds to every pod: at the ends of its lists."""
    made: Json = dict(actual)
    for key, value in wanted.items():
        has = actual.get(key)
        if isinstance(value, list) and isinstance(has, list):
            pairs = zip(value, has, strict=False)
            made[key] = [_without_added(w, h) if _both(w, h) else h for w, h in pairs]
            if len(has) < len(value) or key.endswith("ontainers"):
                made[key] += has[len(made[key]) :]
    return made


def _both(left: Any, right: Any) -> bool:
    return isinstance(left, dict) and isinstance(right, dict)


def _compare(
    path: tuple[str, ...], wanted: Any, actual: Any, skipped: set[tuple[str, ...]]
) -> Iterator[str]:
    if path in skipped or wanted in (None, {}, [], ""):
        return
    if isinstance(wanted, dict) and isinstance(actual, dict):
        for key, value in wanted.items():
            yield from _compare((*path, str(key)), value, actual.get(key), skipped)
    elif isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        for index, (left, right) in enumerate(zip(wanted, actual, strict=True)):
            yield from _compare((*path, str(index)), left, right, skipped)
    elif not _equal(wanted, actual):
        yield f"{'.'.join(path)}: is {actual!r:.60}, the file says {wanted!r:.60}"


def _equal(wanted: Any, actual: Any) -> bool:
    """Equal values; quantities may be spelled differently (1000m, 1)."""
    if wanted == actual or str(wanted) == str(actual):
        return True
    if isinstance(wanted, str | int | float) and isinstance(actual, str | int | float):
        try:
            return parse_quantity("cpu", wanted) == parse_quantity("cpu", actual)
        except QuantityError:
            return False
    # A secret's stringData is never given back.
    return actual is None and wanted is False
