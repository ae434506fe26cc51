"""Whether pods may run on a flavor: labels, taints, tolerations, affinity; and label selectors."""

from __future__ import annotations

from collections.abc import Mapping

from federation.core.types import LabelSelector, PodSet, ResourceFlavor, Term

_BLOCKING = frozenset({"NoSchedule", "NoExecute"})


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Kubernetes label selector semantics; no selector selects nothing."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels) and all(
        _holds(key, operator, values, labels)
        for key, operator, values in selector.match_expressions
    )


def _holds(key: str, operator: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    present = labels.get(key)
    match operator:
        case "In":
            return present in values
        case "NotIn":
            return present not in values
        case "Exists":
            return present is not None
        case "DoesNotExist":
            return present is None
        case "Gt" | "Lt":
            return _compares(present, operator, values)
    return False


def _compares(present: str | None, operator: str, values: tuple[str, ...]) -> bool:
    try:
        left, right = int(present or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def untolerated(pods: PodSet, flavor: ResourceFlavor) -> str:
    """The first taint of the flavor that neither the pods nor the flavor tolerate, or ''."""
    tolerations = (*pods.tolerations, *flavor.tolerations)
    for taint in flavor.taints:
        if taint.effect in _BLOCKING and not any(t.tolerates(taint) for t in tolerations):
            return f"{taint.key}={taint.value}:{taint.effect}"
    return ""


def affinity_matches(pods: PodSet, flavor: ResourceFlavor) -> bool:
    """Whether the pods' node selector and required affinity admit the flavor's nodes.

    Kueue's rule: only keys among the flavor's own node labels are looked at; a term that loses
    all its expressions that way matches.
    """
    labels = dict(flavor.node_labels)
    if any(labels.get(key, value) != value for key, value in pods.node_selector):
        return False
    if not pods.affinity:
        return True
    return any(_term_matches(term, labels) for term in pods.affinity)


def _term_matches(term: Term, labels: Mapping[str, str]) -> bool:
    return all(_holds(key, op, values, labels) for key, op, values in term if key in labels)
