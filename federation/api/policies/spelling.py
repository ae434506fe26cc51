"""Rewriting of v1beta1's spellings, so that columns, CEL rules and people read one.

`federation.api.spelling` does the same in code. An old spelling that is present wins: it never
survives a write, so it is what somebody has just written.
"""

from federation.api.policies.build import Documents, Json, json_patch, kueue, mutating, only_if
from federation.api.spelling import PRIORITY_SOURCES


def _move(old: str, new: str, value: str) -> Json:
    """Replace the spec field `old` by `new` with the value of a CEL expression."""
    return json_patch(
        f"has(object.spec.{old}) ? [JSONPatch{{op: 'remove', path: '/spec/{old}'}}, "
        f"JSONPatch{{op: 'add', path: '/spec/{new}', value: {value}}}] : []"
    )


def cluster_queue() -> Documents:
    """cohort, admissionChecks, Borrow and Preempt."""
    fields = {
        key: f"has(object.spec.flavorFungibility) && has(object.spec.flavorFungibility.{key}) && "
        f"object.spec.flavorFungibility.{key} == '{word}'"
        for key, word in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt"))
    }
    old = ["has(object.spec.cohort)", "has(object.spec.admissionChecks)", *fields.values()]
    named = "object.spec.admissionChecks.map(c, {'name': c})"
    checks = json_patch(
        "has(object.spec.admissionChecks) ? [JSONPatch{op: 'remove', path: "
        "'/spec/admissionChecks'}] + (size(object.spec.admissionChecks) == 0 ? [] : "
        "[JSONPatch{op: 'add', path: '/spec/admissionChecksStrategy', value: "
        f"{{'admissionChecks': {named}}}}}]) : []"
    )
    words = [
        json_patch(
            f"{test} ? [JSONPatch{{op: 'replace', path: '/spec/flavorFungibility/{key}', "
            "value: 'MayStopSearch'}] : []"
        )
        for key, test in fields.items()
    ]
    any_old = " || ".join(f"({test})" for test in old)
    return mutating(
        "fedq-spelling-clusterqueue",
        kueue("clusterqueues"),
        only_if("old-spelling", f"has(object.spec) && ({any_old})"),
        [_move("cohort", "cohortName", "object.spec.cohort"), checks, *words],
    )


def multikueue_cluster() -> Documents:
    """kubeConfig."""
    return mutating(
        "fedq-spelling-multikueuecluster",
        kueue("multikueueclusters"),
        only_if("old-spelling", "has(object.spec) && has(object.spec.kubeConfig)"),
        [_move("kubeConfig", "clusterSource", "{'kubeConfig': object.spec.kubeConfig}")],
    )


def workload() -> Documents:
    """priorityClassName and priorityClassSource."""
    name, source = "object.spec.priorityClassName", "object.spec.priorityClassSource"
    refs = [
        f"has({name}) && has({source}) && {name} != '' && {source} == '{key}' ? "
        "[JSONPatch{op: 'add', path: '/spec/priorityClassRef', value: "
        f"{{'group': '{group}', 'kind': '{kind}', 'name': string({name})}}}}] : []"
        for key, (group, kind) in PRIORITY_SOURCES.items()
    ]
    removals = [
        f"has(object.spec.{field}) ? [JSONPatch{{op: 'remove', path: '/spec/{field}'}}] : []"
        for field in ("priorityClassName", "priorityClassSource")
    ]
    return mutating(
        "fedq-spelling-workload",
        kueue("workloads"),
        only_if("old-spelling", f"has(object.spec) && (has({name}) || has({source}))"),
        [json_patch(" + ".join(f"({patch})" for patch in (*refs, *removals)))],
    )
