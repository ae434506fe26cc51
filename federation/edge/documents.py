"""YAML and JSON text as documents of plain JSON values, each value with its line.

Read as Kubernetes does: a date is a text, a key is a text, a key stands once in a mapping. What
would grow without bound when written out (aliases of aliases, aliases of themselves) is refused
before anything is built from it. Faults are values, so that the other documents are still read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from federation.api.problems import Path

MOST_VALUES: Final = 1_000_000
"""Of one document, with every alias written out."""
_LONGEST_NUMBER: Final = 100
"""Characters; Python refuses to read numbers of thousands of digits."""
_TAG: Final = "tag:yaml.org,2002:"
_DATE: Final = _TAG + "timestamp"
_MERGE: Final = _TAG + "merge"
_PLAIN: Final = ("null", "bool", "int", "float", "str", "seq", "map")


@dataclass(frozen=True, slots=True)
class Fault:
    """Text that is not a document. `last`: nothing can be read after it."""

    line: int
    column: int
    message: str
    last: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """One value of the stream. `line` counts from 1."""

    body: Any
    line: int
    node: yaml.Node

    def line_of(self, path: Path) -> int:
        """The line of a field, or of the nearest field above it that is there."""
        return locate(self.node, path) or self.line

    def items(self) -> Iterator[Document]:
        """Itself, or the items when it is a Kubernetes List."""
        items = self.body.get("items") if isinstance(self.body, dict) else None
        if not (isinstance(items, list) and str(self.body.get("kind", "")).endswith("List")):
            yield self
            return
        for body, node in zip(items, _values(self.node, "items"), strict=False):
            yield Document(body, node.start_mark.line + 1, node)


class _Loader(yaml.SafeLoader):
    """Values that JSON has, and no others."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        return {_key(key): self.construct_object(value, deep=True) for key, value in node.value}


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _unlike_json(node, "a key must be a text, this is a mapping or a list")
    return str(node.value)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    if len(node.value) <= _LONGEST_NUMBER:
        value = yaml.SafeLoader.construct_yaml_int(loader, node)
        if abs(value) < 2**63:
            return value
    raise _unlike_json(node, "a whole number that does not fit 64 bits: shorten it, or quote it")


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    value = yaml.SafeLoader.construct_yaml_float(loader, node)
    if not math.isfinite(value):
        raise _unlike_json(node, "JSON has no such number: quote it if it is a text")
    return value


def _unlike_json(node: yaml.Node, message: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _resolvers() -> dict[Any, list[tuple[str, re.Pattern[str]]]]:
    """What plain scalars are; unlike YAML 1.1, 1:30 is a text and not ninety."""
    number = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
    fraction = re.compile(
        r"[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?"
        r"|\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$"
    )
    own = {_TAG + "int": number, _TAG + "float": fraction}
    return {
        first: [(tag, own.get(tag, regexp)) for tag, regexp in found if tag != _DATE]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.yaml_implicit_resolvers = _resolvers()
_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in _PLAIN
} | {_TAG + "int": _integer, _TAG + "float": _float}


def documents(text: str) -> Iterator[Document | Fault]:
    """Each document of a stream; empty ones are left out."""
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:  # characters that YAML does not have
        yield _fault(error, last=True)
        return
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            yield from _document(loader, node)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        yield _fault(error, last=True)
    finally:
        loader.dispose()


def _document(loader: _Loader, node: yaml.Node) -> Iterator[Document | Fault]:
    line = node.start_mark.line + 1
    faults = list(_unfit(node))
    if faults:
        yield from faults
        return
    try:
        body = loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        yield _fault(error, line)
        return
    if body is not None:
        yield Document(body, line, node)


def _fault(error: Exception, line: int = 1, *, last: bool = False) -> Fault:
    """The error in one line; `line` is used when it names no place."""
    if isinstance(error, RecursionError):
        return Fault(line, 1, "it is nested too deeply", last)
    if not isinstance(error, yaml.MarkedYAMLError):
        return Fault(line, 1, str(error).splitlines()[0], last)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (line, 1)
    return Fault(line, column, " ".join(filter(None, (error.context, error.problem))), last)


def _unfit(root: yaml.Node) -> Iterator[Fault]:
    """Why no value may be built from these nodes."""
    sizes: dict[yaml.Node, int] = {}
    try:
        size = _size(root, sizes)
    except _Endless as endless:
        mark = endless.node.start_mark
        yield Fault(mark.line + 1, mark.column + 1, "an alias stands for something that holds it")
        return
    if size > MOST_VALUES:
        mark = root.start_mark
        message = f"with its aliases written out it has more than {MOST_VALUES} values"
        yield Fault(mark.line + 1, mark.column + 1, message)
        return
    for node in sizes:
        if isinstance(node, yaml.MappingNode):
            yield from _repeated(node)


class _Endless(Exception):
    def __init__(self, node: yaml.Node) -> None:
        super().__init__()
        self.node = node


def _size(node: yaml.Node, sizes: dict[yaml.Node, int]) -> int:
    """How many values there are below `node`, counting what is shared as often as it is named."""
    if node in sizes:
        if not sizes[node]:
            raise _Endless(node)
        return sizes[node]
    sizes[node] = 0  # being counted: to come back here is to go in a circle
    below: Sequence[Any] = () if isinstance(node, yaml.ScalarNode) else node.value
    if isinstance(node, yaml.MappingNode):
        below = [part for pair in below for part in pair]
    total = 1 + sum(_size(part, sizes) for part in below)
    sizes[node] = total
    return total


def _repeated(node: yaml.MappingNode) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        line = key.start_mark.line + 1
        if key.value in seen:
            message = f"the key {key.value!r} is there twice (first in line {seen[key.value]})"
            yield Fault(line, key.start_mark.column + 1, message)
        seen.setdefault(key.value, line)


def locate(node: yaml.Node, path: Path) -> int:
    """Line of the deepest part of `path` that is below `node`; 0 when not even the first is."""
    line = 0
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next((p for p in node.value if p[0].value == part), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                return line
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _values(node: yaml.Node, key: str) -> list[yaml.Node]:
    """Nodes of the list below `key`."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key and isinstance(value, yaml.SequenceNode):
                return list(value.value)
    return []
