"""Patches and selectors as the API server applies them."""

from __future__ import annotations

import re
from typing import Any

Json = dict[str, Any]


class Refused(Exception):
    """What the server answers instead of an object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


def copied(value: Any) -> Any:
    """A copy of JSON that shares nothing that can be changed; several times as fast as deepcopy."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386); null removes."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(target: Json, operations: list[Json]) -> Json:
    """Apply a JSON patch (RFC 6902: add, remove, replace, test)."""
    result: Json = copied(target)
    for operation in operations:
        try:
            _operate(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise Refused(
                422, "Invalid", "the server rejected our request due to an error in our request"
            ) from error
    return result


def _operate(document: Json, operation: Json) -> None:
    steps = [
        step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
    ]
    parent: Any = document
    for step in steps[:-1]:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    op, last, value = operation["op"], steps[-1], operation.get("value")
    at: Any = last
    if isinstance(parent, list):
        at = len(parent) if last == "-" else int(last)
    if op == "add" and isinstance(parent, list):
        parent.insert(at, value)
    elif op == "add":
        parent[at] = value
    elif op == "remove":
        del parent[at]
    elif op == "replace":
        parent[at]  # must exist
        parent[at] = value
    elif op == "test":
        if parent[at] != value:
            raise ValueError("test failed")
    else:
        raise ValueError(f"unknown operation {op}")


_TERM = re.compile(r"(!?)\s*([^\s,=!()]+)\s*(?:(==|=|!=|\s+in|\s+notin)\s*(\([^)]*\)|[^,]*))?\s*")


def labels_match(selector: str, labels: dict[str, str]) -> bool:
    """Evaluate a label selector: equality, existence and sets."""
    for term in re.split(r",(?![^(]*\))", selector) if selector else ():
        found = _TERM.fullmatch(term.strip())
        operator = (found.group(3) or "").strip() if found else ""
        if not found or ("in" in operator and not (found.group(4) or "").startswith("(")):
            raise Refused(400, "BadRequest", f"unable to parse requirement: {term}")
        negated, key, _, operand = found.groups()
        values = {part.strip() for part in (operand or "").strip("()").split(",")}
        present = labels.get(key)
        holds = {
            "": (present is not None) != bool(negated),
            "=": present in values,
            "==": present in values,
            "in": present in values,
            "!=": present not in values,
            "notin": present not in values,
        }[operator]
        if not holds:
            return False
    return True


_FIELDS = {"metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "type"}


def fields_match(selector: str, obj: Json) -> bool:
    """Evaluate a field selector over the few fields that servers index."""
    for term in selector.split(",") if selector else ():
        key, operator, value = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term).groups()  # type: ignore[union-attr]
        if key not in _FIELDS:
            raise Refused(400, "BadRequest", f'field label "{key}" not supported')
        found: Any = obj
        for step in key.split("."):
            found = found.get(step, {}) if isinstance(found, dict) else {}
        if ((found or "") == value) == (operator == "!="):
            return False
    return True
