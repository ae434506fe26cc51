"""Plain pods and groups of pods, as bundles (`pod_groups`).

They are held back by Kueue's scheduling gate, which cannot be put back: stopping is deleting. On
the management cluster they keep the gate for good, an annotation says that they run elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from federation.api.names import DEFAULT_POD_SET, Annotation, Gate, Label, Mirror
from federation.core.devices.wire.vendors import Vendors
from federation.core.facts import LocalJob, RemoteJob
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import Admission, PodSet, ResourceFlavor
from federation.jobs import admissibility, template
from federation.jobs.admission_note import decode_admission, encode_admission
from federation.jobs.batch_job import time_problem
from federation.jobs.containers import PodDefaults
from federation.jobs.device_pins import Template as Cards
from federation.jobs.devices import canonical
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import PodRole, Running
from federation.jobs.kinds.parts import spread, unplaced
from federation.jobs.kinds.pod_groups import (
    copied,
    current,
    group_of,
    held,
    phase_of,
    retriable,
    role_of,
    shape_of,
)
from federation.jobs.mirror import Identity, copy_metadata
from federation.jobs.pod_state import ENDED
from federation.jobs.pods import pod_set

Json = dict[str, Any]

_OF_THE_CLUSTER = ("nodeName", "priority", "preemptionPolicy", "serviceAccount")
_TOKEN_VOLUME = "kube-api-access-"


class Pods(GenericKind):
    """See JobKind."""

    bundled = deletes = True

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind. Pods of a group that are alike are one pod set, named by what they have in
        common, as Kueue does.
        """
        found: dict[str, list[Json]] = {}
        for pod in current(obj):
            found.setdefault(role_of(pod), []).append(pod)
        if group_of(obj).total == 1 and len(found) == 1:
            found = {DEFAULT_POD_SET: next(iter(found.values()))}
        return tuple(
            PodRole(name, len(pods), _template(pods[0])) for name, pods in sorted(found.items())
        )

    def _named(self, obj: Json) -> Iterator[tuple[str, Json]]:
        """Each pod with the name of its pod set."""
        pods = current(obj)
        alone = len(pods) == 1 and group_of(obj).total == 1
        for pod in pods:
            yield DEFAULT_POD_SET if alone else role_of(pod), pod

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """See JobKind. What is new in a template is added to each of its pods."""
        before = {role.name: role.template for role in self.roles(obj)}
        pods = [
            _added(pod, before[name], templates[name]) if name in templates else pod
            for name, pod in self._named(obj)
        ]
        return {**obj, "spec": {**obj["spec"], "pods": pods}}

    def original(self, obj: Json) -> Json:
        """See JobKind. What they ask for is not changed by a start."""
        return obj

    def pod_sets(self, obj: Json, defaults: PodDefaults | None = None) -> tuple[PodSet, ...]:
        """See JobKind."""
        return tuple(
            pod_set(r.name, r.count, r.template, defaults=defaults) for r in self.roles(obj)
        )

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        total, there = group_of(obj).total, len(current(obj))
        if there != total:
            return f"the group has {there} pods, and says that {total} belong to it"
        if text := _apart(obj["spec"]["pods"]):
            return text
        roles = self.roles(obj)
        sets = [(role.name, role.count, role.template) for role in roles]
        return admissibility.problem(sets, defaults) or unplaced(roles) or time_problem(obj)

    def _live(self, obj: Json) -> str:
        """See LocalJob. Which pods a group has: others take the place of those that fail."""
        pods = current(obj)
        if not retriable(pods):
            return ""
        text = " ".join(sorted(str(pod["metadata"]["name"]) for pod in pods))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def _started(self, obj: Json) -> bool:
        return not self._shown_suspended(obj)

    def _management_problem(self, obj: Json) -> str:
        if all(held(pod) for pod in obj["spec"]["pods"]):
            return ""
        return (
            f"it has no scheduling gate {Gate.ADMISSION}, so this cluster's own scheduler places"
            " it: delete it and create it again with the gate (the admission policy in"
            " deploy/policies adds it by itself)"
        )

    def remote_manifest(
        self, obj: Json, identity: Identity, admission: Admission | None, vendors: Vendors
    ) -> Json:
        """See JobKind. Gated, without what belongs to one cluster."""
        pods = [_copy(pod, name, identity, vendors) for name, pod in self._named(obj)]
        name = obj["metadata"]["name"]
        head = next((pod for pod in pods if pod["metadata"]["name"] == name), pods[0])
        if live := self._live(obj):
            head["metadata"]["annotations"][Mirror.LIVE.value] = live
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": deepcopy(head["metadata"]),
            "spec": {"pods": pods},
        }

    def limit_time(self, body: Json, used_s: int) -> None:
        """See JobKind."""
        for pod in body["spec"]["pods"]:
            if limit := pod["spec"].get("activeDeadlineSeconds"):
                pod["spec"]["activeDeadlineSeconds"] = max(1, limit - used_s)

    def merge_status(self, local: Mapping[str, Any], remote: Mapping[str, Any]) -> Json:
        """See JobKind. Of those pods that the management cluster has."""
        mine = local.get("pods") or {}
        return {"pods": {n: s for n, s in (remote.get("pods") or {}).items() if n in mine}}

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """See JobKind. Pods of which nothing is said there have nothing to show."""
        mine = local.status.get("pods") or {}
        told = self.merge_status(local.status, remote.status)["pods"]
        return any(status and status != mine[name] for name, status in told.items())

    def reset_status(self, status: Mapping[str, Any], now: str) -> Json:
        """See JobKind. They wait for their gate again."""
        waits = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "queued again",
            "lastTransitionTime": now,
        }
        told = {"phase": "Pending", "conditions": [waits]}
        return {"pods": dict.fromkeys(status.get("pods") or {}, told)}

    def managed_elsewhere(self, obj: Json) -> bool:
        """See JobKind. Pods that never had the gate are the scheduler's."""
        charged = Mirror.ADMISSION.value in (obj["metadata"].get("annotations") or {})
        return not (self.suspended(obj) or charged or copied(obj))

    def suspended(self, obj: Json) -> bool:
        """See JobKind. The head is let go last."""
        name = obj["metadata"]["name"]
        head = (pod for pod in obj["spec"]["pods"] if pod["metadata"]["name"] == name)
        return any(held(pod) for pod in head)

    def running(self, obj: Json) -> Running:
        """See JobKind."""
        waits, pods = self.suspended(obj), current(obj)
        live = [pod for pod in pods if phase_of(pod) not in ENDED]
        return Running(
            active=0 if waits else len(live),
            ready=sum(map(_ready, live)),
            succeeded=len(pods) - len(live),
            started=not waits,
            suspended=waits,
        )

    def _busy(self, obj: Json) -> bool:
        return bool(self.running(obj).active)

    def _lacking(self, obj: Json) -> bool:
        phases = {phase_of(pod) for pod in current(obj)}
        return "Failed" in phases and phases <= {*ENDED} and retriable(current(obj))

    def _torn(self, obj: Json) -> bool:
        pods = current(obj)
        gone = copied(obj) and 0 < len(pods) < group_of(obj).total
        return gone and all(phase_of(pod) in ENDED for pod in pods)

    def _ended(self, obj: Json) -> tuple[str, str]:
        pods = current(obj)
        phases = [phase_of(pod) for pod in pods]
        if not phases or _serving(obj) or any(phase not in ENDED for phase in phases):
            return "", ""
        if len(pods) < group_of(obj).total and (copied(obj) or retriable(pods)):
            return "", ""  # nobody knows what became of those that are gone
        failed = [pod for pod in pods if phase_of(pod) == "Failed"]
        if self._lacking(obj):
            return "", ""  # others may take their place
        if failed:
            why = (failed[0].get("status") or {}).get("message") or "it exited with an error"
            return "Failed", f"{len(failed)} of {len(phases)} pods failed: {why}"
        return "Complete", f"{len(phases)} of {len(phases)} pods succeeded"

    def ready(self, obj: Json) -> bool:
        """See GenericKind."""
        pods = current(obj)
        return bool(pods) and all(_ready(pod) or phase_of(pod) == "Succeeded" for pod in pods)

    def reclaimable(self, asked: Json, obj: Json) -> dict[str, int]:
        """See JobKind. Those that have succeeded, but of a group that never ends."""
        found: dict[str, int] = {}
        for name, pod in () if _serving(obj) else self._named(obj):
            if phase_of(pod) == "Succeeded":
                found[name] = found.get(name, 0) + 1
        return found

    def admission_patch(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
        cards: Cards | None = None,
    ) -> Json:
        """See JobKind. One patch for each pod, by name."""
        admission = spread(admission)
        patches = _let_go(self._named(obj), admission, flavors, updates)
        meta = obj["metadata"]
        note = {Mirror.ADMISSION.value: encode_admission(admission)}
        return {
            "metadata": {
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
                "annotations": note,
            },
            "spec": {"pods": patches},
        }

    def late_patch(self, obj: Json, flavors: Iterable[ResourceFlavor]) -> Json | None:
        """See JobKind. Those that take the place of others have what these were charged."""
        meta, flavors = obj["metadata"], list(flavors)
        note = (meta.get("annotations") or {}).get(Mirror.ADMISSION.value, "")
        admission = decode_admission(note)
        if admission is None or self.suspended(obj):
            return None
        room = {pods.name: pods.count for pods in admission.pod_sets}
        late: list[tuple[str, Json]] = []
        for name, pod in self._named(obj):
            room[name] = room.get(name, 0) - (not held(pod))
        for name, pod in self._named(obj):
            if held(pod) and room[name] > 0:
                room[name] -= 1
                late.append((name, pod))
        if not late:
            return None
        was = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        return {"metadata": was, "spec": {"pods": _let_go(late, admission, flavors)}}

    def restore_patch(self, obj: Json) -> Json | None:
        """See JobKind. Nothing of a pod that was started is used again."""
        return None


