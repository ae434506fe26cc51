"""Which pods belong together, and a group of them as one object: a bundle.

A bundle has the metadata of its head, the pod with the lowest name, and all pods in its spec, so
that a group is a job like any other; a plain pod is a group of one. Kueue's groups have a name and
a number of pods, YuniKorn's an application id and task groups with their least members.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from federation.api.names import Annotation, Gate, Label, Mirror
from federation.jobs.pod_state import gated

Json = dict[str, Any]

YUNIKORN_APP = ("yunikorn.apache.org/app-id", "applicationId")
YUNIKORN_TASK_GROUPS = "yunikorn.apache.org/task-groups"
_REPLICA_SET = "ReplicaSet"


class Group(NamedTuple):
    """Whose pod it is. `total` pods belong to it; 0 if that is not said, which a group has to."""

    namespace: str
    name: str
    total: int


def own_job(pod: Json) -> bool:
    """Whether a pod is a job of its own: others belong to one that is queued as a whole. The pods
    of a Deployment are queued one by one, as Kueue does.
    """
    owners = pod["metadata"].get("ownerReferences") or ()
    return all(o.get("kind") == _REPLICA_SET for o in owners if o.get("controller"))


def group_of(pod: Json) -> Group:
    """The group of a pod; one of its own where it names none."""
    meta = pod["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    if name := labels.get(Label.POD_GROUP_NAME.value):
        return Group(meta["namespace"], f"group/{name}", _count(notes))
    app = next(filter(None, (notes.get(k) or labels.get(k) for k in YUNIKORN_APP)), "")
    if app and YUNIKORN_TASK_GROUPS in notes:
        return Group(meta["namespace"], f"app/{app}", _members(notes[YUNIKORN_TASK_GROUPS]))
    return Group(meta["namespace"], f"pod/{meta['name']}", 1)


def _count(notes: Mapping[str, str]) -> int:
    text = notes.get(Annotation.POD_GROUP_TOTAL_COUNT.value, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else 0


def _members(text: str) -> int:
    try:
        return sum(max(0, int(group["minMember"])) for group in json.loads(text))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0


def whole(obj: Json) -> bool:
    """Whether no pod of a bundle is missing."""
    return len(obj["spec"]["pods"]) >= group_of(obj).total


def members(pods: Iterable[Json], head: Json | None = None, seen: int | None = None) -> list[Json]:
    """Of the pods of a group as many as it is to have: the others are in excess, and stay held.

    Kueue's order: those that have been let go or have run come first, then the oldest; before all
    those that are as they were at version `seen`. The head keeps its place, also when it is gone.
    Copies are what the manager has made of a group.
    """
    found = list(pods)
    name = str((head or {}).get("metadata", {}).get("name", ""))
    total = group_of(head or found[0]).total if head or found else 0
    if not 0 < total < len(found) + (head is not None) or copied(head or found[0]):
        return found
    first = [pod for pod in found if pod["metadata"]["name"] == name]
    others = [pod for pod in found if pod["metadata"]["name"] != name]
    others.sort(key=lambda pod: (seen is not None and _version(pod) > seen, *_turn(pod)))
    return [*first, *others[: total - (head is not None)]]


def _version(pod: Json) -> int:
    return int(pod["metadata"].get("resourceVersion") or 0)


def _turn(pod: Json) -> tuple[bool, str, str]:
    meta, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    waits = gated(pod["spec"], Gate.ADMISSION) and phase in (None, "", "Pending")
    return waits, str(meta.get("creationTimestamp", "")), str(meta["name"])


def bundle(pods: Iterable[Json], *, head: Json | None = None) -> Json:
    """Pods of one group as one object; `head` has been its head before, though it may be gone."""
    members = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
    first = head or members[0]
    meta = {k: v for k, v in first["metadata"].items() if k != "deletionTimestamp"}
    versions = [_version(pod) for pod in (*members, first)]
    ending = [pod["metadata"].get("deletionTimestamp") for pod in members]
    if any(ending):
        meta["deletionTimestamp"] = next(filter(None, ending))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "resourceVersion": str(max(versions))},
        "spec": {"pods": members},
        "status": _status(members),
    }


def _status(members: Iterable[Json]) -> Json:
    told = {pod["metadata"]["name"]: pod.get("status") or {} for pod in members}
    return {"pods": told} if any(told.values()) else {}


def without_class(obj: Json, name: str) -> Json:
    """The bundle with no pod of that PriorityClass: where the pods are created next, they get the
    default of that cluster. What they were charged as is not changed.
    """

    def bare(pod: Json) -> Json:
        if not name or pod["spec"].get("priorityClassName") != name:
            return pod
        spec = {key: value for key, value in pod["spec"].items() if key != "priorityClassName"}
        return {**pod, "spec": spec}

    return {**obj, "spec": {**obj["spec"], "pods": [bare(pod) for pod in obj["spec"]["pods"]]}}


def copied(obj: Json) -> bool:
    """Whether it is a copy."""
    meta = obj["metadata"]
    marked = (meta.get("labels") or {}).get(Label.MULTIKUEUE_ORIGIN.value)
    return bool(marked and (meta.get("annotations") or {}).get(Mirror.LOCAL_UID.value))
