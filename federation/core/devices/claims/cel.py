"""CEL expressions that choose devices: parsed once, then asked of each device.

What Kubernetes documents for device selectors is understood: `device.driver`, `.attributes`,
`.capacity` and `.allowMultipleAllocations`, the operators, the macros, quantities, versions and
the usual functions of strings. Anything else is refused when the expression is read. `&&` and `||`
overlook an error on one side if the other side decides, as CEL has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from federation.core.devices.claims.cel_nodes import (
    Node,
    Run,
    bound,
    calling,
    conditional,
    constant,
    decided,
    folded,
    indexing,
    key_of,
    listed,
    optional_selecting,
    over,
    prefixed,
    selecting,
    stepped,
)
from federation.core.devices.claims.cel_syntax import CelSyntaxError, Token, tokens
from federation.core.devices.claims.cel_values import (
    CelError,
    Value,
    call,
    device_value,
    functions,
    has,
    methods,
)
from federation.core.devices.claims.claims import Device

__all__ = ["CelError", "CelSyntaxError", "Selector", "selector"]

DEEPEST: Final = 30
"""Levels of nesting of an expression."""


class Selector:
    """One expression, ready to be asked."""

    def __init__(self, text: str) -> None:
        """Raises CelSyntaxError."""
        self.text = text
        self._root = _Parser(text).whole()

    def matches(self, device: Device) -> bool:
        """Whether it holds for a device. Raises CelError where it cannot be told."""
        found = self._root(Run({"device": device_value(device)}))
        if not isinstance(found, bool):
            raise CelError("the expression does not say yes or no")
        return found


@lru_cache(maxsize=1024)
def selector(text: str) -> Selector:
    """An expression, parsed once. Raises CelSyntaxError."""
    return Selector(text)


_RELATIONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
_MACROS: Final = frozenset(("all", "exists", "exists_one", "existsOne", "filter", "map"))


class _Parser:
    """Recursive descent; what is built are functions of a Run. Chains are loops, not recursion."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0
        self._names = ["device"]

    def whole(self) -> Node:
        node = self._expression()
        if self._peek.kind != "end":
            raise self._unexpected()
        return node

    # Tokens

    @property
    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _unexpected(self) -> CelSyntaxError:
        token = self._peek
        what = "the end" if token.kind == "end" else repr(str(token.value))
        return CelSyntaxError(f"unexpected {what} at character {token.at + 1}")

    def _is(self, *ops: str) -> str:
        """The operator that comes next if it is one of these, else ''."""
        token = self._peek
        wanted = token.kind == "op" or (token.kind == "name" and token.value == "in")
        return str(token.value) if wanted and token.value in ops else ""

    def _take(self, *ops: str) -> str:
        found = self._is(*ops)
        if found:
            self._at += 1
        return found

    def _need(self, op: str) -> None:
        if not self._take(op):
            raise self._unexpected()

    def _name(self) -> str:
        token = self._peek
        if token.kind != "name":
            raise self._unexpected()
        self._at += 1
        return str(token.value)

    # Operators, loosest first

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise CelSyntaxError(f"it is nested deeper than {DEEPEST} levels")
        node = self._either()
        if self._take("?"):
            node = conditional(node, self._either(), self._otherwise())
        self._depth -= 1
        return node

    def _otherwise(self) -> Node:
        self._need(":")
        return self._expression()

    def _either(self) -> Node:
        return self._logic("||", self._both)

    def _both(self) -> Node:
        return self._logic("&&", self._relation)

    def _logic(self, op: str, operand: Callable[[], Node]) -> Node:
        parts = [operand()]
        while self._take(op):
            parts.append(operand())
        return parts[0] if len(parts) == 1 else decided(parts, op == "||")

    def _relation(self) -> Node:
        return self._chain(self._sum, tuple(_RELATIONS))

    def _sum(self) -> Node:
        return self._chain(self._product, ("+", "-"))

    def _product(self) -> Node:
        return self._chain(self._unary, ("*", "/", "%"))

    def _chain(self, operand: Callable[[], Node], ops: tuple[str, ...]) -> Node:
        first, rest = operand(), []
        while op := self._take(*ops):
            rest.append((op, operand()))
        return folded(first, rest) if rest else first

    def _unary(self) -> Node:
        marks: list[str] = []
        while mark := self._take("!", "-"):
            marks.append(mark)
        node = self._member()
        return prefixed(marks[::-1], node) if marks else node

    # Members, calls, literals

    def _member(self) -> Node:
        node = self._primary()
        steps: list[Callable[[Run, Value], Value]] = []
        while op := self._take(".", ".?", "[", "[?"):
            if op in ("[", "[?"):
                key = self._expression()
                self._need("]")
                steps.append(indexing(key, optional=op == "[?"))
                continue
            name = self._name()
            if op == ".?":
                steps.append(optional_selecting(name))
            elif not self._take("("):
                steps.append(selecting(name))
            elif name in _MACROS:
                steps.append(self._macro(name))
            else:
                steps.append(calling(name, self._arguments(methods(), name)))
        return stepped(node, steps) if steps else node

    def _arguments(self, known: Mapping[str, tuple[int, ...]], name: str) -> list[Node]:
        if name not in known:
            raise CelSyntaxError(f"{name}() is not known here")
        found = self._listed(")")
        if len(found) not in known[name]:
            raise CelSyntaxError(f"{name}() does not take {len(found)} arguments")
        return found

    def _listed(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self._take(end):
            found.append(self._expression())
            if not self._is(end):
                self._need(",")
        return found

    def _macro(self, name: str) -> Callable[[Run, Value], Value]:
        variable = self._name()
        self._need(",")
        self._names.append(variable)
        body = [self._expression()]
        if name == "map" and self._take(","):
            body.append(self._expression())
        self._names.pop()
        self._need(")")
        return over(name, variable, body)

    def _primary(self) -> Node:
        token = self._peek
        if token.kind in ("int", "float", "string"):
            self._at += 1
            return constant(token.value)
        if token.kind == "name" and token.value != "in":
            return self._named(self._name())
        if self._take("("):
            node = self._expression()
            self._need(")")
            return node
        if self._take("["):
            return listed(self._listed("]"))
        if self._take("{"):
            return self._mapping()
        raise self._unexpected()

    def _named(self, name: str) -> Node:
        if name in ("true", "false", "null"):
            return constant({"true": True, "false": False, "null": None}[name])
        if name == "cel" and self._take("."):
            return self._binding()
        if self._take("("):
            if name == "has":
                return self._presence()
            arguments = self._arguments(functions(), name)
            return lambda run: call(name, [argument(run) for argument in arguments])
        if name not in self._names:
            raise CelSyntaxError(f"{name} is not known here: what there is is called device")
        return lambda run: run.names[name]

    def _presence(self) -> Node:
        start = self._at
        node = self._member_without_last()
        if node is None:
            self._at = start
            raise CelSyntaxError("has() takes a field, such as has(device.attributes['d'].name)")
        operand, name = node
        self._need(")")
        return lambda run: has(operand(run), name)

    def _member_without_last(self) -> tuple[Node, str] | None:
        """The operand and the last field of `a.b.c`, up to the closing bracket."""
        operand = self._primary()
        steps: list[Callable[[Run, Value], Value]] = []
        while op := self._take(".", "["):
            if op == "[":
                key = self._expression()
                self._need("]")
                steps.append(indexing(key, optional=False))
                continue
            name = self._name()
            if self._is(")"):
                return stepped(operand, steps), name
            steps.append(selecting(name))
        return None

    def _binding(self) -> Node:
        if self._name() != "bind":
            raise CelSyntaxError("of cel only cel.bind() is known here")
        self._need("(")
        name = self._name()
        self._need(",")
        value = self._expression()
        self._need(",")
        self._names.append(name)
        body = self._expression()
        self._names.pop()
        self._need(")")
        return lambda run: bound(run, name, value(run), body)

    def _mapping(self) -> Node:
        entries: list[tuple[Node, Node]] = []
        while not self._take("}"):
            key = self._expression()
            self._need(":")
            entries.append((key, self._expression()))
            if not self._is("}"):
                self._need(",")
        return lambda run: {key_of(key(run)): value(run) for key, value in entries}