def _apart(pods: list[Json]) -> str:
    """Why pods are not one group; '' if they may be."""
    queues = {(pod["metadata"].get("labels") or {}).get(Label.QUEUE_NAME.value) for pod in pods}
    if len(queues) > 1:
        named = ", ".join(sorted(map(str, queues)))
        return f"the pods of the group name different queues ({named}): they need the same one"
    shapes: dict[str, str] = {}
    for pod in filter(held, pods):  # a start adds to one after the other
        role, shape = role_of(pod), shape_of(pod)
        if shapes.setdefault(role, shape) != shape:
            return f"pods with {Annotation.ROLE_HASH} {role} do not ask for the same: remove it"
    return ""


def _let_go(
    named: Iterable[tuple[str, Json]],
    admission: Admission,
    flavors: Iterable[ResourceFlavor],
    updates: Iterable[PodSetUpdate] = (),
) -> Json:
    """The patches, by name, that let pods go where they were admitted."""
    given = {pods.name: pods for pods in admission.pod_sets}
    patches, flavors, updates = {}, list(flavors), list(updates)
    for name, pod in named:
        after = _template(pod)
        if name in given:
            added = template.additions(given[name], flavors, updates)
            after = template.started(after, given[name], added)
        gates = [g for g in after["spec"]["schedulingGates"] if g["name"] != Gate.ADMISSION]
        after["spec"]["schedulingGates"] = gates
        notes = after["metadata"].get("annotations") or {}
        after["metadata"]["annotations"] = {**notes, Annotation.ROLE_HASH.value: name}
        patches[pod["metadata"]["name"]] = template.merge_patch(_template(pod), after)
    return patches


