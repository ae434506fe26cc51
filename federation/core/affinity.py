"""Whether a job may run on a cluster, and how gladly, by its placement rules."""

from __future__ import annotations

from collections.abc import Mapping

from federation.core.matching import selects
from federation.core.placement_rules import PlacementRules


def excluded(rules: PlacementRules, cluster: str, labels: Mapping[str, str]) -> str:
    """Why a cluster with these labels is none for the job; '' if it may be."""
    if rules.clusters and cluster not in rules.clusters:
        return f"fedq.io/clusters allows {', '.join(rules.clusters)} only"
    if rules.avoid and cluster in rules.avoid:
        return "fedq.io/avoid-clusters names it"
    if rules.selector is not None and not selects(rules.selector, labels):
        return f"its labels do not match fedq.io/cluster-selector ({rules.selector_text})"
    return ""


def preference(rules: PlacementRules, cluster: str) -> int:
    """Lower is better."""
    prefer = rules.prefer or ()
    return prefer.index(cluster) if cluster in prefer else len(prefer)
