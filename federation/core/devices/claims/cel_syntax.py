"""Tokens of the CEL expressions that choose devices. Grammar: the CEL specification."""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST = 10 * 1024
"""Characters of an expression, as the API server limits them."""


class CelSyntaxError(ValueError):
    """It is not CEL, or CEL that is not understood here."""


class Token(NamedTuple):
    """`kind` is int, float, string, name, op or end; `value` what it means; `at` where it is."""

    kind: str
    value: str | int | float
    at: int


_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>0[xX][0-9a-fA-F]+|\d+)[uU]?
  | (?P<raw>[rR])?(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>&&|\|\||==|!=|<=|>=|\.\?|\[\?|[-+*/%!?:.,()\[\]{}<>])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))"
)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_SELF = frozenset("\"'\\`?")


def tokens(text: str) -> list[Token]:
    """All tokens and an end. Raises CelSyntaxError."""
    if len(text) > LONGEST:
        raise CelSyntaxError(f"it has {len(text)} characters, {LONGEST} are allowed")
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CelSyntaxError(f"unexpected {text[at]!r} at character {at + 1}")
        if not match["space"]:
            found.append(_token(match))
        at = match.end()
    return [*found, Token("end", "", at)]


def _token(match: re.Match[str]) -> Token:
    at = match.start()
    if number := match["int"]:
        value = int(number, 16 if number[:2] in ("0x", "0X") else 10)
        if value >= 2**64:
            raise CelSyntaxError(f"{number} is too large a number")
        return Token("int", value, at)
    if number := match["float"]:
        return Token("float", float(number), at)
    if quoted := match["string"]:
        body = quoted[1:-1]
        return Token("string", body if match["raw"] else _ESCAPE.sub(_unescape, body), at)
    if name := match["name"]:
        return Token("name", name, at)
    return Token("op", match["op"], at)


def _unescape(match: re.Match[str]) -> str:
    x, u, long, octal, plain = match.groups()
    if plain is not None:
        if plain not in _PLAIN and plain not in _SELF:
            raise CelSyntaxError(f"\\{plain} is no escape in a string")
        return _PLAIN.get(plain, plain)
    code = int(octal, 8) if octal else int(x or u or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CelSyntaxError(f"{match.group()} is no character")
    return chr(code)
