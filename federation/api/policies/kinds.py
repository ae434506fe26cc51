"""Policies and roles for the kinds of jobs in the table, as batch/v1 Jobs have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from federation.api.kinds.parts import is_part_cel
from federation.api.kinds.paths import Path
from federation.api.kinds.row import Row
from federation.api.kinds.table import PODS, ROWS, SCALED
from federation.api.names import FEDQ_NAMESPACE, Gate, Label
from federation.api.policies.build import (
    CREATE,
    IS_LOCAL,
    MANAGED_NAMESPACES,
    QUEUED,
    WRITES,
    Documents,
    Json,
    json_patch,
    mutating,
    only_if,
    pods,
)

Shape = tuple[Path, Path]
"""Where a kind is suspended, and where it says who manages it (empty: nowhere)."""


def shapes() -> dict[str, Shape]:
    """Policies that differ, by the name of the first kind of each."""
    found: dict[Shape, str] = {}
    for row in ROWS:
        found.setdefault((row.suspend, row.managed_by), row.kind.lower())
    return {name: shape for shape, name in found.items()}


def rules(rows: Iterable[Row], operations: Sequence[str]) -> Documents:
    """What writes of kinds match."""
    return [
        {
            "apiGroups": [row.group],
            "apiVersions": [row.version],
            "operations": list(operations),
            "resources": [row.plural],
        }
        for row in rows
    ]


def queue_kind(name: str, managed_by: str | None) -> Documents:
    """An object with a queue name starts suspended. On the management cluster it also gets
    `managedBy`, unless somebody else manages it, or the agent beside the manager.
    """
    suspend, manager = shapes()[name]
    rows = [row for row in ROWS if (row.suspend, row.managed_by) == (suspend, manager)]
    wanted, patch = [f"{has(suspend)} && {at(suspend)}"], [*_set(suspend, "true")]
    if managed_by and manager:
        own = sorted({row.controller for row in rows} - {""})
        ours = f"(!({has(manager)}) || {at(manager)} in {own}) && !{IS_LOCAL}"
        wanted.append(f"!({ours})")
        patch.append(f"({ours} ? {_add(manager, repr(managed_by))} : [])")
    done = " && ".join(wanted)
    match: Json = {
        "matchPolicy": "Exact",
        "resourceRules": rules(rows, CREATE),
        "namespaceSelector": MANAGED_NAMESPACES,
    }
    return mutating(
        f"fedq-queue-{name}",
        match,
        only_if("queued", QUEUED)
        + only_if("whole", f"!{is_part_cel('object')}")
        + only_if("not-done", f"!({done})"),
        [json_patch(" + ".join(patch))],
    )


ITS_OWN = (
    "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(o, "
    "!has(o.controller) || !o.controller || o.kind == 'ReplicaSet')"
)
"""CEL: the pod is no part of something that is queued as a whole."""


def gate_pods() -> Documents:
    """A pod with a queue name is held back by Kueue's scheduling gate."""
    gate = f"{{'name': '{Gate.ADMISSION}'}}"
    patch = (
        "has(object.spec.schedulingGates) "
        f"? [JSONPatch{{op: 'add', path: '/spec/schedulingGates/-', value: {gate}}}] "
        f": [JSONPatch{{op: 'add', path: '/spec/schedulingGates', value: [{gate}]}}]"
    )
    held = (
        "has(object.spec.schedulingGates) && "
        f"object.spec.schedulingGates.exists(g, g.name == '{Gate.ADMISSION}')"
    )
    return mutating(
        "fedq-queue-pods",
        pods(CREATE) | {"namespaceSelector": MANAGED_NAMESPACES},
        only_if("queued", QUEUED) + only_if("its-own", ITS_OWN) + only_if("not-held", f"!({held})"),
        [json_patch(patch)],
    )


