"""What makes frozen dataclasses faster in the simulation changes nothing of them."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from typing import Any

import pytest

import bench.dst.run  # noqa: F401  loads the programs
from bench.dst.frozen import PROGRAMS, quick_init, replaced, suits
from federation.core.failover import Standing, Timings


def frozen() -> list[type]:
    found = {
        thing: None
        for name, module in list(sys.modules.items())
        if name.startswith(PROGRAMS)
        for thing in vars(module).values()
        if isinstance(thing, type) and suits(thing)
    }
    return list(found)


def parameters(init: Any) -> list[tuple[str, Any]]:
    return [(p.name, p.kind) for p in inspect.signature(init).parameters.values()]


def test_many_classes_suit() -> None:
    assert len(frozen()) > 100
    assert Standing in frozen()


@pytest.mark.parametrize("cls", frozen(), ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_a_quick_init_makes_the_same_object(cls: Any) -> None:
    quick = quick_init(cls)
    assert parameters(quick) == parameters(cls.__init__)
    needed = {
        field.name: object()
        for field in dataclasses.fields(cls)
        if field.default is field.default_factory is dataclasses.MISSING
    }
    made = object.__new__(cls)
    quick(made, **needed)
    known = cls(**needed)
    for field in dataclasses.fields(cls):
        left, right = getattr(made, field.name), getattr(known, field.name)
        fresh = field.default_factory is not dataclasses.MISSING  # it need not be comparable
        assert type(left) is type(right) if fresh else left == right


@pytest.mark.parametrize("obj", [Standing("a", 3), Timings()])
def test_replaced_is_replace(obj: Any) -> None:
    field = dataclasses.fields(obj)[-1].name
    change = {field: getattr(obj, field)}
    assert replaced(obj, **change) == dataclasses.replace(obj, **change) == obj
    assert replaced(obj) is not obj


def test_replaced_refuses_a_field_that_there_is_not() -> None:
    with pytest.raises(TypeError, match="nonsense"):
        replaced(Standing("a"), nonsense=1)
