"""What is wrong with an object, in sentences: pydantic's errors and fields nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from federation.api import fields

Path = tuple[str | int, ...]
"""Field names as they are on the wire, and positions in lists."""

_SENTENCES = {
    fields.QUALIFIED_NAME_PATTERN: (
        "it cannot be a label key or resource name: letters, digits, '-', '_' and '.' of ASCII,"
        " at most 63 of them, with a letter or digit at both ends, after an optional DNS prefix/"
    ),
    fields.LABEL_VALUE_PATTERN: (
        "it cannot be a label value: at most 63 ASCII letters, digits, '-', '_' and '.', with a"
        " letter or digit at both ends"
    ),
    fields.DNS_SUBDOMAIN_PATTERN: (
        "it cannot be a name: use a-z, 0-9, '-' and '.', with a letter or digit at both ends"
    ),
    fields.DNS_LABEL_PATTERN: (
        "it cannot be a name: use a-z, 0-9 and '-', with a letter or digit at both ends"
    ),
    fields.QUANTITY_PATTERN: (
        "it is not a quantity of zero or more: write for example 500m, 2, 16Gi"
    ),
}
"""Pattern of `fields` to what a person has to know of it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A field, and what is wrong with it or known of it."""

    path: Path
    message: str

    def __str__(self) -> str:
        place = dotted(self.path)
        return f"{place}: {self.message}" if place else self.message


def dotted(path: Iterable[str | int]) -> str:
    """`spec.groups[0].name`; keys that hold dots or slashes in brackets."""
    text = ""
    for part in path:
        plain = isinstance(part, str) and part.isidentifier()
        text += f".{part}" if plain else f"[{part}]"
    return text.lstrip(".")


def problems(error: ValidationError) -> list[Problem]:
    """Each bad value once, with the path that a person knows from the file.

    A value that fits no branch of a union is one problem, not one per branch.
    """
    found: dict[Path, Problem] = {}
    for item in error.errors(include_url=False):
        path, value = _wire_path(item["loc"]), item.get("input")
        said = _sentence(item["type"], item["msg"], item.get("ctx") or {})
        shown = "" if item["type"] in ("missing", "value_error") else f"{_short(value)}: "
        if path in found and item["type"] != "string_pattern_mismatch":
            continue  # the branch with a pattern says most
        found[path] = Problem(path, shown + said)
    return list(found.values())


def _wire_path(loc: Sequence[str | int]) -> Path:
    """pydantic's location without the names of union branches and of its own checks."""
    parts: list[str | int] = []
    for part in loc:
        if part == "[key]" or (isinstance(part, str) and part in _BRANCHES):
            continue
        if isinstance(part, str) and "[" in part:
            continue
        parts.append(part)
    return tuple(parts)


_BRANCHES = frozenset({"int", "str", "float", "bool", "constrained-int", "constrained-str"})


def _sentence(kind: str, message: str, context: dict[str, object]) -> str:
    if kind == "missing":
        return "it is required"
    pattern = context.get("pattern")
    if kind == "string_pattern_mismatch" and pattern in _SENTENCES:
        return _SENTENCES[str(pattern)]
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return "a mapping (key: value) is expected"
    if kind == "list_type":
        return "a list (- item) is expected"
    if kind == "int_from_float":
        return "a number with a fraction must be written as text, in quotes"
    if kind == "too_short":
        return f"it needs {context.get('min_length')} or more items"
    if kind == "too_long":
        return f"it may have {context.get('max_length')} items at most"
    return message.removeprefix("Value error, ").replace("Input should", "it should", 1)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def unknown_fields(model: BaseModel, path: Path = ()) -> Iterator[Problem]:
    """Fields that no model knows, each with the nearest one that is known.

    A model may list in `others` names that it knows without looking at the fields.
    """
    others: frozenset[str] = getattr(type(model), "others", frozenset())
    known = [field.alias or name for name, field in type(model).model_fields.items()]
    for name in sorted((model.model_extra or {}).keys() - others):
        yield Problem((*path, name), f"there is no such field{suggest(name, [*known, *others])}")
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        here = (*path, field.alias or name)
        if isinstance(value, BaseModel):
            yield from unknown_fields(value, here)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from unknown_fields(item, (*here, index))


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing when nothing is near."""
    spelled = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), spelled, n=1)
    return f"; did you mean {spelled[close[0]]}?" if close else ""