def _template(pod: Json) -> Json:
    meta = pod["metadata"]
    kept = {key: meta[key] for key in ("labels", "annotations") if meta.get(key)}
    return deepcopy({"metadata": kept, "spec": pod["spec"]})


def _copy(pod: Json, role: str, identity: Identity, vendors: Vendors) -> Json:
    spec = {k: deepcopy(v) for k, v in pod["spec"].items() if k not in _OF_THE_CLUSTER}
    spec["volumes"] = [v for v in spec.get("volumes") or () if not _of_token(v)]
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            mounts = container.get("volumeMounts") or ()
            container["volumeMounts"] = [m for m in mounts if not _of_token(m)]
    gates = [g for g in spec.get("schedulingGates") or () if g["name"] != Gate.ADMISSION]
    spec["schedulingGates"] = [{"name": Gate.ADMISSION.value}, *gates]
    meta = copy_metadata(pod, identity)
    meta["annotations"][Annotation.ROLE_HASH.value] = role
    made = canonical({"metadata": meta, "spec": spec}, vendors)
    return {"apiVersion": "v1", "kind": "Pod", **made}


def _of_token(named: Json) -> bool:
    """The API server adds it to each pod anew."""
    return str(named.get("name", "")).startswith(_TOKEN_VOLUME)


def _added(pod: Json, before: Json, after: Json) -> Json:
    """A pod with what is in `after` and not in `before`."""
    made = deepcopy(pod)
    for part, field in template.PLACES:
        was = (before.get(part) or {}).get(field)
        now = (after.get(part) or {}).get(field)
        if now == was:
            continue
        holder = made[part]
        if isinstance(now, dict):
            holder[field] = {**(holder.get(field) or {}), **_news(was or {}, now)}
        else:
            known = holder.get(field) or []
            holder[field] = [*known, *(item for item in now or () if item not in known)]
    for part in ("initContainers", "containers"):
        for index, container in enumerate(after["spec"].get(part) or ()):
            was_env = (before["spec"][part][index]).get("env") or []
            fresh = [v for v in container.get("env") or () if v not in was_env]
            names = {variable["name"] for variable in fresh}
            own = made["spec"][part][index]
            kept = [v for v in own.get("env") or () if v["name"] not in names]
            if fresh:
                own["env"] = [*kept, *fresh]
    grace = "terminationGracePeriodSeconds"
    if after["spec"].get(grace) != before["spec"].get(grace):
        made["spec"][grace] = after["spec"][grace]
    return made


def _news(was: Json, now: Json) -> Json:
    return {key: value for key, value in now.items() if was.get(key) != value}


def _serving(obj: Json) -> bool:
    notes = obj["metadata"].get("annotations") or {}
    return bool(notes.get(Annotation.POD_GROUP_SERVING.value) == "true")


def _ready(pod: Json) -> bool:
    told = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in told)
