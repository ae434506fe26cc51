"""What a start adds to a pod template, and how the template is made as it was before.

A start is one merge patch. What it replaces is noted beside it, so that a stop can put it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from federation.api.names import Gate, Label, Pin
from federation.core.pod_updates import Conflict, PodSetUpdate, merged
from federation.core.types import PodSetAssignment, ResourceFlavor, Toleration
from federation.jobs.device_pins import Template as Cards
from federation.jobs.pods import tolerations
from federation.jobs.topology import selectors

Json = dict[str, Any]

PLACES = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "nodeSelector"),
    ("spec", "tolerations"),
    ("spec", "schedulingGates"),
)
"""The parts of a pod template that a start may change (Kubernetes allows no others)."""


_OF_SCHEDULERS = (Pin.SEAT.value, "hami.io/vgpu-", "hami.io/bind-")


def grace_seconds(template: Json) -> int:
    """How long its pods may take to end when they are told to; Kubernetes' default is 30 s."""
    said = (template.get("spec") or {}).get("terminationGracePeriodSeconds")
    return 30 if said is None else int(said)


def limit_grace(template: Json, most_s: int) -> None:
    """Shorten in place how long pods may take to end."""
    if grace_seconds(template) > most_s:
        template["spec"]["terminationGracePeriodSeconds"] = most_s


def additions(
    assignment: PodSetAssignment,
    flavors: Iterable[ResourceFlavor],
    updates: Iterable[PodSetUpdate] = (),
) -> list[PodSetUpdate]:
    """What admission adds to one pod set, source by source.

    The node labels and tolerations of its flavors; of a topology assignment with one domain its
    node selector (with several the pods are gated, and `topology.releases` tells where each goes);
    then what the admission checks add.
    """
    name = assignment.name
    used = set(assignment.flavors.values())
    found = [
        PodSetUpdate(
            name, node_selector=dict(flavor.node_labels), tolerations=tuple(flavor.tolerations)
        )
        for flavor in flavors
        if flavor.name in used
    ]
    if assignment.topology is not None:
        found.append(PodSetUpdate(name, labels={Label.POD_SET.value: name}))
        if len(assignment.topology.domains) == 1:
            ((selector, _),) = selectors(assignment.topology)
            found.append(PodSetUpdate(name, node_selector=selector))
    return [*found, *updates]


def conflict(template: Json, assignment: PodSetAssignment, added: Iterable[PodSetUpdate]) -> str:
    """Why the pods cannot be started as admitted: two sources disagree; '' if none do."""
    answer = merged(assignment.name, [_own(template, assignment.name), *added])
    return str(answer) if isinstance(answer, Conflict) else ""


def _own(template: Json, name: str) -> PodSetUpdate:
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    return PodSetUpdate(
        name,
        meta.get("labels") or {},
        meta.get("annotations") or {},
        spec.get("nodeSelector") or {},
        tolerations(spec.get("tolerations")),
    )


def started(
    template: Json,
    assignment: PodSetAssignment,
    added: Iterable[PodSetUpdate],
    cards: Cards | None = None,
) -> Json:
    """The template with all additions. Where sources disagree the first one's value stands: ask
    `conflict` before. `cards` say where its pods go if they were given cards.
    """
    result = deepcopy(template)
    for update in added:
        if update.name == assignment.name:
            _keep_first(result, "metadata", "labels", update.labels)
            _keep_first(result, "metadata", "annotations", update.annotations)
            _keep_first(result, "spec", "nodeSelector", update.node_selector)
            _append(result, "tolerations", map(wire_toleration, update.tolerations))
    if cards is not None:  # a place for each pod, within its domain
        _give(result, cards)
    elif assignment.topology is not None and len(assignment.topology.domains) > 1:
        _append(result, "schedulingGates", [{"name": Gate.TOPOLOGY.value}])
    return result


def _give(template: Json, cards: Cards) -> None:
    """A gate, or node and cards of all pods: narrower than what its owner allows. What only
    schedulers write on pods is not taken from a template.
    """
    written = (template.get("metadata") or {}).get("annotations") or {}
    for key in [key for key in written if key.startswith(_OF_SCHEDULERS)]:
        del written[key]
    if cards.gated:
        _append(template, "schedulingGates", [{"name": Gate.DEVICES.value}])
    for part, field, more in (
        ("spec", "nodeSelector", cards.node_selector),
        ("metadata", "annotations", cards.annotations),
    ):
        if more:
            holder = _holder(template, part)
            holder[field] = {**(holder.get(field) or {}), **more}


def _keep_first(template: Json, part: str, field: str, more: Mapping[str, str]) -> None:
    if more:
        holder = _holder(template, part)
        holder[field] = {**more, **(holder.get(field) or {})}


def _append(template: Json, field: str, items: Iterable[Json]) -> None:
    holder = _holder(template, "spec")
    present = holder.get(field) or []
    new = [item for item in items if item not in present]
    if new:
        holder[field] = [*present, *new]


def _holder(template: Json, part: str) -> Json:
    if not template.get(part):
        template[part] = {}
    holder: Json = template[part]
    return holder


def wire_toleration(toleration: Toleration) -> Json:
    """A toleration as a pod has it."""
    wire = {"operator": toleration.operator}
    for key in ("key", "value", "effect"):
        if getattr(toleration, key):
            wire[key] = getattr(toleration, key)
    return wire


def replaced(before: Json, after: Json) -> Json:
    """The parts of `before` that are different in `after`; None where there was nothing."""
    parts: Json = {}
    for part, field in PLACES:
        was = (before.get(part) or {}).get(field)
        if was != (after.get(part) or {}).get(field):
            parts.setdefault(part, {})[field] = was
    return parts


def put_back(template: Json, parts: Mapping[str, Any]) -> Json:
    """The template with `replaced` parts as they were; what cannot be one is passed over."""
    result = deepcopy(template)
    for part, field in PLACES:
        given = parts.get(part)
        if not isinstance(given, dict) or field not in given:
            continue
        was = given[field]
        if was is None:
            _holder(result, part).pop(field, None)
        elif _possible(field, was):
            _holder(result, part)[field] = was
    return result


def _possible(field: str, value: Any) -> bool:
    if field in ("tolerations", "schedulingGates"):
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def merge_patch(before: Json, after: Json) -> Json:
    """The JSON merge patch that turns one object into the other."""
    patch: Json = {key: None for key in before if key not in after and before[key] is not None}
    for key, value in after.items():
        was = before.get(key)
        if value == was:
            continue
        if isinstance(value, dict) and isinstance(was, dict):
            patch[key] = merge_patch(was, value)
        else:
            patch[key] = value
    return patch
