"""Makes a scenario that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.reference.scenario import Json

Path = tuple[Any, ...]


def shrink(scenario: Json, fails: Callable[[Json], bool], tries: int = 4000) -> Json:
    """The smallest scenario found with at most so many tries."""
    smallest, left = scenario, tries
    progress = True
    while progress:
        progress = False
        for change in changes(smallest):
            left -= 1
            if left < 0:
                return smallest
            smaller = copy.deepcopy(smallest)
            change(smaller)
            if fails(smaller):
                smallest, progress = smaller, True
                break
    return smallest


def changes(scenario: Json) -> Iterator[Callable[[Json], None]]:
    """Ways to make it smaller, the most rewarding first."""
    steps = len(scenario["steps"])
    size = steps
    while size >= 1:
        for start in range(steps - size, -1, -1):
            yield _without_steps(start, size)
        size //= 2
    for kind in ("jobs", "queues", "cohorts", "flavors"):
        for name in scenario[kind]:
            yield _without_object(kind, name)
    for kind in ("jobs", "queues", "cohorts", "flavors", "rules"):
        yield from _simpler(scenario[kind], (kind,))


def _without_steps(start: int, size: int) -> Callable[[Json], None]:
    def change(scenario: Json) -> None:
        del scenario["steps"][start : start + size]

    return change


def _without_object(kind: str, name: str) -> Callable[[Json], None]:
    def change(scenario: Json) -> None:
        del scenario[kind][name]
        if kind == "jobs":
            scenario["steps"] = [s for s in scenario["steps"] if s != ["arrive", name]]
        if kind == "queues":
            gone = [job for job, data in scenario["jobs"].items() if data["queue"] == name]
            for job in gone:
                _without_object("jobs", job)(scenario)
            scenario["steps"] = [s for s in scenario["steps"] if s[:3] != ["edit", kind, name]]

    return change


def _simpler(value: Any, path: Path) -> Iterator[Callable[[Json], None]]:
    """Fields left out, list items left out, numbers lowered; but objects stay valid."""
    if isinstance(value, dict):
        for key in value:
            if len(path) > 1 and "groups" not in path and key not in ("queue", "pods", "name"):
                yield _edit(path, partial(_pop, key=key))
        for key, inner in value.items():
            yield from _simpler(inner, (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            if len(value) > 1 and not _is_record(path):
                yield _edit(path, partial(_pop, key=index))
        for index, inner in enumerate(value):
            yield from _simpler(inner, (*path, index))
    elif isinstance(value, int) and not isinstance(value, bool) and value not in (0, 1):
        for lower in {0, 1, value - 1 if value > 0 else value + 1}:
            yield _edit(path[:-1], partial(_set, key=path[-1], value=lower))


def _is_record(path: Path) -> bool:
    """Whether the items of a list have their places: taints, tolerations, terms, quotas."""
    lists = ("taints", "tolerations", "affinity", "groups")
    return any(name in path and path[-1] != name for name in lists)


def _pop(container: Any, key: Any) -> None:
    del container[key]


def _set(container: Any, key: Any, value: Any) -> None:
    container[key] = value


def _edit(path: Path, change: Callable[[Any], object]) -> Callable[[Json], None]:
    def edit(scenario: Json) -> None:
        at: Any = scenario
        for key in path:
            at = at[key]
        change(at)

    return edit
