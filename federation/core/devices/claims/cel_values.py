"""Values of CEL expressions, and what its operators and functions do with them.

Quantities are Fractions, so that they are told from CEL's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from federation.core.devices.claims.claims import Attribute, Device, Version
from federation.core.quantity import QuantityError, exact_quantity

Value = Any
"""None, bool, int, float, str, list, Mapping, Fraction (a quantity), Version or Optional."""

LONGEST: Final = 10_000
"""Characters or items of a value."""
_INT: Final = 2**63


class CelError(ValueError):
    """An expression has no value for a device."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    there: bool = False
    value: Value = None


class _Domains(dict[str, Value]):
    """Attributes by domain: a domain that a device does not have is empty, not an error."""


def device_value(device: Device) -> Value:
    """What an expression sees of a device."""
    return {
        "driver": device.driver,
        "attributes": _by_domain(device.attributes),
        "capacity": _by_domain({name: found.value for name, found in device.capacity.items()}),
        "allowMultipleAllocations": device.shared,
    }


def _by_domain(items: Mapping[str, Attribute | Fraction]) -> _Domains:
    found = _Domains()
    for name, value in items.items():
        domain, _, short = name.partition("/")
        found.setdefault(domain, {})[short] = value
    return found


# Fields


def select(value: Value, name: str) -> Value:
    """`value.name`."""
    if isinstance(value, Optional):
        return optional_index(value, name)
    if not isinstance(value, Mapping):
        raise CelError(f"there is no field {name}")
    return index(value, name)


def index(value: Value, key: Value) -> Value:
    """`value[key]`."""
    if isinstance(value, Optional):
        return optional_index(value, key)
    if isinstance(value, list):
        if type(key) is not int or not 0 <= key < len(value):
            raise CelError(f"there is no item {key!r} in a list of {len(value)}")
        return value[key]
    if not isinstance(value, Mapping) or not isinstance(key, str | int):
        raise CelError("[] is for lists and maps")
    if key in value:
        return value[key]
    if isinstance(value, _Domains):
        return {}
    raise CelError(f"no such key: {key}")


def optional_index(value: Value, key: Value) -> Optional:
    """`value[?key]` and `value.?key`."""
    if isinstance(value, Optional):
        return optional_index(value.value, key) if value.there else value
    try:
        return Optional(True, index(value, key))
    except CelError:
        return Optional()


def has(value: Value, name: str) -> bool:
    """Whether there is such a field."""
    if isinstance(value, Optional):
        return value.there and has(value.value, name)
    if not isinstance(value, Mapping):
        raise CelError(f"there is no field {name}")
    return name in value


# Operators


def equal(left: Value, right: Value) -> bool:
    """`==`: values of different kinds are different, numbers are compared as numbers."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        same = left.keys() == right.keys()
        return same and all(equal(value, right[key]) for key, value in left.items())
    return _kind(left) is _kind(right) and bool(left == right)


def _kind(value: Value) -> type:
    return float if type(value) is int else type(value)


def compared(op: str, left: Value, right: Value) -> bool:
    """The orders of numbers and strings, and of booleans."""
    kind = _kind(left)
    if kind is not _kind(right) or kind not in (float, str, bool):
        raise CelError(f"{op} has no meaning here (quantities: compareTo, isLessThan)")
    if op == "<":
        return bool(left < right)
    if op == "<=":
        return bool(left <= right)
    return bool(left > right) if op == ">" else bool(left >= right)


def arithmetic(op: str, left: Value, right: Value) -> Value:
    """`+ - * / %` of two numbers of one kind; `+` of two strings or lists."""
    kind = type(left)
    if kind is not type(right):
        raise CelError(f"{op} takes two values of one kind")
    if op == "+" and kind in (str, list):
        return sized(left + right)
    if kind is float:
        return _floats(op, left, right)
    if kind is not int:
        raise CelError(f"{op} has no meaning here")
    return _ints(op, left, right)


def _floats(op: str, left: float, right: float) -> float:
    if op in "/%" and (right == 0 or op == "%"):
        raise CelError(f"{op} has no meaning here")
    try:
        return {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
        }[op]()
    except OverflowError as error:
        raise CelError("the number is too large") from error


def _ints(op: str, left: int, right: int) -> int:
    if op in "/%":
        if right == 0:
            raise CelError("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return bounded(quotient if op == "/" else left - quotient * right)
    return bounded(left + right if op == "+" else left - right if op == "-" else left * right)


def negative(value: Value) -> Value:
    """`-value`."""
    if type(value) is float:
        return -value
    if type(value) is not int:
        raise CelError("- is for numbers")
    return bounded(-value)


def bounded(value: int) -> int:
    """A number that fits 64 bits."""
    if not -_INT <= value < _INT:
        raise CelError("the number does not fit 64 bits")
    return value


def sized(value: Value) -> Value:
    """A string or list that is not too long."""
    if len(value) > LONGEST:
        raise CelError(f"a value grows beyond {LONGEST} characters")
    return value


# Functions: name to the types of their arguments and what they do


def _quantity(text: str) -> Fraction:
    try:
        return exact_quantity(text)
    except QuantityError as error:
        raise CelError(str(error)) from None


def _is(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except CelError:
        return False
    return True


_VERSION = re.compile(
    r"(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


def version(text: str) -> Version:
    """A semantic version. Raises CelError."""
    match = _VERSION.fullmatch(text) if len(text) <= 256 else None
    if match is None:
        raise CelError(f"{text!r} is not a semantic version")
    major, minor, patch, tag = match.groups()
    parts = (tag or "").split(".") if tag else ()
    marks = tuple((not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts)
    return Version(int(major), int(minor), int(patch), not tag, marks)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _whole(value: Fraction) -> int:
    if value.denominator != 1:
        raise CelError("the quantity is no whole number")
    return bounded(value.numerator)


_QUANTIFIER: Final = frozenset("*+{")


def _pattern(text: str, pattern: str) -> bool:
    """`matches`. Patterns that could take for ever are refused: Python's matcher backtracks."""
    if len(pattern) > 256 or len(text) ** sum(map(pattern.count, _QUANTIFIER)) > 300_000:
        raise CelError(f"the pattern {pattern[:64]!r} is too costly to look for")
    if re.search(r"\)[*+?{]|\(\?|\\[0-9]", pattern):
        raise CelError(f"the pattern {pattern[:64]!r} repeats a group: that is not looked for here")
    try:
        return re.search(pattern, text, re.ASCII) is not None
    except (re.error, RecursionError, OverflowError) as error:
        raise CelError(f"{pattern[:64]!r} is not a pattern: {error}") from None


