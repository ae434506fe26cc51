"""AppWrapper: objects of other kinds in one, each with its pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from federation.api.kinds.paths import Place, first, number, path_of
from federation.api.kinds.row import ITSELF, Role, Row
from federation.api.kinds.table import ROWS
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import PodRole

Json = dict[str, Any]


def _plain(kind: str, *roles: Role) -> Row:
    group = "batch" if kind == "Job" else "apps" if kind.endswith(("Set", "ment")) else ""
    return Row(kind, group, "v1", f"{kind.lower()}s", roles)


_REPLICATED = Role(("spec",), "pods")
_WRAPPED = {
    (row.api_version, row.kind): GenericKind(row)
    for row in (
        *ROWS,
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
        for item, component in enumerate(first(obj, ("spec", "components"), [])):
            for place, count, template in _pods(component):
                role = PodRole(f"{name}-{index}", count, template)
                yield ("spec", "components", item, *place), role
                index += 1


def _pods(component: Json) -> Iterator[tuple[Place, int, Json]]:
    """The pods of a component: those that it says, else those of the kind that it wraps."""
    if declared := component.get("podSets"):
        for pods in declared:
            path = path_of(str(pods.get("path", "")))
            found = first(component, path)
            if isinstance(found, dict):
                yield path, number(pods, ("replicas",), 1), found
        return
    wrapped = component.get("template") or {}
    kind = _WRAPPED.get((wrapped.get("apiVersion", ""), wrapped.get("kind", "")))
    for place, role in kind.placed(wrapped) if kind else ():
        yield ("template", *place), role.count, role.template
