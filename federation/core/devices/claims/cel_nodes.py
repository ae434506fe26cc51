"""What parsed CEL expressions are made of: functions of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from federation.core.devices.claims.cel_values import (
    CelError,
    Optional,
    Value,
    arithmetic,
    call,
    compared,
    equal,
    index,
    negative,
    optional_index,
    select,
)

MOST_STEPS: Final = 20_000
"""Steps that one evaluation may take; only nested macros come near."""


class Run:
    """One evaluation: the names that are known, and how many steps are left."""

    __slots__ = ("left", "names")

    def __init__(self, names: Mapping[str, Value]) -> None:
        self.names, self.left = dict(names), MOST_STEPS

    def step(self) -> None:
        """Count one."""
        self.left -= 1
        if self.left < 0:
            raise CelError("the expression takes too long")


Node = Callable[[Run], Value]


def key_of(value: Value) -> str | int | bool:
    if not isinstance(value, str | int | bool):
        raise CelError("a key is a string, a number or a boolean")
    return value


def constant(value: Value) -> Node:
    return lambda run: value


def listed(parts: list[Node]) -> Node:
    return lambda run: [part(run) for part in parts]


def conditional(test: Node, yes: Node, no: Node) -> Node:
    def run_it(run: Run) -> Value:
        found = test(run)
        if not isinstance(found, bool):
            raise CelError("the condition before ? is neither true nor false")
        return yes(run) if found else no(run)

    return run_it


def decided(parts: list[Node], winner: bool) -> Node:
    """`||` (winner True) or `&&`: the first part that is the winner decides, errors or not."""

    def run_it(run: Run) -> Value:
        failed: CelError | None = None
        for part in parts:
            run.step()
            try:
                found = part(run)
                if not isinstance(found, bool):
                    raise CelError("&& and || are for what is true or false")
            except CelError as error:
                failed = failed or error
                continue
            if found is winner:
                return winner
        if failed is not None:
            raise failed
        return not winner

    return run_it


def folded(first: Node, rest: list[tuple[str, Node]]) -> Node:
    def run_it(run: Run) -> Value:
        value = first(run)
        for op, part in rest:
            run.step()
            value = _applied(op, value, part(run))
        return value

    return run_it


def _applied(op: str, left: Value, right: Value) -> Value:
    if op == "==":
        return equal(left, right)
    if op == "!=":
        return not equal(left, right)
    if op == "in":
        return _contains(right, left)
    if op in ("<", "<=", ">", ">="):
        return compared(op, left, right)
    return arithmetic(op, left, right)


def _contains(holder: Value, item: Value) -> bool:
    if isinstance(holder, Mapping):
        return item in holder if isinstance(item, str | int) else False
    if isinstance(holder, list):
        return any(equal(item, entry) for entry in holder)
    raise CelError("in is for lists and maps")


def prefixed(marks: list[str], node: Node) -> Node:
    def run_it(run: Run) -> Value:
        value = node(run)
        for mark in marks:
            if mark == "-":
                value = negative(value)
            elif isinstance(value, bool):
                value = not value
            else:
                raise CelError("! is for what is true or false")
        return value

    return run_it


def stepped(node: Node, steps: list[Callable[[Run, Value], Value]]) -> Node:
    def run_it(run: Run) -> Value:
        value = node(run)
        for step in steps:
            run.step()
            value = step(run, value)
        return value

    return run_it


def selecting(name: str) -> Callable[[Run, Value], Value]:
    return lambda run, value: select(value, name)


def optional_selecting(name: str) -> Callable[[Run, Value], Value]:
    return lambda run, value: optional_index(value, name)


def indexing(key: Node, *, optional: bool) -> Callable[[Run, Value], Value]:
    if optional:
        return lambda run, value: optional_index(value, key(run))
    return lambda run, value: index(value, key(run))


def calling(name: str, arguments: list[Node]) -> Callable[[Run, Value], Value]:
    if name in ("orValue", "or"):  # what stands in is looked at only where it is needed

        def stand_in(run: Run, value: Value) -> Value:
            if not isinstance(value, Optional):
                raise CelError(f"{name}() is for optional values")
            if not value.there:
                return arguments[0](run)
            return value.value if name == "orValue" else value

        return stand_in
    return lambda run, value: call(name, [value, *(part(run) for part in arguments)], method=True)


def bound(run: Run, name: str, value: Value, body: Node) -> Value:
    before = run.names.get(name)
    known = name in run.names
    run.names[name] = value
    try:
        return body(run)
    finally:
        if known:
            run.names[name] = before
        else:
            del run.names[name]


def over(name: str, variable: str, body: list[Node]) -> Callable[[Run, Value], Value]:
    """A macro over the items of a list or the keys of a map."""

    def each(run: Run, value: Value) -> Value:
        if not isinstance(value, list | Mapping):
            raise CelError(f"{name}() is for lists and maps")
        items = list(value)
        if name in ("all", "exists"):
            tests = [_with(variable, item, body[0]) for item in items]
            return decided(tests, name == "exists")(run)
        results = [bound(run, variable, item, body[0]) for item in _counted(run, items)]
        if name == "map" and len(body) == 1:
            return results
        if not all(isinstance(result, bool) for result in results):
            raise CelError(f"the test in {name}() is neither true nor false")
        kept = [item for item, result in zip(items, results, strict=True) if result]
        if name == "map":
            return [bound(run, variable, item, body[1]) for item in kept]
        return kept if name == "filter" else len(kept) == 1

    return each


def _counted(run: Run, items: list[Value]) -> list[Value]:
    for _ in items:
        run.step()
    return items


def _with(variable: str, item: Value, body: Node) -> Node:
    return lambda run: bound(run, variable, item, body)