def _replaced(text: str, old: str, new: str) -> str:
    if (len(text) + 1) * len(new) > 100 * LONGEST:
        raise CelError(f"a value grows beyond {LONGEST} characters")
    found: str = sized(text.replace(old, new))
    return found


def _to_int(value: Value) -> int:
    try:
        return bounded(int(value))
    except (ValueError, OverflowError):
        raise CelError(f"{str(value)[:64]!r} is not a whole number") from None


def _to_float(value: Value) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise CelError(f"{str(value)[:64]!r} is not a number") from None


def _given(value: Optional) -> Value:
    if not value.there:
        raise CelError("the optional value is missing")
    return value.value


_Function = tuple[tuple[tuple[type, ...], ...], Callable[..., Value]]
_TEXT, _NUMBER = (str,), (int, float, str)
_AMOUNT = (Fraction,)
_ANY_ORDER = (Fraction, Version)

_FUNCTIONS: Final[dict[str, _Function]] = {
    "quantity": ((_TEXT,), _quantity),
    "isQuantity": ((_TEXT,), lambda text: _is(_quantity, text)),
    "semver": ((_TEXT,), version),
    "isSemver": ((_TEXT,), lambda text: _is(version, text)),
    "size": (((str, list, dict),), len),
    "int": ((_NUMBER,), _to_int),
    "double": ((_NUMBER,), _to_float),
    "string": (
        ((str, int, float, bool),),
        lambda v: str(v).lower() if v in (True, False) else str(v),
    ),
    "dyn": (((object,),), lambda value: value),
}
_METHODS: Final[dict[str, _Function]] = {
    "size": (((str, list, dict),), len),
    "startsWith": ((_TEXT, _TEXT), str.startswith),
    "endsWith": ((_TEXT, _TEXT), str.endswith),
    "contains": ((_TEXT, _TEXT), lambda text, part: part in text),
    "matches": ((_TEXT, _TEXT), _pattern),
    "lowerAscii": ((_TEXT,), str.lower),
    "upperAscii": ((_TEXT,), str.upper),
    "trim": ((_TEXT,), str.strip),
    "split": ((_TEXT, _TEXT), lambda text, by: text.split(by) if by else list(text)),
    "replace": ((_TEXT, _TEXT, _TEXT), _replaced),
    "indexOf": ((_TEXT, _TEXT), str.find),
    "compareTo": ((_ANY_ORDER, _ANY_ORDER), _order),
    "isGreaterThan": ((_ANY_ORDER, _ANY_ORDER), lambda left, right: left > right),
    "isLessThan": ((_ANY_ORDER, _ANY_ORDER), lambda left, right: left < right),
    "asInteger": ((_AMOUNT,), _whole),
    "isInteger": ((_AMOUNT,), lambda value: value.denominator == 1),
    "asApproximateFloat": ((_AMOUNT,), _to_float),
    "sign": ((_AMOUNT,), lambda value: (value > 0) - (value < 0)),
    "add": ((_AMOUNT, (Fraction, int)), lambda left, right: left + right),
    "sub": ((_AMOUNT, (Fraction, int)), lambda left, right: left - right),
    "major": (((Version,),), lambda value: value.major),
    "minor": (((Version,),), lambda value: value.minor),
    "patch": (((Version,),), lambda value: value.patch),
    "hasValue": (((Optional,),), lambda value: value.there),
    "value": (((Optional,),), _given),
    "orValue": (((Optional,), (object,)), lambda value, other: other),
    "or": (((Optional,), (object,)), lambda value, other: other),
}


def functions() -> Mapping[str, tuple[int, ...]]:
    """Functions that are known, and how many arguments they take."""
    return {name: (len(types),) for name, (types, _) in _FUNCTIONS.items()}


def methods() -> Mapping[str, tuple[int, ...]]:
    """Functions of a value that are known, and how many further arguments they take."""
    return {name: (len(types) - 1,) for name, (types, _) in _METHODS.items()}


def call(name: str, arguments: Sequence[Value], *, method: bool = False) -> Value:
    """Call a function. Raises CelError."""
    types, function = (_METHODS if method else _FUNCTIONS)[name]
    for value, allowed in zip(arguments, types, strict=True):
        if object not in allowed and (
            not isinstance(value, allowed) or (type(value) is bool and bool not in allowed)
        ):
            raise CelError(f"{name}() has no meaning here")
    if len({type(value) for value in arguments} & {Fraction, Version}) > 1:
        raise CelError(f"{name}() compares values of one kind")
    return function(*arguments)
