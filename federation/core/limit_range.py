"""LimitRanges of a namespace: the defaults they give to containers, and the bounds they set.

Several LimitRanges are taken together as Kueue does: the lowest maximum and ratio, the highest
minimum, the first default. All amounts are exact, in the resource's own unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from federation.core.quantity import MAX_AMOUNT, format_quantity
from federation.core.requests import Exact, to_amount

CONTAINER, POD = "Container", "Pod"


class Wants(NamedTuple):
    """Requests and limits of a container, or of a whole pod."""

    requests: Exact
    limits: Exact


@dataclass(frozen=True, slots=True)
class LimitItem:
    """One item of a LimitRange. `kind` is Container or Pod; other kinds bound nothing here."""

    kind: str
    maximum: Exact = field(default_factory=dict)
    minimum: Exact = field(default_factory=dict)
    default: Exact = field(default_factory=dict)
    default_request: Exact = field(default_factory=dict)
    max_ratio: Exact = field(default_factory=dict)
    """Largest allowed limit ÷ request (maxLimitRequestRatio)."""


Limits = Mapping[str, LimitItem]
"""The items of a namespace by kind."""


def summarize(items: Iterable[LimitItem]) -> dict[str, LimitItem]:
    """All items of a namespace, one per kind. Their order matters for defaults only."""
    summary: dict[str, LimitItem] = {}
    for item in items:
        known = summary.get(item.kind)
        summary[item.kind] = item if known is None else _together(known, item)
    return summary


def _together(known: LimitItem, item: LimitItem) -> LimitItem:
    return LimitItem(
        known.kind,
        merged(known.maximum, item.maximum, min),
        merged(known.minimum, item.minimum, max),
        {**item.default, **known.default},
        {**item.default_request, **known.default_request},
        merged(known.max_ratio, item.max_ratio, min),
    )


def merged(
    left: Exact, right: Exact, choose: Callable[[Fraction, Fraction], Fraction]
) -> dict[str, Fraction]:
    """Both together; `choose` decides where both name a resource."""
    both = {**left, **right}
    for name in left.keys() & right.keys():
        both[name] = choose(left[name], right[name])
    return both


def defaulted(wants: Wants, item: LimitItem | None) -> Wants:
    """What a container really gets.

    A limit without a request is the request, as the API server decides when the pod is created;
    the LimitRange's defaults come after that, for what is still missing.
    """
    requests = {**wants.limits, **wants.requests} if wants.limits else wants.requests
    if item is None:
        return Wants(requests, wants.limits)
    return Wants({**item.default_request, **requests}, {**item.default, **wants.limits})


def excess(wants: Wants) -> str:
    """Which requests are above their limits; '' if none is."""
    if not wants.limits:
        return ""
    return _listed("requests must not exceed limits", _above(wants.requests, wants.limits))


def violations(wants: Wants, item: LimitItem | None) -> str:
    """Which bounds of the LimitRange are broken; '' if none is.

    A resource is compared where both sides name it. The ratio is not looked at by Kueue, but the
    API server refuses the pods, so admitting them would hold quota for nothing.
    """
    if item is None:
        return ""
    most = merged(wants.requests, wants.limits, max)
    least = merged(wants.requests, wants.limits, min)
    ratios = {
        name: wants.limits[name] / asked
        for name, asked in wants.requests.items()
        if asked > 0 and name in wants.limits
    }
    found = (
        _listed("requests must not be above the LimitRange's max", _above(most, item.maximum)),
        _listed("requests must not be below the LimitRange's min", _below(least, item.minimum)),
        _listed(
            "limits must not be more times the requests than the LimitRange's maxLimitRequestRatio",
            [
                f"{name} {_number(ratios[name])} > {_number(item.max_ratio[name])}"
                for name in sorted(ratios.keys() & item.max_ratio.keys())
                if ratios[name] > item.max_ratio[name]
            ],
        ),
    )
    return "; ".join(text for text in found if text)


def _above(amounts: Exact, bounds: Exact) -> list[str]:
    return [
        f"{name} {_text(name, amounts[name])} > {_text(name, bounds[name])}"
        for name in sorted(amounts.keys() & bounds.keys())
        if amounts[name] > bounds[name]
    ]


def _below(amounts: Exact, bounds: Exact) -> list[str]:
    return [
        f"{name} {_text(name, amounts[name])} < {_text(name, bounds[name])}"
        for name in sorted(amounts.keys() & bounds.keys())
        if amounts[name] < bounds[name]
    ]


def _text(resource: str, value: Fraction) -> str:
    return format_quantity(resource, to_amount(resource, value))


def _number(value: Fraction) -> str:
    return f"{float(min(value, Fraction(MAX_AMOUNT))):g}"


def _listed(rule: str, cases: list[str]) -> str:
    return f"{rule}: {', '.join(cases)}" if cases else ""
