"""Volcano's Job: its webhook lets nobody change the pod templates of one that is there, and some
have a number of pods that cannot be 0. So its copies are whole, and a scheduling gate in their
templates holds the pods, on the management cluster too. The agent lets the pods of a copy go one by
one, also those that Volcano makes later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from federation.api.kinds.paths import EACH, number, places, put
from federation.api.names import Gate, Mirror
from federation.core.facts import LocalJob, RemoteJob
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import Admission, ResourceFlavor
from federation.jobs import template
from federation.jobs.admission_note import decode_admission, encode_admission
from federation.jobs.containers import PodDefaults
from federation.jobs.device_pins import Template as Cards
from federation.jobs.kinds.parts import given_to, spread
from federation.jobs.kinds.pod_groups import copied
from federation.jobs.kinds.scaled import Scaled, gated, waits

Json = dict[str, Any]

_TASK, _INDEX = "volcano.sh/task-spec", "volcano.sh/task-index"
_PODS = "pods"
"""In the note of an admission: what each pod of a pod set is given."""
_MOST_DIGITS = 9
"""Of the index of a pod, which whoever makes pods may write."""


class VolcanoJob(Scaled):
    """See JobKind."""

    lets_go = True

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind. Earlier versions made copies without pods, which nothing would start."""
        waiting = copied(obj) and not _note(obj)
        if waiting and not all(waits(role.template) for role in self.roles(obj)):
            return "its copy was made by an earlier version: it is offered again"
        return super().problem(obj, defaults)

    def _held(self, body: Json) -> Json:
        """With the gate. A number of pods that is left out is 0 for Volcano, and counted as 1."""
        for place, task in places(body, ("spec", "tasks", EACH)):
            if isinstance(task, dict) and task.get("replicas") is None:
                body = put(body, (*place, "replicas"), 1)
        return self.with_templates(body, {r.name: gated(r.template) for r in self.roles(body)})

    def suspended(self, obj: Json) -> bool:
        """See JobKind. A copy is until its admission is noted."""
        return not copied(obj) or not _note(obj)

    def admission_patch(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
        cards: Cards | None = None,
    ) -> Json:
        """See JobKind. It notes what each pod gets: see `pod_patch`."""
        flavors, updates, admission = list(flavors), list(updates), spread(admission)
        asked = {role.name: role.template for role in self.roles(obj)}
        pods: Json = {}
        for given in given_to(admission, asked):
            was = asked[given.name]
            added = template.additions(given, flavors, updates)
            pods[given.name] = template.replaced(template.started(was, given, added), was)
        meta, note = obj["metadata"], encode_admission(admission, {_PODS: pods})
        return {
            "metadata": {
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
                "annotations": {Mirror.ADMISSION.value: note},
            }
        }

    def pod_patch(self, obj: Json, pod: Json) -> Json | None:
        """See JobKind. Pods beyond the number that was admitted stay held."""
        admission, notes = decode_admission(_note(obj)), pod["metadata"].get("annotations") or {}
        if admission is None or not waits(pod):
            return None
        name, index = str(notes.get(_TASK, "")).lower(), str(notes.get(_INDEX, ""))
        room = {given.name: given.count for given in admission.pod_sets}.get(name, 0)
        parts = _parts(obj).get(name)
        sound = index.isascii() and index.isdecimal() and len(index) <= _MOST_DIGITS
        if parts is None or not sound or int(index) >= room:
            return None
        return _let_go(pod, parts)

    def _ended(self, obj: Json) -> tuple[str, str]:
        """Volcano may say Failed while pods are ending."""
        ending = number(obj, ("status", "terminating"), 0) > 0
        return ("", "") if ending else super()._ended(obj)

    def _shown(self, obj: Json) -> Json:
        """Until it has ended the status at home is that of Volcano's controllers, if any run there,
        to which it is a job whose pods wait.
        """
        return obj if self.finished(obj) else {**obj, "status": {}}

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """See JobKind. Volcano goes on to write in the status of one that has ended."""
        return bool(remote.finished) and not local.finished


def _note(obj: Json) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(Mirror.ADMISSION.value) or "")


def _parts(obj: Json) -> Json:
    """What pods are given, by pod set."""
    try:
        found = json.loads(_note(obj))["original"][_PODS]
        return {name: parts for name, parts in found.items() if isinstance(parts, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _let_go(pod: Json, parts: Json) -> Json:
    """The patch: lists are replaced as wholes, so that the version is a precondition."""
    meta, spec, more = pod["metadata"], pod["spec"], parts.get("spec") or {}
    known = spec.get("tolerations") or []
    tolerations = [one for one in more.get("tolerations") or () if one not in known]
    gates = [gate for gate in spec["schedulingGates"] if gate["name"] != Gate.ADMISSION]
    return {
        "metadata": {
            **(parts.get("metadata") or {}),
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        },
        "spec": {
            "nodeSelector": more.get("nodeSelector") or {},
            "tolerations": [*known, *tolerations],
            "schedulingGates": gates,
        },
    }
