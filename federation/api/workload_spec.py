"""The spec of a Workload as far as it follows its job: queue, priority, pods.

What the pods ask for is kept as a digest, which tells whether they were edited. Of a template
counts what admission looks at: requests, node selector, tolerations, affinity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from federation.api.names import Label
from federation.core.facts import Record

Json = dict[str, Any]

_FIELDS = ("nodeSelector", "tolerations", "affinity", "overhead", "resources")
_KINDS = ("containers", "initContainers")


def shape(pod_sets: Iterable[Mapping[str, Any]]) -> str:
    """A digest of `spec.podSets`; '' if there are none. Nulls and empty fields count as absent."""
    wanted = [_pod_set(pods) for pods in pod_sets]
    if not wanted:
        return ""
    text = json.dumps(wanted, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:16]


def _pod_set(pods: Mapping[str, Any]) -> Json:
    spec = (pods.get("template") or {}).get("spec") or {}
    asked = {
        kind: [_filled(c.get("resources")) for c in spec.get(kind) or () if isinstance(c, dict)]
        for kind in _KINDS
        if spec.get(kind)
    }
    own = {field: _filled(spec[field]) for field in _FIELDS if spec.get(field)}
    return {"name": pods.get("name"), "count": pods.get("count"), "min": pods.get("minCount"),
            **asked, **own}  # fmt: skip


def _filled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(item) for key, item in value.items() if item not in (None, {}, [])}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def workload_class(ref: Mapping[str, Any] | None) -> str:
    """The WorkloadPriorityClass that a priorityClassRef names; '' if it names none."""
    found = ref or {}
    return str(found.get("name") or "") if found.get("kind") == "WorkloadPriorityClass" else ""


def pod_sets(spec: Mapping[str, Any]) -> list[Json]:
    """What stands there; [] without them."""
    return spec.get("podSets") or []


def spec_changes(record: Record, wanted: Mapping[str, Any]) -> Json:
    """What of the spec of a Workload that waits differs from what the job asks for now.

    A limit of time that the job does not name stands, and so do pod sets that are not `wanted`.
    """
    changes: Json = {}
    if wanted["priority"] != record.priority:
        changes |= {key: wanted[key] for key in ("priority", "priorityClassRef")}
    if wanted["queueName"] != record.queue:
        changes["queueName"] = wanted["queueName"]
    limit = wanted["maximumExecutionTimeSeconds"]
    if limit not in (None, record.life.max_execution_s):
        changes["maximumExecutionTimeSeconds"] = limit
    if "podSets" in wanted and record.pods and shape(wanted["podSets"]) != record.pods:
        changes["podSets"] = wanted["podSets"]
    return changes


def left_by(obj: Json) -> str:
    """UID of the Job that a Workload without any owner was made for, by its label; '' if it was
    made by hand.
    """
    meta = obj["metadata"]
    if meta.get("ownerReferences"):
        return ""
    return str((meta.get("labels") or {}).get(Label.JOB_UID.value, ""))
