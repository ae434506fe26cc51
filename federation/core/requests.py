"""What a workload asks quota for: exact requests of a pod to amounts, and how many pods count.

Requests stay exact (in the resource's own unit, cpu in cores) until every rule is applied; only
then they are rounded up to the core's integers. Rules: Kueue's resource totals and transformations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from federation.core.devices.quota.rules import plain
from federation.core.policies import ResourceRules, Transformation, TransformationStrategy
from federation.core.quantity import MAX_AMOUNT, Resources
from federation.core.types import Admission, PodSet, PodSetAssignment

Exact = Mapping[str, Fraction]
"""Resource name to exact amount in the resource's own unit (cpu in cores)."""

NOTHING = Fraction(0)


def to_amount(resource: str, value: Fraction) -> int:
    """The core's integer for an exact amount: rounded up, never negative, at most `MAX_AMOUNT`."""
    scaled = value * 1000 if resource == "cpu" else value
    return max(0, min(-(-scaled.numerator // scaled.denominator), MAX_AMOUNT))


def chargeable(requests: Exact, rules: ResourceRules) -> Resources:
    """What one pod is charged: excluded prefixes dropped, transformations applied, rounded.

    Shares of cards are charged by flavor, see `federation.core.devices.quota.rules`.
    """
    kept = {
        name: value
        for name, value in requests.items()
        if not name.startswith(rules.excluded_prefixes)
    }
    return {name: to_amount(name, value) for name, value in transformed(kept, plain(rules)).items()}


def transformed(requests: Exact, transformations: Iterable[Transformation]) -> dict[str, Fraction]:
    """Requests after the transformations.

    Every transformation reads the requests as they came in, so their order does not matter; what
    several of them put out under one name is added up, also to what was requested under it.
    Replace takes its input away. A `multiply_by` that is not requested multiplies by nothing.
    Amounts are exact: half a unit of input gives half of the outputs.
    """
    rules = [rule for rule in transformations if rule.input in requests]
    replaced = {r.input for r in rules if r.strategy is TransformationStrategy.REPLACE}
    result = {name: value for name, value in requests.items() if name not in replaced}
    for rule in rules:
        units = requests[rule.input]
        if rule.multiply_by:
            units *= requests.get(rule.multiply_by, 1)
        for name, factor in rule.outputs.items():
            result[name] = result.get(name, NOTHING) + units * factor
    return result


def effective_count(pods: PodSet, reclaimable: int) -> int:
    """Pods of the set that still need quota; `reclaimable` ones do not any more."""
    return max(0, pods.count - max(0, reclaimable))


def remaining(pod_sets: tuple[PodSet, ...], reclaimable: Mapping[str, int]) -> tuple[PodSet, ...]:
    """Pod sets of a pending workload without their reclaimable pods (by name of the set)."""
    return tuple(_without(pods, reclaimable.get(pods.name, 0)) for pods in pod_sets)


def _without(pods: PodSet, reclaimable: int) -> PodSet:
    count = effective_count(pods, reclaimable)
    if count == pods.count:
        return pods
    fewest = pods.min_count if pods.min_count is not None and pods.min_count < count else None
    return replace(pods, count=count, min_count=fewest)


def shrink(assignment: PodSetAssignment, count: int) -> PodSetAssignment:
    """The assignment for at most `count` pods, each at the price it was admitted for.

    Where fewer were admitted anyway (partial admission) nothing changes.
    """
    if count >= assignment.count:
        return assignment
    usage = {name: total // assignment.count * count for name, total in assignment.usage.items()}
    return replace(assignment, count=count, usage=usage)


def charged(
    admission: Admission, pod_sets: tuple[PodSet, ...], reclaimable: Mapping[str, int]
) -> Admission:
    """What an admitted workload still holds, given the pods that need no quota any more."""
    counts = {p.name: effective_count(p, reclaimable.get(p.name, 0)) for p in pod_sets}
    held = tuple(shrink(p, counts.get(p.name, p.count)) for p in admission.pod_sets)
    return admission if held == admission.pod_sets else replace(admission, pod_sets=held)
