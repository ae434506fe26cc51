"""AppWrapper: objects of other kinds in one, each with its pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from federation.api.kinds.paths import EACH, Place, first, number, path_of, places
from federation.api.kinds.row import ITSELF, Role, Row
from federation.api.kinds.table import ROWS, SCALED
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.parts import NO_TEMPLATE, shown
from federation.jobs.kinds.shape import shaped

Json = dict[str, Any]


def _plain(kind: str, *roles: Role) -> Row:
    group = "batch" if kind == "Job" else "apps" if kind.endswith(("Set", "ment")) else ""
    return Row(kind, group, "v1", f"{kind.lower()}s", roles)


_REPLICATED = Role(("spec",), "pods")
_WRAPPED = {
    (row.api_version, row.kind): GenericKind(row)
    for row in (
        *ROWS,
        *SCALED,
        _plain("Job", Role(("spec",), "pods", counts=(), job=ITSELF)),
        _plain("Pod", Role((), "pods", template=(), counts=())),
        *(_plain(kind, _REPLICATED) for kind in ("Deployment", "ReplicaSet", "StatefulSet")),
    )
}


class AppWrapper(GenericKind):
    """See JobKind."""

    def placed(self, obj: Json) -> Iterator[tuple[Place, PodRole]]:
        """See GenericKind. Pod sets are named after the object, and numbered."""
        name, index = obj["metadata"].get("name", ""), 0
        for at, component in places(obj, ("spec", "components", EACH)):
            for place, count, template in _pods(component):
                yield (*at, *place), PodRole(f"{name}-{index}", count, template)
                index += 1

    def unread(self, obj: Json) -> str:
        """See GenericKind."""
        for at, component in places(obj, ("spec", "components", EACH)):
            if text := _unread(component):
                return f"{shown(at)}: {text.strip()}"
        return ""


def _unread(component: Json) -> str:
    declared = first(component, ("podSets",))
    if declared:
        if not isinstance(declared, list):
            return "podSets is no list"
        for index, pods in enumerate(declared):
            path, count = first(pods, ("path",)), first(pods, ("replicas",), 1)
            if not shaped(first(component, path_of(str(path)))):
                return f"what podSets[{index}].path leads to ({path}) {NO_TEMPLATE}"
            if not isinstance(count, int) or isinstance(count, bool):
                return f"podSets[{index}].replicas is {count!r}: it takes a whole number"
        return ""
    wrapped = first(component, ("template",))
    kind = _wrapped(wrapped)
    if kind is not None and not kind.row.roles:
        return f"a {kind.kind} needs podSets here: nothing else says which pods it has"
    return kind.unread(wrapped) if kind is not None else ""


def _wrapped(wrapped: Any) -> GenericKind | None:
    return _WRAPPED.get((str(first(wrapped, ("apiVersion",))), str(first(wrapped, ("kind",)))))


def _pods(component: Json) -> Iterator[tuple[Place, int, Json]]:
    """The pods of a component: those that it says, else those of the kind that it wraps."""
    if first(component, ("podSets",)):
        for _, pods in places(component, ("podSets", EACH)):
            path = path_of(str(first(pods, ("path",), "")))
            found = first(component, path)
            if shaped(found):
                yield path, number(pods, ("replicas",), 1), found
        return
    wrapped = first(component, ("template",))
    if (kind := _wrapped(wrapped)) is not None:
        for place, role in kind.placed(wrapped):
            yield ("template", *place), role.count, role.template
