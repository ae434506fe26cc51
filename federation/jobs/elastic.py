"""A batch/v1 Job whose number of pods changes while it runs: what stands on its copy.

The manager says on the copy how large it may be, the agent makes it so: parallelism, which anybody
may read, is never more than what the worker has charged.
"""

from __future__ import annotations

import json
from typing import Any

from federation.api.names import Mirror
from federation.core.sizes import Asked
from federation.core.types import Admission
from federation.jobs import scaling
from federation.jobs.admission_note import renoted

Json = dict[str, Any]

_COUNTS = ("parallelism", "completions")
_LARGEST = 2**31 - 1


def resized(job: Json, pods: int) -> dict[str, int]:
    """The fields of the spec that have a copy of a Job run so many pods. Of Indexed Jobs whose
    completions equal their parallelism these follow, as Kubernetes wants it.
    """
    spec = job["spec"]
    equal = spec.get("completions") == spec.get("parallelism")
    if spec.get("completionMode") == "Indexed" and equal:
        return {"parallelism": pods, "completions": pods}
    return {"parallelism": pods}


def fewer_patch(job: Json, pods: int) -> Json:
    """The merge patch that has a copy run fewer pods; what it was to have is over."""
    return {"metadata": {"annotations": dict(NOTHING_ASKED)}, "spec": resized(job, pods)}


def cut_patch(copy: Json, pods: int) -> Json:
    """The merge patch by which the agent takes away the pods that it has not charged; what the
    manager asked for stands. It loses against any other change.
    """
    meta = copy["metadata"]
    was = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {"metadata": was, "spec": resized(copy, pods)}


def ask_patch(job: Json, pods: int) -> Json:
    """The merge patch by which the agent is asked to let a copy have so many pods."""
    text = json.dumps(resized(job, pods), separators=(",", ":"))
    notes = {Mirror.GROW_TO.value: text, Mirror.GROW_REFUSED.value: None}
    return {"metadata": {"annotations": notes}}


NOTHING_ASKED: dict[str, str | None] = {
    Mirror.GROW_TO.value: None,
    Mirror.GROW_REFUSED.value: None,
}
"""The annotations that take away what the agent was asked for, and its answer."""


def asked_counts(copy: Json) -> dict[str, int]:
    """The fields of the spec that a copy is to have; empty if it is asked for nothing, or for
    what nobody can read.
    """
    text = (copy["metadata"].get("annotations") or {}).get(Mirror.GROW_TO.value, "")
    try:
        found = json.loads(text)
        counts = {key: found[key] for key in _COUNTS if key in found}
    except (ValueError, TypeError, RecursionError):
        return {}
    numbers = all(type(n) is int and 0 <= n <= _LARGEST for n in counts.values())
    return counts if numbers and "parallelism" in counts else {}


def asked(copy: Json) -> Asked:
    """What the agent was asked for of a copy, and whether it said no."""
    annotations = copy["metadata"].get("annotations") or {}
    if not annotations.keys() & NOTHING_ASKED.keys():
        return Asked()
    counts = asked_counts(copy)
    pods = scaling.pod_count({**copy["spec"], **counts}) if counts else 0
    refused = str(annotations.get(Mirror.GROW_REFUSED.value, ""))
    if Mirror.GROW_TO.value in annotations and not counts:
        refused = refused or "Misconfigured: what it is to have cannot be read"
    return Asked(pods, refused)


def grown_patch(copy: Json, admission: Admission) -> Json:
    """The merge patch by which the agent gives a copy the pods that it has charged. It loses
    against whatever the manager has said of them since.
    """
    meta = copy["metadata"]
    note = renoted(meta["annotations"][Mirror.ADMISSION.value], admission)
    return {
        "metadata": {
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
            "annotations": {Mirror.ADMISSION.value: note, **NOTHING_ASKED},
        },
        "spec": asked_counts(copy),
    }
