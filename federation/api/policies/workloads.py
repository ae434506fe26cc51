"""Checks of Workloads that a schema cannot make: of annotations, of pod templates, and of amounts.

The rules are Kueue's (the admission specification, section 1.5). A schema sees neither annotations
nor what stands in a template, whose fields it leaves to others.
"""

from typing import Final

from federation.api.names import Annotation, ConditionType
from federation.api.policies.build import (
    LABEL_KEY,
    LABEL_VALUE,
    UPDATE,
    Documents,
    check,
    kueue,
    only_if,
    validating,
)

_RESERVED: Final = " && ".join(
    f"has({node}.status) && has({node}.status.conditions) && {node}.status.conditions.exists("
    f"c, c.type == '{ConditionType.QUOTA_RESERVED}' && c.status == 'True')"
    for node in ("object", "oldObject")
)
"""CEL: it holds quota before and after."""


def _annotation(node: str, key: Annotation) -> str:
    """CEL: an annotation of an object, '' without it."""
    return f"{node}.metadata.?annotations[?'{key}'].orValue('')"


_ELASTIC: Final = f"{_annotation('object', Annotation.ELASTIC_JOB)} == 'true'"


def pod_sets() -> Documents:
    """Pod sets are fixed while they hold quota; an elastic job may ask for other numbers."""
    resized = (
        "object.spec.podSets.size() == oldObject.spec.podSets.size() && "
        "object.spec.podSets.all(p, oldObject.spec.podSets.exists(q, q.name == p.name && "
        "p.template == q.template))"
    )
    return validating(
        "fedq-workload",
        kueue("workloads", UPDATE),
        only_if("changed", f"object.spec.podSets != oldObject.spec.podSets && {_RESERVED}"),
        [
            check(
                f"{_ELASTIC} && {resized}",
                "spec.podSets is immutable while QuotaReserved is True",
            )
        ],
    )


def gates() -> Documents:
    """Nobody may gate a Workload after its creation, only take gates away."""
    key = Annotation.ADMISSION_GATED_BY
    new, old = (_annotation(node, key) for node in ("object", "oldObject"))
    known = f"{old}.split(',').map(g, g.trim())"
    return validating(
        "fedq-workload-gates",
        kueue("workloads", UPDATE),
        only_if("changed", f"{new} != {old}"),
        [
            check(
                f"{new}.split(',').all(g, g.trim() == '' || g.trim() in {known})",
                f"the annotation {key} may only lose entries after the creation",
            )
        ],
    )


def templates() -> Documents:
    """Pod templates: what containers ask for, labels and annotations; elastic jobs."""
    spec, meta = "p.template.spec", "p.template.metadata"
    return validating(
        "fedq-workload-templates",
        kueue("workloads"),
        only_if("changed", "oldObject == null || object.spec.podSets != oldObject.spec.podSets"),
        [
            check(
                _every_request(spec, "k != 'pods'"),
                "spec.podSets: containers may not ask for pods, which are counted by themselves",
            ),
            check(
                _every_request(
                    spec,
                    "isQuantity(string(c.resources[part][k])) && "
                    "quantity(string(c.resources[part][k])).compareTo(quantity('0')) >= 0",
                ),
                "spec.podSets: requests and limits must be quantities that are not negative",
            ),
            check(
                _every_entry(
                    meta,
                    "labels",
                    f"k.matches('{LABEL_KEY}') && type(m[k]) == string && "
                    f"m[k].matches('{LABEL_VALUE}')",
                ),
                "spec.podSets: Kubernetes allows no such label in template.metadata.labels",
            ),
            check(
                _every_entry(
                    meta,
                    "annotations",
                    f"k.lowerAscii().matches('{LABEL_KEY}') && type(m[k]) == string",
                ),
                "spec.podSets: Kubernetes allows no such key in template.metadata.annotations",
            ),
            check(
                f"!({_ELASTIC}) || object.spec.podSets.all(p, !has(p.minCount))",
                "minCount is not allowed for an elastic job",
            ),
        ],
    )


def _there(node: str, field: str) -> str:
    """CEL: whether a field is there and not null, as templates may have it."""
    return f"has({node}.{field}) && {node}.{field} != null"


