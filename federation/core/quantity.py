"""Kubernetes quantities as integers.

Rule (spec of Kueue's cache): cpu counts in milli-units, everything else in whole units; fractions
round up, as `resource.Quantity.Value()` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

Resources = dict[str, int]
"""Resource name to amount: milli-units for cpu, whole units (bytes, cards) else."""

_FORMAT = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$")
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTPE")},
}


_LARGEST_EXPONENT = 30
"""Kubernetes counts to 2^63; to work out 1e999999999 would take for ever."""
_LONGEST = 100
"""Characters. Python refuses numbers of some thousands of digits, with another error than ours."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=4096)
def _parse(text: str) -> Fraction:
    if len(text) > _LONGEST:
        raise QuantityError(f"{text[:20]!r}, followed by {len(text) - 20} more, is no quantity")
    match = _FORMAT.match(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity: write for example 500m, 2, 16Gi")
    number, exponent, suffix = match.groups()
    if exponent and abs(int(exponent[1:])) > _LARGEST_EXPONENT:
        raise QuantityError(f"{text!r} is beyond what can be counted")
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIX[suffix or ""]
    return Fraction(number) * scale


MAX_AMOUNT = 2**63 - 1
"""Requests end here, as they do in Kubernetes (int64)."""

UNLIMITED = 2**100
"""A quota too large to count. It is so far above every sum of requests that plain arithmetic
behaves as Kueue's sentinel does: unlimited less something stays unlimited."""


def exact_quantity(text: str) -> Fraction:
    """The value of a quantity, unrounded. Raises QuantityError."""
    return _parse(text.strip())


def parse_quota(resource: str, value: str | int | float) -> int:
    """A quota or limit as an integer; what does not fit int64 is unlimited."""
    amount = _exact(resource, value)
    return UNLIMITED if amount > MAX_AMOUNT else amount


def _exact(resource: str, value: str | int | float) -> int:
    amount = _parse(str(value).strip()) * (1000 if resource == "cpu" else 1)
    return -(-amount.numerator // amount.denominator)


def parse_quantity(resource: str, value: str | int | float) -> int:
    """The amount of `resource` as an integer (milli-units for cpu), at most `MAX_AMOUNT`.

    Raises QuantityError.
    """
    return max(-MAX_AMOUNT, min(_exact(resource, value), MAX_AMOUNT))


def parse_resources(values: Mapping[str, str | int | float] | None) -> Resources:
    """A Kubernetes resource list as integers. Raises QuantityError with the resource named."""
    parsed: Resources = {}
    for name, value in (values or {}).items():
        try:
            parsed[name] = parse_quantity(name, value)
        except QuantityError as error:
            raise QuantityError(f"{name}: {error}") from None
    return parsed


def format_quantity(resource: str, amount: int) -> str:
    """The shortest canonical text, for people and for the wire: 1500m, 2, 16Gi."""
    if amount >= UNLIMITED // 2:
        return "unlimited"
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if amount and amount % 1024**power == 0:
                return f"{amount // 1024**power}{suffix}"
    return str(amount)


def add(left: Mapping[str, int], right: Mapping[str, int]) -> Resources:
    """Sum per resource name."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def scale(values: Mapping[str, int], count: int) -> Resources:
    """Every amount times `count`, at most `MAX_AMOUNT`, and never negative."""
    return {name: max(0, min(amount * count, MAX_AMOUNT)) for name, amount in values.items()}
