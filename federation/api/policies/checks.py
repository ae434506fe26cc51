"""Checks of Kueue's objects that a schema cannot make: map keys, and rules that cost too much."""

from federation.api.names import KUEUE_OLD_VERSION
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

_GROUPS = "object.spec.resourceGroups"


def flavor_keys() -> Documents:
    """Label keys of a ResourceFlavor."""
    bad = f"object.spec.nodeLabels.filter(k, !k.matches('{LABEL_KEY}'))"
    said = f"'spec.nodeLabels: Kubernetes allows no such label key: ' + {bad}.join(', ')"
    return validating(
        "fedq-resourceflavor",
        kueue("resourceflavors"),
        only_if("has-labels", "has(object.spec) && has(object.spec.nodeLabels)"),
        [{"expression": f"{bad}.size() == 0", "messageExpression": said}],
    )


def _one_group() -> Documents:
    """Of a ClusterQueue or a Cohort, where groups may have no flavors."""
    g = _GROUPS
    has = f"{g}.filter(h, has(h.flavors) && h.flavors.exists(e, e.name == f.name))"
    return [
        check(
            f"{g}.all(g, g.coveredResources.all(r, "
            f"{g}.filter(h, r in h.coveredResources).size() == 1))",
            "a resource may be in one resource group only",
        ),
        check(
            f"{g}.all(g, !has(g.flavors) || g.flavors.all(f, {has}.size() == 1))",
            "a flavor may be in one resource group only",
        ),
    ]


def _quota_checks() -> Documents:
    g = _GROUPS
    return [
        *_one_group(),
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


def selectors() -> Documents:
    """Labels that a ClusterQueue selects namespaces by."""
    selector = "object.spec.namespaceSelector"
    labels, terms = f"{selector}.matchLabels", f"{selector}.matchExpressions"
    return validating(
        "fedq-clusterqueue-selector",
        kueue("clusterqueues"),
        only_if("has-selector", f"has(object.spec) && has({selector})"),
        [
            check(
                f"!has({labels}) || {labels}.all(k, k.matches('{LABEL_KEY}') && "
                f"{labels}[k].matches('{LABEL_VALUE}'))",
                "spec.namespaceSelector.matchLabels: Kubernetes allows no such label",
            ),
            check(
                f"!has({terms}) || {terms}.all(t, t.key.matches('{LABEL_KEY}') && "
                f"(!has(t.values) || t.values.all(v, v.matches('{LABEL_VALUE}'))))",
                "spec.namespaceSelector.matchExpressions: Kubernetes allows no such label",
            ),
        ],
    )


def cohort() -> Documents:
    """Rules over the whole of a Cohort."""
    return validating(
        "fedq-cohort",
        kueue("cohorts"),
        only_if("has-groups", f"has(object.spec) && has({_GROUPS})"),
        _one_group(),
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


def topology() -> Documents:
    """v1beta1 has no levels that change."""
    return validating(
        "fedq-topology",
        kueue("topologies", UPDATE, (KUEUE_OLD_VERSION,)),
        [],
        [
            check(
                "object.spec.levels == oldObject.spec.levels",
                "levels are immutable in v1beta1",
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
