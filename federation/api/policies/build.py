"""Building blocks of admission policies: documents, matching, patches.

Each policy names in `matchConditions` the few objects it is about, since the API server asks for
every write of the resource. They fail closed: their expressions cannot err on a valid object.
"""

from collections.abc import Sequence
from typing import Any, Final

from federation.api.names import (
    FEDQ_GROUP,
    KUEUE_GROUP,
    KUEUE_OLD_VERSION,
    KUEUE_VERSION,
    UNMANAGED_NAMESPACES,
    Label,
)

Json = dict[str, Any]
Documents = list[Json]

CREATE: Final = ("CREATE",)
UPDATE: Final = ("UPDATE",)
WRITES: Final = ("CREATE", "UPDATE")

QUEUED: Final = (
    f"has(object.metadata.labels) && '{Label.QUEUE_NAME}' in object.metadata.labels && "
    f"object.metadata.labels['{Label.QUEUE_NAME}'] != ''"
)
"""CEL: the object has a queue name."""

IS_LOCAL: Final = (
    f"(has(object.metadata.labels) && '{Label.LOCAL}' in object.metadata.labels && "
    f"object.metadata.labels['{Label.LOCAL}'] == 'true')"
)
"""CEL: on a management cluster, the object belongs to the agent beside the manager."""

IS_FEDQ: Final = f"authorizer.group('{FEDQ_GROUP}').resource('mirrors').check('create').allowed()"
"""CEL: the user may `create` the virtual resource `mirrors.fedq.io`: the mirror or the agent."""

MANAGED_NAMESPACES: Final[Json] = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": list(UNMANAGED_NAMESPACES),
        }
    ]
}
"""Selects all namespaces but those whose Jobs are never queued."""


LABEL_KEY: Final = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
LABEL_VALUE: Final = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"


def kueue(
    resource: str,
    operations: Sequence[str] = WRITES,
    versions: Sequence[str] = (KUEUE_VERSION, KUEUE_OLD_VERSION),
) -> Json:
    """Matches writes of a Kueue resource, or subresource, in both versions. Status writes are left
    out unless `resource` names them.
    """
    return _match(KUEUE_GROUP, versions, resource, operations)


def jobs(operations: Sequence[str], namespaces: Json | None = None) -> Json:
    """Matches writes of Jobs, in namespaces that the selector selects."""
    match = _match("batch", ("v1",), "jobs", operations)
    return match | ({"namespaceSelector": namespaces} if namespaces else {})


def pods(operations: Sequence[str]) -> Json:
    """Matches writes of pods; not of their status, nor that they are bound."""
    return _match("", ("v1",), "pods", operations)


def config_map(name: str, namespace: str) -> Json:
    """Matches writes of one ConfigMap."""
    match = _match("", ("v1",), "configmaps", WRITES)
    match["resourceRules"][0]["resourceNames"] = [name]
    only = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return match | {"namespaceSelector": only}


def _match(group: str, versions: Sequence[str], resource: str, operations: Sequence[str]) -> Json:
    rule = {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": [resource],
    }
    return {"matchPolicy": "Exact", "resourceRules": [rule]}


def only_if(name: str, expression: str) -> Documents:
    """The match conditions of a policy with one condition."""
    return [{"name": name, "expression": expression}]


def check(expression: str, message: str, reason: str = "Invalid") -> Json:
    """One validation; the message is a sentence that names the field."""
    return {"expression": expression, "message": message, "reason": reason}


def mutating(
    name: str,
    match: Json,
    conditions: Documents,
    mutations: Documents,
    *,
    binding: Json | None = None,
    params: Json | None = None,
) -> Documents:
    """A mutating policy and its binding."""
    spec: Json = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": match,
    }
    if params:
        spec["paramKind"] = params
    spec |= {"matchConditions": conditions, "mutations": mutations}
    return _policy("Mutating", name, spec, binding or {})


def validating(
    name: str,
    match: Json,
    conditions: Documents,
    validations: Documents,
    *,
    variables: Documents | None = None,
    binding: Json | None = None,
    params: Json | None = None,
) -> Documents:
    """A validating policy and its binding, which denies unless `binding` says otherwise."""
    spec: Json = {"failurePolicy": "Fail", "matchConstraints": match}
    if params:
        spec["paramKind"] = params
    if conditions:
        spec["matchConditions"] = conditions
    if variables:
        spec["variables"] = variables
    spec["validations"] = validations
    return _policy("Validating", name, spec, {"validationActions": ["Deny"]} | (binding or {}))


def _policy(sort: str, name: str, spec: Json, binding: Json) -> Documents:
    head = {"apiVersion": "admissionregistration.k8s.io/v1"}
    return [
        head | {"kind": f"{sort}AdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        head
        | {
            "kind": f"{sort}AdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name} | binding,
        },
    ]


def json_patch(expression: str) -> Json:
    """A mutation by a CEL list of JSONPatch operations: half the cost of a merge, as measured."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
