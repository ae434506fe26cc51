"""AppWrapper: objects of other kinds in one, each with its pods.

Once it is created its webhook lets nobody change what is wrapped. What a start adds to pods is in
`podSetInfos` of each component: its controller adds that when it makes the objects, pod set by pod
set in the order in which they are declared, or in which it finds them by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.api.kinds.paths import EACH, Path, Place, first, number, places, put
from federation.api.kinds.row import ITSELF, Role, Row, Sign
from federation.api.kinds.table import ROWS, SCALED
from federation.api.names import Label
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.parts import NO_TEMPLATE, shown
from federation.jobs.kinds.shape import shaped
from federation.jobs.template import PLACES

Json = dict[str, Any]
Type = tuple[str, str]
"""API version and kind."""


def _plain(kind: str, *roles: Role) -> Row:
    group = "batch" if kind == "Job" else "apps" if kind.endswith(("Set", "ment")) else ""
    return Row(kind, group, "v1", f"{kind.lower()}s", roles)


_REPLICATED = Role(("spec",), "pods")
_BY_ITSELF = ("JobSet", "PyTorchJob", "RayCluster", "RayJob")
_FOUND: Final[dict[Type, GenericKind]] = {
    (row.api_version, row.kind): GenericKind(row)
    for row in (
        *(row for row in ROWS if row.kind in _BY_ITSELF),
        _plain("Job", Role(("spec",), "pods", counts=(), job=ITSELF)),
        _plain("Pod", Role((), "pods", template=(), counts=())),
        *(_plain(kind, _REPLICATED) for kind in ("Deployment", "StatefulSet")),
    )
}
"""The kinds whose pods its controller (1.2) finds by itself."""
_DECLARED: Final[frozenset[Type]] = frozenset(
    {*((row.api_version, row.kind) for row in (*ROWS, *SCALED)), ("apps/v1", "ReplicaSet")}
    - _FOUND.keys()
)
"""Kinds that have pods, which it neither waits for nor places unless podSets say where they are."""
_HELD: Final[dict[Type, tuple[Path, ...]]] = {
    ("batch/v1", "Job"): (ITSELF,),
    ("apps/v1", "Deployment"): (ITSELF, ("spec", "template")),
}
"""Of which kinds an object is held back, or its pods are, whoever has made it, and where it names
its queue.
"""
_COMPONENTS: Final[Path] = ("spec", "components", EACH)
_DEPLOYED, _UNHEALTHY = Sign("ResourcesDeployed"), Sign("Unhealthy")


@dataclass(frozen=True, slots=True)
class _Pods:
    """One pod set: where its template is, and what its controller adds to that."""

    name: str
    place: Place
    count: int
    template: Json
    info: Json


_INDEX = re.compile(r"\[(\d{1,6})\]", re.ASCII)
"""Of a list, in a path; a longer number leads nowhere."""


class AppWrapper(GenericKind):
    """See JobKind."""

    def placed(self, obj: Json) -> Iterator[tuple[Place, PodRole]]:
        """See GenericKind. Pod sets are named after the object, and numbered."""
        for at, found in _by_component(obj):
            for pods in found:
                made = _with(pods.template, pods.info)
                yield (*at, *pods.place), PodRole(pods.name, pods.count, made)

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """See JobKind. Of one that is there only what is added to templates can change."""
        if not first(obj, ("metadata", "uid")):
            return super().with_templates(obj, templates)
        for at, found in list(_by_component(obj)):
            infos = [
                _added(pods.template, templates[pods.name]) if pods.name in templates else pods.info
                for pods in found
            ]
            if found:
                obj = put(obj, (*at, "podSetInfos"), infos if any(infos) else None)
        return obj

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        return _queued(obj) or super().problem(obj, defaults)

    def unread(self, obj: Json) -> str:
        """See GenericKind."""
        for at, component in places(obj, _COMPONENTS):
            if text := _unread(component):
                return f"{shown(at)}: {text.strip()}"
        return ""

    def _ended(self, obj: Json) -> tuple[str, str]:
        """See GenericKind. One that has failed has pods until its controller says that they are
        gone: at once, or when the time is over that it was given for looking at them.
        """
        ended, text = super()._ended(obj)
        if ended != "Failed":
            return ended, text
        if _DEPLOYED.found(obj) is not None:
            return "", ""
        why = _UNHEALTHY.found(obj) or {}
        return ended, ": ".join(str(why[part]) for part in ("reason", "message") if why.get(part))


def _by_component(obj: Json) -> Iterator[tuple[Place, list[_Pods]]]:
    """The pod sets of each component, with its place."""
    name, index = obj["metadata"].get("name", ""), 0
    for at, component in places(obj, _COMPONENTS):
        said = first(component, ("podSetInfos",))
        infos = said if isinstance(said, list) else []
        found = []
        for order, (place, count, template) in enumerate(_pods(component)):
            info = infos[order] if order < len(infos) else {}
            given = info if isinstance(info, dict) else {}
            found.append(_Pods(f"{name}-{index}", place, count, template, given))
            index += 1
        yield at, found


def _pods(component: Json) -> Iterator[tuple[Place, int, Json]]:
    """The pods of a component: those that it declares, else those that are found."""
    if first(component, ("podSets",)):
        for _, pods in places(component, ("podSets", EACH)):
            place = _place(first(pods, ("path",)))
            found = _at(component, place)
            if shaped(found):
                yield place, number(pods, ("replicas",), 1), found
        return
    wrapped = first(component, ("template",))
    if (kind := _FOUND.get(_type(wrapped))) is not None:
        for place, role in kind.placed(wrapped):
            yield ("template", *place), role.count, role.template


def _type(wrapped: Any) -> Type:
    return str(first(wrapped, ("apiVersion",))), str(first(wrapped, ("kind",)))


def _place(path: Any) -> Place:
    """`template.spec.replicatedJobs[0].template`, as its controller reads paths."""
    parts = filter(None, str(path).replace("[", ".[").split("."))
    return tuple(int(found[1]) if (found := _INDEX.fullmatch(part)) else part for part in parts)


def _at(obj: Any, place: Place) -> Any:
    """What is at a place; None if nothing is."""
    for key in place:
        if isinstance(obj, dict) and isinstance(key, str):
            obj = obj.get(key)
        elif isinstance(obj, list) and isinstance(key, int) and key < len(obj):
            obj = obj[key]
        else:
            return None
    return obj


def _with(template: Json, info: Json) -> Json:
    """A template with what is added to it; as it is where that makes none."""
    made = template
    for part, field in PLACES:
        more, was = info.get(field), (template.get(part) or {}).get(field)
        if isinstance(more, dict):
            made = put(made, (part, field), {**more, **(was if isinstance(was, dict) else {})})
        elif isinstance(more, list):
            known = was if isinstance(was, list) else []
            made = put(made, (part, field), [*known, *(one for one in more if one not in known)])
    return made if shaped(made) else template


def _added(before: Json, after: Json) -> Json:
    """What is added to a template that becomes another one, as podSetInfos have it."""
    info: Json = {}
    for part, field in PLACES:
        was, now = ((one.get(part) or {}).get(field) or {} for one in (before, after))
        known = list(was)
        more = [one for one in now if one not in known]
        if more:
            info[field] = {key: now[key] for key in more} if isinstance(now, dict) else more
    return info


def _unread(component: Json) -> str:
    declared = first(component, ("podSets",))
    if declared:
        if not isinstance(declared, list):
            return "podSets is no list"
        for index, pods in enumerate(declared):
            path, count = first(pods, ("path",)), first(pods, ("replicas",), 1)
            if not shaped(_at(component, _place(path))):
                return f"what podSets[{index}].path leads to ({path}) {NO_TEMPLATE}"
            if not isinstance(count, int) or isinstance(count, bool):
                return f"podSets[{index}].replicas is {count!r}: it takes a whole number"
        return ""
    wrapped = first(component, ("template",))
    kind = _type(wrapped)
    if kind in _DECLARED:
        return f"a {kind[1]} needs podSets here: nothing else says which pods it has"
    return _FOUND[kind].unread(wrapped) if kind in _FOUND else ""


def _queued(obj: Json) -> str:
    """Which part of it would be queued once more, where it runs."""
    key = Label.QUEUE_NAME.value
    for at, component in places(obj, _COMPONENTS):
        wrapped = first(component, ("template",))
        for path in _HELD.get(_type(wrapped), ()):
            if first(wrapped, (*path, "metadata", "labels", key)):
                where = shown((*at, "template", *path))
                return (
                    f"{where} has the label {key}: leave it away there, as an AppWrapper is queued"
                    " as a whole"
                )
    return ""
