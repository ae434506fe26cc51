"""Admission policies (admissionregistration.k8s.io/v1): what a webhook would otherwise do.

Each policy names in `matchConditions` the few objects it is about, since the API server asks for
every write of the resource.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federation.api.names import (
    FEDQ_GROUP,
    JOB_CONTROLLER,
    KUEUE_GROUP,
    KUEUE_OLD_VERSION,
    KUEUE_VERSION,
    UNMANAGED_NAMESPACES,
    Controller,
    Label,
    Option,
)
from federation.api.spelling import PRIORITY_SOURCES

Json = dict[str, Any]
Documents = list[Json]

_API: Final = "admissionregistration.k8s.io/v1"
_BOTH: Final = ("CREATE", "UPDATE")
_KUEUE_VERSIONS: Final = (KUEUE_VERSION, KUEUE_OLD_VERSION)
_QUEUED: Final = (
    f"has(object.metadata.labels) && '{Label.QUEUE_NAME}' in object.metadata.labels && "
    f"object.metadata.labels['{Label.QUEUE_NAME}'] != ''"
)


def _match(
    group: str,
    versions: Sequence[str],
    resource: str,
    operations: Sequence[str],
    namespaces: Json | None = None,
) -> Json:
    rule = {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": [resource],
    }
    selector = {"namespaceSelector": namespaces} if namespaces else {}
    return {"matchPolicy": "Exact", "resourceRules": [rule]} | selector


def _managed_namespaces() -> Json:
    return {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": list(UNMANAGED_NAMESPACES),
            }
        ]
    }


def _only_if(name: str, expression: str) -> Documents:
    return [{"name": name, "expression": expression}]


def _mutating(name: str, match: Json, conditions: Documents, mutations: Documents) -> Documents:
    """A mutating policy and its binding."""
    spec: Json = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": match,
        "matchConditions": conditions,
        "mutations": mutations,
    }
    return [
        {
            "apiVersion": _API,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": spec,
        },
        {
            "apiVersion": _API,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    ]


def _validating(
    name: str,
    match: Json,
    conditions: Documents,
    validations: Documents,
    *,
    variables: Documents | None = None,
    actions: Sequence[str] = ("Deny",),
) -> Documents:
    """A validating policy and its binding."""
    spec: Json = {"failurePolicy": "Fail", "matchConstraints": match}
    if conditions:
        spec["matchConditions"] = conditions
    if variables:
        spec["variables"] = variables
    spec["validations"] = validations
    return [
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": spec,
        },
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": list(actions)},
        },
    ]


def _json_patch(expression: str) -> Json:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def _apply(expression: str) -> Json:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _move(old: str, new: str, value: str) -> Json:
    """Replace the spec field `old` by `new` with the value of a CEL expression."""
    return _json_patch(
        f"has(object.spec.{old}) ? [JSONPatch{{op: 'remove', path: '/spec/{old}'}}, "
        f"JSONPatch{{op: 'add', path: '/spec/{new}', value: {value}}}] : []"
    )


def spelling_cluster_queue() -> Documents:
    """cohort, admissionChecks, Borrow and Preempt of v1beta1."""
    words = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
    fields = {
        key: f"has(object.spec.flavorFungibility) && has(object.spec.flavorFungibility.{key}) && "
        f"object.spec.flavorFungibility.{key} == '{word}'"
        for key, word in words.items()
    }
    old = ["has(object.spec.cohort)", "has(object.spec.admissionChecks)", *fields.values()]
    named = "object.spec.admissionChecks.map(c, {'name': c})"
    checks = _json_patch(
        "has(object.spec.admissionChecks) ? [JSONPatch{op: 'remove', path: "
        "'/spec/admissionChecks'}] + (size(object.spec.admissionChecks) == 0 ? [] : "
        "[JSONPatch{op: 'add', path: '/spec/admissionChecksStrategy', value: "
        f"{{'admissionChecks': {named}}}}}]) : []"
    )
    replace = [
        _json_patch(
            f"{test} ? [JSONPatch{{op: 'replace', path: '/spec/flavorFungibility/{key}', "
            "value: 'MayStopSearch'}] : []"
        )
        for key, test in fields.items()
    ]
    return _mutating(
        "fedq-spelling-clusterqueue",
        _match(KUEUE_GROUP, _KUEUE_VERSIONS, "clusterqueues", _BOTH),
        _only_if(
            "old-spelling", "has(object.spec) && (" + " || ".join(f"({o})" for o in old) + ")"
        ),
        [_move("cohort", "cohortName", "object.spec.cohort"), checks, *replace],
    )


def spelling_multikueue_cluster() -> Documents:
    """kubeConfig of v1beta1."""
    return _mutating(
        "fedq-spelling-multikueuecluster",
        _match(KUEUE_GROUP, _KUEUE_VERSIONS, "multikueueclusters", _BOTH),
        _only_if("old-spelling", "has(object.spec) && has(object.spec.kubeConfig)"),
        [_move("kubeConfig", "clusterSource", "{'kubeConfig': object.spec.kubeConfig}")],
    )


def spelling_workload() -> Documents:
    """priorityClassName and priorityClassSource of v1beta1."""
    name, source = "object.spec.priorityClassName", "object.spec.priorityClassSource"
    refs = [
        f"has({name}) && has({source}) && {name} != '' && {source} == '{key}' ? "
        "[JSONPatch{op: 'add', path: '/spec/priorityClassRef', value: "
        f"{{'group': '{group}', 'kind': '{kind}', 'name': string({name})}}}}] : []"
        for key, (group, kind) in PRIORITY_SOURCES.items()
    ]
    removals = [
        f"has(object.spec.{f}) ? [JSONPatch{{op: 'remove', path: '/spec/{f}'}}] : []"
        for f in ("priorityClassName", "priorityClassSource")
    ]
    return _mutating(
        "fedq-spelling-workload",
        _match(KUEUE_GROUP, _KUEUE_VERSIONS, "workloads", _BOTH),
        _only_if("old-spelling", f"has(object.spec) && (has({name}) || has({source}))"),
        [_json_patch(" + ".join(f"({p})" for p in (*refs, *removals)))],
    )


def queue_jobs(managed_by: str | None) -> Documents:
    """A Job with a queue name starts suspended; on the management cluster nothing runs it."""
    spec = "suspend: true"
    mutations = [_apply(f"Object{{spec: Object.spec{{{spec}}}}}")]
    if managed_by:
        mutations.append(
            _apply(
                f"!has(object.spec.managedBy) || object.spec.managedBy == '{JOB_CONTROLLER}' ? "
                f"Object{{spec: Object.spec{{managedBy: '{managed_by}'}}}} : Object{{}}"
            )
        )
    return _mutating(
        "fedq-queue-jobs",
        _match("batch", ("v1",), "jobs", ("CREATE",), _managed_namespaces()),
        _only_if("queued", _QUEUED),
        mutations,
    )


def require_queue() -> Documents:
    """Jobs without a queue name are refused in namespaces that ask for it by label."""
    return _validating(
        "fedq-require-queue",
        _match(
            "batch", ("v1",), "jobs", ("CREATE",), {"matchLabels": {Label.REQUIRE_QUEUE: "true"}}
        ),
        [],
        [
            {
                "expression": _QUEUED,
                "message": f"this namespace takes only Jobs with the label {Label.QUEUE_NAME}",
                "reason": "Forbidden",
            }
        ],
    )


def no_forgery() -> Documents:
    """Only the mirror and the agent may write the marks by which a mirrored Job is known.

    Whoever may `create` the virtual resource `mirrors.fedq.io` may; users keep their options.
    """
    options = ", ".join(f"'{o}'" for o in Option)
    mark = (
        f"(k == '{Label.MULTIKUEUE_ORIGIN}' || (k.startsWith('fedq.io/') && !(k in [{options}])))"
    )

    def marked(node: str) -> str:
        return " || ".join(
            f"(has({node}.metadata.{part}) && {node}.metadata.{part}.exists(k, {mark}))"
            for part in ("labels", "annotations")
        )

    parts = ("labels", "annotations")
    variables = [
        {
            "name": f"{age}{part.capitalize()}",
            "expression": f"{guard}has({node}.metadata.{part}) ? {node}.metadata.{part} : {{}}",
        }
        for age, node, guard in (
            ("new", "object", ""),
            ("old", "oldObject", "oldObject != null && "),
        )
        for part in parts
    ]
    same = " && ".join(
        f"variables.new{p}.all(k, !{mark} || (k in variables.old{p} && "
        f"variables.new{p}[k] == variables.old{p}[k])) && "
        f"variables.old{p}.all(k, !{mark} || k in variables.new{p})"
        for p in (part.capitalize() for part in parts)
    )
    allowed = f"authorizer.group('{FEDQ_GROUP}').resource('mirrors').check('create').allowed()"
    return _validating(
        "fedq-no-forgery",
        _match("batch", ("v1",), "jobs", _BOTH),
        _only_if("marked", f"{marked('object')} || (oldObject != null && ({marked('oldObject')}))"),
        [
            {
                "expression": f"({same}) || {allowed}",
                "message": f"only Fedq may write the label {Label.MULTIKUEUE_ORIGIN} and fedq.io/ "
                f"marks of a Job; the options {', '.join(Option)} are free",
                "reason": "Forbidden",
            }
        ],
        variables=variables,
    )


def flavor_keys() -> Documents:
    """Label keys of a ResourceFlavor: map keys are out of a schema's reach."""
    pattern = (
        "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
    )
    return _validating(
        "fedq-resourceflavor",
        _match(KUEUE_GROUP, _KUEUE_VERSIONS, "resourceflavors", _BOTH),
        _only_if("has-labels", "has(object.spec) && has(object.spec.nodeLabels)"),
        [
            {
                "expression": f"object.spec.nodeLabels.all(k, k.matches('{pattern}'))",
                "messageExpression": "'spec.nodeLabels: Kubernetes allows no such label key: ' + "
                f"object.spec.nodeLabels.filter(k, !k.matches('{pattern}')).join(', ')",
            }
        ],
    )


