"""Kinds that nothing holds back: their copies are created with no pods, and scaled up to start, but
Volcano's Job (`volcano`).

What they had is noted on the copy. Their templates may not be changed everywhere, and to scale one
down again tells nobody that its pods are gone: stopping is deleting the copy. Objects that people
create on a worker are its own affair.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from federation.api.kinds.paths import Place, first, number, places, put
from federation.api.names import Gate, Mirror
from federation.core.facts import LocalJob, RemoteJob
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.kinds.kind import Running
from federation.jobs.kinds.pod_groups import copied

Json = dict[str, Any]


class Scaled(GenericKind):
    """See JobKind."""

    deletes = True

    def original(self, obj: Json) -> Json:
        """See JobKind. With the numbers of pods that it had."""
        made = super().original(obj)
        for place, count in _noted(obj):
            made = put(made, place, count)
        return made

    def _fields(self, obj: Json) -> list[tuple[Place, Any]]:
        return [found for path in self.row.scale for found in places(obj, path)]

    def _held(self, body: Json) -> Json:
        """Without pods, and without the gate that holds them on the management cluster."""
        body = self._written(body)
        fields = self._fields(body)
        note = json.dumps([[list(place), value] for place, value in fields])
        body["metadata"]["annotations"][Mirror.REPLICAS.value] = note
        for place, _ in fields:
            body = put(body, place, 0)
        return self.with_templates(body, {r.name: _ungated(r.template) for r in self.roles(body)})

    def _written(self, body: Json) -> Json:
        """With the numbers that are left out: defaults would give it pods."""
        for path in self.row.scale:
            for at, holder in places(body, path[:-1]):
                if first(holder, path[-1:]) is None:
                    body = put(body, (*at, path[-1]), 1)
        return body

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind. With no pods it would look as if it was held back for ever."""
        if text := super().problem(obj, defaults):
            return text
        if all(role.count == 0 for role in self.roles(self.original(obj))):
            return "it asks for no pods: there is nothing to run until it is scaled up"
        return ""

    def suspended(self, obj: Json) -> bool:
        """See JobKind. On the management cluster it is for good."""
        if not copied(obj):
            return True
        return all(value == 0 for _, value in self._fields(obj))

    def _management_problem(self, obj: Json) -> str:
        if all(waits(r.template) for r in self.roles(obj)):
            return ""
        return (
            f"its pod template has no scheduling gate {Gate.ADMISSION}, so this cluster's own"
            f" scheduler places its pods: delete the {self.kind} and create it again (the admission"
            " policy in deploy/policies adds the gate by itself)"
        )

    def managed_elsewhere(self, obj: Json) -> bool:
        """See JobKind."""
        return not copied(obj)

    def suspend(self, *, suspend: bool) -> Json:
        """See JobKind. A start is a patch that has the numbers."""
        return {}

    def running(self, obj: Json) -> Running:
        """See JobKind."""
        held = self.suspended(obj)
        counts = sum(role.count for role in self.roles(obj))
        live = not (held or self.finished(obj))
        ready = counts if self.ready(obj) else 0
        return Running(active=int(live), ready=ready, started=not held, suspended=held)

    def _busy(self, obj: Json) -> bool:
        return False

    def ready(self, obj: Json) -> bool:
        """See GenericKind."""
        if self.finished(obj):
            return True
        told = sum(number(obj, path, 0) for path in self.row.active)
        wanted = number(obj, self.row.wanted, 1)
        return not self.suspended(obj) and told >= wanted

    def local_job(self, obj: Json, defaults: PodDefaults | None = None) -> LocalJob:
        """See JobKind."""
        return super().local_job(self._shown(obj), defaults)

    def _shown(self, obj: Json) -> Json:
        """What its controller on the management cluster says is none of ours."""
        return {**obj, "status": {}}

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """See JobKind."""
        return False


def _noted(obj: Mapping[str, Any]) -> list[tuple[Place, int]]:
    """The numbers of pods that are noted on a copy."""
    text = (obj["metadata"].get("annotations") or {}).get(Mirror.REPLICAS.value, "")
    try:
        found = [(tuple(place), value) for place, value in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return []
    return [(place, value) for place, value in found if _fits(obj, place, value)]


def _fits(obj: Mapping[str, Any], place: Place, value: Any) -> bool:
    """Whether there is a number at that place."""
    at: Any = obj
    for key in place:
        inside = isinstance(at, dict) and isinstance(key, str) and key in at
        listed = isinstance(at, list) and isinstance(key, int) and 0 <= key < len(at)
        if not (inside or listed):
            return False
        at = at[key]
    return type(at) is int and type(value) is int


def waits(pod: Json) -> bool:
    """Whether a pod, or all of a template, is held by the gate."""
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate.get("name") == Gate.ADMISSION for gate in gates)


def gated(template: Json) -> Json:
    """A pod template with the gate that holds its pods."""
    spec = template["spec"]
    if waits(template):
        return template
    gates = [*(spec.get("schedulingGates") or ()), {"name": Gate.ADMISSION.value}]
    return {**template, "spec": {**spec, "schedulingGates": gates}}


def _ungated(template: Json) -> Json:
    gates = template["spec"].get("schedulingGates")
    if not gates:
        return template
    left = [gate for gate in gates if gate.get("name") != Gate.ADMISSION]
    return {**template, "spec": put(template["spec"], ("schedulingGates",), left or None)}
