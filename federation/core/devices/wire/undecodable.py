"""Text of annotations that cannot be read, and reading JSON of others without trusting it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

LONGEST: Final = 256 * 1024
"""Characters of one text. Kubernetes keeps 256 KiB in all annotations of an object."""
MOST: Final = 4096
"""Entries of one text: cards of a node, containers times cards of a pod."""
INT32: Final = 2**31 - 1
"""What the numbers of HAMi can hold."""
_SHOWN: Final = 60


class UndecodableError(ValueError):
    """A text that is not what it should be; the message says what is wrong, and where."""


def shown(text: object) -> str:
    """The beginning of a value, for messages."""
    value = repr(text[: _SHOWN + 1] if isinstance(text, str) else text)
    return value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…"


def bounded(text: object) -> str:
    """The text, if it is one and not too long."""
    if not isinstance(text, str):
        raise UndecodableError(f"it is {type(text).__name__}, not text")
    if len(text) > LONGEST:
        raise UndecodableError(f"it has {len(text)} characters, more than {LONGEST}")
    return text


def objects(text: object) -> list[Mapping[str, Any]]:
    """The text as a JSON list of objects; `null` is an empty one, as it is in Go."""
    try:
        value = json.loads(bounded(text), parse_constant=_refuse)
    except UndecodableError:
        raise
    except RecursionError:
        raise UndecodableError("it is nested too deeply") from None
    except ValueError as error:
        raise UndecodableError(f"it is not JSON: {error}") from None
    return listed(value, "it")


def _refuse(constant: str) -> None:
    raise UndecodableError(f"it is not JSON: {constant} is no number")


def listed(value: object, where: str) -> list[Mapping[str, Any]]:
    """A value as a list of JSON objects."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise UndecodableError(f"{where} is {_kind(value)}, not a list")
    if len(value) > MOST:
        raise UndecodableError(f"{where} has {len(value)} entries, more than {MOST}")
    for number, item in enumerate(value):
        if not isinstance(item, dict):
            raise UndecodableError(f"entry {number} of {where} is {_kind(item)}, not an object")
    return value


def integer(item: Mapping[str, Any], key: str, low: int = 0, high: int = INT32) -> int:
    """A whole number; what is not there, or null, is 0, as it is in Go."""
    value = item.get(key)
    if value is None:
        value = 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise UndecodableError(f"{key} is {shown(value)}, not a whole number")
    return within(value, key, low, high)


def within(value: int, key: str, low: int, high: int) -> int:
    """The value, if it is in the range."""
    if not low <= value <= high:
        told = shown(value) if abs(value) < 2**64 else "a number of more than 64 bits"
        raise UndecodableError(f"{key} is {told}, not within {low} and {high}")
    return value


def whole(text: str, key: str, low: int = 0, high: int = INT32) -> int:
    """A whole number that is written out: digits with a sign at most, as Go reads them."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS:
        raise UndecodableError(f"{key} is {shown(text)}, not a whole number")
    return within(int(text), key, low, high)


_DIGITS: Final = 20


def flag(item: Mapping[str, Any], key: str) -> bool:
    """True or false; what is not there is false."""
    value = item.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise UndecodableError(f"{key} is {shown(value)}, not true or false")
    return value


def words(item: Mapping[str, Any], key: str) -> str:
    """A text; what is not there is empty."""
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UndecodableError(f"{key} is {shown(value)}, not text")
    return clean(value, key)


def clean(text: str, key: str) -> str:
    """A short text that can be printed: what cannot (controls, half characters) is a `?`."""
    if len(text) > _LONGEST_ID:
        raise UndecodableError(f"{key} has {len(text)} characters, more than {_LONGEST_ID}")
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def identifier(text: str, key: str) -> str:
    """The UUID of a card: something that all annotations can carry."""
    if not text or len(text) > _LONGEST_ID:
        raise UndecodableError(f"{key} is {shown(text)}, not 1 to {_LONGEST_ID} characters")
    if any(char in ",:;" or char.isspace() or not char.isprintable() for char in text):
        raise UndecodableError(f"{key} {shown(text)} has a comma, colon, semicolon or space")
    return text


_LONGEST_ID: Final = 253


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), shown(value))