def cluster_queue_quota() -> Documents:
    """Rules over the whole of a ClusterQueue that cost too much as schema rules."""
    groups = "object.spec.resourceGroups"
    return _validating(
        "fedq-clusterqueue",
        _match(KUEUE_GROUP, _KUEUE_VERSIONS, "clusterqueues", _BOTH),
        _only_if("has-groups", "has(object.spec) && has(object.spec.resourceGroups)"),
        [
            {
                "expression": f"{groups}.all(g, g.coveredResources.all(r, "
                f"{groups}.filter(h, r in h.coveredResources).size() == 1))",
                "message": "a resource may be in one resource group only",
            },
            {
                "expression": f"{groups}.all(g, g.flavors.all(f, "
                f"{groups}.filter(h, h.flavors.exists(e, e.name == f.name)).size() == 1))",
                "message": "a flavor may be in one resource group only",
            },
            {
                "expression": f"{groups}.all(g, g.coveredResources.all(r, "
                "g.coveredResources.filter(s, s == r).size() == 1))",
                "message": "coveredResources must be unique",
            },
            {
                "expression": f"{groups}.map(g, g.flavors.size()).sum() <= 256 && "
                f"{groups}.map(g, g.coveredResources.size()).sum() <= 256",
                "message": "a ClusterQueue may have 256 flavors and 256 resources at most",
            },
            {
                "expression": f"{groups}.all(g, g.flavors.size() * g.coveredResources.size() "
                "<= 512)",
                "message": "a resource group may have 512 flavor and resource pairs at most",
            },
            {
                "expression": f"{groups}.all(g, g.flavors.all(f, f.resources.all(r, "
                "!has(r.lendingLimit) || !quantity(string(r.lendingLimit))."
                "isGreaterThan(quantity(string(r.nominalQuota))))))",
                "message": "lendingLimit must be at most nominalQuota",
            },
        ],
    )


