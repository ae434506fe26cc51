"""Go durations, as Kubernetes' configuration files write them: 5m, 1h30m, 0s, 1.5h."""

import re
from fractions import Fraction
from typing import Annotated, Final

from pydantic import AfterValidator

_UNITS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # micro sign
    "μs": Fraction(1, 10**6),  # Greek letter
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"[-+]?(?:0|(?:{_PART.pattern})+)")
_LONGEST: Final = 100
"""Characters; a duration that means something is shorter."""
_MOST: Final = Fraction(2**63 - 1, 10**9)
"""Go counts nanoseconds in 64 bits: about 292 years."""


class DurationError(ValueError):
    """The text is not a Go duration."""


def parse_duration(text: str) -> float:
    """Seconds of a Go duration (time.ParseDuration). Raises DurationError."""
    if len(text) > _LONGEST or not _WHOLE.fullmatch(text):
        raise DurationError(f"{text[:40]!r} is not a duration: write for example 90s, 5m, 1h30m")
    total = sum(
        (Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(text)), start=Fraction(0)
    )
    if total > _MOST:
        raise DurationError(f"{text[:40]!r} is longer than the 292 years that can be counted")
    return float(-total if text.startswith("-") else total)


def _not_negative(text: str) -> str:
    if parse_duration(text) < 0:
        raise DurationError(f"{text!r} is negative; 0s is the shortest")
    return text


Duration = Annotated[str, AfterValidator(_not_negative)]
"""A Go duration that is not negative, kept as it was written."""


def seconds(text: str | None) -> float | None:
    """Seconds of a duration that may be absent."""
    return None if text is None else parse_duration(text)
