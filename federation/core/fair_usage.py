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
    """Of one LocalQueue: use that ages, when it was sampled, and penalties by workload UID.

    A penalty stands from the reservation of quota until the workload is admitted.
    """

    consumed: Amounts = field(default_factory=dict)
    sampled_at: float | None = None
    penalties: Mapping[str, Amounts] = field(default_factory=dict)


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


def sampled(
    state: UsageState, admitted: Mapping[str, int], now: float, rules: FairUsage
) -> UsageState:
    """The state after a sample of what is admitted now, if one is due; else the same.

    The first sample takes present use for past use. A clock that went back decays nothing and
    starts the interval anew.
    """
    if rules.half_life_s <= 0:
        return replace(state, consumed={}, sampled_at=now)
    if state.sampled_at is None:
        start = {name: float(amount) for name, amount in admitted.items()}
        return replace(state, consumed=_sum(state.consumed, start), sampled_at=now)
    if now < state.sampled_at:
        return replace(state, sampled_at=now)
    if now < state.sampled_at + rules.sampling_s:
        return state
    new = aging(now - state.sampled_at, rules)
    consumed = _sum(_times(state.consumed, 1.0 - new), _times(admitted, new))
    return replace(state, consumed=consumed, sampled_at=now)


def assumed(
    state: UsageState, uid: str, requests: Mapping[str, int], rules: FairUsage
) -> UsageState:
    """The state once a workload of these total requests is about to be admitted."""
    penalty = _times(requests, aging(rules.sampling_s, rules))
    return replace(state, penalties={**state.penalties, uid: penalty})


def admitted(state: UsageState, uid: str) -> UsageState:
    """The state once that workload is admitted: its penalty becomes use."""
    penalty = state.penalties.get(uid)
    if penalty is None:
        return state
    return replace(dropped(state, uid), consumed=_sum(state.consumed, penalty))


def dropped(state: UsageState, uid: str) -> UsageState:
    """The state without a workload's penalty: its admission failed, it ended or it moved."""
    if uid not in state.penalties:
        return state
    rest = {other: amounts for other, amounts in state.penalties.items() if other != uid}
    return replace(state, penalties=rest)


def weighted_usage(state: UsageState, weight: float, rules: FairUsage) -> float:
    """What LocalQueues are ordered by, least first; infinite for a weight of 0 or less."""
    if weight <= 0:
        return math.inf
    total = _sum(state.consumed, *state.penalties.values())
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
