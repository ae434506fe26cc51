"""Yes and no as annotations have them."""

from __future__ import annotations

from typing import Final

_SPELLINGS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def parse_bool(text: str) -> bool:
    """In the spellings of Go's strconv.ParseBool, which Kueue and HAMi read annotations with.
    Raises ValueError.
    """
    if text not in _SPELLINGS:
        raise ValueError(f"{text!r} is not true or false")
    return _SPELLINGS[text]
