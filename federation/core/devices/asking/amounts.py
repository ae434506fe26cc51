"""Amounts of vGPU requests from their text: exact, or refused.

Device plugins count in whole units (MiB, percent, cards), Kubernetes writes quantities: 20000,
20k and 2e4 are the same, and the API server writes 4000 as 4k. A byte suffix,
Mi or larger, means bytes and is converted to MiB, rounded up.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from federation.core.quantity import QuantityError, exact_quantity

LARGEST: Final = 2**31 - 1
"""HAMi counts in int32."""
MIB: Final = 2**20

_BYTES: Final = frozenset("GTPE") | {f"{prefix}i" for prefix in "MGTPE"}
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]+$")
_LONGEST: Final = 40


def whole(text: str, largest: int = LARGEST) -> int:
    """A whole number of at least 0. Raises QuantityError: ten, 1.5, -1, 500m or beyond `largest`.

    Memory suffixes other than those of thousands are no numbers of cards or percent.
    """
    value = _value(text)
    if value.denominator != 1:
        raise QuantityError(f"{text!r} is not a whole number")
    if value.numerator < 0:
        raise QuantityError(f"{text!r} is negative")
    if value.numerator > largest:
        raise QuantityError(f"{text!r} is more than {largest}, the most that can be counted")
    return value.numerator


def memory_mib(text: str, unit_mib: int = 1) -> int:
    """MiB of memory: of a bare number in units of `unit_mib`, or of bytes with a suffix.

    Bytes are rounded up to whole units. Suffixes below Mi are part of a number, as HAMi reads them
    (4Ki is 4096 MiB); but `M` is refused: it may be megabytes, or what the API server makes of a
    bare 1000000. Raises QuantityError.
    """
    value, suffix = _value(text), _suffix(text)
    if suffix in _BYTES:
        size = value / MIB
        if size.numerator < 0:
            raise QuantityError(f"{text!r} is negative")
        mib = -(-size // unit_mib) * unit_mib
    elif suffix in ("", "k", "Ki"):
        mib = whole(text) * unit_mib
    else:
        raise QuantityError(
            f"{text!r} is not clear: write MiB as a bare number (20480), or bytes as 20Gi or 500Mi"
        )
    if mib > LARGEST:
        raise QuantityError(f"{text!r} is {mib} MiB, more than can be counted ({LARGEST})")
    return mib


def _value(text: str) -> Fraction:
    if len(text) > _LONGEST:
        raise QuantityError(f"{text[:_LONGEST]!r}… is no amount")
    return exact_quantity(text)


def _suffix(text: str) -> str:
    """The unit behind the number; '' for exponents too."""
    number = _EXPONENT.sub("", text.strip())
    return number.lstrip("+-.0123456789")
