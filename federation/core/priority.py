"""The priority that counts: of the spec, with the boost of an annotation where that is allowed.

Source: the admission specification, section 2.4.
"""

from __future__ import annotations

import re

_LEAST, _MOST = -(2**31), 2**31 - 1
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


class BoostError(ValueError):
    """The text of a priority boost is not a whole number of 32 bits."""


def parse_boost(text: str) -> int:
    """The value of the priority-boost annotation; '' is no boost. Raises BoostError."""
    if not text:
        return 0
    if _NUMBER.fullmatch(text) is None or not _LEAST <= int(text) <= _MOST:
        raise BoostError(
            f"priority boost {text!r} is not a whole number from {_LEAST} to {_MOST}: "
            "write for example 100 or -5"
        )
    return int(text)


def effective_priority(priority: int, boost: int) -> int:
    """Base and boost together, within int32, in which priorities are compared and shown.

    With boosts switched off (the default) pass 0.
    """
    return min(max(priority + boost, _LEAST), _MOST)
