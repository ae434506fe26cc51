"""Parts of the generic adapter: names and numbers of pod sets, and what a start replaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from federation.api.kinds.paths import Place, first, number, places
from federation.api.kinds.row import Role
from federation.api.names import Annotation
from federation.core.types import Admission, PodSetAssignment
from federation.jobs import template
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.shape import shaped
from federation.jobs.scaling import pod_count

Json = dict[str, Any]

_ABSENT = "absent"
_OF_JOB = ("parallelism", "completions")
_PARTS = ("metadata", "spec")
_TOPOLOGY = {
    Annotation.POD_SET_REQUIRED_TOPOLOGY.value,
    Annotation.POD_SET_PREFERRED_TOPOLOGY.value,
    Annotation.POD_SET_UNCONSTRAINED_TOPOLOGY.value,
    Annotation.POD_SET_SLICE_REQUIRED_TOPOLOGY.value,
    Annotation.POD_SET_SLICE_CONSTRAINTS.value,
}


def merged(patch: Json, more: Json) -> Json:
    """Two merge patches as one; `more` wins."""
    both = dict(patch)
    for key, value in more.items():
        known = both.get(key)
        nested = isinstance(value, dict) and isinstance(known, dict)
        both[key] = merged(known, value) if nested and isinstance(known, dict) else value
    return both


def name_of(role: Role, holder: Json) -> str:
    """Pod sets have names in small letters (DNS labels)."""
    return str(role.name if role.fixed else holder.get(role.name, "")).lower()


def count_of(role: Role, holder: Json) -> int:
    """How many pods a description asks for."""
    factors = [number(holder, path, 1) for path in role.counts]
    if role.hosts:
        factors.append(max(1, number(holder, role.hosts, 1)))
    if role.job is not None:
        factors.append(_of_job(first(holder, role.job)))
    least = min(factors, default=1)
    return least if least < 0 else prod(factors)  # two that make no sense make none together


def unread(roles: Iterable[Role], obj: Json) -> str:
    """What describes pods and cannot be read, so that nothing would count them; '' if nothing."""
    for role in roles:
        for place, holder in places(obj, role.at):
            if text := _unread(role, holder):
                return f"{shown(place)}{text}"
    return ""


def _unread(role: Role, holder: Any) -> str:
    if not isinstance(holder, dict):
        return " is no object that could describe pods"
    found = first(holder, role.template)
    if found is not None and not shaped(found):
        return f"{shown(role.template, '.')} {NO_TEMPLATE}"
    if found is None:
        return ""
    job = role.job or ()
    of_job = [(*job, field) for field in _OF_JOB] if role.job is not None else []
    for path in (*role.counts, *filter(None, (role.hosts,)), *of_job):
        said = first(holder, path)
        if said is not None and (not isinstance(said, int) or isinstance(said, bool)):
            return f"{shown(path, '.')} is {said!r}: a number of pods is a whole number"
    return ""


NO_TEMPLATE = "cannot be read as a pod template, so its pods cannot be counted"


def shown(place: Place, before: str = "") -> str:
    """Where something is, as people write it."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return before + text.removeprefix(".") if text else ""


def _of_job(spec: Any) -> int:
    """The pods at once of a Job."""
    spec = spec if isinstance(spec, dict) else {}
    given = {name: number(spec, (name,), 1) for name in _OF_JOB if spec.get(name) is not None}
    return pod_count(given)


def given_to(admission: Admission, known: Mapping[str, Json]) -> Iterator[PodSetAssignment]:
    """Those assignments that are of pod sets that are known."""
    return (given for given in admission.pod_sets if given.name in known)


def spread(admission: Admission) -> Admission:
    """Without places for each pod: nobody lets the pods of these kinds go one by one."""
    given = (
        replace(pods, topology=None) if pods.topology and len(pods.topology.domains) > 1 else pods
        for pods in admission.pod_sets
    )
    return replace(admission, pod_sets=tuple(given))


def replaced(before: Json, after: Json) -> Json:
    """What a start replaces in a template, and which parts of it are new."""
    parts = template.replaced(before, after)
    new = [part for part in _PARTS if part in after and part not in before]
    return {**parts, _ABSENT: new} if new else parts


def put_back(now: Json, parts: Mapping[str, Any]) -> Json:
    """The template with what `replaced` found as it was."""
    found = template.put_back(now, parts)
    said = parts.get(_ABSENT)
    absent = said if isinstance(said, list) else []
    for part in _PARTS:
        if part in absent and not found.get(part):
            found.pop(part, None)
    return found


def unplaced(roles: Iterable[PodRole]) -> str:
    """Places in a topology are given to the pods of a batch/v1 Job only."""
    for role in roles:
        asked = (role.template.get("metadata") or {}).get("annotations") or {}
        named = sorted(_TOPOLOGY & asked.keys())
        if named:
            return (
                f"pod set {role.name}: {named[0]} asks for places in a topology, which only pods of"
                " batch/v1 Jobs are given: remove it, or use a Job"
            )
    return ""
