"""Label selectors as kubectl takes them: `tier=gold,zone in (a, b),!spot,gpus>3`."""

from __future__ import annotations

import re

from federation.api.fields import LABEL_VALUE_PATTERN, QUALIFIED_NAME_PATTERN
from federation.core.types import LabelSelector

_PART = re.compile(r"[^,()]*(?:\([^()]*\)[^,()]*)?(?:,|$)")
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_COMPARE = re.compile(r"([^=!<>\s]+)\s*(==|=|!=|>|<)\s*([^=!<>\s]*)")
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_MOST = 1024

Expression = tuple[str, str, tuple[str, ...]]


class SelectorError(ValueError):
    """The text is no selector."""


def parse_selector(text: str) -> LabelSelector:
    """The selector; an empty text selects all. Raises SelectorError."""
    if len(text) > _MOST:
        raise SelectorError(f"it is longer than {_MOST} characters")
    found: list[Expression] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or match.end() == at:
            raise SelectorError(f"{text[at : at + 40]!r} cannot be read: see its parentheses")
        at = match.end()
        part = match.group().removesuffix(",").strip()
        if not part and len(text.strip()) > 0:
            raise SelectorError("there is a comma with nothing beside it")
        found.append(_expression(part))
    if text.rstrip().endswith(","):
        raise SelectorError("there is a comma with nothing beside it")
    return LabelSelector(match_expressions=tuple(found))


def _expression(part: str) -> Expression:
    if match := _SET.fullmatch(part):
        values = tuple(value.strip() for value in match.group(3).split(","))
        operator = "In" if match.group(2) == "in" else "NotIn"
        return _key(match.group(1)), operator, tuple(map(_value, values))
    if match := _COMPARE.fullmatch(part):
        operator, value = _OPERATORS[match.group(2)], match.group(3)
        if operator in ("Gt", "Lt") and not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise SelectorError(f"{part!r}: a whole number is expected")
        return _key(match.group(1)), operator, (_value(value),)
    if part.startswith("!"):
        return _key(part[1:].strip()), "DoesNotExist", ()
    return _key(part), "Exists", ()


def _key(text: str) -> str:
    if not re.fullmatch(QUALIFIED_NAME_PATTERN, text):
        raise SelectorError(f"{text[:80]!r} is no label key")
    return text


def _value(text: str) -> str:
    if len(text) > 63 or not re.fullmatch(LABEL_VALUE_PATTERN, text.removeprefix("-")):
        raise SelectorError(f"{text[:80]!r} is no label value")
    return text
