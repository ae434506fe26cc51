"""Admission fair sharing: how much the LocalQueues of a ClusterQueue used lately.

Use ages: what was used one half-life ago counts half. Between two samplings, what is admitted
counts at once by an entry penalty, so that a LocalQueue cannot take everything before it is
sampled. Amounts are in the core's integers (milli-cpu), as floats since they decay. Times are in
seconds since the epoch. Source: the admission specification, section 3 (AFS).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from federation.core.policies import FairUsage

Amounts = Mapping[str, float]
"""Per resource name."""


@dataclass(frozen=True, slots=True)
class UsageState:
    """Of one LocalQueue: use that ages, when it was sampled, and what is asked for by workloads
    that have reserved quota and are not admitted yet.
    """

    consumed: Amounts = field(default_factory=dict)
    sampled_at: float | None = None
    assumed: Mapping[str, int] = field(default_factory=dict)


def aging(elapsed_s: float, rules: FairUsage) -> float:
    """The part of past use that `elapsed_s` seconds replace: 0 is none, 1 all.

    0 also without a half-life: then nothing is remembered, so there is nothing to replace.
    """
    if rules.half_life_s <= 0 or elapsed_s <= 0:
        return 0.0
    return 1.0 - math.exp2(-elapsed_s / rules.half_life_s)


def sample_at(state: UsageState, rules: FairUsage) -> float | None:
    """When the next sample is due; None is at once."""
    return None if state.sampled_at is None else state.sampled_at + rules.sampling_s


def is_due(state: UsageState, now: float, rules: FairUsage) -> bool:
    """Whether a sample is to be taken now; also when the clock went back behind the last one."""
    at = state.sampled_at
    return at is None or not at <= now < at + rules.sampling_s


def sampled(
    state: UsageState, admitted: Mapping[str, int], now: float, rules: FairUsage
) -> UsageState:
    """The state after a sample of what is admitted now, if one is due; else the same.

    The first sample takes present use for past use. A clock that went back decays nothing and
    starts the interval anew.
    """
    if rules.half_life_s <= 0:
        return replace(state, consumed=dict.fromkeys(state.consumed, 0.0), sampled_at=now)
    if state.sampled_at is None:
        start = {name: float(amount) for name, amount in admitted.items()}
        return replace(state, consumed=_sum(state.consumed, start), sampled_at=now)
    if now < state.sampled_at:
        return replace(state, sampled_at=now)
    if not is_due(state, now, rules):
        return state
    new = aging(now - state.sampled_at, rules)
    consumed = _sum(_times(state.consumed, 1.0 - new), _times(admitted, new))
    return replace(state, consumed=consumed, sampled_at=now)


def assumed(state: UsageState, requests: Mapping[str, int]) -> UsageState:
    """The state once a workload of these total requests has reserved quota."""
    return replace(state, assumed=_plus(state.assumed, requests, 1))


def dropped(state: UsageState, requests: Mapping[str, int]) -> UsageState:
    """The state without such a workload: its admission failed, it ended or it moved."""
    return replace(state, assumed=_plus(state.assumed, requests, -1))


def admitted(state: UsageState, requests: Mapping[str, int], rules: FairUsage) -> UsageState:
    """The state once such a workload is admitted: its penalty becomes use."""
    return replace(
        dropped(state, requests), consumed=_sum(state.consumed, penalty(requests, rules))
    )


def penalty(requests: Mapping[str, int], rules: FairUsage) -> Amounts:
    """What requests count until they are sampled: as if they had been in use for an interval."""
    return _times(requests, aging(rules.sampling_s, rules))


def weighted_usage(state: UsageState, weight: float, rules: FairUsage) -> float:
    """What LocalQueues are ordered by, least first; infinite for a weight of 0 or less."""
    if weight <= 0:
        return math.inf
    total = _sum(state.consumed, penalty(state.assumed, rules))
    terms = (_units(name, total[name]) * rules.weights.get(name, 1.0) for name in sorted(total))
    return sum(terms, 0.0) / weight


def _units(resource: str, amount: float) -> float:
    """cpu counts in cores, all else in whole units."""
    return amount / 1000 if resource == "cpu" else amount


def _times(amounts: Amounts, factor: float) -> dict[str, float]:
    return {name: amount * factor for name, amount in amounts.items()}


def _sum(*parts: Amounts) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _plus(total: Mapping[str, int], amounts: Mapping[str, int], sign: int) -> dict[str, int]:
    """Exact, so that what was added can be taken away again; resources of which nothing is left
    are not named.
    """
    names = [*total, *(name for name in amounts if name not in total)]
    found = {name: total.get(name, 0) + sign * amounts.get(name, 0) for name in names}
    return {name: amount for name, amount in found.items() if amount}