def gate_templates() -> Documents:
    """Pods of kinds whose controllers run on the management cluster wait there for good."""
    gate = f"{{'name': '{Gate.ADMISSION}'}}"
    parts, wanted = [], []
    for template in _TEMPLATES:
        gates = (*template, "spec", "schedulingGates")
        there, listed = has((*template, "spec")), has(gates)
        held = f"{listed} && {at(gates)}.exists(g, g.name == '{Gate.ADMISSION}')"
        due = f"({there} && !({held}))"
        first, more = _add(gates, f"[{gate}]"), _add((*gates, "-"), gate)
        parts.append(f"({due} ? ({listed} ? {more} : {first}) : [])")
        wanted.append(due)
    tasks, bare = at(_TASKS), f"{_TASK_THERE} && !({_TASK_HELD})"
    value = f"({_TASK_LISTED} ? t.template.spec.schedulingGates : []) + [{gate}]"
    path = "'/spec/tasks/' + string(i) + '/template/spec/schedulingGates'"
    each = f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"
    parts.append(f"({has(_TASKS)} ? {tasks}.transformList(i, t, {bare}, {each}) : [])")
    wanted.append(f"({has(_TASKS)} && {tasks}.exists(t, {bare}))")
    match: Json = {
        "matchPolicy": "Exact",
        "resourceRules": rules(SCALED, WRITES),
        "namespaceSelector": MANAGED_NAMESPACES,
    }
    return mutating(
        "fedq-gate-templates",
        match,
        only_if("queued", QUEUED) + only_if("not-held", " || ".join(wanted)),
        [json_patch(" + ".join(parts))],
    )


_TEMPLATES: tuple[Path, ...] = (
    ("spec", "template"),
    ("spec", "leaderWorkerTemplate", "leaderTemplate"),
    ("spec", "leaderWorkerTemplate", "workerTemplate"),
)
_TASKS: Path = ("spec", "tasks")
_TASK_THERE = "has(t.template) && has(t.template.spec)"
_TASK_LISTED = f"{_TASK_THERE} && has(t.template.spec.schedulingGates)"
_TASK_HELD = (
    f"{_TASK_LISTED} && t.template.spec.schedulingGates.exists(g, g.name == '{Gate.ADMISSION}')"
)


def label_deployments() -> Documents:
    """The pods of a Deployment with a queue name have it, too: each is queued by itself."""
    key = Label.QUEUE_NAME.value
    name, labels = f"object.metadata.labels['{key}']", "object.spec.template.metadata.labels"
    patch = (
        "[JSONPatch{op: 'add', path: '/spec/template/metadata/labels/' + "
        f"jsonpatch.escapeKey('{key}'), value: {name}}}]"
    )
    match: Json = {
        "matchPolicy": "Exact",
        "resourceRules": [
            {
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "operations": list(WRITES),
                "resources": ["deployments"],
            }
        ],
        "namespaceSelector": MANAGED_NAMESPACES,
    }
    done = f"'{key}' in {labels} && {labels}['{key}'] == {name}"
    return mutating(
        "fedq-queue-deployments",
        match,
        only_if("queued", QUEUED)
        + only_if("labelled", "has(object.spec.template.metadata.labels)")
        + only_if("not-done", f"!({done})"),
        [json_patch(patch)],
    )


def at(path: Path) -> str:
    """CEL: the field at a path below `spec`."""
    return ".".join(("object", *path))


def has(path: Path) -> str:
    """CEL: all of a path below `spec` is there."""
    return " && ".join(f"has({at(path[:depth])})" for depth in range(2, len(path) + 1))


def _set(path: Path, value: str) -> Iterable[str]:
    """CEL: the patches that set a field, and make what leads to it."""
    for depth in range(2, len(path)):
        yield f"({has(path[:depth])} ? [] : {_add(path[:depth], '{}')})"
    yield _add(path, value)


def _add(path: Path, value: str) -> str:
    return f"[JSONPatch{{op: 'add', path: '/{'/'.join(path)}', value: {value}}}]"


_WATCH = ("get", "list", "watch")
_VERBS = {
    "fedq-manager": (*_WATCH, "patch", "delete"),
    "fedq-mirror": (*_WATCH, "create", "delete", "patch"),
    "fedq-agent": (*_WATCH, "patch", "delete"),
}


def roles(account: str) -> Documents:
    """What an account may do with objects of these kinds, and its binding. Except for the mirror
    also with their status, and to be the blocking owner of a Workload.
    """
    by_group: dict[str, list[str]] = {}
    for row in (*ROWS, PODS, *SCALED):
        by_group.setdefault(row.group, []).append(row.plural)
    found: Documents = []
    for group, plurals in sorted(by_group.items()):
        found.append(_rule(group, plurals, _VERBS[account]))
        if account != "fedq-mirror":
            found.append(_rule(group, [f"{p}/status" for p in plurals], ("patch",)))
            found.append(_rule(group, [f"{p}/finalizers" for p in plurals], ("update",)))
    name, group = f"{account}-kinds", "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": FEDQ_NAMESPACE}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    return [
        head | {"kind": "ClusterRole", "rules": found},
        head | {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Json:
    return {"apiGroups": [group], "resources": sorted(resources), "verbs": list(verbs)}
