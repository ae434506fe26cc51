"""Whether JSON that no schema has looked at has the shape of a pod template.

Kubernetes checks the templates of its own kinds. Of custom resources anything may come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def shaped(template: Any) -> bool:
    """Whether it can be read as a pod template; its values may still make no sense."""
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return False
    spec, meta = template["spec"], template.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        return False
    texts = [(meta or {}).get("labels"), (meta or {}).get("annotations"), spec.get("nodeSelector")]
    lists = [spec.get("containers"), spec.get("initContainers"), spec.get("tolerations")]
    lists += [spec.get("schedulingGates"), spec.get("resourceClaims")]
    return (
        all(_texts(found) for found in texts)
        and all(_objects(found) for found in lists)
        and all(_container(found) for found in (*(lists[0] or ()), *(lists[1] or ())))
        and _resources(spec.get("resources"))
        and _amounts(spec.get("overhead"))
        and _affinity(spec.get("affinity"))
        and _whole(spec.get("terminationGracePeriodSeconds"))
        and _named(spec, ("runtimeClassName", "priorityClassName"))
        and all(_named(found, _TOLERATION) for found in lists[2] or ())
        and all(_named(found, ("name",)) for found in lists[3] or ())
        and all(_named(found, _CLAIM) for found in lists[4] or ())
    )


_TOLERATION = ("key", "operator", "value", "effect")
_CLAIM = ("name", "resourceClaimName", "resourceClaimTemplateName")


def _named(found: Json, fields: Iterable[str]) -> bool:
    """Whether what the fields have is text: it is looked up and compared."""
    return all(isinstance(found.get(field), str | None) for field in fields)


def _texts(found: Any) -> bool:
    if found is None:
        return True
    return isinstance(found, dict) and all(isinstance(text, str) for text in found.values())


def _objects(found: Any) -> bool:
    if found is None:
        return True
    return isinstance(found, list) and all(isinstance(item, dict) for item in found)


def _container(found: Json) -> bool:
    env = found.get("env")
    return (
        _resources(found.get("resources"))
        and _objects(env)
        and all(isinstance(variable.get("name"), str) for variable in env or ())
    )


def _resources(found: Any) -> bool:
    if found is None:
        return True
    parts = ("requests", "limits")
    return (
        isinstance(found, dict)
        and all(_amounts(found.get(part)) for part in parts)
        and _objects(found.get("claims"))
        and all(_named(claim, ("name", "request")) for claim in found.get("claims") or ())
    )


def _amounts(found: Any) -> bool:
    if found is None:
        return True
    return isinstance(found, dict) and all(
        isinstance(amount, str | int | float) for amount in found.values()
    )


def _affinity(found: Any) -> bool:
    """Only the required terms of node affinity are read."""
    for part in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        if found is None:
            return True
        if not isinstance(found, dict):
            return False
        found = found.get(part)
    if found is None:
        return True
    terms = found.get("nodeSelectorTerms") if isinstance(found, dict) else False
    if not isinstance(terms, list):
        return terms is None
    return _objects(terms) and all(_expressions(term) for term in terms)


def _expressions(term: Json) -> bool:
    found = term.get("matchExpressions")
    return _objects(found) and all(
        isinstance(match.get("key"), str)
        and isinstance(match.get("operator", ""), str)
        and isinstance(values := match.get("values") or [], list)
        and all(isinstance(value, str) for value in values)
        for match in found or ()
    )


def _whole(found: Any) -> bool:
    return found is None or (isinstance(found, int) and not isinstance(found, bool))