def _every_request(spec: str, test: str) -> str:
    """CEL: `test` holds for each resource `k` that a container or a pod as a whole asks for in
    `c.resources[part]`, as request or limit.
    """
    asked = (
        "['requests', 'limits'].all(part, !(part in c.resources) || c.resources[part] == null || "
        f"c.resources[part].all(k, {test}))"
    )
    containers = (
        f"['containers', 'initContainers'].all(kind, !(kind in {spec}) || {spec}[kind] == null || "
        f"{spec}[kind].all(c, !({_there('c', 'resources')}) || {asked}))"
    )
    pod = f"[{spec}].all(c, !({_there('c', 'resources')}) || {asked})"
    return (
        f"object.spec.podSets.all(p, !({_there('p.template', 'spec')}) || ({containers} && {pod}))"
    )


def _every_entry(meta: str, field: str, test: str) -> str:
    """CEL: `test` holds for each key `k` of the map `m` in that field of every template."""
    return (
        f"object.spec.podSets.all(p, !({_there('p.template', 'metadata')}) || "
        f"!({_there(meta, field)}) || [{meta}.{field}].all(m, m.all(k, {test})))"
    )


def status() -> Documents:
    """Amounts of an admission, which only change for elastic jobs, and reclaimable pods."""
    pods = "status.reclaimablePods"
    known, found = (f"{node}.?status.?reclaimablePods" for node in ("oldObject", "object"))
    held, admission = (f"{node}.?status.?admission" for node in ("oldObject", "object"))
    kept = (
        f"oldObject.{pods}.all(r, r.count == 0 || ({found}.hasValue() && "
        f"object.{pods}.exists(n, n.name == r.name && n.count >= r.count)))"
    )
    bounded = (
        f"object.{pods}.all(r, object.spec.podSets.exists(p, p.name == r.name && "
        "r.count <= p.count))"
    )
    return validating(
        "fedq-workload-status",
        kueue("workloads/status", UPDATE),
        only_if("changed", f"{known} != {found} || {held} != {admission}"),
        [
            check(
                f"!{known}.hasValue() || !({_RESERVED}) || {_ELASTIC} || {kept}",
                f"{pods} may not shrink while QuotaReserved is True",
            ),
            check(
                f"{known} == {found} || !{found}.hasValue() || {bounded}",
                f"{pods} must be of pod sets, and not more than their pods",
            ),
            *(
                check(
                    f"!{held}.hasValue() || !{admission}.hasValue() || {_ELASTIC} || "
                    f"({_kept(field)})",
                    f"{field} of an admission is immutable; clear the admission first",
                )
                for field in ("count", "resourceUsage")
            ),
            check(
                f"{held} == {admission} || !{admission}.hasValue() || {_divisible()}",
                "resourceUsage of a podSetAssignment must be divisible by its count",
            ),
        ],
    )


def _kept(field: str) -> str:
    """CEL: a field of every pod set of an admission is as it was."""
    sets = "status.admission.podSetAssignments"
    return (
        f"!has(object.{sets}) || !has(oldObject.{sets}) || object.{sets}.all(p, "
        f"oldObject.{sets}.all(q, q.name != p.name || p.?{field} == q.?{field}))"
    )


_EXACT: Final = "9.0e12"
"""Cores up to which a double counts milli-cores exactly."""


def _divisible() -> str:
    """CEL: every amount of an admission is a multiple of the number of pods. cpu counts in
    milli-cores; fractions of anything else are let pass.
    """
    amount = "[quantity(string(a.resourceUsage[r]))]"
    cores = (
        f"{amount}.map(q, q.asApproximateFloat()).all(f, f > {_EXACT} || "
        "int(f * 1000.0 + 0.5) % a.count == 0)"
    )
    units = f"{amount}.all(q, !q.isInteger() || q.asInteger() % a.count == 0)"
    return (
        "!has(object.status.admission.podSetAssignments) || "
        "object.status.admission.podSetAssignments.all(a, !has(a.count) || a.count < 1 || "
        f"!has(a.resourceUsage) || a.resourceUsage.all(r, r == 'cpu' ? {cores} : {units}))"
    )
