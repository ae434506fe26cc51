"""The record of an admission on a started Job: what is charged, and what the Job was before.

It is an annotation, so that one patch starts a Job and notes it (docs/decisions/03). The text can
be anybody's; what is read is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from federation.api.names import Mirror
from federation.core.types import Admission, PodSetAssignment, TopologyAssignment
from federation.jobs.template import put_back

Json = dict[str, Any]

_ORIGINAL = "original"
_COUNTS = ("parallelism", "completions")
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def encode_admission(admission: Admission, before: Mapping[str, Any] | None = None) -> str:
    """The admission as annotation text; `before` is what the start replaces in the Job's spec."""
    body: Json = {
        "clusterQueue": admission.cluster_queue,
        "podSets": [_wire(assignment) for assignment in admission.pod_sets],
    }
    if before:
        body[_ORIGINAL] = before
    return json.dumps(body, separators=(",", ":"))


def renoted(text: str, admission: Admission) -> str:
    """The note of another admission of a Job that goes on; what its start replaced stands."""
    return encode_admission(admission, json.loads(text).get(_ORIGINAL))


def _wire(assignment: PodSetAssignment) -> Json:
    wire: Json = {
        "name": assignment.name,
        "count": assignment.count,
        "flavors": assignment.flavors,
        "usage": assignment.usage,
    }
    if assignment.topology is not None:
        wire["topology"] = {
            "levels": assignment.topology.levels,
            "domains": assignment.topology.domains,
        }
    return wire


def decode_admission(text: str) -> Admission | None:
    """The admission in an annotation; None if there is none or it is not one that can be charged.

    Names are text, amounts are whole numbers that are not negative.
    """
    try:
        body = json.loads(text)
        return Admission(_text(body["clusterQueue"]), tuple(map(_assignment, body["podSets"])))
    except _UNREADABLE:
        return None


def original(job: Json) -> Json:
    """The Job as it was before it was started; the same object if nothing was changed."""
    text = (job["metadata"].get("annotations") or {}).get(Mirror.ADMISSION.value, "")
    if _ORIGINAL not in text:
        return job
    try:
        before = json.loads(text)[_ORIGINAL]
        counts = {key: _amount(before[key]) for key in _COUNTS if key in before}
        parts = before.get("template", {})
        template = put_back(job["spec"]["template"], parts) if isinstance(parts, dict) else {}
    except _UNREADABLE:
        return job
    spec = {**job["spec"], **counts, **({"template": template} if template else {})}
    return {**job, "spec": spec}


def _assignment(wire: Json) -> PodSetAssignment:
    topology = wire.get("topology")
    return PodSetAssignment(
        _text(wire["name"]),
        _amount(wire["count"]),
        {_text(resource): _text(flavor) for resource, flavor in wire["flavors"].items()},
        {_text(resource): _amount(amount) for resource, amount in wire["usage"].items()},
        None if topology is None else _topology(topology),
    )


def _topology(wire: Json) -> TopologyAssignment:
    levels = tuple(map(_text, wire["levels"]))
    domains = tuple(
        (tuple(map(_text, values)), _amount(count)) for values, count in wire["domains"]
    )
    if any(len(values) != len(levels) for values, _ in domains):
        raise ValueError("a domain of a topology has a value for every level")
    return TopologyAssignment(levels, domains)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _amount(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not an amount")
    return value