def cohort_sharing() -> Documents:
    """A warning about a field that an article invented; it is kept and ignored."""
    return _validating(
        "fedq-cohort-sharing",
        _match(KUEUE_GROUP, _KUEUE_VERSIONS, "cohorts", _BOTH),
        _only_if("has-sharing", "has(object.spec) && has(object.spec.sharing)"),
        [
            {
                "expression": "false",
                "message": "spec.sharing is not a field of Cohort and has no effect; "
                "use spec.fairSharing.weight",
            }
        ],
        actions=("Warn",),
    )


POLICIES: Final[Mapping[str, Mapping[str, Documents]]] = {
    "common": {
        "spelling-clusterqueue": spelling_cluster_queue(),
        "spelling-multikueuecluster": spelling_multikueue_cluster(),
        "spelling-workload": spelling_workload(),
        "resourceflavor": flavor_keys(),
        "clusterqueue": cluster_queue_quota(),
        "cohort-sharing": cohort_sharing(),
    },
    "management": {
        "queue-jobs": queue_jobs(Controller.MULTIKUEUE),
        "require-queue": require_queue(),
    },
    "worker": {
        "queue-jobs": queue_jobs(None),
        "no-forgery": no_forgery(),
    },
}
"""Role (`common` is for both) to policy to its documents."""
