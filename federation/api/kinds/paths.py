"""Paths into JSON objects: names of fields, indices of lists, and `*` for every item of either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
Path = tuple[str, ...]
Place = tuple[str | int, ...]
"""A path without `*`: where something is."""

EACH = "*"


def path_of(text: str) -> Path:
    """`spec.podSets[*].template` or `.spec.replicas` as a path."""
    return tuple(part for part in text.replace("[*]", ".*").strip(".").split(".") if part)


def places(obj: Any, path: Path) -> Iterator[tuple[Place, Any]]:
    """What is at a path, with where it is; nothing where a field is absent or null."""
    if obj is None:
        return
    if not path:
        yield (), obj
        return
    first, rest = path[0], path[1:]
    for key, value in _items(obj, first):
        for place, found in places(value, rest):
            yield (key, *place), found


def _items(obj: Any, name: str) -> Iterator[tuple[str | int, Any]]:
    if isinstance(obj, dict):
        if name == EACH:
            yield from obj.items()
        elif name in obj:
            yield name, obj[name]
    elif isinstance(obj, list) and name == EACH:
        yield from enumerate(obj)


def first(obj: Any, path: Path, default: Any = None) -> Any:
    """The first thing at a path."""
    return next((value for _, value in places(obj, path)), default)


def mapping(obj: Any, path: Path) -> Json:
    """The object at a path; empty where there is none."""
    found = first(obj, path)
    return found if isinstance(found, dict) else {}


def mappings(obj: Any, path: Path) -> list[Json]:
    """The objects at a path; what is none is left out."""
    return [found for _, found in places(obj, path) if isinstance(found, dict)]


def number(obj: Any, path: Path, default: int) -> int:
    """A whole number at a path; `default` where none is that can be read."""
    value = first(obj, path, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def total(obj: Any, path: Path) -> int:
    """The sum of the whole numbers at a path."""
    found = (value for _, value in places(obj, path))
    return sum(n for n in found if isinstance(n, int) and not isinstance(n, bool))


def put(obj: Any, place: Place, value: Any) -> Any:
    """The object with something else at a place; what is on the way to it is copied, and made
    where it is missing. `None` takes a field away.
    """
    if not place:
        return value
    key, rest = place[0], place[1:]
    if isinstance(key, int):
        items = list(obj)
        items[key] = put(items[key], rest, value)
        return items
    known = obj if isinstance(obj, dict) else {}
    if not rest and value is None:
        return {name: item for name, item in known.items() if name != key}
    return {**known, key: put(known.get(key), rest, value)}
