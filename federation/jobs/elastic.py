"""A job whose number of pods changes while it runs: what stands on its copy.

The manager says on the copy how large it may be, the agent makes it so: its spec, which anybody may
read, never asks for more than what the worker has charged. How a kind says how large it is to be
is its own affair (`JobKind.resized`, `sized` and `resize`); here is that of a batch/v1 Job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from federation.api.names import DEFAULT_POD_SET, Mirror
from federation.core.sizes import Asked, Counts
from federation.core.types import Admission
from federation.jobs import scaling
from federation.jobs.admission_note import renoted
from federation.jobs.kinds.kind import JobKind

Json = dict[str, Any]

_COUNTS = ("parallelism", "completions")
_LARGEST = 2**31 - 1

NOTHING_ASKED: dict[str, str | None] = {
    Mirror.GROW_TO.value: None,
    Mirror.GROW_REFUSED.value: None,
}
"""The annotations that take away what the agent was asked for, and its answer."""


def whole(value: Any) -> bool:
    """Whether it can be a number of pods."""
    return type(value) is int and 0 <= value <= _LARGEST


# batch/v1 Job


def resized(job: Json, pods: Counts) -> Json:
    """The fields of the spec that have a copy of a Job run so many pods. Of Indexed Jobs whose
    completions equal their parallelism these follow, as Kubernetes wants it.
    """
    spec, count = job["spec"], pods.get(DEFAULT_POD_SET, 0)
    equal = spec.get("completions") == spec.get("parallelism")
    if spec.get("completionMode") == "Indexed" and equal:
        return {"parallelism": count, "completions": count}
    return {"parallelism": count}


def resize(said: Json) -> Json:
    """The merge patch of a Job's spec that does what `resized` says."""
    return {key: said[key] for key in _COUNTS if key in said}


def sized(copy: Json, said: Json) -> Counts:
    """The pods that a copy would have; empty if that cannot be read."""
    counts = resize(said)
    if "parallelism" not in counts or not all(map(whole, counts.values())):
        return {}
    return {DEFAULT_POD_SET: scaling.pod_count({**copy["spec"], **counts})}


# All kinds


def ask_patch(said: Json) -> Json:
    """The merge patch by which the agent is asked to let a copy be as large as `resized` says."""
    text = json.dumps(said, separators=(",", ":"))
    notes = {Mirror.GROW_TO.value: text, Mirror.GROW_REFUSED.value: None}
    return {"metadata": {"annotations": notes}}


def _said(copy: Json) -> Json:
    """What stands on a copy of how large it is to be; empty for nothing, or for no JSON object."""
    text = (copy["metadata"].get("annotations") or {}).get(Mirror.GROW_TO.value, "")
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def asked(copy: Json, sized: Callable[[Json, Json], Counts]) -> Asked:
    """What the agent was asked for of a copy, and whether it said no. What `sized` of its kind
    cannot read counts as refused: the manager takes it away.
    """
    annotations: Mapping[str, str] = copy["metadata"].get("annotations") or {}
    if not annotations.keys() & NOTHING_ASKED.keys():
        return Asked()
    pods = sized(copy, _said(copy))
    refused = str(annotations.get(Mirror.GROW_REFUSED.value, ""))
    if Mirror.GROW_TO.value in annotations and not pods:
        refused = refused or "Misconfigured: what it is to have cannot be read"
    return Asked(pods, refused)


def resize_patch(kind: JobKind, copy: Json, said: Json) -> Json:
    """The merge patch that gives a copy, as it was read, the numbers that `resized` says. It loses
    against any other change.
    """
    meta = copy["metadata"]
    was = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {"metadata": was, "spec": kind.resize(copy, said)}


def cut_patch(kind: JobKind, copy: Json, pods: Counts) -> Json:
    """The merge patch by which the agent takes away the pods that it has not charged; what the
    manager asked for stands.
    """
    return resize_patch(kind, copy, kind.resized(copy, pods))


def grown_patch(kind: JobKind, copy: Json, admission: Admission) -> Json:
    """The merge patch by which the agent gives a copy the pods that it has charged. It loses
    against whatever the manager has said of them since.
    """
    patch = resize_patch(kind, copy, _said(copy))
    note = renoted(copy["metadata"]["annotations"][Mirror.ADMISSION.value], admission)
    patch["metadata"]["annotations"] = {Mirror.ADMISSION.value: note, **NOTHING_ASKED}
    return patch
