"""Which pods belong together, and a group of them as one object: a bundle.

A bundle has the metadata of its head, the pod with the lowest name, and all pods in its spec, so
that a group is a job like any other; a plain pod is a group of one. Kueue's groups have a name and
a number of pods, YuniKorn's an application id and task groups with their least members.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from federation.api.names import Annotation, Gate, Label, Mirror
from federation.jobs.pod_state import gated

Json = dict[str, Any]

YUNIKORN_APP = ("yunikorn.apache.org/app-id", "applicationId")
YUNIKORN_TASK_GROUPS = "yunikorn.apache.org/task-groups"
_REPLICA_SET = "ReplicaSet"
_CHARGED = ("overhead", "resources", "resourceClaims")
_SHAPE = ("nodeSelector", "affinity", "tolerations", "priorityClassName", "runtimeClassName")
_GROUP = "group/"


FAILED = "Failed"


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
        return Group(meta["namespace"], f"{_GROUP}{name}", _count(notes))
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
    Copies are what the manager has made of a group. Others take the place of those that failed.
    """
    found = list(pods)
    name = str((head or {}).get("metadata", {}).get("name", ""))
    total = group_of(head or found[0]).total if head or found else 0
    if not 0 < total < len(found) + (head is not None):
        return found
    first = [pod for pod in found if pod["metadata"]["name"] == name]
    others = [pod for pod in found if pod["metadata"]["name"] != name]
    others.sort(key=lambda pod: (seen is not None and _version(pod) > seen, *_turn(pod)))
    chosen = [*first, *others[: total - (head is not None)]]
    if copied(head or found[0]) and not retriable(found):
        return found
    return succeeded(chosen, found, head or head_of(chosen))


def head_of(pods: Iterable[Json]) -> Json:
    """Which of them stands for its group: the first by name, but for one that does so already."""
    return min(pods, key=lambda pod: (not noted(pod), str(pod["metadata"]["name"])))


def noted(obj: Json) -> bool:
    """Whether a head says that its group was started, here or elsewhere."""
    notes = obj["metadata"].get("annotations") or {}
    return Mirror.RUNS.value in notes or Mirror.ADMISSION.value in notes


def retriable(pods: Iterable[Json]) -> bool:
    """Whether others may take the place of pods that fail: those of Kueue's groups, unless one of
    them says otherwise.
    """
    found = list(pods)
    if not found or not group_of(found[0]).name.startswith(_GROUP) or group_of(found[0]).total < 2:
        return False
    notes = (pod["metadata"].get("annotations") or {} for pod in found)
    return all(said.get(Annotation.RETRIABLE_IN_GROUP.value) != "false" for said in notes)


def succeeded(chosen: list[Json], there: Iterable[Json], head: Json) -> list[Json]:
    """The pods of a group, with others that are `there` in the place of those that failed and ask
    for the same. A head stands for its group also when it is replaced, which is only while that
    runs: what is offered next begins with it.
    """
    found = list(there)
    if not any(phase_of(pod) == FAILED for pod in chosen) or not retriable(found):
        return chosen
    names = {pod["metadata"]["name"] for pod in chosen}
    spare = [pod for pod in found if pod["metadata"]["name"] not in names and _fresh(pod)]
    spare.sort(key=_turn)
    kept, done = list(chosen), not noted(head) or len(chosen) > group_of(head).total
    for failed in sorted((pod for pod in chosen if phase_of(pod) == FAILED), key=_turn):
        is_head = failed["metadata"]["name"] == head["metadata"]["name"]
        role = role_of(failed)
        successor = next((pod for pod in spare if role_of(pod) == role), None)
        if successor is None or (is_head and done):
            continue
        spare.remove(successor)
        kept.append(successor)
        if not is_head:
            kept.remove(failed)
    return kept


def _fresh(pod: Json) -> bool:
    return phase_of(pod) != FAILED and "deletionTimestamp" not in pod["metadata"]


def current(obj: Json) -> list[Json]:
    """The pods of a bundle: a head that was replaced is there, and does not count."""
    pods: list[Json] = obj["spec"]["pods"]
    if not 0 < group_of(obj).total < len(pods):
        return pods
    name = obj["metadata"]["name"]
    return [p for p in pods if p["metadata"]["name"] != name or phase_of(p) != FAILED]


def settled(pods: list[Json], head: Json) -> list[Json]:
    """The pods of a group in which a head that was replaced has its place again: it is to run
    anew, with those that have been in the group for longest.
    """
    over = len(pods) > max(1, group_of(head).total)
    return members(pods, head) if over and phase_of(head) != FAILED else pods


def newcomers(obj: Json, known: Iterable[str]) -> Json | None:
    """Those pods of a group that runs elsewhere which are not known there, and have never run, as a
    bundle; None if there are none.
    """
    there = set(known)
    fresh = [
        pod
        for pod in current(obj)
        if pod["metadata"]["name"] not in there and phase_of(pod) in ("", "Pending")
    ]
    return bundle(fresh) if fresh and there else None


def _version(pod: Json) -> int:
    return int(pod["metadata"].get("resourceVersion") or 0)


def _turn(pod: Json) -> tuple[bool, str, str]:
    meta = pod["metadata"]
    waits = held(pod) and phase_of(pod) in ("", "Pending")
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


def held(pod: Json) -> bool:
    """Whether it waits for Kueue's gate."""
    return gated(pod["spec"], Gate.ADMISSION)


def phase_of(pod: Json) -> str:
    """What its status says; '' for nothing."""
    return str((pod.get("status") or {}).get("phase") or "")


def role_of(pod: Json) -> str:
    """What pods have in common that are charged alike: eight hexadecimal digits. A copy keeps the
    name that it had at home, and a start the one that was charged; what others say is not heeded.
    """
    notes = pod["metadata"].get("annotations") or {}
    known = notes.get(Annotation.ROLE_HASH.value)
    if known and (copied(pod) or not held(pod)):
        return str(known)
    return hashlib.sha256(shape_of(pod).encode()).hexdigest()[:8]


def shape_of(pod: Json) -> str:
    """All of a pod that is charged, and where it may run."""
    spec = pod["spec"]
    shape = {key: spec.get(key) for key in _SHAPE}
    shape |= {key: spec[key] for key in _CHARGED if spec.get(key)}
    for part in ("initContainers", "containers"):
        shape[part] = [c.get("resources") for c in spec.get(part) or ()]
    beside = [c.get("restartPolicy") for c in spec.get("initContainers") or ()]
    if any(beside):
        shape["sidecars"] = beside
    return json.dumps(shape, sort_keys=True)
