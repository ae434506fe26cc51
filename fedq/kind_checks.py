"""Jobs of other kinds than batch/v1 Job before they are sent: what cannot be federated, and how
they are held back. Pure.

The admission policies hold them back, too: those that people submit need not rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from federation.api.disconnect import read_wishes
from federation.api.kinds.paths import EACH, first, mapping, mappings, put
from federation.api.names import Gate, Label
from federation.core.facts import BATCH_JOB
from federation.core.quantity import QuantityError
from federation.jobs.kinds.generic import MANAGED_BY, GenericKind
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.pod_groups import YUNIKORN_APP, bundle, group_of
from federation.jobs.kinds.scaled import Scaled

Json = dict[str, Any]

_GATE = {"name": Gate.ADMISSION.value}
_GROUPS = (Label.POD_GROUP_NAME.value, *YUNIKORN_APP)


def queue_of(body: Json) -> str:
    """The queue that it names; '' if none."""
    return str(mapping(body, ("metadata", "labels")).get(Label.QUEUE_NAME.value) or "")


def check_kind(kind: JobKind, body: Json) -> tuple[list[str], list[str]]:
    """Problems and warnings of an object. A pod is looked at alone; see `check_group`."""
    if not isinstance(body.get("spec"), dict):
        return ["spec is missing"], []
    if not queue_of(body):
        return [], [unqueued(body)]
    text = _managed(kind, body) or _problem(kind, _alone(body) if kind.bundled else body)
    return ([text] if text else []), []


def unqueued(body: Json) -> str:
    """What follows when no queue is named."""
    kind, name = body["kind"], body["metadata"].get("name", "")
    return (
        f"{kind} {name} names no queue and will not be queued: add the label"
        f" {Label.QUEUE_NAME.value}: NAME (of a LocalQueue) to metadata.labels"
    )


def _managed(kind: JobKind, body: Json) -> str:
    row = kind.row if isinstance(kind, GenericKind) else None
    manager = first(body, row.managed_by) if row is not None and row.managed_by else None
    if row is None or manager in (None, "", MANAGED_BY, row.controller):
        return ""
    return f"{'.'.join(row.managed_by)} is {manager}, which runs it here: remove it"


def _problem(kind: JobKind, obj: Json) -> str:
    try:
        return kind.problem(obj) or read_wishes(obj).problem
    except QuantityError as error:
        return f"a resource request cannot be read: {error}"
    except (TypeError, AttributeError, ValueError, KeyError, IndexError):
        return "what describes its pods has values of a wrong type"


def _alone(pod: Json) -> Json:
    """As if it were in no group."""
    meta = _named(pod)["metadata"]
    for part in ("labels", "annotations"):
        if isinstance(meta.get(part), dict):
            meta = {**meta, part: {k: v for k, v in meta[part].items() if k not in _GROUPS}}
    return bundle([{**pod, "metadata": meta}])


def _named(pod: Json) -> Json:
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "name": meta.get("name") or f"{meta['generateName']}x"}}


def check_group(kind: JobKind, pods: Iterable[Json]) -> tuple[str, str]:
    """A problem and a warning of the pods of one group that are submitted together."""
    found = bundle([_named(pod) for pod in pods])
    group, count = group_of(found), len(found["spec"]["pods"])
    if count < group.total:
        name = group.name.partition("/")[2]
        return "", f"group {name}: {count} of its {group.total} pods are here: it waits for all"
    return _problem(kind, found), ""


def held(kind: JobKind | None, body: Json) -> Json:
    """The object as Kueue's webhooks would leave it: held back, if it names a queue."""
    if not queue_of(body) or (kind is not None and kind.name == BATCH_JOB):
        return body
    if kind is None:
        return _labelled(body) if body["kind"] == "Deployment" else body
    if kind.bundled:
        return _gated(body)
    if not isinstance(kind, GenericKind):
        return body
    if isinstance(kind, Scaled):
        made = {role.name: _gated(role.template) for role in kind.roles(body)}
        return kind.with_templates(body, made)
    body = put(body, kind.row.suspend, True)
    manager = first(body, kind.row.managed_by, "") if kind.row.managed_by else MANAGED_BY
    return body if manager == MANAGED_BY else put(body, kind.row.managed_by, MANAGED_BY)


def _gated(pod: Json) -> Json:
    gates = pod["spec"].get("schedulingGates") or []
    named = [gate.get("name") for gate in mappings(pod, ("spec", "schedulingGates", EACH))]
    if Gate.ADMISSION in named or not isinstance(gates, list):
        return pod
    return {**pod, "spec": {**pod["spec"], "schedulingGates": [*gates, _GATE]}}


def _labelled(deployment: Json) -> Json:
    """Its pods are queued one by one."""
    place = ("spec", "template", "metadata", "labels", Label.QUEUE_NAME.value)
    made: Json = put(deployment, place, queue_of(deployment))
    return made


def written_by_others(kind: JobKind | None) -> set[tuple[str, ...]]:
    """Fields that policies and the manager write."""
    if (
        kind is None
        or not isinstance(kind, GenericKind)
        or kind.bundled
        or isinstance(kind, Scaled)
    ):
        return set()
    return {kind.row.suspend, kind.row.managed_by} - {()}
