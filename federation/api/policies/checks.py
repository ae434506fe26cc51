"""Checks of Kueue's objects that a schema cannot make: map keys, and rules that cost too much."""

from federation.api.names import Annotation, ConditionType
from federation.api.policies.build import UPDATE, Documents, check, kueue, only_if, validating

_GROUPS = "object.spec.resourceGroups"
_LABEL_KEY = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)


def flavor_keys() -> Documents:
    """Label keys of a ResourceFlavor."""
    bad = f"object.spec.nodeLabels.filter(k, !k.matches('{_LABEL_KEY}'))"
    said = f"'spec.nodeLabels: Kubernetes allows no such label key: ' + {bad}.join(', ')"
    return validating(
        "fedq-resourceflavor",
        kueue("resourceflavors"),
        only_if("has-labels", "has(object.spec) && has(object.spec.nodeLabels)"),
        [{"expression": f"{bad}.size() == 0", "messageExpression": said}],
    )


def _quota_checks() -> Documents:
    g = _GROUPS
    return [
        check(
            f"{g}.all(g, g.coveredResources.all(r, "
            f"{g}.filter(h, r in h.coveredResources).size() == 1))",
            "a resource may be in one resource group only",
        ),
        check(
            f"{g}.all(g, g.flavors.all(f, "
            f"{g}.filter(h, h.flavors.exists(e, e.name == f.name)).size() == 1))",
            "a flavor may be in one resource group only",
        ),
        check(
            f"{g}.map(g, g.flavors.size()).sum() <= 256 && "
            f"{g}.map(g, g.coveredResources.size()).sum() <= 256",
            "a ClusterQueue may have 256 flavors and 256 resources at most",
        ),
        check(
            f"{g}.all(g, g.flavors.size() * g.coveredResources.size() <= 512)",
            "a resource group may have 512 flavor and resource pairs at most",
        ),
        check(
            f"{g}.all(g, g.flavors.all(f, f.resources.all(r, !has(r.lendingLimit) || "
            "!quantity(string(r.lendingLimit))"
            ".isGreaterThan(quantity(string(r.nominalQuota))))))",
            "lendingLimit must be at most nominalQuota",
        ),
    ]


def cluster_queue() -> Documents:
    """Rules over the whole of a ClusterQueue."""
    return validating(
        "fedq-clusterqueue",
        kueue("clusterqueues"),
        only_if("has-groups", f"has(object.spec) && has({_GROUPS})"),
        _quota_checks(),
    )


def on_flavors() -> Documents:
    """An admission check may name only flavors of its queue."""
    listed = "object.spec.admissionChecksStrategy.admissionChecks"
    flavors = f"has({_GROUPS}) && {_GROUPS}.exists(g, g.flavors.exists(e, e.name == f))"
    return validating(
        "fedq-clusterqueue-checks",
        kueue("clusterqueues"),
        only_if(
            "has-checks",
            "has(object.spec) && has(object.spec.admissionChecksStrategy) && "
            f"has({listed}) && {listed}.exists(c, has(c.onFlavors))",
        ),
        [
            check(
                f"{listed}.all(c, !has(c.onFlavors) || c.onFlavors.all(f, {flavors}))",
                "onFlavors must name flavors of this ClusterQueue",
            )
        ],
    )


def workload() -> Documents:
    """Pod sets are fixed while they hold quota; an elastic job may only shrink."""
    reserved = " && ".join(
        f"has({node}.status) && has({node}.status.conditions) && {node}.status.conditions.exists("
        f"c, c.type == '{ConditionType.QUOTA_RESERVED}' && c.status == 'True')"
        for node in ("object", "oldObject")
    )
    elastic = (
        "has(object.metadata.annotations) && "
        f"object.metadata.annotations[?'{Annotation.ELASTIC_JOB}'] == optional.of('true')"
    )
    shrunk = (
        "object.spec.podSets.size() == oldObject.spec.podSets.size() && "
        "object.spec.podSets.all(p, oldObject.spec.podSets.exists(q, q.name == p.name && "
        "p.count <= q.count && p.template == q.template))"
    )
    return validating(
        "fedq-workload",
        kueue("workloads", UPDATE),
        only_if("changed", f"object.spec.podSets != oldObject.spec.podSets && {reserved}"),
        [
            check(
                f"{elastic} && {shrunk}",
                "spec.podSets is immutable while QuotaReserved is True",
            )
        ],
    )


def cohort_sharing() -> Documents:
    """A warning about a field that an article invented; it is kept and has no effect."""
    return validating(
        "fedq-cohort-sharing",
        kueue("cohorts"),
        only_if("has-sharing", "has(object.spec) && has(object.spec.sharing)"),
        [
            check(
                "false",
                "spec.sharing is not a field of Cohort and has no effect; "
                "use spec.fairSharing.weight",
            )
        ],
        binding={"validationActions": ["Warn"]},
    )
